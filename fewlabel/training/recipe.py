"""Recipe: all settings of a run that do not belong to a method."""

import dataclasses
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from ..data import NAMED, Roles, folder_roles, is_row_file
from ..methods import SELF_SUPERVISED, parts_of
from ..run_files import FIRST_STAGE
from ..settings import Setting

DATA, TRAINING, OUTPUT, ADVANCED = GROUPS = ("Data", "Training", "Output and device", "Advanced")
# Where and with what a run happens and what it leaves behind, not what it computes.
PLACES = ("out", "root", "download", "device", "threads", "predictions", "backend", "scheduler", "spend_audit")
FLIP = "horizontal-flip"


@dataclass(frozen=True)
class Recipe:
    """Everything that a run depends on, except the code and the data."""

    data: Annotated[
        str,
        Setting(
            "folder of pictures or .txt files, file of texts or rows (.csv, .tsv, .jsonl, .xlsx, .parquet), .npz file, "
            "or digits, mnist, fashion-mnist, svhn, cifar10, cifar100",
            group=DATA,
        ),
    ] = "digits"
    labels: Annotated[
        list[str] | str | None,
        Setting("CSV or .xlsx file with the columns file and label; may be repeated, the later wins", group=DATA),
    ] = None
    subfolders: Annotated[bool | None, Setting("subfolders are classes; default only without --labels", group=DATA)] = (
        None
    )
    labels_per_class: Annotated[
        int | None, Setting("keep this many labels per class and hide the others", least=1, group=DATA)
    ] = None
    spend_audit: Annotated[
        bool, Setting("allow labels of examples that an audit has used (`fewlabel audit`)", group=DATA)
    ] = False
    text_column: Annotated[str | None, Setting("column of a file that holds the texts", group=DATA)] = None
    label_column: Annotated[
        str | None, Setting("column of a file that holds the classes; empty cells are unlabelled", group=DATA)
    ] = None
    id_column: Annotated[
        str | None, Setting("column of a file that identifies its rows; default row number and content", group=DATA)
    ] = None
    drop: Annotated[str, Setting("columns of a table to leave out, separated by commas", group=DATA)] = ""
    test: Annotated[
        str | None, Setting("held-out test folder, one subfolder per class, or file with the same columns", group=DATA)
    ] = None
    root: Annotated[str | None, Setting("folder with the official files of a named data set", group=DATA)] = None
    download: Annotated[bool, Setting("download those files into --root", group=DATA)] = False
    size: Annotated[
        int | None, Setting("resize pictures of a folder to this side; default 32 for small ones, else 64", group=DATA)
    ] = None
    range: Annotated[
        str | None, Setting("LOW,HIGH pixel values of pictures with more than 8 bits; default measured", group=DATA)
    ] = None
    flip: Annotated[
        bool | None,
        Setting("mirror images at random; default yes, but no for digits and for grey arrays", group=DATA),
    ] = None
    without: Annotated[
        str, Setting("augmentations to disable, such as rotate,hue; `fewlabel drift` finds harmful ones", group=DATA)
    ] = ""

    method: Annotated[str, Setting("see `fewlabel methods`; +icl may follow any method", group=TRAINING)] = "icl-ssl"
    settings: dict[str, Any] = field(default_factory=dict)  # of the method's parts, such as {"icl.temperature": 0.5}
    network: Annotated[
        str | None, Setting("cnn, cnn-WIDTH, wrn-DEPTH-WIDTH or mlp; default by device and image size", group=TRAINING)
    ] = None
    encoder: Annotated[
        str | None,
        Setting(
            "pre-trained encoder, see `fewlabel encoders`; default lite0 for folders of pictures if it is installed, "
            "else none",
            group=TRAINING,
        ),
    ] = None
    start_from: Annotated[
        str | None,
        Setting("finished run to start from, for new labels or classes; then 500 steps by default", group=TRAINING),
    ] = None
    tune: Annotated[bool, Setting("train the encoder too; slow without a GPU", group=TRAINING)] = False
    pretrain: Annotated[
        str | None,
        Setting(f"first stage without labels, before the method: {', '.join(SELF_SUPERVISED)}", group=TRAINING),
    ] = None
    pretrain_images: Annotated[
        int | None,
        Setting(
            "length of the first stage in images, counting views; default 1,200,000, at most 400 per image",
            least=1,
            group=TRAINING,
        ),
    ] = None
    batch: Annotated[int, Setting("labelled examples per step", least=2, group=TRAINING)] = 32
    mu: Annotated[int, Setting("unlabelled examples per step, as a multiple of the batch", least=1, group=TRAINING)] = 2
    steps: Annotated[int | None, Setting("number of training steps; default 2000", least=1, group=TRAINING)] = None
    minutes: Annotated[
        float | None,
        Setting("training time in minutes, all stages together; steps are timed first", above=0, group=TRAINING),
    ] = None
    learning_rate: Annotated[
        float | None,
        Setting(
            "initial learning rate of SGD, with cosine decay; default 0.2 for cnn, 0.06 for other networks; the "
            "paper: 0.03",
            above=0,
            group=TRAINING,
        ),
    ] = None
    floor: Annotated[bool, Setting("also train on the labels alone, for comparison", group=TRAINING)] = True
    seed: Annotated[int, Setting("random seed of split, weights, batches and views", least=0, group=TRAINING)] = 0

    out: Annotated[
        str | None, Setting("run directory; default runs/DATA-METHOD-SEED, with the next free number", group=OUTPUT)
    ] = None
    predictions: Annotated[
        bool, Setting("write predictions for all unlabelled examples (predictions.csv)", group=OUTPUT)
    ] = True
    device: Annotated[str | None, Setting("cpu, cuda or mps; default the best available", group=OUTPUT)] = None
    threads: Annotated[
        int | None, Setting("CPU threads; default all cores, or OMP_NUM_THREADS", least=1, most=1024, group=OUTPUT)
    ] = None

    backend: Annotated[
        Literal["processes", "dask"],
        Setting("where pictures are encoded: local processes, or a Dask cluster", group=OUTPUT),
    ] = "processes"
    scheduler: Annotated[str | None, Setting("address of the Dask scheduler, for --backend dask", group=OUTPUT)] = None

    images: Annotated[
        int | None,
        Setting("training length in images through the network, counting all passes", least=1, group=ADVANCED),
    ] = None
    pretrain_steps: Annotated[int | None, Setting("length of the first stage in steps", least=1, group=ADVANCED)] = None
    pretrain_batch: Annotated[
        int, Setting("unlabelled examples per step of the first stage", least=2, group=ADVANCED)
    ] = 256
    pretrain_rate: Annotated[
        float | None, Setting("learning rate of the first stage; default 0.3", above=0, group=ADVANCED)
    ] = None
    pretrain_precision: Annotated[
        Literal["float32", "bfloat16", "float16"] | None,
        Setting(
            "precision of the first stage; default bfloat16 on cuda and on CPUs that have it, else float32",
            group=ADVANCED,
        ),
    ] = None
    pretrain_share: Annotated[
        float, Setting("with --minutes: minimum share of the first stage", above=0, below=1, group=ADVANCED)
    ] = 0.8
    encoder_rate: Annotated[
        float, Setting("with --tune: the encoder's learning rate as a share of the head's", least=0, group=ADVANCED)
    ] = 0.01
    encoder_views: Annotated[
        int,
        Setting(
            "with a frozen encoder: number of weak and strong views to encode of each picture", least=0, group=ADVANCED
        ),
    ] = 0
    horizon: Annotated[
        int | None, Setting("steps of the cosine schedule; default the length of the run", least=1, group=ADVANCED)
    ] = None
    weight_decay: Annotated[float, Setting("weight decay, except on biases and norms", least=0, group=ADVANCED)] = 5e-4
    ema: Annotated[
        float, Setting("decay of the averaged weights, which are evaluated and saved", least=0, below=1, group=ADVANCED)
    ] = 0.999
    evaluations: Annotated[
        int | None,
        Setting("number of evaluations on the test set; default 20, fewer in short runs", least=1, group=ADVANCED),
    ] = None
    noise: Annotated[
        float,
        Setting("noise of strong views of vectors, in standard deviations", least=0, group=ADVANCED),
    ] = 0.0
    dropout: Annotated[
        float, Setting("share of columns dropped in strong views of vectors", least=0, below=1, group=ADVANCED)
    ] = 0.0
    precision: Annotated[
        Literal["float32", "bfloat16", "float16"] | None,
        Setting("numeric precision; default bfloat16 on cuda, else float32", group=ADVANCED),
    ] = None
    share_norms: Annotated[
        bool,
        Setting("with torchrun: batch-norm statistics over all processes; --no-share-norms is faster", group=ADVANCED),
    ] = True

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def differences(self, saved: dict[str, Any]) -> list[str]:
        """The settings, places aside, in which a saved recipe differs from this one."""
        mine, usual = self.to_dict(), Recipe().to_dict()  # which holds for what was not there when it was saved
        return sorted(name for name in mine if name not in PLACES and mine[name] != saved.get(name, usual[name]))

    @property
    def directory(self) -> Path:
        """The run directory, by default named after data, method and seed."""
        path = Path(self.data).resolve()
        name = path.stem if not path.is_dir() and (path.suffix == ".npz" or is_row_file(path)) else path.name
        return Path(self.out) if self.out else Path("runs") / f"{name}-{self.method}-{self.seed}"

    @property
    def first_stage(self) -> "Recipe":
        """The recipe of the first stage, which `pretrain` names."""
        assert self.pretrain is not None
        return replace(
            self,
            method=self.pretrain,
            settings=first_stage_settings(self),
            batch=self.pretrain_batch,
            mu=1,
            learning_rate=self.pretrain_rate,
            precision=self.pretrain_precision,
            images=self.pretrain_images,
            steps=self.pretrain_steps,
            horizon=None,
            tune=False,
        )

    @property
    def roles(self) -> Roles:
        """Which columns of a file of rows are what."""
        given = Roles.of(self.text_column, self.label_column, self.id_column, self.drop)
        are_classes = self.labels is None if self.subfolders is None else self.subfolders
        in_folder = folder_roles(self.data, are_classes) if self.data not in NAMED else None
        return in_folder if in_folder is not None and given == Roles() else given

    @property
    def disabled(self) -> list[str]:
        """The augmentations that `without` names."""
        return [name.strip() for name in self.without.split(",") if name.strip()]


def own_settings(method: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of the method's parts, from settings with full names."""
    return {name: value for name, value in settings.items() if name.partition(".")[0] in parts_of(method)}


def first_stage_settings(recipe: Recipe) -> dict[str, Any]:
    """`simclr.temperature`; where both stages have such a part, `first-stage.icl.weight` is for the first alone."""
    both = own_settings(str(recipe.pretrain), recipe.settings)
    prefix = f"{FIRST_STAGE}."
    alone = {name.removeprefix(prefix): value for name, value in recipe.settings.items() if name.startswith(prefix)}
    return both | alone
