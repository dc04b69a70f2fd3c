"""Processes inherit the facts of their branch; a reused pid starts a new one."""

from __future__ import annotations

import pytest

from agentbench.policy.breakers import Trip
from agentbench.policy.install_processes import InstallProcesses
from agentbench.policy.process_alerts import ProcessAlerts
from agentbench.policy.process_branches import ProcessBranches
from agentbench.trace.events import ProcessFinished, ProcessStarted

pytestmark = pytest.mark.component


def start(number: int, line: str, pid: int, parent: int = 1, call_id: str = "h1") -> ProcessStarted:
    argv = line.split()
    return ProcessStarted(
        call_id=call_id,
        number=number,
        pid=pid,
        parent=parent,
        program=f"/usr/bin/{argv[0]}",
        argv=argv,
        cwd="/workspace",
        elapsed_us=number,
    )


def end(number: int, call_id: str = "h1") -> ProcessFinished:
    return ProcessFinished(call_id=call_id, number=number, exit_code=0, elapsed_us=number)


def test_facts_are_shared_by_children_and_executed_programs() -> None:
    branches: ProcessBranches[str] = ProcessBranches()
    assert branches.started(start(1, "sh", 50), ["a"]) == set()
    assert branches.started(start(2, "env", 50), ["b"]) == {"a"}
    assert branches.started(start(3, "ls", 51, parent=50), []) == {"a", "b"}
    assert branches.started(start(4, "ls", 60), []) == set()


@pytest.mark.parametrize("ended", [1, 2], ids=["first number", "last number"])
def test_end_of_an_exec_chain_frees_its_pid(ended: int) -> None:
    branches: ProcessBranches[str] = ProcessBranches()
    branches.started(start(1, "env", 50), ["a"])
    branches.started(start(2, "pip", 50), ["a"])
    branches.finished(end(ended))
    assert branches.started(start(3, "pip", 50), ["a"]) == set()


def test_numbers_and_pids_of_another_call_are_new() -> None:
    branches: ProcessBranches[str] = ProcessBranches()
    branches.started(start(1, "pip", 50), ["a"])
    assert branches.started(start(1, "pip", 50, call_id="h2"), ["a"]) == set()
    branches.finished(end(1, call_id="h1"))
    assert branches.started(start(2, "pip", 50, call_id="h2"), []) == {"a"}


@pytest.mark.req("M-02b")
def test_install_with_the_pid_of_an_ended_exec_chain_is_counted() -> None:
    installs = InstallProcesses()
    assert installs.started(start(1, "env pip install x", 50)) == ("pip install x",)
    assert installs.started(start(2, "pip install x", 50)) == ()
    installs.finished(end(2))
    assert installs.started(start(3, "pip install x", 50)) == ("pip install x",)


@pytest.mark.req("M-02b")
def test_violation_with_the_pid_of_an_ended_exec_chain_is_reported() -> None:
    alerts = ProcessAlerts()
    trips = (Trip("policy", "os.privilege_escalation", "note", "sudo"),)
    assert len(alerts.started(1, start(1, "env sudo a", 50), trips)) == 1
    assert alerts.started(2, start(2, "sudo a", 50), trips) == ()
    alerts.finished(end(2))
    assert len(alerts.started(4, start(3, "sudo b", 50), trips)) == 1
