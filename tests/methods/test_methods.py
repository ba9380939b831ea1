"""What holds for every method in the list, alone and with every term."""

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pytest
import torch

from fewlabel import METHODS, SELF_SUPERVISED, Recipe, Setting, UserError, load, make_method
from fewlabel.data import Dataset, Images
from fewlabel.methods import ALIASES, TERMS, Combine, Method, full_settings, in_words, parts_of, settings_of
from fewlabel.methods.fixmatch import FixMatch
from fewlabel.methods.icl import ICL
from fewlabel.networks import Output, make_classifier
from fewlabel.ranks import ALONE
from fewlabel.runs.checkpoint import load_checkpoint, save_checkpoint
from fewlabel.training import Trainer, make_plan
from fewlabel.training.passes import ForwardPasses
from tests.methods.steps import CLASSES, answers, make_problem, make_step, make_step_and_passes

# Passes through the network in a step, where that is not one.
PASSES = {"mean-teacher": 2, "ict": 2, "mixmatch": 2, "remixmatch": 4, "adamatch": 2, "vat": 4}
# Further passes of a term: ICL's mixes, and weak views or pairs that the method itself does not look at.
NO_WEAK, NO_PAIR = (
    ("supervised", "mixup", "vat", "ict", "mixmatch", "remixmatch"),
    ("pseudo-label", "pi-model", "mean-teacher"),
)
FIRST_STAGES = [name for name in SELF_SUPERVISED if name not in TERMS]
ALL = [base + term for base in METHODS for term in ("", *(f"+{term}" for term in TERMS))]
ALL += [f"fixmatch+{name}" for name in FIRST_STAGES]


def test_icl_ssl_as_the_paper_has_it() -> None:
    """alpha 0.5 (the paper's section on settings), tau 0.95 as FixMatch; T 1 as in the authors' code."""
    icl, fixmatch = ICL(), FixMatch()
    assert (icl.weight, icl.temperature, fixmatch.threshold) == (0.5, 1.0, 0.95)


def test_settings_that_suit_vectors_better() -> None:
    vectors = full_settings("icl-ssl", {}, "vectors")
    assert (vectors["fixmatch.align"], vectors["icl.weight"]) == (0.5, 0.1)
    assert full_settings("icl-ssl", {"icl.weight": 0.3}, "vectors")["icl.weight"] == 0.3
    assert full_settings("icl-ssl", {})["icl.weight"] == 0.03


def test_icl_on_features_is_the_form_that_was_confirmed() -> None:
    found = full_settings("icl-ssl", {}, "features")
    chosen = {"weight": 0.1, "temperature": 0.2, "share": 0.5, "negatives": "other-class", "classes": 3.0}
    assert {name: found[f"icl.{name}"] for name in chosen} == chosen


@pytest.fixture(scope="module")
def tiny() -> Dataset:
    """200 digits, and 60 to be judged by."""
    digits = load("digits").train
    train, test = (
        Images(digits.pixels[part], digits.labels[part], digits.classes, digits.names[part])
        for part in (slice(0, 200), slice(200, 260))
    )
    return Dataset("tiny", train, test, flip=False)


def start(name: str, tiny: Dataset, **changes: Any) -> Trainer:
    recipe = Recipe(method=name, labels_per_class=2, network="cnn", batch=10, mu=2, steps=40, **changes)
    return Trainer(make_plan(recipe, tiny), tiny)


def passes_of(name: str) -> int:
    base, _, term = name.partition("+")
    extra = {"": 0, "icl": 1 + (base in NO_WEAK), "aug-contrast": base in (*NO_WEAK, *NO_PAIR), "simclr": 1}
    return PASSES.get(base, 1) + extra.get(term, 2)


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
        taken = training.step(index)
        assert all(term.isfinite() for term in taken.terms.values())
        assert taken.images == sum(calls) - before
    assert len(calls) == done * passes_of(name) == done * taken.passes

    save_checkpoint(tmp_path, training.state(done, 1.5))
    other = start(name, tiny)
    saved = load_checkpoint(tmp_path)
    assert saved is not None
    other.load_state(saved)
    assert (other.done, other.seconds) == (done, 1.5)
    for index in (done, done + 1):
        following, again = (t.step(index).terms for t in (training, other))
        assert {k: v.item() for k, v in following.items()} == {k: v.item() for k, v in again.items()}
    assert list(training.meter.sums) == list(other.meter.sums)
    (first, _), (second, _) = training.state(0, 0.0), other.state(0, 0.0)
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
    network = make_classifier("mlp", (1, 8, 8), CLASSES, projector=True, seed=0).eval()
    found, prefix = [], f"{METHODS[base].__name__.lower()}."
    for name in (base, f"{base}+{term}"):
        method, (step, passes) = make_method(name), make_step_and_passes(4, network)
        torch.manual_seed(0)
        method.build(replace(make_problem(), features=network.features))
        inputs = method.inputs(step)
        terms = method.loss(step, passes.forward_all(inputs, method.apart))
        found.append(({key.removeprefix(prefix): images for key, images in inputs.items()}, terms))
    (inputs, terms), (combined_inputs, combined_terms) = found
    assert all(torch.equal(images, combined_inputs[key]) for key, images in inputs.items())
    for key, value in terms.items():
        torch.testing.assert_close(combined_terms[key], value)


def test_a_shared_view_is_computed_once(tiny: Dataset) -> None:
    """FixMatch looks at 10 + 20 + 20 images, ICL at mixed ones and at weak views that are there already."""
    assert start("fixmatch", tiny).step(0).images == 50
    assert start("fixmatch+icl", tiny, settings={"icl.share": 1.0}).step(0).images == 70
    assert start("fixmatch+icl", tiny).step(0).images == 52  # an eighth of 20, by default


def test_a_view_that_two_parts_want_apart_is_computed_as_the_first_wants_it(tiny: Dataset) -> None:
    """Else a term would change its base."""
    trainer = start("fixmatch", tiny)
    trainer.network.train()
    passes = ForwardPasses(trainer.network, trainer.teacher, torch.float32, ALONE)
    draw = torch.Generator().manual_seed(0)
    a, b = (torch.randn(6, 1, 8, 8, generator=draw) for _ in range(2))
    expected = passes.forward_all({"a": a}, apart={"a": "own"})["a"].logits
    found = passes.forward_all({"a": a, "again": a, "b": b}, apart={"a": "own", "again": "other", "b": "other"})
    assert torch.equal(found["a"].logits, expected)
    assert found["again"].logits is found["a"].logits


def test_inputs_apart_have_a_batch_norm_of_their_own_and_touch_no_buffer(tiny: Dataset) -> None:
    """The others are computed as if those were not there; an input that others share is computed with them."""
    trainer = start("fixmatch", tiny)
    trainer.network.train()
    passes = ForwardPasses(trainer.network, trainer.teacher, torch.float32, ALONE)
    draw = torch.Generator().manual_seed(0)
    a, b, c = (torch.randn(6, 1, 8, 8, generator=draw) for _ in range(3))
    before = {name: buffer.clone() for name, buffer in trainer.network.named_buffers()}
    alone = passes.forward_all({"c": c}, apart={"c": "own"})
    assert all(torch.equal(trainer.network.get_buffer(name), buffer) for name, buffer in before.items())
    expected = passes.forward_all({"a": a, "b": b})
    trainer.network.load_state_dict(before, strict=False)
    found = passes.forward_all({"a": a, "b": b, "c": c, "again": a}, apart={"c": "own", "again": "own"})
    for name in ("a", "b"):
        assert torch.equal(found[name].logits, expected[name].logits)
    assert torch.equal(found["c"].logits, alone["c"].logits)
    assert found["again"].logits is found["a"].logits
    assert found["c"].logits.requires_grad
    mixed = passes.forward_all({"a": a, "c": c})
    assert not torch.equal(mixed["a"].logits, passes.forward_all({"a": a})["a"].logits)


def test_the_authors_reading_looks_at_seven_batches(tiny: Dataset) -> None:
    settings = {"icl.reading": "authors", "icl.share": 1.0}
    recipe = Recipe(method="icl-ssl", settings=settings, labels_per_class=2, batch=10, mu=1, steps=9)
    assert Trainer(make_plan(recipe, tiny), tiny).step(0).images == 70


@pytest.mark.parametrize("base", METHODS)
@pytest.mark.parametrize("term", [*TERMS, "authors", *FIRST_STAGES])
def test_a_term_of_weight_0_changes_no_bit_of_its_base(base: str, term: str, tiny: Dataset) -> None:
    """Neither of the weights nor of a buffer, counters included."""
    settings: dict[str, object] = {f"{term}.weight": 0.0}
    if term == "authors":
        term, settings = "icl", {"icl.weight": 0.0, "icl.reading": "authors"}
    alone = start(base, tiny)
    both = start(f"{base}+{term}", tiny, settings=settings)
    for index in range(6):
        alone.step(index)
        both.step(index)
    for first, second in ((alone.network, both.network), (alone.teacher, both.teacher)):
        expected, found = first.state_dict(), second.state_dict()
        assert all(torch.equal(value, found[name]) for name, value in expected.items())
        assert {name for name in found if name not in expected} == {n for n in found if n.startswith("projector")}
    part = both.method.get_submodule(f"parts.{METHODS[base].__name__.lower()}").state_dict()
    assert all(torch.equal(value, part[name]) for name, value in alone.method.state_dict().items())


@pytest.mark.parametrize("term", [*TERMS, *FIRST_STAGES])
def test_all_inputs_of_a_term_are_apart(term: str) -> None:
    for reading in ("paper", "authors") if term == "icl" else (None,):
        method = (TERMS | SELF_SUPERVISED)[term](**({"reading": reading} if reading else {}))
        assert set(method.inputs(make_step())) <= set(method.apart)


def test_combine_hands_each_part_its_own_rows() -> None:
    method = make_method("fixmatch+icl")
    method.build(make_problem())
    names = list(method.inputs(make_step()))
    out = answers([name.split(".")[1] for name in names])
    logits, features, embedding = out["mixed"]
    assert embedding is not None
    out["mixed"] = Output(logits[:2], features[:2], embedding[:2])  # an eighth of 8, but two at least
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
        ("aug-contrast", {}, "only adds to a method"),
        ("fixmatch+supervised", {}, "cannot follow"),
        ("fixmatch+ilc", {}, "did you mean icl"),
        ("fixmatch+icl+icl", {}, "twice"),
        ("fixmatch", {"treshold": 0.9}, "did you mean fixmatch.threshold"),
        ("icl-ssl", {"weight": 0.9}, "ambiguous: write fixmatch.weight or icl.weight"),
        ("icl-ssl", {"icl.reading": "papre"}, "did you mean paper"),
        ("icl-ssl", {"icl.weight": "much"}, "icl.weight must be a number, not 'much'"),
        ("icl-ssl", {"icl.weight": float("inf")}, "icl.weight must be a finite number"),
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
    assert in_words("icl-ssl", {"icl.weight": 0.03}) == "icl-ssl"
    assert in_words("icl-ssl", {"temperature": 0.5, "icl.weight": 0.25}) == (
        "icl-ssl with icl.weight 0.25, icl.temperature 0.5"
    )


def test_settings_reach_their_part() -> None:
    method = make_method("icl-ssl", **{"fixmatch.weight": 2.0, "temperature": 0.5})
    assert isinstance(method, Combine)
    assert method.parts["fixmatch"].weight == 2.0
    assert method.parts["icl"].temperature == 0.5


@pytest.mark.parametrize("kind", [*METHODS.values(), *TERMS.values(), *SELF_SUPERVISED.values()])
def test_every_setting_has_help_and_a_default(kind: type) -> None:
    for parameter in settings_of(kind).values():
        assert parameter.default is not inspect.Parameter.empty
        assert len(parameter.setting.help) > 5


def test_a_plain_annotation_is_a_setting_too() -> None:
    class Plain(Method):
        def __init__(self, weight: float = 0.5, sharp: Annotated[bool, Setting("sharpen?")] = False) -> None:
            super().__init__()

    found = settings_of(Plain)
    assert (found["weight"].default, found["weight"].setting.help) == (0.5, "")
    assert found["weight"].check("plain.weight", 2) == 2.0
    assert found["sharp"].setting.help == "sharpen?"
    with pytest.raises(UserError, match=r"plain\.weight must be a number"):
        found["weight"].check("plain.weight", "much")
