"""Model, HeadedModel: what `Bert`, and the models with a head on one, add to a functional keras.Model."""

from functools import cached_property
from typing import Any

import keras
from keras import ops

from keras_bert.compat import set_untracked
from keras_bert.policy import check_trainable
from keras_bert.runner import Runners
from keras_bert.saving import changed_layers, restore_layers


class Model(keras.Model):
    """A functional model that refuses to train where its dtype moves no weight."""

    @cached_property
    def runners(self) -> Runners:
        """What this model keeps between calls that read text, so that its graphs are built once."""
        return Runners()

    def make_train_function(self, force: bool = False) -> Any:
        check_trainable(self.trainable_variables)
        if self.optimizer is not None and not self.optimizer.built and self.trainable_variables:
            self.optimizer.build(self.trainable_variables)  # a step that made its variables would be traced twice
        return super().make_train_function(force)

    def quantize(self, mode: Any = None, config: Any = None, filters: Any = None, **kwargs: Any) -> None:
        """As Keras's; without `filters` the Dense layers, which hold nearly all the work."""
        filters = filters or (lambda layer: isinstance(layer, keras.layers.Dense))
        super().quantize(mode, config=config, filters=filters, **kwargs)


class HeadedModel(Model):
    """A model over a `Bert`, which is saved with it: its config, what the user changed in the layers, every weight."""

    def __init__(self, bert: Any, inputs: Any, outputs: Any, **kwargs: Any) -> None:
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)
        # Its layers are nodes of this model already, all but a pooler that the head does not use.
        set_untracked(self, "bert", bert)
        self.dtype_policy = bert.dtype_policy

    def get_config(self) -> dict[str, Any]:
        return {
            "bert": keras.saving.serialize_keras_object(self.bert),
            "name": self.name,
            "changed_layers": changed_layers(self, but=self.bert),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        config = dict(config)
        changes = config.pop("changed_layers")
        model = cls(keras.saving.deserialize_keras_object(config.pop("bert"), custom_objects), **config)
        restore_layers(model, changes)
        return model

    def save_own_variables(self, store: Any) -> None:
        for number, weight in enumerate(self._left_over()):
            store[str(number)] = ops.convert_to_numpy(weight)

    def load_own_variables(self, store: Any) -> None:
        for number, weight in enumerate(self._left_over()):
            weight.assign(store[str(number)])

    def _left_over(self) -> list[Any]:
        """The encoder's weights that are not this model's: the pooler's, where the head has no use for it."""
        own = {id(weight) for weight in self.weights}
        return [weight for weight in self.bert.weights if id(weight) not in own]
