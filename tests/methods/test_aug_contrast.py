import pytest

from fewlabel.methods.aug_contrast import AugContrast
from tests.gradients import assert_gradient
from tests.methods.steps import answers, make_step
from tests.references.losses import interpolation_contrast


@pytest.mark.parametrize("temperature", [1.0, 0.2])
@pytest.mark.parametrize("weight", [0.5, 2.0])
def test_loss_and_gradients(temperature: float, weight: float) -> None:
    """The pair of row i is its weak and its strong view; the weak views of the other images push it away."""
    out = answers(["weak", "strong"])
    terms = AugContrast(weight, temperature).loss(make_step(), out)
    weak, strong = out["weak"].embedding, out["strong"].embedding
    assert weak is not None and strong is not None
    assert list(terms) == ["aug-contrast"]

    def expected(weak: list[list[float]], strong: list[list[float]]) -> float:
        return weight * interpolation_contrast(weak, strong, weak, temperature)

    assert terms["aug-contrast"].item() == pytest.approx(expected(weak.tolist(), strong.tolist()))
    assert_gradient(terms["aug-contrast"], weak, lambda x: expected(x, strong.tolist()))
    assert_gradient(terms["aug-contrast"], strong, lambda x: expected(weak.tolist(), x))


def test_settings_and_views() -> None:
    step, method = make_step(), AugContrast()
    inputs = method.inputs(step)
    assert (method.weight, method.temperature, method.uses_embedding) == (0.5, 1.0, True)
    assert list(inputs) == ["weak", "strong"]
    assert inputs["weak"] is step.weak
    assert inputs["strong"] is step.strong
