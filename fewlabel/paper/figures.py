"""The paper's figures, drawn from our runs and data; each as PNG and SVG."""

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from torch import Tensor

from ..charts import BLUE, GREEN, GREY, ORANGE
from ..data import Examples, load
from ..data.images import as_picture
from ..errors import UserError
from .exhibits import Grid
from .runs import kept
from .show import NOT_RUN, Found, grids_of, note, of_method, percent, results_of

# ---- drawings


def pair(name: str, scale: str, out: Path, root: str | None) -> Figure:
    """Figure 1: two ways from two images to one embedding."""
    figure, axes = canvas(9.0, 3.6)
    box(axes, 0.0, 2.4, "image $u_i$", BLUE)
    box(axes, 0.0, 1.2, "image $u_j$", ORANGE)
    box(axes, 2.6, 2.4, "embedding $z_i$", BLUE)
    box(axes, 2.6, 1.2, "embedding $z_j$", ORANGE)
    box(axes, 5.4, 1.8, "mix of embeddings\n" + r"$\lambda z_i + (1-\lambda) z_j$", GREEN, wide=2.2)
    box(axes, 2.4, -0.6, "mix of images\n" + r"$\lambda u_i + (1-\lambda) u_j$", GREY, wide=1.9)
    box(axes, 5.4, -0.6, "embedding\nof the mix", GREEN, wide=2.2)
    for y in (2.8, 1.6):
        arrow(axes, (1.5, y), (2.6, y), text="$g(f(u))$")
    arrow(axes, (4.1, 2.8), (5.4, 2.35))
    arrow(axes, (4.1, 1.6), (5.4, 2.05))
    arrow(axes, (4.3, -0.2), (5.4, -0.2), text="$g(f(u))$")
    axes.plot([-0.3, 0.0], [2.8, 2.8], color=GREY, lw=1)  # from both images, by the left edge, down to their mix
    axes.plot([-0.3, 0.0], [1.6, 1.6], color=GREY, lw=1)
    axes.plot([-0.3, -0.3], [2.8, -0.2], color=GREY, lw=1)
    arrow(axes, (-0.3, -0.2), (2.4, -0.2))
    arrow(axes, (6.5, 1.8), (6.5, 0.2), style="<|-|>", colour=GREEN)
    axes.text(6.7, 1.0, "a positive pair:\nthey must agree", va="center", color=GREEN, fontsize=9)
    axes.set(xlim=(-0.5, 8.6), ylim=(-0.8, 3.4))
    return figure


def framework(name: str, scale: str, out: Path, root: str | None) -> Figure:
    """Figure 4: views, networks and the three losses."""
    figure, axes = canvas(10.4, 4.6)
    rows = [
        ("labelled x, weak view", 4.0, BLUE, "classes $p$", "$L_x$: the labels"),
        ("unlabelled u, weak view", 2.8, ORANGE, "classes $p$, embedding $z$", "a confident guess is the label ..."),
        ("unlabelled u, strong view", 1.6, ORANGE, "classes $p$", "$L_u$: ... of the strong view"),
        ("mix of two weak views", 0.4, GREEN, "embedding $z$", "$L_c$: equal to the mix of both $z$"),
    ]
    axes.add_patch(FancyBboxPatch((3.2, 0.4), 1.6, 4.4, boxstyle="round,pad=0.02", facecolor="#f2f2f2", edgecolor=GREY))
    axes.text(4.0, 2.6, "encoder $f$\n\nclassifier $h$\n\nprojector $g$", ha="center", va="center", fontsize=10)
    for text, y, colour, said, loss in rows:
        box(axes, 0.2, y, text, colour, wide=2.3)
        arrow(axes, (2.5, y + 0.4), (3.2, y + 0.4))
        arrow(axes, (4.8, y + 0.4), (5.5, y + 0.4))
        box(axes, 5.5, y, said, colour, wide=2.3)
        arrow(axes, (7.8, y + 0.4), (8.4, y + 0.4))
        axes.text(8.5, y + 0.4, loss, va="center", fontsize=10)
    axes.text(0.2, -0.35, r"$L = L_x + L_u + \alpha L_c$", fontsize=12)
    axes.set(xlim=(0, 12.0), ylim=(-0.6, 5.0))
    return figure


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_axis_off()
    return figure, axes


def box(axes: Axes, x: float, y: float, text: str, colour: str, wide: float = 1.5, high: float = 0.8) -> None:
    shape = FancyBboxPatch((x, y), wide, high, boxstyle="round,pad=0.02", facecolor="white", edgecolor=colour, lw=1.6)
    axes.add_patch(shape)
    axes.text(x + wide / 2, y + high / 2, text, ha="center", va="center", fontsize=9)


def arrow(
    axes: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    style: str = "-|>",
    colour: str = GREY,
    text: str = "",
) -> None:
    shape = FancyArrowPatch(start, end, arrowstyle=style, color=colour, mutation_scale=12, shrinkA=0, shrinkB=0)
    axes.add_patch(shape)
    axes.text((start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + 0.1, text, ha="center", va="bottom", fontsize=8)


# ---- pictures of the data


def flipped_digits(name: str, scale: str, out: Path, root: str | None) -> Figure:
    """Figure 2: one image of each class, upright and upside down."""
    images = load("mnist" if scale != "smoke" else "digits", root).train
    figure = Figure(figsize=(9, 2.4), layout="constrained")
    grid = figure.subplots(2, 10)
    for column, position in enumerate(one_of_each(images)):
        for row, title in enumerate(("as it is", "upside down")):
            picture = images.pixels[position] if row == 0 else images.pixels[position].flip(1)
            show(grid[row][column], picture)
            if column == 0:
                grid[row][column].set_ylabel(title, fontsize=9)
    return figure


def samples(name: str, scale: str, out: Path, root: str | None) -> Figure:
    """Figure 5: images of every class of each data set (of CIFAR-100 the first ten)."""
    names = ("cifar10", "mnist", "svhn", "cifar100") if scale != "smoke" else ("digits",)
    figure = Figure(figsize=(9, 1.0 * len(names) + 0.3), layout="constrained")
    grid = figure.subplots(len(names), 10, squeeze=False)
    for row, data in enumerate(names):
        images = load(data, root).train
        for column, position in enumerate(one_of_each(images)[:10]):
            show(grid[row][column], images.pixels[position])
        grid[row][0].set_ylabel(data, fontsize=9)
    return figure


def one_of_each(images: Examples) -> list[int]:
    return [int((images.labels == c).nonzero()[0]) for c in range(len(images.classes))]


def show(axes: Axes, pixels: Tensor) -> None:
    axes.imshow(as_picture(pixels), cmap="gray", vmin=0, vmax=255)
    axes.set(xticks=[], yticks=[])


# ---- from runs


def augmentations(name: str, scale: str, out: Path, root: str | None) -> Figure:
    """Figure 3: how much accuracy each augmentation costs a two-layer perceptron."""
    facts = kept(name, scale, out)
    if facts is None:
        raise UserError(f"{name} has not been run at this scale: fewlabel paper run {name} --scale {scale}.")
    figure = Figure(figsize=(6.4, 3.0), layout="constrained")
    axes = figure.add_subplot()
    names = list(facts["changes"])
    changes, errors = zip(*(facts["changes"][name] for name in names), strict=True)
    axes.barh(
        names, [100 * change for change in changes], xerr=[200 * error for error in errors], color=BLUE, capsize=3
    )
    axes.axvline(0, color="black", lw=0.8)
    axes.invert_yaxis()
    axes.set_xlabel(f"change of test accuracy, in points; without augmentation {100 * facts['plain']:.1f}%")
    axes.set_title("bars: mean over seeds, whiskers: two standard errors", fontsize=9, loc="left")
    tidy(axes)
    return figure


def curves(name: str, scale: str, out: Path, root: str | None) -> Figure:
    """Figure 6: accuracy over training of Mean-Teacher and MixMatch, for each number of labels."""
    (grid,) = grids_of(name, scale)
    bases = ("mean-teacher", "mixmatch")
    figure = Figure(figsize=(2.9 * len(grid.labels), 5.2), layout="constrained")
    panels = figure.subplots(len(bases), len(grid.labels), squeeze=False, sharex="row", sharey="row")
    found = results_of(grid, scale, out)
    caption(figure, grid, found, "bands from the lowest to the highest seed")
    for row, base in enumerate(bases):
        for column, labels in enumerate(grid.labels):
            axes = panels[row][column]
            for method, colour, style, label in with_and_without(base):
                runs = [result.curve for result in of_method(found, method, labels) if result.curve]
                if runs:
                    steps = [step for step, _ in runs[0]]
                    values = np.array([[100 * accuracy for _, accuracy in run] for run in runs])
                    axes.plot(steps, values.mean(0), color=colour, linestyle=style, label=label)
                    axes.fill_between(steps, values.min(0), values.max(0), color=colour, alpha=0.15, linewidth=0)
            axes.set_title(f"{base}, {labels} labels", fontsize=9)
            axes.set_xlabel("step")
            tidy(axes)
        panels[row][0].set_ylabel("test accuracy (%)")
    legend(figure)
    return figure


def with_and_without(base: str) -> tuple[tuple[str, str, str, str], ...]:
    """Method, colour, line and name of the two sides."""
    return ((base, ORANGE, "--", "without ICL"), (f"{base}+icl", BLUE, "-", "with ICL"))


def against_labels(name: str, scale: str, out: Path, root: str | None) -> Figure:
    """Figure 7: accuracy against the number of labels, with and without ICL."""
    (grid,) = grids_of(name, scale)
    bases = [method for method in grid.methods if "+" not in method]
    figure = Figure(figsize=(3.2 * len(bases), 3.2), layout="constrained")
    panels = figure.subplots(1, len(bases), squeeze=False, sharey=True)[0]
    found = results_of(grid, scale, out)
    caption(figure, grid, found, "whiskers: standard deviation over seeds")
    for axes, base in zip(panels, bases, strict=True):
        for method, colour, style, label in with_and_without(base):
            values = [percent(of_method(found, method, labels)) for labels in grid.labels]
            errorbars(axes, grid.labels, values, colour, style, label)
        axes.set_title(base, fontsize=10)
        axes.set(xlabel="labels", xscale="log", xlim=(0.8 * min(grid.labels), 1.25 * max(grid.labels)))
        axes.set_xticks(list(grid.labels), [str(labels) for labels in grid.labels])
        axes.minorticks_off()
        tidy(axes)
    panels[0].set_ylabel("test accuracy (%)")
    legend(figure)
    return figure


def sensitivity(name: str, scale: str, out: Path, root: str | None) -> Figure:
    """Figure 8: accuracy against alpha."""
    (grid,) = grids_of(name, scale)
    figure = Figure(figsize=(5.4, 3.6), layout="constrained")
    axes = figure.add_subplot()
    found = results_of(grid, scale, out)
    caption(figure, grid, found, "whiskers: standard deviation over seeds")
    alphas = [settings["icl.weight"] for settings in grid.settings]
    values = [percent(results) for results in found.values()]
    errorbars(axes, alphas, values, BLUE, "-", "icl-ssl")
    axes.set(xlabel=r"$\alpha$, the weight of the contrastive term", ylabel="test accuracy (%)", xticks=alphas)
    axes.set_title(f"icl-ssl, {grid.labels[0]} labels", fontsize=9)
    tidy(axes)
    return figure


def errorbars(
    axes: Axes, x: Sequence[float], values: Sequence[Sequence[float]], colour: str, style: str, label: str
) -> None:
    """Mean and standard deviation over seeds, where there are results; of one seed there is no deviation."""
    there = [
        (place, np.mean(v), np.std(v, ddof=1) if len(v) > 1 else np.nan)
        for place, v in zip(x, values, strict=True)
        if v
    ]
    if there:
        place, mean, spread = zip(*there, strict=True)
        axes.errorbar(
            place, mean, spread, color=colour, linestyle=style, marker="o", markersize=4, capsize=3, label=label
        )


def caption(figure: Figure, grid: Grid, found: Found, spread: str) -> None:
    """The title: which runs these are, and how their spread is drawn."""
    runs = note(grid, [result for results in found.values() for result in results])
    text = textwrap.fill(f"{runs} Lines: mean, {spread}.", int(15 * figure.get_figwidth()))
    figure.suptitle(text, fontsize=8, x=0.01, ha="left")


def legend(figure: Figure) -> None:
    """One for all panels, whichever of them have something to explain."""
    drawn = [axes.get_legend_handles_labels() for axes in figure.axes]
    handles = {label: handle for pair in drawn for handle, label in zip(*pair, strict=True)}
    if handles:
        figure.legend(handles.values(), handles.keys(), frameon=False, fontsize=8, loc="outside lower center", ncols=2)


def tidy(axes: Axes) -> None:
    """Remove the frame; an empty panel says so."""
    axes.spines[["top", "right"]].set_visible(False)
    if not axes.has_data():
        axes.text(0.5, 0.5, NOT_RUN, transform=axes.transAxes, ha="center", color=GREY)


FIGURES: dict[str, Callable[[str, str, Path, str | None], Figure]] = {
    "pair": pair,
    "framework": framework,
    "flipped_digits": flipped_digits,
    "augmentations": augmentations,
    "samples": samples,
    "curves": curves,
    "against_labels": against_labels,
    "sensitivity": sensitivity,
}
