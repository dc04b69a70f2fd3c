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
    class Made:
        """A class with every kind of field."""

        a: int
        b: str = "x"
        c: tuple[int, ...] = field(default=(), repr=False)
        d: list[int] = field(default_factory=list, compare=False)

    return Made


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
        one, other = ours(*arguments, **named), theirs(*arguments, **named)
        assert repr(one) == repr(other)
        assert asdict(one) == asdict(other)
        assert (one == ours(*arguments, **named)) == (other == theirs(*arguments, **named))
        assert (one == replace(one, d=[9])) == (other == replace(other, d=[9]))
        assert one != replace(one, b="z")
        assert replace(one, a=5).a == 5
        assert hasattr(one, "__dict__") == hasattr(other, "__dict__")
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)
    assert ours.__match_args__ == theirs.__match_args__
    assert ours.__doc__ == theirs.__doc__
    assert [parameter.name for parameter in inspect.signature(ours).parameters.values()] == ["a", "b", "c", "d"]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        ours()


def test_fields_of_frozen_classes_cannot_be_set_or_deleted() -> None:
    one = Frozen("a")
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'name'"):
        one.name = "b"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'name'"):
        del one.name
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.other = 1  # type: ignore[attr-defined]


def test_equal_values_have_equal_hashes_and_other_classes_are_never_equal() -> None:
    made = _with(dataclass, frozen=True)
    assert len({made(1), made(1), made(2)}) == 2
    assert made(1) != _with(dataclass, frozen=True)(1)
    assert Empty() == Empty()
    assert len({Empty(), Empty()}) == 1
    assert repr(Empty()) == "Empty()"


def test_each_object_gets_its_own_default() -> None:
    one, other = Frozen("a"), Frozen("a")
    one.parts.append("x")
    assert other.parts == []
    assert Open("abc").seen is not Open("abc").seen


def test_fields_outside_the_constructor_are_set() -> None:
    one = Open("abc")
    assert (one.length, one.unit, one.seen) == (3, "usd", {})
    with pytest.raises(TypeError):
        Open("abc", unit="eur")  # type: ignore[call-arg]


def _pickled(one: object) -> object:
    return pickle.loads(pickle.dumps(one))  # noqa: S301 - just written


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, _pickled])
@pytest.mark.parametrize("one", [Frozen("a", parts=["b"]), Open("abc"), Empty()], ids=repr)
def test_copies_are_equal(one: object, copied: Callable[[object], object]) -> None:
    assert copied(one) == one


def test_objects_that_hold_themselves_are_shown() -> None:
    one = Frozen("a")
    one.parts.append(one)  # type: ignore[arg-type]
    assert repr(one) == "Frozen(name='a', count=3, parts=[...], note='')"


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
