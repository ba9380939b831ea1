"""Exports: the same files as the commands write, in a folder beside the run."""

from pathlib import Path
from typing import Any

from ..data.labels import holds_work
from ..errors import UserError
from ..files import make_folder
from ..run_files import PREDICTIONS, REPORT
from .project import Project, near, one_of

SORTED, ONNX = "sorted", "model.onnx"
MADE = (PREDICTIONS, SORTED, ONNX)


def make_export(project: Project, what: Any) -> dict[str, Any]:
    """Write predictions of all pictures, or the pictures sorted by class, or the model as ONNX."""
    from ..model import load_model  # slow: it imports torch
    from ..sorting import sort_pictures

    one_of(what, MADE, "export")
    run, folder = run_of(project), export_folder(project)
    make_folder(folder)
    model, target = load_model(run, "cpu"), folder / str(what)
    if what == ONNX:
        model.export(target)
        return {"file": near(target), "text": model.kind.export_note() or "The model, with the preprocessing inside."}
    if what == SORTED and project.source.roles is not None:
        raise UserError(f"{project.noun} cannot be sorted into folders.")
    predictions = model.label(project.folder)
    if what == PREDICTIONS:
        if holds_work(target):
            raise UserError(f"{near(target)} has been corrected by hand: move it elsewhere first.")
        predictions.write(target)
        return {"file": near(target), "text": f"{len(predictions)} {project.noun} labelled."}
    folders = sort_pictures(project.folder, target, *predictions.split(0.0), link=False)
    counts = ", ".join(f"{name} {count}" for name, count in sorted(folders.items()))
    return {"file": near(target), "text": f"{sum(folders.values())} pictures copied: {counts}."}


def download(project: Project, name: str) -> Path:
    """A file for download."""
    one_of(name, (PREDICTIONS, ONNX, REPORT), "file")
    path = run_of(project) / REPORT if name == REPORT else export_folder(project) / name
    if not path.exists():
        raise UserError(f"{name} has not been made yet.")
    return path


def export_folder(project: Project) -> Path:
    run = run_of(project)
    return run.with_name(f"{run.name}-export")


def run_of(project: Project) -> Path:
    if project.run is None:
        raise UserError("train first: there is nothing to export yet.")
    return project.run
