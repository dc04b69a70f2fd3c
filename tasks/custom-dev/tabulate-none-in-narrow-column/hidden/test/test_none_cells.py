from tabulate import tabulate


def plain(rows, **options):
    return [line.rstrip() for line in tabulate(rows, tablefmt="plain", **options).splitlines()]


def test_none_is_empty():
    assert plain([["a", None], ["b", "c"]], maxcolwidths=[5, 5]) == ["a", "b  c"]


def test_one_width_for_all():
    assert plain([[None, "x"]], maxcolwidths=4) == [
        x.rstrip() for x in tabulate([[None, "x"]], tablefmt="plain").splitlines()
    ]


def test_missing_value_is_shown():
    assert plain([["a", None], ["b", "c"]], maxcolwidths=[5, 5], missingval="?") == ["a  ?", "b  c"]


def test_its_neighbours_are_wrapped():
    assert plain([[None, "some words"], ["k", "v"]], maxcolwidths=[3, 5]) == ["   some", "   words", "k  v"]


def test_words_are_still_wrapped():
    assert plain([["some words"]], maxcolwidths=5) == ["some", "words"]


def test_none_without_a_limit_still_works():
    assert plain([["a", None], ["b", "c"]], missingval="?") == ["a  ?", "b  c"]


def test_short_rows_still_lose_nothing():
    assert plain([["a", "b"], ["c"]], maxcolwidths=5) == ["a  b", "c"]
    assert plain([["a", "b"], ["c"]], maxcolwidths=[5, 5]) == ["a  b", "c"]


def test_numbers_still_count_as_numbers():
    assert plain([["1.5", "x"], [None, "y"]]) == ["1.5  x", "     y"]
    assert plain([["1.25", "some words"]], maxcolwidths=[3, 5]) == ["1.25  some", "      words"]
    assert plain([["1.25", "x"]], maxcolwidths=[3, 5], disable_numparse=True) == ["1.2  x", "5"]
