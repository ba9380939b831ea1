"""A table of numbers: five labelled wines of each kind, in a pipeline, beside scikit-learn's LabelSpreading."""

import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading

from fewlabel import FewLabelClassifier, few_label_split

X, y = load_wine(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
labelled = few_label_split(y_train, per_class=5, seed=0)
known = np.full(len(y_train), -1)
known[labelled] = y_train[labelled]

for model in (LabelSpreading(kernel="knn"), FewLabelClassifier(steps=300, random_state=0)):
    pipeline = make_pipeline(StandardScaler(), model).fit(X_train, known)
    print(f"{type(model).__name__}: {pipeline.score(X_test, y_test):.1%}")
