"""Compute the number of steps of each stage from a length in images or minutes."""

import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import mean, median
from typing import NamedTuple

from ..data import Dataset
from ..errors import UserError
from ..evaluate import features_by, predict_probabilities
from ..networks import with_precise_norms
from ..ranks import ALONE, Ranks, shared
from .plan import EVALUATIONS, FIRST_EPOCHS, FIRST_IMAGES, Plan, default_evaluations
from .trainer import Trainer

TIMED, WARM_UP = 8, 2  # steps at least; the first two are slower
LOOKED_AT, LONGEST = 0.01, 15.0  # share of the time for which steps are timed, and seconds at most
EVALUATED = 512  # examples that are timed, at most
MOST_FOR_EVALUATION = 0.2  # of the time


class Part(NamedTuple):
    """A training whose steps are counted: a stage of a run."""

    plan: Plan
    dataset: Dataset


class Seconds(NamedTuple):
    """The time of a part of a training."""

    step: float
    evaluation: float


def with_length(main: Part, floors: Sequence[Part], images: Dataset, ranks: Ranks = ALONE) -> Plan:
    """The plan of a run with its steps decided; with a first stage, `images` are what that stage looks at."""
    plan, recipe = main.plan, main.plan.recipe
    if plan.is_first_stage and recipe.minutes is None:
        return for_first_images(Part(plan, images), ranks)
    if plan.first is not None and recipe.minutes is not None:
        return divided_minutes(recipe.minutes, main, floors, Part(plan.first, images), ranks)
    if recipe.minutes is not None:
        plan = for_minutes(recipe.minutes, [main, *floors], ranks)
    if recipe.images is not None:
        plan = for_images(recipe.images, main, ranks)
    if plan.first is not None:
        plan = replace(plan, first=for_first_images(Part(plan.first, images), ranks))
    return plan


def for_images(images: int, part: Part, ranks: Ranks = ALONE) -> Plan:
    """The plan for a number of images through the network; one step is taken to count its images."""
    plan, dataset = part
    steps = images // Trainer(plan, dataset, ranks=ranks).step(0).images
    if steps < 1:
        flag = "--pretrain-" if plan.precedes else "--"
        advice = f"increase {flag}images, or reduce {flag}batch"
        raise shared(UserError(f"one step takes more than {images} images: {advice}."))
    evaluations = plan.recipe.evaluations or default_evaluations(replace(plan.recipe, steps=steps), dataset)
    return replace(plan, steps=steps, evaluations=evaluations)


def for_first_images(first: Part, ranks: Ranks) -> Plan:
    """The plan of a first stage whose length is not given in minutes."""
    recipe = first.plan.recipe
    if recipe.steps is not None:
        return first.plan
    return for_images(recipe.images or min(FIRST_IMAGES, FIRST_EPOCHS * len(first.dataset.train)), first, ranks)


def for_minutes(minutes: float, parts: Sequence[Part], ranks: Ranks = ALONE) -> Plan:
    """The first plan with as many steps as all parts together have time for, evaluations included."""
    timed = together([seconds_of(part, ranks) for part in parts])
    plan = parts[0].plan
    wanted = plan.recipe.evaluations or EVALUATIONS
    steps, evaluations = ranks.first_says(lambda: fit_into(60 * minutes, timed, wanted))
    check_steps(steps, minutes)
    return replace(plan, steps=steps, evaluations=evaluations)


def divided_minutes(minutes: float, main: Part, floors: Sequence[Part], first: Part, ranks: Ranks) -> Plan:
    """Main stage and floor get what their usual steps take, but not more than their share; the first stage the rest."""
    plan, recipe = main.plan, main.plan.recipe
    timed = together([seconds_of(part, ranks) for part in (main, *floors)])
    of_first = seconds_of(first, ranks)
    whole = 60 * minutes - (0.0 if recipe.tune else encoding_seconds(first))

    def divide() -> tuple[int, int, int, int]:
        usual = plan.steps * timed.step + plan.evaluations * timed.evaluation
        rest = (1 - recipe.pretrain_share) * whole
        if recipe.tune or usual > rest:
            steps, evaluations = fit_into(rest, timed, plan.evaluations)
        else:
            rest, steps, evaluations = usual, plan.steps, plan.evaluations
        return steps, evaluations, *fit_into(whole - rest, of_first, first.plan.evaluations)

    steps, evaluations, first_steps, first_evaluations = ranks.first_says(divide)
    check_steps(min(steps, first_steps), minutes)
    first_plan = replace(first.plan, steps=first_steps, evaluations=first_evaluations)
    return replace(plan, steps=steps, evaluations=evaluations, first=first_plan)


def check_steps(steps: int, minutes: float) -> None:
    if steps < 1:
        raise shared(
            UserError(f"{minutes:g} minutes are too short for one step and one evaluation: increase --minutes.")
        )


def together(parts: Sequence[Seconds]) -> Seconds:
    """The time of one step and one evaluation of each part."""
    return Seconds(*(sum(column) for column in zip(*parts, strict=True)))


def fit_into(seconds: float, timed: Seconds, evaluations: int) -> tuple[int, int]:
    """Steps and evaluations that fit into the time; fewer evaluations if they would take over a fifth of it."""
    if timed.evaluation:
        evaluations = max(1, min(evaluations, int(MOST_FOR_EVALUATION * seconds / timed.evaluation)))
    return int((seconds - evaluations * timed.evaluation) / timed.step), evaluations


def seconds_of(part: Part, ranks: Ranks) -> Seconds:
    """Measured time of one step and one evaluation; steps are timed for a hundredth of the total time."""
    plan, dataset = part
    trainer = Trainer(plan, dataset, ranks=ranks)
    times = [seconds_of_step(trainer, index) for index in range(TIMED)]
    patience = min(LONGEST, LOOKED_AT * 60 * (plan.recipe.minutes or 0))
    more = ranks.first_says(lambda: int(patience / median(times[WARM_UP:])))  # the same for all processes
    times += [seconds_of_step(trainer, index) for index in range(TIMED, more)]
    step = mean(times[WARM_UP:])
    began = time.perf_counter()
    if plan.is_first_stage:
        trainer.evaluate()
        return Seconds(step, time.perf_counter() - began)
    if dataset.test is None:
        return Seconds(step, 0.0)
    network = with_precise_norms(trainer.network, dataset.train.inputs)
    between = time.perf_counter()
    sample = dataset.test.inputs[:EVALUATED]
    predict_probabilities(network, sample)
    predicting = (time.perf_counter() - between) * len(dataset.test) / len(sample)
    return Seconds(step, between - began + predicting)


def seconds_of_step(trainer: Trainer, index: int) -> float:
    began = time.perf_counter()
    sum(trainer.step(index).terms.values()).item()  # type: ignore[union-attr]  # waits for the device
    return time.perf_counter() - began


def encoding_seconds(first: Part) -> float:
    """How long its network will take to encode all examples."""
    train, test = first.dataset.train, first.dataset.test
    network, sample = Trainer(first.plan, first.dataset).network, train.inputs[:EVALUATED]
    features_by(network, sample)  # warm
    began = time.perf_counter()
    features_by(network, sample)
    return (time.perf_counter() - began) * (len(train) + (len(test) if test else 0)) / len(sample)
