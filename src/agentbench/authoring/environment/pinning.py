"""An environment that setup found once, pinned: every distribution by version and digest."""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentbench.authoring.environment.release_dates import constrained
from agentbench.core.errors import SourceError
from agentbench.core.package_settings import PackageSettings, host_settings
from agentbench.workspace.source.package_index import Release, find_release

_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9._+!-]*)")
_FILE = '"$HOME/requirements.lock"'


@dataclass
class Pinner:
    """Asks the configured indexes for digests, each release once."""

    settings: PackageSettings = field(default_factory=host_settings)
    _known: dict[str, list[Release]] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def commands(
        self, freeze: Sequence[str], python: str, *, editable: Sequence[str], limits: Sequence[str] = ()
    ) -> tuple[str, ...] | None:
        """Setup commands that install exactly what `pip freeze` listed; None when something of it cannot be pinned.

        `limits`: constraints for what a build backend fetches for itself.
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
        projects = " ".join(f"-e {shlex.quote(one)}" for one in editable)
        lock = f"cat > {_FILE} <<'LOCK'\n" + "\n".join(sorted(lines)) + f"\nLOCK\n{install}"
        return (
            lock,
            *(constrained([f"python -m pip install --no-deps {projects}"], limits) if editable else ()),
        )

    def _digests(self, name: str, version: str, python: str) -> list[str]:
        request = f"pypi:{name}=={version}"
        with self._guard:
            known = self._known.get(request)
        if known is None:
            try:
                known, _ = find_release(request, self.settings)
            except SourceError:
                known = []
            with self._guard:
                self._known[request] = known
        tag = "cp" + python.replace(".", "")
        fitting = [one for one in known if one.sha256 and _may_fit(one.filename, tag)]
        return list(dict.fromkeys(one.sha256 for one in fitting if one.sha256))


def _may_fit(filename: str, tag: str) -> bool:
    """A source, a wheel for anything, or one for this interpreter on Linux: other files would only make the list long."""
    if not filename.endswith(".whl"):
        return True
    return filename.endswith("-any.whl") or ("linux" in filename and (tag in filename or "abi3" in filename))
