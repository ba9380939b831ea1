"""Meter: means of losses and pseudo-label statistics over the steps since the last line of metrics."""

import math
from typing import Any

import torch
from torch import Tensor


class Meter:
    """Sums that stay on the device, so that no step waits for them."""

    def __init__(self, classes: int, device: torch.device) -> None:
        self._classes, self._device = classes, device
        self._dtype = torch.float32 if device.type == "mps" else torch.float64
        self.sums: dict[str, Tensor] = {}

    def add(self, terms: dict[str, Tensor], records: dict[str, Tensor], truth: Tensor) -> None:
        """`truth` are the hidden labels of the unlabelled batch (-1 where there is none): for the report only."""
        self._sum("steps", torch.ones((), device=self._device))
        for name, value in terms.items():
            self._sum(f"loss/{name}", value.detach())
        if "spread" in records:
            self._sum("spread", records["spread"])
        if "pseudo_labels" in records:
            guess, kept, predicted = (records[name] for name in ("pseudo_labels", "kept", "predictions"))
            known = kept & (truth >= 0)
            self._sum("rows", torch.full((), float(len(kept)), device=self._device))
            self._sum("known", known.sum())
            self._sum("right", (known & (guess == truth)).sum())
            per_class = torch.zeros(3, self._classes, device=self._device)
            each = torch.ones_like(guess, dtype=torch.float32)
            for row, classes, weight in zip(
                per_class, (guess, guess, predicted), (each, kept.float(), each), strict=True
            ):
                row.index_add_(0, classes, weight)
            self._sum("by class", per_class)

    def _sum(self, name: str, value: Tensor) -> None:
        self.sums[name] = self.sums[name] + value if name in self.sums else value.to(self._dtype)

    def read(self) -> dict[str, Any]:
        """The means as plain numbers; starts anew."""
        sums, self.sums = {name: value.cpu() for name, value in self.sums.items()}, {}
        steps = sums.pop("steps").item()
        line: dict[str, Any] = {}
        terms = {name.removeprefix("loss/"): (sums[name] / steps).item() for name in sums if name.startswith("loss/")}
        line["loss"] = {"total": sum(terms.values()), **terms}
        if "spread" in sums:
            line["spread"] = (sums["spread"] / steps).item()
        if "rows" in sums:
            guessed, kept, predicted = sums["by class"]
            line["kept"] = (kept.sum() / sums["rows"]).item()
            line["kept_accuracy"] = (sums["right"] / sums["known"]).item() if sums["known"] else None
            line["guessed_by_class"] = (guessed / sums["rows"]).tolist()
            line["kept_by_class"] = (kept / sums["rows"]).tolist()
            line["predicted_by_class"] = (predicted / sums["rows"]).tolist()
        return line

    def finite(self) -> bool:
        return all(bool(value.isfinite().all()) for value in self.sums.values())


def finite_line(line: dict[str, Any]) -> bool:
    """Whether the losses of a line of metrics are finite."""
    return all(math.isfinite(value) for value in line["loss"].values())
