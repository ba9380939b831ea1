"""FewLabelClassifier on tables of pandas and on texts."""

import pickle
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped, unused-ignore]
import pytest
from sklearn.base import clone

from fewlabel import UserError
from fewlabel.data import TableKind, TextKind, VectorKind
from fewlabel.data.columns import Column
from fewlabel.encoders import texts as text_encoders
from fewlabel.encoders.text_encoder import TextEncoder
from fewlabel.estimator import FewLabelClassifier


def model(steps: int = 5, **changes: Any) -> FewLabelClassifier:
    defaults: dict[str, Any] = {"random_state": 0, "batch": 8, "device": "cpu"}
    return FewLabelClassifier(steps=steps, **defaults | changes)


def fruit(rows: int = 60) -> tuple[pd.DataFrame, list[str]]:
    """Cherries are light and red, apples heavy and green; a few cells are missing. All labels."""
    draw = np.random.default_rng(0)
    cherry = np.arange(rows) % 2 == 0
    grams = np.where(cherry, draw.normal(8, 1, rows), draw.normal(130, 10, rows))
    colours = np.where(draw.random(rows) < 0.1, "yellow", np.where(cherry, "red", "green")).astype(object)
    grams[5:8] = np.nan
    colours[9:11] = None
    frame = pd.DataFrame({"grams": grams, "colour": colours, "ripe": draw.random(rows) < 0.5})
    return frame, np.where(cherry, "cherry", "apple").tolist()


def few(labels: list[str], known: int = 4) -> list[str]:
    return labels[:known] + [""] * (len(labels) - known)


def columns_of(fitted: FewLabelClassifier) -> tuple[Column, ...]:
    kind = fitted.model_.kind
    assert isinstance(kind, TableKind)
    return kind.form.columns


# ---- tables


def test_a_table_of_numbers_is_the_same_as_its_array() -> None:
    draw = np.random.default_rng(0)
    array, y = draw.normal(size=(40, 3)), np.array([0, 1, 0, 1] + [-1] * 36)
    frame = pd.DataFrame(array, columns=["a", "b", "c"]).assign(d=np.arange(40), e=np.arange(40) % 3 == 0)
    fitted = model().fit(frame, y)
    plain = model().fit(np.column_stack([array, np.arange(40), np.arange(40) % 3 == 0]), y)
    assert isinstance(fitted.model_.kind, VectorKind) and not isinstance(fitted.model_.kind, TableKind)
    np.testing.assert_array_equal(fitted.predict_proba(frame), plain.predict_proba(frame.to_numpy(float)))
    assert fitted.feature_names_in_.tolist() == ["a", "b", "c", "d", "e"]


def test_categories_and_missing_values() -> None:
    frame, labels = fruit()
    fitted = model(60).fit(frame, few(labels))
    assert fitted.feature_names_in_.tolist() == ["grams", "colour", "ripe"] and fitted.n_features_in_ == 3
    assert fitted.score(frame, labels) > 0.9
    found = {column.name: column for column in columns_of(fitted)}
    assert found["grams"].missing and found["grams"].median == np.nanmedian(frame["grams"])
    assert found["colour"].categories == ("green", "red", "yellow")
    assert found["ripe"].categories == ("False", "True")


def test_missing_numbers_alone_make_it_a_table() -> None:
    frame = pd.DataFrame({"a": [0.0, 1.0, np.nan, 9.0, 10.0, 11.0], "b": [1, 2, 3, 4, 5, 7]})
    fitted = model().fit(frame, [0, -1, -1, 1, -1, -1])
    rows = fitted._inputs(frame).numpy()
    np.testing.assert_array_equal(rows[:, 0], [0, 1, 9, 9, 10, 11])
    np.testing.assert_array_equal(rows[:, 1], [0, 0, 1, 0, 0, 0])
    np.testing.assert_array_equal(rows[:, 2], frame["b"])


def test_types_of_pandas_are_read_alike() -> None:
    frame, labels = fruit()
    fitted = model().fit(frame, few(labels))
    other = frame.astype({"grams": "Float64", "colour": "category", "ripe": "boolean"})
    np.testing.assert_array_equal(model().fit(other, few(labels)).predict_proba(other), fitted.predict_proba(frame))
    np.testing.assert_array_equal(fitted.predict_proba(other), fitted.predict_proba(frame))


def test_missing_values_of_pandas_in_arrays_and_for_a_model() -> None:
    table, labels = fruit()
    table["grams"] = pd.array([None if i % 7 == 0 else i for i in range(len(table))], dtype="Int64")
    fitted = model().fit(table, few(labels))
    expected = fitted.predict_proba(table)
    with pytest.warns(UserWarning, match="feature names"):
        assert np.array_equal(fitted.predict_proba(table.to_numpy(object)), expected)
    assert np.array_equal(fitted.model_.predict_proba(table), expected)


def test_numbers_that_are_categories() -> None:
    frame = pd.DataFrame({"code": pd.Categorical([3, 1, 2, 3, 1, 2]), "size": [1.5, 2, 3, 4, 5, 6]})
    code, size = columns_of(model().fit(frame, [0, 1, -1, -1, -1, -1]))
    assert (code.role, code.categories, size.role) == ("category", ("1", "2", "3"), "number")


def test_new_categories_are_other() -> None:
    frame, labels = fruit()
    fitted = model().fit(frame, few(labels))
    new, missing = frame[:3].assign(colour="blue"), frame[:3].assign(colour=None)
    np.testing.assert_array_equal(fitted.predict_proba(new), fitted.predict_proba(missing))
    assert not np.array_equal(fitted.predict_proba(new), fitted.predict_proba(frame[:3].assign(colour="red")))


def test_columns_are_checked_as_scikit_learn_does() -> None:
    frame, labels = fruit()
    fitted = model().fit(frame, few(labels))
    with pytest.raises(ValueError, match="Feature names must be in the same order as they were in fit"):
        fitted.predict(frame[["colour", "grams", "ripe"]])
    with pytest.raises(ValueError, match="Feature names unseen at fit time:\n- weight"):
        fitted.predict(frame.rename(columns={"grams": "weight"}))
    with pytest.raises(ValueError, match="yet now missing:\n- ripe"):
        fitted.predict(frame[["grams", "colour"]])
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        found = fitted.predict_proba(frame.to_numpy())
    np.testing.assert_array_equal(found, fitted.predict_proba(frame))
    with (
        pytest.warns(UserWarning, match="valid feature names"),
        pytest.raises(ValueError, match="expecting 3 features"),
    ):
        fitted.predict(frame.to_numpy()[:, :2])


def test_words_among_numbers() -> None:
    frame, labels = fruit()
    fitted = model().fit(frame, few(labels))
    with pytest.raises(UserError, match="column 'grams' holds numbers, but also 'heavy'"):
        fitted.predict(frame.assign(grams="heavy"))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pd.date_range("2026-01-01", periods=60), "column 'more' holds dates or times: drop it"),
        ([f"2026-01-{day % 28 + 1:02}" for day in range(60)], "column 'more' holds dates, such as 2026-01-01: drop it"),
        ([f"row {i}" for i in range(60)], "60 different values in 60 rows, such as 'row 0': drop it"),
        ([np.inf] + [1.0] * 59, "column 'more' contains infinity"),
    ],
)
def test_columns_that_cannot_be_learnt_from(column: Any, message: str) -> None:
    frame, labels = fruit()
    with pytest.raises(UserError, match=message) as caught:
        model().fit(frame.assign(more=column), few(labels))
    assert "--drop" not in str(caught.value)


def test_an_encoder_on_a_table() -> None:
    frame, labels = fruit()
    with pytest.raises(UserError, match="an encoder cannot be used on a table with categories or missing values"):
        model(encoder="lite0").fit(frame, few(labels))


def test_a_table_is_pickled_cloned_and_fitted_again() -> None:
    frame, labels = fruit()
    fitted = model().fit(frame, few(labels))
    expected = fitted.predict_proba(frame)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(frame), expected)
    np.testing.assert_array_equal(clone(fitted).fit(frame, few(labels)).predict_proba(frame), expected)
    numbers = frame[["grams"]].fillna(0)
    again = fitted.fit(numbers, few(labels))
    assert again.feature_names_in_.tolist() == ["grams"] and again.predict(numbers).shape == (60,)


# ---- texts

TEXTS = ["film plot", "film actor", "cat", "dog", "film", "cat and dog"]
LABELS = ["film", "film", "pet", "pet", "", ""]


@pytest.fixture(autouse=True)
def small_encoder(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> list[str]:
    """Stands in for minilm: counts words. Returns what it was asked to encode."""
    asked: list[str] = []
    words = ("film", "plot", "actor", "cat", "dog")

    def encode(texts: Any) -> Any:
        asked.extend(texts)
        return np.array([[text.split().count(word) for word in words] for text in texts], np.float32)

    monkeypatch.setenv("FEWLABEL_CACHE", str(tmp_path))
    text_encoders.find_text_encoder.cache_clear()
    found = TextEncoder("minilm", encode, lambda text: len(text.split()), len(words), 256, "digest")
    monkeypatch.setattr(text_encoders, "load_minilm", lambda: found)
    return asked


def test_texts(small_encoder: list[str]) -> None:
    fitted = model(60, encoder="minilm").fit(TEXTS, LABELS)
    assert isinstance(fitted.model_.kind, TextKind) and fitted.model_.encoder == "minilm"
    assert sorted(small_encoder) == sorted(TEXTS)
    assert fitted.transduction_.tolist() == ["film", "film", "pet", "pet", "film", "pet"]
    assert fitted.predict(["dog cat", "film plot actor"]).tolist() == ["pet", "film"]
    assert fitted.predict("dog").tolist() == ["pet"]
    for same in (np.array(TEXTS), pd.Series(TEXTS), tuple(TEXTS)):
        np.testing.assert_array_equal(fitted.predict_proba(same), fitted.predict_proba(TEXTS))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(TEXTS), fitted.predict_proba(TEXTS))


@pytest.mark.parametrize("encoder", [None, "lite0"])
def test_texts_need_an_encoder_of_texts(encoder: str | None) -> None:
    with pytest.raises(UserError, match="X holds texts, such as 'film plot', which need an encoder of texts"):
        model(encoder=encoder).fit(TEXTS, LABELS)


def test_what_an_encoder_of_texts_is_not_for() -> None:
    with pytest.raises(UserError, match="the encoder minilm is for texts: give a list of strings"):
        model(encoder="minilm").fit(np.zeros((6, 2)), LABELS)
    with pytest.raises(UserError, match="none of them missing"):
        model(encoder="minilm").fit([*TEXTS[:5], None], LABELS)
    with pytest.raises(UserError, match="the encoder minilm of texts cannot be tuned"):
        model(encoder="minilm", tune=True).fit(TEXTS, LABELS)
    with pytest.raises(UserError, match="X must be a list of texts, as it was in fit"):
        model(encoder="minilm").fit(TEXTS, LABELS).predict(np.zeros((2, 5)))


def test_missing_picture_files_are_no_texts() -> None:
    with pytest.raises(UserError, match=r"gone\.png"):
        model().fit(["gone.png", "too.png"], [0, 1])
