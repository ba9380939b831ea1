from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fewlabel import Recipe, UserError, load
from fewlabel.data import Dataset
from fewlabel.plan import default_network, fingerprint, make_plan


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load("digits")


def test_defaults(digits: Dataset) -> None:
    plan = make_plan(Recipe(labels_per_class=3, device="cpu"), digits)
    assert (plan.network, plan.flip, plan.steps, plan.precision) == ("wrn-10-1", False, 2000, torch.float32)
    assert digits.train.labels[plan.labelled].bincount().tolist() == [3] * 10


def test_default_network_follows_device_and_size() -> None:
    assert default_network(torch.device("cpu"), 8) == "wrn-10-1"
    assert default_network(torch.device("cpu"), 28) == "cnn"
    assert default_network(torch.device("cuda"), 28) == "wrn-28-2"


def test_every_known_label_is_used_where_no_number_is_given(digits: Dataset) -> None:
    labels = digits.train.labels.clone()
    labels[60:] = -1
    few = replace(digits, train=replace(digits.train, labels=labels))
    assert make_plan(Recipe(), few).labelled.tolist() == list(range(60))


def test_a_class_without_a_label(digits: Dataset) -> None:
    labels = digits.train.labels.clone()
    labels[labels == 4] = -1
    with pytest.raises(UserError, match="class '4' of digits has no labelled image"):
        make_plan(Recipe(), replace(digits, train=replace(digits.train, labels=labels)))


def test_fingerprint_notices_changes(digits: Dataset) -> None:
    train = digits.train
    relabelled = train.labels.clone()
    relabelled[0] = (relabelled[0] + 1) % 10
    prints = [
        fingerprint(train),
        fingerprint(replace(train, labels=relabelled)),
        fingerprint(replace(train, names=["other", *train.names[1:]])),
        fingerprint(replace(train, pixels=train.pixels[:, :, :4])),
    ]
    assert len(set(prints)) == 4
    assert fingerprint(load("digits").train) == prints[0]


def test_default_directory() -> None:
    assert Recipe(data="photos/", seed=3).directory == Path("runs/photos-icl-ssl-3")
    assert Recipe(out="here").directory == Path("here")
