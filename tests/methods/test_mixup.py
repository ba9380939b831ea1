import pytest
import torch

from fewlabel.methods.mixup import Mixup
from tests.gradients import assert_gradient
from tests.methods.steps import BATCH, CLASSES, answers, make_step
from tests.references import consistency as reference


@pytest.mark.parametrize("beta", [0.75, 1.0])
@pytest.mark.parametrize("index", [0, 9])
def test_loss_and_gradient(index: int, beta: float) -> None:
    step, logits = make_step(index), answers(["labelled"])["labelled"]
    mix, partner = (draw.tolist() for draw in step.pairs(BATCH, beta, "mixup"))
    targets = reference.mixed(reference.one_hot(step.labels.tolist(), CLASSES), mix, partner)
    terms = Mixup(beta).loss(step, {"mixed": logits})
    assert set(terms) == {"labelled"}
    assert terms["labelled"].item() == pytest.approx(reference.soft_cross_entropy(logits.logits.tolist(), targets))
    assert_gradient(terms["labelled"], logits.logits, lambda x: reference.soft_cross_entropy(x, targets))


@pytest.mark.parametrize("beta", [0.75, 1.0])
def test_views_are_mixed_labelled_images(beta: float) -> None:
    step = make_step(4)
    inputs = Mixup(beta).inputs(step)
    mix, partner = (draw.tolist() for draw in step.pairs(BATCH, beta, "mixup"))
    assert set(inputs) == {"mixed"}
    expected = torch.tensor(reference.mixed(step.labelled.flatten(1).tolist(), mix, partner))
    torch.testing.assert_close(inputs["mixed"].flatten(1), expected)


def test_default_is_mixmatchs_beta() -> None:
    assert Mixup().beta == 0.75
