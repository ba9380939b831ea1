"""The files of a run directory, by name."""

LOCK = ".lock"  # it stays when a run has ended: whether it is held is what counts
RECIPE, LABELS, METRICS = "recipe.json", "labels.csv", "metrics.jsonl"
LAST, PREVIOUS, NEW = "last.ckpt", "previous.ckpt", "new.ckpt"
WEIGHTS, DESCRIPTION = "model.safetensors", "model.json"
PREDICTIONS, REPORT, VERDICT, AUDIT = "predictions.csv", "report.html", "verdict.json", "audit.json"
FLOOR = "floor"  # folder of the stage that trains on the labels alone
FIRST_STAGE = "first-stage"  # folder of the stage that trains without labels, and the name of its network as an encoder
FILES = {LOCK, RECIPE, LABELS, METRICS, LAST, PREVIOUS, NEW, WEIGHTS, DESCRIPTION, FLOOR, FIRST_STAGE}
FILES |= {PREDICTIONS, REPORT, VERDICT, AUDIT}
