"""`fit` and `finetune` on one and on eight devices of JAX, and in two processes; in processes of their own."""

import textwrap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import keras_bert
from tests.eight_devices import EIGHT, assert_sums_gradients_once_in_float32, printed, two_processes
from tests.pretraining.corpus import VOCABULARY
from tests.soak import IN_SOAK
from tests.subprocesses import one_process, python
from tests.tasks.small import small_bert
from tests.training.small_training import weights

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def on_eight():
    """What code prints in a process with eight devices, which all tests share that need none of their own."""
    with one_process(**EIGHT) as call:
        yield lambda code, *arguments: call(printed, textwrap.dedent(code), *arguments)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", pytest.param("float32", marks=IN_SOAK)])
def test_each_gradient_of_the_fit_of_a_task_is_summed_once_in_float32(on_eight, dtype):
    assert_sums_gradients_once_in_float32(
        on_eight,
        """
        import sys
        import jax
        import numpy as np
        import keras_bert
        from tests.tasks.small import small_bert, small_task

        strategy = keras_bert.strategy("auto")
        with strategy.scope():
            task = small_task("classifier", small_bert(dtype=sys.argv[1]))
            task.compile(keras_bert.AdamW(1e-2), task.default_loss())
            task.optimizer.build(task.trainable_variables)
            of_model = task.trainable_variables, task.non_trainable_variables
            every = *of_model, task.optimizer.variables, task.metrics_variables
            state = tuple([variable.value for variable in some] for some in every)
            batch = {name: np.ones((16, 8), "int32") for name in task.input}, np.zeros(16, "int32"), np.ones(16, "f")
            split = jax.NamedSharding(strategy.device_mesh.backend_mesh, jax.P("batch"))
            print_sums(jax.jit(task.train_step).lower(state, jax.device_put(batch, split)), task.trainable_variables)
        """,
        dtype,
    )


def test_the_fit_of_a_task(on_eight):
    """As on one device, also if the devices cannot split the last batch evenly."""
    on_eight(
        """
        import keras
        import numpy as np
        import pytest
        import keras_bert
        from keras_bert.tasks.finetune_recipe import FinetuneRecipe
        from tests.tasks.small import NO_DROPOUT, TEXTS, small_bert, small_task

        x, y, recipe = TEXTS * 6, [0, 1, 1, 0] * 6, FinetuneRecipe(learning_rate=1e-2, epochs=2, batch_size=16)

        def trained(strategy, rows, **options):
            with strategy.scope():
                keras.utils.set_random_seed(0)
                task = small_task("classifier", small_bert(**NO_DROPOUT))
                options |= {"recipe": recipe, "validation_data": (x[:3], y[:3]), "verbose": 0}
                history = task.fit(x[:rows], y[:rows], **options).history
            return task, history["val_loss"], np.concatenate([np.ravel(weight) for weight in task.trainable_variables])

        one, eight = keras_bert.strategy("one"), keras_bert.strategy("auto")
        for rows, options in (24, {}), (21, {"shuffle": False}):
            _, expected, weights = trained(one, rows, **options)
            task, losses, found = trained(eight, rows, **options)
            np.testing.assert_allclose(found, weights, rtol=0, atol=1e-5)
            np.testing.assert_allclose(losses, expected, rtol=0, atol=1e-5)
        with eight.scope():
            with pytest.raises(ValueError, match="multiple of 8"):
                task.fit(x, y, batch_size=12, verbose=0)
            task.compile(keras_bert.AdamW(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
            with pytest.raises(ValueError, match="last batch has 4 rows, which 8"):  # its loss does not weigh rows
                task.fit(x[:20], y[:20], batch_size=16, verbose=0)
        with pytest.raises(ValueError, match="outside of the strategy's scope.*weights on 8 devices"):
            task.fit(x, y, verbose=0)
        """,
    )


def test_what_the_rows_change_is_the_same_on_all_devices(on_eight):
    on_eight(
        """
        import keras
        import numpy as np
        import keras_bert
        from tests.tasks.small import TEXTS, small_bert

        class Normalized(keras_bert.Task):
            def __init__(self, bert, **options):
                vectors = keras.layers.BatchNormalization(name="normalized")(bert.output["pooled_output"])
                super().__init__(bert, bert.input, keras.layers.Dense(2)(vectors), **options)

        with keras_bert.strategy("auto").scope():
            task = Normalized(small_bert())
            layer = task.get_layer("normalized")
            before = np.array(layer.moving_mean)
            task.fit(TEXTS * 4, [0, 1, 1, 0] * 4, batch_size=16, epochs=1, verbose=0)
        first, *others = (np.asarray(shard.data) for shard in layer.moving_mean.value.addressable_shards)
        assert np.abs(first - before).max() > 1e-4
        for other in others:
            np.testing.assert_array_equal(other, first)
        """,
    )


def test_the_fit_of_an_embedder(on_eight):
    """Each text is compared with those of all devices; the last batch is smaller."""
    on_eight(
        """
        import keras
        import numpy as np
        import keras_bert
        from keras_bert.tasks.finetune_recipe import FinetuneRecipe
        from tests.tasks.small import NEGATIVES, NO_DROPOUT, POSITIVES, QUERIES, TEXTS, small_bert, small_task

        queries, positives, negatives = ([*some, *TEXTS] * 3 for some in (QUERIES, POSITIVES, NEGATIVES))
        positives = [f"{text} {'good ' * number}" for number, text in enumerate(positives)]
        recipe = FinetuneRecipe(learning_rate=1e-3, epochs=2, batch_size=16)

        x = queries, positives, negatives

        def trained(name):
            with keras_bert.strategy(name).scope():
                task = small_task("embedder", small_bert(**NO_DROPOUT))
                options = {"recipe": recipe, "shuffle": False, "validation_data": (x, None), "verbose": 0}
                history = task.fit(x, **options).history
            losses = np.array([history["loss"], history["val_loss"]])
            return losses, np.concatenate([np.ravel(weight) for weight in task.trainable_variables])

        for found, expected in zip(trained("auto"), trained("one"), strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
        """,
    )


def test_finetune_in_two_processes_equals_one(on_eight, tmp_path):
    """Each reads its rows of each batch, of which the last one is smaller, and validates and writes all."""
    lines = [f"w{i % 7} w{i % 5}\t{i % 2}" for i in range(13)]
    (tmp_path / "rows.tsv").write_text("text\tlabel\n" + "\n".join(lines))
    code = """
        import sys
        from pathlib import Path
        import jax
        import pytest
        from keras_bert.tasks.run.finetune import finetune
        from keras_bert.tasks.run.same_start import check_same_start
        from keras_bert.tasks.run.settings import FinetuneSettings

        folder, output, strategy = sys.argv[1:]
        options = {"model": f"{folder}/bert.keras", "epochs": 2, "batch_size": 8, "learning_rate": 1e-2}
        rows = f"{folder}/rows.tsv"
        settings = FinetuneSettings(kind="classify", train=rows, valid=rows, strategy=strategy, **options)
        finetune(settings, Path(folder, output))
        if jax.process_count() > 1:
            places = "run.partial cannot be resumed.*worker 0: 0 epochs and 3 steps; worker 1: 1 epochs .* ended"
            with pytest.raises(ValueError, match=places):
                own = jax.process_index()
                check_same_start(None, Path("run.partial"), epochs=own, step=3, ended=bool(own))
        """
    small_bert(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0).save(tmp_path / "bert.keras")
    on_eight(code, str(tmp_path), "one", "auto")
    with ThreadPoolExecutor() as pool:
        outputs = "first", "second"
        shared = two_processes()
        done = [
            pool.submit(
                python, code, str(tmp_path), output, "multi_worker", KERAS_DISTRIBUTION_PROCESS_ID=index, **shared
            )
            for index, output in zip("01", outputs, strict=True)
        ]
        for one in done:
            one.result()
    expected, *found = (weights(keras_bert.TextClassifier.load(tmp_path / name)) for name in ("one", *outputs))
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(*found)


def test_finetune_on_the_command_line(on_eight, tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY))
    (tmp_path / "rows.tsv").write_text("query\tanswer\n" + "".join(f"w{i}\tw{i + 1} w{i}\n" for i in range(16)))
    code = """
        import sys
        from tests.tasks.runs import run

        done = run(*sys.argv[1:])
        assert done.exit_code == 0, done.output
        """
    command = "finetune embed --train rows.tsv --valid rows.tsv --text query --text answer --size tiny"
    options = "--vocab vocab.txt --seq-length 8 --epochs 1 --batch-size 16 --strategy auto --output run"
    names = {name: str(tmp_path / name) for name in ("rows.tsv", "vocab.txt", "run")}
    on_eight(code, *(names.get(word, word) for word in f"{command} {options}".split()))
    assert (tmp_path / "run/model.keras").exists()
