"""metrics.jsonl: lines of metrics, checked on reading, because a kill may cut them and people may edit them."""

import json
from pathlib import Path
from typing import Any

from ..files import parse_json

LARGEST = 1e30  # of any figure: a training stops long before
TOGETHER = {  # fields that come with others
    "kept": {"kept_accuracy", "guessed_by_class", "kept_by_class", "predicted_by_class"},
    "raw_accuracy": {"accuracy"},
}


def read_metrics(path: Path, until: float = float("inf")) -> list[dict[str, Any]]:
    """The lines up to a step. Reading ends at the first line that is not valid: the last one may be cut off."""
    lines: list[dict[str, Any]] = []
    try:
        texts = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return lines
    for text in texts:
        try:
            line = parse_json(text)
        except ValueError:
            break
        if not is_line(line) or (lines and not follows(line, lines[0], lines[-1])):
            break
        if line["step"] <= until:
            lines.append(line)
    return lines


def is_line(line: Any) -> bool:
    """Whether a line is valid metrics of a training."""
    if not isinstance(line, dict) or not {"step", "loss", "seconds"} <= line.keys():
        return False
    step, loss = line["step"], line["loss"]
    whole = isinstance(step, int) and not isinstance(step, bool) and step >= 1
    named = isinstance(loss, dict) and "total" in loss
    if any(name in line and not others <= line.keys() for name, others in TOGETHER.items()):
        return False
    return whole and named and all(valid(name, line[name]) for name in line) and len(class_counts(line)) <= 1


def follows(line: dict[str, Any], first: dict[str, Any], last: dict[str, Any]) -> bool:
    """Whether it is a later line of the same training."""
    later = line["step"] > last["step"] and line["loss"].keys() <= last["loss"].keys()
    return later and class_counts(line) <= class_counts(first)


def class_counts(line: dict[str, Any]) -> set[int]:
    """For how many classes the fields of a line have figures: one number, or none."""
    return {len(value) for name, value in line.items() if name.endswith("_by_class")}


def valid(name: str, value: Any) -> bool:
    """Whether a value is valid for a field."""
    if name == "loss":
        return all(is_number(part) for part in value.values())
    if name == "alarms":
        return isinstance(value, dict) and all(isinstance(text, str) and text for text in value.values())
    if name.endswith("_by_class"):
        return (
            isinstance(value, list) and value != [] and all(is_number(share) and 0 <= share <= 1.001 for share in value)
        )
    return is_number(value) or isinstance(value, bool) or (value is None and name == "kept_accuracy")


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST


def as_text(lines: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)
