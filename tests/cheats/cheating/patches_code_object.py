"""Swaps the code of a pytest function in place, so that every reference to it changes."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: WRONG
    + r"""

def _install():
    import sys

    target = getattr(sys.modules["_py" + "test.runner"], "check_" + "interactive_exception")
    maker = sys.modules["_py" + "test.runner"].CallInfo.from_call.__func__

    def forged(cls, func, when, reraise=None):
        import time

        try:
            result = func()
        except BaseException:
            result = None
        return cls(result=result, start=0.0, stop=0.0, duration=0.0, when=when, excinfo=None, _ispytest=True)

    maker.__code__ = forged.__code__
    return target


_install()
""",
}
