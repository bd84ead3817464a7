"""Eight virtual devices of JAX, in a process of their own, and what the tests of them share."""

import contextlib
import io
import json
import sys
import textwrap

from tests.subprocesses import free_port

# Compiling takes most of the time.
FLAGS = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_use_fusion_emitters=false"
)
EIGHT = {"KERAS_BACKEND": "jax", "XLA_FLAGS": f"--xla_force_host_platform_device_count=8 {FLAGS}"}


def printed(code, *arguments):
    sys.argv[1:] = arguments
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(code, {})
    return output.getvalue().strip()


def two_processes():
    """The environment of two processes of JAX, with two devices each; each also needs its number."""
    return {
        "KERAS_BACKEND": "jax",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count=2 {FLAGS}",
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": f"localhost:{free_port()}",
        "KERAS_DISTRIBUTION_NUM_PROCESSES": "2",
    }


# Of a lowered program: the types of its sums over devices, as written, and the numbers that devices send. The compiler
# for CPUs has no products in bfloat16, so that all it sums is float32.
SUMS = """
    import json, re
    from benchmarks.collectives import collectives

    def print_sums(lowered, weights):
        sums = re.findall(r'"stablehlo.all_reduce".*?[}][)] : [(]([^)]*)[)]', lowered.as_text(), re.DOTALL)
        dtypes = sorted(set(re.findall(r"tensor<(?:[0-9]+x)*([a-z0-9]+)>", " ".join(sums))))
        parameters = sum(variable.value.size for variable in weights)
        print(json.dumps([dtypes, sum(size for _, _, size in collectives(lowered.compile().as_text())), parameters]))
    """


def assert_sums_gradients_once_in_float32(on_eight, code, dtype):
    found = on_eight(textwrap.dedent(SUMS) + textwrap.dedent(code), dtype)
    dtypes, sent, parameters = json.loads(found.splitlines()[-1])
    assert dtypes == ["f32"]
    assert parameters <= sent < parameters + 20  # and a few losses and counts
