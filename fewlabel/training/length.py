"""How many steps a training has whose length is given as images or as minutes."""

import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from ..data import Dataset
from ..errors import UserError
from ..evaluate import predict_probabilities
from ..networks import with_precise_norms
from ..ranks import ALONE, Ranks, shared
from .plan import EVALUATIONS, Plan, default_evaluations
from .trainer import Trainer

TIMED, WARM_UP = 8, 2  # steps; the first ones are slower
EVALUATED = 512  # test examples that are timed, at most
MOST_FOR_EVALUATION = 0.2  # of the time


def for_images(images: int, plan: Plan, dataset: Dataset, ranks: Ranks = ALONE) -> Plan:
    """The plan with so many images through the network; one step is taken to count those of a step."""
    steps = images // Trainer(plan, dataset, ranks=ranks).step(0).images
    if steps < 1:
        raise shared(UserError(f"one step takes more than {images} images: give more --images, or a smaller --batch."))
    evaluations = plan.recipe.evaluations or default_evaluations(replace(plan.recipe, steps=steps), dataset)
    return replace(plan, steps=steps, evaluations=evaluations)


def for_minutes(minutes: float, plans: Sequence[Plan], dataset: Dataset, ranks: Ranks = ALONE) -> Plan:
    """The first plan with as many steps as all plans together have time for, evaluations included."""
    timed = [seconds_of(plan, dataset, ranks) for plan in plans]
    step_seconds, evaluation_seconds = (sum(column) for column in zip(*timed, strict=True))
    wanted = plans[0].recipe.evaluations or EVALUATIONS
    steps, evaluations = ranks.first_says(lambda: fit_into(60 * minutes, step_seconds, evaluation_seconds, wanted))
    if steps < 1:
        raise shared(
            UserError(f"not one step fits into {minutes:g} minutes beside an evaluation: give more --minutes.")
        )
    return replace(plans[0], steps=steps, evaluations=evaluations)


def fit_into(seconds: float, step: float, evaluation: float, evaluations: int) -> tuple[int, int]:
    """Steps and evaluations that take so many seconds; fewer evaluations where they would take over a fifth of it."""
    if evaluation:
        evaluations = max(1, min(evaluations, int(MOST_FOR_EVALUATION * seconds / evaluation)))
    return int((seconds - evaluations * evaluation) / step), evaluations


def seconds_of(plan: Plan, dataset: Dataset, ranks: Ranks) -> tuple[float, float]:
    """Of one step and of one evaluation, measured."""
    trainer, times = Trainer(plan, dataset, ranks=ranks), []
    for index in range(TIMED):
        began = time.perf_counter()
        sum(trainer.step(index).terms.values()).item()  # type: ignore[union-attr]  # waits for the device
        times.append(time.perf_counter() - began)
    if dataset.test is None:
        return median(times[WARM_UP:]), 0.0
    began = time.perf_counter()
    network = with_precise_norms(trainer.network, dataset.train.inputs)
    between = time.perf_counter()
    sample = dataset.test.inputs[:EVALUATED]
    predict_probabilities(network, sample)
    predicting = (time.perf_counter() - between) * len(dataset.test) / len(sample)
    return median(times[WARM_UP:]), between - began + predicting
