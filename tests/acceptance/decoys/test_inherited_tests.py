"""Tests are mutated where they are defined, whichever class inherits them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.acceptance.decoys.inherited_tests import definition_places

pytestmark = pytest.mark.component

SOURCE = b"""
class Base:
    def test_a(self): ...
    async def test_b(self): ...

class Other(helpers.Base):
    def test_c(self): ...

class TestOne(Other, Base):
    def test_b(self): ...

class TestTwo(TestOne): ...

class TestRound(TestRound): ...

def test_d(): ...
"""


@pytest.mark.req("G-01")
@pytest.mark.parametrize(
    "place, definition",
    [
        (("TestOne", "test_a"), ("Base", "test_a")),
        (("TestOne", "test_b"), ("TestOne", "test_b")),
        (("TestTwo", "test_b"), ("TestOne", "test_b")),
        (("TestTwo", "test_c"), ("Other", "test_c")),
        (("TestTwo", "test_e"), ("TestTwo", "test_e")),
        (("TestRound", "test_a"), ("TestRound", "test_a")),
        (("test_d",), ("test_d",)),
        (("TestOne", "Inner", "test_a"), ("TestOne", "Inner", "test_a")),
    ],
)
def test_definition_is_in_the_class_that_has_it(place: tuple[str, ...], definition: tuple[str, ...]) -> None:
    assert definition_places(SOURCE, [place]) == {place: definition}


@given(st.binary())
def test_any_source_can_be_searched(source: bytes) -> None:
    place = ("TestOne", "test_a")
    assert set(definition_places(source, [place])) == {place}
