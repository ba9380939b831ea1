"""fit: the training loop. Everything else that happens during training is done by listeners."""

from collections.abc import Sequence
from typing import Any

from .plan import Plan
from .trainer import StepResult, Trainer

LINES_PER_EVALUATION = 10  # of metrics


class Listener:
    """Called at every step. A listener that comes earlier in the list may add to the line that later ones see."""

    def begin(self, trainer: Trainer) -> None:
        """Before the first step."""

    def after_step(self, trainer: Trainer, step: int, result: StepResult, line: dict[str, Any] | None) -> None:
        """After `step` steps are done. `line` is a line of metrics where one is due, else None."""

    def end(self) -> None:
        """After the last step, or when training stops early for any reason."""


def fit(trainer: Trainer, listeners: Sequence[Listener] = (), lines: int | None = None) -> None:
    """Take all steps that are left, evaluate now and then, and measure `lines` lines of metrics on the way."""
    plan = trainer.plan
    lines = lines or plan.evaluations * LINES_PER_EVALUATION
    try:
        for listener in listeners:
            listener.begin(trainer)
        for index in range(trainer.done, plan.steps):
            result = trainer.step(index)
            line, evaluate = None, due(index, plan.steps, plan.evaluations)
            if evaluate or due(index, plan.steps, lines):
                line = {"step": index + 1, **trainer.meter.read()}
                if evaluate and trainer.ranks.first:
                    line |= trainer.evaluate(last=index + 1 == plan.steps)
            for listener in listeners:
                listener.after_step(trainer, index + 1, result, line)
    finally:
        for listener in listeners:
            listener.end()


def steps_with_a_line(plan: Plan, done: int) -> list[int]:
    """After which of the first `done` steps a line of metrics is written by default."""
    times = plan.evaluations, plan.evaluations * LINES_PER_EVALUATION
    return [index + 1 for index in range(done) if any(due(index, plan.steps, number) for number in times)]


def due(index: int, steps: int, times: int) -> bool:
    """Whether something that happens `times` times in training, last at its end, is due after step `index`."""
    return (index + 1) * times // steps > index * times // steps
