"""Warnings that users of few labels need: predictions collapse into few classes, or no pseudo-label is confident."""

from collections.abc import Sequence
from typing import Any

from .plan import Plan

FEW_CLASSES, NONE_KEPT, COLLAPSE = "few classes", "none kept", "collapse"
NEARLY_ALL = 0.95  # of the guesses
NONE = 0.001  # of the guesses
HARDLY = 0.1  # of the spread that embeddings have in all directions alike
# For how much of the run, and for how many steps at least, before it counts: what passes sooner is how runs begin.
COLLAPSED_FOR, UNKEPT_FOR = (0.1, 100), (0.25, 300)


def alarms(
    history: Sequence[dict[str, Any]], steps: int, classes: Sequence[str], noun: str = "images"
) -> dict[str, str]:
    """Alarms that have been on for a while at the last line of metrics: name -> description."""
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
            found[FEW_CLASSES] = f"{share:.0%} of the predictions for unlabelled {noun} fall into {where}"
    kept = mean_since(history, "kept", UNKEPT_FOR, steps)
    if kept is not None and kept[0] < NONE:
        found[NONE_KEPT] = f"hardly any pseudo-label of unlabelled {noun} is confident enough to be used"
    spread = mean_since(history, "spread", COLLAPSED_FOR, steps)
    if spread is not None and spread[0] < HARDLY:
        found[COLLAPSE] = f"the embeddings of all {noun} are nearly the same (their spread is {spread[0]:.0%})"
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


def advice(alarm: str, plan: Plan, flags: bool = True) -> list[str]:
    """What to change, most promising first; settings are written as command-line flags or as in Python."""
    dashes = "--" if flags else ""
    rate = plan.rate_flag if flags else plan.rate_flag.removeprefix("--").replace("-", "_")

    def settings(name: str) -> dict[str, Any]:
        return {key: value for key, value in plan.recipe.settings.items() if key.endswith(f".{name}")}

    if alarm == NONE_KEPT:
        return [
            *(f"lower {dashes}{key} (now {value:g})" for key, value in settings("threshold").items()),
            "train longer",
            f"choose a method without a fixed threshold ({dashes}method freematch or softmatch)",
        ]
    if alarm == COLLAPSE:
        return [
            f"halve the learning rate ({rate} {plan.learning_rate / 2:g})",
            f"raise the temperature ({', '.join(dashes + key for key in settings('temperature'))})"
            if settings("temperature")
            else "choose a method with negatives (simclr or moco)",
            "check that the images are not all alike",
        ]
    return [
        *(f"align the pseudo-labels ({dashes}{key} 0.5)" for key, value in settings("align").items() if not value),
        *(
            f"let the weight of unlabelled terms grow more slowly ({dashes}{key}, now {value})"
            for key, value in settings("ramp").items()
        ),
        f"halve the learning rate ({rate} {plan.learning_rate / 2:g})",
        "label a few examples of the classes that are hardly ever predicted",
        "do nothing if your classes really are that uneven",
    ]
