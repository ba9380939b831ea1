from functools import partial

import pytest
import torch
from torch import Tensor, nn

from fewlabel.methods import Step
from fewlabel.methods.vat import VAT
from fewlabel.networks import Classifier, Output, make_classifier
from tests.gradients import assert_gradient
from tests.methods.steps import CLASSES, answers, make_step
from tests.references import consistency, losses

HIDDEN, PIXELS = 5, 64
Rows = list[list[float]]


class Smooth(Classifier):
    """One hidden layer of tanh, or none at all, in float64 from the pixels to the logits."""

    def __init__(self, classes: int = CLASSES, linear: bool = False) -> None:
        layers = [] if linear else [nn.Linear(PIXELS, HIDDEN), nn.Tanh()]
        features = PIXELS if linear else HIDDEN
        super().__init__(
            nn.Sequential(nn.Flatten(), *layers), features, classes, torch.full((1,), 127.0), torch.full((1,), 64.0)
        )
        self.double()
        draw = torch.Generator().manual_seed(2)
        for weight in self.parameters():
            weight.data = torch.randn(weight.shape, generator=draw, dtype=torch.float64) / weight.shape[-1] ** 0.5

    def forward(self, images: Tensor) -> Output:
        features = self.encoder(images)
        return Output(self.head(features), features, None)

    def plain_python(self) -> partial[list[float]]:
        return partial(
            consistency.perceptron,
            hidden=self.encoder[1].weight.tolist(),  # type: ignore[index]
            hidden_bias=self.encoder[1].bias.tolist(),  # type: ignore[index]
            head=self.head.weight.tolist(),
            head_bias=self.head.bias.tolist(),
        )


def watched(step: Step, monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The images of each look that is taken at the network from now on."""
    looks: list[Tensor] = []
    forward = step.forward

    def watch(images: Tensor, exact: bool = False) -> Output:
        looks.append(images.detach())
        return forward(images, exact)

    monkeypatch.setattr(step, "forward", watch)
    return looks


@pytest.mark.parametrize(("index", "ramp", "given"), consistency.RAMPS)
def test_loss_and_gradients(index: int, ramp: int, given: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With known answers to the looks at plain and changed images; that at nudged ones must depend on them."""
    step, out = make_step(index), answers(["labelled", "plain", "changed"])
    labelled, plain, changed = (out[name].logits for name in ("labelled", "plain", "changed"))

    def nudged(images: Tensor) -> Output:
        logits = images.flatten(1)[:, :CLASSES].double() / 50
        return Output(logits, logits, None)

    replies = iter([lambda _: out["plain"], nudged, lambda _: out["changed"]])
    monkeypatch.setattr(step, "forward", lambda images, exact=False: next(replies)(images))
    terms = VAT(weight=0.8, entropy=0.3, ramp=ramp).loss(step, out)

    def adversarial(rows: Rows) -> float:
        return 0.8 * given * consistency.divergence(rows, plain.tolist())

    def entropy(rows: Rows) -> float:
        return 0.3 * consistency.entropy(rows)  # from the first step on

    assert set(terms) == {"labelled", "adversarial", "entropy"}
    assert terms["labelled"].item() == pytest.approx(losses.cross_entropy(labelled.tolist(), step.labels.tolist()))
    assert terms["adversarial"].item() == pytest.approx(adversarial(changed.tolist()), abs=1e-12)
    assert terms["entropy"].item() == pytest.approx(entropy(plain.tolist()), abs=1e-12)
    assert_gradient(terms["labelled"], labelled, lambda x: losses.cross_entropy(x, step.labels.tolist()))
    assert_gradient(terms["adversarial"], changed, adversarial)
    assert_gradient(terms["entropy"], plain, entropy)
    assert set(torch.autograd.grad(terms["adversarial"], [plain], allow_unused=True)) == {None}
    assert step.records["pseudo_labels"].tolist() == [consistency.best(row) for row in plain.tolist()]
    assert step.records["kept"].all()


@pytest.mark.parametrize("size", [6.0, 0.5])
@pytest.mark.parametrize("nudge", [1e-2, 1e-4])
def test_the_change_is_one_power_iteration_of_the_given_length(
    nudge: float, size: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three looks at the same rows; the direction is the Hessian times the start, up to the nudge's length."""
    network = Smooth()
    step = make_step(2, network)
    looks = watched(step, monkeypatch)
    VAT(size=size, nudge=nudge).loss(step, answers(["labelled"]))
    plain, start, change = looks[0], (looks[1] - looks[0]).flatten(1) / nudge, (looks[2] - looks[0]).flatten(1) / size
    assert len(looks) == 3
    assert torch.equal(plain, step.weak)
    ones = torch.ones(len(plain), dtype=torch.float64)
    torch.testing.assert_close(start.norm(dim=1), ones, rtol=1e-9, atol=0)
    torch.testing.assert_close(change.norm(dim=1), ones, rtol=1e-9, atol=0)
    for image, begun, found in zip(plain.flatten(1).tolist(), start.tolist(), change.tolist(), strict=True):
        expected = consistency.worst_direction(network.plain_python(), image, begun)
        assert found == pytest.approx(expected, abs=nudge / 2)


def test_starts_are_normal_and_others_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = []
    for index in (0, 1, 0):
        step = make_step(index, Smooth())
        looks = watched(step, monkeypatch)
        VAT().loss(step, answers(["labelled"]))
        starts.append((looks[1] - looks[0]).flatten() * 100 * PIXELS**0.5)
    assert torch.equal(starts[0], starts[2])
    assert abs(torch.corrcoef(torch.stack(starts[:2]))[0, 1].item()) < 0.15
    assert starts[0].mean().item() == pytest.approx(0.0, abs=0.15)
    assert starts[0].pow(4).mean().item() == pytest.approx(3.0, rel=0.2)


def test_of_two_classes_the_worst_direction_is_the_difference_of_their_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """A linear network has one direction only that changes anything, and one iteration finds it from any start."""
    network = Smooth(classes=2, linear=True)
    step = make_step(3, network)
    looks = watched(step, monkeypatch)
    VAT(size=2.0).loss(step, answers(["labelled"]))
    difference = network.head.weight[1].detach() - network.head.weight[0].detach()
    along = (looks[2] - looks[0]).flatten(1) @ (difference / difference.norm())
    torch.testing.assert_close(along.abs(), torch.full_like(along, 2.0), rtol=1e-9, atol=0)


def test_gradient_takes_target_and_change_as_given(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Smooth()
    step = make_step(1, network)
    looks = watched(step, monkeypatch)
    terms = VAT(size=3.0, weight=0.8, entropy=0.3, ramp=0).loss(step, answers(["labelled"]))
    plain, _, changed = (images.flatten(1).tolist() for images in looks)
    logits = network.plain_python()
    targets = [logits(image) for image in plain]

    def adversarial(head: Rows) -> float:
        return 0.8 * consistency.divergence([partial(logits, head=head)(image) for image in changed], targets)

    def entropy(head: Rows) -> float:
        return 0.3 * consistency.entropy([partial(logits, head=head)(image) for image in plain])

    for name, expected in (("adversarial", adversarial), ("entropy", entropy)):
        assert terms[name].item() == pytest.approx(expected(network.head.weight.tolist()))
        assert_gradient(terms[name], network.head.weight, expected)


def test_no_change_no_divergence_with_batch_norm() -> None:
    """Plain and changed rows share their batch statistics; labelled rows in one of the batches would shift them."""
    network = make_classifier("cnn", (1, 8, 8), CLASSES, projector=False, seed=0)
    method = VAT(size=0.0, ramp=0)
    assert method.loss(make_step(0, network), answers(["labelled"]))["adversarial"].item() == pytest.approx(0, abs=1e-7)


def test_a_network_that_nothing_changes_gives_zero() -> None:
    network = Smooth()
    network.head.weight.data.zero_()
    terms = VAT(ramp=0).loss(make_step(0, network), answers(["labelled"]))
    assert terms["adversarial"].item() == pytest.approx(0, abs=1e-12)
    (gradient,) = torch.autograd.grad(terms["adversarial"], network.head.weight)
    assert gradient.isfinite().all()


def test_views() -> None:
    step = make_step(1)
    inputs = VAT().inputs(step)
    assert set(inputs) == {"labelled"}
    assert inputs["labelled"] is step.labelled


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
def test_the_direction_is_as_good_in_half_precision(precision: torch.dtype) -> None:
    """A nudge of 1e-2 would be lost in its rounding, and what is left be a random direction."""
    network = make_classifier("cnn", (1, 8, 8), CLASSES, projector=False, seed=0)
    whole, half = (make_step(2, network, precision=one) for one in (torch.float32, precision))
    target = whole.forward(whole.weak).logits.detach()
    expected, found = (VAT().worst_direction(step, target).flatten(1) for step in (whole, half))
    torch.testing.assert_close(found, expected)
    rough = half.forward(half.weak).logits.detach()
    assert not torch.allclose(rough.float(), target, rtol=1e-5, atol=1e-5)
