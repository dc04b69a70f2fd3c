"""Facts about a prepared environment, read once from inside a sandbox on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentbench.core.command import Command
from agentbench.record.durable import write_atomic
from agentbench.sandbox.protocol import Backend, Prepared, SandboxSpec

# Prints one `key=value` line per fact. A tool that is missing prints nothing, and the manifest declares it absent.
_SCRIPT = r"""
. /etc/os-release 2>/dev/null; echo "os.name=${PRETTY_NAME:-unknown}"
echo "os.kernel=$(uname -sr)"
echo "os.machine=$(uname -m)"
echo "locale.LANG=${LANG:-}"
echo "locale.LC_ALL=${LC_ALL:-}"
echo "locale.TZ=${TZ:-}"
echo "python=$(python -V 2>&1)"
for tool in pip uv npm cargo go mvn; do
  version=$($tool --version 2>/dev/null) && echo "pm.$tool=$(echo "$version" | head -n 1)"
done
"""
_MAX_LINE = 300


@dataclass(frozen=True, slots=True)
class EnvironmentFacts:
    """Operating system, package managers and locale inside a sandbox."""

    os: Mapping[str, str] = field(default_factory=dict)
    package_managers: Mapping[str, str] = field(default_factory=dict)
    locale: Mapping[str, str] = field(default_factory=dict)
    python: str | None = None


def read_environment_facts(backend: Backend, spec: SandboxSpec, prepared: Prepared, cache: Path) -> EnvironmentFacts:
    """Read the facts from inside a sandbox, or from the cache: package managers are slow to print their versions.

    Raises:
        SandboxError: the harness failed.
    """
    cached = cache / f"{backend.name}-{prepared.key.removeprefix('sha256:')}-{prepared.digest.removeprefix('sha256:')}"
    try:
        return _parse(cached.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        pass
    with backend.open(spec, prepared) as sandbox:
        done = sandbox.run(Command(line=_SCRIPT, cwd="/", timeout_sec=60))
    output = done.stdout.kept.decode("utf-8", "replace")
    write_atomic(cached, output.encode())
    return _parse(output)


def _parse(output: str) -> EnvironmentFacts:
    facts = dict(line[:_MAX_LINE].split("=", 1) for line in output.splitlines() if "=" in line)
    return EnvironmentFacts(
        os=_with_prefix(facts, "os."),
        package_managers=_with_prefix(facts, "pm.") or {"none": "absent"},
        locale={name: value for name, value in _with_prefix(facts, "locale.").items() if value},
        python=facts.get("python"),
    )


def _with_prefix(facts: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in facts.items() if name.startswith(prefix)}
