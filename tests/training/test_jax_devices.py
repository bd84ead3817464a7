"""Pretraining on one and on eight devices of JAX: equal weights, and what devices send; in processes of their own."""

import dataclasses
import json
import os
import subprocess
import sys
import textwrap

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.pretraining import write_examples
from keras_bert.training.metrics_log import read_metrics
from keras_bert.weights import our_folder
from keras_bert.weights.checkpoint import Checkpoint
from tests.eight_devices import EIGHT, assert_sums_gradients_once_in_float32, printed, two_processes
from tests.parity.oracles import randomize
from tests.pretraining.corpus import VOCABULARY, corpus
from tests.soak import IN_SOAK
from tests.subprocesses import fork, one_process
from tests.training import one_run
from tests.training.small_training import weights

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def call():
    """Calls a function in a process with eight devices, which all tests share that need none of their own."""
    with one_process(**EIGHT) as call:
        yield call


@pytest.fixture(scope="module")
def on_eight(call):
    """What the code prints in that process."""
    return lambda code, *arguments: call(printed, textwrap.dedent(code), *arguments)


@IN_SOAK
def test_weights_are_those_of_one_device(on_eight):
    on_eight(
        """
        import numpy as np
        import keras_bert
        from keras_bert.training.train import train
        from tests.training.small_training import BATCH, batches, small_pretrainer, weights

        def trained(name, dropout=0.0, steps=50, **options):
            strategy = keras_bert.strategy(name)
            with strategy.scope():
                model = small_pretrainer(dropout)
                optimizer = keras_bert.AdamW(1e-2)
            train(model, optimizer, batches, strategy=strategy, steps=steps, batch_size=BATCH, **options)
            return weights(model)

        one = trained("one")
        np.testing.assert_allclose(trained("auto"), one, rtol=0, atol=1e-5)
        np.testing.assert_allclose(trained("auto", accumulate=2), one, rtol=0, atol=1e-5)
        assert np.abs(one - weights(small_pretrainer())).max() > 0.05
        assert np.abs(trained("auto", 0.1, 5) - trained("one", 0.1, 5)).max() > 1e-3  # each device draws its own
        """,
    )


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", pytest.param("float32", marks=IN_SOAK)])
def test_each_gradient_is_summed_once_in_float32(on_eight, dtype):
    assert_sums_gradients_once_in_float32(
        on_eight,
        """
        import sys
        import keras_bert
        from keras_bert.training import jax_engine
        from tests.training.small_training import BATCH, batches, small_pretrainer

        strategy = keras_bert.strategy("auto")
        with strategy.scope():
            model = small_pretrainer(0.1, sys.argv[1])
            optimizer = keras_bert.AdamW(1e-2)
            optimizer.build(model.trainable_variables)
        data = jax_engine.distribute(batches, strategy, BATCH)
        options = {"strategy": strategy, "accumulate": 1, "clip_norm": 1.0}
        trainer = jax_engine.Trainer(model, optimizer, data, None, **options)
        state = tuple([variable.value for variable in some] for some in trainer.variables)
        print_sums(trainer.compiled_loop.lower(state, trainer.next_batches(2), 2), model.trainable_variables)
        """,
        dtype,
    )


def test_masked_vectors_stay_on_their_device(on_eight):
    """Where the compiler splits a batch over devices, as in Keras's `fit`, only gradients are summed.

    The word table has two, of its use at the input and in the head. The masked vectors are 19 times as many numbers.
    """
    sent, parameters = json.loads(
        on_eight(
            """
            import json
            import jax
            import keras
            import numpy as np
            from jax.sharding import Mesh, NamedSharding, PartitionSpec
            from benchmarks.collectives import collectives
            from tests.training.small_training import small_pretrainer

            model, ids = small_pretrainer(), np.ones((512, 6), "int32")
            x = {name: ids for name in model.input}
            y = {"mlm_logits": ids, "nsp_logits": ids[:, 0]}
            weight = {name: x.astype("float32") for name, x in y.items()}

            def loss(values, batch):
                with keras.StatelessScope(list(zip(model.trainable_variables, values))):
                    measures = model.measures(batch)
                return sum(measures[name].total for name in model.objective)

            mesh = Mesh(np.array(jax.devices()), ("batch",))
            same, split = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((), ("batch",)))
            step = jax.jit(jax.grad(loss), in_shardings=(same, split), out_shardings=same)
            values = [variable.value for variable in model.trainable_variables]
            compiled = step.lower(values, (x, y, weight)).compile().as_text()
            print(json.dumps([collectives(compiled), sum(value.size for value in values)]))
            """,
        ).splitlines()[-1]
    )
    assert parameters <= sum(size for _, _, size in sent) < 1.5 * parameters


def prepare(folder, texts, vocabulary, length, config, start=lambda model: model):
    """Write examples, and a model to start from: the backends draw other first weights."""
    write_examples(texts, folder / "examples", vocabulary=vocabulary, seq_length=length, workers=1)
    keras.utils.set_random_seed(0)
    config = dataclasses.replace(config, vocab_size=len(vocabulary), max_position_embeddings=length)
    bert = keras_bert.Bert(config, keras_bert.Preprocessor(vocabulary, seq_length=length))
    our_folder.write_checkpoint(Checkpoint.of(start(keras_bert.Pretrainer(bert))), folder / "source")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    config = keras_bert.BertConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
    prepare(folder, [corpus(folder / "corpus", files=2, documents=12)], VOCABULARY, 16, config, randomize)
    return folder


@pytest.fixture(scope="module")
def expected(folder):
    return on_tensorflow(folder)


def started(folder, output, *options, **environment):
    """A run in a process of its own; see one_run.py."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.training.one_run", folder, output, *map(str, options)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "JAX_PLATFORMS": "cpu", **environment}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def ended(process, exit_code=0):
    _, errors = process.communicate()
    assert process.returncode == exit_code, errors


def results(folder, output):
    """The losses, that of the validation as the last one, and the final weights."""
    *records, validation = read_metrics(f"{folder}/{output}/metrics.jsonl")
    losses = [*(record["masked_lm_loss"] for record in records), validation["validation_masked_lm_loss"]]
    return losses, weights(keras_bert.Pretrainer.load(folder / output))


def run(folder, output, *options, **environment):
    ended(started(folder, output, *options, **environment))
    return results(folder, output)


def on_tensorflow(folder):
    fork(one_run.main, folder, "tensorflow", "one", 1, 0)
    return results(folder, "tensorflow")


def assert_equal(found, expected):
    assert len(found[0]) == 41
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    np.testing.assert_allclose(found[1], expected[1], rtol=0, atol=2e-6)


@pytest.fixture(scope="module")
def eight(folder, call):
    pytest.importorskip("orbax.checkpoint")
    call(one_run.main, folder, "eight", "auto", 2, 0)
    return results(folder, "eight")


def test_a_run_equals_one_on_tensorflow(folder, eight, expected):
    assert_equal(eight, expected)
    assert np.abs(eight[1] - weights(keras_bert.Pretrainer.load(folder / "source"))).max() > 1e-3


def test_a_run_that_is_asked_to_stop_resumes_with_the_same_bits(folder, eight):
    """At a step between two checkpoints, so the state is saved then."""
    ended(started(folder, "stopped", "auto", 2, 0, 7, "SIGTERM", **EIGHT), exit_code=128 + 15)
    assert len(read_metrics(f"{folder}/stopped/metrics.jsonl")) == 7
    losses, found = run(folder, "stopped", "auto", 2, 0, **EIGHT)
    assert losses == eight[0]
    np.testing.assert_array_equal(found, eight[1])


def test_an_evaluation_equals_one_on_one_device(on_eight, folder):
    printed = on_eight(
        """
        import dataclasses, json, sys
        from keras_bert.pretraining.run.evaluation import evaluate
        folder = sys.argv[1]
        for strategy in ("one", "auto"):
            found = evaluate(f"{folder}/source", f"{folder}/examples", strategy=strategy, batch_size=16)
            print(json.dumps(dataclasses.asdict(found)))
        """,
        str(folder),
    )
    one, eight = map(json.loads, printed.splitlines()[-2:])
    assert one.pop("most_frequent_piece") == eight.pop("most_frequent_piece")
    assert one == pytest.approx(eight, rel=1e-5)


@IN_SOAK
def test_two_processes_equal_one(folder, expected):
    """Each reads its part of the examples, and sums its gradients with the other by gloo."""
    pytest.importorskip("orbax.checkpoint")
    shared = two_processes()
    processes = [
        started(folder, "two", "multi_worker", 2, 0, KERAS_DISTRIBUTION_PROCESS_ID=index, **shared) for index in "01"
    ]
    for process in processes:
        ended(process)
    assert_equal(results(folder, "two"), expected)


@IN_SOAK
def test_a_mini_equals_one_on_tensorflow(shared, tmp_path):
    """A new mini, on two books.

    With the weights of `randomize`, all pieces have nearly the same vector. Then one unit of a GELU can be near the
    minimum for all of them, where the slope is 0, and Adam makes rounding as large as a gradient.
    """
    pytest.importorskip("orbax.checkpoint")
    books = sorted((shared / "books").glob("*.md"))[1:3]
    prepare(tmp_path, books, keras_bert.Vocabulary.learn(books, 6000), 128, keras_bert.BertConfig.from_size("mini"))
    expected = on_tensorflow(tmp_path)
    assert_equal(run(tmp_path, "eight", "auto", 2, 0, **EIGHT), expected)


@IN_SOAK
def test_a_killed_run_resumes_with_the_same_bits(folder):
    pytest.importorskip("orbax.checkpoint")
    _, expected = run(folder, "unkilled", "auto", 2, 0.1, **EIGHT)
    for step in (5, 11, 15, 21, 38):  # at 11 and 21, a checkpoint is being written
        ended(started(folder, "killed", "auto", 2, 0.1, step, **EIGHT), exit_code=-9)
    losses, found = run(folder, "killed", "auto", 2, 0.1, **EIGHT)
    assert len(losses) == 41
    np.testing.assert_array_equal(found, expected)
