"""What a training that continues, `fit(initial_epoch=...)`, cannot change: its recipe and its loss."""

import dataclasses
import json
import logging
from typing import Any

from keras import ops

from keras_bert.tasks.finetune_recipe import FinetuneRecipe

logger = logging.getLogger("keras_bert")


def check_continued(task: Any, recipe: FinetuneRecipe | None) -> None:
    """Refuse another recipe than that of the task; warn if its learning rate has come to 0."""
    if recipe is not None and _as_json(recipe) != _as_json(task.recipe):
        raise cannot_change("recipe", repr(recipe))
    if not float(ops.convert_to_numpy(task.optimizer.learning_rate)):
        logger.warning(
            "The learning rate of the recipe has come to 0, so nothing more is learned. To begin a new training, "
            "leave out initial_epoch. To train in parts, compile with recipe.optimizer(steps), where `steps` is "
            "the number of batches of all parts."
        )


def check_same_class_weight(task: Any, class_weight: Any, targets: Any) -> None:
    """Refuse weights of labels that the loss of the task does not have."""
    if task.weighs_labels_in_loss:
        loss = task.recipe_loss(task.recipe.label_smoothing, class_weight, targets)
        if loss_settings(loss) != loss_settings(task.loss):
            raise cannot_change("class_weight", repr(class_weight))


def loss_settings(loss: Any) -> tuple[type, dict[str, Any]]:
    """What is equal in two losses that compute the same; Keras numbers their names."""
    return type(loss), {name: value for name, value in loss.get_config().items() if name != "name"}


def cannot_change(name: str, received: str) -> ValueError:
    """The error about an argument of `fit`."""
    return ValueError(
        f"`{name}` was passed to `fit` with initial_epoch, but a training that continues cannot change it. Leave out "
        f"`{name}`, or leave out initial_epoch to begin a new training. Received: {name}={received}"
    )


def _as_json(recipe: FinetuneRecipe) -> str:
    """As it is saved, which makes texts of the keys of a class weight."""
    return json.dumps(dataclasses.asdict(recipe), default=str)
