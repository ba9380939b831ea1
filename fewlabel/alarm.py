"""Warnings that users of few labels need: all guesses fall into few classes, or none is confident enough to be used."""

from collections.abc import Sequence
from typing import Any

from .recipe import Recipe

FEW_CLASSES, NONE_KEPT = "few classes", "none kept"
NEARLY_ALL = 0.95  # of the guesses
NONE = 0.001  # of the guesses
COLLAPSED_FOR, UNKEPT_FOR = 0.1, 0.25  # of the run: what passes sooner is how runs begin


def alarms(history: Sequence[dict[str, Any]], steps: int, classes: Sequence[str]) -> dict[str, str]:
    """What is wrong at the last line of metrics and has been for a while: the name of each alarm and what is seen."""
    found = {}
    guessed = mean_since(history, "guessed_by_class", COLLAPSED_FOR * steps)
    if guessed is not None:
        few: list[int] = []
        for c in sorted(range(len(guessed)), key=guessed.__getitem__, reverse=True):
            few.append(c)
            if sum(guessed[c] for c in few) >= NEARLY_ALL:
                break
        if len(few) <= max(1, len(classes) // 3) and len(classes) > 1:
            share = sum(guessed[c] for c in few)
            names = ", ".join(classes[c] for c in few[:5]) + (", ..." if len(few) > 5 else "")
            where = f"{len(few)} of {len(classes)} classes ({names})"
            found[FEW_CLASSES] = f"{share:.0%} of the guesses for unlabelled images fall into {where}"
    kept = mean_since(history, "kept", UNKEPT_FOR * steps)
    if kept is not None and kept[0] < NONE:
        found[NONE_KEPT] = "hardly any guess for an unlabelled image is confident enough to be learnt from"
    return found


def mean_since(history: Sequence[dict[str, Any]], field: str, steps: float) -> list[float] | None:
    """The mean of a field over the lines of the last `steps` steps, or None where they are not all there."""
    last = history[-1]["step"]
    if last < steps or field not in history[-1]:
        return None
    recent = [line[field] for line in history if line["step"] > last - steps]
    rows = [row if isinstance(row, list) else [row] for row in recent]
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def advice(alarm: str, recipe: Recipe) -> list[str]:
    """What to change, most promising first."""
    thresholds = {key: value for key, value in recipe.settings.items() if key.endswith(".threshold")}
    if alarm == NONE_KEPT:
        return [
            *(f"lower --{key} (now {value:g})" for key, value in thresholds.items()),
            "train longer (--steps)",
            "choose a method whose threshold adapts (--method freematch+icl or softmatch+icl)",
        ]
    switches = [key for key, value in recipe.settings.items() if key.endswith(".align") and value is False]
    return [
        *(f"align the guesses (--{key})" for key in switches),
        f"halve the learning rate (--learning-rate {recipe.learning_rate / 2:g})",
        *(f"raise --{key} (now {value:g})" for key, value in thresholds.items()),
        "label a few images of the classes that are hardly ever guessed",
        "do nothing if your classes really are so uneven",
    ]
