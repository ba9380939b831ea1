"""Did the unlabelled examples help, compared with training on the labels alone?"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

CLEAR = 1.959964  # standard errors from which on a difference is clear: a 95% interval without 0


class Verdict(NamedTuple):
    """A run compared with its floor, the same network trained on the labels alone."""

    tested: int = 0  # test examples with a label; 0 without a test set
    right: int = 0  # of them, by the run
    floor_right: int | None = None  # by the floor, where there is one
    only_run: int = 0  # right by the run and wrong by the floor
    only_floor: int = 0
    agreement: float | None = None  # share of unlabelled training examples for which both predict the same

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()

    @staticmethod
    def from_dict(facts: Mapping[str, Any]) -> "Verdict":
        return Verdict(**{name: facts[name] for name in Verdict._fields if name in facts})

    @property
    def difference(self) -> tuple[float, float, float]:
        """The difference in points, run minus floor, and its 95% interval, paired over the examples."""
        assert self.floor_right is not None and self.tested
        apart = self.only_run - self.only_floor
        mean = apart / self.tested
        error = math.sqrt(max(self.only_run + self.only_floor - apart**2 / self.tested, 1)) / self.tested
        return 100 * mean, 100 * (mean - CLEAR * error), 100 * (mean + CLEAR * error)

    @property
    def clear(self) -> bool:
        """Whether the difference is significant by McNemar's exact test."""
        from scipy.stats import binomtest  # slow to import

        apart = self.only_run + self.only_floor
        return apart > 0 and bool(binomtest(self.only_run, apart).pvalue < 0.05)


def make_verdict(truth: Tensor | None, run: Tensor | None, floor: Tensor | None, agreement: float | None) -> Verdict:
    """The verdict from the true classes of the test examples (-1: unknown) and the predictions of run and floor."""
    if truth is None or run is None:
        return Verdict(agreement=agreement)
    known = truth >= 0
    right = run[known] == truth[known]
    if floor is None:
        return Verdict(int(known.sum()), int(right.sum()), agreement=agreement)
    floor_right = floor[known] == truth[known]
    return Verdict(
        int(known.sum()),
        int(right.sum()),
        int(floor_right.sum()),
        int((right & ~floor_right).sum()),
        int((floor_right & ~right).sum()),
        agreement,
    )


def verdict_in_words(
    found: Verdict,
    noun: str,
    labels: int,
    run: str,
    suggest: str = "",
    measured: Sequence[str] = (),
    unlabelled: bool = True,
) -> list[str]:
    """Whether the unlabelled examples helped, and what to do next.

    `suggest` is the command that suggests examples; `measured` are sentences about the accuracy, by an audit. Without
    `unlabelled` examples there is nothing to compare or to suggest.
    """
    suggest = suggest or f"fewlabel suggest DATA --run {run}"
    more = [f"To do better, label more {noun}: `{suggest}` lists the most useful ones."] if unlabelled else []
    if not found.tested:
        return [*measured, *more] if measured else what_is_not_known(found, noun, run)
    accuracy = found.right / found.tested
    if found.floor_right is None:
        return [f"{accuracy:.1%} of {found.tested:,} test {noun} are right.", *more]
    mean, low, high = found.difference
    interval = f"{mean:+.1f} points, 95% interval {low:+.1f} to {high:+.1f}"
    beside = f"{accuracy:.1%} of {found.tested:,} test {noun} are right, with the {labels} labels alone "
    beside += f"{found.floor_right / found.tested:.1%} ({interval})."
    if not unlabelled:
        return [beside]
    if low > 0 and found.clear:
        return [f"The unlabelled {noun} helped: {beside}", *more]
    if high < 0 and found.clear:
        return [
            f"The unlabelled {noun} lowered the accuracy: {beside}",
            "Train with --method supervised, check the labels with `fewlabel audit`, or label more: "
            f"`{suggest}` lists the most useful {noun}.",
        ]
    return [f"The unlabelled {noun} made no clear difference: {beside}", *more]


def what_is_not_known(found: Verdict, noun: str, run: str) -> list[str]:
    sentences = ["Without a test set, the accuracy of the predictions is unknown."]
    if found.agreement is not None:
        sentences.append(
            f"For {1 - found.agreement:.1%} of the unlabelled {noun}, the run and the labels alone predict different "
            "classes; an audit shows which are right."
        )
    return [
        *sentences,
        f"To measure it, label 30 {noun}: `fewlabel audit {run} -n 30 -o {Path(run).name}-audit.csv`.",
    ]
