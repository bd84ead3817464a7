"""Small training steps through the real TPU compiler; no TPU runs them."""

import json
from pathlib import Path

import pytest

from tests.subprocesses import python

pytestmark = pytest.mark.long
SCRIPT = Path(__file__).parents[1] / "benchmarks" / "tpu_compile.py"
BATCH, LENGTH, WIDTH, VOCABULARY = 8, 128, 32, 1000
TOKENS, PRODUCTS = BATCH * LENGTH, 12 * WIDTH**2  # a block's products have 12 H^2 weights, each used thrice a step
TABLES = 3 * 4 * (VOCABULARY + 512) * WIDTH  # bytes of the two large ones, in float32, with two moments each


@pytest.fixture(scope="module")
def compiled():
    """What the compiler says of each step: bytes of arguments, temporary bytes and FLOPs."""
    pytest.importorskip("libtpu", reason="pip install 'jax[tpu]==0.10.2'")
    found = python(
        """
        import dataclasses, importlib.util, json, os, sys
        spec = importlib.util.spec_from_file_location("tpu_compile", sys.argv[1])
        tpu_compile = importlib.util.module_from_spec(spec)
        sys.modules["tpu_compile"] = tpu_compile
        spec.loader.exec_module(tpu_compile)
        os.environ.update(tpu_compile.ENVIRONMENT)
        from keras_bert.config import BertConfig
        batch, length, width, vocabulary = map(int, sys.argv[2:])
        config = BertConfig(vocab_size=vocabulary, hidden_size=width, num_hidden_layers=1, num_attention_heads=2,
                            intermediate_size=2 * width)
        shape = {"batch": batch, "length": length, "dtype": "mixed_bfloat16"}
        steps = {
            "fine-tuning": tpu_compile.training_step(config, remat=False, **shape),
            "remat": tpu_compile.training_step(config, remat=True, **shape),
            "pretraining": tpu_compile.pretraining_step(config, remat=False, **shape),
            "in parts": tpu_compile.pretraining_step(config, remat=False, accumulate=2, **shape),
        }
        compiled = {name: tpu_compile.compile_for_tpu(hlo) for name, hlo in steps.items()}
        print(json.dumps({name: dataclasses.astuple(one) for name, one in compiled.items()}))
        """,
        *map(str, (SCRIPT, BATCH, LENGTH, WIDTH, VOCABULARY)),
    )
    return json.loads(found.splitlines()[-1])


@pytest.mark.parametrize("step", ["fine-tuning", "remat"])
def test_compiles_for_a_tpu(compiled, step):
    arguments, temporary, flops = compiled[step]
    assert arguments > TABLES
    assert temporary > 0
    assert flops > 0.9 * 3 * 2 * TOKENS * PRODUCTS


def test_pretraining_compiles_for_a_tpu(compiled):
    arguments, temporary, flops = compiled["pretraining"]
    masked = BATCH * 19
    assert arguments > TABLES
    assert flops > 0.9 * 3 * 2 * (TOKENS * PRODUCTS + masked * VOCABULARY * WIDTH)
    # Less than what the head would need at every position, and than a pass that only counts would add.
    assert flops < 3 * 2 * TOKENS * VOCABULARY * WIDTH
    assert compiled["in parts"][1] < temporary
