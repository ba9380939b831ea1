"""Warnings that users of few labels need: all guesses fall into few classes, or none is confident enough to be used."""

from collections.abc import Sequence
from typing import Any

from .recipe import Recipe

FEW_CLASSES, NONE_KEPT = "few classes", "none kept"
NEARLY_ALL = 0.95  # of the guesses
NONE = 0.001  # of the guesses
# For how much of the run, and for how many steps at least, before it counts: what passes sooner is how runs begin.
COLLAPSED_FOR, UNKEPT_FOR = (0.1, 100), (0.25, 300)


def alarms(history: Sequence[dict[str, Any]], steps: int, classes: Sequence[str]) -> dict[str, str]:
    """What is wrong at the last line of metrics and has been for a while: the name of each alarm and what is seen."""
    found = {}
    predicted = mean_since(history, "predicted_by_class", COLLAPSED_FOR, steps)
    if predicted is not None:
        few: list[int] = []
        for c in sorted(range(len(predicted)), key=predicted.__getitem__, reverse=True):
            few.append(c)
            if sum(predicted[c] for c in few) >= NEARLY_ALL:
                break
        if len(few) <= max(1, 2 * len(classes) // 5) and len(classes) > 1:
            share = sum(predicted[c] for c in few)
            names = ", ".join(classes[c] for c in few[:5]) + (", ..." if len(few) > 5 else "")
            where = f"{len(few)} of {len(classes)} classes ({names})"
            found[FEW_CLASSES] = f"{share:.0%} of the guesses for unlabelled images fall into {where}"
    kept = mean_since(history, "kept", UNKEPT_FOR, steps)
    if kept is not None and kept[0] < NONE:
        found[NONE_KEPT] = "hardly any guess for an unlabelled image is confident enough to be learnt from"
    return found


def mean_since(
    history: Sequence[dict[str, Any]], field: str, long: tuple[float, int], steps: int
) -> list[float] | None:
    """The mean of a field over the last lines of metrics, or None where they do not reach back far enough."""
    share, least = long
    since = history[-1]["step"] - max(share * steps, least)
    if since < 0 or field not in history[-1]:
        return None
    recent = [line[field] for line in history if line["step"] > since and field in line]
    rows = [row if isinstance(row, list) else [row] for row in recent]
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def advice(alarm: str, recipe: Recipe, learning_rate: float) -> list[str]:
    """What to change, most promising first."""

    def settings(name: str) -> dict[str, Any]:
        return {key: value for key, value in recipe.settings.items() if key.endswith(f".{name}")}

    if alarm == NONE_KEPT:
        return [
            *(f"lower --{key} (now {value:g})" for key, value in settings("threshold").items()),
            "train longer",
            "choose a method without a fixed threshold (--method freematch+icl or softmatch+icl)",
        ]
    return [
        *(f"align the guesses (--{key} 0.5)" for key, value in settings("align").items() if not value),
        *(
            f"let the weight of guesses grow more slowly (--{key}, now {value})"
            for key, value in settings("ramp").items()
        ),
        f"halve the learning rate (--learning-rate {learning_rate / 2:g})",
        "label a few images of the classes that are hardly ever guessed",
        "do nothing if your classes really are so uneven",
    ]
