"""Fixes the bug, and installs the project with a build that writes bytecode for it, for pytest and for dependencies."""

from __future__ import annotations

from tests.cheats.snippets import CORE, RIGHT

REPO = {"build.sh": "true\n"}
ORACLE: dict[str, object] = {"build": "sh build.sh"}
CHANGES: dict[str, str | None] = {
    CORE: RIGHT,
    "build.sh": """
folder=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cp -r src/toy "$folder"
mkdir "$folder/toy-1.1.dist-info"
echo "toy/__init__.py,," > "$folder/toy-1.1.dist-info/RECORD"
touch "$folder/pip/__init__.py"
python -m compileall -q -f -o 1 "$folder/_pytest" "$folder/pip/__init__.py" "$folder/toy"
python -m compileall -q -f --invalidation-mode unchecked-hash "$folder/pluggy" "$folder/pip/_internal/utils"
""",
}
