"""A prepared environment as it is written beside its frozen layer, and read back."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from agentbench.core.canonical import Json
from agentbench.sandbox.environments.freeze import open_folder
from agentbench.sandbox.environments.layers import Layer
from agentbench.sandbox.protocol import Prepared, SetupStep
from agentbench.tree.entry import Entry, Kind
from agentbench.tree.folder import NOTHING_CHANGED, FolderTree

KEYS = ("digest", "steps", "entries", "changed", "lockfiles", "details")
"""What is noted of every environment."""


def dump_steps(steps: Iterable[SetupStep]) -> list[Json]:
    return [
        {
            "command": step.command,
            "capture": step.capture,
            "exit_code": step.exit_code,
            "duration_us": int(step.duration_sec * 1e6),
            "timed_out": step.timed_out,
            "stdout": base64.b64encode(step.stdout).decode(),
            "stderr": base64.b64encode(step.stderr).decode(),
        }
        for step in steps
    ]


def dump_entries(entries: Iterable[Entry]) -> list[Json]:
    return [[_text(e.path), e.kind.value, e.executable, e.size, e.sha256] for e in entries]


def dump_paths(paths: Iterable[bytes]) -> list[Json]:
    return [_text(path) for path in paths]


def load(layer: Layer, *, key: str, cached: bool) -> tuple[Prepared, Mapping[bytes, Entry]]:
    """The environment and the entries of its workspace."""
    # The file is our own, written under lock and renamed into place: its shape is known.
    meta: Mapping[str, Any] = layer.meta
    known = {entry.path: entry for entry in map(_entry, meta["entries"])}
    prepared = Prepared(
        key=key,
        digest=meta["digest"],
        steps=load_steps(meta["steps"]),
        base_tree=FolderTree(open_folder(layer.tree / "workspace"), known=known, changed_fd=NOTHING_CHANGED),
        setup_changed=tuple(_bytes(path) for path in meta["changed"]),
        lockfiles=dict(meta["lockfiles"]),
        cached=cached,
        backend="bwrap",
        details=dict(meta["details"]),
    )
    return prepared, known


def load_steps(items: Any) -> tuple[SetupStep, ...]:  # noqa: ANN401 - our own file, read back
    return tuple(_step(item) for item in items)


def _entry(item: list[Any]) -> Entry:
    path, kind, executable, size, sha256 = item
    return Entry(_bytes(path), Kind(kind), executable, size, sha256)


def _step(item: Mapping[str, Any]) -> SetupStep:
    return SetupStep(
        command=item["command"],
        capture=item["capture"],
        exit_code=item["exit_code"],
        duration_sec=item["duration_us"] / 1e6,
        timed_out=item["timed_out"],
        stdout=base64.b64decode(item["stdout"]),
        stderr=base64.b64decode(item["stderr"]),
    )


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
