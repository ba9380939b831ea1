"""Shared by all charts: colours, class names on axes, and PNG output."""

import io
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#666666"  # colour-blind readers tell them apart
SHOWN_CLASSES = 40  # beyond this, names on axes would be illegible


@dataclass(frozen=True)
class Chart:
    """A chart and its description."""

    png: bytes
    alt: str
    width: int


def draw_chart(draw: Callable[[Axes], None], alt: str, inches: tuple[float, float] = (4.6, 3.2)) -> Chart:
    figure = Figure(figsize=inches, layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    draw(axes)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that the font lacks is drawn as a box
        figure.savefig(buffer, format="png", dpi=144)
    return Chart(buffer.getvalue(), alt, round(inches[0] * 96))


def legend_above(axes: Axes) -> None:
    """A legend above the axes, where it hides no curve."""
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0, columnspacing=1.2)


def name_ticks(axes: Axes, classes: Sequence[str], both: bool = False) -> None:
    """Class names along x (and y), slanted if they would overlap; none if there are too many to read."""
    if len(classes) > SHOWN_CLASSES:
        axes.set_xlabel("class")
        return
    names = [shorten(name) for name in classes]
    slanted = sum(len(name) + 2 for name in names) > 40
    axes.set_xticks(range(len(classes)), names, rotation=60 if slanted else 0, parse_math=False)
    if both:
        axes.set_yticks(range(len(classes)), names, parse_math=False)


def shorten(name: str) -> str:
    """A name short enough for an axis, with a replacement character for invalid UTF-8."""
    name = name.encode("utf-8", "replace").decode()
    return name if len(name) <= 14 else f"{name[:13]}…"
