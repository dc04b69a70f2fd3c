"""Pin what pip would install, by version and digest."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import field

from agentbench.authoring.environment.release_dates import PIN, order_of, with_constraints
from agentbench.core.dataclass import dataclass
from agentbench.core.package_name import normal_name
from agentbench.workspace.source.package_index import ProjectFiles, Release, files_of_version

_LOCK_FILE = '"$HOME/requirements.lock"'


class CannotPin(Exception):
    """A release cannot be pinned; the message says which and why."""


@dataclass
class Pinner:
    """Takes digests from the configured indexes."""

    files: ProjectFiles = field(default_factory=ProjectFiles)

    def commands(
        self, releases: Sequence[str], python: str, *, editable: Sequence[str], limits: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Return setup commands that install exactly these releases.

        `limits` constrain what build backends install for themselves.

        Raises:
            CannotPin: a release has no version or no digest.
        """
        pins: dict[str, str] = {}
        for line in releases:
            match = PIN.fullmatch(line.strip())
            if match is None:
                raise CannotPin(f"`{line.strip()}` has no version in an index")
            pins[match[1]] = match[2]
        if not pins:
            raise CannotPin("setup installs no releases")
        self.files.look_up(pins)
        files = {name: self._files(name, version, python) for name, version in pins.items()}
        lines = [
            f"{name}=={version} "
            + " ".join(f"--hash=sha256:{digest}" for digest in _digests(name, version, files[name]))
            for name, version in pins.items()
        ]
        lock = f"cat > {_LOCK_FILE} <<'LOCK'\n" + "\n".join(sorted(lines)) + "\nLOCK"
        install = f"python -m pip install --no-deps --require-hashes -r {_LOCK_FILE}"
        projects = " ".join(f"-e {shlex.quote(project)}" for project in editable)
        project = (f"python -m pip install --no-deps {projects}",) if editable else ()
        if all(any(_needs_no_build(file.filename) for file in fitting) for fitting in files.values()):
            return (f"{lock}\n{install}", *(with_constraints(project, limits) if project else ()))
        # pip rejects a constraint that contradicts a pin, even if it is meant for builds.
        fitting_limits = [limit for limit in limits if not _excludes(limit, pins)]
        return (lock, *with_constraints([install, *project], fitting_limits))

    def _files(self, name: str, version: str, python: str) -> list[Release]:
        files = files_of_version(self.files.of(name), name, version)
        return [file for file in files if _may_fit(file.filename, f"cp{python.replace('.', '')}")]


def _digests(name: str, version: str, files: Sequence[Release]) -> list[str]:
    digests = list(dict.fromkeys(file.sha256 for file in files if file.sha256))
    if not digests:
        raise CannotPin(
            f"no index publishes a digest of {name} {version}"
            if files
            else f"no index has a file of {name} {version} for this interpreter on Linux"
        )
    return digests


def _excludes(limit: str, pins: Mapping[str, str]) -> bool:
    """Return whether a constraint `name<=version` excludes the pinned release."""
    name, _, highest = limit.partition("<=")
    pinned = next((version for pin, version in pins.items() if normal_name(pin) == normal_name(name)), None)
    return bool(highest) and pinned is not None and order_of(pinned) > order_of(highest)


def _needs_no_build(filename: str) -> bool:
    """Return whether a file that may fit is a wheel for this machine."""
    wheel_platform = filename.removesuffix(".whl").split("-")[-1]
    return filename.endswith(".whl") and (
        wheel_platform == "any" or ("manylinux" in wheel_platform and platform.machine() in wheel_platform)
    )


def _may_fit(filename: str, tag: str) -> bool:
    """Return whether a file is a source distribution, a pure wheel, or a wheel for this interpreter on Linux."""
    if not filename.endswith(".whl"):
        return True
    pythons, abi, wheel_platform = filename.removesuffix(".whl").split("-")[-3:]
    # Wheels of programs such as ruff are for one platform and any Python: `py3-none-manylinux_2_17_x86_64`.
    runs_here = tag in pythons.split(".") or "abi3" in abi or abi == "none"
    return wheel_platform == "any" or ("linux" in wheel_platform and runs_here)
