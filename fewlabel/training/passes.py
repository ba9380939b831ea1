"""Forward passes: which inputs go through the network together, in which precision, on which process."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor

from ..errors import UserError
from ..methods import Outputs
from ..networks import Classifier, Output, norms_untouched
from ..ranks import Ranks, shared

Network = Callable[[Tensor], Output]
NONE: Mapping[str, str] = MappingProxyType({})


class ForwardPasses:
    """The forward passes of one step through the network and its average (EMA); counts images and passes."""

    def __init__(
        self, network: Classifier, teacher: Classifier, precision: torch.dtype, ranks: Ranks, shared_norms: bool = True
    ) -> None:
        """Without `shared_norms`, the batch norms of each process are of its own rows alone."""
        self._network, self._teacher, self._precision, self._ranks = network, teacher, precision, ranks
        self._least = 1 if shared_norms else 2 * ranks.count  # rows of a pass
        self.images = self.passes = 0

    @property
    def exact(self) -> bool:
        """Whether the network computes in float32."""
        return self._precision == torch.float32

    def autocast(self, enabled: bool = True) -> torch.autocast:
        return torch.autocast(self._network.mean.device.type, self._precision, enabled=enabled and not self.exact)

    def forward_all(self, inputs: dict[str, Tensor], apart: Mapping[str, str] = NONE) -> Outputs:
        """One pass over all inputs together, and one for each group of those that are named in `apart`.

        The very same tensor under two names is computed once: with the others, if one of its names is not in `apart`,
        else in the group of its first name.
        """
        joint = {id(images): images for name, images in inputs.items() if name not in apart}
        groups: dict[str, dict[int, Tensor]] = {}
        placed = set(joint)
        for name, images in inputs.items():
            if id(images) not in placed:
                groups.setdefault(apart[name], {})[id(images)] = images
                placed.add(id(images))
        with self.autocast():
            outputs = concatenated(lambda images: self._divided(self._network, images), joint)
        for group in groups.values():
            outputs |= concatenated(self.apart, group)
        return {name: outputs[id(images)] for name, images in inputs.items()}

    def apart(self, images: Tensor, exact: bool = False) -> Output:
        """A pass whose batch norms use the statistics of these images and leave the running ones untouched.

        In the precision of the run or, `exact`, in float32.
        """
        with norms_untouched(self._network), self.autocast(enabled=not exact):
            return self._divided(self._network, images)

    @torch.no_grad()
    def teacher(self, images: Tensor) -> Output:
        """The averaged weights, without gradient; batch statistics here too, as running ones are of the raw weights."""
        with norms_untouched(self._teacher), self.autocast():
            return self._divided(self._teacher, images)

    def _divided(self, network: Network, images: Tensor) -> Output:
        """The network on these images; several processes take a part of them each, and gather the outputs."""
        self.images += len(images)
        self.passes += 1
        if self._ranks.count == 1:
            return network(images)
        if len(images) < self._least:
            raise shared(
                UserError(
                    f"with --no-share-norms, {self._ranks.count} processes need {self._least} images in each pass, and "
                    f"one pass has {len(images)}: increase --batch."
                )
            )
        output = network(self._ranks.part(images))
        there = [column for column in output if column is not None]
        whole = self._ranks.gather(torch.cat(there, 1), len(images))  # in one message
        columns = iter(whole.split([column.shape[1] for column in there], 1))
        return Output(*(None if column is None else next(columns) for column in output))  # type: ignore[arg-type]


def concatenated(network: Network, batches: dict[int, Tensor]) -> dict[int, Output]:
    """The outputs of a network for several batches, computed as one batch."""
    if not batches:
        return {}
    sizes = [len(images) for images in batches.values()]
    output = network(torch.cat(list(batches.values())))
    columns = [[None] * len(sizes) if column is None else column.split(sizes) for column in output]
    return {key: Output(*parts) for key, *parts in zip(batches, *columns, strict=True)}
