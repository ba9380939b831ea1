"""Encode and compare pictures in a separate process, so that the page stays responsive.

The server writes requests to its input, one line of JSON each, and reads answers and progress from its output. It ends
when its input is closed, so also when the server is killed.
"""

import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import IO, Any, TextIO

from ..errors import UserError

Answer = dict[str, Any]
PRIORITY = 5  # lower than the page's


class Worker:
    """The server's side: `call` a task and get a future; `progress` is what it is at.

    The process starts with the first call, so that it does not delay the first screen.
    """

    def __init__(self) -> None:
        self.progress: tuple[str, int, int] | None = None
        self._waiting: dict[int, Future[Answer]] = {}
        self._requests: queue.Queue[str | None] = queue.Queue()
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._threads: list[threading.Thread] = []

    def call(self, task: str, **arguments: Any) -> Future[Answer]:
        future: Future[Answer] = Future()
        number = next(self._numbers)
        self._waiting[number] = future
        self._requests.put(json.dumps({"number": number, "task": task, "arguments": arguments}))
        if self._running().poll() is not None:
            self._fail()
        return future

    def close(self) -> None:
        if self._process is not None:
            self._requests.put(None)
            self._process.wait()
        for thread in self._threads:
            thread.join()

    def _running(self) -> "subprocess.Popen[str]":
        with self._lock:
            if self._process is None:
                command = [sys.executable, "-m", "fewlabel.studio.worker"]
                process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                assert process.stdin is not None and process.stdout is not None
                let_the_page_go_first(process.pid)
                self._process = process
                self._threads = [
                    threading.Thread(target=self._write, args=(process.stdin,), daemon=True),
                    threading.Thread(target=self._listen, args=(process.stdout,), daemon=True),
                ]
                for thread in self._threads:
                    thread.start()
            return self._process

    def _write(self, requests: IO[str]) -> None:
        """Write in a separate thread, which waits while the process is starting."""
        with suppress(OSError), requests:
            while (request := self._requests.get()) is not None:
                requests.write(f"{request}\n")
                requests.flush()

    def _listen(self, answers: IO[str]) -> None:
        with answers:
            for line in answers:
                self._hear(json.loads(line))
        self._fail()

    def _hear(self, said: dict[str, Any]) -> None:
        if "progress" in said:
            self.progress = tuple(said["progress"])
            return
        self.progress = None
        future = self._waiting.pop(said["number"])
        if "error" in said:
            future.set_exception(UserError(said["error"]))
        else:
            future.set_result(said["answer"])

    def _fail(self) -> None:
        """The process has ended: fail all pending requests."""
        self.progress = None
        for number in list(self._waiting):
            self._waiting.pop(number).set_exception(
                UserError("the background process has stopped: start the studio again.")
            )


def let_the_page_go_first(process: int) -> None:
    if hasattr(os, "setpriority"):
        os.setpriority(os.PRIO_PROCESS, process, PRIORITY)


# ---- the process


def main() -> None:
    """Answer requests until the input is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then closes our input
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print is no answer
    requests: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=read_requests, args=(requests,), daemon=True).start()
    from ..terminal import LISTENERS
    from .tasks import TASKS

    LISTENERS.append(lambda *progress: say(answers, {"progress": progress}))
    while True:
        request = requests.get()
        number = request["number"]
        try:
            say(answers, {"number": number, "answer": answer(TASKS[request["task"]], request["arguments"])})
        except UserError as error:
            say(answers, {"number": number, "error": str(error)})


def answer(task: Callable[..., Answer], arguments: dict[str, Any]) -> Answer:
    """Report any error and continue."""
    try:
        return task(**arguments)
    except UserError:
        raise
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}.") from error
    except Exception as error:
        traceback.print_exc()
        raise UserError(f"something went wrong ({type(error).__name__}: {error}).") from error


def read_requests(requests: "queue.Queue[dict[str, Any]]") -> None:
    for line in sys.stdin:
        requests.put(json.loads(line))
    os._exit(0)


def say(answers: TextIO, what: dict[str, Any]) -> None:
    answers.write(json.dumps(what) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
