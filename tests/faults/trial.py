"""A trial: a command is disturbed at a random step and given again, and must leave what an undisturbed one leaves.

That is its output, the inputs as they were, and nothing in the folder for temporary files but those of other packages.
"""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.faults.commands import SAME_RESULT, contents

ROOT = Path(__file__).resolve().parents[2]
# TensorFlow writes such Python files, and deletes them when a process exits; Python keeps their bytecode.
AUTOGRAPH = "__autograph_generated_file", "__pycache__"


class Fault(NamedTuple):
    """What happens to which command; the step is drawn with the seed."""

    command: str
    kind: str
    seed: int


class Host:
    """The process of host.py, and the folder with the inputs of the commands and the results of undisturbed runs."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        library = folder / "faults.so"
        compiler = shutil.which("gcc") or shutil.which("cc")
        assert compiler is not None
        source = Path(__file__).with_name("faults.c")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", str(source), "-o", str(library), "-ldl"], check=True)
        (folder / "tmp").mkdir()
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.faults.host"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={
                **os.environ,
                **environment,
                "LD_PRELOAD": str(library),
                "PYTHONPATH": str(ROOT),
                "KERAS_BACKEND": "tensorflow",
                "TF_CPP_MIN_LOG_LEVEL": "3",
                "TMPDIR": str(folder / "tmp"),
            },
        )
        self._undisturbed: dict[str, dict[str, object]] = {}
        self._steps: dict[tuple[str, str], int] = {}
        folder.joinpath("prepared").mkdir()
        assert self._run("prepare", folder / "prepared")[0] == 0, self.log(folder / "prepared")

    def close(self) -> None:
        self._process.communicate()

    def log(self, folder: Path) -> str:
        return Path(f"{folder}.log").read_text()

    def recovers(self, fault: Fault) -> str:
        """How the command recovered; an AssertionError shows how it did not."""
        expected = self._expected(fault.command)
        what = "inputs" if fault.kind == "unreadable" else "out"
        step = random.Random(str(fault)).randint(1, self._count(fault.command, what))
        folder = self._new("-".join(map(str, fault)))
        code, _ = self._run(fault.command, folder, fault.kind, step, what)
        where = f"{fault}, step {step}, ended with {code}"
        log = self.log(folder)
        assert "Traceback" not in log, f"{where}: {log}"
        found = contents(folder / "out")
        if fault.kind == "clock":
            assert code == 0, f"{where}: {log}"
        if code == 0 or _differences(found, expected) == []:
            assert _differences(found, expected) == [], f"{where}: {_differences(found, expected)}"
            how = "unharmed"
        else:
            code, _ = self._run(fault.command, folder)
            found = contents(folder / "out")
            assert code == 0, f"{where}, then with {code}: {self.log(folder)}"
            assert _differences(found, expected) == [], f"{where}: {_differences(found, expected)}"
            how = "recovered"
        inputs = _differences(contents(folder / "inputs"), contents(self.folder / "prepared" / "inputs"))
        assert inputs == [], f"{where} changed its inputs: {inputs}"
        left = [path.name for path in (self.folder / "tmp").iterdir() if not path.name.startswith(AUTOGRAPH)]
        assert left == [], f"{where} left temporary files: {left}"
        shutil.rmtree(folder)
        return f"{where}: {how}"

    def _expected(self, command: str) -> dict[str, object]:
        """What an undisturbed run writes."""
        command = SAME_RESULT.get(command, command)
        if command not in self._undisturbed:
            self._count(command, "out")
        return self._undisturbed[command]

    def _count(self, command: str, where: str) -> int:
        """The steps of an undisturbed run: its changes below `out`, or the files in `inputs` that it opens."""
        command = SAME_RESULT.get(command, command)
        if (command, where) not in self._steps:
            folder = self._new(f"{command}-{where}")
            kind = "unreadable" if where == "inputs" else "none"
            code, self._steps[command, where] = self._run(command, folder, kind, 0, where)
            assert code == 0, self.log(folder)
            self._undisturbed[command] = contents(folder / "out")
        return self._steps[command, where]

    def _new(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        shutil.copytree(self.folder / "prepared" / "inputs", folder / "inputs")
        return folder

    def _run(self, command: str, folder: Path, kind: str = "none", step: int = 0, counted: str = "out") -> list[int]:
        asked = {
            "command": command,
            "folder": str(folder),
            "kind": kind,
            "step": step,
            "counted": str(folder / counted),
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def _differences(found: dict[str, object], expected: dict[str, object]) -> list[str]:
    return sorted(name for name in {*found, *expected} if name not in found or found[name] != expected.get(name, 0))
