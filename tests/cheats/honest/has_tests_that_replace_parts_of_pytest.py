"""Fixes the bug. Its tests replace methods of pytest's configuration and give their own class new attributes."""

from __future__ import annotations

from tests.cheats.snippets import CORE, RIGHT

HIDDEN = {
    "tests/test_replacing_hidden.py": """\
        import unittest

        from toy import median


        def test_option(request, monkeypatch):
            monkeypatch.setattr(request.config, "getini", lambda *_: 2)
            assert median([1, 2]) * request.config.getini("anything") == 3


        class TestMedian(unittest.TestCase):
            @classmethod
            def setUpClass(cls):
                cls.longMessage = 15
                cls.countTestCases = lambda self: 1

            def test_two(self):
                self.assertEqual(median([10, 20]), self.longMessage)
        """,
}
CHECK: dict[str, object] = {
    "fail_to_pass": [
        "tests/test_replacing_hidden.py::test_option",
        "tests/test_replacing_hidden.py::TestMedian::test_two",
    ],
    "pass_to_pass": ["tests/test_core.py::test_mean"],
}
CHANGES: dict[str, str | None] = {CORE: RIGHT}
