"""Run the commands of benchmarks/README.md again and write their output into the page.

python benchmarks/page.py                    all of them, about an hour; nothing else should run meanwhile
python benchmarks/page.py --only serving     only commands that contain this
python benchmarks/page.py --list             the commands

The first line of a block is the command, after "$ "; the rest is its output. The page is written after each command, so
nothing is lost if a command fails or is stopped.
"""

import argparse
import os
import platform
import re
import shlex
import subprocess
import sys
from datetime import date
from importlib.metadata import version
from pathlib import Path

PAGE = Path(__file__).with_name("README.md")
BLOCK = re.compile(r"^```console\n\$ python (?P<command>[^\n]+)\n.*?^```$", re.MULTILINE | re.DOTALL)
PACKAGES = ("keras", "tensorflow", "torch", "transformers", "keras-hub", "onnxruntime")


def machine() -> str:
    """The type of machine and the versions, without any name that identifies it."""
    cpu = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.+)", cpu.read_text()) if cpu.exists() else [platform.processor()]
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return f"{date.today()}, {os.cpu_count()} cores of {names[0]}, Python {platform.python_version()}, {versions}"


def measured(command: str) -> str:
    """Run a command and return its block."""
    done = subprocess.run(
        [sys.executable, *shlex.split(command)], stdout=subprocess.PIPE, text=True, check=True, cwd=PAGE.parents[1]
    )
    return f"```console\n$ python {command}\n# {machine()}\n{done.stdout.strip()}\n```"


def rewrite(command: str, block: str) -> None:
    """Replace the block of this command."""
    text = BLOCK.sub(lambda found: block if found["command"] == command else found[0], PAGE.read_text())
    partial = PAGE.with_suffix(".partial")
    partial.write_text(text)
    partial.replace(PAGE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only commands that contain this")
    parser.add_argument("--list", action="store_true", help="print the commands and stop")
    options = parser.parse_args()
    commands = [found["command"] for found in BLOCK.finditer(PAGE.read_text()) if options.only in found["command"]]
    if not commands:
        parser.error(f"--only matches no command of {PAGE.name}. See --list. Received: {options.only!r}")
    for command in commands:
        print(f"python {command}", flush=True)
        if options.list:
            continue
        rewrite(command, measured(command))


if __name__ == "__main__":
    main()
