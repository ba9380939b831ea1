"""The studio as a process: who may talk to it, what it writes where, and what a kill leaves."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from tests.processes import fewlabel, start
from tests.studio.studios import Studio, studio, write_tiles


@pytest.fixture(scope="module")
def tiles(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("studio") / "photos"
    return folder, write_tiles(folder, 24)


@pytest.fixture(scope="module")
def server(tiles: tuple[Path, dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    with studio(tiles[0], cwd=tmp_path_factory.mktemp("work")) as server:
        server.enter()
        yield server


FIRST_SCREEN = """
import sys
from pathlib import Path
from fewlabel.commands.studio import studio
from fewlabel.studio import server

def look(project, *others):  # as a browser would
    page = server.Pages(project)
    (picture, *_) = page.state({"shown": "0"})["queue"]
    assert project.source.picture(picture["name"], "large")
    assert page.state({"shown": "0"})["labelled"] == 1
    project.close()
    print(*sys.modules)

server.serve = look
studio("photos", no_browser=True)
"""


def test_the_first_screen_does_not_wait_for_torch(tmp_path: Path) -> None:
    """It takes longer to import than everything else together. A label and a run are there already."""
    truth = write_tiles(tmp_path / "photos", 6)
    (tmp_path / "labels.csv").write_text("file,label\ntile000.png,sky\n")
    run = tmp_path / "runs/studio-photos"
    run.mkdir(parents=True)
    facts = {"recipe": {"data": str(tmp_path / "photos")}, "data": "", "steps": 10}
    (run / "recipe.json").write_text(json.dumps(facts))
    (run / "labels.csv").write_text("file,label\ntile000.png,sky\n")
    guesses = "".join(f"{name},sky,sky,,0.5,0.5\n" for name in truth)
    (run / "predictions.csv").write_text(f"file,label,guess,confirmed,confidence,sky\n{guesses}")
    (run / "report.html").write_text("")
    command = [sys.executable, "-c", FIRST_SCREEN]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not {"torch", "sklearn", "scipy", "matplotlib"} & {*done.stdout.split()}


def test_without_the_cookie_nothing_is_told(server: Studio) -> None:
    stranger = Studio(server.process, server.address)
    for path in ("/", "/api/state", "/picture/0", "/static/main.js", "/download/report.html"):
        assert stranger.request(path)[0] == 401, path
    assert stranger.request("/api/label", {"numbers": [0], "label": "x"})[0] == 401


def test_the_token_works_once(server: Studio) -> None:
    stranger = Studio(server.process, server.address)
    assert stranger.request(f"/?token={server.token}")[0] == 401
    assert stranger.request("/?token=wrong")[0] == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "127.0.0.1"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
    ],
)
def test_foreign_pages_are_refused(server: Studio, headers: dict[str, str]) -> None:
    assert server.request("/api/undo", {}, headers)[0] == 403


def test_a_form_of_another_page_is_no_request(server: Studio) -> None:
    assert server.request("/api/undo", {}, {"content-type": "text/plain"})[0] == 415


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(
    tiles: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    with studio(tiles[0], cwd=tmp_path) as server:
        _, _, headers = server.request(f"/?token={server.token}")
        cookie = headers["set-cookie"].lower()
        assert "httponly" in cookie and "samesite=strict" in cookie
        assert "default-src 'self'" in headers["content-security-policy"]


@pytest.mark.parametrize(
    "path",
    ["/picture/99", "/picture/-1", "/picture/..%2f..%2fetc%2fpasswd", "/picture/tile000.png", "/static/../server.py"],
)
def test_pictures_by_number_only(server: Studio, path: str) -> None:
    assert server.request(path)[0] == 404


def test_other_files_cannot_be_downloaded(server: Studio) -> None:
    for name in ("labels.csv", "..%2flabels.csv", "predictions.csv"):
        assert server.request(f"/download/{name}")[0] == 404


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("label", {"numbers": [1.5], "label": "x"}),
        ("label", {"numbers": "all", "label": "x"}),
        ("label", {"numbers": [0], "label": 3}),
        ("label", {"numbers": [True], "label": "x"}),
        ("label", [1]),
        ("skip", {"number": "0"}),
        ("add_class", {}),
        ("export", {"what": "../x"}),
        ("train", {}),
        ("start_audit", {}),
    ],
)
def test_bad_requests_get_one_sentence(server: Studio, name: str, body: object) -> None:
    status, content, _ = server.request(f"/api/{name}", body)
    assert status == 400 and json.loads(content)["error"].endswith(".")


def test_pictures_are_upright_and_not_larger_than_needed(tmp_path: Path) -> None:
    import io

    (tmp_path / "photos").mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (3000, 2000), "red").save(tmp_path / "photos/large.jpg", exif=exif)
    Image.new("I;16", (30, 20)).save(tmp_path / "photos/microscope.tif")
    (tmp_path / "photos/broken.png").write_bytes(b"no picture")
    with studio(tmp_path / "photos", cwd=tmp_path) as server:
        server.enter()
        numbers = {"broken.png": 0, "large.jpg": 1, "microscope.tif": 2}
        status, content, headers = server.request(f"/picture/{numbers['large.jpg']}")
        assert status == 200 and Image.open(io.BytesIO(content)).size == (1067, 1600)
        assert headers["content-type"] == "image/jpeg"
        status, content, _ = server.request(f"/picture/{numbers['microscope.tif']}?size=small")
        assert status == 200 and Image.open(io.BytesIO(content)).size == (30, 20)
        assert server.request(f"/picture/{numbers['broken.png']}")[0] == 404
        assert server.request("/picture/1?size=huge")[0] == 404


def test_names_are_text_not_markup(tmp_path: Path) -> None:
    """The page builds elements from text only; here: the names arrive unchanged, as JSON."""
    (tmp_path / "photos").mkdir()
    strange = "<img src=x onerror=alert(1)>.png"
    Image.new("RGB", (32, 32)).save(tmp_path / "photos" / strange)
    with studio(tmp_path / "photos", cwd=tmp_path) as server:
        server.enter()
        state = server.ask("label", {"numbers": [0], "label": "<b>bold</b>"})
        assert state["classes"] == [{"name": "<b>bold</b>", "count": 1}]
        _, _, headers = server.request("/api/state")
        assert headers["content-type"] == "application/json" and headers["x-content-type-options"] == "nosniff"
    static = Path(__file__).parents[2] / "fewlabel/studio/static"
    for script in static.glob("*.js"):
        assert "innerHTML" not in script.read_text() and "insertAdjacentHTML" not in script.read_text()
    assert "http" not in (static / "index.html").read_text().replace("http-equiv", "")


def test_a_kill_loses_nothing_and_the_next_start_continues(tiles: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    folder, truth = tiles
    with studio(folder, cwd=tmp_path) as server:
        server.enter()
        queue = server.ask("state")["queue"]
        for picture in queue[:5]:
            server.ask("label", {"numbers": [picture["number"]], "label": truth[picture["name"]]})
        server.ask("skip", {"number": queue[5]["number"]})
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
    with studio(folder, cwd=tmp_path) as server:
        server.enter()
        state = server.ask("state")
        assert state["labelled"] == 5
        assert queue[5]["number"] not in [picture["number"] for picture in state["queue"][:5]]
        assert server.ask("undo", {})["undone"] == "skip"
        assert server.ask("undo", {})["labelled"] == 4


def test_it_never_writes_into_the_folder_of_pictures(tiles: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    folder, _ = tiles
    before = sorted(folder.iterdir())
    with studio(folder, cwd=folder) as server:  # started within it
        server.enter()
        state = server.ask("label", {"numbers": [0], "label": "x"})
        assert Path(state["labels_file"]) == folder.parent / "photos-labels.csv"
    assert sorted(folder.iterdir()) == before


def test_a_label_file_in_the_folder_is_continued(tmp_path: Path) -> None:
    write_tiles(tmp_path / "photos", 6)
    (tmp_path / "photos/labels.csv").write_text("file,label\ntile001.png,sky\n")
    with studio(tmp_path / "photos", cwd=tmp_path) as server:
        server.enter()
        state = server.ask("label", {"numbers": [0], "label": "sky"})
        assert state["labelled"] == 2 and state["classes"] == [{"name": "sky", "count": 2}]
    assert "tile000.png,sky" in (tmp_path / "photos/labels.csv").read_text()


def test_what_another_program_writes_shows(tiles: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    with studio(tiles[0], cwd=tmp_path) as server:
        server.enter()
        server.ask("label", {"numbers": [0], "label": "sky"})
        (tmp_path / "labels.csv").write_text("file,label\ntile000.png,sky\ntile001.png,leaves\n")
        assert server.ask("state")["labelled"] == 2
        (tmp_path / "labels.csv").write_text("nonsense")
        assert "labels.csv" in server.ask("state")["problem"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "there is no folder nowhere"),
        (["photos", "--port", "99999"], "--port must be"),
        (["photos", "--labels", "labels.xlsx"], "as CSV"),
        (["photos", "--run", "nowhere"], "holds no run"),
    ],
)
def test_bad_starts(tmp_path: Path, words: list[str], said: str) -> None:
    write_tiles(tmp_path / "photos", 3)
    result = fewlabel("studio", *words, "--no-browser", cwd=tmp_path)
    assert result.returncode == 2 and said in result.stderr and "Traceback" not in result.stderr


def test_other_hosts_are_warned_of(tiles: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    process = start("studio", tiles[0], "--no-browser", "--host", "0.0.0.0", cwd=tmp_path)
    assert process.stdout is not None
    while "token=" not in (line := process.stdout.readline()):
        pass
    server = Studio(process, line.split()[-1])
    assert server.request("/", headers={"host": "10.0.0.7"})[0] == 401  # another machine may ask, a name may not
    assert server.request("/", headers={"host": "evil.example"})[0] == 403
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 0 and "No label was given." in output
    assert "lets other machines connect" in errors and "Traceback" not in errors
