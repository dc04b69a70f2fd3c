"""Find and load plug-ins that installed packages declare. Listing them reads metadata and imports nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.plugins.kinds import Kind

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plug-in that an installed package declares."""

    kind: Kind
    name: str
    distribution: str
    version: str
    value: str
    """The object that the entry point names, as `module:attribute`."""

    @property
    def origin(self) -> str:
        return f"{self.distribution} {self.version}".strip()

    def __str__(self) -> str:
        return f"{self.kind.words} '{self.name}' of {self.origin}"


class PluginError(InputError):
    """A plug-in cannot be used. The message names its package and version."""


def installed(kind: Kind) -> tuple[Plugin, ...]:
    """Return all plug-ins of a kind, by name and package."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - few commands look for plug-ins

    return tuple(sorted((_plugin(kind, point) for point in entry_points(group=kind.group)), key=_order))


def load(kind: Kind, name: str, built_in: Collection[str] = ()) -> Callable[..., Any]:
    """Import a plug-in and return its function.

    Raises:
        PluginError: it is not installed, cannot be imported, is not a function, or its name is not unique.
    """
    matches = [plugin for plugin in installed(kind) if plugin.name == name]
    if not matches:
        raise PluginError(f"no {kind.words} '{name}' is installed", remedy="`ab plugins` lists what is installed")
    return load_plugin(matches[0], built_in)


def load_plugin(plugin: Plugin, built_in: Collection[str] = ()) -> Callable[..., Any]:
    """Import one of the installed plug-ins.

    Raises:
        PluginError: as `load`.
    """
    from importlib.metadata import EntryPoint  # noqa: PLC0415 - few commands look for plug-ins

    _require_unique_name(plugin, built_in)
    try:
        loaded = EntryPoint(plugin.name, plugin.value, plugin.kind.group).load()
    except (Exception, SystemExit) as error:
        why = f"{type(error).__name__}: {error}"
        raise PluginError(f"cannot load {plugin} ({plugin.value}): {why}", remedy=_remedy(plugin)) from error
    if not callable(loaded):
        raise PluginError(f"{plugin} ({plugin.value}) is not a function", remedy=_remedy(plugin))
    function: Callable[..., Any] = loaded
    return function


def _require_unique_name(plugin: Plugin, built_in: Collection[str]) -> None:
    if plugin.name in built_in:
        msg = f"{plugin} has the name of a built-in {plugin.kind.words}"
        raise PluginError(msg, remedy=f"rename it, or uninstall {plugin.distribution}")
    others = [other for other in installed(plugin.kind) if other.name == plugin.name and other != plugin]
    if others:
        origins = " and ".join(sorted(other.origin for other in (plugin, *others)))
        msg = f"several packages have a {plugin.kind.words} '{plugin.name}': {origins}"
        raise PluginError(msg, remedy="uninstall all but one of them")


def _remedy(plugin: Plugin) -> str:
    return f"update or uninstall {plugin.distribution}"


def _plugin(kind: Kind, point: EntryPoint) -> Plugin:
    # Metadata that an interrupted installation left has neither name nor version.
    package, version = (point.dist.name, point.dist.version) if point.dist else ("", "")
    return Plugin(kind, point.name, package or "an unknown package", version or "", point.value)


def _order(plugin: Plugin) -> tuple[str, str]:
    return plugin.name, plugin.distribution
