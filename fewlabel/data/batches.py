"""Which images are in the batch of a step: pure functions of (seed, step)."""

import torch
from torch import Tensor

from ..randomness import generator

NARROW = torch.int32  # of the order of an epoch: the same numbers as int64, in half of the memory


class Batches:
    """Draws positions into the training images.

    Labelled images are drawn class-balanced however uneven the labels are; unlabelled ones pass through the whole
    set once per epoch, in a new order each time. The labelled ones are among them, unless that is declined.
    """

    def __init__(
        self,
        labels: Tensor,
        labelled: Tensor,
        batch: int,
        mu: int,
        seed: int,
        labelled_among_unlabelled: bool = True,
    ) -> None:
        self.labelled = labelled
        self.batch, self.unlabelled_batch, self.seed = batch, batch * mu, seed
        self._pool: Tensor | None = None  # of the unlabelled batches; without one all examples
        if not labelled_among_unlabelled and len(labelled) < len(labels):
            every = torch.arange(len(labels))
            self._pool = every[torch.isin(every, labelled, invert=True)]
        self._count = len(labels) if self._pool is None else len(self._pool)
        by_class = [labelled[labels[labelled] == c] for c in labels[labelled].unique().tolist()]
        self._by_class = torch.cat([labelled[:0], *by_class])  # the labelled images, one class after the other
        self._sizes = torch.tensor([len(c) for c in by_class], dtype=torch.int64)
        self._starts = self._sizes.cumsum(0) - self._sizes
        self._order: dict[tuple[str, int], Tensor] = {}

    def labelled_index(self, step: int) -> Tensor:
        """Positions of the labelled batch: as many of each class as possible, the odd ones of random classes."""
        classes = len(self._sizes)
        if not classes:
            return self._by_class  # in a first stage, which looks at no label
        draw = generator(self.seed, step, "labelled")
        rounds = -(-self.batch // classes)
        turns = torch.cat([torch.randperm(classes, generator=draw) for _ in range(rounds)])[: self.batch]
        picks = torch.rand(self.batch, generator=draw, dtype=torch.float64)
        return self._by_class[self._starts[turns] + (picks * self._sizes[turns]).long()]

    def unlabelled_index(self, step: int, source: str = "unlabelled") -> Tensor:
        """Positions of an unlabelled batch; another `source` is an independent pass over the same images."""
        first = step * self.unlabelled_batch
        positions = torch.arange(first, first + self.unlabelled_batch)
        epochs = positions // self._count
        index = positions % self._count
        for epoch in epochs.unique().tolist():
            here = epochs == epoch
            index[here] = self._epoch(source, epoch)[index[here]].long()
        return index

    def _epoch(self, source: str, epoch: int) -> Tensor:
        key = (source, epoch)
        if key not in self._order:
            self._order = {k: v for k, v in self._order.items() if k[0] != source or k[1] == epoch - 1}
            draw = generator(self.seed, epoch, f"order of {source}")
            order = torch.randperm(self._count, generator=draw, dtype=NARROW)
            self._order[key] = order if self._pool is None else self._pool[order]
        return self._order[key]
