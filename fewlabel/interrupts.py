"""Ctrl-C and other processes: the terminal tells all of them, and each would print a traceback of its own."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def deaf_to_ctrl_c() -> Iterator[None]:
    """Processes that are started within this block never hear of Ctrl-C: we end them ourselves. Keep it short."""
    if threading.current_thread() is not threading.main_thread():  # which alone hears of signals
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # new processes inherit it
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
