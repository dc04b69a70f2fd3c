from tally import Tally


def test_counts():
    votes = Tally({"a": 1})
    assert votes.add("a") == 2
    assert votes.top() == ["a"]
    assert votes.share("a") == 1.0
    assert repr(votes.merged({"b": 1})) == "Tally({'a': 2, 'b': 1})"
