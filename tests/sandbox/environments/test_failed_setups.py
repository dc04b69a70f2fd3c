"""A setup that failed is recorded once and not repeated, by no attempt and no process, unless somebody asks for it."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentbench.cli.cache import command as cache
from agentbench.core.errors import SandboxError, SetupFailed
from agentbench.sandbox.environments.cache import contents
from agentbench.sandbox.environments.failed_setups import FailedSetups, SetupIdentity, setup_identity
from agentbench.sandbox.environments.layers import LayerStore
from agentbench.sandbox.protocol import Backend, Phase, SandboxSpec, SetupPlan, SetupStep
from agentbench.sandbox.registry import open_backend
from tests.sandbox.conftest import SMALL, SPEC

BACKENDS = ["bwrap", "docker"]
SETUP = replace(SPEC, phase=Phase.SETUP)


@pytest.fixture
def start(backend: Backend, own_state: Path) -> Iterator[Callable[[], Backend]]:
    """Another harness on that folder."""
    with contextlib.ExitStack() as stack:

        def opened() -> Backend:
            return stack.enter_context(
                contextlib.closing(open_backend(backend.name, state=own_state, needs_image=False))
            )

        yield opened


def tried(backend: Backend, plan: SetupPlan, spec: SandboxSpec = SETUP) -> tuple[SetupFailed, list[SetupStep]]:
    steps: list[SetupStep] = []
    with pytest.raises(SetupFailed) as caught:
        backend.prepare(plan, spec, on_step=steps.append)
    return caught.value, steps


@pytest.mark.req("C-05", "R-08")
def test_another_process_is_told_what_failed_and_how_to_try_again(
    start: Callable[[], Backend], own_state: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = SetupPlan("known to fail", source, ("date +%s.%N", "echo no such thing >&2; exit 7"), (), 60)
    first, steps = tried(start(), plan)
    assert "tried" not in first.remedy
    again, repeated = tried(start(), plan)
    assert repeated == steps, "it ran again"
    assert re.match(r"setup failed at 20\S+ and was not retried \(use --fresh-setup\): setup command", again.message)
    assert again.message.endswith("(exit code 7): no such thing")
    assert "--fresh-setup" in again.remedy
    assert "ab cache prune" in again.remedy
    monkeypatch.setenv("AB_STATE", str(own_state))
    for verb, name in (("ls", "items"), ("prune", "removed")):
        told = json.loads(CliRunner().invoke(cache, [verb, "--json"]).stdout)[name]
        assert [item["label"].endswith("no such thing") for item in told if item["kind"] == "failed"] == [True]
    _, forgotten = tried(start(), plan)
    assert forgotten != steps


def test_fresh_setup_and_other_limits_try_again(start: Callable[[], Backend], source: Path) -> None:
    plan = SetupPlan("fails until asked", source, ("date +%s.%N; exit 7",), (), 60)
    _, first = tried(start(), plan)
    _, other = tried(start(), plan, replace(SETUP, limits=replace(SMALL, memory_mb=300)))
    _, asked = tried(start(), replace(plan, fresh=True))
    assert other != first
    assert asked not in (first, other)


@pytest.mark.parametrize(
    "command,options",
    [
        ("echo 'Temporary failure in name resolution' >&2; exit 1", {}),
        ("echo 'pip: Connection broken by NewConnectionError' >&2; exit 1", {}),
        ("echo 'npm error code ECONNRESET' >&2; exit 1", {}),
        ("echo 'dial tcp: lookup proxy.golang.org: no such host' >&2; exit 1", {}),
        ("echo 'fatal: early EOF' >&2; exit 1", {}),
        ("echo 'pull access denied for base, repository does not exist' >&2; exit 1", {}),
        ("sleep 60", {"timeout_sec": 0.3}),
        ("test $TOKEN = right", {"secrets": {"TOKEN": "wrong"}}),
    ],
    ids=["lookup", "connection", "npm", "go", "git", "base", "time", "secret"],
)
def test_what_may_work_in_an_hour_is_not_remembered(
    tmp_path: Path, source: Path, command: str, options: dict[str, object]
) -> None:
    values: dict[str, object] = {"timeout_sec": 60.0, **options}
    plan = SetupPlan("k", source, (command,), (), **values)  # type: ignore[arg-type]
    said = command.split("'")[1].encode() if "'" in command else b""
    step = SetupStep(command, False, 1, 0.1, "timeout_sec" in options, b"", said)
    store = LayerStore(tmp_path)
    with store.building("prepared", "k"):
        FailedSetups(store, "prepared").record(setup_identity("k", plan, SPEC, []), [step], SetupFailed("failed"))
    assert store.failures() == []


@pytest.mark.parametrize(
    "why,kept", [("exit code 137", False), ("killed: out of memory", True)], ids=["killed", "limit"]
)
def test_a_setup_that_somebody_killed_is_not_remembered_and_one_that_its_limit_ended_is(
    tmp_path: Path, source: Path, why: str, *, kept: bool
) -> None:
    plan = SetupPlan("k", source, ("make",), (), 60)
    store = LayerStore(tmp_path)
    step = SetupStep("make", False, 137, 0.1, False, b"", b"")
    with store.building("prepared", "k"):
        error = SetupFailed(f"setup command `make` failed ({why}): ")
        FailedSetups(store, "prepared").record(setup_identity("k", plan, SPEC, []), [step], error)
    assert bool(store.failures()) is kept


def test_our_own_trouble_is_not_remembered(
    start: Callable[[], Backend], own_state: Path, tmp_path: Path, source: Path
) -> None:
    plan = SetupPlan("vanished", tmp_path / "absent", ("true",), (), 60)
    with pytest.raises(SandboxError):
        start().prepare(plan, SETUP, on_step=lambda _: None)
    assert [item for item in contents(own_state) if item.kind == "failed"] == []
    assert not start().prepare(replace(plan, source=source), SETUP, on_step=lambda _: None).cached


def test_damaged_or_foreign_records_are_no_failures(tmp_path: Path) -> None:
    store = LayerStore(tmp_path)
    what = SetupIdentity("k", "label", "conditions")
    with store.building("prepared", "k"):
        FailedSetups(store, "prepared").record(what, [], SetupFailed("it failed"))
    with pytest.raises(SetupFailed, match="it failed"):
        FailedSetups(store, "prepared").raise_recorded(what, lambda _: None)
    FailedSetups(store, "prepared").raise_recorded(replace(what, conditions="other"), lambda _: None)
    for text in ("", "{", "[]", '{"message": "x"}'):
        (tmp_path / "prepared/k/failed.json").write_text(text)
        FailedSetups(store, "prepared").raise_recorded(what, lambda _: None)
        assert store.failures() == []


def test_conditions_are_limits_and_where_packages_come_from(source: Path) -> None:
    plan = SetupPlan("k", source, (), (), 60)
    same = setup_identity("k", plan, SPEC, ["https://index.invalid"])
    assert setup_identity("k", plan, replace(SPEC, env={}), ["https://index.invalid"]) == same
    assert setup_identity("k", plan, replace(SPEC, limits=replace(SMALL, disk_mb=1)), ["https://index.invalid"]) != same
    assert setup_identity("k", plan, SPEC, []) != same
