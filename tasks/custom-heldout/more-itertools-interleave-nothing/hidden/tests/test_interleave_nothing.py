import pytest

from more_itertools import interleave_evenly


def test_no_iterables():
    assert list(interleave_evenly([])) == []


def test_no_iterables_and_no_lengths():
    assert list(interleave_evenly([], lengths=[])) == []


def test_next_has_a_default():
    assert next(interleave_evenly([]), None) is None


def test_empty_iterables_still_give_nothing():
    assert list(interleave_evenly([[], []])) == []


def test_values_are_still_spread():
    assert list(interleave_evenly([[1, 2, 3, 4], ["a", "b"]])) == [1, 2, "a", 3, 4, "b"]


def test_wrong_lengths_are_still_refused():
    with pytest.raises(ValueError):
        list(interleave_evenly([], lengths=[1]))
    with pytest.raises(ValueError):
        list(interleave_evenly([[1]], lengths=[]))
