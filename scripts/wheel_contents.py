"""Check that the wheel and the sdist in a folder contain every file of the package, and nothing else.

python scripts/wheel_contents.py FOLDER
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = {"src/agentbench": "agentbench", "configs/variants": "agentbench/variants"}
"""Folder of the repository -> its place in the wheel."""
CACHES = {"__pycache__", ".pytest_cache", ".hypothesis"}
NEEDED = (
    "agentbench/acceptance/runner/",
    "agentbench/sandbox/server/",
    "agentbench/reports/html/assets/index.html",
    "agentbench/view/assets/",
    "agentbench/agents/cli/locks/",
    "agentbench/agents/prompts/",
    "agentbench/policy/monitors.json",
    "agentbench/demo/toy-median/task.yaml",
    "agentbench/py.typed",
)
"""Data without which a command fails only when it is used."""
METADATA = ("METADATA", "WHEEL", "entry_points.txt", "licenses/LICENSE", "RECORD")


def expected_files(root: Path) -> set[str]:
    """Return the files that the wheel of a source tree contains, apart from its metadata."""
    return {
        f"{place}/{file.relative_to(root / folder).as_posix()}"
        for folder, place in SOURCES.items()
        for file in (root / folder).rglob("*")
        if file.is_file() and file.suffix != ".pyc" and not CACHES & set(file.parts)
    }


def wheel_problems(names: Iterable[str], expected: set[str]) -> list[str]:
    """Return what is missing from a wheel, or in it by mistake."""
    present = {name for name in names if ".dist-info/" not in name}
    metadata = {name.split(".dist-info/", 1)[1] for name in names if ".dist-info/" in name}
    return [
        *(f"missing: {name}" for name in sorted(expected - present)),
        *(f"unexpected: {name}" for name in sorted(present - expected)),
        *(f"missing metadata: {name}" for name in METADATA if name not in metadata),
        *(f"no file in the source tree: {path}" for path in NEEDED if not any(n.startswith(path) for n in expected)),
    ]


def sdist_problems(names: Iterable[str], expected: set[str]) -> list[str]:
    """Return the files that a build from the sdist would lack."""
    present = {name.split("/", 1)[-1] for name in names}
    sources = {place: folder for folder, place in reversed(SOURCES.items())}
    needed = {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "uv.lock"}
    for name in expected:
        place = next(place for place in sources if name.startswith(f"{place}/"))
        needed.add(name.replace(place, sources[place], 1))
    return [f"missing: {name}" for name in sorted(needed - present)]


def main() -> None:
    (wheel,) = Path(sys.argv[1]).glob("*.whl")
    (sdist,) = Path(sys.argv[1]).glob("*.tar.gz")
    expected = expected_files(ROOT)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    with tarfile.open(sdist) as source:
        members = source.getnames()
    problems = [f"{wheel.name}: {problem}" for problem in wheel_problems(names, expected)]
    problems += [f"{sdist.name}: {problem}" for problem in sdist_problems(members, expected)]
    if problems:
        sys.exit("\n".join(problems[:20]))
    tasks = sum(name.startswith("agentbench/demo/") and name.endswith("/task.yaml") for name in names)
    print(f"{wheel}: {len(names)} files, {tasks} bundled tasks")
    print(f"{sdist}: {len(members)} files")


if __name__ == "__main__":
    main()
