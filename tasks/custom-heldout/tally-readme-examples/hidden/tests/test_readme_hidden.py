import doctest
from pathlib import Path

ROOT = Path(__file__).parent.parent
README, MERGING = ROOT / "README.md", ROOT / "docs" / "merging.md"


def examples(page):
    return doctest.DocTestParser().get_doctest(page.read_text(), {}, page.name, str(page), 0).examples


def shown(page):
    """The results that a page shows, without those of imports and assignments."""
    return [one.want.strip() for one in examples(page) if one.want]


def test_examples_are_right():
    for page, least in (README, 7), (MERGING, 6):
        result = doctest.testfile(str(page), module_relative=False, optionflags=0)
        assert result.attempted >= least
        assert result.failed == 0
        assert not any(one.options for one in examples(page))


def test_every_method_is_shown():
    sources = " ".join(one.source for one in examples(README))
    for name in ("add", "count", "top", "share", "merged"):
        assert f".{name}(" in sources


def test_results_are_shown():
    assert len(shown(README)) >= 6
    assert not any("..." in want for want in shown(README) + shown(MERGING))


def test_merging_leaves_the_first_tally_alone():
    assert {"['red', 'blue']", "0.25", "1"} <= set(shown(MERGING))
    assert ".merged(" in " ".join(one.source for one in examples(MERGING))


def test_code_is_still_what_it_was():
    from tally import Tally

    votes = Tally({"a": 1})
    assert (votes.add("a"), votes.top(), votes.share("a")) == (2, ["a"], 1.0)
    assert not hasattr(votes, "merge")


def test_the_words_are_still_there():
    lines = README.read_text().splitlines() + MERGING.read_text().splitlines()
    for words in ("# tally", "Counting with names.", "# Merging", "What was counted elsewhere is added by name."):
        assert words in lines
