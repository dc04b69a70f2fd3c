"""The objects of one kind that do not belong to AgentBench: installed as plug-ins, or registered in this process."""

from __future__ import annotations

import hashlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentBenchError, InputError
from agentbench.plugins.discovery import PluginError, installed, load
from agentbench.plugins.kinds import Kind

F = TypeVar("F", bound=Callable[..., Any])
_PROCESS = os.urandom(16).hex()


@dataclass(frozen=True, slots=True)
class Used:
    """A plug-in or a registered object that a run uses, as its manifest states it."""

    kind: Kind
    name: str
    distribution: str | None
    """The package; None for an object of the process that started the run."""
    version: str | None


class Extensions(Generic[F]):
    """Finds objects of one kind by name, besides the built-in ones, whose names cannot be taken."""

    def __init__(self, kind: Kind, built_in: Collection[str]) -> None:
        self.kind = kind
        self.built_in = built_in
        self._registered: dict[str, F] = {}
        self._registrations: Counter[str] = Counter()

    def names(self) -> tuple[str, ...]:
        """Return the names of registered and installed objects that can be used."""
        names = {*self._registered, *(plugin.name for plugin in installed(self.kind))}
        return tuple(sorted(names.difference(self.built_in)))

    def has(self, name: str) -> bool:
        """Return whether there is an object of that name, without importing it."""
        return name in self._registered or name in self.names()

    def get(self, name: str) -> F:
        """Return the object of that name.

        Raises:
            PluginError: there is none, or it cannot be loaded.
        """
        if name in self._registered:
            return self._registered[name]
        return cast("F", load(self.kind, name, self.built_in))

    def register(self, name: str, function: F) -> None:
        """Add an object of this process. Registering a name again replaces its object; an installed one has its name already.

        Raises:
            InputError: the name is taken by a built-in object or by an installed plug-in, or the object is not a function.
        """
        if not callable(function):
            raise InputError(f"{self.kind.words} '{name}' is not a function, but {type(function).__name__}")
        if name in self.built_in:
            raise InputError(f"there is a built-in {self.kind.words} '{name}'", remedy="choose another name")
        taken = [plugin for plugin in installed(self.kind) if plugin.name == name]
        if taken and self.get(name) is function:
            return
        if taken:
            raise InputError(f"{taken[0].origin} has a {self.kind.words} '{name}'", remedy="choose another name")
        self._registered[name] = function
        self._registrations[name] += 1

    def registered(self) -> tuple[str, ...]:
        """Return the names of objects of this process, which no other process has."""
        return tuple(self._registered)

    @contextmanager
    def calling(self, name: str) -> Iterator[None]:
        """Name the object and its package in errors that are not its own messages to the user.

        Raises:
            PluginError: the object raised an unexpected exception.
        """
        try:
            yield
        except AgentBenchError:
            raise
        except Exception as error:
            used = self.used(name)
            origin = f" of {used.distribution} {used.version}" if used and used.distribution else ""
            msg = f"{self.kind.words} '{name}'{origin} raised {type(error).__name__}: {error}"
            raise PluginError(msg) from error

    def fingerprint(self, name: str) -> str:
        """Return text that changes with the object, as the key of a cached result that depends on it.

        It covers the version of the package and the module that defines the object. Results of a registered object are
        not found again by another process.

        Raises:
            PluginError: there is no such object, or it cannot be loaded.
        """
        if name in self._registered:
            return f"{_PROCESS}:{self._registrations[name]}"
        used, module = self.used(name), sys.modules[self.get(name).__module__]
        content = Path(module.__file__).read_bytes() if module.__file__ else b""
        return f"{used}:{hashlib.sha256(content).hexdigest()}"

    def used(self, name: str) -> Used | None:
        """Describe the origin of an object for a manifest; None if it is built in or unknown."""
        if name in self.built_in:
            return None
        if name in self._registered:
            return Used(self.kind, name, None, None)
        plugin = next((plugin for plugin in installed(self.kind) if plugin.name == name), None)
        return None if plugin is None else Used(self.kind, name, plugin.distribution, plugin.version)
