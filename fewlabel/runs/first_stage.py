"""The first stage of a run, without labels: the main stage trains on its features, or continues from its weights."""

from dataclasses import replace

from ..data import Dataset, Examples
from ..data.features import kind_of
from ..encoders import NONE, Encoder, find_encoder
from ..encoders.run import run_encoder
from ..evaluate import features_by
from ..model import Model
from ..networks import Classifier
from ..ranks import ALONE, Ranks
from ..run_files import FIRST_STAGE
from ..terminal import Terminal
from ..training import Plan
from .directory import RunDirectory
from .resume import saved_run
from .stages import StageResult, first_stage, run_stage


def run_first_stage(run: RunDirectory, plan: Plan, dataset: Dataset, terminal: Terminal, ranks: Ranks) -> StageResult:
    """Train or resume the first stage, and save its network, which can then be used as an encoder."""
    result = run_stage(first_stage(plan, dataset), run, terminal, ranks)
    ranks.first_says(lambda: as_encoder(plan, result).save(run / FIRST_STAGE))
    return result


def as_encoder(plan: Plan, result: StageResult) -> Model:
    """The network of a first stage, which knows no classes."""
    return Model(result.network, result.dataset.train.kind, (), plan.network, plan.recipe.method, NONE)


def encoded_by_first_stage(
    run: RunDirectory, dataset: Dataset, network: Classifier | None = None, ranks: Ranks = ALONE
) -> Dataset:
    """The data set as features of the network that the run's first stage has saved, or of that very `network`.

    Of several processes only the first may see the run's files.
    """
    saved = find_encoder(str((run / FIRST_STAGE).resolve())) if ranks.first else None
    name, digest = ranks.first_says(lambda: (saved.name, saved.digest) if saved else ("", ""))
    if network is None:
        assert saved is not None
        network = saved.module.network  # type: ignore[assignment]
    assert network is not None
    encoder = saved or run_encoder(name, network, dataset.train.size, digest, dataset.train.kind.value_range)
    train, test = dataset.train, dataset.test
    return replace(
        dataset,
        train=as_features(train, encoder, network, "Encoding"),
        test=None if test is None else as_features(train.fitting(test), encoder, network),
    )


def as_trained_on(run: RunDirectory, plan: Plan, dataset: Dataset) -> Dataset:
    """The data set as the main stage of a finished run saw it."""
    waiting = plan.encoder == FIRST_STAGE and dataset.train.kind.encoder == NONE
    return encoded_by_first_stage(run, dataset) if waiting else dataset


def data_of_run(run: RunDirectory, root: str | None = None) -> tuple[Plan, Dataset]:
    """The plan of a finished run and what its main stage was trained on, loaded again."""
    plan, dataset = saved_run(run, root)
    return plan, as_trained_on(run, plan, dataset)


def as_features(images: Examples, encoder: Encoder, network: Classifier, title: str = "") -> Examples:
    features, kind = features_by(network, images.inputs, title=title), kind_of(encoder)
    return Examples(
        features, images.labels, images.classes, images.names, kind, images.skipped, images.source, original=images
    )
