"""Output of every command, recorded in `snapshots/`, so that rewording is deliberate and reviewable.

To record new output after a deliberate change, run

    AB_UPDATE_SNAPSHOTS=1 .venv/bin/pytest -q -n 2 tests/cli

and read the diff of `tests/cli/snapshots`. `-k "not execute"` leaves out the commands that run sandboxes, which take a
minute. Times, digests, ids, versions and paths are replaced (`snapshots.py`). Commands that run sandboxes run once per
session, in the order of `stage.EXECUTED`; all others are the cases below. Runs below `recorded/` come from an archive,
so their texts were written by an earlier version.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from agentbench.cli.main import COMMANDS, root, run
from tests.cli.conftest import Stage
from tests.cli.snapshots import FOLDER, Output, check_snapshot, normalise, render
from tests.cli.stage import EXECUTED, arguments

pytestmark = [
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    pytest.mark.end_to_end,
]

CASES: dict[str, str] = {
    "version": "--version",
    # --- reading runs
    "show-run": "show recorded/demo-partial",
    "show-attempt": "show recorded/demo-partial --task shelf-cents",
    "show-cheater": "show recorded/demo-cheater --task toy-median",
    "show-judged": "show recorded/multi-turn-judged",
    "show-no-workspace": "show recorded/no-workspace-judged",
    "show-operator": "show recorded/operator --task two",
    "show-interrupted": "show recorded/interrupted",
    "show-resumed": "show recorded/killed-and-resumed",
    "verify": "verify recorded/demo-partial",
    "verify-json": "verify recorded/demo-partial --json",
    "summary-md": "report summary --run recorded/demo-cheater",
    "summary-csv": "report summary --run recorded/demo-partial --format csv",
    "summary-json": "report summary --run recorded/demo-partial --format json",
    "summary-junit": "report summary --run recorded/demo-partial --format junit",
    "summary-html": "report summary --run recorded/demo-partial --format html --out page",
    "summary-stops": "report summary --run recorded/stops",
    "summary-breakers": "report summary --run recorded/breakers",
    "summary-no-workspace": "report summary --run recorded/no-workspace-judged",
    "paired-md": "report paired --run-a recorded/demo-partial --run-b recorded/demo-reference",
    "paired-csv": "report paired --run-a recorded/demo-partial --run-b recorded/demo-reference --format csv",
    "paired-json": "report paired --run-a recorded/demo-partial --run-b recorded/demo-reference --format json",
    "paired-bootstrap": "report paired --run-a recorded/demo-partial --run-b recorded/demo-reference --method bootstrap",
    "error-paired-same-run": "report paired --run-a recorded/breakers --run-b recorded/breakers",
    "paired-better": "report paired --run-a results.csv#a --run-b results.csv#b",
    "paired-worse": "report paired --run-a results.csv#b --run-b results.csv#a",
    "paired-same": "report paired --run-a same.csv#a --run-b same.csv#b",
    "paired-acceptance": "report paired --run-a recorded/demo-noop --run-b recorded/demo-cheater --rate acceptance",
    "gate-several-rules": "report paired --run-a recorded/demo-partial --run-b recorded/demo-reference --gate gate.yaml",
    "gate-undecided": "report paired --run-a recorded/demo-noop --run-b recorded/demo-cheater --gate gate.yaml",
    "gate-holds": "report paired --run-a same.csv#a --run-b same.csv#b --gate gate.yaml",
    "gate-fails": "report paired --run-a results.csv#b --run-b results.csv#a --gate gate-drop.yaml",
    "power": "report power --tasks 20 --repeats 1 --rate-a 0.4 --rate-b 0.6",
    "rescore-weights": "rescore recorded/demo-partial --weights weights.yaml",
    "rescore-caps": "rescore recorded/demo-partial --caps caps.yaml",
    "query": "query 'select task_id, passed, failure_reason from attempts order by task_id' recorded/demo-partial",
    "adjudicate-list": "adjudicate recorded/stops --list",
    "operator-list": "operator list --out recorded",
    "retain-dry": "retain recorded/demo-partial",
    # --- tasks
    "check": "task check tasks/tiny",
    "check-json": "task check tasks/tiny/one --json",
    "stats": "task stats tasks/tiny",
    # --- bad usage
    "no-command": "",
    "unknown-command": "rnu",
    "unknown-option": "run --siute demo",
    "unknown-subcommand": "report sumary",
    "run-without-suite": "run --agent noop",
    "run-bad-choice": "run --suite tiny --sandbox chroot",
    "run-bad-number": "run --suite tiny --workers 0",
    "run-infinite-budget": "run --suite tiny --total-usd inf",
    # --- bad input
    "error-unknown-suite": "run --suite nowhere --agent noop",
    "error-no-tasks-dir": "run --suite tiny --tasks-dir nowhere --agent noop",
    "error-bad-suite": "run --suite refused --agent noop",
    "error-unknown-agent": "run --suite tiny --agent noob",
    "error-unknown-cli-agent": "run --suite tiny --agent cli:emacs",
    "error-unknown-variant": "run --suite tiny --variant basline",
    "error-variant-and-agent": "run --suite tiny --variant baseline --agent noop",
    "error-agent-without-command": "run --suite tiny --agent command",
    "error-command-without-agent": "run --suite tiny --agent noop --agent-command true",
    "error-agent-files": "run --suite tiny --agent command --agent-command true --agent-files nowhere",
    "error-agent-without-model": "run --suite tiny --agent llm_v0",
    "error-missing-key": "run --suite tiny --agent llm_v0 --model openrouter:some/model",
    "error-unknown-provider": "run --suite tiny --agent llm_v0 --model nonsense:model",
    "error-model-script-missing": "run --suite tiny --agent llm_v0 --model scripted:nowhere.yaml",
    "error-model-script-bad": "run --suite tiny --agent llm_v0 --model scripted:answers.yaml",
    "error-recorded-run-missing": "run --suite tiny --agent llm_v0 --model recorded:nowhere",
    "error-prices-missing": "run --suite tiny --agent noop --prices nowhere.csv",
    "error-prices-bad": "run --suite tiny --agent noop --prices results.csv",
    "error-fail-on": "run --suite tiny --agent noop --fail-on 'speed>3'",
    "error-fail-on-syntax": "run --suite tiny --agent noop --fail-on fast",
    "error-executor": "run --suite tiny --agent noop --executor moon",
    "error-monitor": "run --suite tiny --agent noop --monitor moon",
    "error-plugin-built-in": "plugin new check junit",
    "error-plugin-name": "plugin new scorer my-scorer",
    "plugins": "plugins",
    "plugins-json": "plugins --json",
    "error-no-task": "run-task --task nowhere --agent noop",
    "error-bad-task": "task check tasks/refused",
    "error-bad-task-json": "task check tasks/refused/bad --json",
    "error-broken-yaml": "run-task --task tasks/refused/broken --agent noop",
    "error-grade-nothing": "grade --task tasks/tiny/one",
    "error-grade-several": "grade --task tasks/tiny --patch good.patch",
    "error-grade-no-patch": "grade --task tasks/tiny/one --patch nowhere.patch",
    "error-grade-no-predictions": "grade --task tasks/tiny --predictions empty.jsonl",
    "error-grade-bad-predictions": "grade --task tasks/tiny --predictions bad.jsonl",
    "error-grade-report-folder": "grade --task tasks/tiny --predictions predictions.jsonl --report nowhere/report.json",
    "error-no-run": "show nowhere",
    "error-no-run-verify": "verify nowhere",
    "error-no-run-replay": "replay nowhere",
    "error-no-run-summary": "report summary --run tasks",
    "error-show-unknown-task": "show recorded/demo-partial --task nowhere",
    "error-show-html-several": "show recorded/demo-partial --html page.html",
    "error-verify-record": "verify tampered/record",
    "error-verify-patch": "verify tampered/patch",
    "error-verify-cut": "verify tampered/cut",
    "error-verify-head": "verify recorded/demo-partial --expect-head sha256:" + "0" * 64,
    "error-retain-tampered": "retain tampered/record",
    "error-summary-several": "report summary --run recorded/demo-partial --run recorded/demo-noop",
    "error-summary-out": "report summary --run recorded/demo-partial --out page",
    "error-paired-nothing-common": "report paired --run-a recorded/stops --run-b recorded/demo-noop",
    "error-paired-missing": "report paired --run-a nowhere --run-b recorded/demo-noop",
    "error-paired-bad-csv": "report paired --run-a bad.csv --run-b results.csv#a",
    "error-paired-no-columns": "report paired --run-a no-columns.csv --run-b results.csv#a",
    "error-paired-several-methods": "report paired --run-a results.csv --run-b results.csv",
    "error-paired-unknown-method": "report paired --run-a results.csv#c --run-b results.csv#a",
    "error-gate-bad": "report paired --run-a results.csv#a --run-b results.csv#b --gate bad-gate.yaml",
    "error-gate-missing": "report paired --run-a results.csv#a --run-b results.csv#b --gate nowhere.yaml",
    "error-gate-nothing-common": "report paired --run-a recorded/stops --run-b recorded/demo-noop --gate gate.yaml",
    "error-power-rate": "report power --tasks 20 --rate-a nan --rate-b 0.6",
    "error-rescore-nothing": "rescore recorded/demo-partial",
    "error-rescore-weights": "rescore recorded/demo-partial --weights bad-weights.yaml",
    "error-rescore-caps": "rescore recorded/demo-partial --caps bad-caps.yaml",
    "error-query": "query 'select nothing from nowhere' recorded/demo-partial",
    "error-vault-no-originals": "vault get recorded/demo-partial --task shelf-cents --event 1 --reason audit",
    "error-vault-no-reason": "vault destroy recorded/demo-partial",
    "error-vault-recipient": "run --suite tiny --agent noop --vault-recipient age1nothing",
    "error-adjudicate-options": "adjudicate recorded/stops --attempt loops",
    "error-adjudicate-unknown": "adjudicate recorded/stops --attempt missing --truth correct --minutes 1",
    "error-operator-nothing": "operator decide recorded/demo-noop --stop --reason x",
    "error-operator-choice": "operator decide recorded/demo-noop --reason x",
    "error-validate-unknown": "validate-tasks --suite nowhere",
    "error-audit-no-task": "task audit recorded",
    "error-harvest-since": "task harvest calc --since gibberish",
    "error-harvest-missing": "task harvest /nowhere",
    "error-from-commit-unknown": "task from-commit calc 0123abcd",
    "error-statement-missing": "task from-commit calc HEAD --statement-file nowhere.md",
    "error-import-missing": "task import swebench nowhere.jsonl",
    "error-import-bad": "task import swebench bad.jsonl",
    "error-import-harbor": "task import harbor tasks/tiny/one",
    "error-export-harbor": "task export harbor tasks/tiny/nowhere --out harbor",
}
# Cases that change a copy of a run, executed in this order.
CHANGING: dict[str, str] = {
    "adjudicate": "adjudicate reviewed --attempt shelf-cents --truth correct --minutes 6 --reviewer eve --note 'fine'",
    "adjudicate-defect": "adjudicate reviewed --attempt toy-median --truth incorrect --minutes 6 --reviewer eve",
    "adjudicate-defect-category": "adjudicate reviewed --attempt toy-median --truth incorrect --category invariant_violation --minutes 6 --reviewer eve",
    "adjudicate-listed": "adjudicate reviewed --list",
    "summary-adjudicated": "report summary --run reviewed",
    "retain": "retain reduced --approved-by eve --reason 'a year old'",
    "retain-again": "retain reduced --approved-by eve --reason 'a year old'",
    "verify-retained": "verify reduced",
    "replay-retained": "replay reduced --task toy-median",
    "error-keys-new": "keys new ada",
    "keys-list-empty": "keys list",
    "keys-new": "keys new ada --no-passphrase",
    "keys-list": "keys list",
    "keys-show": "keys show ada",
    "error-keys-taken": "keys new ada --no-passphrase",
    "error-keys-unknown": "keys show bob",
    "error-sign-no-key": "sign signed",
    "sign": "sign signed signed-reference --key ada --witness witness",
    "verify-signed": "verify signed --signed-by ada --witness witness",
    "verify-signed-unknown": "verify signed",
    "error-verify-not-signed": "verify reviewed --signed-by ada",
    "error-retain-signed": "retain signed --approved-by eve --reason old",
    "error-export-inside": "export-run signed --out signed/run.tar.zst",
    "export-run": "export-run signed --out run.tar.zst",
    "export-run-public": "export-run signed --out public.tar.zst --public --sign ada",
    "verify-bundle": "verify public.tar.zst --signed-by ada",
    "show-bundle": "show public.tar.zst",
    "error-bundle": "verify good.patch",
    "leaderboard": "report leaderboard signed-reference public.tar.zst --signed-by ada",
    "error-leaderboard-twice": "report leaderboard signed public.tar.zst --signed-by ada",
    "leaderboard-rejected": "report leaderboard signed reviewed --signed-by ada",
    "retain-policy": "retain signed signed-reference --policy retention.yaml",
    "error-retain-policy": "retain signed --policy gate.yaml",
    "retain-policy-applied": "retain signed signed-reference --policy retention.yaml --apply --approved-by eve --sign ada",
}


def all_commands() -> Iterator[tuple[str, ...]]:
    """Every command and group below `ab`, itself included."""

    def walk(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield path
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                member = command.get_command(context, name)
                assert member is not None
                yield from walk(member, (*path, name))

    yield ()
    for name in sorted(COMMANDS):
        command = root.get_command(click.Context(root), name)
        assert command is not None
        yield from walk(command, (name,))


HELP = tuple(all_commands())


def help_name(path: tuple[str, ...]) -> str:
    return "-".join(("help", *path))


def places(stage: Stage) -> dict[str, str]:
    import agentbench

    return {
        str(stage.state): "<state>",
        str(stage.folder): "<dir>",
        str(Path(agentbench.__file__).parent): "<agentbench>",
        str(Path(__file__).parents[2]): "<checkout>",
        sys.prefix: "<prefix>",
    }


def invoke(words: list[str], monkeypatch: pytest.MonkeyPatch) -> Output:
    """Call the entry point of `ab` in this process."""
    monkeypatch.setattr(sys, "argv", ["ab", *words])
    monkeypatch.setenv("COLUMNS", "110")
    out, err = io.StringIO(), io.StringIO()
    before = signal.getsignal(signal.SIGTERM)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as stop:
            run()
    finally:
        signal.signal(signal.SIGTERM, before)
    return Output(int(str(stop.value.code)), out.getvalue(), err.getvalue())


@pytest.mark.req("U-01")
@pytest.mark.parametrize("path", HELP, ids=help_name)
def test_help(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    # click keeps the help option of a command from its first use, which may have been by a test that calls it without `ab`.
    command: click.Command | None = root
    for name in path:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), name)
    monkeypatch.setattr(command, "_help_option", None)
    output = invoke([*path, "--help"], monkeypatch)
    check_snapshot(help_name(path), render(" ".join(("ab", *path, "--help")), output, {}))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(EXECUTED))
def test_output_of_commands_that_execute(name: str, executed: tuple[Stage, dict[str, list[Any]]]) -> None:
    stage, outputs = executed
    output = Output(*outputs[name])
    text = render(f"ab {EXECUTED[name]}", output, places(stage))
    check_snapshot(name, _kinds_only(text) if name.startswith("cache-") else text)


def _kinds_only(text: str) -> str:
    """Keep one line per kind, because the number of items in a cache varies."""
    head, *items = re.sub(r"\b\d+ items", "<n> items", text).rstrip().split("\n  ")
    return "\n  ".join([head, *sorted(set(items))]) + "\n"


@pytest.mark.parametrize("name", list(CASES))
def test_output(name: str, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    run_case(name, CASES[name], stage, monkeypatch)


@pytest.mark.parametrize("names", [tuple(CHANGING)], ids=["changing"])
def test_output_of_commands_that_change_a_run(
    names: tuple[str, ...], stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in names:
        run_case(name, CHANGING[name], stage, monkeypatch)


def run_case(name: str, command: str, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(stage.folder)
    monkeypatch.setenv("AB_STATE", str(stage.state))
    monkeypatch.setenv("AB_KEYS", str(stage.folder / "keys"))
    for key in ("OPENROUTER_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "AB_SIGNING_KEY", "AB_TRUST"):
        monkeypatch.delenv(key, raising=False)
    output = invoke(arguments(command, stage.folder), monkeypatch)
    check_snapshot(name, render(f"ab {command}".rstrip(), output, places(stage)))


def test_doctor_structure(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the sections of `ab doctor`, because the findings differ between machines."""
    monkeypatch.setenv("AB_STATE", str(stage.state))
    output = invoke(["doctor"], monkeypatch)
    kept = [line for line in output.stdout.splitlines() if not line.startswith(" ")]
    kept = [line for line in kept if not line.startswith(("sandbox docker", "problems"))]
    text = re.sub("^READY .*", "READY <sandboxes>", normalise("\n".join(kept), places(stage)))
    check_snapshot("doctor", f"$ ab doctor\nexit code: {output.code}\n{text}\n")


def test_every_snapshot_has_a_case() -> None:
    wanted = {*EXECUTED, *CASES, *CHANGING, *map(help_name, HELP), "doctor", "demo"}
    assert {path.stem for path in FOLDER.iterdir()} - wanted == set()
    assert len(wanted) == len(EXECUTED) + len(CASES) + len(CHANGING) + len(HELP) + 2, "two cases share a name"
