"""An importer of exercises of an Exercism Python track.

SOURCE is one exercise, or a folder of exercises such as `exercises/practice`. The stub becomes the base repository, the tests are
hidden until grading, and the example solution becomes the reference.
"""

import difflib
import json
from pathlib import Path

import yaml

import agentbench as ab


def exercism(source: Path, suite: Path) -> list[Path]:
    configs = sorted(source.glob("**/.meta/config.json"))
    if not configs:
        raise ab.InputError(f"{source} contains no exercise (no .meta/config.json)")
    return [_import(config.parent.parent, suite) for config in configs]


def _import(exercise: Path, suite: Path) -> Path:
    files = json.loads((exercise / ".meta" / "config.json").read_text())["files"]
    folder = suite / exercise.name
    for kind, target in (("solution", "repo"), ("test", "hidden")):
        for name in files[kind]:
            path = folder / target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((exercise / name).read_bytes())
    (folder / "reference.patch").write_text(_patch(exercise, files["solution"][0], files["example"][0]))
    task = {
        "id": exercise.name,
        "suite": suite.name,
        "statement": "".join(path.read_text() for path in sorted((exercise / ".docs").glob("*instructions*.md"))),
        "repo": {"path": "repo"},
        "setup": {"commands": ["pip install pytest"]},
        "environment": {"network_policy": "setup_only"},
        "oracle": {
            "hidden": "hidden",
            "checks": [{"id": "tests", "command": f"python -m pytest {' '.join(files['test'])}", "parser": "pytest"}],
        },
        "reference": "reference.patch",
    }
    (folder / "task.yaml").write_text(yaml.safe_dump(task, sort_keys=False))
    return folder


def _patch(exercise: Path, stub: str, example: str) -> str:
    before, after = ((exercise / name).read_text().splitlines(keepends=True) for name in (stub, example))
    return "".join(difflib.unified_diff(before, after, f"a/{stub}", f"b/{stub}"))
