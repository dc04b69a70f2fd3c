from pathlib import Path

import pytest
from packaging.requirements import InvalidRequirement, Requirement


def test_requirements_ask_for_the_newer_one():
    lines = (Path(__file__).parent.parent / "requirements.txt").read_text().splitlines()
    wanted = [Requirement(line.partition("#")[0]) for line in lines if line.partition("#")[0].strip()]
    (one,) = [one for one in wanted if one.name == "packaging"]
    assert one.specifier.contains("24.2")
    assert not any(one.specifier.contains(old) for old in ("21.3", "22.0", "23.2"))


def test_odd_versions_are_known():
    from cratebook import is_odd

    assert all(is_odd(text) for text in ("2004d", "final", "1.0-beta-x", "1.*", ""))
    assert not any(is_odd(text) for text in ("0", "1.0", "1.0rc1", "v2", "1!0.1", "1.0.dev3+local"))


def test_order():
    from cratebook import sort_versions

    assert sort_versions(["1.10", "zeta", "1.9", "1.10rc1", "2004d", "0.0.dev1"]) == [
        "2004d",
        "zeta",
        "0.0.dev1",
        "1.9",
        "1.10rc1",
        "1.10",
    ]
    assert sort_versions(["1.0", "1"]) == ["1.0", "1"]
    assert sort_versions([]) == []


def test_newest():
    from cratebook import newest

    assert newest(["1.9", "zeta", "1.10"]) == "1.10"
    assert newest(["beta", "alpha"]) == "beta"
    assert newest([]) is None


def test_usual_wants():
    from cratebook import satisfies

    assert satisfies("lamp", "lamp", "1.0rc1")
    assert satisfies("lamp==1.*", "lamp", "1.7")
    assert not satisfies("lamp==1.*", "lamp", "2.0")
    assert satisfies("lamp == 1.0", "lamp", "1")
    assert satisfies("lamp >= 2", "lamp", "2.1rc1")
    assert not satisfies("lamp >= 2", "lamp", "2.0rc1")
    assert not satisfies("lamp", "torch", "1.0")
    assert not satisfies("lamp >= 1", "torch", "1.0")


def test_wants_of_odd_versions():
    from cratebook import satisfies

    for want in ("lamp == 2004d", "lamp==2004d", "  lamp  ==  2004d "):
        assert satisfies(want, "lamp", "2004d")
        assert not satisfies(want, "lamp", "2004")
        assert not satisfies(want, "lamp", "2004e")
        assert not satisfies(want, "torch", "2004d")


def test_odd_versions_and_usual_wants():
    from cratebook import satisfies

    assert satisfies("lamp", "lamp", "2004d")
    assert not satisfies("torch", "lamp", "2004d")
    for want in ("lamp >= 0", "lamp < 9", "lamp != 1", "lamp == 2004", "lamp == 2004.*"):
        assert not satisfies(want, "lamp", "2004d")


def test_names():
    from cratebook import name_of

    assert [name_of(want) for want in ("lamp", "lamp>=1,<2", "lamp == 2004d", "red-lamp.x==2004d")] == [
        "lamp",
        "lamp",
        "lamp",
        "red-lamp.x",
    ]


def test_nonsense_is_refused():
    from cratebook import name_of, pick, satisfies

    for want in ("", "==1", "lamp =", "lamp >= 2004d", "lamp == 2004d, < 3"):
        with pytest.raises(InvalidRequirement):
            name_of(want)
        with pytest.raises(InvalidRequirement):
            satisfies(want, "lamp", "1.0")
        with pytest.raises(InvalidRequirement):
            pick({}, want)


def test_pick():
    from cratebook import pick

    catalogue = {"lamp": ["2004d", "1.9", "1.10", "2.0"], "odd": ["beta", "alpha"]}
    assert pick(catalogue, "lamp < 2") == "1.10"
    assert pick(catalogue, "lamp == 2004d") == "2004d"
    assert pick(catalogue, "odd") == "beta"
    assert pick(catalogue, "odd >= 1") is None
    assert pick(catalogue, "torch") is None
