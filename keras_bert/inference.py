"""`inference`: a model's answers from another engine or in another dtype."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import keras

from keras_bert.checks import check_choice, check_engine_dtype
from keras_bert.installation import installed
from keras_bert.int8_copy import int8_copy
from keras_bert.layers.int8_dense import refuse_int8
from keras_bert.model import Model, with_dtype
from keras_bert.onnx_graph.convert import plain_model
from keras_bert.onnx_graph.onnx_runner import OnnxRunners
from keras_bert.runner import Runners, asked_runners
from keras_bert.tasks.columns.packed_inputs import is_packed
from keras_bert.tasks.task import Task
from keras_bert.using import using

ENGINES = ("auto", "tensorflow", "onnxruntime")
_OF_KERAS = ("predict", "evaluate", "predict_on_batch", "test_on_batch")  # which compute packed inputs
_TRAINS = ("fit", "compile", "train_on_batch", "quantize", "enable_lora", "load_weights", "set_weights")


def inference(model: Any, engine: str = "auto", dtype: str = "float32") -> "Inference":
    """An object with the model's answer methods, such as `classify` and `embed`, which run on the chosen engine.

    ONNX Runtime gets the weights once, before the first answer. After further training, call `inference` again.

    Args:
        model: a `Bert`, a task or a `Pretrainer`.
        engine: "tensorflow", if Keras runs on it; or "onnxruntime", which is faster for short texts and small models on
            CPUs. It needs `pip install "keras3-bert[onnxruntime]"`. "auto" is ONNX Runtime for float32 and int8 where
            it is installed, and otherwise Keras's backend, such as TensorFlow.
        dtype: "float32"; "bfloat16", for TensorFlow on CPUs with AVX512-BF16; or "int8", for CPUs with VNNI.

    >>> import keras_bert
    >>> vocabulary = keras_bert.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad"])
    >>> config = keras_bert.BertConfig.from_size("tiny", vocab_size=6)
    >>> bert = keras_bert.Bert(config, keras_bert.Preprocessor(vocabulary))
    >>> task = keras_bert.TextClassifier(bert, labels=("negative", "positive"))
    >>> fast = keras_bert.inference(task)
    >>> fast.classify("good").label == task.classify("good").label
    True
    """
    chosen = _chosen(model, engine, dtype)
    if chosen == "onnxruntime":
        found = Inference(model, OnnxRunners(int8=dtype == "int8"), chosen, dtype)
        if isinstance(model, Task):  # the others have several graphs, and may need only one
            with found.running():
                model.text_runner()
        return found
    if dtype == "int8":
        return Inference(int8_copy(model)[0], Runners(), chosen, dtype)
    policy = model.dtype_policy.name
    return Inference(model if dtype == policy else with_dtype(model, dtype), Runners(), chosen, dtype)


class Inference:
    """What `inference` returns. Called with a dict of packed inputs, it returns the outputs."""

    def __init__(self, model: Any, runners: Any, engine: str, dtype: str) -> None:
        self.model = model
        self.runners = runners
        self.engine = engine
        self.dtype = dtype

    def __call__(self, inputs: dict[str, Any]) -> Any:
        return self.runner().on_inputs(inputs)

    def runner(self) -> Any:
        """What runs the whole model: the logits of a task, the vectors of a `Bert`."""
        return self.runners.get("logits", self.model, lambda: plain_model(self.model))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "model" not in vars(self):  # while it is copied, for example
            raise AttributeError(name)
        if name in _TRAINS:
            raise AttributeError(
                f"`{name}` cannot be called on an Inference, whose weights are fixed. Call `{name}` on the model, and "
                f"then call keras_bert.inference again. Received: {name}"
            )
        found = getattr(self.model, name)
        return self._asked(found) if inspect.ismethod(found) else found

    def _asked(self, method: Callable) -> Callable:
        """The method, run while the model's runners are those of this engine."""

        def ask(*args: Any, **options: Any) -> Any:
            x = args[0] if args else options.get("x")
            if self.engine == "onnxruntime" and self.dtype == "int8" and method.__name__ in _OF_KERAS and is_packed(x):
                raise TypeError(
                    f"`{method.__name__}` was called with packed inputs, which Keras would compute in float32. For "
                    "int8, call the Inference itself with a dict of them, or pass texts. For float32, call "
                    f"`{method.__name__}` of the model. Received: {type(x).__name__}"
                )
            with self.running():
                found = method(*args, **options)
            return self._each(found) if inspect.isgenerator(found) else found

        return ask

    def _each(self, answers: Iterator[Any]) -> Iterator[Any]:
        nothing = object()
        while True:
            with self.running():
                answer = next(answers, nothing)
            if answer is nothing:
                return
            yield answer

    def running(self) -> AbstractContextManager[Any]:
        """While this lasts, the model's runners are those of this engine."""
        return using(asked_runners, self.runners)


def check_engine(engine: str) -> None:
    """Raise an error for an unknown engine, and for TensorFlow if Keras runs on another backend."""
    check_choice("engine", engine, ENGINES)
    if engine == "tensorflow" and (backend := keras.backend.backend()) != "tensorflow":
        raise ValueError(
            f'`engine` (--engine) is "tensorflow", but this process runs Keras on {backend}. Start it with '
            f"KERAS_BACKEND=tensorflow, or leave out `engine`. Received: engine={engine!r}"
        )


def _chosen(model: Any, engine: str, dtype: str) -> str:
    if not isinstance(model, Model):
        raise TypeError(
            "`model` must be a Bert, a task or a Pretrainer. Load one with keras_bert.load, for example. "
            f"Received: {type(model).__name__}"
        )
    refuse_int8(model.layers)
    check_engine(engine)
    check_engine_dtype(engine, dtype)
    if engine == "auto":
        return "onnxruntime" if dtype != "bfloat16" and installed("onnx", "onnxruntime") else keras.backend.backend()
    return engine
