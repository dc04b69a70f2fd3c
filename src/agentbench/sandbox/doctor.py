"""Diagnoses this machine: backends, how strictly they enforce limits, isolation, tools, keys, disk space.

Starts sandboxes and probes them from inside. Changes nothing and leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from agentbench.core.command import Command
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentBenchError, HarnessError
from agentbench.core.package_settings import host_settings, without_credentials
from agentbench.process import run_host
from agentbench.sandbox.environments import interpreter as interpreters
from agentbench.sandbox.protocol import (
    Backend,
    LimitReport,
    Limits,
    Phase,
    ProcessEnd,
    ProcessStart,
    Sandbox,
    SandboxSpec,
)
from agentbench.sandbox.registry import open_backend
from agentbench.sandbox.served_sandbox import ServedSandbox
from agentbench.sandbox.server_bundle import module_source

KEYS = ("OPENROUTER_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY")
_PROBE_LIMITS = Limits(cpus=1, memory_mb=256, pids=32, disk_mb=32)
_MIN_FREE_DISK_MB = 2048


@dataclass(frozen=True, slots=True)
class IsolationCheck:
    """The result of one isolation check, tried from inside a sandbox."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class BackendHealth:
    name: str
    available: bool
    limits: LimitReport | None = None
    checks: tuple[IsolationCheck, ...] = ()
    error: str = ""
    remedy: str = ""
    open_ms: float | None = None
    call_ms: float | None = None
    server: str = ""
    """The interpreter that runs the command server."""
    observation_problem: str | None = None
    """Why the programs that a command starts cannot be observed; None if they can."""

    @property
    def weak(self) -> tuple[IsolationCheck, ...]:
        return tuple(check for check in self.checks if not check.ok)


@dataclass(frozen=True, slots=True)
class Tool:
    """A program on the host; an empty version means that it is not installed."""

    name: str
    version: str
    needed_for: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    backends: tuple[BackendHealth, ...]
    tools: tuple[Tool, ...]
    pythons: tuple[str, ...]
    keys: Mapping[str, bool]
    registries: tuple[str, ...]
    proxies: tuple[str, ...]
    certificates: Mapping[str, str]
    state: Path
    disk_free_mb: int
    memory_mb: int
    user: str
    problems: tuple[str, ...] = field(default=())

    @property
    def usable(self) -> bool:
        return any(backend.available and not backend.weak for backend in self.backends)


def diagnose(state: Path, names: tuple[str, ...] = ("bwrap", "docker")) -> Diagnosis:
    settings = host_settings()
    disk = shutil.disk_usage(_nearest_existing(state))
    free_mb = disk.free >> 20
    backends = tuple(check_backend(name, state) for name in names)
    tools = _tools()
    problems = [
        f"{tool.name} is not installed ({tool.needed_for}): {tool.remedy}" for tool in tools if not tool.version
    ]
    if free_mb < _MIN_FREE_DISK_MB:
        problems.append(
            f"only {free_mb} MB free in {state}: run `ab cache prune`, or set AB_STATE to a folder on a larger disk"
        )
    return Diagnosis(
        backends=backends,
        tools=tools,
        pythons=tuple(f"{python.full} ({python.executable})" for python in interpreters.installed()),
        keys={name: bool(os.environ.get(name)) for name in KEYS},
        registries=tuple(settings.addresses()),
        proxies=tuple(
            f"{key}={without_credentials(value)}"
            for key, value in settings.env.items()
            if key.lower().endswith("_proxy")
        ),
        certificates={key: value for key, value in settings.env.items() if not key.lower().endswith("_proxy")},
        state=state,
        disk_free_mb=free_mb,
        memory_mb=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        user="root" if os.geteuid() == 0 else f"uid {os.geteuid()}",
        problems=tuple(problems),
    )


def check_backend(name: str, state: Path) -> BackendHealth:
    """Start a sandbox of one backend and probe its isolation from inside."""
    try:
        with contextlib.closing(open_backend(name, state=state, needs_image=False)) as backend:
            return _measure(name, backend)
    except AgentBenchError as error:
        return BackendHealth(name, available=False, error=error.message, remedy=error.remedy)


def _measure(name: str, backend: Backend) -> BackendHealth:
    spec = SandboxSpec(Phase.AGENT, _PROBE_LIMITS)
    with backend.open(spec, None):
        pass  # the first sandbox may have to build the interpreter's layer
    started = time.perf_counter()
    with backend.open(spec, None) as sandbox:
        open_ms = (time.perf_counter() - started) * 1000
        call_ms = sorted(_call_ms(sandbox) for _ in range(9))
        checks = _probe_isolation(sandbox, backend.limits())
        server = sandbox.server if isinstance(sandbox, ServedSandbox) else ""
        observation_problem = _observation_problem(sandbox)
    return BackendHealth(
        name,
        available=True,
        limits=backend.limits(),
        checks=checks,
        open_ms=open_ms,
        call_ms=call_ms[len(call_ms) // 2],
        server=server,
        observation_problem=observation_problem,
    )


def _observation_problem(sandbox: Sandbox) -> str | None:
    """Return why programs are not observed. Tries it: a kernel can accept the filter and report nothing."""
    if sandbox.observation_problem is not None:
        return sandbox.observation_problem
    seen: list[ProcessStart | ProcessEnd] = []
    sandbox.run(Command(line="/bin/sh -c 'exit 0'; true"), observe=seen.append)
    starts = [event for event in seen if isinstance(event, ProcessStart)]
    return None if len(starts) > 1 else "a program that was started was not reported"


def _call_ms(sandbox: Sandbox) -> float:
    started = time.perf_counter()
    sandbox.run(Command(argv=("true",)))
    return (time.perf_counter() - started) * 1000


def _probe_isolation(sandbox: Sandbox, limits: LimitReport) -> tuple[IsolationCheck, ...]:
    source = module_source("isolation_probe")
    # A disk limit that is not hard is reported with the limits, not again as an unbounded folder.
    disk_mb = str(_PROBE_LIMITS.disk_mb if limits.disk == "hard" else 0)
    completed = sandbox.run(Command(argv=("python3", "-I", "-c", source, disk_mb), timeout_sec=30))
    checks = []
    for line in completed.stdout.text.splitlines():
        verdict, name, detail = (*line.split("\t", 2), "", "")[:3]
        checks.append(IsolationCheck(name, verdict == "ok", detail))
    if not completed.ok:
        checks.append(IsolationCheck("probe", ok=False, detail=completed.stderr.text[-200:]))
    return (*checks, _host_user(sandbox))


def _host_user(sandbox: Sandbox) -> IsolationCheck:
    """Check on the host that sandboxed processes are not root's: they would have its power if a namespace failed."""
    marker = f"86400.{time.monotonic_ns() % 10**9}"
    running = sandbox.start(Command(argv=("sleep", marker), timeout_sec=30))
    command_line = f"sleep\0{marker}\0".encode()
    try:
        for _ in range(200):
            for folder in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    if (folder / "cmdline").read_bytes() == command_line:
                        owner = folder.stat().st_uid
                        return IsolationCheck("host user", owner != 0, f"uid {owner} on the host")
            time.sleep(0.01)
    finally:
        running.kill()
        running.wait()
    return IsolationCheck("host user", ok=True, detail="process not visible to ab")


def _tools() -> tuple[Tool, ...]:
    return (
        Tool("bubblewrap", _version("bwrap", "--version"), "the bwrap sandbox", "apt-get install bubblewrap"),
        Tool("git", _version("git", "--version"), "tasks whose source is a git repository", "apt-get install git"),
        Tool(
            "ripgrep",
            _version("rg", "--version"),
            "faster search; Python is used without it",
            "apt-get install ripgrep",
        ),
    )


def _version(*argv: str) -> str:
    try:
        completed = run_host(argv, timeout_sec=10)
    except HarnessError:
        return ""
    lines = completed.stdout.text.splitlines()
    return lines[0].strip() if completed.ok and lines else ""


def _nearest_existing(path: Path) -> Path:
    return next(parent for parent in (path, *path.parents) if parent.exists())
