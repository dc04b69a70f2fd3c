"""Where a backend's sandboxes come from: an owner's folder, its cgroups and its spawner, which live and end together."""

from __future__ import annotations

from pathlib import Path

from agentbench.sandbox.bwrap.spawner import Spawner
from agentbench.sandbox.cgroups import Cgroups, discover
from agentbench.sandbox.state import Owner, remove_leftovers


class Nursery:
    def __init__(self, state: Path) -> None:
        """
        Raises:
            SandboxError: the state folder cannot be written or the spawner cannot be started.
        """
        remove_leftovers(state)
        self._owner = Owner(state)
        self.cgroups: Cgroups = discover(self._owner.name)
        # Written down before anything is made, so that whoever comes after us finds all of it.
        self._owner.declare(self.cgroups.owner_dirs())
        try:
            self.cgroups.create_owner_dirs()
        except OSError:
            self.cgroups = Cgroups((), self._owner.name)
        self.spawner = Spawner(self._owner)

    @property
    def folder(self) -> Path:
        """A folder that goes with this nursery."""
        return self._owner.folder

    def alive(self) -> bool:
        return self.spawner.alive()

    def close(self) -> None:
        """End every sandbox that came from here and leave nothing behind."""
        self.spawner.close()
        self._owner.release()
