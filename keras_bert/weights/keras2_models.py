"""Models that Keras 2 saved, of whichever package: the names of their variables show which it is."""

from pathlib import Path

from keras_bert.weights import hugging_face, keras_variables, model_garden, old_packages, tf_flax_names
from keras_bert.weights.checkpoint import Checkpoint

recognise = keras_variables.recognise


def read_checkpoint(path: Path) -> Checkpoint:
    variables = keras_variables.read(path)
    if any(tf_flax_names.BLOCK in name for name in variables.stored):
        return hugging_face.read_variables(variables)
    if package := old_packages.package_of(variables):
        return old_packages.read_variables(variables, package)
    return model_garden.read_variables(variables)
