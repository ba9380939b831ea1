import pytest

from fewlabel.methods.uda import UDA
from tests.methods.steps import answers, make_step
from tests.references.matching import assert_matches, uda

NAMES = ["labelled", "weak", "strong"]


@pytest.mark.parametrize(("threshold", "kept"), [(0.0, "all"), (0.8, "some"), (1.1, "none")])
@pytest.mark.parametrize(("temperature", "weight"), [(0.4, 1.0), (1.0, 3.0)])
def test_loss_and_gradients(threshold: float, kept: str, temperature: float, weight: float) -> None:
    step, out = make_step(), answers(NAMES)
    terms = UDA(threshold, temperature, weight).loss(step, out)
    guess = uda(out["weak"].logits.tolist(), threshold, temperature)
    assert set(terms) == {"labelled", "unlabelled"}
    assert guess.how_many == kept
    assert_matches(step, out, terms, guess, weight)


def test_the_threshold_is_on_probabilities_before_sharpening() -> None:
    """At T 0.4 every one of these guesses is sharpened past 0.8, which few were before."""
    step, out = make_step(), answers(NAMES)
    weak = out["weak"].logits.tolist()
    UDA().loss(step, out)
    assert uda(weak, 0.8, 0.4).kept == step.records["kept"].tolist()
    assert sum(max(row) >= 0.8 for row in uda(weak, 0.8, 0.4).targets) > step.records["kept"].sum()


def test_settings_and_views() -> None:
    step, method = make_step(), UDA()
    inputs = method.inputs(step)
    assert (method.threshold, method.temperature, method.weight) == (0.8, 0.4, 1.0)
    assert list(inputs) == NAMES
    assert all(a is b for a, b in zip(inputs.values(), (step.labelled, step.weak, step.strong), strict=True))
