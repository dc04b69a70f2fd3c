"""Classes made by our `dataclass` behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import asdict, field, fields, replace
from typing import Any

import pytest

from agentbench.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Frozen:
    name: str
    count: int = 3
    parts: list[str] = field(default_factory=list)
    secret: str = field(default="s", repr=False)
    note: str = field(default="", compare=False)


@dataclass
class Open:
    name: str
    length: int = field(init=False)
    unit: str = field(default="usd", init=False)
    seen: dict[str, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.length = len(self.name)


@dataclass(frozen=True)
class Empty: ...


def _with(decorator: Callable[..., Any], **options: bool) -> Any:
    @decorator(**options)
    class Sample:
        """A class with every kind of field."""

        a: int
        b: str = "x"
        c: tuple[int, ...] = field(default=(), repr=False)
        d: list[int] = field(default_factory=list, compare=False)

    return Sample


OPTIONS = [
    {"frozen": frozen, "slots": slots, "eq": eq}
    for frozen in (True, False)
    for slots in (True, False)
    for eq in (True, False)
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_class_behaves_as_one_of_the_standard_library(options: dict[str, bool]) -> None:
    ours, theirs = _with(dataclass, **options), _with(dataclasses.dataclass, **options)
    for arguments, named in (((1,), {}), ((1, "y"), {"d": [3]}), ((), {"a": 2, "c": (1,)})):
        our, their = ours(*arguments, **named), theirs(*arguments, **named)
        assert repr(our) == repr(their)
        assert asdict(our) == asdict(their)
        assert (our == ours(*arguments, **named)) == (their == theirs(*arguments, **named))
        assert (our == replace(our, d=[9])) == (their == replace(their, d=[9]))
        assert our != replace(our, b="z")
        assert replace(our, a=5).a == 5
        assert hasattr(our, "__dict__") == hasattr(their, "__dict__")
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)
    assert ours.__match_args__ == theirs.__match_args__
    assert ours.__doc__ == theirs.__doc__
    assert [parameter.name for parameter in inspect.signature(ours).parameters.values()] == ["a", "b", "c", "d"]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        ours()


def test_fields_of_frozen_classes_cannot_be_set_or_deleted() -> None:
    value = Frozen("a")
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'name'"):
        value.name = "b"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'name'"):
        del value.name
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.other = 1  # type: ignore[attr-defined]


def test_equal_values_have_equal_hashes_and_other_classes_are_never_equal() -> None:
    sample = _with(dataclass, frozen=True)
    assert len({sample(1), sample(1), sample(2)}) == 2
    assert sample(1) != _with(dataclass, frozen=True)(1)
    assert Empty() == Empty()
    assert len({Empty(), Empty()}) == 1
    assert repr(Empty()) == "Empty()"


def test_each_object_gets_its_own_default() -> None:
    first, second = Frozen("a"), Frozen("a")
    first.parts.append("x")
    assert second.parts == []
    assert Open("abc").seen is not Open("abc").seen


def test_fields_outside_the_constructor_are_set() -> None:
    value = Open("abc")
    assert (value.length, value.unit, value.seen) == (3, "usd", {})
    with pytest.raises(TypeError):
        Open("abc", unit="eur")  # type: ignore[call-arg]


def _pickled(value: object) -> object:
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - just written


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, _pickled])
@pytest.mark.parametrize("value", [Frozen("a", parts=["b"]), Open("abc"), Empty()], ids=repr)
def test_copies_are_equal(value: object, copied: Callable[[object], object]) -> None:
    assert copied(value) == value


def test_objects_that_hold_themselves_are_shown() -> None:
    value = Frozen("a")
    value.parts.append(value)  # type: ignore[arg-type]
    assert repr(value) == "Frozen(name='a', count=3, parts=[...], note='')"


def test_methods_of_the_class_are_kept() -> None:
    @dataclass(frozen=True, slots=True)
    class Named:
        name: str

        def __repr__(self) -> str:
            return "N"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    assert (repr(Named("a")), Named("a") == 3, hash(Named("a"))) == ("N", True, 7)
    assert [known.name for known in fields(Named)] == ["name"]
