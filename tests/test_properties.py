"""Properties: whatever a file or a command line holds, what comes out is a result or one sentence, never a traceback.

`scripts/campaign` tries the same with whole commands, thousands of times.
"""

import contextlib
import copy
import io
import json
import math
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from fewlabel import Recipe, UserError, load, load_model
from fewlabel.commands.main import main
from fewlabel.data import ImageKind
from fewlabel.data.cifar import read_batch
from fewlabel.data.idx import IMAGES, read_idx
from fewlabel.data.labels import read_labels
from fewlabel.data.npz import read_npz
from fewlabel.model import Model
from fewlabel.networks import make_classifier
from fewlabel.runs import RunDirectory
from fewlabel.runs.checkpoint import load_checkpoint, save_checkpoint
from fewlabel.runs.metrics import as_text
from fewlabel.training import make_plan

FILES = ["a.png", "b/c.png", "ä.png", "x y.png"]
examples = settings(
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["images", "mlp", "wrn-99994-99", "icl-ssl", "none", "a", "first-stage"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def damaged(draw: Callable[[Any], Any], content: bytes) -> bytes:
    """Bits flipped, a part cut out, doubled or replaced."""
    here = draw(st.integers(0, len(content) - 1))
    there = draw(st.integers(here, min(len(content), here + 200)))
    match draw(st.sampled_from(["flip", "cut", "remove", "double", "replace"])):
        case "flip":
            return content[:here] + bytes([content[here] ^ (1 << draw(st.integers(0, 7)))]) + content[here + 1 :]
        case "cut":
            return content[:here]
        case "remove":
            return content[:here] + content[there:]
        case "double":
            return content[:there] + content[here:]
        case _:
            return content[:here] + draw(st.binary(max_size=20)) + content[there:]


@st.composite
def changed(draw: Callable[[Any], Any], whole: Any) -> Any:
    """JSON with one value at any depth replaced or removed."""
    if not isinstance(whole, dict | list) or not whole or draw(st.integers(0, 9)) == 0:
        return draw(values)
    whole = copy.copy(whole)
    key = draw(st.sampled_from(sorted(whole) if isinstance(whole, dict) else range(len(whole))))
    if draw(st.integers(0, 6)) == 0:
        del whole[key]
    else:
        whole[key] = draw(changed(whole[key]))
    return whole


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("properties")


def written(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
    return path


def saved_arrays() -> bytes:
    file, draw = io.BytesIO(), np.random.default_rng(0)
    np.savez(file, x_train=draw.integers(0, 9, (4, 3, 3), np.uint8), y_train=np.array([0, 1, -1, 1]))
    return file.getvalue()


tables = st.lists(
    st.lists(st.sampled_from(["file", "label", "guess", "confirmed", "", '"', "a.png", "B/c.png", "dog", "yes", "=1"])),
    max_size=6,
).map(lambda rows: "\n".join(",".join(row) for row in rows).encode())


@examples
@given(st.binary(max_size=200) | tables | st.text(max_size=80).map(lambda text: text.encode("utf-16")))
def test_label_files(place: Path, content: bytes) -> None:
    try:
        found = read_labels([written(place / "labels.csv", content)], place, FILES)
    except UserError:
        return
    assert set(found.classes) <= set(FILES)
    assert not any("\n" in label for label in found.classes.values())


@examples
@given(damaged(saved_arrays()))
def test_arrays(place: Path, content: bytes) -> None:
    with contextlib.suppress(UserError):
        found = read_npz(written(place / "x.npz", content)).train
        assert -1 <= int(found.labels.min()) and int(found.labels.max()) < len(found.classes)


@examples
@given(damaged(struct.pack(">4I", IMAGES, 2, 3, 3) + bytes(range(18))))
def test_idx_files(place: Path, content: bytes) -> None:
    with contextlib.suppress(UserError):
        assert read_idx(written(place / "x", content), IMAGES).ndim == 3


@examples
@given(damaged(pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 1]}, 2)))
def test_pickles(place: Path, content: bytes) -> None:
    with contextlib.suppress(UserError):
        pixels, labels = read_batch(written(place / "x", content), "labels")
        assert pixels.shape == (len(labels), 3, 32, 32)


@pytest.fixture(scope="module")
def model(place: Path) -> dict[str, Any]:
    kind = ImageKind(1, 8)
    network = make_classifier("mlp", kind.shape, 3, projector=True, seed=0)
    (place / "model").mkdir()
    Model(network, kind, ("a", "b", "c"), "mlp", "icl-ssl").save(place / "model")
    return json.loads((place / "model/model.json").read_text()) | {"value_range": [0, 4095]}


@examples
@given(st.data())
def test_descriptions_of_models(place: Path, model: dict[str, Any], data: st.DataObject) -> None:
    written(place / "model/model.json", json.dumps(data.draw(changed(model))))
    with contextlib.suppress(UserError):
        found = load_model(place / "model").predict_proba(torch.zeros(2, 1, 8, 8, dtype=torch.uint8))
        assert found.shape == (2, 3) and np.isfinite(found).all()


@examples
@given(st.data())
def test_weights(place: Path, model: dict[str, Any], data: st.DataObject) -> None:
    written(place / "model/model.json", json.dumps(model))
    weights = place / "model/model.safetensors"
    whole = weights.read_bytes()
    try:
        written(weights, data.draw(damaged(whole)))
        with contextlib.suppress(UserError):
            found = load_model(place / "model").predict_proba(torch.zeros(2, 1, 8, 8, dtype=torch.uint8))
            assert found.shape == (2, 3)
    finally:
        written(weights, whole)


@pytest.fixture(scope="module")
def facts(place: Path) -> dict[str, Any]:
    plan = make_plan(Recipe(labels_per_class=2), load("digits"))
    RunDirectory(place).write_start(plan.to_dict() | {"data": ""}, ["1", "2"], ["a", "b"])
    return json.loads((place / "recipe.json").read_text())


@examples
@given(st.data())
def test_recipes(place: Path, facts: dict[str, Any], data: st.DataObject) -> None:
    written(place / "recipe.json", json.dumps(data.draw(changed(facts))))
    with contextlib.suppress(UserError):
        found = RunDirectory(place).facts_to_continue()
        assert isinstance(found["steps"], int) and found["steps"] >= 1


LINES = [
    {"step": step, "loss": {"total": 1.0, "labelled": 0.5}, "guessed_by_class": [0.1, 0.2], "seconds": 1.5}
    for step in (1, 2, 3)
]


@examples
@given(changed(LINES) | damaged(as_text(LINES).encode()))
def test_metrics(place: Path, content: Any) -> None:
    lines = content if isinstance(content, list) else [content]
    text = content if isinstance(content, bytes) else "".join(json.dumps(line) + "\n" for line in lines)
    (place / "stage").mkdir(exist_ok=True)
    written(place / "stage/metrics.jsonl", text)
    found = RunDirectory(place).history("stage")
    assert [line["step"] for line in found] == sorted({line["step"] for line in found})
    assert all(math.isfinite(value) for line in found for value in line["loss"].values())


@examples
@given(st.data())
def test_checkpoints_are_whole_or_none(place: Path, data: st.DataObject) -> None:
    folder = place / "checkpoint"
    folder.mkdir(exist_ok=True)
    save_checkpoint(folder, ({"w": torch.arange(6.0)}, {"step": 3}))
    (folder / "previous.ckpt").unlink(missing_ok=True)
    whole = (folder / "last.ckpt").read_bytes()
    content = data.draw(damaged(whole))
    assume(content != whole)
    written(folder / "last.ckpt", content)
    assert load_checkpoint(folder) is None


words = st.sampled_from(
    [
        *("train", "predict", "evaluate", "suggest", "audit", "export", "report", "repeat", "methods", "paper", "show"),
        *("--steps", "--labels", "--method", "--out", "-n", "--range", "--help", "--", "", "-1", "nan", "nowhere"),
        *("--encoder", "icl-ssl+", "wrn-1-1", "é\n", "--size=", "--no-floor", "2", "pi-model", "table", "--seed"),
    ]
)


@examples
@given(st.lists(words, max_size=6))
def test_command_lines(place: Path, typed: list[str]) -> None:
    """None of these words is there to be worked on, but help and lists may come out."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.chdir(place), contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        code = main(typed)
    assert code in (0, 2), (typed, errors.getvalue())
    assert code == 0 or not errors.getvalue() or errors.getvalue().startswith("fewlabel: "), errors.getvalue()
    assert errors.getvalue().count("\n") <= 1, errors.getvalue()
