"""Recipe: every setting of a run that does not belong to a method."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

# Where and with what a run happens and what it leaves behind, not what it computes.
PLACES = ("out", "root", "download", "device", "threads", "predictions")


@dataclass(frozen=True)
class Recipe:
    """All that a run depends on, but for the code. Beside its type a field has its help, and the group for the help."""

    data: Annotated[
        str, "a folder of pictures, an .npz file, or digits, mnist, fashion-mnist, svhn, cifar10, cifar100", "Data"
    ] = "digits"
    labels: Annotated[str | None, "CSV file with the header file,label for pictures of the folder", "Data"] = None
    labels_per_class: Annotated[int | None, "hide all labels but so many of each class", "Data"] = None
    test: Annotated[str | None, "folder with one subfolder per class to be judged by, never trained on", "Data"] = None
    root: Annotated[str | None, "where the official files of a named data set lie", "Data"] = None
    download: Annotated[bool, "fetch the official files of a named data set into --root", "Data"] = False
    size: Annotated[
        int | None, "side of the pictures of a folder; default 32 where they are small, else 64", "Data"
    ] = None
    flip: Annotated[
        bool | None,
        "is a mirrored picture the same thing? default yes, but no for digits and grey arrays",
        "Data",
    ] = None
    without: Annotated[
        str, "changes that no view may make, such as rotate,hue; `fewlabel drift` tells which", "Data"
    ] = ""

    method: Annotated[str, "see `fewlabel methods`; +icl may follow any method", "Training"] = "icl-ssl"
    settings: dict[str, Any] = field(default_factory=dict)  # of the method's parts, such as {"icl.temperature": 0.5}
    network: Annotated[str | None, "cnn, mlp or wrn-DEPTH-WIDTH; default by device and picture size", "Training"] = None
    batch: Annotated[int, "labelled images a step", "Training"] = 32
    mu: Annotated[int, "unlabelled images a step, as a multiple of the batch", "Training"] = 2
    steps: Annotated[int | None, "length of the run; default 2000", "Training"] = None
    images: Annotated[int | None, "length of the run as images through the network, every pass counted", "Training"] = (
        None
    )
    minutes: Annotated[
        float | None, "length of the run as time: steps are timed, then their number fixed", "Training"
    ] = None
    learning_rate: Annotated[
        float | None,
        "of SGD, falling along 7/16 of a cosine; default 0.2 for cnn, 0.06 for other networks; the paper: 0.03",
        "Training",
    ] = None
    horizon: Annotated[int | None, "steps the cosine is laid out for; default those of the run", "Training"] = None
    weight_decay: Annotated[float, "not on biases and norms", "Training"] = 5e-4
    ema: Annotated[float, "decay of the averaged weights, which are evaluated and kept", "Training"] = 0.999
    evaluations: Annotated[int | None, "looks at the test images; default 20, fewer in short runs", "Training"] = None
    lean: Annotated[
        bool, "views that only say what others shall learn take a pass without gradient: cheaper steps", "Training"
    ] = False
    floor: Annotated[bool, "also train on the labels alone, to show what the other pictures are worth", "Training"] = (
        True
    )
    seed: Annotated[int, "of everything random: split, weights, batches, views", "Training"] = 0

    out: Annotated[str | None, "run directory; default runs/DATA-METHOD-SEED", "Machine"] = None
    predictions: Annotated[bool, "label every unlabelled training picture at the end: predictions.csv", "Machine"] = (
        True
    )
    device: Annotated[str | None, "cpu, cuda or mps; default the best there is", "Machine"] = None
    threads: Annotated[int | None, "CPU threads; default all cores, or what OMP_NUM_THREADS says", "Machine"] = None
    precision: Annotated[
        Literal["float32", "bfloat16", "float16"] | None, "default bfloat16 on cuda, else float32", "Machine"
    ] = None
    share_norms: Annotated[
        bool,
        "with torchrun: batch-norm statistics of all processes; --no-share-norms: of each alone, faster",
        "Machine",
    ] = True
    compile: Annotated[bool, "torch.compile the network: slow to start, may pay on long runs", "Machine"] = False

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def differences(self, saved: dict[str, Any]) -> list[str]:
        """The settings, places aside, in which a saved recipe differs from this one."""
        mine, usual = self.to_dict(), Recipe().to_dict()  # which holds for what was not there when it was saved
        return sorted(name for name in mine if name not in PLACES and mine[name] != saved.get(name, usual[name]))

    @property
    def directory(self) -> Path:
        name = Path(self.data).resolve().name.removesuffix(".npz")
        return Path(self.out) if self.out else Path("runs") / f"{name}-{self.method}-{self.seed}"
