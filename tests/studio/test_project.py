"""What the studio works on, without a browser and without the background process."""

import json
import shutil
import socket
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from fewlabel import UserError
from fewlabel.data import Roles
from fewlabel.runs import RunDirectory
from fewlabel.studio import review
from fewlabel.studio.audit import Audits
from fewlabel.studio.finished import Guess
from fewlabel.studio.project import Project
from fewlabel.studio.server import AsciiJSON
from fewlabel.studio.training import interrupt
from fewlabel.studio.worker import Worker
from tests.processes import fewlabel, start, wait_for
from tests.studio.studios import CLASSES, studio, write_tiles


class Silent(Worker):
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.progress = None
        self.asked: list[tuple[dict[str, Any], Future[dict[str, Any]]]] = []

    def call(self, task: str, **arguments: Any) -> Future[dict[str, Any]]:
        future: Future[dict[str, Any]] = Future()
        self.asked.append((arguments, future))
        return future

    def close(self) -> None:
        pass


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    write_tiles(tmp_path / "photos", 12)
    return Project(tmp_path / "photos", None, None, Silent())


def silent(project: Project) -> Silent:
    assert isinstance(project.worker, Silent)
    return project.worker


def suggestions(names: list[str]) -> dict[str, Any]:
    return {"names": names, "groups": 3, "covered": 0, "unreadable": {}}


def test_suggestions_come_first_and_are_asked_for_again(project: Project) -> None:
    worker = silent(project)
    project.state()
    worker.asked[0][1].set_result(suggestions(["tile007.png", "tile003.png"]))
    assert [picture["name"] for picture in project.state()["queue"][:2]] == ["tile007.png", "tile003.png"]
    for number in range(5):
        project.label([number], "sky", "")
    project.state()
    assert len(worker.asked) == 2 and sorted(worker.asked[1][0]["known"]) == [f"tile{i:03}.png" for i in range(5)]


def test_a_picture_that_came_later_or_has_gone_does_no_harm(project: Project) -> None:
    project.state()
    silent(project).asked[0][1].set_result(suggestions(["new.png", "tile001.png"]))
    (project.folder / "tile001.png").unlink()
    queue = project.state()["queue"]
    assert queue[0]["name"] == "tile001.png" and queue[0]["version"] == 0


def test_a_worker_that_fails_is_told(project: Project) -> None:
    project.state()
    silent(project).asked[0][1].set_exception(UserError("no luck."))
    assert project.state()["note"] == "no luck."


def test_pictures_have_another_address_when_they_change(project: Project) -> None:
    before = project.identity("tile000.png")["version"]
    shutil.copy(project.folder / "tile001.png", project.folder / "tile000.png")
    assert project.identity("tile000.png")["version"] != before


def test_guesses_follow_renamed_classes(project: Project) -> None:
    project.guesses = {"tile000.png": Guess("sky", 0.7), "tile001.png": Guess("sky", 0.6)}
    project.book.add_class("sky")
    project.book.rename_class("sky", "heaven")
    found = review.by_class(project, "heaven", 0)
    assert [picture["guess"] for picture in found["pictures"]] == ["heaven", "heaven"]
    assert [picture["name"] for picture in found["pictures"]] == ["tile001.png", "tile000.png"]  # doubtful first


def test_a_training_on_other_pictures_is_not_taken_for_ours(project: Project, tmp_path: Path) -> None:
    for name, data in (("studio-photos-2", project.folder), ("studio-photos2", tmp_path / "photos2")):
        (project.runs / name).mkdir(parents=True)
        facts = {"recipe": {"data": str(data)}, "data": "", "steps": 10}
        (project.runs / name / "recipe.json").write_text(json.dumps(facts))
    with RunDirectory(project.runs / "studio-photos2") as other:
        other.lock()
        assert Project(project.folder, None, None, Silent()).training.run is None
    with RunDirectory(project.runs / "studio-photos-2") as ours:
        ours.lock()
        training = Project(project.folder, None, None, Silent()).training
        assert training.run == ours.path and training.going_on
        with pytest.raises(UserError, match="was not found"):
            training.cancel()
    assert training.state()["status"] == "failed"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell which process trains where")
def test_a_training_of_a_studio_that_was_killed_can_be_cancelled(project: Project, tmp_path: Path) -> None:
    project.label([0, 1], "sky", "")
    project.label([2, 3], "petals", "")
    run, other = project.runs / "studio-photos", project.runs / "studio-photos-2"
    options = ("--labels", tmp_path / "labels.csv", "--encoder", "none", "--size", "8", "--steps", "1000000", "--out")
    training = start("train", project.folder, *options, run, cwd=tmp_path)
    asleep = [sys.executable, "-c", "import time; time.sleep(600)", "-m", "fewlabel", "train", "--out", str(run)]
    bystander = subprocess.Popen(asleep, start_new_session=True)
    try:
        wait_for((run / "metrics.jsonl").exists, training)
        again = Project(project.folder, None, None, Silent())
        assert again.training.state()["status"] == "going on"
        assert not interrupt(other)
        again.training.cancel()
        output, _ = training.communicate(timeout=60)
        assert training.returncode == 130, output
        assert again.training.state()["status"] == "cancelled"
        assert bystander.poll() is None
    finally:
        for process in (training, bystander):
            process.kill()
            process.wait()


def test_training_needs_two_classes(project: Project) -> None:
    project.label([0], "sky", "")
    with pytest.raises(UserError, match="two classes"):
        project.train()


def test_training_by_itself_is_remembered(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    monkeypatch.setattr(project.training, "start", lambda run, words: started.append(run.name))
    project.train_every(3)
    for number, label in enumerate(["sky", "sky", "sky", "petals", "petals"]):
        project.label([number], label, "")
    assert started == ["studio-photos"]  # not with one class only; then not again before three new ones
    again = Project(project.folder, None, None, Silent())
    assert again.every == 3


def test_long_texts_are_shown_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    long = f"{'word ' * 1000}and the end"
    (tmp_path / "texts.csv").write_text(f"text\n{long}\nshort\n")
    project = Project(tmp_path / "texts.csv", None, None, Silent(), Roles("text"))
    assert {picture["text"] for picture in project.state()["queue"]} == {long, "short"}
    assert review.by_name(project, "THE END", 0)["count"] == 1


@pytest.mark.parametrize("count", ["3", -1, 1.5, None])
def test_only_numbers_of_labels(project: Project, count: Any) -> None:
    with pytest.raises(UserError):
        project.train_every(count)


def test_names_with_any_bytes_are_json() -> None:
    content = json.loads(bytes(AsciiJSON({"name": "\udce4.png"}).body))
    assert content == {"name": "\udce4.png"}


def test_audited_pictures_are_no_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    truth = write_tiles(tmp_path / "photos", 30)
    known = [name for kind in CLASSES for name in [n for n in sorted(truth) if truth[n] == kind][:2]]
    lines = "".join(f"{name},{truth[name]}\n" for name in known)
    (tmp_path / "labels.csv").write_text(f"file,label\n{lines}")
    words = ("train", "photos", "--labels", "labels.csv", "--steps", "20", "--out", "runs/studio-photos")
    result = fewlabel(*words, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    project = Project(tmp_path / "photos", None, None, Silent())
    assert project.run is not None and len(project.guesses) == 24
    later = [name for name in sorted(truth) if name not in known][:14]
    project.label([project.numbers[name] for name in later], "sky", None)  # after the training, before the audit
    audits = Audits(project)
    state = audits.start()
    drawn = [picture["name"] for picture in state["pictures"]]
    assert len(drawn) == 10 and not set(drawn) & {*later, *known}
    with pytest.raises(UserError, match="audit"):
        project.label([state["pictures"][0]["number"]], "sky", "")
    assert not {picture["name"] for picture in project.state()["queue"]} & set(drawn)
    for picture in state["pictures"]:
        state = audits.answer(picture["number"], truth[picture["name"]])
    assert state["status"] == "done" and 0 <= state["accuracy"]["low"] <= state["accuracy"]["high"] <= 1
    (tmp_path / "mine.csv").write_text("file,label\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ("--run", "runs/studio-photos", "--labels", "mine.csv", "--port", str(port))
    with studio(tmp_path / "photos", *options, cwd=tmp_path) as server:
        server.enter()
        told = server.ask("state")
        assert server.port == port and told["run"]["name"] == "studio-photos" and told["labels_file"] == "mine.csv"
        exported = tmp_path / server.ask("export", {"what": "predictions.csv"})["file"]
        server.ask("export", {"what": "predictions.csv"})  # as long as nobody has worked on it
        exported.write_text(exported.read_text().replace("sky,sky", "petals,sky", 1))
        status, content, _ = server.request("/api/export", {"what": "predictions.csv"})
        assert status == 400 and b"corrected by hand" in content
    shutil.rmtree(project.run)  # somebody tidies up
    assert project.state()["problem"] == ""


def test_the_end_ends_the_training_too(tmp_path: Path) -> None:
    truth = write_tiles(tmp_path / "photos", 12)
    with studio(tmp_path / "photos", cwd=tmp_path) as server:
        server.enter()
        for number, name in enumerate(sorted(truth)):
            server.ask("label", {"numbers": [number], "label": truth[name]})
            if number == 8:
                break
        assert server.ask("train", {})["training"]["status"] == "going on"
        server.process.terminate()
        server.process.wait(timeout=60)
    from fewlabel.studio.training import at_work

    assert not at_work(tmp_path / "runs/studio-photos")
