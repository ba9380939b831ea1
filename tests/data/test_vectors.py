import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnxruntime import InferenceSession
from torch import Tensor

from fewlabel import Recipe, UserError, load_model
from fewlabel.augment.vectors import vector_view
from fewlabel.commands.main import main
from fewlabel.data import Dataset, Examples, VectorKind, Vectors, load
from fewlabel.data.examples import numbered
from fewlabel.data.fingerprint import data_fingerprint
from fewlabel.methods import METHODS
from fewlabel.networks import make_classifier
from fewlabel.training import Trainer, check_recipe, make_plan
from tests.drawing import draws

COLUMNS, CLASSES = 5, 3


def draw(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def vectors(rows: int = 60, labelled: int = 9, **changes: Any) -> Examples:
    labels = torch.arange(rows) % CLASSES
    table = torch.randn(rows, COLUMNS, generator=draw())
    table[torch.arange(rows), labels] += 4
    scales = torch.tensor([1e-4, 1.0, 10.0, 1e5, 1.0])
    labels[labelled:] = -1
    return Vectors(table * scales + 3, labels, tuple("abc"), numbered("X", rows), **changes)


def dataset(**changes: Any) -> Dataset:
    return Dataset("X", vectors(**changes), None, flip=False)


# ---- the rows


def test_vectors() -> None:
    found = vectors()
    assert (len(found), found.kind) == (60, VectorKind(COLUMNS, noise=0.0, dropout=0.0))
    assert found.kind.shape == (COLUMNS,)
    assert found.kind.describe() == "rows of 5 numbers"


@pytest.mark.parametrize(
    "changes",
    [
        {"inputs": torch.zeros(60, COLUMNS, dtype=torch.float64)},
        {"inputs": torch.zeros(60, COLUMNS, dtype=torch.uint8)},
        {"inputs": torch.zeros(60, 1, 8, 8)},
        {"inputs": torch.zeros(60)},
        {"inputs": torch.zeros(59, COLUMNS)},
        {"labels": torch.zeros(59, dtype=torch.int64)},
        {"labels": torch.zeros(60)},
        {"names": ["one"]},
    ],
)
def test_vectors_that_are_none(changes: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        replace(vectors(), **changes)


# ---- statistics


def statistics(table: Tensor) -> tuple[Tensor, Tensor]:
    return VectorKind(table.shape[1]).statistics(table)


@pytest.mark.parametrize("rows", [2, 100, 9_999])
def test_statistics_of_columns(rows: int) -> None:
    table = vectors(rows, labelled=2).inputs
    mean, std = statistics(table)
    assert mean.dtype == std.dtype == torch.float32
    np.testing.assert_allclose(mean, table.numpy().astype(float).mean(0), rtol=1e-6)
    np.testing.assert_allclose(std, table.numpy().astype(float).std(0), rtol=1e-6)


@pytest.mark.parametrize("rows", [10_000, 10_001, 25_000])
def test_statistics_of_evenly_spaced_rows(rows: int) -> None:
    table = vectors(rows).inputs
    stride = -(-rows // 10_000)
    mean, std = statistics(table)
    np.testing.assert_allclose(mean, table.numpy()[::stride].astype(float).mean(0), rtol=1e-6)
    np.testing.assert_allclose(std, table.numpy()[::stride].astype(float).std(0), rtol=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.1, -7.3, 1 / 3, 1e8, 1e-30])
@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_constant_columns(value: float, rows: int) -> None:
    """They become 0, and another value later on does not become a huge one."""
    table = torch.randn(rows, 3, generator=draw())
    table[:, 1] = value
    mean, std = statistics(table)
    assert mean[1] == table[0, 1] and 0.3 < std[1] < 3
    network = make_classifier("mlp", (3,), 2, projector=False, seed=0, mean=mean, std=std)
    normal = network.normalise(table)
    assert normal.isfinite().all() and not normal[:, 1].any()


@pytest.mark.parametrize("factor", [1.0, 1e-30, 1e30])
def test_columns_of_like_ranges_share_one_scale(factor: float) -> None:
    """Pixels, say, of which some hardly vary and one does not; where units differ, columns are scaled one by one."""
    table = torch.rand(500, 6, generator=draw()) * torch.tensor([1.0, 1.0, 0.9, 0.02, 1.0, 0.0]) * factor
    mean, std = statistics(table)
    columns = table.numpy().astype(float)
    np.testing.assert_allclose(mean, columns.mean(0), rtol=1e-5)
    np.testing.assert_allclose(std, [math.sqrt((columns.std(0)[:5] ** 2).mean())] * 6, rtol=1e-5)
    table[:, 0] *= 50
    np.testing.assert_allclose(statistics(table)[1][:5], table.numpy().astype(float).std(0)[:5], rtol=1e-5)


def test_a_column_of_hardly_anything() -> None:
    table = torch.zeros(100, 1)
    table[0] = 1e-45
    assert statistics(table)[1] > 0


def test_normalised_columns() -> None:
    data = dataset(rows=3000)
    training = Trainer(make_plan(check_recipe(Recipe(steps=1)), data), data)
    normal = training.network.normalise(data.train.inputs)
    np.testing.assert_allclose(normal.mean(0), 0, atol=1e-3)
    np.testing.assert_allclose(normal.std(0, correction=0), 1, atol=1e-3)


# ---- views

MANY = torch.randn(20_000, 10, generator=draw(1))  # of 200,000 values a standard deviation is right within 0.2%


@pytest.mark.parametrize("noise", [0.1, 0.7])
@pytest.mark.parametrize(("kind", "share"), [("weak", 0.5), ("strong", 1.0)])
def test_noise(noise: float, kind: str, share: float) -> None:
    added = vector_view(MANY, kind, draws(MANY), noise, 0.0) - MANY
    assert added.std().item() == pytest.approx(share * noise, rel=0.01)
    assert abs(added.mean().item()) < 0.01 * noise
    np.testing.assert_allclose(added.std(0), share * noise, rtol=0.04)  # of every column, and independently
    correlation = torch.corrcoef(added.T) - torch.eye(10)
    assert correlation.abs().max() < 0.04


@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_dropout(dropout: float) -> None:
    found = vector_view(MANY, "strong", draws(MANY), 0.0, dropout)
    lost = found != MANY
    assert not found[lost].any()  # the mean of a standardised column
    assert lost.double().mean().item() == pytest.approx(dropout, abs=0.005)
    np.testing.assert_allclose(lost.double().mean(0), dropout, atol=0.02)
    assert lost.double().mean(1).std() > 0.05  # every row loses others
    assert torch.equal(vector_view(MANY, "weak", draws(MANY), 0.0, dropout), MANY)


def test_lost_columns_have_no_noise() -> None:
    found = vector_view(MANY, "strong", draws(MANY), 0.3, 0.25)
    assert (found == 0).double().mean().item() == pytest.approx(0.25, abs=0.005)


@pytest.mark.parametrize("kind", ["weak", "strong"])
def test_nothing_by_default(kind: str) -> None:
    assert torch.equal(vector_view(MANY, kind, draws(MANY), 0.0, 0.0), MANY)


@pytest.mark.parametrize("kind", ["weak", "strong"])
def test_views_come_from_the_generator(kind: str) -> None:
    before, state, given = torch.get_rng_state(), MANY[:50], MANY[:50].clone()

    def view(seed: int) -> Tensor:
        return vector_view(state, kind, draws(state, seed), 0.2, 0.2)

    assert torch.equal(view(3), view(3))
    assert not torch.equal(view(3), view(4))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(state, given)  # nothing is changed in place


# ---- training


@pytest.mark.parametrize("network", ["cnn", "wrn-10-1", "wrn-28-2"])
def test_other_networks(network: str) -> None:
    with pytest.raises(UserError, match=f"vectors need the network mlp, not {network}"):
        make_plan(check_recipe(Recipe(network=network)), dataset())
    with pytest.raises(UserError, match="vectors need the network mlp"):
        make_classifier(network, (COLUMNS,), CLASSES, projector=False, seed=0)


def test_the_network_of_vectors() -> None:
    assert make_plan(check_recipe(Recipe()), dataset()).network == "mlp"


@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize("method", ["fixmatch+icl", "mixmatch", "vat"])
def test_steps(method: str, noise: float) -> None:
    data = dataset(noise=noise, dropout=noise)
    recipe = Recipe(method=method, steps=6, batch=8, device="cpu")
    training = Trainer(make_plan(check_recipe(recipe), data), data)
    before = {name: tensor.clone() for name, tensor in training.network.named_parameters()}
    for index in range(6):
        taken = training.step(index)
        assert len(taken.terms) > 1
        assert all(term.isfinite() and term.ndim == 0 for term in taken.terms.values()), taken.terms
    after = dict(training.network.named_parameters())
    assert all(tensor.isfinite().all() for tensor in after.values())
    assert not torch.equal(after["head.weight"], before["head.weight"])
    assert not torch.equal(after["encoder.layers.0.weight"], before["encoder.layers.0.weight"])


@pytest.mark.parametrize("method", METHODS)
def test_every_method(method: str) -> None:
    data, recipe = dataset(), check_recipe(Recipe(method=method, steps=2, batch=8, device="cpu"))
    if method == "remixmatch":
        with pytest.raises(UserError, match="remixmatch works on images only, not on vectors"):
            make_plan(recipe, data)
        return
    training = Trainer(make_plan(recipe, data), data)
    for index in range(2):
        assert all(term.isfinite() for term in training.step(index).terms.values())


def test_steps_are_repeatable() -> None:
    data = dataset(noise=0.3, dropout=0.3)
    plan = make_plan(check_recipe(Recipe(steps=3, batch=8, device="cpu")), data)
    first, second = Trainer(plan, data), Trainer(plan, data)
    for index in range(3):
        assert first.step(index).terms == second.step(index).terms


# ---- whole runs


def arrays(path: Path) -> Path:
    """60 rows of three classes, nine of them labelled, and 30 to evaluate on."""
    found = vectors(90, labelled=90)
    rows, labels = found.inputs.numpy(), found.labels.numpy()
    given = np.where(np.arange(60) < 9, labels[:60], -1)
    np.savez(path, x_train=rows[:60], y_train=given, x_test=rows[60:].astype(np.float64), y_test=labels[60:])
    return path


def test_rows_in_an_npz_file(tmp_path: Path) -> None:
    found = load(arrays(tmp_path / "rows.npz"))
    assert found.train.kind == VectorKind(COLUMNS)
    assert found.test is not None
    assert found.test.inputs.dtype == torch.float32
    assert found.train.known == 9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x_train": np.full((60, COLUMNS), np.nan)}, "x_train contains NaN"),
        ({"x_train": np.full((60, COLUMNS), "a")}, "x_train must be numbers"),
        ({"x_train": np.zeros((60, 2))}, r"x_test has examples of shape \(5,\), x_train of \(2,\)"),
        ({"x_train": np.zeros((59, COLUMNS))}, "x_train has 59 examples, but y_train has 60 labels"),
    ],
)
def test_rows_that_cannot_be_used(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    content = dict(np.load(arrays(tmp_path / "rows.npz")))
    np.savez(tmp_path / "bad.npz", **content | change)
    with pytest.raises(UserError, match=message):
        load(tmp_path / "bad.npz")


def test_train_predict_evaluate_export_and_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command works on vectors, to the end."""
    data, run = arrays(tmp_path / "rows.npz"), tmp_path / "run"
    assert main(["train", str(data), "--steps", "40", "--batch", "8", "--out", str(run)]) == 0
    assert "rows: 60 training rows of 5 numbers, 9 labelled, 3 classes." in capsys.readouterr().out
    settings = json.loads((run / "recipe.json").read_text())["recipe"]["settings"]
    assert (settings["fixmatch.align"], settings["icl.weight"]) == (0.5, 0.1)  # what suits vectors
    page = (run / "report.html").read_text()
    assert "The labelled rows" in page
    assert 'class="text"' in page
    assert (run / "predictions.csv").read_text().count("\n") == 52
    assert main(["evaluate", str(run), str(data)]) == 0
    assert "of 30 images" not in capsys.readouterr().out
    assert main(["report", str(run)]) == 0
    assert (run / "report.html").read_text() == page
    assert main(["export", str(run), "--onnx", str(tmp_path / "model.onnx")]) == 0
    assert "rows float32 (N, 5) to probabilities (N, 3)" in capsys.readouterr().out
    test = load(data).test
    assert test is not None
    (found,) = InferenceSession(tmp_path / "model.onnx").run(None, {"rows": test.inputs.numpy()})
    np.testing.assert_allclose(found, load_model(run).predict_proba(test.inputs), atol=1e-4)
    assert main(["predict", str(run), str(data), "-o", str(tmp_path / "found.csv")]) == 0
    assert "30 rows labelled" in capsys.readouterr().out
    labels = [line.split(",")[1] for line in (tmp_path / "found.csv").read_text().splitlines()[1:]]
    assert labels == load_model(run).predict(test).tolist()
    for path, message in ((tmp_path, "is not an .npz file"), (tmp_path / "no.npz", "cannot be read")):
        assert main(["predict", str(run), str(path)]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "DATA", "--flip"], "--flip and --without are for images; rows holds rows of 5 numbers"),
        (["train", "DATA", "--without", "hue"], "are for images"),
        (["train", "digits", "--labels-per-class", "2", "--noise", "0.1"], "--noise and --dropout are for vectors"),
        (["drift", "DATA"], "drift is for images; rows holds rows of 5 numbers"),
    ],
)
def test_what_is_of_no_use_to_vectors_or_to_images(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(arrays(tmp_path / "rows.npz"))
    out = ["--out", str(tmp_path / "run")]
    assert main([data if word == "DATA" else word for word in words] + out) == 2
    assert message in capsys.readouterr().err


def test_noise_and_dropout_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They reach the views, and a run is not continued with others."""
    data, run = str(arrays(tmp_path / "rows.npz")), str(tmp_path / "run")
    words = ["train", data, "--steps", "6", "--batch", "8", "--out", run]
    assert main([*words, "--noise", "0.3", "--dropout", "0.2"]) == 0
    assert json.loads((tmp_path / "run/model.json").read_text())["noise"] == 0.3
    (tmp_path / "run/report.html").unlink()
    assert main([*words, "--noise", "0.9", "--dropout", "0.2", "--resume"]) == 2
    assert "other settings (noise)" in capsys.readouterr().err


def test_other_views_are_other_data() -> None:
    assert len({data_fingerprint(dataset(noise=noise)) for noise in (0.0, 0.1, 0.2)}) == 3
