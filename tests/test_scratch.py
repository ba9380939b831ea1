"""Arrays and strings in temporary files, and that memory does not grow with the rows of a table."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from fewlabel import UserError, guessing, load, scratch
from fewlabel.data import Roles, TableKind
from fewlabel.data.batches import Batches
from fewlabel.data.row_files import RowFile
from fewlabel.encoders.store import FeatureStore, StoredPositions
from fewlabel.evaluate import predict_probabilities
from fewlabel.model import Model
from fewlabel.networks import make_classifier
from fewlabel.randomness import generator
from fewlabel.runs.report import largest, smallest
from fewlabel.scratch import Chosen, Growing, Strings, first_repeated, room, slices

TEXTS = ["", "a", "Füße", "\ud800", "x" * 70_000, *(f"row {number}" for number in range(9000)), "end"]


@pytest.fixture
def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly every array counts as large."""
    monkeypatch.setattr(scratch, "LARGE", 1 << 12)
    monkeypatch.setattr("fewlabel.data.records.SNIFFED", 1 << 12)  # bytes by which an encoding is found


def test_strings_equal_a_list() -> None:
    found = Strings(TEXTS)
    assert found == TEXTS and TEXTS == list(found) and len(found) == len(TEXTS)
    assert found[3:7000] == TEXTS[3:7000] and found[::1000] == TEXTS[::1000] and found[-1] == "end"
    assert found[5:5] == [] and found != TEXTS[1:] and found != "end"
    found.append("more")
    assert found[-2:] == ["end", "more"]
    with pytest.raises(IndexError):
        found[len(found)]
    assert Strings() == []


def test_chosen_strings() -> None:
    positions = np.arange(9000, 0, -3)
    found = Chosen(Strings(TEXTS), positions)
    assert found == [TEXTS[i] for i in positions] and found[1:3] == [TEXTS[8997], TEXTS[8994]] and found[-1] == TEXTS[3]


@pytest.mark.parametrize("large", [False, True])
def test_growing(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if large:
        monkeypatch.setattr(scratch, "LARGE", 1)
    numbers, rows = Growing(np.int32), Growing(np.float32, 3)
    assert numbers.array().shape == (0,) and rows.array().shape == (0, 3)
    for number in range(scratch.BUFFER + 5):
        numbers.append(number)
    numbers.extend([7, 8])
    expected = [*range(scratch.BUFFER + 5), 7, 8]
    assert numbers.array().tolist() == expected and len(numbers) == len(expected)
    part = np.random.default_rng(0).random((1000, 3)).astype(np.float32)
    rows.extend(part)
    rows.extend(part[:0])
    rows.extend(part)
    assert (rows.array() == np.concatenate([part, part])).all()
    numbers.array()[0] = 5  # it can be written to


def test_room(no_memory: None) -> None:
    assert type(room((10,), np.int64)) is np.ndarray
    found = room((1000, 3), np.float64)
    assert isinstance(found, np.memmap) and found.shape == (1000, 3)
    found[:] = 1
    assert found.sum() == 3000


def test_a_full_disk_is_told(no_memory: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(UserError, match=r"No space left on device.*TMPDIR"):
        room((1000,), np.float64)


def test_first_repeated() -> None:
    names = [f"n{number}" for number in range(1000)]
    hashes = np.array([hash(name) & 0xFFFF for name in names], np.uint64)  # some are equal by chance
    assert first_repeated(names, hashes, most=100) is None
    for later, first in ((700, 20), (500, 499), (900, 20)):
        names[later], hashes[later] = names[first], hashes[first]
    unique = np.array([names.index(name) for name in names], np.uint64)
    for most in (100, 999, 5000):
        assert first_repeated(names, unique, most) == (500, 499)


def test_ids_must_differ(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for ids, message in ((["a", "b", "a", ""], "row 3 has the same as row 1"), (["a", "b", "", "a"], "row 3 has none")):
        path.write_text("id,x\n" + "".join(f"{name},1\n" for name in ids))
        with pytest.raises(UserError, match=message):
            RowFile(path, Roles(id="id")).listing()


def test_extremes_as_a_stable_sort_gives_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fewlabel.runs.report.PART", 10)
    values = torch.randint(0, 8, (95,), generator=torch.Generator().manual_seed(0)).float()
    order = values.argsort(descending=True, stable=True)
    assert largest(values, 24).tolist() == order[:24].tolist()
    assert smallest(values, 24).tolist() == order.flip(0)[:24].tolist()
    assert largest(values[:3], 24).tolist() == values[:3].argsort(descending=True, stable=True).tolist()


def test_the_order_of_an_epoch_is_that_of_wide_numbers() -> None:
    found = Batches(torch.zeros(1001, dtype=torch.int64), torch.arange(4), 4, 1, seed=3)
    expected = torch.randperm(1001, generator=generator(3, 0, "order of unlabelled"))
    index = torch.cat([found.unlabelled_index(step) for step in range(250)])
    assert index.dtype == torch.int64 and torch.equal(index, expected[:1000])


def test_a_guess_in_parts_is_the_same(monkeypatch: pytest.MonkeyPatch, no_memory: None) -> None:
    draw = np.random.default_rng(0)
    truth = draw.integers(0, 3, 900)
    rows = (draw.normal(size=(900, 5)) + 3 * np.eye(5)[truth]).astype(np.float32)
    labelled = np.arange(30)
    whole = guessing.first_guess(rows, labelled, truth[labelled])
    monkeypatch.setattr(guessing, "MOST", 899)
    monkeypatch.setattr(guessing, "PART", 128)
    parts = guessing.first_guess(rows, labelled, truth[labelled])
    chosen = guessing.graph_rows(900, labelled)
    others = np.concatenate(list(guessing.in_parts(guessing.others_than(chosen, 900))))
    assert others.tolist() == np.setdiff1d(np.arange(900), chosen).tolist()
    assert (parts.probabilities.argmax(1) == whole.probabilities.argmax(1)).mean() > 0.95
    assert isinstance(parts.probabilities, np.memmap)


def test_stored_positions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the dictionary of all digests, also of equal beginnings, and after others have added features."""
    monkeypatch.setattr("fewlabel.encoders.store.RECENT", 40)

    class Encoder:
        features = 2

        def store_key(self, backend: str) -> str:
            return "key"

    monkeypatch.setenv("FEWLABEL_CACHE", str(tmp_path))
    store = FeatureStore(Encoder())  # type: ignore[arg-type]
    found = StoredPositions(store)
    digests = [bytes([i % 3] * 8 + [i] * 24) for i in range(120)]
    assert found.find(digests[:2]).tolist() == [-1, -1]
    for part in slices(100, 30):
        store.add(digests[part], np.full((len(digests[part]), 2), part.start, np.float32))
        found.update()
        known = store.positions()
        assert found.find(digests).tolist() == [known.get(digest, -1) for digest in digests]
    store.digests.unlink()  # the cache was cleared and filled anew
    store.add(digests[50:], np.zeros((70, 2), np.float32))
    found.update()
    assert found.find(digests).tolist() == [-1] * 50 + list(range(70))


# ---- memory


def write_rows(path: Path, count: int) -> None:
    """Two columns and a class; the first rows have one."""
    with open(path, "w") as file:
        file.write("size,weight,fruit\n")
        for number in range(count):
            kind = ("apple", "pear")[number % 2] if number < 20 else ""
            file.write(f"{number % 1000 / 8},{number % 7 + number % 2 * 9},{kind}\n")


def peak(work: Callable[[], object]) -> int:
    """The most memory that was in use meanwhile, beyond what was there before; mapped files are not counted."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        result = work()
        return tracemalloc.get_traced_memory()[1] - before + (result is None)
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_rows(tmp_path: Path, no_memory: None) -> None:
    """A string for each row, or a single list of all rows, would be over 2 MB."""
    counts = 20_000, 200_000
    for count in counts:
        write_rows(tmp_path / f"{count}.csv", count)
    few, many = (peak(lambda n=n: load(tmp_path / f"{n}.csv", roles=Roles(label="fruit"))) for n in counts)  # type: ignore[misc]
    assert many - few < 1_000_000, f"{few:,} bytes of {counts[0]:,} rows, {many:,} bytes of {counts[1]:,} rows"


def test_memory_of_predictions_does_not_grow_with_the_rows(tmp_path: Path, no_memory: None) -> None:
    counts = 5_000, 45_000
    for count in counts:
        write_rows(tmp_path / f"{count}.csv", count)
    kind = load(tmp_path / "5000.csv", roles=Roles(label="fruit")).train.kind
    assert isinstance(kind, TableKind)
    model = Model(make_classifier("mlp", (2,), 2, projector=False, seed=0), kind, ("apple", "pear"), "mlp", "icl-ssl")

    def predict(count: int) -> None:
        found = model.label(tmp_path / f"{count}.csv").split(0.0)[0]
        found.write(tmp_path / "predicted.csv")

    predict(counts[0])  # what is imported stays
    few, many = (peak(lambda n=n: predict(n)) for n in counts)  # type: ignore[misc]
    assert many - few < 600_000, f"{few:,} bytes of {counts[0]:,} rows, {many:,} bytes of {counts[1]:,} rows"
    assert len((tmp_path / "predicted.csv").read_text().splitlines()) == counts[1] + 1


def test_probabilities_lie_in_a_file(no_memory: None) -> None:
    network = make_classifier("mlp", (2,), 3, projector=False, seed=0)
    rows = torch.randn(2000, 2)
    positions = torch.arange(0, 2000, 2)
    found = predict_probabilities(network, rows)
    assert found.shape == (2000, 3)
    torch.testing.assert_close(predict_probabilities(network, rows, positions), found[positions])
