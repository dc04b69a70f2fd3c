"""A failed setup is recorded once, and no attempt or process repeats it unless asked to."""

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

pytestmark = pytest.mark.component

BACKENDS = ["bwrap", "docker"]
SETUP = replace(SPEC, phase=Phase.SETUP)


@pytest.fixture
def start(backend: Backend, own_state: Path) -> Iterator[Callable[[], Backend]]:
    """Start another harness on the same state folder."""
    with contextlib.ExitStack() as stack:

        def opened() -> Backend:
            return stack.enter_context(
                contextlib.closing(open_backend(backend.name, state=own_state, needs_image=False))
            )

        yield opened


def fail_setup(backend: Backend, plan: SetupPlan, spec: SandboxSpec = SETUP) -> tuple[SetupFailed, list[SetupStep]]:
    steps: list[SetupStep] = []
    with pytest.raises(SetupFailed) as caught:
        backend.prepare(plan, spec, on_step=steps.append)
    return caught.value, steps


@pytest.mark.req("C-05", "R-08")
def test_another_process_reports_the_failure_and_how_to_retry(
    start: Callable[[], Backend], own_state: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = SetupPlan("known to fail", source, ("date +%s.%N", "echo no such thing >&2; exit 7"), (), 60)
    first, steps = fail_setup(start(), plan)
    assert "tried" not in first.remedy
    second, repeated = fail_setup(start(), plan)
    assert repeated == [replace(step, cached=True) for step in steps], "setup ran again"
    assert re.match(r"setup failed at 20\S+ and was not retried \(use --fresh-setup\): setup command", second.message)
    assert second.message.endswith("(exit code 7): no such thing")
    assert "--fresh-setup" in second.remedy
    assert "ab cache prune" in second.remedy
    monkeypatch.setenv("AB_STATE", str(own_state))
    for verb, name in (("ls", "items"), ("prune", "removed")):
        items = json.loads(CliRunner().invoke(cache, [verb, "--json"]).stdout)[name]
        assert [item["label"].endswith("no such thing") for item in items if item["kind"] == "failed"] == [True]
    _, retried = fail_setup(start(), plan)
    assert retried != steps


def test_fresh_setup_and_other_limits_retry(start: Callable[[], Backend], source: Path) -> None:
    plan = SetupPlan("fails until asked", source, ("date +%s.%N; exit 7",), (), 60)
    _, first = fail_setup(start(), plan)
    _, other = fail_setup(start(), plan, replace(SETUP, limits=replace(SMALL, memory_mb=300)))
    _, fresh = fail_setup(start(), replace(plan, fresh=True))
    assert other != first
    assert fresh not in (first, other)


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
def test_transient_failures_are_not_recorded(
    tmp_path: Path, source: Path, command: str, options: dict[str, object]
) -> None:
    values: dict[str, object] = {"timeout_sec": 60.0, **options}
    plan = SetupPlan("k", source, (command,), (), **values)  # type: ignore[arg-type]
    stderr = command.split("'")[1].encode() if "'" in command else b""
    step = SetupStep(command, False, 1, 0.1, "timeout_sec" in options, b"", stderr)
    store = LayerStore(tmp_path)
    with store.building("prepared", "k"):
        FailedSetups(store, "prepared").record(setup_identity("k", plan, SPEC, []), [step], SetupFailed("failed"))
    assert store.failures() == []


@pytest.mark.parametrize(
    "reason,recorded", [("exit code 137", False), ("killed: out of memory", True)], ids=["killed", "limit"]
)
def test_setup_killed_from_outside_is_not_recorded(
    tmp_path: Path, source: Path, reason: str, *, recorded: bool
) -> None:
    plan = SetupPlan("k", source, ("make",), (), 60)
    store = LayerStore(tmp_path)
    step = SetupStep("make", False, 137, 0.1, False, b"", b"")
    with store.building("prepared", "k"):
        error = SetupFailed(f"setup command `make` failed ({reason})")
        FailedSetups(store, "prepared").record(setup_identity("k", plan, SPEC, []), [step], error)
    assert bool(store.failures()) is recorded


def test_harness_errors_are_not_recorded(
    start: Callable[[], Backend], own_state: Path, tmp_path: Path, source: Path
) -> None:
    plan = SetupPlan("vanished", tmp_path / "absent", ("true",), (), 60)
    with pytest.raises(SandboxError):
        start().prepare(plan, SETUP, on_step=lambda _: None)
    assert [item for item in contents(own_state) if item.kind == "failed"] == []
    assert not start().prepare(replace(plan, source=source), SETUP, on_step=lambda _: None).cached


def test_damaged_records_are_ignored(tmp_path: Path) -> None:
    store = LayerStore(tmp_path)
    setup = SetupIdentity("k", "label", "conditions")
    with store.building("prepared", "k"):
        FailedSetups(store, "prepared").record(setup, [], SetupFailed("it failed"))
    with pytest.raises(SetupFailed, match="it failed"):
        FailedSetups(store, "prepared").raise_recorded(setup, lambda _: None)
    FailedSetups(store, "prepared").raise_recorded(replace(setup, conditions="other"), lambda _: None)
    for text in ("", "{", "[]", '{"message": "x"}'):
        (tmp_path / "prepared/k/failed.json").write_text(text)
        FailedSetups(store, "prepared").raise_recorded(setup, lambda _: None)
        assert store.failures() == []


def test_conditions_are_limits_and_registries(source: Path) -> None:
    plan = SetupPlan("k", source, (), (), 60)
    setup = setup_identity("k", plan, SPEC, ["https://index.invalid"])
    assert setup_identity("k", plan, replace(SPEC, env={}), ["https://index.invalid"]) == setup
    assert (
        setup_identity("k", plan, replace(SPEC, limits=replace(SMALL, disk_mb=1)), ["https://index.invalid"]) != setup
    )
    assert setup_identity("k", plan, SPEC, []) != setup
