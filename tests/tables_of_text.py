"""Small files of texts and of table rows, whose classes are easy to tell."""

import csv
from collections.abc import Sequence
from pathlib import Path

ABOUT = {
    "weather": ("rain", "snow", "a storm", "fog", "sunshine", "hail", "frost", "thunder"),
    "food": ("bread", "soup", "cheese", "rice", "pasta", "salad", "cake", "curry"),
    "sport": ("football", "tennis", "rowing", "boxing", "cycling", "chess", "swimming", "hockey"),
}
SENTENCES = ("They talked about {} all evening.", "Nobody had expected {} that day.", "I like {} more than anything.")
TEXTS = [(sentence.format(word), about) for sentence in SENTENCES for about, words in ABOUT.items() for word in words]


def write_texts(path: Path, labelled: int = 2, *, separator: str = ",") -> None:
    """The columns id, text and topic; so many of each class have a label. Of a test file all have."""
    rows = [(f"t{number}", text, about) for number, (text, about) in enumerate(TEXTS)]
    write_rows(path, ("id", "text", "topic"), few_labels(rows, labelled), separator)


def write_table(path: Path, labelled: int = 3) -> None:
    """Numbers, a category, missing values and a label."""
    rows = []
    for number in range(90):
        kind = number % 3
        size = "" if number % 10 == 7 else str(round(kind * 3 + (number * 7 % 10) / 10, 2))
        colour = ("red", "green", "blue")[kind] if number % 5 else "grey"
        rows.append((size, str(100 * kind + number), colour, ("apple", "pear", "plum")[kind]))
    write_rows(path, ("size", "weight", "colour", "fruit"), few_labels(rows, labelled), ";")


def few_labels(rows: Sequence[tuple[str, ...]], labelled: int) -> list[tuple[str, ...]]:
    seen: dict[str, int] = {}
    found = []
    for *cells, label in rows:
        seen[label] = seen.get(label, 0) + 1
        found.append((*cells, label if seen[label] <= labelled else ""))
    return found


def write_rows(path: Path, header: tuple[str, ...], rows: list[tuple[str, ...]], separator: str) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerow(header)
        writer.writerows(rows)
