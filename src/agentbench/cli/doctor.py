"""`ab doctor`: check what works on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from agentbench.cli.options import json_option

if TYPE_CHECKING:
    from agentbench.sandbox.doctor import BackendHealth, Diagnosis

EPILOG = """\b
Examples:
  ab doctor
  ab doctor --json | python3 -m json.tool
  ab doctor --executor ray

The first line is READY, WEAK (part of the host is reachable from the sandbox) or NOT READY. The check starts a sandbox,
attacks it from inside and removes it. Exit code 0 if READY and no other package overwrites files of ab, else 3.

With --executor ray, every node of the cluster is asked for its version, its sandboxes, its disk, and whether it reaches this
machine. Exit code 0 if all nodes can be used, else 3.
"""


@click.command(epilog=EPILOG)
@click.option(
    "--executor",
    metavar="NAME",
    default="local",
    show_default=True,
    help="What to check: local (this machine) or ray (the nodes of a cluster).",
)
@click.option(
    "--ray-address", metavar="ADDRESS", default="auto", show_default=True, help="Ray cluster of --executor ray."
)
@json_option
def command(executor: str, ray_address: str, as_json: bool) -> None:
    """Check sandboxes, limits, isolation, tools, disk, keys and package indexes."""
    if executor == "ray":
        from agentbench.cli.doctor_cluster import check_cluster

        check_cluster(ray_address, as_json=as_json)
        return
    if executor != "local":
        from agentbench.core.errors import InputError

        raise InputError(f"unknown executor '{executor}'", remedy="available executors: local, ray")
    from dataclasses import replace

    from agentbench.cli.installation import DISTRIBUTION, foreign_distributions, remedy
    from agentbench.sandbox.doctor import diagnose
    from agentbench.sandbox.state import default_state

    diagnosis = diagnose(default_state())
    foreign = foreign_distributions()
    problems = [f"distribution {name} overwrites files of {DISTRIBUTION}: {remedy(name)}" for name in foreign]
    diagnosis = replace(diagnosis, problems=(*problems, *diagnosis.problems))
    click.echo(_as_json(diagnosis, foreign) if as_json else _as_text(diagnosis, foreign))
    if foreign or not diagnosis.usable:
        raise click.exceptions.Exit(3)


def headline(diagnosis: Diagnosis, foreign: Sequence[str] = ()) -> str:
    """Say what works. `foreign` are the distributions that overwrite files of this one."""
    if foreign:
        from agentbench.cli.installation import DISTRIBUTION, remedy

        return f"NOT READY: distribution {foreign[0]} overwrites files of {DISTRIBUTION}; {remedy(foreign[0])}"
    ready = [backend.name for backend in diagnosis.backends if backend.available and not backend.weak]
    weak = [backend.name for backend in diagnosis.backends if backend.weak]
    if ready:
        return f"READY {', '.join(ready)}"
    if weak:
        return f"WEAK {', '.join(weak)}: part of the host is reachable from the sandbox"
    return "NOT READY: no sandbox works on this machine"


def _as_text(diagnosis: Diagnosis, foreign: Sequence[str]) -> str:
    from agentbench.core.text import printable

    lines = [headline(diagnosis, foreign)]
    for backend in diagnosis.backends:
        lines += _backend_lines(backend)
    lines.append("tools")
    for tool in diagnosis.tools:
        lines.append(f"  {tool.name}: {tool.version}" if tool.version else f"  {tool.name}: MISSING, {tool.remedy}")
    lines += ["python", *(f"  {python}" for python in diagnosis.pythons)]
    lines += ["keys", *(f"  {name}: {'present' if present else 'absent'}" for name, present in diagnosis.keys.items())]
    lines += ["package index (setup phase only)", *(f"  {address}" for address in diagnosis.registries)]
    lines += [f"  {proxy}" for proxy in diagnosis.proxies]
    lines += [f"  {name}={path}" for name, path in diagnosis.certificates.items()]
    lines.append("machine")
    lines.append(f"  user {diagnosis.user}, {diagnosis.memory_mb} MB memory")
    lines.append(f"  state in {diagnosis.state}, {diagnosis.disk_free_mb} MB free")
    if diagnosis.problems:
        lines += ["problems", *(f"  {problem}" for problem in diagnosis.problems)]
    return "\n".join(printable(line) for line in lines)


def _backend_lines(backend: BackendHealth) -> list[str]:
    if not backend.available or backend.limits is None:
        lines = [f"sandbox {backend.name}: not available: {backend.error}"]
        return [*lines, f"  remedy: {backend.remedy}"] if backend.remedy else lines
    limits = backend.limits
    lines = [f"sandbox {backend.name}: {'WEAK' if backend.weak else 'ok'}"]
    lines.append(f"  limits: cpu {limits.cpu}, memory {limits.memory}, pids {limits.pids}, disk {limits.disk}")
    lines += [f"    {note}" for note in limits.notes]
    if backend.server:
        lines.append(f"  command server: {backend.server}")
    problem = backend.observation_problem
    lines.append(f"  programs that commands start: {f'not observed: {problem}' if problem else 'observed'}")
    for check in backend.checks:
        lines.append(f"  {'ok  ' if check.ok else 'WEAK'} {check.name}: {check.detail}")
    if backend.open_ms is not None and backend.call_ms is not None:
        lines.append(f"  starts in {backend.open_ms:.0f} ms, runs a command in {backend.call_ms:.1f} ms")
    return lines


def _as_json(diagnosis: Diagnosis, foreign: Sequence[str]) -> str:
    import json

    return json.dumps(
        {
            "ready": diagnosis.usable and not foreign,
            "headline": headline(diagnosis, foreign),
            "backends": [_backend_json(backend) for backend in diagnosis.backends],
            "tools": {tool.name: tool.version or None for tool in diagnosis.tools},
            "pythons": list(diagnosis.pythons),
            "keys": {name: "present" if present else "absent" for name, present in diagnosis.keys.items()},
            "index": {
                "registries": list(diagnosis.registries),
                "proxies": list(diagnosis.proxies),
                "certificates": dict(diagnosis.certificates),
            },
            "machine": {
                "user": diagnosis.user,
                "memory_mb": diagnosis.memory_mb,
                "state": str(diagnosis.state),
                "disk_free_mb": diagnosis.disk_free_mb,
            },
            "problems": list(diagnosis.problems),
        },
        indent=2,
    )


def _backend_json(backend: BackendHealth) -> dict[str, object]:
    limits = backend.limits
    strengths = {name: getattr(limits, name) for name in ("cpu", "memory", "pids", "disk")} if limits else None
    return {
        "name": backend.name,
        "available": backend.available,
        "error": backend.error or None,
        "remedy": backend.remedy or None,
        "limits": strengths,
        "notes": list(limits.notes) if limits else [],
        "isolation": [{"check": check.name, "ok": check.ok, "detail": check.detail} for check in backend.checks],
        "weak": [check.name for check in backend.weak],
        "server": backend.server or None,
        "observes_programs": backend.available and backend.observation_problem is None,
        "observation_problem": backend.observation_problem,
        "open_ms": backend.open_ms,
        "call_ms": backend.call_ms,
    }
