"""Spectrograms of spoken words: pictures that are neither photographs nor digits.

    apt-get install espeak-ng
    python -m bench.spoken spoken.npz                     7,500 pictures of 32x32, in about five minutes
    python -m bench.first_stage train --data spoken.npz   from scratch, with the recipe as it is

The speech synthesiser espeak-ng says ten colours in 8 accents of English and about 100 voices, at random pitches and
speeds. Rows of a picture are frequencies up to 8 kHz, closer together where they are low; columns are time; noise is
added. Voices of test pictures are not among those of training pictures.
"""

import argparse
import io
import subprocess
import wave
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fewlabel.terminal import with_progress

WORDS = ("red", "green", "blue", "black", "white", "yellow", "orange", "purple", "brown", "grey")
ACCENTS = ("en-gb", "en-us", "en-gb-scotland", "en-gb-x-gbclan", "en-gb-x-rp", "en-gb-x-gbcwmd", "en-029", "en-us-nyc")
TRAIN, TEST = 6000, 1500
TEST_VOICES = 5  # every fifth voice is kept for the test
SIDE, WINDOW, HIGHEST = 32, 512, 8000.0  # pixels, samples, Hz


def voices() -> list[str]:
    """The voice variants of this espeak-ng, by name."""
    listed = subprocess.run(["espeak-ng", "--voices=variant"], capture_output=True, text=True, check=True).stdout
    return sorted(line.split("!v/")[1].split()[0] for line in listed.splitlines() if "!v/" in line)


def spoken(word: str, voice: str, pitch: int, speed: int) -> tuple[NDArray[np.float64], int]:
    """What it sounds like: samples from -1 to 1, and how many there are in a second."""
    words = ["espeak-ng", "-v", voice, "-p", str(pitch), "-s", str(speed), "--stdout", word]
    sound = subprocess.run(words, capture_output=True, check=True).stdout
    with wave.open(io.BytesIO(sound)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2")
        return samples / 2**15, file.getframerate()


def spectrogram(samples: NDArray[np.float64], rate: int, noise: float, draw: np.random.Generator) -> NDArray[np.uint8]:
    """(SIDE, SIDE): decibels below the loudest, 0 for 60 or more."""
    loud = np.flatnonzero(np.abs(samples) > 0.01)
    samples = samples[loud[0] : loud[-1] + 1] if len(loud) else samples
    room = max(0, 4 * WINDOW - len(samples))  # before and after
    samples = np.pad(samples, (room // 2, room - room // 2))
    samples = samples + noise * draw.normal(size=len(samples))
    starts = np.linspace(0, len(samples) - WINDOW, SIDE).astype(int)
    frames = np.stack([samples[start : start + WINDOW] for start in starts]) * np.hanning(WINDOW)
    power = np.abs(np.fft.rfft(frames)) ** 2  # (time, frequency)
    mel = np.linspace(0, np.log1p(HIGHEST / 700), SIDE + 1)
    edges = np.maximum.accumulate(np.round(700 * np.expm1(mel) * WINDOW / rate).astype(int))
    bands = np.stack([power[:, low : max(high, low + 1)].mean(1) for low, high in pairwise(edges)])
    decibels = 10 * np.log10(bands / bands.max() + 1e-12)
    return np.round(255 * np.clip(1 + decibels[::-1] / 60, 0, 1)).astype(np.uint8)


def pictures(count: int, names: list[str], seed: int, title: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    draw = np.random.default_rng(seed)
    labels = np.arange(count) % len(WORDS)

    def said(label: int, accent: int, name: int, pitch: int, speed: int) -> tuple[NDArray[np.float64], int]:
        return spoken(WORDS[label], f"{ACCENTS[accent]}+{names[name]}", pitch, speed)

    ranges = ((0, len(ACCENTS)), (0, len(names)), (20, 81), (110, 231))
    drawn = [labels, *(draw.integers(low, high, count) for low, high in ranges)]
    with ThreadPoolExecutor(2) as pool:
        sounds = pool.map(said, *(column.tolist() for column in drawn))
        noises = np.exp(draw.uniform(np.log(0.001), np.log(0.1), count))
        made = [
            spectrogram(samples, rate, noise, draw)
            for (samples, rate), noise in zip(with_progress(sounds, count, title), noises, strict=True)
        ]
    return np.stack(made), labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    names = voices()
    x_train, y_train = pictures(TRAIN, [v for i, v in enumerate(names) if i % TEST_VOICES], 0, "Training pictures")
    x_test, y_test = pictures(TEST, names[::TEST_VOICES], 1, "Test pictures")
    np.savez_compressed(options.out, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)


if __name__ == "__main__":
    main()
