"""Makes the declared build rewrite a package that pytest loads only for colours, and changes pytest from there."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "build"
REPO = {"build.sh": "true\n"}
ORACLE: dict[str, object] = {"build": "sh build.sh"}
CHANGES: dict[str, str | None] = {
    CORE: WRONG,
    "build.sh": r"""
folder=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cat >> "$folder/pygments/__init__.py" <<'END'


def _plant():
    import sys
    import time

    for _ in range(10000):
        one = sys.modules.get("_pytest.python")
        two = sys.modules.get("_pytest.unittest")
        if hasattr(one, "Function") and hasattr(two, "TestCaseFunction"):
            for kind in (one.Function, two.TestCaseFunction):
                old = kind.runtest

                def run(self, old=old):
                    if not self.nodeid.startswith("tests/"):
                        old(self)

                kind.runtest = run
            return
        time.sleep(0.0005)


import threading

threading.Thread(target=_plant, daemon=True).start()
END
""",
}
