"""One thread: tests run beside each other, and the nets are too small for more. Files that take long go first."""

import pytest
import torch

torch.set_num_threads(1)

LONG = (
    "test_ranks",
    "test_browser",
    "test_encoded_runs",
    "test_train",
    "test_examples",
    "test_paper",
    "test_drift",
    "test_docs",
    "test_cluster",
    "test_grid",
    "test_methods_typed",
    "test_demo",
    "test_round",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Else one of two workers would be left alone with them in the end."""
    items.sort(key=lambda item: item.path.stem not in LONG)
