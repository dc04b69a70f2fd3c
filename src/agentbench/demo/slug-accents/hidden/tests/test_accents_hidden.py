import pytest

from slugs import slug


@pytest.mark.parametrize(
    "title, name",
    [
        pytest.param("Crème brûlée", "creme-brulee", id="two-words"),
        pytest.param("ÉCOLE", "ecole", id="capitals"),
        pytest.param("Ångström", "angstrom", id="ring"),
        pytest.param("mañana", "manana", id="tilde"),
        pytest.param("cre\u0301me", "creme", id="combining"),
    ],
)
def test_accents_are_left_out(title, name):
    assert slug(title) == name


def test_limit_counts_letters_without_accents():
    assert slug("é é é", limit=3) == "e-e"


def test_letters_without_a_base_letter_are_left_out():
    assert slug("日本 2024") == "2024"


def test_plain_titles_stay_as_they_were():
    assert slug("Hello, world!") == "hello-world"
