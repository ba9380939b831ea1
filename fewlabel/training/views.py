"""The batches of one step and their views; several processes make a part of each and gather the parts."""

import torch
from torch import Tensor

from .. import randomness
from ..data import Examples
from ..data.batches import Batches
from ..data.kind import Making
from ..networks import Classifier
from ..ranks import Ranks
from .plan import Plan


class BatchViews:
    """Fetches the examples of a step's batches once, and makes normalised views of them on the network's device."""

    def __init__(
        self, index: int, plan: Plan, examples: Examples, batches: Batches, network: Classifier, ranks: Ranks
    ) -> None:
        self.index, self.plan, self.examples, self.batches = index, plan, examples, batches
        self.network, self.ranks, self.device = network, ranks, network.mean.device
        self._rows = {"labelled": batches.labelled_index(index), "unlabelled": batches.unlabelled_index(index)}
        self._fetched: dict[str, Tensor] = {}
        self.labelled_index, self.unlabelled_index = (rows.to(self.device) for rows in self._rows.values())
        self.labels = examples.labels[self._rows["labelled"]].to(self.device)

    def make(self, name: str, n: int, of: str) -> Tensor:
        """The n-th view of that name of the "labelled", "unlabelled" or "second" batch."""
        count = len(self._index(of))
        source = randomness.generator(self.plan.recipe.seed, self.index, f"{of}/{name}/{n}")
        draws = randomness.Draws(source, count, self.ranks.rows())
        make = Making(
            draws=draws,
            without=self.plan.without,
            scale=self.network.normalise,
            gather=lambda view: self.ranks.gather(view.to(self.device), count),
        )
        return self.examples.kind.view(self._batch(of, name, draws), name, make)

    def _batch(self, of: str, name: str, draws: randomness.Draws) -> Tensor:
        """The inputs of a batch, or of this process's part of it; fetched once, unless views were made beforehand."""
        if of not in self._fetched or self.examples.views:
            index = self._index(of)[self.ranks.rows()]
            inputs = self.examples.rows_of_view(name, index, draws)
            # mps has no float64, and views of uint8 images need it to agree with Pillow to the bit
            stays = self.device.type == "mps" and inputs.dtype == torch.uint8
            self._fetched[of] = inputs if stays else inputs.to(self.device)
        return self._fetched[of]

    def _index(self, of: str) -> Tensor:
        """Which examples a batch holds."""
        assert of in ("labelled", "unlabelled", "second"), f"there is no batch '{of}': labelled, unlabelled or second"
        if of not in self._rows:
            self._rows[of] = self.batches.unlabelled_index(self.index, source=of)
        return self._rows[of]
