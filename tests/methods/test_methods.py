"""What holds for every method in the list, alone and with every term."""

import inspect
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from fewlabel import METHODS, Recipe, UserError, load, make_method
from fewlabel.checkpoint import RunDirectory
from fewlabel.data import Dataset, Images
from fewlabel.methods import ALIASES, TERMS, Combine, Outputs, Step, full_settings, in_words, parts_of, settings_of
from fewlabel.methods.fixmatch import FixMatch
from fewlabel.methods.icl import ICL
from fewlabel.networks import Output, make_classifier
from fewlabel.plan import make_plan
from fewlabel.training import Training, look
from tests.methods.steps import CLASSES, answers, make_problem, make_step

# Passes through the network in a step, where that is not one.
PASSES = {"mean-teacher": 2, "ict": 2, "mixmatch": 2, "remixmatch": 2, "adamatch": 2, "vat": 4}
WITH_TARGETS = [name for name, method in METHODS.items() if method.targets]
ALL = [base + term for base in METHODS for term in ("", *(f"+{term}" for term in TERMS))]


# As released for CIFAR-10 by their authors, unless docs/methods.md says otherwise; ramps in steps.
DEFAULTS: dict[str, dict[str, object]] = {
    "supervised": {},
    "mixup": {"beta": 0.75},
    "pseudo-label": {"threshold": 0.95, "weight": 1.0, "ramp": 1000},
    "pi-model": {"weight": 10.0, "ramp": 2000},
    "mean-teacher": {"weight": 50.0, "ramp": 2000},
    "vat": {"size": 6.0, "nudge": 0.01, "weight": 0.3, "entropy": 0.06, "ramp": 2000},
    "ict": {"weight": 100.0, "beta": 1.0, "ramp": 2000},
    "mixmatch": {"weight": 75.0, "temperature": 0.5, "beta": 0.75, "ramp": 16000},
    "remixmatch": {
        "weight": 1.5,
        "unmixed": 0.5,
        "rotation": 0.5,
        "temperature": 0.5,
        "beta": 0.75,
        "ramp": 1000,
    },
    "uda": {"threshold": 0.8, "temperature": 0.4, "weight": 1.0},
    "fixmatch": {"threshold": 0.95, "weight": 1.0, "align": 0.0},
    "comatch": {
        "threshold": 0.95,
        "temperature": 0.2,
        "smoothing": 0.9,
        "like": 0.8,
        "queue": 5,
        "weight": 1.0,
        "graph": 1.0,
    },
    "flexmatch": {"threshold": 0.95, "weight": 1.0},
    "freematch": {"weight": 1.0, "fairness": 0.001, "momentum": 0.999},
    "softmatch": {"weight": 1.0, "sigmas": 2.0, "momentum": 0.999},
    "adamatch": {"threshold": 0.9, "weight": 1.0},
    "simmatch": {
        "threshold": 0.95,
        "temperature": 0.1,
        "smoothing": 0.9,
        "momentum": 0.7,
        "weight": 1.0,
        "similarity": 1.0,
    },
    "icl": {"weight": 0.5, "temperature": 1.0, "beta": 0.75, "reading": "paper", "negatives": "all"},
    "aug-contrast": {"weight": 0.5, "temperature": 1.0},
}


@pytest.mark.parametrize("name", [*METHODS, *TERMS])
def test_settings_as_released(name: str) -> None:
    method = name if name in METHODS else f"supervised+{name}"
    assert full_settings(method, {}) == {f"{name}.{key}": value for key, value in DEFAULTS[name].items()}


def test_settings_that_suit_vectors_better() -> None:
    found = {name: kind.for_vectors for name, kind in {**METHODS, **TERMS}.items() if kind.for_vectors}
    assert found == {"fixmatch": {"align": 0.5}, "icl": {"weight": 0.1}}


@pytest.fixture(scope="module")
def tiny() -> Dataset:
    """200 digits, and 60 to be judged by."""
    digits = load("digits").train
    train, test = (
        Images(digits.pixels[part], digits.labels[part], digits.classes, digits.names[part])
        for part in (slice(0, 200), slice(200, 260))
    )
    return Dataset("tiny", train, test, flip=False)


def start(name: str, tiny: Dataset, lean: bool = False) -> Training:
    recipe = Recipe(method=name, labels_per_class=2, network="cnn", batch=10, mu=2, steps=40, lean=lean)
    return Training(make_plan(recipe, tiny), tiny)


@pytest.mark.parametrize("name", ALL)
def test_trains_and_resumes_to_the_same_bits(name: str, tiny: Dataset, tmp_path: Path) -> None:
    """After as many steps as it takes to fill CoMatch's memory, and some more."""
    done = 12
    training = start(name, tiny)
    calls: list[int] = []
    for network in (training.network, training.teacher):
        network.register_forward_hook(lambda module, arguments, _: calls.append(len(arguments[0])))
    for index in range(done):
        before = sum(calls)
        taken = training.advance(index)
        assert all(term.isfinite() for term in taken.terms.values())
        assert taken.images == sum(calls) - before
    assert len(calls) == done * PASSES.get(name.partition("+")[0], 1) == done * taken.passes

    training.save(RunDirectory(tmp_path), done, 0.0)
    other = start(name, tiny)
    assert other.restore(RunDirectory(tmp_path).load()) == (done, 0.0)
    for index in (done, done + 1):
        following, again = (t.advance(index).terms for t in (training, other))
        assert {k: v.item() for k, v in following.items()} == {k: v.item() for k, v in again.items()}
    assert list(training.meter.sums) == list(other.meter.sums)
    first, second = training.tensors(), other.tensors()
    assert first.keys() == second.keys()
    assert all(torch.equal(tensor, second[key]) for key, tensor in first.items())


@pytest.mark.parametrize("name", ALL)
def test_only_comatch_leaves_the_labelled_images_out_of_its_unlabelled_batches(name: str, tiny: Dataset) -> None:
    training = start(name, tiny)
    drawn = {row for index in range(20) for row in training.batches.unlabelled_index(index).tolist()}
    there = drawn & set(training.plan.labelled.tolist())
    assert (not there) == name.startswith("comatch")


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("fixmatch", {"threshold": 1 / CLASSES}),
        ("uda", {"threshold": 1 / CLASSES}),
        ("pseudo-label", {"threshold": 1 / CLASSES}),
        ("comatch", {"threshold": 1 / CLASSES}),
        ("flexmatch", {"threshold": 1 / CLASSES}),
        ("simmatch", {"threshold": 1 / CLASSES, "smoothing": 1.0}),
        ("freematch", {}),  # whose threshold is the mean confidence
    ],
)
def test_a_guess_just_as_confident_as_the_threshold_is_kept(name: str, settings: dict[str, float]) -> None:
    """All classes are equally probable."""

    def kept(settings: dict[str, float]) -> set[bool]:
        method, step = make_method(name, **settings), make_step(100)
        method.build(make_problem())
        out = answers(list(method.inputs(step)))
        blank = {key: output._replace(logits=torch.zeros_like(output.logits)) for key, output in out.items()}
        method.double().loss(step, blank)
        if name == "flexmatch":
            return set((method.state_dict()["latest"][step.unlabelled_index] >= 0).tolist())
        return set(step.records["kept"].tolist())

    assert kept(settings) == {True}
    if settings:
        assert kept(settings | {"threshold": 1 / CLASSES + 1e-9}) == {False}


@pytest.mark.parametrize("base", METHODS)
@pytest.mark.parametrize("term", TERMS)
def test_a_term_changes_nothing_in_the_draws_of_the_method(base: str, term: str) -> None:
    """Neither in what it looks at nor in its loss, where the network treats every image by itself (no batch norm)."""
    network = make_classifier("mlp", 1, 8, CLASSES, projector=True, seed=0).eval()
    found, prefix = [], f"{METHODS[base].__name__.lower()}."
    for name in (base, f"{base}+{term}"):
        method, step = make_method(name), make_step(4, network)
        torch.manual_seed(0)
        method.build(replace(make_problem(), features=network.features))
        inputs = method.inputs(step)
        terms = method.loss(step, look(network, inputs, method.targets, step))
        found.append(({key.removeprefix(prefix): images for key, images in inputs.items()}, terms))
    (inputs, terms), (combined_inputs, combined_terms) = found
    assert all(torch.equal(images, combined_inputs[key]) for key, images in inputs.items())
    for key, value in terms.items():
        torch.testing.assert_close(combined_terms[key], value)


def test_a_shared_view_is_computed_once(tiny: Dataset) -> None:
    """FixMatch looks at 10 + 20 + 20 images, ICL at 20 mixed ones and at weak views that are there already."""
    assert start("fixmatch", tiny).advance(0).images == 50
    assert start("fixmatch+icl", tiny).advance(0).images == 70


@pytest.mark.parametrize("name", WITH_TARGETS)
def test_in_a_lean_run_targets_have_no_gradient_and_all_others_have(name: str, tiny: Dataset) -> None:
    training = start(name, tiny, lean=True)
    seen: dict[str, Output] = {}
    loss = training.method.loss

    def watched(step: Step, out: Outputs) -> dict[str, Tensor]:
        seen.update(out)
        return loss(step, out)

    training.method.loss = watched  # type: ignore[method-assign]
    assert training.advance(0).passes == 2
    assert {key for key, output in seen.items() if not output.logits.requires_grad} == set(training.method.targets)


@pytest.mark.parametrize("name", WITH_TARGETS)
def test_no_gradient_is_lost_with_the_targets(name: str) -> None:
    """Were they looked at with gradient, none would come back to them."""
    method = make_method(name)
    method.build(make_problem())
    method.double()
    step = make_step()
    out = answers(list(method.inputs(step)))
    torch.stack([term.double() for term in method.loss(step, out).values()]).sum().backward()
    for key in method.targets:
        assert all(rows is None or rows.grad is None or not rows.grad.any() for rows in out[key])


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("name", WITH_TARGETS)
def test_what_a_term_learns_from_is_no_mere_target(name: str, term: str, tiny: Dataset) -> None:
    assert start(f"{name}+{term}", tiny, lean=True).advance(0).passes == 1


def test_the_authors_reading_looks_at_seven_batches(tiny: Dataset) -> None:
    recipe = Recipe(method="icl-ssl", settings={"icl.reading": "authors"}, labels_per_class=2, batch=10, mu=1, steps=9)
    assert Training(make_plan(recipe, tiny), tiny).advance(0).images == 70


def test_combine_hands_each_part_its_own_rows() -> None:
    method = make_method("fixmatch+icl")
    method.build(make_problem())
    names = list(method.inputs(make_step()))
    out = answers([name.split(".")[1] for name in names])
    terms = method.loss(make_step(), {name: out[name.split(".")[1]] for name in names})
    separate: dict[str, float] = {}
    for part in ("fixmatch", "icl"):
        alone = parts_of("fixmatch+icl")[part]()
        alone.build(make_problem())
        own = {name.split(".")[1]: out[name.split(".")[1]] for name in names if name.startswith(part)}
        separate |= {k: v.item() for k, v in alone.loss(make_step(), own).items()}
    assert {k: v.item() for k, v in terms.items()} == separate


def test_alias() -> None:
    assert ALIASES == {"icl-ssl": "fixmatch+icl"}
    assert list(parts_of("icl-ssl")) == ["fixmatch", "icl"]
    assert isinstance(make_method("icl-ssl"), Combine)
    assert list(Combine(FixMatch(), ICL()).state_dict()) == list(make_method("icl-ssl").state_dict())


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("fixmach", {}, "did you mean fixmatch"),
        ("icl", {}, "only adds to a method"),
        ("fixmatch+supervised", {}, "cannot follow"),
        ("fixmatch+ilc", {}, "did you mean icl"),
        ("fixmatch+icl+icl", {}, "twice"),
        ("fixmatch", {"treshold": 0.9}, "did you mean fixmatch.threshold"),
        ("icl-ssl", {"weight": 0.9}, "ambiguous: write fixmatch.weight or icl.weight"),
        ("icl-ssl", {"icl.reading": "papre"}, "did you mean paper"),
        ("icl-ssl", {"icl.weight": "much"}, "icl.weight must be a number, not 'much'"),
        ("icl-ssl", {"icl.weight": float("inf")}, "must be at least 0 and finite"),
        ("icl-ssl", {"icl.temperature": 0}, "icl.temperature must be more than 0"),
        ("mixmatch", {"ramp": 1.5}, "mixmatch.ramp must be a whole number"),
        ("freematch", {"momentum": 5}, "freematch.momentum must be at most 1"),
        ("fixmatch", {"align": True}, "fixmatch.align must be a number"),
        ("fixmatch", {"threshold": 95}, "fixmatch.threshold must be at most 1"),
        ("icl-ssl", {"temperature": 0.5, "icl.temperature": 0.7}, "icl.temperature of icl-ssl is given twice"),
    ],
)
def test_mistakes_are_answered_with_what_is_valid(name: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_method(name, **settings)


def test_in_words_what_differs_from_the_defaults() -> None:
    assert in_words("icl-ssl", {}) == "icl-ssl"
    assert in_words("icl-ssl", {"icl.weight": 0.5}) == "icl-ssl"
    assert in_words("icl-ssl", {"temperature": 0.5, "icl.weight": 0.25}) == (
        "icl-ssl with icl.weight 0.25, icl.temperature 0.5"
    )


def test_settings_reach_their_part() -> None:
    method = make_method("icl-ssl", **{"fixmatch.weight": 2.0, "temperature": 0.5})
    assert isinstance(method, Combine)
    assert method.parts["fixmatch"].weight == 2.0
    assert method.parts["icl"].temperature == 0.5


@pytest.mark.parametrize("kind", [*METHODS.values(), *TERMS.values()])
def test_every_setting_has_help_and_a_default(kind: type) -> None:
    for parameter in settings_of(kind).values():
        assert parameter.default is not inspect.Parameter.empty
        assert len(parameter.annotation.__metadata__[0]) > 5
