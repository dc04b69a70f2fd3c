"""Values that a test says in words, in whatever way."""

from __future__ import annotations

import pytest

from agentbench.acceptance.decoys.mutate import find_mutations
from agentbench.acceptance.decoys.prose import says

pytestmark = pytest.mark.component


@pytest.mark.req("G-01")
@pytest.mark.parametrize(
    "text, word, said",
    [
        ("testGives404", "404", True),
        ("TestHTTPError", "HTTPError", True),
        ("test_hello_world", "Hello World", True),
        ("gives three items", "3", True),
        ("gives 15", "15.0", True),
        ("gives 1,000", "1_000", True),
        ("gives 255", "0xff", True),
        ("x_15", "15", True),
        ("gives 150", "15", False),
        ("gives 1.5", "15", False),
        ("hello", "hello world", False),
        ("nothing", "", False),
        ("is -", "-", True),
        ("café", "Café", True),
    ],
)
def test_words_say_a_value_in_any_form(text: str, word: str, said: bool) -> None:
    assert says(text, word) is said


@pytest.mark.req("G-01")
@pytest.mark.parametrize(
    "test",
    [
        "class Test404:\n    def test_it(self):\n        assert f() == 404\n",
        'class T:\n    def test_it(self):\n        with self.subTest("gives 404"):\n            assert f() == 404\n',
        'class T:\n    @mark.gives("404")\n    def test_it(self):\n        assert f() == 404\n',
        'class T:\n    """Raises ValueError."""\n    def test_it(self):\n        with raises(ValueError):\n            f()\n',
    ],
)
def test_values_that_words_say_do_not_count(test: str) -> None:
    place = (test.split()[1].rstrip(":"), "test_it")
    mutations = find_mutations(test.encode(), [place], "").get(place, {})
    assert not any(mutation.is_conclusive for mutation in mutations.values())


@pytest.mark.req("G-01")
def test_ids_change_words_between_underscores_and_never_to_minus_zero() -> None:
    source = '@pytest.mark.parametrize("a, b", [param(1, -5, id="a_-5")])\ndef test_it(a, b):\n    assert f(a) == b\n'
    place = ("test_it",)
    found = [find_mutations(source.encode(), [place], str(seed))[place][("b", 0)] for seed in range(50)]
    assert all(mutation.replacements[0].endswith('"') for mutation in found)
    assert not any("-0" in mutation.replacements[0] for mutation in found)
