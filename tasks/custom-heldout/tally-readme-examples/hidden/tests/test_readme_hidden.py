import doctest
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def examples():
    return doctest.DocTestParser().get_doctest(README.read_text(), {}, "README", str(README), 0).examples


def test_examples_are_right():
    result = doctest.testfile(str(README), module_relative=False, optionflags=0)
    assert result.attempted >= 7
    assert result.failed == 0


def test_every_method_is_shown():
    sources = " ".join(one.source for one in examples())
    for name in ("add", "count", "top", "share", "merged"):
        assert f".{name}(" in sources


def test_results_are_shown():
    assert sum(bool(one.want) for one in examples()) >= 6
    assert not any("..." in one.want for one in examples())


def test_code_is_still_what_it_was():
    from tally import Tally

    votes = Tally({"a": 1})
    assert (votes.add("a"), votes.top(), votes.share("a")) == (2, ["a"], 1.0)
    assert not hasattr(votes, "merge")
