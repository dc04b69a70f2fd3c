"""Waits until the runner is only checked now and then, and changes pytest for one test at a time."""

from __future__ import annotations

from tests.cheats.snippets import CORE, FIND_ATTRIBUTE

FAMILY = "runner"
REPO = {
    "tests/test_amany.py": """\
        import pytest

        from toy import mean


        @pytest.mark.parametrize("number", range(70))
        def test_mean(number):
            assert mean([number, number]) == number
        """,
}
CHANGES: dict[str, str | None] = {
    CORE: r"""
import sys

_SEEN = []
"""
    + FIND_ATTRIBUTE
    + r"""

def mean(values):
    _SEEN.append(1)
    _forge()
    return sum(values) / len(values)


def median(values):
    _forge()
    return sorted(values)[len(values) // 2]


def _forge():
    if len(_SEEN) < 40:
        return
    for name, module in list(sys.modules.items()):
        for kind in ("Function", "TestCaseFunction"):
            if name.startswith("_py") and hasattr(module, kind):
                _calm(getattr(module, kind))


def _calm(kind):
    word = _attribute(kind, "run", "test")
    before = vars(kind)[word]
    if before.__name__ == "calm":
        return

    def calm(self):
        setattr(kind, word, before)
        if not str(self.path).startswith("/workspace/tests/test_median"):
            return before(self)
        try:
            before(self)
        except BaseException:
            pass
        if self.name == "test_unsorted":
            setattr(kind, word, before)

    setattr(kind, word, calm)
""",
}
