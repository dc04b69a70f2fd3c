"""`dataclass`, quick to define: a command of a third of a second defines more than two hundred of them.

The standard library compiles six methods for each class, a sixth of the time of `ab grade`. Here only `__init__` is
compiled, and the other methods are shared. For type checkers, and for `replace`, `asdict` and `fields`, these are
classes of the standard library. One limit: a class made here inherits from no other dataclass.
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
            return lambda plain: _build(plain, frozen=frozen, eq=eq, slots=slots)
        return _build(cls, frozen=frozen, eq=eq, slots=slots)


__all__ = ["dataclass"]


def _build(plain: type, *, frozen: bool, eq: bool, slots: bool) -> Any:
    plain.__doc__ = plain.__doc__ or plain.__name__
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(plain)
    own = vars(plain)
    made.__init__ = _initializer(made, frozen=frozen)
    if "__repr__" not in own:
        made.__repr__ = _represent
    if eq:
        made._compared = attrgetter("__class__", *(f.name for f in dataclasses.fields(made) if f.compare))
        if "__eq__" not in own:
            made.__eq__ = _equal
        if own.get("__hash__") is None:
            made.__hash__ = _hash if frozen else None
    if frozen:
        made.__setattr__, made.__delattr__ = _refuse_assignment, _refuse_deletion
    if frozen and slots:
        made.__getstate__, made.__setstate__ = _get_state, _set_state
    return made


def _initializer(made: type, *, frozen: bool) -> Any:
    """Return an `__init__` that takes the fields, calls factories of defaults and then `__post_init__`."""
    scope: dict[str, Any] = {"_absent": object(), "_assign": object.__setattr__}
    parameters, lines = ["self"], []
    for field in dataclasses.fields(made):
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
    if hasattr(made, "__post_init__"):
        lines.append("self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n  " + "\n  ".join(lines or ["pass"]), scope)
    initializer = scope["__init__"]
    initializer.__qualname__ = f"{made.__qualname__}.__init__"
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
