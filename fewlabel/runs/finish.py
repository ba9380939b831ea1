"""The end of a run: model, predictions and report; and how a report is made again from what is on disk."""

import torch

from ..data import Dataset
from ..evaluate import predict_probabilities
from ..model import Model, load_model
from ..predictions import Predictions
from ..terminal import Terminal
from ..training import Plan
from .directory import FLOOR, PREDICTIONS, REPORT, RunDirectory
from .resume import saved_run
from .stages import StageResult

SHOWN = 2000  # predictions that the report chooses from, where not all are wanted


def finish(
    directory: RunDirectory,
    plan: Plan,
    dataset: Dataset,
    model: Model,
    main: StageResult,
    floor: StageResult | None,
    terminal: Terminal,
) -> None:
    """Write the model, the predictions and the report."""
    from .report import Findings, write_report  # matplotlib is slow to import: not before the first step

    model.save(directory.path)
    predictions, positions = predict_unlabelled(plan, dataset, model)
    if plan.recipe.predictions:
        predictions.write(directory / PREDICTIONS)
    findings = Findings(
        plan, dataset, main.history, floor.history if floor else [], main.test_predictions, positions, predictions
    )
    write_report(directory / REPORT, findings)
    if main.accuracy is not None:
        beside = f" (labels alone: {floor.accuracy:.2%})" if floor and floor.accuracy is not None else ""
        terminal.say(f"Test accuracy: {main.accuracy:.2%}{beside}")
    if plan.recipe.predictions:
        terminal.say(f"Predictions: {directory / PREDICTIONS}")
    terminal.say(f"Report: {directory / REPORT}")


def predict_unlabelled(plan: Plan, dataset: Dataset, model: Model) -> tuple[Predictions, torch.Tensor]:
    """Predictions for the unlabelled training examples, all or some, and the positions of those examples."""
    train = dataset.train
    unlabelled = torch.ones(len(train), dtype=torch.bool)
    unlabelled[plan.labelled] = False
    positions = unlabelled.nonzero().flatten()
    if not plan.recipe.predictions:
        positions = positions[:: -(-len(positions) // SHOWN) or 1]
    probabilities = predict_probabilities(model.network, train.inputs, positions, title="Predicting")
    names = [train.names[i] for i in positions]
    return Predictions(names, probabilities, train.classes, train.skipped), positions


def write_missing_predictions(
    directory: RunDirectory, plan: Plan, dataset: Dataset, model: Model, terminal: Terminal
) -> None:
    """predictions.csv of a finished run, where it is wanted and not there."""
    if plan.recipe.predictions and not (directory / PREDICTIONS).exists():
        predict_unlabelled(plan, dataset, model)[0].write(directory / PREDICTIONS)
        terminal.say(f"Predictions: {directory / PREDICTIONS}")


def remake_report(run: RunDirectory, root: str | None = None) -> None:
    """Write report.html of a finished run anew, from its files and its data, and predictions.csv if it is missing."""
    from .report import Findings, write_report

    plan, dataset = saved_run(run, root)
    model = load_model(run.path)
    with run:
        run.lock()
        write_missing_predictions(run, plan, dataset, model, Terminal(quiet=True))
        predictions, positions = predict_unlabelled(plan, dataset, model)
        predicted = None if dataset.test is None else model.evaluate(dataset.test).probabilities.argmax(1)
        findings = Findings(
            plan, dataset, run.finished_history(), run.history(FLOOR), predicted, positions, predictions
        )
        write_report(run / REPORT, findings)
