"""Every kind of extension, and registering objects of a script or a notebook."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from agentbench.api.exporters import OTHER_EXPORTERS
from agentbench.api.report_sections import OTHER_SECTIONS
from agentbench.authoring.formats.importer import OTHER_IMPORTERS
from agentbench.core.errors import InputError
from agentbench.execution.extensions import run_extensions
from agentbench.models.protocol import Model
from agentbench.models.python_model import PYTHON_MODELS
from agentbench.plugins.extensions import Extensions
from agentbench.plugins.kinds import Kind

F = TypeVar("F", bound=Callable[..., Any])

EXTENSIONS: Mapping[Kind, Extensions[Any]] = {
    extensions.kind: extensions for extensions in (*run_extensions(), OTHER_IMPORTERS, OTHER_EXPORTERS, OTHER_SECTIONS)
}


def register(kind: str, name: str, function: Callable[..., Any]) -> None:
    """Make an object of this process known by a name, as if a package had it as a plug-in.

    `ab.run` and others take objects directly; this is for names in files, such as `parser` in `task.yaml`. Registering a
    name again replaces the object.

    Raises:
        InputError: there is no such kind, or the name is taken.

    Examples:
        >>> import agentbench as ab
        >>> ab.register("check", "all_lines_pass", lambda output: ab.TestResults({"all": "passed"}))
        >>> ab.register("scorer", "command", lambda workspace, options: None)
        Traceback (most recent call last):
        ...
        agentbench.core.errors.InputError: there is a built-in scorer 'command'
    """
    if kind not in tuple(Kind):
        raise InputError(f"unknown kind of plug-in '{kind}'", remedy=f"use one of: {', '.join(Kind)}")
    EXTENSIONS[Kind(kind)].register(name, function)


def named(kind: Kind, given: str | Callable[..., Any]) -> str:
    """Return a name, or register an object under the name of its function and return that.

    Raises:
        InputError: the object has no name, or the name is taken.
    """
    if isinstance(given, str):
        return given
    name = getattr(given, "__name__", type(given).__name__)
    if not name.isidentifier():
        remedy = "decorate it with @ab.agent" if kind is Kind.AGENT else "define it with `def`"
        raise InputError(f"{kind.words} must be a name, or a function that has a name", remedy=remedy)
    register(kind, name, given)
    return name


def named_model(given: str | Model | None) -> str | None:
    """Return the text that selects a model, after registering one that was passed in.

    Raises:
        InputError: the object is not a model.
    """
    if given is None or isinstance(given, str):
        return given
    name = getattr(given, "name", None)
    if not isinstance(name, str) or not name or not callable(getattr(given, "complete", None)):
        raise InputError("model must be a name, or an object with `name` and `complete`, as the protocol ab.Model")
    PYTHON_MODELS[name] = given
    return f"python:{name}"
