"""Find the secrets of a base repository, once per content and version of the rules.

The result depends only on the content: the limits are sizes and counts, never time. It is cached in a file that only its owner
can read, because it holds the values.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from pathlib import Path

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import WorkspaceError
from agentbench.workspace.source.snapshot import Snapshot

RULES = 2
"""Version of our rules. Increase it when they find other values or find them in another order."""
DETECT_SECRETS = "1.5.0"
"""The version that pyproject.toml pins. Asking for the installed one would be slow in every grading."""
RULES_VERSION = f"{RULES}/detect-secrets-{DETECT_SECRETS}"
MAX_FILE = 1024 * 1024
MAX_TOTAL = 128 * 1024 * 1024
MAX_SECRETS = 500
MAX_PLACES = 20
_BINARY_PROBE = 8192


@dataclass(frozen=True, slots=True)
class RepositorySecret:
    """One secret value and where it occurs first, as `path:line`."""

    value: str
    kind: str
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RepositorySecrets:
    """The secrets of a base repository in the order of path and line, which numbers them."""

    rules: str
    secrets: tuple[RepositorySecret, ...] = ()
    searched_files: int = 0
    skipped_files: int = 0
    """Files that are too large, or that come after the limit of the total size. Binary files are not counted."""
    complete: bool = True
    """False if there are more secrets than are kept."""

    @property
    def values(self) -> tuple[str, ...]:
        return tuple(secret.value for secret in self.secrets)


def repository_secrets(snapshot: Snapshot, folder: Path) -> RepositorySecrets:
    """Return the secrets of a base repository, from the cache in `folder` if it was searched before.

    Raises:
        WorkspaceError: the repository cannot be read, or the cache cannot be written.
    """
    name = f"{snapshot.digest.removeprefix('sha256:')}-{RULES_VERSION.replace('/', '-')}.json"
    cached = _read(folder / name)
    if cached is not None:
        return cached
    try:
        found = scan(snapshot.folder)
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / name, found)
    except OSError as error:
        raise WorkspaceError(f"cannot search the base repository for secrets: {error}") from error
    return found


def scan(folder: Path) -> RepositorySecrets:
    """Search every text file of a repository outside `.git`, in the order of their paths."""
    from agentbench.workspace.secrets.rules import find_secrets  # noqa: PLC0415 - a repository is searched once

    places: dict[str, list[str]] = {}
    kinds: dict[str, str] = {}
    total = searched = skipped = 0
    complete = True
    for path in _files(os.fsencode(folder)):
        content = _content(os.path.join(os.fsencode(folder), path))
        if content is None:
            continue
        if len(content) > MAX_FILE or total + len(content) > MAX_TOTAL:
            skipped += 1
            continue
        searched += 1
        total += len(content)
        name = path.decode("utf-8", "backslashreplace")
        for match in find_secrets(name, content):
            if match.value not in places and len(places) == MAX_SECRETS:
                complete = False
                continue
            kinds.setdefault(match.value, match.kind)
            listed = places.setdefault(match.value, [])
            if len(listed) < MAX_PLACES:
                listed.append(f"{name}:{match.line}")
    secrets = tuple(RepositorySecret(value, kinds[value], tuple(listed)) for value, listed in places.items())
    return RepositorySecrets(RULES_VERSION, secrets, searched, skipped, complete)


def _files(root: bytes) -> list[bytes]:
    paths = []
    for base, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name != b".git"]
        paths += [os.path.relpath(os.path.join(base, name), root) for name in files]
    return sorted(paths)


def _content(path: bytes) -> bytes | None:
    """Read a regular text file, up to one byte more than the limit. None for links and binary files."""
    info = os.lstat(path)
    if not stat.S_ISREG(info.st_mode):
        return None
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        content = file.read(MAX_FILE + 1)
    return None if b"\0" in content[:_BINARY_PROBE] else content


def _read(path: Path) -> RepositorySecrets | None:
    """Read a cached result; None if it is missing or damaged."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        value = json.loads(path.read_bytes())
        secrets = tuple(
            RepositorySecret(entry["value"], entry["kind"], tuple(entry["places"])) for entry in value.pop("secrets")
        )
        return RepositorySecrets(secrets=secrets, **value)
    return None


def _write(path: Path, found: RepositorySecrets) -> None:
    value = {
        "rules": found.rules,
        "secrets": [{"value": secret.value, "kind": secret.kind, "places": secret.places} for secret in found.secrets],
        "searched_files": found.searched_files,
        "skipped_files": found.skipped_files,
        "complete": found.complete,
    }
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    # Surrogates stand for bytes that are not UTF-8; ASCII escapes keep them.
    data = json.dumps(value, ensure_ascii=True).encode()
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(data)
    temporary.rename(path)
