"""Finish a run: write model, predictions and report; and rewrite a report from the files on disk."""

import json
from collections.abc import Sequence

import torch

from ..confidence import fit_confidence
from ..data import Dataset
from ..evaluate import predict_probabilities
from ..files import write_json
from ..model import Model, load_model
from ..networks.saved import load_network
from ..predictions import Predictions, texts_of
from ..run_files import FIRST_STAGE, FLOOR, PREDICTIONS, REPORT, VERDICT
from ..scratch import Chosen
from ..terminal import Terminal
from ..training import Plan
from ..verdict import Verdict, make_verdict
from .directory import RunDirectory
from .first_stage import as_encoder, as_trained_on, data_of_run
from .stages import StageResult

PART = 1 << 14  # rows that are compared at a time
SHOWN = 2000  # predictions that the report chooses from, where not all are wanted


def finish(
    directory: RunDirectory,
    plan: Plan,
    model: Model,
    main: StageResult,
    floor: StageResult | None,
    first: StageResult | None,
    terminal: Terminal,
) -> None:
    """Write the model, the predictions and the report."""
    from .report import Findings, verdict_of, write_report  # matplotlib is slow to import: not before the first step

    dataset = main.dataset
    expected = fit_confidence(model, dataset.train, plan)
    model.save(directory.path)
    predictions, positions = predict_unlabelled(plan, dataset, model)
    if plan.recipe.predictions:
        predictions.write(directory / PREDICTIONS)
    verdict = judge(directory, plan, main, floor, predictions, positions)
    findings = Findings(
        plan,
        dataset,
        main.history,
        floor.history if floor else [],
        first.history if first else [],
        main.test_predictions,
        positions,
        predictions,
        verdict,
        str(directory.path),
    )
    write_report(directory / REPORT, findings)
    if main.accuracy is not None:
        beside = f" (labels alone: {floor.accuracy:.2%})" if floor and floor.accuracy is not None else ""
        terminal.say(f"Test accuracy: {main.accuracy:.2%}{beside}")
    if expected is not None:
        terminal.say(
            f"Confidence is calibrated on {expected.labels} of your labels, each predicted from the others. By "
            f"this estimate, about {expected.accuracy:.0%} of the predictions are right; an audit or a test set "
            "measures it."
        )
    for sentence in verdict_of(findings):
        terminal.say(sentence)
    if plan.recipe.predictions:
        terminal.say(f"Predictions: {directory / PREDICTIONS}", whole=True)
    terminal.say(f"Report: {directory / REPORT}", whole=True)


def judge(
    directory: RunDirectory,
    plan: Plan,
    main: StageResult,
    floor: StageResult | None,
    predictions: Predictions,
    positions: torch.Tensor,
) -> Verdict:
    """Compare run and floor; the floor's predictions are stored for audits."""
    agreement, dataset = None, main.dataset
    if floor is not None:
        train = floor.dataset.train
        found = predict_probabilities(floor.network, train.inputs, positions)
        if plan.recipe.predictions:
            of_floor = Predictions(predictions.names, found, train.classes)
            of_floor.write(directory / FLOOR / PREDICTIONS)
        if len(positions):
            agreement = share_of_same_class(found, predictions.probabilities)
    truth = None if dataset.test is None else dataset.test.labels
    verdict = make_verdict(truth, main.test_predictions, floor.test_predictions if floor else None, agreement)
    write_json(directory / VERDICT, verdict.to_dict())
    return verdict


def share_of_same_class(some: torch.Tensor, others: torch.Tensor) -> float:
    """The share of rows of probabilities whose best class is the same in both."""
    parts = zip(some.split(PART), others.split(PART), strict=True)
    return sum(int((a.argmax(1) == b.argmax(1)).sum()) for a, b in parts) / len(some)


def finish_pretraining(directory: RunDirectory, plan: Plan, result: StageResult, terminal: Terminal) -> None:
    """Write the network of a run without labels, and its report."""
    from .report import command_on_top, write_pretraining_report

    as_encoder(plan, result).save(directory.path)
    write_pretraining_report(directory / REPORT, plan, result, str(directory.path))
    labelled = result.dataset.train.known > 0
    for command, why in (("suggest", "To find out what to label"), ("train", "To train a classifier on top")):
        if command == "train" or not labelled:
            terminal.say(f"{why}: `{command_on_top(plan, str(directory.path), command, labelled)}`")
    terminal.say(f"Report: {directory / REPORT}", whole=True)


def predict_unlabelled(plan: Plan, dataset: Dataset, model: Model) -> tuple[Predictions, torch.Tensor]:
    """Predictions for the unlabelled training examples, all or some, and the positions of those examples."""
    train = dataset.train
    unlabelled = torch.ones(len(train), dtype=torch.bool)
    unlabelled[plan.labelled] = False
    positions = unlabelled.nonzero().flatten()
    if not plan.recipe.predictions:
        positions = positions[:: -(-len(positions) // SHOWN) or 1]
    probabilities = predict_probabilities(model.network, train.inputs, positions, title="Predicting")
    names = Chosen(train.names, positions.numpy())
    texts, column = texts_of(train, positions.numpy()), train.kind.shown_column
    return Predictions(names, probabilities, train.classes, train.skipped, texts, column), positions


def write_missing_predictions(
    directory: RunDirectory, plan: Plan, dataset: Dataset, model: Model, terminal: Terminal
) -> None:
    """Write predictions.csv of a finished run if it is missing."""
    if plan.recipe.predictions and not (directory / PREDICTIONS).exists():
        dataset = as_trained_on(directory, plan, dataset)
        predict_unlabelled(plan, dataset, model)[0].write(directory / PREDICTIONS)
        terminal.say(f"Predictions: {directory / PREDICTIONS}", whole=True)


def remake_report(run: RunDirectory, root: str | None = None, measured: Sequence[str] = ()) -> None:
    """Write report.html of a finished run anew, from its files and its data, and predictions.csv if it is missing.

    `measured` are sentences about the accuracy that an audit has found.
    """
    from .report import Findings, write_pretraining_report, write_report

    plan, dataset = data_of_run(run, root)
    if plan.is_first_stage:
        _, network = load_network(run.path)
        result = StageResult(dataset, network, None, run.finished_history())
        write_pretraining_report(run / REPORT, plan, result, str(run.path))
        return
    model = load_model(run.path)
    with run:
        run.lock()
        write_missing_predictions(run, plan, dataset, model, Terminal(quiet=True))
        predictions, positions = predict_unlabelled(plan, dataset, model)
        predicted = None if dataset.test is None else model.evaluate(dataset.test).probabilities.argmax(1)
        history, floor, first = run.finished_history(), run.history(FLOOR), run.history(FIRST_STAGE)
        verdict, place = read_verdict(run), str(run.path)
        findings = Findings(
            plan, dataset, history, floor, first, predicted, positions, predictions, verdict, place, measured
        )
        write_report(run / REPORT, findings)


def read_verdict(run: RunDirectory) -> Verdict | None:
    """The verdict of a run; None for runs of an earlier version."""
    try:
        return Verdict.from_dict(json.loads((run / VERDICT).read_text()))
    except (OSError, ValueError, AttributeError):
        return None
