"""The materials of attempts on a node: fetched once, in memory while attempts use them, and for a while afterwards."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path

from agentbench.contract.load import LoadedTask
from agentbench.core.dataclass import dataclass
from agentbench.execution.cluster.content import Address
from agentbench.execution.cluster.materials import Fetch, unpack_materials
from agentbench.execution.cluster.node_lab import NodeLab
from agentbench.execution.config import Configuration

KEPT_BYTES = 64 << 20
"""Most bytes of materials in memory that no attempt uses."""


@dataclass(eq=False, slots=True)
class _Kept:
    address: Address
    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0
    unpacked: tuple[LoadedTask, Configuration] | None = None


class NodeMaterials:
    """Shared by the attempts on one node."""

    def __init__(self, fetch: Fetch, memory: Path, lab: NodeLab) -> None:
        self._fetch = fetch
        self._memory = memory
        self._lab = lab
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}
        """By digest, the least recently used first."""

    @contextmanager
    def use(self, address: Address) -> Iterator[tuple[LoadedTask, Configuration]]:
        """Fetch materials unless the node has them. They stay while this context is open.

        Raises:
            WorkspaceError: they cannot be fetched or written.
        """
        with self._lock:
            kept = self._kept.pop(address.sha256, None) or _Kept(address)
            self._kept[address.sha256] = kept
            kept.users += 1
        try:
            with kept.lock:
                if kept.unpacked is None:
                    kept.unpacked = self._unpack(address)
            yield kept.unpacked
        finally:
            with self._lock:
                kept.users -= 1
            self._remove_unused()

    def _unpack(self, address: Address) -> tuple[LoadedTask, Configuration]:
        try:
            return unpack_materials(address, self._fetch, self._memory, self._lab)
        except BaseException:
            shutil.rmtree(self._memory / address.sha256, ignore_errors=True)
            raise

    def _remove_unused(self) -> None:
        with self._lock:
            unused = [kept for kept in self._kept.values() if not kept.users]
            total = sum(kept.address.size for kept in unused)
            for kept in unused:
                if total <= KEPT_BYTES:
                    return
                total -= kept.address.size
                del self._kept[kept.address.sha256]
                if kept.unpacked is not None:
                    self._lab.forget_task(kept.unpacked[0])
                shutil.rmtree(self._memory / kept.address.sha256, ignore_errors=True)
