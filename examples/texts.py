"""A file of texts, four of them labelled: labels for all the others, and for new ones. Needs fewlabel[text]."""

import csv
import tempfile
from pathlib import Path

import fewlabel

folder = Path(tempfile.mkdtemp())
dishes = ["soup", "pizza", "salad", "rice", "bread", "curry", "pasta", "cake", "fish", "stew"]
towns = ["Lisbon", "Kyoto", "Cairo", "Lima", "Oslo", "Hanoi", "Quito", "Prague", "Accra", "Perth"]

# Stand-ins for your texts; the second column is what fewlabel is to find out.
texts = [(f"The {dish} was hot and tasty, and the waiter was kind.", "food") for dish in dishes]
texts += [(f"Our flight to {town} was late and the airport was crowded.", "travel") for town in towns]
labelled = {0, 1, 10, 11}

with open(folder / "reviews.csv", "w", newline="") as file:
    rows = [(text, kind if n in labelled else "") for n, (text, kind) in enumerate(texts)]
    csv.writer(file).writerows([("text", "kind"), *rows])

recipe = fewlabel.Recipe(
    data=str(folder / "reviews.csv"), text_column="text", label_column="kind", steps=60, out=str(folder / "run")
)
run = fewlabel.train(recipe)

with open(run.directory / "predictions.csv", newline="", encoding="utf-8-sig") as file:
    found = list(csv.DictReader(file))
right = sum(row["label"] == dict(texts)[row["text"]] for row in found)
print(fewlabel.load_model(run.directory).predict(["The noodles were tasty.", "The train to Rome was late."]))
print(f"{right} of {len(found)} texts got the right label")
