"""Training: the recipe, the plan, one step, and the loop."""

from .checks import check_recipe
from .fit import Listener, fit
from .plan import Plan, choose_device, make_plan
from .recipe import Recipe
from .trainer import StepResult, Trainer

__all__ = ["Listener", "Plan", "Recipe", "StepResult", "Trainer", "check_recipe", "choose_device", "fit", "make_plan"]
