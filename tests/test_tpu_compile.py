"""A small training step through the real TPU compiler; no TPU runs it."""

from pathlib import Path

import pytest

from tests.subprocesses import python

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "tpu_compile.py"


@pytest.mark.slow
@pytest.mark.parametrize("remat", [False, True])
def test_compiles_for_a_tpu(remat):
    pytest.importorskip("libtpu", reason="pip install 'jax[tpu]==0.10.2'")
    found = python(
        """
        import importlib.util, os, sys
        spec = importlib.util.spec_from_file_location("tpu_compile", sys.argv[1])
        tpu_compile = importlib.util.module_from_spec(spec)
        sys.modules["tpu_compile"] = tpu_compile
        spec.loader.exec_module(tpu_compile)
        os.environ.update(tpu_compile.ENVIRONMENT)
        from keras_bert.config import BertConfig
        config = BertConfig(vocab_size=100, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                            intermediate_size=64)
        remat = sys.argv[2] == "True"
        hlo = tpu_compile.training_step(config, batch=8, length=128, dtype="mixed_bfloat16", remat=remat)
        compiled = tpu_compile.compile_for_tpu(hlo)
        print(compiled.arguments, compiled.temporary, compiled.flops)
        """,
        str(SCRIPT),
        str(remat),
    )
    arguments, temporary, flops = (float(number) for number in found.splitlines()[-1].split())
    weights = 100 * 32 + 512 * 32  # the two large tables, in float32, with two moments each
    assert arguments > 3 * 4 * weights
    assert temporary > 0
    tokens, products = 8 * 128, 12 * 32**2  # a block's products have 12 H^2 weights, each used thrice a step
    assert flops > 0.9 * 3 * 2 * tokens * products


@pytest.mark.slow
def test_pretraining_compiles_for_a_tpu():
    pytest.importorskip("libtpu", reason="pip install 'jax[tpu]==0.10.2'")
    found = python(
        """
        import importlib.util, os, sys
        spec = importlib.util.spec_from_file_location("tpu_compile", sys.argv[1])
        tpu_compile = importlib.util.module_from_spec(spec)
        sys.modules["tpu_compile"] = tpu_compile
        spec.loader.exec_module(tpu_compile)
        os.environ.update(tpu_compile.ENVIRONMENT)
        from keras_bert.config import BertConfig
        config = BertConfig(vocab_size=1000, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                            intermediate_size=64)
        for accumulate in (1, 2):
            hlo = tpu_compile.pretraining_step(config, batch=8, length=128, dtype="mixed_bfloat16", remat=False,
                                               accumulate=accumulate)
            compiled = tpu_compile.compile_for_tpu(hlo)
            print(compiled.arguments, compiled.temporary, compiled.flops)
        """,
        str(SCRIPT),
    )
    whole, parts = (list(map(float, line.split())) for line in found.splitlines()[-2:])
    weights = 1000 * 32 + 512 * 32  # the two large tables, in float32, with two moments each
    assert whole[0] > 3 * 4 * weights
    tokens, masked, products = 8 * 128, 8 * 19, 12 * 32**2
    assert whole[2] > 0.9 * 3 * 2 * (tokens * products + masked * 1000 * 32)
    # Less than what the head would need at every position, and than a pass that only counts would add.
    assert whole[2] < 3 * 2 * tokens * 1000 * 32
    assert parts[1] < whole[1]
