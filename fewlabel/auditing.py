"""Measure accuracy without a test set: a person labels a few examples, drawn by strata of confidence.

The unlabelled examples are divided into STRATA equal parts by confidence, and as many are drawn from each. The accuracy
is the mean over strata. Its interval is Wilson's, for as many answers as a simple random sample would need to be as
exact (within the number of answers and twice that).
"""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .data.labels import NO_CLASS, read_answers, same_form
from .errors import UserError
from .files import write_json
from .run_files import AUDIT, FLOOR, PREDICTIONS
from .runs import RunDirectory
from .runs.audited import audited_before

STRATA = 5
LEAST = 10  # answers for the statement about one class
CONFIDENCE = 1.959964  # standard errors of a 95% interval


class Interval(NamedTuple):
    """A share and its 95% confidence interval."""

    share: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.share:.1%} (95% interval: {self.low:.1%} to {self.high:.1%})"


@dataclass
class Audit:
    """The drawn examples, their predictions, and the answers of a person."""

    strata: list[list[str]]  # names drawn from each
    sizes: list[int]  # of each, in all
    guesses: dict[str, str]  # the run's
    floor: dict[str, str] = field(default_factory=dict)  # those of the labels alone, where there are any
    answers: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        return [name for names in self.strata for name in names]

    def accuracy(self, guesses: Mapping[str, str]) -> Interval:
        """The accuracy of some guesses, by the answers so far."""
        counts = [(size, *self.right(names, guesses)) for size, names in zip(self.sizes, self.strata, strict=True)]
        return stratified(merged(counts))

    def right(self, names: Sequence[str], guesses: Mapping[str, str]) -> tuple[int, int]:
        """How many of the answered guesses are right, and how many there are."""
        answered = [name for name in names if name in self.answers]
        return sum(self.answers[name] == guesses[name] for name in answered), len(answered)


def merged(counts: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """(size, right, answered) of each stratum; one without answers is merged with its neighbour."""
    found: list[tuple[int, int, int]] = []
    for size, right, answered in counts:
        if found and (not answered or not found[-1][2]):
            before = found.pop()
            size, right, answered = before[0] + size, before[1] + right, before[2] + answered
        found.append((size, right, answered))
    return found


def stratified(counts: Sequence[tuple[int, int, int]]) -> Interval:
    """The accuracy from (size, right, answered) of each stratum."""
    total, answers = sum(size for size, _, _ in counts), sum(answered for _, _, answered in counts)
    share = sum(size / total * right / answered for size, right, answered in counts)
    variance = 0.0
    for size, right, answered in counts:
        likely = (right + 0.5) / (answered + 1)
        variance += (size / total) ** 2 * likely * (1 - likely) / answered
    least = 1 / sum((size / total) ** 2 / answered for size, _, answered in counts)  # fewer where they are uneven
    worth = min(max(share * (1 - share) / variance, least), 2 * answers)
    return wilson(share, worth)


def wilson(share: float, count: float) -> Interval:
    """Wilson's interval of a share; the number of answers need not be whole."""
    squared = CONFIDENCE**2 / count
    middle = (share + squared / 2) / (1 + squared)
    half = CONFIDENCE / (1 + squared) * math.sqrt(share * (1 - share) / count + squared / (4 * count))
    return Interval(share, max(0.0, middle - half), min(1.0, middle + half))


# ---- drawing


def draw_strata(confidence: NDArray[np.float64], n: int, seed: int) -> tuple[list[NDArray[np.int64]], list[int]]:
    """Positions drawn from each stratum of confidence, and the size of each."""
    if n < STRATA:
        raise UserError(f"an audit needs at least {STRATA} examples, not {n}.")
    if n > len(confidence):
        raise UserError(f"there are only {len(confidence)} examples to draw from: ask for fewer with -n.")
    draw = np.random.default_rng(seed)
    parts = np.array_split(np.argsort(confidence, kind="stable"), STRATA)
    counts = [len(part) for part in np.array_split(np.arange(n), STRATA)]
    found = [draw.choice(part, count, replace=False) for part, count in zip(parts, counts, strict=True)]
    return found, [len(part) for part in parts]


def start_audit(
    run: RunDirectory, n: int, output: Path, root: str | None = None, excluded: Collection[str] = ()
) -> Path:
    """Draw examples, write them shuffled and without guesses to a CSV file and a page, and remember them in the run.

    Those that are `excluded`, since they have got a label after the training, are not drawn.
    """
    before = read_audit(run)
    if before is not None and not before.answers:
        raise UserError(f"{run.path} has an audit without answers: give them with --answers, or remove {run / AUDIT}.")
    if before is not None:
        raise UserError(f"{run.path} was already audited: train a new run to audit again.")
    import torch  # these take long, and who reads an audit needs none of them

    from .model import load_model
    from .predictions import write_sheet
    from .runs.finish import predict_unlabelled
    from .runs.first_stage import data_of_run

    plan, dataset = data_of_run(run, root)
    predictions, positions = predict_unlabelled(plan, dataset, load_model(run.path))
    if excluded:
        kept = torch.tensor([i for i, name in enumerate(predictions.names) if name not in excluded], dtype=torch.int64)
        predictions, positions = predictions.at(kept), positions[kept]
    drawn, sizes = draw_strata(predictions.confidence.double().numpy(), n, plan.recipe.seed)
    labels, names = predictions.labels, predictions.names
    chosen = [int(position) for part in drawn for position in part]
    guesses = {names[i]: labels[i] for i in chosen}
    of_floor = floor_guesses(run)
    floor = {name: of_floor[name] for name in guesses if name in of_floor}
    audit = Audit([[names[i] for i in part] for part in drawn], sizes, guesses, floor if len(floor) == n else {})
    np.random.default_rng(plan.recipe.seed + 1).shuffle(chosen)
    train = dataset.train
    advice = (
        f"Write the class of each into the column label of {output.name}: {', '.join(train.classes)}, or {NO_CLASS} "
        f"for no class. Then: fewlabel audit {run.path} --answers {output.name}"
    )
    judged = [int(positions[i]) for i in chosen]
    page = write_sheet(output, train, judged, f"{n} {train.kind.noun} to label", advice)
    write_json(run / AUDIT, asdict(audit))
    return page


def floor_guesses(run: RunDirectory) -> dict[str, str]:
    """Predictions of the labels alone for the unlabelled examples; empty without a floor."""
    path = run / FLOOR / PREDICTIONS
    return {name: guess for name, _, guess in read_answers(path)} if path.exists() else {}


def read_audit(run: RunDirectory) -> Audit | None:
    """The audit of a run, or None."""
    path = run / AUDIT
    if not path.exists():
        return None
    try:
        facts = json.loads(path.read_text())
        return Audit(**{name: facts[name] for name in ("strata", "sizes", "guesses", "floor", "answers")})
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UserError(f"{path} is damaged: remove it and audit again.") from error


# ---- answers


class Answered(NamedTuple):
    audit: Audit
    strange: dict[str, int]  # answers that name no class of the model, and how often


def take_answers(run: RunDirectory, path: Path) -> Answered:
    """Store the answers of a person."""
    from .model import load_model

    audit = read_audit(run) or audit_of_another(run, path)
    if audit is None:
        raise UserError(f"{run.path} has no audit yet: fewlabel audit {run.path} -n 30 -o audit.csv.")
    classes = load_model(run.path).classes
    by_form = {same_form(name): name for name in classes}
    strange: dict[str, int] = {}
    answers: dict[str, str] = {}
    known = set(audit.names)
    for name, label, _ in read_answers(path):
        if name not in known:
            raise UserError(f"{path} names {name}, which was not drawn for the audit of {run.path}.")
        if not label:
            continue
        if name in answers:
            raise UserError(f"{path} has two answers for {name}: keep one.")
        answers[name] = by_form.get(same_form(label), label)
        if same_form(label) not in by_form and label != NO_CLASS:
            strange[label] = strange.get(label, 0) + 1
    if len(answers) < STRATA:
        raise UserError(f"{path} has {len(answers)} answers: fill in at least {STRATA}.")
    audit.answers = answers
    write_json(run / AUDIT, asdict(audit))
    return Answered(audit, strange)


def audit_of_another(run: RunDirectory, path: Path) -> Audit | None:
    """The audit of another run of the same data, for which a file holds the answers, with the guesses of this run.

    Its examples are as good a sample for this run: it has not been trained on them.
    """
    data = (run.facts() or {})["recipe"]["data"]
    named = [name for name, _, _ in read_answers(path)]
    runs = audited_before(data, run)
    other = read_audit(RunDirectory(runs[named[0]])) if named and named[0] in runs else None
    if other is None or not (run / PREDICTIONS).exists():
        return None
    drawn = set(other.names)
    guesses = {name: guess for name, _, guess in read_answers(run / PREDICTIONS) if name in drawn}
    floor = {name: guess for name, guess in floor_guesses(run).items() if name in drawn}
    if guesses.keys() != drawn:
        return None
    return Audit(other.strata, other.sizes, guesses, floor if len(floor) == len(drawn) else {})


def by_class(audit: Audit) -> dict[str, tuple[int, int]]:
    """For each class with enough guesses: how many of them are right, and how many there are."""
    found = {}
    for name in sorted(set(audit.guesses.values())):
        answered = [one for one in audit.answers if audit.guesses[one] == name]
        if len(answered) >= LEAST:
            found[name] = (sum(audit.answers[one] == name for one in answered), len(answered))
    return found


def measured(run: RunDirectory) -> list[str]:
    """What the audit of a run found, for its report; nothing without answers."""
    audit = read_audit(run)
    if audit is None or not audit.answers:
        return []
    from .model import load_model

    noun = load_model(run.path).kind.noun
    first = (
        f"Accuracy of the predictions: {audit.accuracy(audit.guesses)}, by your audit of {len(audit.answers)} {noun}."
    )
    return [first, *summary(Answered(audit, {}), noun)[1:]]


def summary(answered: Answered, noun: str) -> list[str]:
    """The result in words."""
    audit = answered.audit
    mine = audit.accuracy(audit.guesses)
    sentences = [f"{len(audit.answers)} of {len(audit.names)} {noun} answered. Accuracy of the predictions: {mine}"]
    if audit.floor:
        sentences.append(f"Accuracy of the labels alone, on the same {noun}: {audit.accuracy(audit.floor)}")
        answers = audit.answers.items()
        ours = sum(answer == audit.guesses[name] != audit.floor[name] for name, answer in answers)
        theirs = sum(answer == audit.floor[name] != audit.guesses[name] for name, answer in answers)
        sentences.append(f"Right only with the unlabelled {noun}: {ours}; right only with the labels alone: {theirs}.")
    for name, (right, count) in by_class(audit).items():
        sentences.append(f"Predicted as {name}: {right} of {count} are right.")
    for label, count in answered.strange.items():
        sentences.append(f"{count} answers say '{label}', which is not a class of the model: they count as wrong.")
    return sentences
