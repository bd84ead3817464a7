"""pretrain: from directories of examples to a BERT."""

import contextlib
import dataclasses
import functools
import hashlib
import logging
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_bert.pretraining.directory import FINISHED, read_directory, text_beside
from keras_bert.pretraining.pretrainer import Pretrainer
from keras_bert.pretraining.read import read_examples
from keras_bert.pretraining.recipe import PAPER, Recipe
from keras_bert.pretraining.run_directory import draw_curve, is_finished, run_directory, write_model
from keras_bert.pretraining.start import model_from, new_model, resized
from keras_bert.training.checkpoints import is_chief
from keras_bert.training.loop import check_batch_size, train

logger = logging.getLogger("keras_bert")


def pretrain(
    data: str | Sequence[str],
    output: str,
    *,
    recipe: Recipe = PAPER,
    source: Any = None,
    strategy: Any = "auto",
    validation: str | None = None,
    validate_every: int | None = None,
    checkpoint_every: int = 1000,
    keep: int = 5,
    keep_every_hours: float | None = None,
    steps_per_loop: int = 10,
) -> Pretrainer:
    """Pretrain on examples; called again with the same arguments, go on where the run was stopped or killed.

    The directory then holds the model, which `keras_bert.load` and `Pretrainer.load` take, besides `metrics.jsonl`,
    `curve.png`, `tensorboard/` and `checkpoints/`. Python's, numpy's and TensorFlow's seeds are set.

    data: a directory of `write_examples`, or one for each phase of the recipe, short sequences first.
    source: anything that `keras_bert.load` takes, to go on from; the pieces of the data's vocabulary that it lacks begin
        anew. Its config holds, not the recipe's size.
    strategy: a name for `keras_bert.strategy`, or a strategy.
    validation: a directory of examples held out, of the same vocabulary.
    The others are those of `keras_bert.training.loop.train`.
    """
    directories = [str(data)] if isinstance(data, str) or not isinstance(data, Sequence) else [str(x) for x in data]
    output = str(output).rstrip("/")
    if isinstance(strategy, str):
        from keras_bert.training.strategy import strategy as find_strategy

        strategy = find_strategy(strategy)
    ends = recipe.phase_ends(len(directories))
    nsp = _check_data([*directories, *([validation] if validation else [])])
    check_batch_size(recipe.batch_size, strategy, recipe.accumulate)
    settings = {
        **dataclasses.asdict(recipe),
        "source": None if source is None else str(source),
        "data": [_digest(directory) for directory in directories],
    }
    chief = is_chief(strategy)
    with run_directory(output, settings) if chief else contextlib.nullcontext():
        keras.utils.set_random_seed(recipe.seed)
        model = _model(directories, recipe, source, strategy, nsp)
        with strategy.scope():
            optimizer = recipe.build_optimizer()
        begin = 0
        for directory, end in zip(directories, ends, strict=True):
            examples = functools.partial(_batches, directory, recipe, begin)
            train(
                model,
                optimizer,
                examples,
                strategy=strategy,
                steps=end,
                total_steps=recipe.steps,
                batch_size=recipe.batch_size,
                accumulate=recipe.accumulate,
                clip_norm=recipe.clip_norm,
                steps_per_loop=steps_per_loop,
                directory=output,
                checkpoint_every=checkpoint_every,
                keep=keep,
                keep_every_hours=keep_every_hours,
                validation=validation and functools.partial(_held_out, validation, recipe),
                validate_every=validate_every or checkpoint_every,
                flops_per_token=_flops_per_token(model, directory),
            )
            begin = end
        if chief and not is_finished(output):
            draw_curve(output)
            write_model(model, output)
    logger.info("%s holds the finished model.", output)
    return model
