"""Spectrograms of bench/spoken.py: a tone is one bright row, at the place of its frequency."""

import numpy as np
import pytest

from bench.spoken import SIDE, spectrogram

RATE = 22050


@pytest.mark.parametrize(("tone", "row"), [(250.0, 28), (1000.0, 20), (4000.0, 6)])
def test_a_tone_is_one_bright_row(tone: float, row: int) -> None:
    """The row counted by hand: a frequency f is at log(1 + f / 700) of log(1 + 8000 / 700), from the bottom."""
    seconds = np.arange(RATE // 2) / RATE
    picture = spectrogram(0.5 * np.sin(2 * np.pi * tone * seconds), RATE, 0.0, np.random.default_rng(0))
    assert picture.shape == (SIDE, SIDE)
    assert picture.dtype == np.uint8
    assert set(picture.argmax(0).tolist()) <= {row - 1, row, row + 1}
    assert picture.max() == 255
    assert np.median(picture) == 0


def test_silence_around_a_word_is_cut_off_and_short_sounds_are_padded() -> None:
    tone = 0.5 * np.sin(2 * np.pi * 1000 * np.arange(8000) / RATE)
    quiet = np.zeros(5000)
    draw = np.random.default_rng(0)
    assert np.array_equal(
        spectrogram(np.concatenate([quiet, tone, quiet]), RATE, 0.0, draw), spectrogram(tone[1:-1], RATE, 0.0, draw)
    )
    assert spectrogram(tone[:50], RATE, 0.0, draw).shape == (SIDE, SIDE)
