"""Encoding and comparing pictures in a process of its own, so that the page stays quick.

The server writes requests to its input, one line of JSON each, and reads answers and progress from its output. It ends
when its input is closed, so also when the server is killed.
"""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TextIO

from ..errors import UserError

Answer = dict[str, Any]


class Worker:
    """The server's side: `call` a task and get a future; `progress` is what it is at."""

    def __init__(self) -> None:
        self.progress: tuple[str, int, int] | None = None
        self._waiting: dict[int, Future[Answer]] = {}
        self._count = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fewlabel.studio.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def call(self, task: str, **arguments: Any) -> Future[Answer]:
        future: Future[Answer] = Future()
        self._count += 1
        self._waiting[self._count] = future
        request = {"number": self._count, "task": task, "arguments": arguments}
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except OSError:
            self._fail()
        return future

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if "progress" in said:
                self.progress = tuple(said["progress"])
                continue
            self.progress = None
            future = self._waiting.pop(said["number"])
            if "error" in said:
                future.set_exception(UserError(said["error"]))
            else:
                future.set_result(said["answer"])
        self._fail()

    def _fail(self) -> None:
        """It has ended: nothing that waits will be answered."""
        self.progress = None
        while self._waiting:
            _, future = self._waiting.popitem()
            future.set_exception(UserError("the helping process has ended: start the studio again."))


# ---- the process


def main() -> None:
    """Answer requests until the input is closed."""
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
    try:
        return task(**arguments)
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}.") from error


def read_requests(requests: "queue.Queue[dict[str, Any]]") -> None:
    for line in sys.stdin:
        requests.put(json.loads(line))
    os._exit(0)


def say(answers: TextIO, what: dict[str, Any]) -> None:
    answers.write(json.dumps(what) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
