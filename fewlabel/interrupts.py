"""Ctrl-C reaches all processes of a terminal; here, child processes ignore it instead of printing tracebacks."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def deaf_to_ctrl_c() -> Iterator[None]:
    """Processes started within this block ignore Ctrl-C: we end them ourselves. Keep it short."""
    if threading.current_thread() is not threading.main_thread():  # which alone hears of signals
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # new processes inherit it
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
