"""A `dataclass` decorator that is quick to define. `ab grade` defines more than two hundred dataclasses.

The standard library compiles six methods for each class, which took a sixth of the CPU time of `ab grade`. Here only
`__init__` is compiled, and all classes share the other methods. Type checkers, `replace`, `asdict` and `fields` treat
the classes as dataclasses of the standard library. One limit: they cannot inherit from other dataclasses.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, *, frozen: bool = False, eq: bool = True, slots: bool = False) -> Any:
        """Add the methods of a dataclass to a class, as `dataclasses.dataclass` does with the same arguments."""
        if cls is None:
            return lambda bare: _build(bare, frozen=frozen, eq=eq, slots=slots)
        return _build(cls, frozen=frozen, eq=eq, slots=slots)


__all__ = ["dataclass"]


def _build(bare: type, *, frozen: bool, eq: bool, slots: bool) -> Any:
    bare.__doc__ = bare.__doc__ or bare.__name__
    cls: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(bare)
    defined = vars(bare)
    cls.__init__ = _initializer(cls, frozen=frozen)
    if "__repr__" not in defined:
        cls.__repr__ = _represent
    if eq:
        cls._compared = attrgetter("__class__", *(f.name for f in dataclasses.fields(cls) if f.compare))
        if "__eq__" not in defined:
            cls.__eq__ = _equal
        if defined.get("__hash__") is None:
            cls.__hash__ = _hash if frozen else None
    if frozen:
        cls.__setattr__, cls.__delattr__ = _refuse_assignment, _refuse_deletion
    if frozen and slots:
        cls.__getstate__, cls.__setstate__ = _get_state, _set_state
    return cls


def _initializer(cls: type, *, frozen: bool) -> Any:
    """Return an `__init__` that takes the fields, calls factories of defaults and then `__post_init__`."""
    scope: dict[str, Any] = {"_absent": object(), "_assign": object.__setattr__}
    parameters, lines = ["self"], []
    for field in dataclasses.fields(cls):
        value = field.name
        if field.default_factory is not dataclasses.MISSING:
            scope[f"_make_{field.name}"] = field.default_factory
            parameter = f"{field.name}=_absent"
            value = f"_make_{field.name}()"
            if field.init:
                value += f" if {field.name} is _absent else {field.name}"
        elif field.default is not dataclasses.MISSING:
            scope[f"_default_{field.name}"] = field.default
            parameter = f"{field.name}=_default_{field.name}"
            value = field.name if field.init else f"_default_{field.name}"
        elif field.init:
            parameter = field.name
        else:
            continue  # `__post_init__` sets it
        if field.init:
            parameters.append(parameter)
        lines.append(f"_assign(self, {field.name!r}, {value})" if frozen else f"self.{field.name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n  " + "\n  ".join(lines or ["pass"]), scope)
    initializer = scope["__init__"]
    initializer.__qualname__ = f"{cls.__qualname__}.__init__"
    return initializer


@recursive_repr()
def _represent(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _equal(self: Any, other: object) -> Any:
    compared = self._compared
    return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(self._compared(self))


def _refuse_assignment(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> list[object]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[object]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
