"""What an environment says of itself, asked once from inside a sandbox on it (R-02)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentbench.core.command import Command
from agentbench.record.durable import write_atomic
from agentbench.sandbox.protocol import Backend, Prepared, SandboxSpec

# One line `key=value` each; what is not there stays silent, and absence is what the manifest then declares.
_SCRIPT = r"""
. /etc/os-release 2>/dev/null; echo "os.name=${PRETTY_NAME:-unknown}"
echo "os.kernel=$(uname -sr)"
echo "os.machine=$(uname -m)"
echo "locale.LANG=${LANG:-}"
echo "locale.LC_ALL=${LC_ALL:-}"
echo "locale.TZ=${TZ:-}"
echo "python=$(python -V 2>&1)"
for tool in pip uv npm cargo go mvn; do
  said=$($tool --version 2>/dev/null) && echo "pm.$tool=$(echo "$said" | head -n 1)"
done
"""
_MAX_LINE = 300


@dataclass(frozen=True, slots=True)
class Inside:
    """Operating system, package managers and locale as seen by whoever runs there."""

    os: Mapping[str, str] = field(default_factory=dict)
    package_managers: Mapping[str, str] = field(default_factory=dict)
    locale: Mapping[str, str] = field(default_factory=dict)
    python: str | None = None


def look_inside(backend: Backend, spec: SandboxSpec, prepared: Prepared, cache: Path) -> Inside:
    """Ask, or remember what the same environment said before: package managers take their time to answer.

    Raises:
        SandboxError: ours.
    """
    known = cache / f"{backend.name}-{prepared.key.removeprefix('sha256:')}-{prepared.digest.removeprefix('sha256:')}"
    try:
        return _read(known.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        pass
    with backend.open(spec, prepared) as sandbox:
        done = sandbox.run(Command(line=_SCRIPT, cwd="/", timeout_sec=60))
    told = done.stdout.kept.decode("utf-8", "replace")
    write_atomic(known, told.encode())
    return _read(told)


def _read(told: str) -> Inside:
    found = dict(line[:_MAX_LINE].split("=", 1) for line in told.splitlines() if "=" in line)
    return Inside(
        os=_below(found, "os."),
        package_managers=_below(found, "pm.") or {"none": "absent"},
        locale={name: value for name, value in _below(found, "locale.").items() if value},
        python=found.get("python"),
    )


def _below(found: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in found.items() if name.startswith(prefix)}
