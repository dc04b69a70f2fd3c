"""A test is altered where it is written, whatever class it is asked for by."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.acceptance.decoys.inherited_tests import homes

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
    "place, home",
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
def test_it_is_found_in_the_class_that_has_it(place: tuple[str, ...], home: tuple[str, ...]) -> None:
    assert homes(SOURCE, [place]) == {place: home}


@given(st.binary())
def test_no_source_is_too_strange(source: bytes) -> None:
    place = ("TestOne", "test_a")
    assert set(homes(source, [place])) == {place}
