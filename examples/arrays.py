"""Images that are arrays already: 30 labels of scikit-learn's digits, the rest unlabelled."""

import numpy as np
from sklearn.datasets import load_digits

from fewlabel import FewLabelClassifier, few_label_split

digits = load_digits()
images = (digits.images * 255 / 16).astype(np.uint8)  # (1797, 8, 8)
labelled = few_label_split(digits.target, per_class=3, seed=0)
y = np.full(len(images), -1)
y[labelled] = digits.target[labelled]

model = FewLabelClassifier(steps=200, random_state=0, verbose=1).fit(images, y)
unlabelled = y == -1
print(f"{(model.transduction_ == digits.target)[unlabelled].mean():.1%} of the unlabelled images are labelled rightly")
