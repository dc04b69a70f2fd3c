"""Pin what pip would install, by version and digest."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentbench.authoring.environment.release_dates import PIN, with_constraints
from agentbench.workspace.source.package_index import ProjectFiles, files_of_version

_LOCK_FILE = '"$HOME/requirements.lock"'


@dataclass
class Pinner:
    """Takes digests from the configured indexes."""

    files: ProjectFiles = field(default_factory=ProjectFiles)

    def commands(
        self, releases: Sequence[str], python: str, *, editable: Sequence[str], limits: Sequence[str] = ()
    ) -> tuple[str, ...] | None:
        """Return setup commands that install exactly these releases, or None if one of them cannot be pinned.

        `limits` constrain what build backends install for themselves.
        """
        matches = [PIN.fullmatch(line.strip()) for line in releases]
        pins = [(match[1], match[2]) for match in matches if match]
        if not pins or len(pins) < len(matches):
            return None
        self.files.look_up(name for name, _ in pins)
        lines: list[str] = []
        for name, version in pins:
            digests = self._digests(name, version, python)
            if not digests:
                return None
            lines.append(f"{name}=={version} " + " ".join(f"--hash=sha256:{digest}" for digest in digests))
        install = f"python -m pip install --no-deps --require-hashes -r {_LOCK_FILE}"
        projects = " ".join(f"-e {shlex.quote(project)}" for project in editable)
        lock = f"cat > {_LOCK_FILE} <<'LOCK'\n" + "\n".join(sorted(lines)) + f"\nLOCK\n{install}"
        return (
            lock,
            *(with_constraints([f"python -m pip install --no-deps {projects}"], limits) if editable else ()),
        )

    def _digests(self, name: str, version: str, python: str) -> list[str]:
        files = files_of_version(self.files.of(name), name, version)
        fitting = [file for file in files if _may_fit(file.filename, f"cp{python.replace('.', '')}")]
        return list(dict.fromkeys(file.sha256 for file in fitting if file.sha256))


def _may_fit(filename: str, tag: str) -> bool:
    """Return whether a file is a source distribution, a pure wheel, or a wheel for this interpreter on Linux."""
    if not filename.endswith(".whl"):
        return True
    pythons, abi, platform = filename.removesuffix(".whl").split("-")[-3:]
    # Wheels of programs such as ruff are for one platform and any Python: `py3-none-manylinux_2_17_x86_64`.
    runs_here = tag in pythons.split(".") or "abi3" in abi or abi == "none"
    return platform == "any" or ("linux" in platform and runs_here)
