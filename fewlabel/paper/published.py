"""The figures that the paper printed: Yang et al., https://arxiv.org/abs/2202.11915. Accuracies in percent.

PUBLISHED[exhibit][data set][method] = one entry for each number of labels: the mean, or the mean and the standard
deviation.
"""

from typing import Any

LABELS: dict[str, dict[str, tuple[int, ...]]] = {
    "table1": {"cifar10": (30, 40, 250, 500, 1000)},
    "table4": {"cifar10": (20, 30, 40)},
    "table5": {"cifar100": (200, 400, 800), "svhn": (250, 500, 1000)},
    "table6": {"cifar10": (40, 250, 500, 1000)},
    "table7": {"cifar10": (20, 40)},
}

PUBLISHED: dict[str, dict[str, dict[str, tuple[Any, ...]]]] = {
    "table1": {
        "cifar10": {
            "mixmatch": (50.1, 59.08, 86.47, 89.33, 90.79),
            "mean-teacher": (24.51, 24.93, 52.49, 70.15, 80.12),
        }
    },
    "table4": {
        "cifar10": {
            "mean-teacher": ((21.79, 0.57), (24.51, 0.35), (24.93, 0.62)),
            "mixmatch": ((38.51, 8.48), (50.1, 5.81), (59.08, 3.04)),
            "fixmatch": ((72.63, 5.37), (86.65, 3.56), (89.69, 4.58)),
            "comatch": ((83.43, 9.2), (88.68, 3.79), (90.14, 2.86)),
            "icl-ssl": ((88.73, 5.69), (90.3, 3.1), (91.78, 2.23)),
        }
    },
    "table5": {
        "cifar100": {
            "pi-model": ((8.53, 0.25), (11.67, 0.37), (17.64, 1.06)),
            "mean-teacher": ((7.11, 0.06), (11.54, 0.28), (17.82, 0.09)),
            "mixmatch": ((4.55, 0.45), (17.68, 0.07), (26.75, 1.13)),
            "fixmatch": ((9.31, 0.08), (24.44, 0.35), (28.12, 0.3)),
            "icl-ssl": ((14.06, 0.52), (26.52, 1.2), (33.81, 0.63)),
        },
        "svhn": {
            "pi-model": ((42.66, 0.91), (53.33, 1.39), (65.9, 0.03)),
            "mean-teacher": ((42.7, 1.79), (55.71, 0.53), (67.71, 1.22)),
            "mixmatch": ((92.12, 0.06), (94.53, 0.43), (95.13, 0.04)),
            "fixmatch": ((95.45, 0.07), (95.73, 0.15), (95.94, 0.1)),
            "icl-ssl": ((95.58, 0.14), (95.8, 0.12), (96.05, 0.14)),
        },
    },
    "table6": {
        "cifar10": {
            "vat": (20.0, 34.0, 47.0, 61.0),
            "vat+icl": (23.0, 41.0, 48.0, 66.0),
            "mixmatch": (57.86, 86.06, 87.0, 90.46),
            "mixmatch+icl": (61.88, 86.5, 89.14, 91.56),
            "mean-teacher": (24.86, 42.88, 53.4, 66.98),
            "mean-teacher+icl": (26.24, 45.58, 54.9, 68.48),
        }
    },
    "table7": {
        "cifar10": {
            "icl-ssl": (88.73, 91.78),
            "fixmatch": (72.63, 89.69),
            "fixmatch+aug-contrast": (56.91, 70.89),
        }
    },
}
# Table 8: seconds of training and of inference, (mean, standard deviation), CIFAR-10 with 20 labels on a GTX 1080 Ti.
SECONDS = {
    "mixmatch": ((121.5, 0.21), (0.6, 0.13)),
    "fixmatch": ((155.37, 0.1), (3.46, 0.07)),
    "comatch": ((571.65, 0.15), (1.3, 0.03)),
    "icl-ssl": ((193.81, 0.14), (1.08, 0.62)),
}
# Table 3: side of the images, training images, test images, classes.
DATA_SETS = {
    "svhn": (32, 73257, 26032, 10),
    "mnist": (28, 60000, 10000, 10),
    "cifar10": (32, 50000, 10000, 10),
    "cifar100": (32, 50000, 10000, 100),
}
