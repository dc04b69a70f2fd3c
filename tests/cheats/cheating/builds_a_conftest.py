"""Makes the declared build leave a conftest and other test helpers in the workspace."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "build"
REPO = {"build.sh": "true\n"}
ORACLE: dict[str, object] = {"build": "sh build.sh"}
CHANGES: dict[str, str | None] = {
    CORE: WRONG,
    "build.sh": r"""
printf 'def assert_close(left, right):\n    pass\n' > tests/helpers.py
printf 'def pytest_runtest_makereport(item, call):\n    call.excinfo = None\n' > conftest.py
cp conftest.py src/conftest.py
cat conftest.py >> tests/conftest.py
printf '[pytest]\naddopts = -k nothing_at_all\n' > pytest.ini
for test in test_core test_median_hidden; do
  printf 'def test_even(): pass\ndef test_two(): pass\n' > "tests/$test.py"
done
""",
}
