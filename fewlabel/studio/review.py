"""Review predictions: by class, by name, by similarity, and suspicious labels."""

from concurrent.futures import Future
from typing import Any

from ..errors import UserError
from .project import Project, one_of

PAGE = 60  # pictures on a page
WAIT = 60  # seconds for an answer of the background process


def by_class(project: Project, label: str, page: int) -> dict[str, Any]:
    """Unlabelled pictures predicted as a class, least certain first."""
    guesses = project.renamed_guesses()
    one_of(label, sorted({guess.label for guess in guesses.values()}), "class of the last training")
    labels, audited = project.book.labels, project.audited()
    found = [
        (guess.confidence, name)
        for name, guess in guesses.items()
        if guess.label == label and name not in labels and name not in audited and name in project.numbers
    ]
    return paged(project, [name for _, name in sorted(found)], page)


def labelled(project: Project, label: str, page: int) -> dict[str, Any]:
    """Pictures labelled with a class."""
    return paged(project, [name for name, given in project.book.labels.items() if given == label], page)


def by_name(project: Project, text: str, page: int) -> dict[str, Any]:
    """Pictures whose file name holds the text; texts and rows that hold it."""
    wanted, audited = text.casefold(), project.audited()

    def holds(name: str) -> bool:
        return wanted in name.casefold() or wanted in project.source.shown(name).get("text", "").casefold()

    return paged(project, [name for name in project.files if name not in audited and holds(name)], page)


def similar(project: Project, number: Any) -> dict[str, Any]:
    """Pictures that look most like one."""
    answer = ask(project, "similar", name=project.name(number))
    return paged(project, without_audited(project, answer["names"]), 0)


def duplicates(project: Project, page: int) -> dict[str, Any]:
    """Pictures that are nearly the same, side by side."""
    groups = ask(project, "duplicates")["groups"]
    found = paged(project, without_audited(project, [name for group in groups for name in group]), page)
    return found | {"groups": len(groups)}


def suspicious(project: Project) -> dict[str, Any]:
    """Labels of the last training that the other labels contradict."""
    if project.run is None:
        raise UserError("train first: then the labels can be compared with each other.")
    found = answered(project.worker.call("suspicious", run=str(project.run)))["labels"]
    labels = project.book.labels
    told = {
        one["name"]: f"labelled {one['label']}, looks like {one['other']}"
        for one in found
        if one["name"] in project.numbers
    }
    return {
        "pictures": [project.shown(name, labels) | {"told": text} for name, text in told.items()],
        "count": len(told),
    }


def ask(project: Project, task: str, **arguments: Any) -> dict[str, Any]:
    if not project.source.comparable:
        raise UserError(project.note)
    return answered(project.worker.call(task, **project.compared(), **arguments))


def answered(call: Future[dict[str, Any]]) -> dict[str, Any]:
    try:
        return call.result(WAIT)
    except TimeoutError as error:
        raise UserError("they are still being encoded: try again in a minute.") from error


def without_audited(project: Project, names: list[str]) -> list[str]:
    audited = project.audited()
    return [name for name in names if name not in audited and name in project.numbers]


def paged(project: Project, names: list[str], page: int) -> dict[str, Any]:
    labels = project.book.labels
    end = (page + 1) * PAGE
    shown = [project.shown(name, labels) for name in names[page * PAGE : end]]
    return {"pictures": shown, "count": len(names), "more": end < len(names)}
