"""A studio at work, as its users start it; and tiles of real photographs to label."""

import http.client
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fewlabel.demo import photo_tiles
from tests.processes import start

CLASSES = ("pagoda", "sky", "petals")


def write_tiles(folder: Path, count: int = 60) -> dict[str, str]:
    """So many pictures of three classes; returns the class of each file."""
    folder.mkdir()
    tiles = photo_tiles().train
    wanted = [i for i, label in enumerate(tiles.labels.tolist()) if tiles.classes[label] in CLASSES]
    order = np.random.default_rng(0).permutation(wanted)[:count]
    truth = {}
    for number, position in enumerate(order.tolist()):
        name = f"tile{number:03}.png"
        Image.fromarray(tiles.inputs[position].numpy().transpose(1, 2, 0)).resize((96, 96)).save(folder / name)
        truth[name] = tiles.classes[tiles.labels[position]]
    return truth


class Studio:
    """Talks to a studio as a browser would."""

    def __init__(self, process: "subprocess.Popen[str]", address: str) -> None:
        self.process, self.address = process, address
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+)", address)
        assert found, address
        self.port, self.token = int(found[1]), found[2]
        self.cookie = ""

    def request(
        self, path: str, body: Any = None, headers: dict[str, str] | None = None, method: str | None = None
    ) -> tuple[int, bytes, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = {"cookie": self.cookie} if self.cookie else {}
        if body is not None:
            sent["content-type"] = "application/json"
        content = None if body is None else json.dumps(body).encode()
        connection.request(method or ("GET" if body is None else "POST"), path, content, sent | (headers or {}))
        answer = connection.getresponse()
        found = answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
        connection.close()
        return found

    def enter(self) -> None:
        status, _, headers = self.request(f"/?token={self.token}")
        assert status == 303
        self.cookie = headers["set-cookie"].partition(";")[0]

    def ask(self, name: str, body: Any = None) -> Any:
        status, content, _ = self.request(f"/api/{name}", body)
        assert status == 200, content
        return json.loads(content)


@contextmanager
def studio(folder: Path, *words: str | Path, cwd: Path) -> Iterator[Studio]:
    process = start("studio", folder, "--no-browser", *words, cwd=cwd)
    try:
        assert process.stdout is not None
        said = ""
        while "token=" not in said:
            line = process.stdout.readline()
            assert line, process.communicate()
            said += line
        address = re.search(r"http\S+", said)
        assert address
        yield Studio(process, address[0])
    finally:
        process.terminate()
        process.communicate(timeout=30)
