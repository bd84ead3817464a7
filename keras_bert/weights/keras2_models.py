"""Models that Keras 2 saved: the names of their variables show which package they are of."""

from pathlib import Path

from keras_bert.weights import hugging_face, keras_variables, model_garden, old_packages, tf_flax_names
from keras_bert.weights.checkpoint import Checkpoint


def read_checkpoint(path: Path) -> Checkpoint | None:
    """The model at a path; None where it is in another format."""
    variables = keras_variables.read(path)
    if variables is None:
        return None
    if "layer_0_attention_qkv/kernel" in variables.stored:
        raise ValueError(
            f"{path} is a tf.train.Checkpoint of a Bert, without its config. Build the Bert, restore it with "
            "tf.train.Checkpoint, and call bert.save(path). "
            f"Received: {len(variables.stored)} variables of keras_bert"
        )
    if any(tf_flax_names.BLOCK in name for name in variables.stored):
        return hugging_face.read_variables(variables)
    if package := old_packages.package_of(variables):
        return old_packages.read_variables(variables, package)
    return model_garden.read_variables(variables)
