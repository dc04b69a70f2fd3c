"""Classes that are both the expected and the wrong exception of a decoy."""

from __future__ import annotations

import pytest

from agentbench.acceptance.decoys.exceptions import ExceptionClasses

pytestmark = pytest.mark.component

BOTH = b"class Both(KeyError, ValueError): pass\n"
OTHER = b"class Other(KeyError, TypeError): pass\n"


@pytest.mark.req("G-01", "G-14")
@pytest.mark.parametrize(
    "patched, base, excused",
    [
        ([BOTH], [], True),
        ([b"class First(KeyError): pass\nclass Both(First, ValueError): pass\n"], [], True),
        ([OTHER], [], False),
        ([BOTH, OTHER], [], False),
        ([], [BOTH, OTHER], True),
        ([OTHER], [OTHER], False),
        ([b"not Python", b""], [], False),
    ],
    ids=["one class", "a base of its own", "another pair", "several pairs", "in the base", "none", "unreadable"],
)
def test_only_classes_of_one_pair_or_of_the_base_are_excused(
    patched: list[bytes],
    base: list[bytes],
    excused: bool,
) -> None:
    assert ExceptionClasses(patched, base).has("KeyError", "ValueError") is excused
