"""How quick is the studio with many pictures, in a real browser?

    python -m bench.studio                      10,000 pictures, 300 labels; needs chromium
    python -m bench.studio --pictures 1000 --labels 100

Measured: from the start of the command to the first picture on the screen; from a key to the saved label (the server's
answer) and to the next picture on the screen, median and 99th percentile, while pictures are being encoded in the
background and afterwards.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright

SIDE = 256
MEASURE = """
() => {
  window.times = [];
  const real = window.fetch;
  let pressed = 0, saved = 0, shown = document.getElementById("picture").src;
  window.fetch = async (...words) => {
    const answer = await real(...words);
    if (String(words[0]).includes("/api/label")) saved = performance.now();
    return answer;
  };
  document.addEventListener("keydown", () => { pressed = performance.now(); saved = 0; }, true);
  new MutationObserver(() => {
    const picture = document.getElementById("picture");
    if (picture.src === shown) return;
    shown = picture.src;
    picture.elementTiming = "picture";  // the browser then tells when it was painted
  }).observe(document.getElementById("stage"), { childList: true });
  new PerformanceObserver((list) => {
    for (const { url, renderTime } of list.getEntries()) {
      if (saved && url === shown) window.times.push([saved - pressed, renderTime - pressed]);
    }
  }).observe({ type: "element" });
}
"""


def write_pictures(folder: Path, count: int) -> None:
    """Blocks of random colours: JPEG files of about the size of small photographs."""
    draw = np.random.default_rng(0)
    folder.mkdir()
    for number in range(count):
        blocks = draw.integers(0, 255, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(blocks).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(folder / f"{number:05}.jpg")


def label(page: Page, count: int) -> list[tuple[float, float]]:
    """Keys for so many pictures; milliseconds to the saved label and to the next picture."""
    page.evaluate(MEASURE)
    for number in range(count):
        page.keyboard.press(str(1 + number % 3))
        page.wait_for_function(f"window.times.length > {number}")
    times: Any = page.evaluate("window.times")
    return [(saved, shown) for saved, shown in times]


def tell(title: str, times: list[float]) -> None:
    low, high = statistics.median(times), float(np.percentile(times, 99))
    print(f"{title}: median {low:.0f} ms, 99th percentile {high:.0f} ms", flush=True)


def measure(folder: Path, work: Path, options: argparse.Namespace) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(bypass_csp=True)  # for our own scripts
        page.set_default_timeout(options.patience * 1000)
        began = time.perf_counter()
        command = [sys.executable, "-m", "fewlabel", "studio", str(folder), "--no-browser"]
        environment = {**os.environ, "FEWLABEL_CACHE": str(work / "cache")}  # nothing is encoded yet
        server = subprocess.Popen(command, cwd=work, env=environment, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        lines = iter(server.stdout.readline, "")
        address = next(found[0] for line in lines if (found := re.search(r"http\S+", line)))
        page.goto(address)
        page.wait_for_function("document.getElementById('picture')?.naturalWidth > 0")
        print(f"first picture {time.perf_counter() - began:.2f} s after the command was started", flush=True)
        for name in ("one", "two", "three"):
            page.locator("#new-class-name").fill(name)
            page.locator("#new-class-name").press("Enter")
            page.wait_for_selector(f".class:has-text('{name}')")
        for title in ("while pictures are encoded", "afterwards"):
            if title == "afterwards":
                page.wait_for_function("document.getElementById('note').textContent.includes('groups')")
                page.wait_for_timeout(2000)
                page.reload()
                page.wait_for_function("document.getElementById('picture')?.naturalWidth > 0")
            times = label(page, options.labels)
            tell(f"key to saved label, {title}", [saved for saved, _ in times])
            tell(f"key to next picture, {title}", [shown for _, shown in times])
        browser.close()
        server.terminate()
        server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=10_000)
    parser.add_argument("--labels", type=int, default=300)
    parser.add_argument("--patience", type=int, default=600, help="seconds to wait for anything")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "photos"
        write_pictures(folder, options.pictures)
        measure(folder, Path(work), options)


if __name__ == "__main__":
    main()
