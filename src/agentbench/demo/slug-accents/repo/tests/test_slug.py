from slugs import slug


def test_words_are_joined_by_hyphens():
    assert slug("Hello, world!") == "hello-world"


def test_digits_stay():
    assert slug("  Release 2.0  ") == "release-2-0"


def test_title_without_words():
    assert slug("") == slug("...") == ""


def test_words_that_do_not_fit_are_left_out():
    assert slug("one two three", limit=7) == "one-two"
    assert slug("abcdef", limit=3) == ""
