"""Check that recipe.json describes a valid plan."""

from typing import Any

import torch

from ..methods import chosen_settings
from ..settings import LARGEST, parameters_of
from ..training import Plan, Recipe


def check_plan(facts: dict[str, Any]) -> None:
    """Raise an error if a value of recipe.json is missing, of the wrong type, or out of bounds."""
    check_values(Plan.from_dict(facts, torch.empty(0)))


def check_values(plan: Plan) -> None:
    recipe = plan.recipe
    for name, parameter in parameters_of(Recipe).items():
        parameter.check(name, getattr(recipe, name))
    labels = [recipe.labels] if isinstance(recipe.labels, str) else recipe.labels or []
    texts = [*labels, *plan.without, plan.network, plan.encoder]
    lengths = plan.steps, plan.evaluations
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a name is not text")
    if not all(
        isinstance(length, int) and not isinstance(length, bool) and 1 <= length <= LARGEST for length in lengths
    ):
        raise ValueError("a length is not a whole number")
    if not isinstance(plan.learning_rate, int | float) or not isinstance(plan.precision, torch.dtype):
        raise ValueError("the learning rate or the precision is not valid")
    chosen_settings(recipe.method, recipe.settings)
    if plan.first is not None:
        check_values(plan.first)
