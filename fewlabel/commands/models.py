"""predict, evaluate, export, report: commands on a trained model."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..auditing import measured
from ..data import is_folder, is_row_file, load_test
from ..data.folder import understand
from ..data.records import open_records
from ..errors import UserError
from ..evaluate import Evaluation
from ..mistakes import check_mistakes, trained_on, write_mistakes
from ..model import load_model
from ..run_files import REPORT
from ..runs import RunDirectory
from ..runs.finish import remake_report
from ..sorting import elsewhere, refuse_inside, sort_pictures
from .outputs import check_output

Run = Annotated[str, Parameter(help="directory of a finished run")]
Device = Annotated[str | None, Parameter(help="cpu, cuda or mps; default the best available")]


def predict(
    run: Run,
    path: Annotated[str, Parameter(help="folder of pictures, one picture, file of texts or rows, or .npz file")],
    /,
    *,
    output: Annotated[
        str,
        Parameter(alias="-o", help="CSV file to write: file, label, guess, confirmed, confidence, a column per class"),
    ] = "predictions.csv",
    min_confidence: Annotated[float, Parameter(help="write examples with less confidence to --review instead")] = 0.0,
    review: Annotated[str, Parameter(help="CSV file for those examples, least confident first")] = "review.csv",
    sort: Annotated[
        str | None,
        Parameter(help="copy the pictures into this folder, one subfolder per class; unsure ones into review/"),
    ] = None,
    link: Annotated[bool, Parameter(help="with --sort: make links instead of copies", negative="")] = False,
    overwrite: Annotated[bool, Parameter(help="replace the files, even if you corrected them", negative="")] = False,
    device: Device = None,
) -> None:
    """Label pictures, texts or rows of a table with a trained model."""
    for file, flag in ((output, "--output"), *(((review, "--review"),) if min_confidence else ())):
        check_output(Path(file), flag, overwrite)
    if min_confidence and Path(output).resolve() == Path(review).resolve():
        raise UserError(f"--output and --review are the same file, {review}: choose two different files.")
    if not 0 <= min_confidence <= 1:
        raise UserError(f"--min-confidence must be between 0 and 1, not {min_confidence:g}.")
    if link and sort is None:
        raise UserError("--link needs --sort FOLDER.")
    if sort is not None and (Path(path).suffix == ".npz" or is_row_file(path)):
        raise UserError(f"--sort is for pictures: the rows of {path} cannot be sorted into folders.")
    if sort is not None:
        refuse_inside(Path(path), Path(sort))
    model = load_model(run, device)
    noun = model.kind.noun
    sure, unsure = model.label(path).split(min_confidence)
    for note in open_records(Path(path)).notes() if is_row_file(path) else ():
        print(note)
    sure.write(Path(output))
    print(f"{len(sure)} {noun} labelled, {len(sure.skipped)} could not be read: {output}")
    if not model.calibrated:
        print(
            "Note: the confidence of this model is not calibrated, so predictions with 0.9 may be right less often; "
            "to calibrate it: `fewlabel evaluate --calibrate` with labelled examples."
        )
    if min_confidence:
        unsure.write(Path(review))
        print(f"{len(unsure)} {noun} to review, with a confidence below {min_confidence:g}: {review}")
    if sort is not None:
        folders = sort_pictures(Path(path), Path(sort), sure, unsure, link)
        counts = ", ".join(f"{name} {count}" for name, count in sorted(folders.items()))
        print(f"{sum(folders.values())} {noun} {'linked' if link else 'copied'} into {sort}: {counts}")
        if count := elsewhere(Path(sort), sure, unsure):
            print(
                f"{count} of them are also in another folder of {sort}, from an earlier sorting: delete those copies "
                "yourself."
            )


def evaluate(
    run: Run,
    data: Annotated[
        str,
        Parameter(
            help="folder with one subfolder per class, file of texts or rows with a label column, or .npz file or "
            "named data set with a test part"
        ),
    ],
    /,
    *,
    root: Annotated[str | None, Parameter(help="folder with the official files of a named data set")] = None,
    labels: Annotated[
        list[str] | None,
        Parameter(
            help="CSV or .xlsx file with the columns file and label; may be repeated, the later wins", negative=""
        ),
    ] = None,
    label_column: Annotated[
        str | None, Parameter(help="column of a file that holds the classes; default as in training")
    ] = None,
    device: Device = None,
    mistakes: Annotated[
        str | None,
        Parameter(help="HTML page to write with the misclassified examples; a CSV file is written beside it"),
    ] = None,
    calibrate: Annotated[
        bool, Parameter(help="calibrate the model's confidence on these examples (temperature scaling) and save it")
    ] = False,
) -> None:
    """Measure the accuracy of a trained model on labelled examples."""
    if mistakes is not None:
        check_mistakes(Path(mistakes))
    model = load_model(run, device)
    kind = model.kind if label_column is None else model.kind.with_label_column(label_column)
    examples = load_test(data, root, labels=labels, classes=model.classes, kind=kind)
    found = model.evaluate(examples)
    console = Console()
    if labels is not None and is_folder(data):
        for note in understand(Path(data), labels).notes:
            console.print(note, soft_wrap=True, markup=False, highlight=False)
    console.print(class_table(found, model.kind.noun))
    low, high = found.interval
    console.print(
        f"Accuracy: {found.accuracy:.2%} of {found.count} {model.kind.noun} (95% interval: {low:.2%} to {high:.2%})"
    )
    console.print(f"Expected calibration error: {100 * found.calibration_error:.1f} points")
    if count := trained_on(run, data, examples, found):
        console.print(
            f"Warning: the model was trained on {count} of these {model.kind.noun}, so this says little about "
            f"others. For a fair measurement: fewlabel audit {run}",
            soft_wrap=True,
            markup=False,
        )
    if mistakes is not None:
        wrong = write_mistakes(Path(mistakes), examples, found)
        console.print(f"{wrong} mistakes: {Path(mistakes).with_suffix('.html')}", soft_wrap=True, markup=False)
    if found.skipped:
        first = next(iter(found.skipped))
        console.print(f"{len(found.skipped)} pictures could not be read, beginning with {first}.", markup=False)
    if calibrate:
        fitted = model.calibrate(found)
        with RunDirectory(run) as directory:
            directory.lock()
            model.save(run)
        console.print(
            f"Calibrated with a temperature of {fitted.temperature:.2f}: the calibration error is now "
            f"{100 * fitted.after:.1f} points (cross-fitted: each half uses the temperature of the other)"
        )


def class_table(found: Evaluation, noun: str) -> Table:
    table = Table("class", noun, "correct")
    counts = found.confusion
    for name, count, correct in zip(found.classes, counts.sum(1).tolist(), counts.diagonal().tolist(), strict=True):
        table.add_row(Text(name), str(count), f"{correct / count:.1%}" if count else "")
    return table


def export(
    run: Run,
    /,
    *,
    onnx: Annotated[str, Parameter(alias=["--output", "-o"], help="ONNX file to write")] = "model.onnx",
    overwrite: Annotated[bool, Parameter(help="replace an existing file", negative="")] = False,
) -> None:
    """Export a trained model to ONNX, preprocessing included."""
    if Path(onnx).suffix != ".onnx":
        raise UserError(f"--onnx must end in .onnx, not {Path(onnx).name}.")
    if Path(onnx).exists() and not overwrite:
        raise UserError(f"{onnx} already exists: replace it with --overwrite.")
    model = load_model(run, "cpu")
    model.export(onnx)
    _, shape, dtype = model.kind.exported()
    sizes = ", ".join(map(str, ("N", *shape)))
    print(
        f"{onnx}: {model.kind.input_name} {str(dtype).removeprefix('torch.')} ({sizes}) to probabilities "
        f"(N, {len(model.classes)})"
    )
    if note := model.kind.export_note():
        print(note)


def report(
    run: Run,
    /,
    *,
    root: Annotated[
        str | None, Parameter(help="folder with the official files of a named data set; default as before")
    ] = None,
) -> None:
    """Rewrite the report of a finished run from its files and data."""
    directory = RunDirectory(run)
    remake_report(directory, root, measured(directory))
    print(f"Report: {directory / REPORT}")
