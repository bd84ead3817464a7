"""Small training steps through the real TPU compiler; no TPU runs them."""

import json
from pathlib import Path

import pytest

from tests.soak import IN_SOAK
from tests.subprocesses import python

pytestmark = pytest.mark.long
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
BATCH, LENGTH, WIDTH, VOCABULARY = 8, 128, 32, 1000
TOKENS, PRODUCTS = BATCH * LENGTH, 12 * WIDTH**2  # a block's products have 12 H^2 weights, each used thrice a step
TABLES = 3 * 4 * (VOCABULARY + 512) * WIDTH  # bytes of the two large ones, in float32, with two moments each


def accounts(code, *arguments):
    """What the compiler reports about steps, by name."""
    pytest.importorskip("libtpu", reason="pip install 'jax[tpu]==0.10.2'")
    return json.loads(python(code, *map(str, (BENCHMARKS, *arguments))).splitlines()[-1])


def compiled(*steps):
    return accounts(
        """
        import dataclasses, json, os, sys
        sys.path.insert(0, sys.argv[1])
        from tpu_compile import ENVIRONMENT, compile_for_tpu, pretraining_step, training_step
        os.environ.update(ENVIRONMENT)
        from keras_bert.bert import Bert
        from keras_bert.config import BertConfig
        from keras_bert.pretraining.pretrainer import Pretrainer
        batch, length, width, vocabulary = map(int, sys.argv[2:6])
        config = BertConfig(vocab_size=vocabulary, hidden_size=width, num_hidden_layers=1, num_attention_heads=2,
                            intermediate_size=2 * width)
        shape = {"batch": batch, "length": length, "dtype": "mixed_bfloat16"}
        steps = {
            "fine-tuning": lambda: compile_for_tpu(training_step(config, remat=False, **shape)),
            "remat": lambda: compile_for_tpu(training_step(config, remat=True, **shape)),
            "pretraining": lambda: compile_for_tpu(pretraining_step(config, chips=8, **shape), 8),
            "in parts": lambda: compile_for_tpu(pretraining_step(config, accumulate=2, **shape)),
        }
        found = {name: dataclasses.asdict(steps[name]()) for name in sys.argv[6:]}
        print(json.dumps({**found, "weights": 4 * Pretrainer(Bert(config)).count_params()}))
        """,
        BATCH,
        LENGTH,
        WIDTH,
        VOCABULARY,
        *steps,
    )


@IN_SOAK
def test_fine_tuning_compiles_for_a_tpu():
    found = compiled("fine-tuning", "remat")
    for step in found["fine-tuning"], found["remat"]:
        assert step["arguments"] > TABLES
        assert step["temporary"] > 0
        assert step["flops"] > 0.9 * 3 * 2 * TOKENS * PRODUCTS
        assert step["sent"] == {}


def test_pretraining_compiles_for_eight_chips():
    found = compiled("pretraining", "in parts")
    step = found["pretraining"]
    masked = BATCH * 20
    assert step["arguments"] > TABLES
    assert step["flops"] > 0.9 * 3 * 2 * (TOKENS * PRODUCTS + masked * VOCABULARY * WIDTH)
    # Less than what the head would need at every position, and than a pass that only counts would add.
    assert step["flops"] < 3 * 2 * TOKENS * VOCABULARY * WIDTH
    # A regression guard: 1.3 times what libtpu 0.0.42 uses.
    assert found["in parts"]["temporary"] < step["temporary"] < 1.3 * 5_451_264
    assert_only_gradients(step, found["weights"])


def assert_only_gradients(step, weights):
    """They are summed once, in float32, with a few losses and counts."""
    assert step["sent"].keys() == {"all-reduce"}
    assert weights <= step["sent"]["all-reduce"] <= weights + 100


def test_pretraining_on_jax_for_256_chips():
    """The loop of steps."""
    found = accounts(
        """
        import dataclasses, json, os, sys
        sys.path.insert(0, sys.argv[1])
        from tpu_scaling import Case, account
        from tpu_compile import ENVIRONMENT
        os.environ.update(ENVIRONMENT | {"KERAS_BACKEND": "jax"})
        from keras_bert.bert import Bert
        from keras_bert.pretraining.pretrainer import Pretrainer
        case = Case(size="tiny", rows=8, chips=256)
        found = dataclasses.asdict(account(case, vocab_size=1000))
        weights = 4 * Pretrainer(Bert(case.config(vocab_size=1000))).count_params()
        print(json.dumps({**found, "weights": weights}))
        """
    )
    assert_only_gradients(found, found["weights"])
    # A regression guard: 1.3 times what libtpu 0.0.42 uses. A vector for each token of the global batch has 67 MB.
    assert found["temporary"] < 1.3 * 8_547_328


def test_traffic_leaves_out_the_fast_memory(monkeypatch):
    """Two copies into the fast memory, one out of it, and a product that reads that one and writes 8 bytes."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from memory_traffic import memory_traffic

    program = """
%fused (p: f32[4], q: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  ROOT %within = f32[4]{0} add(%p, %p)
}

ENTRY %main (a: f32[10], b: bf16[100,3]) -> f32[2] {
  %a = f32[10]{0:T(128)} parameter(0)
  %b = bf16[100,3]{1,0} parameter(1)
  %copy-start = (f32[10]{0:T(128)S(1)}, f32[10]{0:T(128)}, u32[]{:S(2)}) copy-start(%a)
  %copy-done = f32[10]{0:T(128)S(1)} copy-done(%copy-start)
  %slice-start = ((bf16[100,3]{1,0}), bf16[4,3]{1,0:S(1)}, s32[]{:S(2)}) slice-start(%b), slice={[0:4], [0:3]}
  %slice-done = bf16[4,3]{1,0:S(1)} slice-done(%slice-start)
  %sum = f32[4]{0:S(1)} fusion(%copy-done, %slice-done), kind=kLoop, calls=%fused
  %row = bf16[4,3]{1,0} copy(%slice-done)
  ROOT %product = f32[2]{0} convolution(%sum, %row), dim_labels=b0f_0io->b0f
}
"""
    assert memory_traffic(program) == 40 + 24 + 24 + (24 + 8)
