"""Run joblib's tasks on a Dask cluster."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import joblib

from .errors import UserError

PATIENCE = 10  # seconds for a scheduler to answer


@contextmanager
def dask_cluster(scheduler: str) -> Iterator[Any]:
    """Within this block joblib's tasks run on the workers of that scheduler; gives the error of a killed worker."""
    try:
        from distributed import Client, KilledWorker
        from distributed.comm.core import connect
        from distributed.core import coerce_to_address
    except ImportError as error:
        raise UserError("Dask is not installed: pip install 'fewlabel[cluster]'.") from error

    async def knock() -> None:
        await (await connect(coerce_to_address(scheduler), timeout=PATIENCE)).close()

    try:
        asyncio.run(knock())  # a Client that finds nobody is left half open, and may later block others
    except (OSError, ValueError) as error:
        raise UserError(f"no Dask scheduler answers at {scheduler} ({error}).") from error
    with Client(scheduler), joblib.parallel_config("dask"):
        yield KilledWorker


def on_cluster() -> bool:
    """Whether joblib's tasks run on a cluster now."""
    backend, _ = joblib.parallel.get_active_backend()
    return type(backend).__name__ == "DaskDistributedBackend"
