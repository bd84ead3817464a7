"""Faults, each of another command or kind. `make soak` draws hundreds."""

import shutil

import pytest

from tests.faults.servers import host_with_servers
from tests.faults.trial import Fault

pytestmark = [pytest.mark.long, pytest.mark.network]

FAULTS = {
    "vocab": "kill full unreadable",
    "examples": "kill term full clock unreadable",
    "examples-on-two": "worker",
    "convert-hf": "kill",
    "convert-google": "full",
    "convert-keras-bert": "term unreadable",
    "download": "kill full clock",
    "download-hub": "kill full",
    "pretrain": "kill",
    "export": "kill full",
}


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    if not (shutil.which("gcc") or shutil.which("cc")):
        pytest.skip("there is no C compiler on this machine")
    with host_with_servers(tmp_path_factory.mktemp("faults")) as host:
        yield host


@pytest.mark.parametrize(
    ("command", "kind"), [(name, kind) for name, kinds in FAULTS.items() for kind in kinds.split()]
)
def test_recovers(host, command, kind):
    host.recovers(Fault(command, kind, seed=0))


def test_a_run_that_is_killed_within_an_epoch(host):
    fault = Fault("finetune", "kill", seed=4)
    host.recovers(fault)
    assert "Resuming after epoch 0 of 2 and 2 steps" in host.log(host.folder / "-".join(map(str, fault)))
