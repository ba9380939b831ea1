"""The charts of a report: learning curves, pseudo-labels, confusion matrix."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ..charts import BLUE, COLOURS, GREY, ORANGE, Chart, draw_chart, legend_above, name_ticks

History = Sequence[dict[str, Any]]
COUNTED_CLASSES = 12  # beyond this, counts in a confusion matrix would be illegible


def learning_curves(history: History, floor: History) -> list[Chart]:
    def accuracy(axes: Axes) -> None:
        for lines, colour, name in ((history, BLUE, "this run"), (floor, ORANGE, "labels alone")):
            points = [(line["step"], 100 * line["accuracy"]) for line in lines if "accuracy" in line]
            if points:
                axes.plot(*zip(*points, strict=True), color=colour, label=name, marker="o", markersize=3)
        axes.set(xlabel="step", ylabel="test accuracy (%)")
        legend_above(axes)

    charts = [loss_curves(history)]
    if any("accuracy" in line for line in history):
        charts.insert(0, draw_chart(accuracy, "Test accuracy over the steps"))
    return charts


def loss_curves(history: History) -> Chart:
    def losses(axes: Axes) -> None:
        styles = itertools.cycle(itertools.product(("-", "--"), COLOURS))
        for name, (style, colour) in zip([k for k in history[-1]["loss"] if k != "total"], styles, strict=False):
            points = [(line["step"], line["loss"][name]) for line in history]
            axes.plot(*zip(*points, strict=True), color=colour, linestyle=style, label=name)
        axes.set(xlabel="step", ylabel="loss, weighted")
        legend_above(axes)

    return draw_chart(losses, "The terms of the loss over the steps")


def first_stage_curves(history: History) -> list[Chart]:
    """The loss, the spread of embeddings and, if classes are known, how often neighbours have the same class."""

    def over_time(axes: Axes) -> None:
        shown = (("neighbour_accuracy", BLUE, "neighbours of the same class"), ("spread", ORANGE, "spread"))
        for field, colour, name in shown:
            points = [(line["step"], 100 * line[field]) for line in history if field in line]
            if points:
                axes.plot(*zip(*points, strict=True), color=colour, label=name)
        axes.set(xlabel="step", ylabel="%", ylim=(0, 103))
        legend_above(axes)

    return [
        draw_chart(over_time, "Spread of the embeddings, and share of nearest neighbours of the same class"),
        loss_curves(history),
    ]


def pseudo_labels(history: History, classes: Sequence[str]) -> list[Chart]:
    lines = [line for line in history if "kept" in line]

    def over_time(axes: Axes) -> None:
        steps = [line["step"] for line in lines]
        axes.plot(steps, [100 * line["kept"] for line in lines], color=BLUE, label="used")
        if any(line["kept_accuracy"] is not None for line in lines):
            correct = [np.nan if line["kept_accuracy"] is None else 100 * line["kept_accuracy"] for line in lines]
            axes.plot(steps, correct, color=ORANGE, linestyle="--", label="correct among the used")
        axes.set(xlabel="step", ylabel="pseudo-labels (%)", ylim=(0, 103))
        legend_above(axes)

    def by_class(axes: Axes) -> None:
        recent = lines[-max(1, len(lines) // 10) :]
        guessed, kept = (
            100 * np.mean([line[key] for line in recent], 0) for key in ("guessed_by_class", "kept_by_class")
        )
        place = np.arange(len(classes))
        axes.bar(place, guessed, color="#cccccc", label="all")
        axes.bar(place, kept, width=0.5, color=BLUE, label="used")
        axes.axhline(100 / len(classes), color=GREY, linewidth=0.8, linestyle=":")
        axes.set(ylabel="share of pseudo-labels (%)", ylim=(0, 1.05 * max(guessed.max(), 100 / len(classes))))
        name_ticks(axes, classes)
        legend_above(axes)

    if not lines:
        return []
    return [
        draw_chart(over_time, "Pseudo-labels over the steps"),
        draw_chart(by_class, "Pseudo-labels of each class"),
    ]


def confusion_matrix(counts: np.ndarray, classes: Sequence[str]) -> Chart:
    share = counts / counts.sum(1, keepdims=True).clip(1)
    counted = len(classes) <= COUNTED_CLASSES

    def draw(axes: Axes) -> None:
        axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
        name_ticks(axes, classes, both=True)
        if counted:
            for i, j in np.ndindex(counts.shape):
                if counts[i, j]:
                    colour = "white" if share[i, j] > 0.6 else "black"
                    axes.text(j, i, str(counts[i, j]), ha="center", va="center", fontsize=9, color=colour)
        axes.set(xlabel="predicted", ylabel="true")

    return draw_chart(draw, "Confusion matrix of the test set", (5.2, 4.8) if counted else (6.4, 5.6))
