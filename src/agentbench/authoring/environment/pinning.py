"""Pin an installed environment: every distribution by version and digest."""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentbench.authoring.environment.release_dates import with_constraints
from agentbench.core.errors import SourceError
from agentbench.core.package_settings import PackageSettings, host_settings
from agentbench.workspace.source.package_index import Release, find_release

_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9._+!-]*)")
_FILE = '"$HOME/requirements.lock"'


@dataclass
class Pinner:
    """Looks up digests on the configured indexes, once per release."""

    settings: PackageSettings = field(default_factory=host_settings)
    _known: dict[str, list[Release]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def commands(
        self, freeze: Sequence[str], python: str, *, editable: Sequence[str], limits: Sequence[str] = ()
    ) -> tuple[str, ...] | None:
        """Return setup commands that install exactly what `pip freeze` listed, or None if something cannot be pinned.

        `limits` constrain what build backends install for themselves.
        """
        lines: list[str] = []
        for line in freeze:
            text = line.strip()
            if not text or text.startswith(("#", "-e ", "-e\t")):
                continue
            match = _PIN.fullmatch(text)
            digests = self._digests(match[1], match[2], python) if match else []
            if not digests:
                return None
            lines.append(f"{text} " + " ".join(f"--hash=sha256:{digest}" for digest in digests))
        if not lines:
            return None
        install = f"python -m pip install --no-deps --require-hashes -r {_FILE}"
        projects = " ".join(f"-e {shlex.quote(project)}" for project in editable)
        lock = f"cat > {_FILE} <<'LOCK'\n" + "\n".join(sorted(lines)) + f"\nLOCK\n{install}"
        return (
            lock,
            *(with_constraints([f"python -m pip install --no-deps {projects}"], limits) if editable else ()),
        )

    def _digests(self, name: str, version: str, python: str) -> list[str]:
        request = f"pypi:{name}=={version}"
        with self._lock:
            known = self._known.get(request)
        if known is None:
            try:
                known, _ = find_release(request, self.settings)
            except SourceError:
                known = []
            with self._lock:
                self._known[request] = known
        tag = "cp" + python.replace(".", "")
        fitting = [release for release in known if release.sha256 and _may_fit(release.filename, tag)]
        return list(dict.fromkeys(release.sha256 for release in fitting if release.sha256))


def _may_fit(filename: str, tag: str) -> bool:
    """Return whether a file is a source distribution, a pure wheel, or a wheel for this interpreter on Linux."""
    if not filename.endswith(".whl"):
        return True
    return filename.endswith("-any.whl") or ("linux" in filename and (tag in filename or "abi3" in filename))
