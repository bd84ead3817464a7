"""ChosenRecipe: what a call of `fit` trains with, and whether it compiles the task."""

import logging
from dataclasses import dataclass
from typing import Any

from keras_bert.tasks.finetune_recipe import FinetuneRecipe
from keras_bert.tasks.fitting.continued import cannot_change, check_continued, check_same_class_weight

KERAS_BATCH_SIZE = 32  # of `fit` after a `compile` of the user, and of `evaluate`


@dataclass(frozen=True)
class ChosenRecipe:
    """The recipe of a call of `fit`: the one that was passed, that of the training that continues, or the paper's.

    Args:
        compiles: whether `fit` compiles the task. What `fit` compiled is compiled again, unless training continues;
            what the user compiled stays, unless a recipe is passed.
        continues: whether the call continues the training of an earlier one.
        class_weight: the one that was passed, or else that of the recipe.
        log_level: at which the recipe is logged. Nobody asked for the paper's recipe, so it is logged as a warning.
    """

    recipe: FinetuneRecipe
    compiles: bool
    continues: bool
    class_weight: Any
    log_level: int
    is_weight_passed: bool

    @classmethod
    def of(cls, task: Any, recipe: FinetuneRecipe | None, class_weight: Any, initial_epoch: int) -> "ChosenRecipe":
        """What `task.fit` uses if it gets these arguments; an error if they come too late."""
        if recipe is not None and not isinstance(recipe, FinetuneRecipe):
            raise TypeError(
                "`recipe` must be a FinetuneRecipe. Pass one, such as FinetuneRecipe(epochs=3), or leave it out. "
                f"Received: recipe={recipe!r}"
            )
        compiles = not task.compiled or (initial_epoch == 0 and (task.recipe or recipe) is not None)
        continues = not compiles and task.recipe is not None
        if continues:
            check_continued(task, recipe)
        elif not compiles and recipe is not None:
            raise cannot_change("recipe", repr(recipe))
        chosen = recipe or (None if compiles else task.recipe) or FinetuneRecipe()
        weight = chosen.class_weight if class_weight is None else class_weight
        if weight is not None and task.weighs_labels_in_loss and not compiles and not continues:
            raise ValueError(
                f"class_weight was passed to `fit`, but you compiled this {type(task).__name__}, and the weights are "
                "part of its loss. Compile it with task.recipe_loss(class_weight=...), or pass a recipe to `fit`. "
                f"Received: class_weight={weight!r}"
            )
        level = logging.INFO if recipe else logging.WARNING
        return cls(chosen, compiles, continues, weight, level, is_weight_passed=class_weight is not None)

    @property
    def epochs(self) -> int:
        """How many there are by default."""
        return self.recipe.epochs if self.compiles else 1

    def batch_size(self, of_task: int) -> int:
        """The rows of a batch by default; `of_task` if the recipe does not say it."""
        return self.recipe.batch_size or (of_task if self.compiles or self.continues else KERAS_BATCH_SIZE)

    def check_targets(self, task: Any, targets: Any, class_weight: Any) -> None:
        """Refuse class weights, resolved for these targets, that a training that continues did not begin with."""
        if self.continues and self.is_weight_passed:
            check_same_class_weight(task, class_weight, targets)
