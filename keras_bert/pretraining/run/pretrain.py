"""pretrain: train a BERT on directories of examples."""

import contextlib
import dataclasses
import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import keras

from keras_bert import storage
from keras_bert.checks import check_length
from keras_bert.config import BertConfig
from keras_bert.pretraining.examples.examples_directory import FINISHED
from keras_bert.pretraining.examples.read_examples import ExampleReader
from keras_bert.pretraining.pretrainer import Pretrainer
from keras_bert.pretraining.run.initial_model import model_from, new_model, read_resized
from keras_bert.pretraining.run.pretrain_recipe import PAPER, Recipe, Stage
from keras_bert.pretraining.run.run_directory import draw_curve, finished_model, is_finished, run_directory, write_model
from keras_bert.training.loop_options import LoopOptions
from keras_bert.training.strategy import check_backend, check_batch_size, is_chief
from keras_bert.training.strategy import strategy as find_strategy

logger = logging.getLogger("keras_bert")


def pretrain(
    data: str | os.PathLike | Sequence[str | os.PathLike],
    output: str | os.PathLike,
    *,
    recipe: Recipe = PAPER,
    source: Any = None,
    strategy: Any = "auto",
    validation: str | os.PathLike | None = None,
    damaged: str = "stop",
    **options: Any,
) -> Pretrainer:
    """Pretrain on examples. Called again with the same arguments, it resumes a run that was stopped or killed.

    With another number of steps, it extends or shortens that run. The output directory then holds the model, which
    `keras_bert.load` and `Pretrainer.load` accept, and also `metrics.jsonl`, `curve.png`, `tensorboard/` and
    `checkpoints/`. The random seeds of Python, numpy and TensorFlow are set.

    data: a directory of `write_examples`, or one for each phase of the recipe, short sequences first.
    source: weights to start from; anything that `keras_bert.load` accepts. Pieces of the data's vocabulary that it
        lacks get random vectors. Its config is used, not the recipe's size.
    strategy: a name for `keras_bert.strategy`, or a strategy.
    validation: a directory of held-out examples with the same vocabulary.
    damaged: at a shard that is cut off or damaged, "stop" with an error that names it, or "skip" the rest of it.
    options: those of `keras_bert.training.loop_options.LoopOptions`: steps_per_loop, checkpoint_every, validate_every,
        keep and keep_every_hours.
    """
    loop = LoopOptions(**options)
    check_backend()
    from keras_bert.training.train import train  # needs TensorFlow and Orbit

    directories = [os.fspath(x) for x in ([data] if isinstance(data, str | os.PathLike) else data)]
    output = os.fspath(output).rstrip("/")
    strategy = find_strategy(strategy) if isinstance(strategy, str) else strategy
    stages = recipe.stages(len(directories))
    for stage in reversed(stages):  # the largest batch first
        check_batch_size(stage.batch_size, strategy, stage.accumulate)
    readers = [ExampleReader.open(directory, damaged=damaged) for directory in directories]
    held_out = ExampleReader.open(validation, damaged=damaged) if validation else None
    all_readers = [*readers, held_out] if held_out else readers
    examples = _alike(all_readers)
    _compare(recipe, readers[0])
    settings = {
        **{name: value for name, value in dataclasses.asdict(recipe).items() if value is not None},
        "source": None if source is None else str(source),
        "data": [storage.sha256_of(os.path.join(directory, FINISHED)) for directory in directories],
    }
    chief = is_chief(strategy)
    with run_directory(output, settings) if chief else contextlib.nullcontext(lambda: None) as record:
        if is_finished(output, settings):  # its checkpoints may have been deleted, since they are large
            logger.info("%s: the run is already finished.", output)
            with finished_model(output) as finished, strategy.scope():
                return model_from(finished, recipe, examples)
        keras.utils.set_random_seed(recipe.seed)
        checkpoint = None if source is None else read_resized(source, examples)
        with strategy.scope():
            model = new_model(recipe, examples) if checkpoint is None else model_from(checkpoint, recipe, examples)
            optimizer = recipe.build_optimizer()
        for reader in all_readers:  # now, and not after the first phase
            check_length(reader.seq_length, model.bert.config.max_position_embeddings)
        for number, stage in enumerate(stages):
            reader = readers[stage.phase]
            batches = _StageBatches(reader, stage, recipe.seed)
            train(
                model,
                optimizer,
                batches,
                strategy=strategy,
                steps=stage.end,
                total_steps=recipe.steps,
                longer_by=_longer_by(stages[number:], [reader.seq_length for reader in readers]),
                batch_size=stage.batch_size,
                accumulate=stage.accumulate,
                clip_norm=recipe.clip_norm,
                directory=output,
                on_start=record,
                validation=held_out and held_out.once(stage.batch_size, seed=recipe.seed),
                seq_length=reader.seq_length,
                flops_per_token=_flops_per_token(model.bert.config, reader),
                where=batches.where,
                loop=loop,
            )
        if chief:
            write_model(model, output)
            draw_curve(output)
    logger.info("The finished model is in %s.", output)
    return model


@dataclass(frozen=True)
class _StageBatches:
    """The batches of a stage, by their step."""

    examples: ExampleReader
    stage: Stage
    seed: int

    def __call__(self, step: int, part: tuple[int, int]) -> Any:
        return self.examples.batches(self.stage.batch_size, seed=self.seed, start=self._place(step), part=part)

    def where(self, step: int) -> str:
        """The files that the batch of a step is read from."""
        return ", ".join(self.examples.shards_at(self._place(step), self.stage.batch_size, self.seed))

    def _place(self, step: int) -> int:
        return self.stage.first_batch + step - self.stage.begin


def _longer_by(stages: list[Stage], lengths: list[int]) -> float:
    """How many more steps of the first stage would take as long as all of them, since later batches are larger.

    lengths: of the rows of each phase.
    """
    sizes = [stage.batch_size * lengths[stage.phase] for stage in stages]
    return sum((size / sizes[0] - 1) * (stage.end - stage.begin) for size, stage in zip(sizes, stages, strict=True))


def _compare(recipe: Recipe, examples: ExampleReader) -> None:
    """Warn if the examples were not written for the recipe."""
    rate = examples.masking.rate if examples.masking else None  # unknown if they are masked already
    found = {"seq_length": examples.seq_length, "nsp": examples.nsp, "rate": rate}
    wanted = {**found, **(recipe.examples or {})}
    different = [name for name, value in wanted.items() if found.get(name) != value]
    if different:
        logger.warning(
            "%s: the recipe is meant for other examples. `keras-bert examples --recipe NAME` writes them. "
            "Received: %s", os.path.dirname(examples.paths[0]),
            ", ".join(f"{name}={found.get(name)!r} instead of {wanted[name]!r}" for name in different),
        )  # fmt: skip


def _alike(examples: Iterable[ExampleReader]) -> ExampleReader:
    """The first of them; an error if a model for it does not fit another one."""
    first, *others = examples
    if first.vocabulary is None:
        raise ValueError(
            f"{first.paths[0]} has no vocabulary beside it. Use a directory that "
            f"keras_bert.pretraining.write_examples wrote. Received: {first.paths[0]}"
        )
    for other in others:
        for name in ("vocabulary", "rules", "nsp"):
            mine, theirs = getattr(first, name), getattr(other, name)
            if mine != theirs:
                raise ValueError(
                    f"The examples {first.paths[0]} and {other.paths[0]} differ in `{name}`. Write all examples of a "
                    f"run with the same options. Received: {mine} and {theirs}"
                )
    return first


def _flops_per_token(config: BertConfig, examples: ExampleReader) -> float:
    """Of a training step: each weight of a matrix multiplies and adds once forward and twice backward."""
    hidden, inner = config.hidden_size, config.intermediate_size
    block = 4 * hidden**2 + 2 * hidden * inner + 2 * hidden * examples.seq_length  # the last: scores and context
    head = (hidden**2 + hidden * config.vocab_size) * examples.predictions / examples.seq_length
    return 6 * (config.num_hidden_layers * block + head)
