"""What works on this machine: backends and the strength of their limits, what can be reached from inside, tools, room.

It looks and tries; it changes nothing, and what it started it ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from agentbench.core.command import Command
from agentbench.core.errors import AgentBenchError, HarnessError
from agentbench.process import run_host
from agentbench.sandbox.environments import interpreter as interpreters
from agentbench.sandbox.environments.package_settings import host_settings, without_credentials
from agentbench.sandbox.protocol import Backend, LimitReport, Limits, Phase, Sandbox, SandboxSpec, Served
from agentbench.sandbox.registry import open_backend

KEYS = ("OPENROUTER_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY")
_PROBE_LIMITS = Limits(cpus=1, memory_mb=256, pids=32, disk_mb=32)
_LITTLE_DISK_MB = 2048


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was tried from inside."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class BackendHealth:
    name: str
    available: bool
    limits: LimitReport | None = None
    checks: tuple[Check, ...] = ()
    error: str = ""
    remedy: str = ""
    open_ms: float | None = None
    call_ms: float | None = None
    server: str = ""
    """What runs commands inside."""

    @property
    def weak(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.ok)


@dataclass(frozen=True, slots=True)
class Tool:
    """A program of the host; an empty version means it is not there."""

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
    disk = shutil.disk_usage(_existing(state))
    free_mb = disk.free >> 20
    backends = tuple(health(name, state) for name in names)
    tools = _tools()
    problems = [f"{tool.name} is missing ({tool.needed_for}): {tool.remedy}" for tool in tools if not tool.version]
    if free_mb < _LITTLE_DISK_MB:
        problems.append(f"only {free_mb} MB free at {state}: `ab cache prune`, or set AB_STATE to a larger disk")
    return Diagnosis(
        backends=backends,
        tools=tools,
        pythons=tuple(f"{found.full} ({found.executable})" for found in interpreters.installed()),
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


def health(name: str, state: Path) -> BackendHealth:
    """Start a sandbox of one backend and try from inside what must not be possible."""
    try:
        backend = open_backend(name, state=state, needs_image=False)
    except AgentBenchError as error:
        return BackendHealth(name, available=False, error=error.message, remedy=error.remedy)
    try:
        return _examine(name, backend)
    except AgentBenchError as error:
        return BackendHealth(name, available=False, error=error.message, remedy=error.remedy)
    finally:
        backend.close()


def isolation(backend: Backend) -> tuple[Check, ...]:
    """The isolation probe alone, for those who must know before a run.

    Raises:
        SandboxError: no sandbox can be started.
    """
    with backend.open(SandboxSpec(Phase.AGENT, _PROBE_LIMITS), None) as box:
        return _isolation(box, backend.limits())


def _examine(name: str, backend: Backend) -> BackendHealth:
    spec = SandboxSpec(Phase.AGENT, _PROBE_LIMITS)
    with backend.open(spec, None):
        pass  # the first one may have to build the interpreter's layer
    started = time.perf_counter()
    with backend.open(spec, None) as box:
        open_ms = (time.perf_counter() - started) * 1000
        times = sorted(_timed(box) for _ in range(9))
        checks = _isolation(box, backend.limits())
        server = box.server if isinstance(box, Served) else ""
    return BackendHealth(
        name,
        available=True,
        limits=backend.limits(),
        checks=checks,
        open_ms=open_ms,
        call_ms=times[len(times) // 2],
        server=server,
    )


def _timed(box: Sandbox) -> float:
    started = time.perf_counter()
    box.run(Command(argv=("true",)))
    return (time.perf_counter() - started) * 1000


def _isolation(box: Sandbox, limits: LimitReport) -> tuple[Check, ...]:
    source = (resources.files("agentbench.sandbox.server") / "isolation_probe.py").read_text(encoding="utf-8")
    # Where the disk limit is not hard, that is said of the limit; a place without bounds is then no further finding.
    room = str(_PROBE_LIMITS.disk_mb if limits.disk == "hard" else 0)
    done = box.run(Command(argv=("python3", "-I", "-c", source, room), timeout_sec=30))
    checks = []
    for line in done.stdout.kept.decode("utf-8", "replace").splitlines():
        verdict, name, detail = (*line.split("\t", 2), "", "")[:3]
        checks.append(Check(name, verdict == "ok", detail))
    if not done.ok:
        checks.append(Check("probe", ok=False, detail=done.stderr.kept.decode("utf-8", "replace")[-200:]))
    return (*checks, _host_identity(box))


def _host_identity(box: Sandbox) -> Check:
    """Seen from the host: whose process is it? Root's would have root's power wherever the namespaces leave a gap."""
    marker = f"86400.{time.monotonic_ns() % 10**9}"
    running = box.start(Command(argv=("sleep", marker), timeout_sec=30))
    wanted = f"sleep\0{marker}\0".encode()
    try:
        for _ in range(200):
            for folder in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    if (folder / "cmdline").read_bytes() == wanted:
                        owner = folder.stat().st_uid
                        return Check("host user", owner != 0, f"uid {owner} on the host")
            time.sleep(0.01)
    finally:
        running.kill()
        running.wait()
    return Check("host user", ok=True, detail="not visible from here")


def _tools() -> tuple[Tool, ...]:
    return (
        Tool("bubblewrap", _version("bwrap", "--version"), "the embedded sandbox", "apt-get install bubblewrap"),
        Tool("git", _version("git", "--version"), "repositories as sources", "apt-get install git"),
        Tool(
            "ripgrep",
            _version("rg", "--version"),
            "the search tool; without it grep is used",
            "apt-get install ripgrep",
        ),
    )


def _version(*argv: str) -> str:
    try:
        done = run_host(argv, timeout_sec=10)
    except HarnessError:
        return ""
    return done.stdout.kept.decode("utf-8", "replace").splitlines()[0].strip() if done.ok and done.stdout.kept else ""


def _existing(path: Path) -> Path:
    return next(parent for parent in (path, *path.parents) if parent.exists())
