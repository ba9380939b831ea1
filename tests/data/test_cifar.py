import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewlabel.data.cifar import read_batch, read_names, read_pickle
from fewlabel.errors import UserError

PIXELS = np.arange(2 * 3072, dtype=np.uint32).reshape(2, 3072).astype(np.uint8)
PIXELS[1] += 7
CONTENT = {"batch_label": "training batch 1 of 5", "labels": [6, 9], "data": PIXELS, "filenames": ["a.png", "b.png"]}


def text(value: bytes) -> bytes:
    """A str of Python 2 as its pickle module wrote it: SHORT_BINSTRING or BINSTRING."""
    return b"U" + bytes([len(value)]) + value if len(value) < 256 else b"T" + struct.pack("<i", len(value)) + value


def python2_array(pixels: np.ndarray) -> bytes:
    rows, columns = pixels.shape
    return (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R(K\x01"
        b"J" + struct.pack("<i", rows) + b"J" + struct.pack("<i", columns) + b"\x86"
        b"cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R(K\x03" + text(b"|") + b"NNN"
        b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89" + text(pixels.tobytes()) + b"tb"
    )


def python2_list(values: list[bytes]) -> bytes:
    return b"](" + b"".join(values) + b"e"


def python2_batch(label_key: bytes = b"labels") -> bytes:
    """The layout of the official files, opcode by opcode: protocol 2 with strings of bytes."""
    return (
        b"\x80\x02}("
        + text(b"batch_label")
        + text(b"training batch 1 of 5")
        + text(label_key)
        + python2_list([b"K\x06", b"K\x09"])
        + text(b"data")
        + python2_array(PIXELS)
        + text(b"filenames")
        + python2_list([text(b"a.png"), text(b"b.png")])
        + b"u."
    )


def bytes_keys(content: dict[str, Any]) -> dict[bytes, Any]:
    return {key.encode(): value for key, value in content.items()}


def check_batch(path: Path) -> None:
    pixels, labels = read_batch(path, "labels")
    assert pixels.dtype == np.uint8 and pixels.shape == (2, 3, 32, 32)
    assert np.array_equal(pixels.reshape(2, 3072), PIXELS)
    assert pixels[0, 1, 0, 5] == (1024 + 5) % 256  # red, green and blue planes follow each other, row by row
    assert labels.dtype == np.int64 and labels.tolist() == [6, 9]


def test_official_python2_file(tmp_path: Path) -> None:
    path = tmp_path / "data_batch_1"
    path.write_bytes(python2_batch())
    check_batch(path)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("keys", [dict, bytes_keys])
def test_file_written_today(tmp_path: Path, protocol: int, keys: Any) -> None:
    path = tmp_path / "data_batch_1"
    path.write_bytes(pickle.dumps(keys(CONTENT), protocol))
    check_batch(path)


def test_what_the_files_name(tmp_path: Path) -> None:
    """Both spellings of numpy's module, and bytes by way of _codecs.encode, are really in the files that load."""
    today = pickle.dumps(bytes_keys(CONTENT), 2).replace(b"cnumpy.core.", b"cnumpy._core.")
    older = today.replace(b"cnumpy._core.", b"cnumpy.core.")
    assert b"cnumpy._core.multiarray\n" in today and b"cnumpy.core.multiarray\n" in older
    assert b"c_codecs\nencode\n" in today
    for content in (today, older):
        (tmp_path / "data_batch_1").write_bytes(content)
        check_batch(tmp_path / "data_batch_1")


def test_labels_as_numpy_numbers(tmp_path: Path) -> None:
    content = CONTENT | {"labels": [np.int64(6), np.uint8(9)]}
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(content, 2))
    check_batch(tmp_path / "data_batch_1")


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02}(" + text(b"label_names") + python2_list([text(b"cat"), text(b"dog")]) + b"u.",
        pickle.dumps({"label_names": ["cat", "dog"]}, 2),
        pickle.dumps({b"label_names": [b"cat", b"dog"]}, 4),
    ],
    ids=["Python 2", "text", "bytes"],
)
def test_names(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "batches.meta").write_bytes(content)
    assert read_names(tmp_path / "batches.meta", "label_names") == ("cat", "dog")


class Calls:
    """Pickles to a call of any function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.function, self.arguments = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.function, self.arguments


def call(module: str, name: str, *arguments: str) -> bytes:
    """A call, written in protocol 0 so that the function is named exactly so."""
    return f"c{module}\n{name}\n(".encode() + b"".join(f"V{text}\n".encode() for text in arguments) + b"tR."


def attacks(mark: Path) -> dict[str, bytes]:
    """Pickles that make the file `mark` when they are loaded carelessly."""
    inner = mark.with_name("inner.npy")
    with open(inner, "wb") as file:
        np.save(file, np.array([Calls(open, str(mark), "w")], object), allow_pickle=True)
    make = f"open({str(mark)!r}, 'w').close()"
    return {
        "os.system": call("os", "system", f"echo > '{mark}'"),
        "builtins.eval": call("builtins", "eval", make),
        "builtins.exec": call("builtins", "exec", make),
        "__builtin__.eval": call("__builtin__", "eval", make),
        "numpy.load": call("numpy", "load", str(inner))[:-3] + b"NI01\ntR.",
        "builtins.getattr": pickle.dumps({"data": Calls(np.ndarray.tofile, PIXELS, str(mark)), "labels": [6, 9]}, 4),
        "numpy.ndarray.tofile": b"\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93("
        + pickle.dumps(PIXELS, 2)[2:-1]
        + pickle.dumps(str(mark), 2)[2:-1]
        + b"tR.",
    }


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "name",
    [
        "os.system",
        "builtins.eval",
        "builtins.exec",
        "__builtin__.eval",
        "numpy.load",
        "builtins.getattr",
        "numpy.ndarray.tofile",
    ],
)
def test_anything_else_is_refused_and_not_executed(tmp_path: Path, name: str) -> None:
    mark, path = tmp_path / "mark", tmp_path / "data_batch_1"
    attack = attacks(mark)[name]
    pickle.loads(attack)
    assert mark.exists(), "the attack works on a careless reader"
    mark.unlink()
    path.write_bytes(attack)
    with pytest.raises(UserError, match=f"it names {name}") as caught:
        read_batch(path, "labels")
    assert str(path) in str(caught.value)
    assert not mark.exists()


def test_encode_makes_bytes_of_latin1_only(tmp_path: Path) -> None:
    (tmp_path / "meta").write_bytes(call("_codecs", "encode", "label_names", "rot13"))
    with pytest.raises(UserError, match="encoding rot13"):
        read_pickle(tmp_path / "meta")


@pytest.mark.parametrize("missing", ["data", "labels"])
def test_missing_key(tmp_path: Path, missing: str) -> None:
    path = tmp_path / "data_batch_1"
    path.write_bytes(pickle.dumps({key: value for key, value in CONTENT.items() if key != missing}, 2))
    with pytest.raises(UserError, match="has no 'labels' or no 'data'"):
        read_batch(path, "labels")


def test_missing_names(tmp_path: Path) -> None:
    (tmp_path / "meta").write_bytes(pickle.dumps({"coarse_label_names": ["fish"]}, 2))
    with pytest.raises(UserError, match="has no 'fine_label_names'"):
        read_names(tmp_path / "meta", "fine_label_names")


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", python2_batch()[:-1], python2_batch()[:3000], pickle.dumps([1, 2]), pickle.dumps(PIXELS, 2)],
    ids=["empty", "text", "no end", "cut", "list", "array"],
)
def test_damaged_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "data_batch_1"
    path.write_bytes(content)
    with pytest.raises(UserError, match="was refused as a CIFAR file") as caught:
        read_batch(path, "labels")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"data": PIXELS[:1]},
        {"data": PIXELS[:, :3000]},
        {"data": PIXELS.astype(np.int64)},
        {"data": PIXELS.reshape(2, 3, 32, 32)},
        {"labels": [1, 2, 3]},
        {"labels": ["cat", "dog"]},
        {"labels": 3},
    ],
    ids=["too few", "too small", "dtype", "shape", "too many labels", "labels of text", "labels no list"],
)
def test_wrong_content(tmp_path: Path, wrong: dict[str, Any]) -> None:
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(CONTENT | wrong, 2))
    with pytest.raises(UserError, match="data_batch_1"):
        read_batch(tmp_path / "data_batch_1", "labels")


@pytest.mark.parametrize("names", [3, [b"\xff"]], ids=["no list", "no text"])
def test_wrong_names(tmp_path: Path, names: Any) -> None:
    (tmp_path / "meta").write_bytes(pickle.dumps({"label_names": names}, 2))
    with pytest.raises(UserError, match="meta"):
        read_names(tmp_path / "meta", "label_names")
