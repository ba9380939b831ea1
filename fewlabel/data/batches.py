"""Which images are in the batch of a step: pure functions of (seed, step)."""

import torch
from torch import Tensor

from ..randomness import generator


class Batches:
    """Draws positions into the training images.

    Labelled images are drawn class-balanced however uneven the labels are; unlabelled ones pass through the whole
    set once per epoch, in a new order each time.
    """

    def __init__(self, labels: Tensor, labelled: Tensor, batch: int, mu: int, seed: int) -> None:
        self.labelled = labelled
        self.batch, self.unlabelled_batch, self.images, self.seed = batch, batch * mu, len(labels), seed
        self._by_class = [labelled[labels[labelled] == c] for c in labels[labelled].unique().tolist()]
        self._order: dict[tuple[str, int], Tensor] = {}

    def labelled_index(self, step: int) -> Tensor:
        """Positions of the labelled batch: as many of each class as possible, the odd ones of random classes."""
        draw = generator(self.seed, step, "labelled")
        classes = len(self._by_class)
        rounds = -(-self.batch // classes)
        turns = torch.cat([torch.randperm(classes, generator=draw) for _ in range(rounds)])[: self.batch]
        picks = torch.rand(self.batch, generator=draw, dtype=torch.float64)
        sizes = torch.tensor([len(c) for c in self._by_class])[turns]
        starts = torch.tensor([len(c) for c in self._by_class]).cumsum(0)[turns] - sizes
        return torch.cat(self._by_class)[starts + (picks * sizes).long()]

    def unlabelled_index(self, step: int, source: str = "unlabelled") -> Tensor:
        """Positions of an unlabelled batch; another `source` is an independent pass over the same images."""
        first = step * self.unlabelled_batch
        positions = torch.arange(first, first + self.unlabelled_batch)
        epochs = positions // self.images
        index = positions % self.images
        for epoch in epochs.unique().tolist():
            here = epochs == epoch
            index[here] = self._epoch(source, epoch)[index[here]]
        return index

    def _epoch(self, source: str, epoch: int) -> Tensor:
        key = (source, epoch)
        if key not in self._order:
            self._order = {k: v for k, v in self._order.items() if k[0] != source or k[1] == epoch - 1}
            self._order[key] = torch.randperm(self.images, generator=generator(self.seed, epoch, f"order of {source}"))
        return self._order[key]
