import errno
import gzip
import hashlib
import io
import pickle
import socket
import struct
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from fewlabel.data import load
from fewlabel.data.download import SOURCES, File, download
from fewlabel.errors import UserError


class Server:
    """Serves `files` on loopback and remembers what it was asked for."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.announce = 0  # bytes promised beyond those that are sent
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                content = outer.files.get(self.path)
                if content is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(content) + outer.announce))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_address[1]}"

    def offer(self, folder: str, path: str, content: bytes, md5: str | None = None) -> File:
        self.files[path] = content
        return File(folder, self.address + path, md5 or hashlib.md5(content).hexdigest())


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.http.shutdown()
    thread.join()
    server.http.server_close()


def idx_files() -> dict[str, bytes]:
    pictures, labels = struct.pack(">4I", 2051, 2, 28, 28) + bytes(2 * 784), struct.pack(">2I", 2049, 2) + b"\4\2"
    return {
        f"{part}-{kind}-ubyte.gz": gzip.compress(content, mtime=0)
        for part in ("train", "t10k")
        for kind, content in (("images-idx3", pictures), ("labels-idx1", labels))
    }


def archive() -> bytes:
    """A small cifar-100-python.tar.gz."""
    batch = {"data": np.full((2, 3072), 9, np.uint8), "fine_labels": [1, 0]}
    contents = {"train": batch, "test": batch, "meta": {"fine_label_names": ["apple", "bowl"]}}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in contents.items():
            packed = pickle.dumps(content, 2)
            member = tarfile.TarInfo(f"cifar-100-python/{name}")
            member.size = len(packed)
            tar.addfile(member, io.BytesIO(packed))
    return buffer.getvalue()


def files_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def offer_mnist(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [server.offer("mnist", f"/pub/{name}", content) for name, content in idx_files().items()]
    monkeypatch.setitem(SOURCES, "mnist", files)


def test_good_files_land_and_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    offer_mnist(server, monkeypatch)
    data = load("mnist", root=tmp_path / "new", download=True)
    assert data.train.labels.tolist() == [4, 2]
    assert files_in(tmp_path) == sorted(f"new/mnist/{name}" for name in idx_files())
    for name, content in idx_files().items():
        assert (tmp_path / "new/mnist" / name).read_bytes() == content


def test_existing_files_are_not_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    offer_mnist(server, monkeypatch)
    download("mnist", tmp_path)
    assert len(server.asked) == 4
    download("mnist", tmp_path)
    assert len(server.asked) == 4
    (tmp_path / "mnist/t10k-labels-idx1-ubyte.gz").unlink()
    download("mnist", tmp_path)
    assert server.asked[4:] == ["/pub/t10k-labels-idx1-ubyte.gz"]


def test_nothing_is_fetched_unless_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    offer_mnist(server, monkeypatch)
    with pytest.raises(UserError, match="--download"):
        load("mnist", root=tmp_path)
    assert server.asked == []


def test_wrong_checksum_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    wrong = hashlib.md5(b"another").hexdigest()
    monkeypatch.setitem(SOURCES, "svhn", [server.offer("svhn", "/train_32x32.mat", b"x" * 200_000, wrong)])
    with pytest.raises(UserError, match=r"the file from .*/train_32x32\.mat has an unexpected checksum"):
        load("svhn", root=tmp_path, download=True)
    assert server.asked == ["/train_32x32.mat"]
    assert files_in(tmp_path) == []


def test_connection_that_breaks_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    server.announce = 1000
    monkeypatch.setitem(SOURCES, "svhn", [server.offer("svhn", "/train_32x32.mat", b"x" * 100)])
    server.files["/train_32x32.mat"] = b"x" * 50
    with pytest.raises(UserError, match=r"/train_32x32\.mat"):
        download("svhn", tmp_path)
    assert files_in(tmp_path) == []


def test_file_that_is_not_on_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    monkeypatch.setitem(SOURCES, "svhn", [File("svhn", f"{server.address}/gone.mat", "0" * 32)])
    with pytest.raises(UserError, match=r"could not fetch .*/gone\.mat \(Not Found\).*put the file into .*svhn"):
        download("svhn", tmp_path)
    assert server.asked == ["/gone.mat"]
    assert files_in(tmp_path) == []


def test_refused_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setitem(SOURCES, "svhn", [File("svhn", f"http://127.0.0.1:{port}/a.mat", "0" * 32)])
    with pytest.raises(UserError, match=r"could not fetch http://127\.0\.0\.1:\d+/a\.mat"):
        download("svhn", tmp_path)
    assert files_in(tmp_path) == []


@pytest.mark.parametrize(
    "answer",
    [b"220 ftp.example.org ready\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\nonly this"],
    ids=["no HTTP", "chunk cut off"],
)
def test_server_that_does_not_keep_to_the_protocol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setitem(
            SOURCES, "svhn", [File("svhn", f"http://127.0.0.1:{listener.getsockname()[1]}/a.mat", "0" * 32)]
        )
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with pytest.raises(UserError, match="could not fetch"):
                download("svhn", tmp_path)
        finally:
            thread.join()
    assert files_in(tmp_path) == []


def test_archive_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    monkeypatch.setitem(SOURCES, "cifar100", [server.offer("", "/~kriz/cifar-100-python.tar.gz", archive())])
    data = load("cifar100", root=tmp_path, download=True)
    assert data.train.classes == ("apple", "bowl")
    assert data.train.labels.tolist() == [1, 0]
    assert (data.train.pixels == 9).all()
    assert files_in(tmp_path) == [f"cifar-100-python/{name}" for name in ("meta", "test", "train")]
    load("cifar100", root=tmp_path, download=True)
    assert len(server.asked) == 1


def test_archive_of_another_checksum_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    file = server.offer("", "/cifar-100-python.tar.gz", archive(), "0" * 32)
    monkeypatch.setitem(SOURCES, "cifar100", [file])
    with pytest.raises(UserError, match="unexpected checksum"):
        download("cifar100", tmp_path)
    assert files_in(tmp_path) == []


def test_archive_that_the_user_put_there_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    """The advice of a failed download is to put the file there."""
    monkeypatch.setitem(SOURCES, "cifar100", [server.offer("", "/cifar-100-python.tar.gz", archive())])
    (tmp_path / "cifar-100-python.tar.gz").write_bytes(archive())
    assert load("cifar100", root=tmp_path, download=True).train.labels.tolist() == [1, 0]
    assert server.asked == []


def test_unpacking_that_broke_off_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    monkeypatch.setitem(SOURCES, "cifar100", [server.offer("", "/cifar-100-python.tar.gz", archive())])
    unpack = tarfile.TarFile.makefile

    def full_disk(tar: tarfile.TarFile, member: tarfile.TarInfo, target: str) -> None:
        if member.name.endswith("meta"):
            raise OSError(errno.ENOSPC, "No space left on device")
        unpack(tar, member, target)

    with monkeypatch.context() as patch:
        patch.setattr(tarfile.TarFile, "makefile", full_disk)
        with pytest.raises(UserError, match="No space left on device"):
            download("cifar100", tmp_path)
    assert load("cifar100", root=tmp_path, download=True).train.labels.tolist() == [1, 0]


def test_root_that_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    offer_mnist(server, monkeypatch)
    (tmp_path / "root").write_text("hello")
    with pytest.raises(UserError, match="root"):
        download("mnist", tmp_path / "root")


def test_digits_need_no_download(tmp_path: Path) -> None:
    assert len(load("digits", root=tmp_path, download=True).train) == 1297
    assert files_in(tmp_path) == []


def test_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean cifar100 or cifar10"):
        download("cifar1000", tmp_path)


def test_official_addresses_are_complete() -> None:
    files = [file for name in ("mnist", "fashion-mnist", "svhn", "cifar10", "cifar100") for file in SOURCES[name]]
    assert len(files) == 12
    assert len({file.md5 for file in files}) == 12
    assert all(len(file.md5) == 32 and int(file.md5, 16) for file in files)
    assert all(file.address.startswith(("https://", "http://")) for file in files)
