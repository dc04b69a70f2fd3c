"""Facts about a prepared environment, observed from inside a sandbox on it.

The host can change between runs: a new kernel, another package manager in a folder that sandboxes share. Everything that is
cheap to ask is observed for every run. Versions of package managers and packages are slow to ask for, so they are cached for
the programs with the size and modification time that were found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path

from agentbench.acceptance.cache import key_of
from agentbench.core.command import Command
from agentbench.core.dataclass import dataclass
from agentbench.record.durable import write_atomic
from agentbench.sandbox.protocol import Backend, Prepared, Sandbox, SandboxSpec

_TOOLS = "pip uv npm cargo go mvn"
# Each script prints one `key=value` line per fact. A tool that is missing prints nothing, and the manifest declares it absent.
# The variables follow as the kernel has them, each with a zero byte at its end.
_OBSERVE = rf"""
. /etc/os-release 2>/dev/null; echo "os.name=${{PRETTY_NAME:-unknown}}"
set -- $(uname -srm)
echo "os.kernel=$1 $2"
echo "os.machine=$3"
echo "locale.LANG=${{LANG:-}}"
echo "locale.LC_ALL=${{LC_ALL:-}}"
echo "locale.TZ=${{TZ:-}}"
echo "python=$(python -V 2>&1)"
IFS='
'
stat -Lc 'program.%n=%s %Y' $(for tool in {_TOOLS}; do command -v $tool; done) 2>/dev/null
printf '\0'
cat /proc/$$/environ
"""
# `pip --version` imports all of pip. The interpreter of its script prints the same line ten times as fast.
_VERSIONS = f"""
version_of() {{
  if [ "$1" = pip ] && read -r first < "$(command -v pip)"; then
    "${{first#??}}" -c '
import os, pip, sys
print("pip %s from %s (python %d.%d)" % (pip.__version__, os.path.dirname(pip.__file__), *sys.version_info[:2]))' && return
  fi
  $1 --version
}}
for tool in {_TOOLS}; do
  version=$(version_of $tool 2>/dev/null) && echo "pm.$tool=$(echo "$version" | head -n 1)"
done
python -I -c '
from importlib.metadata import distributions
for found in distributions(): print("package.%s=%s" % (found.metadata["Name"], found.version))
' 2>/dev/null
"""
_MAX_LINE = 300


@dataclass(frozen=True, slots=True)
class EnvironmentFacts:
    """Operating system, package managers, locale, declared variables and Python packages inside a sandbox."""

    os: Mapping[str, str] = field(default_factory=dict)
    package_managers: Mapping[str, str] = field(default_factory=dict)
    locale: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    """The variables that the task declares, as a command sees them."""
    python: str | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    """Installed Python packages with their versions."""
    observation_problem: str | None = None
    """Why the commands of a program cannot be observed here; None if they can."""


def read_environment_facts(backend: Backend, spec: SandboxSpec, prepared: Prepared, cache: Path) -> EnvironmentFacts:
    """Observe the facts from inside a sandbox like the agent's. `cache` keeps the versions of package managers and packages.

    Raises:
        SandboxError: the harness failed.
    """
    with backend.open(spec, prepared) as sandbox:
        lines, _, variables = _run(sandbox, _OBSERVE).partition("\0")
        facts, environment = _parse(lines), _items(variables.split("\0"))
        programs = sorted(_with_prefix(facts, "program.").items())
        key = key_of(backend.name, prepared.key, prepared.digest, *(f"{tool} {program}" for tool, program in programs))
        installed = _parse(_cached(cache / f"packages-{key}", sandbox))
        observation_problem = sandbox.observation_problem
    return EnvironmentFacts(
        os=_with_prefix(facts, "os."),
        package_managers=_with_prefix(installed, "pm.") or {"none": "absent"},
        locale={name: value for name, value in _with_prefix(facts, "locale.").items() if value},
        environment={name: environment[name] for name in spec.env if name in environment},
        python=facts.get("python"),
        packages=_with_prefix(installed, "package."),
        observation_problem=observation_problem,
    )


def _cached(path: Path, sandbox: Sandbox) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        output = _run(sandbox, _VERSIONS)
        write_atomic(path, output.encode())
        return output


def _run(sandbox: Sandbox, script: str) -> str:
    done = sandbox.run(Command(line=script, cwd="/", timeout_sec=60))
    return done.stdout.kept.decode("utf-8", "replace")


def _parse(output: str) -> dict[str, str]:
    return _items(line[:_MAX_LINE] for line in output.splitlines())


def _items(texts: Iterable[str]) -> dict[str, str]:
    return dict(text.split("=", 1) for text in texts if "=" in text)


def _with_prefix(facts: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in facts.items() if name.startswith(prefix)}
