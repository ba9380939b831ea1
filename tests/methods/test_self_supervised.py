"""First stages: their losses, against loops in float64, and what they remember."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fewlabel import SELF_SUPERVISED, Recipe, UserError, load, make_method
from fewlabel.methods import Method, Step, check_first_stage, full_settings, parts_of
from fewlabel.methods.barlow_twins import BarlowTwins
from fewlabel.methods.icl import ICL
from fewlabel.methods.moco import MoCo
from fewlabel.methods.projector import make_projector
from fewlabel.methods.simclr import SimCLR
from fewlabel.methods.simsiam import SimSiam
from fewlabel.networks import Output
from fewlabel.training import Trainer, check_recipe, make_plan
from tests.gradients import assert_gradient
from tests.methods.steps import FEATURES, answers, make_problem, make_step
from tests.references import self_supervised as reference

Rows = list[list[float]]


def built(method: Method) -> Any:
    """In double precision, with batch norms that do more than to normalise."""
    torch.manual_seed(3)
    method.build(make_problem())
    for layer in method.modules():
        if isinstance(layer, nn.BatchNorm1d) and layer.affine:
            nn.init.uniform_(layer.weight, 0.5, 1.5)
            nn.init.uniform_(layer.bias, -0.5, 0.5)
    return method.double()


def features_of(out: dict[str, Output]) -> dict[str, Tensor]:
    return {name: output.features for name, output in out.items()}


@pytest.mark.parametrize(("weight", "temperature"), [(1.0, 0.2), (0.3, 1.0)])
def test_simclr(weight: float, temperature: float) -> None:
    method, out = built(SimCLR(weight, temperature)), answers(["first", "second"])
    project, features = reference.Projector(method.projector), features_of(out)
    (loss,) = method.loss(make_step(), out).values()

    def expected(first: Rows, second: Rows) -> float:
        units = [[reference.unit(row) for row in project(rows)] for rows in (first, second)]
        return weight * reference.simclr(units[0], units[1], temperature)

    first, second = (features[name].tolist() for name in ("first", "second"))
    assert loss.item() == pytest.approx(expected(first, second))
    assert_gradient(loss, features["first"], lambda rows: expected(rows, second))
    assert_gradient(loss, features["second"], lambda rows: expected(first, rows))


@pytest.mark.parametrize(("weight", "off_diagonal", "width"), [(1.0, 0.005, 5), (2.0, 0.3, 3)])
def test_barlow_twins(weight: float, off_diagonal: float, width: int) -> None:
    method, out = built(BarlowTwins(weight, off_diagonal, width)), answers(["first", "second"])
    project, features = reference.Projector(method.projector), features_of(out)
    (loss,) = method.loss(make_step(), out).values()

    def expected(first: Rows, second: Rows) -> float:
        return weight * reference.barlow_twins(project(first), project(second), off_diagonal)

    first, second = (features[name].tolist() for name in ("first", "second"))
    assert loss.item() == pytest.approx(expected(first, second))
    assert_gradient(loss, features["first"], lambda rows: expected(rows, second))
    assert_gradient(loss, features["second"], lambda rows: expected(first, rows))


def test_simsiam() -> None:
    """Its targets are constants: no gradient flows through them."""
    method, out = built(SimSiam(weight=0.7)), answers(["first", "second"])
    project, predict = reference.Projector(method.projector), reference.Projector(method.predictor)
    features = features_of(out)
    (loss,) = method.loss(make_step(), out).values()
    first, second = (features[name].tolist() for name in ("first", "second"))
    targets = [project(first), project(second)]

    def expected(first: Rows, second: Rows) -> float:
        return 0.7 * reference.simsiam([predict(project(first)), predict(project(second))], targets)

    assert loss.item() == pytest.approx(expected(first, second))
    assert_gradient(loss, features["first"], lambda rows: expected(rows, second))
    assert_gradient(loss, features["second"], lambda rows: expected(first, rows))


def test_moco_over_several_steps() -> None:
    """Keys are of the averaged network and projector, carry no gradient, and stay in the queue."""
    method = built(MoCo(weight=1.5, temperature=0.3, queue=10))  # of 40 images
    queue = method.keys.rows.tolist()
    assert len(queue) == 10
    assert all(sum(x * x for x in row) == pytest.approx(1) for row in queue)
    averaged = {name: tensor.clone() for name, tensor in method.key_projector.named_parameters()}
    place = 0
    for index in range(4):
        with torch.no_grad():
            for parameter in method.projector.parameters():
                parameter.mul_(1.1)  # as if it had learnt
        step, out = make_step(index), answers(["first", "second"], seed=index)
        asked = see_as_teacher(step, out["second"])
        loss = method.loss(step, out)["moco"]
        assert asked[0] is step.view("simclr", 1)
        if index:  # min(0.999, (1 + n) / (10 + n)), n = index - 1
            decay = index / (9 + index)
            for name, parameter in method.projector.named_parameters():
                averaged[name] = decay * averaged[name] + (1 - decay) * parameter
        for name, parameter in method.key_projector.named_parameters():
            torch.testing.assert_close(parameter, averaged[name])
        project, make_key = reference.Projector(method.projector), reference.Projector(method.key_projector)
        keys = [reference.unit(row) for row in make_key(out["second"].features.tolist())]

        before = list(queue)

        def expected(rows: Rows, keys: Rows = keys, project: Any = project, queue: Rows = before) -> float:
            queries = [reference.unit(row) for row in project(rows)]
            return 1.5 * reference.moco(queries, keys, queue, 0.3)

        assert loss.item() == pytest.approx(expected(out["first"].features.tolist()))
        assert_gradient(loss, out["first"].features, expected)
        assert not any(torch.is_tensor(g) for g in torch.autograd.grad(loss, out["second"].features, allow_unused=True))
        for key in keys:
            queue[place % 10], place = key, place + 1
        assert torch.allclose(method.keys.rows, torch.tensor(queue, dtype=torch.float64))


def see_as_teacher(step: Step, output: Output) -> list[Tensor]:
    """Let the averaged network answer so; returns a list of what it is asked."""
    asked: list[Tensor] = []

    def teacher(images: Tensor) -> Output:
        asked.append(images)
        return output

    step.teacher = teacher  # type: ignore[method-assign]
    return asked


def test_the_queue_of_moco_is_at_most_a_quarter_of_the_set() -> None:
    assert len(built(MoCo(queue=10**6)).keys.rows) == make_problem().images // 4


def test_icl_as_a_first_stage_mixes_all_of_a_batch_of_simclr_views() -> None:
    settings = full_settings("icl", {})
    assert (settings["icl.views"], settings["icl.share"]) == ("small", 1.0)
    assert full_settings("fixmatch+icl", {})["icl.views"] == "weak"
    assert full_settings("icl", {"views": "strong"})["icl.views"] == "strong"
    step, method = make_step(), ICL(views="simclr", share=1.0)
    inputs = method.inputs(step)
    assert inputs["weak"] is step.view("simclr")
    assert len(inputs["mixed"]) == len(inputs["weak"])


@pytest.mark.parametrize("name", ["simclr", "barlow-twins", "simsiam"])
@pytest.mark.parametrize("views", ["simclr", "strong", "weak"])
def test_two_independent_views_of_the_same_images(name: str, views: str) -> None:
    step = make_step()
    first, second = make_method(name, views=views).inputs(step).values()
    assert first is step.view(views)
    assert second is step.view(views, 1)
    assert not torch.equal(first, second)


def test_layers_of_a_projector() -> None:
    layers = list(make_projector(6, 5, 4, 3))
    assert [type(layer).__name__ for layer in layers] == [
        *("Linear", "BatchNorm1d", "ReLU", "Linear", "BatchNorm1d", "ReLU", "Linear")
    ]
    assert [layer.bias is not None for layer in layers if isinstance(layer, nn.Linear)] == [False, False, True]
    last = list(make_projector(6, 4, norm_last=True))[-1]
    assert isinstance(last, nn.BatchNorm1d) and not last.affine


# ---- names


def test_the_registry_and_what_may_stand_where() -> None:
    assert list(SELF_SUPERVISED) == ["simclr", "moco", "barlow-twins", "simsiam", "icl"]
    assert list(parts_of("fixmatch+simclr+icl")) == ["fixmatch", "simclr", "icl"]
    for name in SELF_SUPERVISED:
        with pytest.raises(UserError, match=f"'{name}' uses no labels: write --pretrain {name}"):
            check_recipe(Recipe(method=name))
        check_recipe(Recipe(method=name), first_stage=True)
        with pytest.raises(UserError, match="unknown method of a first stage 'fixmatch'"):
            check_first_stage("fixmatch")
    with pytest.raises(UserError, match=r"'simclr' uses no labels"):
        check_recipe(Recipe(method="simclr+icl"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pretrain": "simlcr"}, "did you mean simclr"),
        ({"pretrain": "fixmatch"}, "unknown method of a first stage"),
        ({"pretrain_images": 100}, "choose one with --pretrain"),
        ({"pretrain_steps": 100}, "choose one with --pretrain"),
        ({"pretrain": "simclr", "pretrain_images": 100, "pretrain_steps": 1}, "only one of"),
        ({"pretrain": "simclr", "encoder": "lite0"}, "cannot be used with --encoder"),
        ({"pretrain": "simclr", "start_from": "there"}, "cannot be used with --start-from"),
        ({"pretrain": "simclr", "images": 100}, "--images is for runs of one stage"),
        ({"pretrain": "moco", "settings": {"simclr.temperature": 1.0}}, "simclr.temperature"),
        ({"settings": {"first-stage.icl.weight": 1.0}}, "belongs to a first stage"),
        ({"pretrain": "icl", "settings": {"first-stage.icl.wieght": 1.0}}, "did you mean icl.weight"),
    ],
)
def test_what_a_first_stage_cannot_be(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_recipe(Recipe(**changes))


def test_settings_reach_the_stage_that_names_the_part() -> None:
    digits = load("digits")

    def planned(**changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        plan = make_plan(check_recipe(Recipe(labels_per_class=2, **changes)), digits)
        assert plan.first is not None
        return plan.recipe.settings, plan.first.recipe.settings

    main, first = planned(pretrain="simclr", settings={"simclr.temperature": 0.7, "icl.weight": 0.3})
    assert first["simclr.temperature"] == 0.7
    assert main["icl.weight"] == 0.3
    assert not any(name.startswith("simclr") for name in main)
    main, first = planned(pretrain="icl", settings={"icl.temperature": 0.6})
    assert main["icl.temperature"] == first["icl.temperature"] == 0.6
    assert (main["icl.views"], first["icl.views"]) == ("weak", "small")
    main, first = planned(pretrain="icl", settings={"first-stage.icl.weight": 0.9})
    assert (main["icl.weight"], first["icl.weight"]) == (0.1, 0.9)


# ---- training


@pytest.mark.parametrize("name", SELF_SUPERVISED)
def test_learns_without_a_label_and_reports_the_spread(name: str) -> None:
    """The embedding of different digits moves apart, and neighbours become alike."""
    digits = load("digits")
    recipe = check_recipe(Recipe(method=name, batch=128, mu=1, steps=40, network="cnn"), first_stage=True)
    trainer = Trainer(make_plan(recipe, digits), digits)
    for index in range(40):
        taken = trainer.step(index)
        assert all(term.isfinite() for term in taken.terms.values())
    assert len(trainer.plan.labelled) == len(trainer.batches.labelled_index(0)) == 0
    line = trainer.meter.read()
    assert 0 < line["spread"] <= 1.1
    found = trainer.evaluate()
    assert found["neighbour_accuracy"] > 0.85
    assert "accuracy" not in found
    assert trainer.network.head.weight.grad is None  # nobody asks for a class


def test_the_spread_is_one_of_even_directions_and_zero_of_a_point() -> None:
    step = make_step()
    draw = torch.Generator().manual_seed(0)
    rows = nn.functional.normalize(torch.randn(4000, 16, generator=draw), dim=1)
    step.record_embedding(rows)
    assert step.records["spread"].item() == pytest.approx(1, abs=0.01)
    step.record_embedding(rows[:1].expand(50, 16))
    assert step.records["spread"].item() == pytest.approx(0, abs=1e-6)
    step.record_embedding(rows)  # of several terms the smallest counts
    assert step.records["spread"].item() == pytest.approx(0, abs=1e-6)


def test_the_learning_rate_of_simsiams_predictor_does_not_decay() -> None:
    digits = load("digits")
    for method, prefix in (("simsiam", "method.predictor."), ("fixmatch+simsiam", "method.parts.simsiam.predictor.")):
        first_stage = method == "simsiam"
        recipe = Recipe(method=method, steps=10, learning_rate=0.05, labels_per_class=None if first_stage else 2)
        recipe = check_recipe(recipe, first_stage)
        trainer = Trainer(make_plan(recipe, digits), digits)
        trainer.step(8)
        names = {id(parameter): name for name, parameter in trainer.model.named_parameters()}
        rates = {names[id(p)]: group["lr"] for group in trainer.optimiser.param_groups for p in group["params"]}
        decayed = 0.05 * math.cos(7 * math.pi * 0.8 / 16)
        steady = {name for name, rate in rates.items() if rate == 0.05}
        assert steady == {name for name in names.values() if name.startswith(prefix)} != set()
        assert {rate for name, rate in rates.items() if name not in steady} == {decayed}


def test_width_of_the_features_is_free() -> None:
    assert built(SimCLR()).projector[0].in_features == FEATURES
