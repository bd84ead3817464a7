"""PackedTask: what a task gives to Keras if its input is ids already, and the errors for ids that it cannot use."""

from typing import Any

import numpy as np

from keras_bert.inputs import check_names
from keras_bert.tasks.columns.packed_inputs import check_target_ids, is_packed, packed_batches
from keras_bert.tasks.rows.targets import check_returned
from keras_bert.tasks.saved_task import SavedTask


class PackedTask(SavedTask):
    """The part of a `Task` that takes packed ids, the dict that a preprocessor returns, in place of texts."""

    def _packed(self, x: Any) -> Any:
        """Packed inputs as Keras takes them.

        Their names and axes are checked before Keras sees them: on JAX, an error inside its loop loses the model's
        weights.
        """
        x = packed_batches(x)
        if isinstance(x, dict):
            check_names(type(self).__name__, self.input, x)
            for name, wanted in self.input.items():
                if np.ndim(x[name]) != len(wanted.shape):
                    sizes = ", ".join("*" if size is None else str(size) for size in wanted.shape)
                    raise ValueError(
                        f"`{name}` of a {type(self).__name__} with these settings must have the shape [{sizes}], where "
                        f"* is any size. Pass the texts. Received: shape {list(np.shape(x[name]))}"
                    )
        return x

    def _packed_validation(self, validation_data: Any, packed: bool) -> Any:
        """Validation data as Keras takes it, if it is packed; other data as it is, if training is not packed either."""
        has_columns = isinstance(validation_data, tuple | list)
        if not is_packed(tuple(validation_data) if has_columns else validation_data):
            if packed and validation_data is not None:
                raise ValueError(
                    "x has packed ids, but validation_data has texts. Pass both as ids, or both as texts. "
                    f"Received: {type(validation_data).__name__}"
                )
            return validation_data
        if not has_columns:
            return packed_batches(validation_data)
        x, *given = validation_data
        x = self._packed(x)
        return (x, *(self._targets_of_ids(x, y) for y in given[:1]), *given[1:])

    def _targets_of_ids(self, x: Any, y: Any) -> Any:
        """The targets of packed ids, as numbers."""
        ids = self.target_ids(y)
        if y is not None:
            check_returned(self, "target_ids", ids, "y as an array of numbers")
        below = self._target_ids_below(x) if isinstance(x, dict) and ids is not None else None
        if below is not None:
            length = np.shape(x["input_word_ids"])[1]
            each = (length if size is None else size for size in self.output_shape[1:-1])
            check_target_ids(ids, below, (len(x["input_word_ids"]), *each))
        return ids

    def _target_ids_below(self, x: dict[str, Any]) -> int | None:
        """The number that all target ids of packed ids are below, where `target_ids` does not check them."""
        return None
