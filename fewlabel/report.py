"""report.html: one self-contained page with pictures that tells how a run went."""

import base64
import io
import itertools
import statistics
import warnings
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

from .alarm import advice
from .data import Dataset
from .evaluate import confusion
from .files import write_atomically
from .plan import Plan

COLOURS = BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#666666"  # colour-blind readers tell them apart
PICTURES = 24  # in each gallery
SHOWN_CLASSES = 40  # beyond this, names on axes would be illegible
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin: 2.2rem 0 0.3rem; }
p { margin: 0.3rem 0; } .note { color: #555; }
table { border-collapse: collapse; }
td, th { padding: 0.15rem 1.2rem 0.15rem 0; text-align: left; vertical-align: top; }
.numbers { display: flex; flex-wrap: wrap; gap: 2.5rem; margin: 1rem 0; }
.numbers b { display: block; font-size: 1.9rem; line-height: 1.2; }
.gallery { display: flex; flex-wrap: wrap; gap: 0.7rem; margin: 0.5rem 0; }
figure { margin: 0; width: 5.2rem; font-size: 0.75rem; line-height: 1.25; overflow-wrap: anywhere; }
figure img { width: 5.2rem; height: 5.2rem; image-rendering: pixelated; border: 1px solid #ccc; }
figure img { box-sizing: border-box; }
.warning { border-left: 0.3rem solid #D55E00; background: #FFF4EC; padding: 0.5rem 1rem; margin: 1rem 0; }
.warning ul { margin: 0.3rem 0; padding-left: 1.3rem; }
.charts { display: flex; flex-wrap: wrap; gap: 1rem; } .charts img { max-width: 100%; }
"""


def write_report(
    path: Path,
    plan: Plan,
    dataset: Dataset,
    history: list[dict[str, Any]],
    floor: list[dict[str, Any]] | None,
    test_guess: Tensor | None,
    positions: Tensor,
    guesses: Tensor,
) -> None:
    """Write the page.

    `guesses` are class probabilities of the unlabelled training images at `positions`; `test_guess` are the classes
    predicted for the test images.
    """
    title = f"{plan.recipe.method} on {dataset.name}"
    sections = [
        f"<h1>{escape(title)}</h1>",
        summary(plan, dataset, history, floor),
        warnings_of(plan, history),
        curves(history, floor),
        pseudo_labels(history, dataset.train.classes),
        confusion_matrix(dataset, test_guess),
        labelled_images(plan, dataset),
        certainty(dataset, positions, guesses),
        unreadable(dataset),
        settings(plan),
    ]
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>'
        f"<body>{''.join(sections)}</body></html>\n"
    )
    write_atomically(path, page.encode("utf-8", "surrogateescape"))


# ---- sections


def summary(plan: Plan, dataset: Dataset, history: list[dict[str, Any]], floor: list[dict[str, Any]] | None) -> str:
    train, last = dataset.train, history[-1]
    numbers = [("labelled images", f"{len(plan.labelled)}"), ("training images", f"{len(train):,}")]
    text = ""
    if "accuracy" in last:
        evaluated = accuracies(history)
        late = evaluated[-20:]
        numbers.insert(0, ("test accuracy", f"{last['accuracy']:.1%}"))
        if floor:
            numbers.insert(1, ("on the labels alone", f"{floor[-1]['accuracy']:.1%}"))
        text = (
            f"Averaged weights after the last step: <b>{last['accuracy']:.2%}</b> (the result), on "
            f"{dataset.test.known if dataset.test else 0} images never trained on. Beside it, to be read with care: "
            f"median of the last {len(late)} evaluations {statistics.median(late):.2%}, best {max(evaluated):.2%}, "
            f"raw weights {last['raw_accuracy']:.2%}."
        )
    else:
        text = (
            "No test images were given, so there is no test accuracy: this page cannot say how good the classifier is."
        )
    minutes = last["seconds"] / 60
    numbers.append((f"minutes for {plan.steps:,} steps", f"{minutes:.1f}"))
    boxes = "".join(f"<div><b>{value}</b>{escape(name)}</div>" for name, value in numbers)
    return f'<div class="numbers">{boxes}</div><p>{text}</p>'


def warnings_of(plan: Plan, history: list[dict[str, Any]]) -> str:
    """The alarms that are still on at the end with what may help, and those that passed."""
    began: dict[str, int] = {}  # the last unbroken stretch of each alarm, and what was seen
    ended: dict[str, int] = {}
    seen: dict[str, str] = {}
    before: dict[str, str] = {}
    for line in history:
        now = line.get("alarms", {})
        for alarm, text in now.items():
            began[alarm] = began[alarm] if alarm in before else line["step"]
            ended[alarm], seen[alarm] = line["step"], text
        before = now
    boxes = []
    for alarm in seen:
        text = f"{escape(seen[alarm][0].upper() + seen[alarm][1:])}"
        if alarm in before:
            items = "".join(
                f"<li>{escape(suggestion)}</li>" for suggestion in advice(alarm, plan.recipe, plan.learning_rate)
            )
            boxes.append(
                f'<div class="warning"><b>{text}</b>, since step {began[alarm]:,}. What may help:<ul>{items}</ul></div>'
            )
        else:
            boxes.append(
                f'<p class="note">For a while (steps {began[alarm]:,} to {ended[alarm]:,}): {text}. It passed.</p>'
            )
    return "".join(boxes)


def accuracies(history: list[dict[str, Any]]) -> list[float]:
    return [line["accuracy"] for line in history if "accuracy" in line]


def curves(history: list[dict[str, Any]], floor: list[dict[str, Any]] | None) -> str:
    def accuracy(axes: Axes) -> None:
        for lines, colour, name in ((history, BLUE, "this run"), (floor or [], ORANGE, "labels alone")):
            points = [(line["step"], 100 * line["accuracy"]) for line in lines if "accuracy" in line]
            if points:
                axes.plot(*zip(*points, strict=True), color=colour, label=name, marker="o", markersize=3)
        axes.set(xlabel="step", ylabel="test accuracy (%)")
        axes.legend(frameon=False)

    def losses(axes: Axes) -> None:
        styles = itertools.cycle(itertools.product(("-", "--"), COLOURS))
        for name, (style, colour) in zip([k for k in history[-1]["loss"] if k != "total"], styles, strict=False):
            points = [(line["step"], line["loss"][name]) for line in history]
            axes.plot(*zip(*points, strict=True), color=colour, linestyle=style, label=name)
        axes.set(xlabel="step", ylabel="loss, weighted")
        axes.legend(frameon=False)

    charts = [chart(losses, "The terms of the loss over the steps")]
    if accuracies(history):
        charts.insert(0, chart(accuracy, "Test accuracy over the steps"))
    return f'<h2>Training</h2><div class="charts">{"".join(charts)}</div>'


def pseudo_labels(history: list[dict[str, Any]], classes: Sequence[str]) -> str:
    lines = [line for line in history if "kept" in line]
    if not lines:
        return ""

    def over_time(axes: Axes) -> None:
        steps = [line["step"] for line in lines]
        axes.plot(steps, [100 * line["kept"] for line in lines], color=BLUE, label="kept")
        if any(line["kept_accuracy"] is not None for line in lines):
            right = [np.nan if line["kept_accuracy"] is None else 100 * line["kept_accuracy"] for line in lines]
            axes.plot(steps, right, color=ORANGE, linestyle="--", label="right among the kept")
        axes.set(xlabel="step", ylabel="pseudo-labels (%)", ylim=(0, 103))
        axes.legend(frameon=False)

    def by_class(axes: Axes) -> None:
        recent = lines[-max(1, len(lines) // 10) :]
        guessed, kept = (
            100 * np.mean([line[key] for line in recent], 0) for key in ("guessed_by_class", "kept_by_class")
        )
        place = np.arange(len(classes))
        axes.bar(place, guessed, color="#cccccc", label="guessed")
        axes.bar(place, kept, width=0.5, color=BLUE, label="kept")
        axes.axhline(100 / len(classes), color=GREY, linewidth=0.8, linestyle=":")
        axes.set(ylabel="share of all guesses (%)", ylim=(0, 1.3 * max(guessed.max(), 100 / len(classes))))
        name_ticks(axes, classes)
        axes.legend(frameon=False)

    charts = chart(over_time, "Pseudo-labels over the steps") + chart(by_class, "Pseudo-labels of each class")
    note = (
        "Guesses for unlabelled images: how many were sure enough to be used, and at the end of the run of which class."
    )
    return f'<h2>Pseudo-labels</h2><p class="note">{note}</p><div class="charts">{charts}</div>'


def confusion_matrix(dataset: Dataset, guess: Tensor | None) -> str:
    if guess is None or dataset.test is None:
        return ""
    classes = dataset.train.classes
    counts = confusion(guess, dataset.test.labels, len(classes)).numpy()
    share = counts / counts.sum(1, keepdims=True).clip(1)

    def draw(axes: Axes) -> None:
        axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
        name_ticks(axes, classes)
        if len(classes) <= SHOWN_CLASSES:
            axes.set_yticks(range(len(classes)), [shorten(name) for name in classes], parse_math=False)
        if len(classes) <= 12:
            for i, j in np.ndindex(counts.shape):
                if counts[i, j]:
                    axes.text(
                        j, i, str(counts[i, j]), ha="center", va="center", fontsize=7, color=text_colour(share[i, j])
                    )
        axes.set(xlabel="predicted", ylabel="true")

    return f"<h2>What is taken for what</h2>{chart(draw, 'Confusion matrix of the test images', (6.4, 5.6))}"


def labelled_images(plan: Plan, dataset: Dataset) -> str:
    train = dataset.train
    shown = plan.labelled[train.labels[plan.labelled].argsort(stable=True)][:100]
    pictures = [figure(train.pixels[i], train.classes[train.labels[i]], train.names[i]) for i in shown.tolist()]
    more = f" The first {len(shown)} of {len(plan.labelled)}." if len(plan.labelled) > len(shown) else ""
    return (
        f"<h2>The labelled images</h2><p class='note'>All that was known about the classes.{more}</p>"
        f'<div class="gallery">{"".join(pictures)}</div>'
    )


def certainty(dataset: Dataset, positions: Tensor, guesses: Tensor) -> str:
    if not len(positions):
        return ""
    confidence, guess = guesses.max(1)
    order = confidence.argsort(descending=True, stable=True)

    def gallery(rows: Tensor) -> str:
        train = dataset.train
        captions = [f"{train.classes[guess[r]]} {confidence[r]:.0%}" for r in rows]
        shown = zip(positions[rows].tolist(), captions, strict=True)
        return (
            f'<div class="gallery">{"".join(figure(train.pixels[i], text, train.names[i]) for i, text in shown)}</div>'
        )

    return (
        f"<h2>Most certain</h2><p class='note'>Among {len(positions):,} unlabelled training images.</p>"
        f"{gallery(order[:PICTURES])}"
        "<h2>Least certain</h2><p class='note'>A label for one of these would teach the most.</p>"
        f"{gallery(order.flip(0)[:PICTURES])}"
    )


def unreadable(dataset: Dataset) -> str:
    skipped = {**dataset.train.skipped, **(dataset.test.skipped if dataset.test else {})}
    if not skipped:
        return ""
    rows = "".join(f"<tr><td>{escape(name)}</td><td>{escape(reason)}</td></tr>" for name, reason in skipped.items())
    return f"<h2>Unreadable pictures</h2><p>{len(skipped)} were left out.</p><table>{rows}</table>"


def settings(plan: Plan) -> str:
    facts = plan.recipe.to_dict() | {
        "network": plan.network,
        "without": ", ".join(sorted(plan.without)),
        "learning_rate": plan.learning_rate,
        "steps": plan.steps,
    }
    rows = "".join(
        f"<tr><td>{escape(name.replace('_', '-'))}</td><td>{escape(str(value))}</td></tr>"
        for name, value in facts.items()
        if value not in (None, {}, "")
    )
    return f"<h2>Settings</h2><details><summary>The recipe of this run</summary><table>{rows}</table></details>"


# ---- pictures


def chart(draw: Callable[[Axes], None], alt: str, inches: tuple[float, float] = (4.6, 3.2)) -> str:
    """A drawing as an <img> that needs no other file."""
    drawing = Figure(figsize=inches, layout="constrained")
    axes = drawing.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    draw(axes)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that the font lacks is drawn as a box
        drawing.savefig(buffer, format="png", dpi=144)
    return f'<img alt="{escape(alt)}" width="{inches[0] * 96:.0f}" src="{data_address(buffer.getvalue())}">'


def figure(pixels: Tensor, caption: str, name: str) -> str:
    buffer = io.BytesIO()
    Image.fromarray(as_picture(pixels)).save(buffer, "png")
    address, tip = data_address(buffer.getvalue()), escape(name, quote=True)
    return f'<figure title="{tip}"><img alt="{tip}" src="{address}">{escape(caption)}</figure>'


def as_picture(pixels: Tensor) -> np.ndarray:
    """(H, W) or (H, W, 3) of (C, H, W), as drawing libraries want it."""
    picture = pixels[0] if len(pixels) == 1 else pixels.permute(1, 2, 0)
    return np.ascontiguousarray(picture.to(torch.uint8).numpy())


def data_address(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def name_ticks(axes: Axes, classes: Sequence[str]) -> None:
    """Class names along x, slanted where they would touch; none where there are too many to read."""
    if len(classes) > SHOWN_CLASSES:
        axes.set_xlabel("class")
        return
    slanted = sum(len(shorten(name)) + 2 for name in classes) > 40
    names = [shorten(name) for name in classes]
    axes.set_xticks(range(len(classes)), names, rotation=60 if slanted else 0, parse_math=False)


def shorten(name: str) -> str:
    """To be drawn: not too long, and with a sign in place of what is no UTF-8."""
    name = name.encode("utf-8", "replace").decode()
    return name if len(name) <= 14 else f"{name[:13]}…"


def text_colour(share: float) -> str:
    return "white" if share > 0.6 else "black"
