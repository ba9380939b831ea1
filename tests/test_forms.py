"""Every candidate of bench/candidates.py takes a few steps, so that a long measurement does not end in a mistake."""

import pytest
import torch

from bench import forms
from bench.candidates import CANDIDATES, FixMix, HalfMix
from fewlabel import METHODS, load
from fewlabel.data import Dataset, Vectors
from fewlabel.methods import TERMS


@pytest.fixture(autouse=True)
def few_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "SETS", {name: (labels, 2000) for name, (labels, _) in forms.SETS.items()})


@pytest.mark.parametrize("candidate", CANDIDATES)
@pytest.mark.parametrize("kind", ["images", "rows"])
def test_every_candidate_trains(candidate: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    digits, threads = load("digits"), torch.get_num_threads()
    if kind == "rows":
        train = digits.train
        rows = Vectors(train.inputs.flatten(1).float(), train.labels, train.classes, train.names)
        digits = Dataset("rows", rows, None, flip=False)
    monkeypatch.setattr(forms, "data_of", lambda *_: digits)
    before, terms = dict(METHODS), dict(TERMS)
    try:
        found = forms.run("digits", candidate, 0, (None, None, None))
    finally:
        torch.set_num_threads(threads)
        for name in METHODS.keys() - before.keys():
            del METHODS[name]
    assert found["steps"] >= 1
    assert 0 < found["hidden"] <= 1
    assert "accuracy" not in found  # test examples are for the confirmation
    assert terms == TERMS


def test_mixed_strong_views_ask_for_both_pseudo_labels() -> None:
    from tests.methods.steps import answers, make_problem, make_step

    for form, every in ((FixMix, 1), (HalfMix, 2)):
        method, step, out = form(threshold=0.5), make_step(), answers(["labelled", "weak", "strong"])
        method.build(make_problem())
        found = method.loss(step, out)["unlabelled"].item()
        mix, partner = step.pairs(8, 0.75, "fixmix")
        weak, logs = out["weak"].logits.softmax(1), out["strong"].logits.log_softmax(1)
        total = 0.0
        for i in range(8):
            j, share = int(partner[i]), float(mix[i]) if i % every == 0 else 1.0
            for row, part in ((i, share), (j, 1 - share)):
                confidence, guess = weak[row].max(0)
                if confidence >= 0.5:
                    total -= part * logs[i, guess].item()
        assert found == pytest.approx(total / 8, rel=1e-6)
