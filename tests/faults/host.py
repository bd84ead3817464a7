"""A process that has imported everything, under faults.c, and runs each command of its standard input in a fork.

A line is JSON: the command, its folder, the kind of the fault, its step, and the folder in which steps are counted. The
answer is the exit code, negative for a signal, and the number of steps.
"""

import ctypes
import json
import os
import sys
import traceback

import safetensors.numpy  # noqa: F401
import tokenizers  # noqa: F401

import keras_bert.exports.export
import keras_bert.pretraining.run.pretrain
import keras_bert.serving.write_kit
import keras_bert.tasks.run.finetune
import keras_bert.weights.convert
import keras_bert.weights.hugging_face_download  # noqa: F401
from tests.faults import commands

KINDS = ("none", "kill", "term", "full", "clock", "unreadable")


def serve() -> None:
    shim = ctypes.CDLL(None)
    shim.fault_steps.restype = ctypes.c_long
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        asked = json.loads(line)
        process = os.fork()
        if not process:
            _run(shim, **asked)
        _, status = os.waitpid(process, 0)
        json.dump([os.waitstatus_to_exitcode(status), shim.fault_steps()], answers)
        answers.write("\n")
        answers.flush()


def _run(shim: ctypes.CDLL, command: str, folder: str, kind: str, step: int, counted: str) -> None:
    log = os.open(f"{folder}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.chdir(folder)
    os.makedirs("out", exist_ok=True)
    if kind == "worker":
        os.environ["FAULT_OF_WORKERS"] = f"{step} {counted}"
    shim.fault_arm(counted.encode(), KINDS.index("none" if kind == "worker" else kind), ctypes.c_long(step))
    try:
        code = commands.prepare() if command == "prepare" else commands.run(command)
    except Exception:
        traceback.print_exc()  # as Python does with what the command does not catch; `Trial` refuses it
        code = 1
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        code = 1
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    serve()
