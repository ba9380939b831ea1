"""The processes that train one run together, as `torchrun` starts them.

Every process holds the whole network, the whole method and the whole of what a step decides; only the work is divided:
of each batch a process makes the views of its own rows, and of all that goes through the network it looks at its own
rows. What they find is put together again, gradients included, so that a loss is of the whole batch on every process.

The rows of process r of K are r, r + K, r + 2 K, ...: some of every kind of view.
"""

import os
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from .errors import LostContact, UserError

Answer = TypeVar("Answer")
PATIENCE = timedelta(hours=2)  # with a process that reads pictures or judges


class Ranks:
    """This process among those of the run: `number` of `count`."""

    def __init__(self, number: int = 0, count: int = 1) -> None:
        self.number, self.count = number, count
        self.at_work = False  # are all of them in the same step? then norms may ask the others
        self.sent = self.messages = 0  # bytes to other processes, were they in a ring, and how often

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and prints."""
        return self.number == 0

    def __deepcopy__(self, memo: dict[int, Any]) -> "Ranks":
        return self

    # ---- the rows of a batch

    def rows(self) -> slice:
        """The rows of this process."""
        return slice(self.number, None, self.count)

    def part(self, batch: Tensor) -> Tensor:
        """The rows of this process; gradients come back from all of them."""
        return batch if self.count == 1 else Part.apply(batch, self)

    def gather(self, rows: Tensor, total: int) -> Tensor:
        """The whole batch of `total` rows; gradients go back to the process that had them."""
        return rows if self.count == 1 else Gather.apply(rows, total, self)

    def _gather(self, rows: Tensor, total: int) -> Tensor:
        longest = -(-total // self.count)
        if len(rows) < longest:
            rows = torch.cat([rows, rows.new_zeros(longest - len(rows), *rows.shape[1:])])
        parts = rows.new_empty(self.count, *rows.shape)
        dist.all_gather(list(parts.unbind()), rows.contiguous())
        self.sent, self.messages = self.sent + (self.count - 1) * rows.nbytes, self.messages + 1
        return parts.transpose(0, 1).flatten(0, 1)[:total]

    # ---- sums

    def total(self, values: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        if self.count > 1:
            dist.all_reduce(values)
            self.sent, self.messages = self.sent + 2 * (self.count - 1) * values.nbytes // self.count, self.messages + 1
        return values

    def average_gradients(self, parameters: Iterable[Tensor]) -> None:
        """All of them in one message."""
        if self.count == 1:
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        mean = self.total(torch.cat([gradient.flatten() for gradient in gradients])) / self.count
        parts = mean.split([gradient.numel() for gradient in gradients])
        torch._foreach_copy_(gradients, [part.view(g.shape) for part, g in zip(parts, gradients, strict=True)])

    # ---- devices

    def check(self, device: torch.device, batch: int, share_norms: bool) -> None:
        """Refuse settings that several processes do not support."""
        if self.count == 1:
            return
        least = self.count if share_norms else 2 * self.count
        if batch < least:
            raise UserError(
                f"{self.count} processes need at least {least} labelled examples per step: increase --batch."
            )
        if device.type == "mps":
            raise UserError("several processes cannot share the device mps: use --device cpu, or run without torchrun.")
        if device.index is not None:
            raise UserError(f"--device {device} is one device: use {device.type}, and each process uses its own.")

    def own(self, device: torch.device) -> torch.device:
        """The GPU of this process, where there are several."""
        if self.count == 1 or device.type != "cuda":
            return device
        if local_rank() >= torch.cuda.device_count():
            raise UserError(
                f"there are {torch.cuda.device_count()} GPUs: start no more processes per machine with torchrun."
            )
        return torch.device("cuda", local_rank())

    # ---- agreement

    def any(self, *wishes: bool) -> tuple[bool, ...]:
        """For each flag: whether it is set in any process."""
        if self.count == 1:
            return wishes
        return tuple(self.total(torch.tensor([float(wish) for wish in wishes])).bool().tolist())

    def first_says(self, ask: Callable[[], Answer]) -> Answer:
        """The answer of the first process, or the error it raises."""
        if self.count == 1:
            return ask()
        answer: list[Any] = [None, None]
        if self.first:
            try:
                answer[0] = ask()
            except UserError as error:
                answer[1] = error
        dist.broadcast_object_list(answer)
        if answer[1] is not None:
            raise shared(answer[1])
        return answer[0]

    def first_before_others(self, work: Callable[[], Answer]) -> Answer:
        """Work that leaves something behind for the others: done by one process of each machine before the rest."""
        if self.count == 1:
            return work()
        ahead, done, mistake = local_rank() == 0, [], None
        if ahead:
            try:
                done.append(work())
            except UserError as error:
                mistake = error
        for found in self._all(mistake):  # all wait here
            if found is not None:
                raise shared(found)
        return done[0] if ahead else work()

    def agree_on(self, what: str, facts: Callable[[], str]) -> None:
        """Raise an error if the processes differ."""
        if self.count > 1 and len(set(self._all(facts()))) > 1:
            raise shared(UserError(f"the processes do not have the same {what}: give every machine the same files."))

    def _all(self, mine: Any) -> list[Any]:
        everything: list[Any] = [None] * self.count
        dist.all_gather_object(everything, mine)
        return everything

    @contextmanager
    def working(self) -> Iterator[None]:
        """Within this block all processes do the same, and norms are of all their rows."""
        self.at_work = self.count > 1
        try:
            yield
        finally:
            self.at_work = False


ALONE = Ranks()


class Gather(torch.autograd.Function):
    """Every process computes the same loss, and gradients of weights are averaged over processes in the end. A weight
    of the network gets its gradient in parts, one from each process: they have to be `count` times as large."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, total: int, ranks: Ranks) -> Tensor:
        ctx.ranks = ranks
        return ranks._gather(rows, total)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return gradient[ctx.ranks.rows()] * ctx.ranks.count, None, None


class Part(torch.autograd.Function):
    """The counterpart of Gather."""

    @staticmethod
    def forward(ctx: Any, batch: Tensor, ranks: Ranks) -> Tensor:
        ctx.ranks, ctx.total = ranks, len(batch)
        return batch[ranks.rows()]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.ranks._gather(gradient, ctx.total) / ctx.ranks.count, None


# ---- as torchrun tells


def local_rank() -> int:
    """The number of this process on its machine."""
    return int(os.environ.get("LOCAL_RANK", 0))


def restarts() -> int:
    """How often torchrun has started this process again after one of its machine failed."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))


def launch() -> str | None:
    """Names the call of torchrun that this process belongs to, however often it was started again."""
    name = os.environ.get("TORCHELASTIC_RUN_ID")
    return None if name is None else f"{name} {socket.gethostname()} {os.getppid()}"


@contextmanager
def all_ranks() -> Iterator[Ranks]:
    """The processes that torchrun started, connected within this block; or this one alone."""
    if int(os.environ.get("WORLD_SIZE", 1)) == 1:
        yield ALONE
        return
    connected = dist.is_initialized()  # by the caller
    if connected and "gloo" not in dist.get_backend_config():
        raise UserError('the processes must be connected by gloo as well: init_process_group("cpu:gloo,cuda:nccl").')
    try:
        if not connected:
            connect()
        yield Ranks(dist.get_rank(), dist.get_world_size())
    except RuntimeError as error:  # torch's own errors of distribution are such
        if not is_lost(error):
            raise
        raise LostContact(
            "another process of this run has ended or does not answer, and this one cannot continue alone "
            "({str(error).splitlines()[0]}). The last checkpoint is kept: run the same command with --resume; "
            "`torchrun --max-restarts 3` does so automatically."
        ) from error
    finally:
        if not connected and dist.is_initialized():
            dist.destroy_process_group()


def connect() -> None:
    """Connect the processes with nccl between GPUs and gloo between CPUs."""
    # It has the group as default arguments: imported later, by an optimiser, it would keep the group's threads alive
    # until the end, when they make Python abort.
    import torch.distributed.nn.functional
    from torch.distributed import PrefixStore  # type: ignore[attr-defined]
    from torch.distributed.rendezvous import rendezvous

    cuda = torch.cuda.is_available() and dist.is_nccl_available()
    if cuda:
        torch.cuda.set_device(local_rank() % torch.cuda.device_count())
    store, number, count = next(rendezvous("env://", timeout=PATIENCE))
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        # which keeps the addresses of processes that are gone: https://github.com/pytorch/pytorch/issues/135712
        store = PrefixStore(f"start {restarts()}", store)
    backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"
    dist.init_process_group(backend, store=store, rank=number, world_size=count, timeout=PATIENCE)


def is_lost(error: Exception) -> bool:
    """Whether the error is about the connection to another process."""
    signs = ["connection closed by peer", "connection reset by peer", "broken pipe", "timed out waiting"]
    signs += ["connectfullmesh failed"]
    network = isinstance(error, (dist.DistNetworkError, dist.DistStoreError))
    return network or any(sign in str(error).lower() for sign in signs)


def shared(mistake: UserError) -> UserError:
    """The error, marked as known to all processes."""
    mistake.shared = True
    return mistake
