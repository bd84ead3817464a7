"""SavedTask: how a task is written to a file and read back, from our own formats and from those of others."""

import inspect
import itertools
import os
from pathlib import Path
from typing import Any

from keras_bert.bert import Bert
from keras_bert.checks import check_flag
from keras_bert.model import HeadedModel
from keras_bert.weights.export_folder import check_no_runtime_model
from keras_bert.weights.heads import assign_head, load_head, load_saved
from keras_bert.wording import listed


class SavedTask(HeadedModel):
    """The part of a `Task` that saves and loads it, with its vocabulary and every setting."""

    heads: tuple[str, ...] = ()  # the layers of the head, as weights/tables.py calls them

    def __init__(self, bert: Bert, inputs: Any, logits: Any, *, freeze: bool = False, name: str | None = None) -> None:
        check_flag("freeze", freeze)
        super().__init__(bert, inputs, logits, name=name)
        if freeze:  # not a setting of the task: the encoder knows what is frozen, and can be unfrozen
            bert.freeze()

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructors, each from the attribute of its name; tuples as lists, as JSON has them."""
        kept = {name: getattr(self, name) for name in _arguments_of(type(self)) if hasattr(self, name)}
        listed = {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items()}
        return {**super().get_config(), **listed}

    def save(self, *args: Any, **options: Any) -> None:
        """As Keras's, into a .keras file."""
        path = args[0] if args else options.get("filepath")
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"The path of a file is needed. Give one that ends in .keras. Received: {path!r}")
        path = os.fspath(path)
        if os.path.splitext(path)[1] != ".keras" and options.get("zipped", True):  # a file named .keras has no ending
            raise ValueError(
                "A task is saved with its vocabulary and settings only in a .keras file. Give `save` a path that ends "
                f"in .keras. Received: {path!r}"
            )
        own_way = type(self).from_config.__func__ is not HeadedModel.from_config.__func__  # type: ignore[attr-defined]
        kept = self.get_config()
        if not own_way and (missing := [name for name in _arguments(type(self)) if name not in kept]):
            raise ValueError(
                f"get_config of {type(self).__name__} lacks {', '.join(map(repr, missing))}, but a saved file needs "
                "every argument of __init__. Keep each in an attribute with its name, or add it to get_config. "
                f"Received: a config without {', '.join(map(repr, missing))}"
            )
        super().save(*args, **options)

    @classmethod
    def load(
        cls,
        source: Any,
        *,
        dtype: Any = None,
        seq_length: int | str | None = None,
        cache_dir: str | os.PathLike | None = None,
        local_only: bool = False,
        **settings: Any,
    ) -> Any:
        """The task with its head, from any format that has one. The arguments are those of `keras_bert.load`.

        settings: arguments of the constructor; the others are as the source has them.
        """
        if unknown := set(settings) - {*_arguments_of(cls), "freeze", "name"}:
            own = [name for name in _arguments_of(cls) if cls.heads]
            raise TypeError(
                f"{cls.__name__}.load has no argument {listed(sorted(map(repr, unknown)))}. It has those of "
                f"keras_bert.load, such as seq_length and dtype{f', and {listed(own)}' if own else ''}. Correct the "
                f"name, or leave it out. Received: {listed(sorted(unknown))}"
            )
        takes_all = cls.heads or not settings  # only weights of known heads can be put into layers with other settings
        task = load_saved(cls, source, dtype=dtype, seq_length=seq_length, **settings) if takes_all else None
        if task is None:
            if not cls.heads:
                if isinstance(source, str | os.PathLike):
                    check_no_runtime_model(Path(source), "keras_bert", "Load the model that it was exported from")
                raise ValueError(
                    f"{cls.__name__}.load takes no settings, and only a .keras file or an export of {cls.__name__}. "
                    f"To put a new {cls.__name__} on the encoder of the source, use "
                    f"{cls.__name__}(keras_bert.load(source), ...). Received: {source!r}, "
                    f"{f'with {listed(sorted(settings))}' if settings else 'which is neither'}"
                )
            options: Any = {"dtype": dtype, "seq_length": seq_length, "cache_dir": cache_dir, "local_only": local_only}
            checkpoint, bert = load_head(source, cls.heads, **options)
            task = cls(bert, **{**cls.settings(checkpoint.heads[cls.heads[0]]), **settings})
            if not set(task.heads) & set(checkpoint.heads):
                raise ValueError(
                    f"The head of {checkpoint.source} does not fit {listed(sorted(settings))}. Leave that out, or "
                    f"train a new head: pass keras_bert.load(source) to {cls.__name__}. Received: "
                    f"{', '.join(f'{name}={value!r}' for name, value in settings.items())}"
                )
            assign_head(task, checkpoint)
        return task

    @classmethod
    def settings(cls, head: Any) -> dict[str, Any]:
        """The arguments of the constructor that a stored head decides."""
        return {}


def _arguments_of(task: type[SavedTask]) -> list[str]:
    """The names of the arguments of a class of tasks and of the tasks that it derives from."""
    classes = itertools.takewhile(lambda kind: kind is not SavedTask, task.__mro__)
    return [name for kind in reversed([*classes]) if "__init__" in vars(kind) for name in _arguments(kind)]


def _arguments(kind: Any) -> list[str]:
    """The names of a constructor's arguments that a saved file keeps."""
    arguments = inspect.signature(kind.__init__).parameters.values()
    named = [one.name for one in arguments if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    return [name for name in named if name not in ("self", "bert", "freeze", "name")]
