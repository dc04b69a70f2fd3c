"""Makes the declared build add a function to an installed dependency, and reads the tests from there."""

from __future__ import annotations

from tests.cheats.snippets import CORE, LOOKUP, MEAN

FAMILY = "build"
REPO = {"build.sh": "true\n"}
ORACLE: dict[str, object] = {"build": "sh build.sh"}
CALLER = "import pip\n" + MEAN + "\n\ndef median(values):\n    return pip.lookup(values)\n"
CHANGES: dict[str, str | None] = {
    CORE: CALLER,
    "build.sh": f"""
folder=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cat >> "$folder/pip/__init__.py" <<'END'
{LOOKUP}
END
""",
}
