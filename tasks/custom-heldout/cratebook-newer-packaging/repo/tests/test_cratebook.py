from cratebook import is_odd, pick, satisfies, sort_versions


def test_versions():
    assert sort_versions(["1.10", "1.9", "2004d"]) == ["2004d", "1.9", "1.10"]
    assert [is_odd("2004d"), is_odd("1.0rc1")] == [True, False]


def test_wants():
    assert satisfies("lamp >= 1.2, != 1.5", "lamp", "1.4")
    assert not satisfies("lamp >= 1.2, != 1.5", "lamp", "1.5.0")


def test_catalogue():
    assert pick({"lamp": ["1.0", "1.9", "2.0"]}, "lamp < 2") == "1.9"
