"""The metadata of a prepared environment, as it is stored with its layer and read back."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping
from typing import Any

from agentbench.core.canonical import Json
from agentbench.sandbox.environments.layers import Layer
from agentbench.sandbox.protocol import Prepared, SetupStep
from agentbench.tree.beneath import DIRECTORY
from agentbench.tree.entry import Entry, Kind
from agentbench.tree.folder import NOTHING_CHANGED, FolderTree

KEYS = ("digest", "steps", "entries", "changed", "lockfiles", "details")
"""Present in every environment's metadata."""


def dump_steps(steps: Iterable[SetupStep]) -> list[Json]:
    return [
        {
            "command": step.command,
            "capture": step.capture,
            "exit_code": step.exit_code,
            "duration_us": round(step.duration_sec * 1e6),
            "timed_out": step.timed_out,
            "stdout": base64.b64encode(step.stdout).decode(),
            "stderr": base64.b64encode(step.stderr).decode(),
        }
        for step in steps
    ]


def dump_entries(entries: Iterable[Entry]) -> list[Json]:
    return [[_text(entry.path), entry.kind.value, entry.executable, entry.size, entry.sha256] for entry in entries]


def dump_paths(paths: Iterable[bytes]) -> list[Json]:
    return [_text(path) for path in paths]


def load(layer: Layer, *, key: str, backend: str, cached: bool) -> tuple[Prepared, Mapping[bytes, Entry]]:
    """Return the environment, and the entries of its workspace by path."""
    # The harness wrote this file under a lock and renamed it into place, so its format is known.
    metadata: Mapping[str, Any] = layer.metadata
    entries = {entry.path: entry for entry in map(_entry, metadata["entries"])}
    workspace = os.open(layer.tree / "workspace", DIRECTORY)
    prepared = Prepared(
        key=key,
        digest=metadata["digest"],
        steps=load_steps(metadata["steps"]),
        base_tree=FolderTree(workspace, known=entries, changed_fd=NOTHING_CHANGED),
        setup_changed=tuple(_bytes(path) for path in metadata["changed"]),
        lockfiles=dict(metadata["lockfiles"]),
        cached=cached,
        backend=backend,
        details=dict(metadata["details"]),
    )
    return prepared, entries


def load_steps(items: Any) -> tuple[SetupStep, ...]:  # noqa: ANN401 - JSON that `dump_steps` wrote
    return tuple(
        SetupStep(
            command=item["command"],
            capture=item["capture"],
            exit_code=item["exit_code"],
            duration_sec=item["duration_us"] / 1e6,
            timed_out=item["timed_out"],
            stdout=base64.b64decode(item["stdout"]),
            stderr=base64.b64decode(item["stderr"]),
        )
        for item in items
    )


def _entry(item: list[Any]) -> Entry:
    path, kind, executable, size, sha256 = item
    return Entry(_bytes(path), Kind(kind), executable, size, sha256)


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
