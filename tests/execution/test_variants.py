"""Variants name what is compared: commands, files and environment of programs, and `--name` on the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from agentbench.core.errors import ContractError
from agentbench.execution.variant_file import load_variant
from tests.execution.conftest import Ab
from tests.execution.tasks import make_suite


@pytest.mark.end_to_end
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_two_versions_of_a_program_are_compared_by_name(ab: Ab, tmp_path: Path) -> None:
    make_suite(tmp_path / "tasks", "one")
    (tmp_path / "solver").mkdir()
    (tmp_path / "solver" / "solve.sh").write_text('echo "$ANSWER" > answer.txt\n')
    variants = tmp_path / "configs" / "variants"
    variants.mkdir(parents=True)
    for name, answer in (("old", "41"), ("new", "42")):
        (variants / f"{name}.yaml").write_text(
            f'{{name: {name}, command: sh "$AB_AGENT_FILES/solve.sh", files: ../../solver, env: {{ANSWER: "{answer}"}},'
            f' model: {{name: "m-{name}@http://127.0.0.1:9/v1"}}}}'
        )
    ran = ab("run", "--suite", "tiny", "--variant", "old", "--variant", "new", "--no-preflight", "--json")
    assert ran.code == 0, ran.stderr
    names = [Path(run).name.split("__", 1)[1] for run in ran.json["run_dirs"]]
    assert names == [f"tiny__{name}__m-{name}_http_127.0.0.1_9_v1" for name in ("old", "new")]
    attempts = {attempt["variant"]: attempt for attempt in ran.json["attempts"]}
    assert {name: attempt["result"]["passed"] for name, attempt in attempts.items()} == {"old": False, "new": True}
    assert {attempt["agent"] for attempt in attempts.values()} == {"command"}
    manifest = json.loads(next(tmp_path.glob("artifacts/runs/*__new__*/tasks/one/manifest.json")).read_text())
    configuration = manifest["protocol_manifest"]["planned"]["configuration"]
    assert configuration["env"] == {"value": "ANSWER=42", "origin": "variant"}
    assert configuration["command"]["value"] == 'sh "$AB_AGENT_FILES/solve.sh"'

    named = ab(
        "run", "--suite", "tiny", "--agent", "command", "--agent-command", "echo 42 > answer.txt", "--name", "one-liner", "--json"
    )  # fmt: skip
    assert named.record["variant"] == "one-liner"
    assert "one-liner" in Path(named.json["run_dir"]).name
    assert "one-liner − old" in ab("report", "paired", ran.json["run_dirs"][0], "latest").stdout


@pytest.mark.parametrize(
    "text, problem",
    [
        ("name: x", "expected exactly one of agent, command and cli; got none"),
        ("{name: x, agent: noop, command: solve}", "got agent, command"),
        ("{name: x, command: solve, cli: aider}", "got command, cli"),
        ("{name: x, agent: noop, env: {A: b}}", "env: only for a program"),
        ("{name: x, command: solve, env: {A-B: c}}", "env.A-B: expected the name of an environment variable"),
        ("{name: x, agent: llm_v0, model: {temperature: 9}}", "model.temperature: expected at most 2; got 9"),
        ("{name: x, agent: llm_v0, model: {max_tokens: 0}}", "model.max_tokens: expected more than 0; got 0"),
        ("{name: x, agent: noop, limits: {max_steps: -4}}", "limits.max_steps: expected at least 1; got -4"),
    ],
)
def test_contradictory_variants_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(ContractError, match="1 problem") as caught:
        load_variant("x", tmp_path)
    assert f"{tmp_path / 'x.yaml'}:1: " in caught.value.problems[0]
    assert problem in caught.value.problems[0]


def test_files_are_relative_to_the_variant(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("{name: x, cli: aider, files: program}")
    variant = load_variant("x", tmp_path)
    assert (variant.entrypoint, variant.files) == ("cli:aider", str(tmp_path / "program"))


@pytest.mark.parametrize("agent", ["inspect:solvers:fix", "harbor:agents:Fixer"])
def test_variant_of_another_tool_has_files_and_environment(tmp_path: Path, agent: str) -> None:
    (tmp_path / "x.yaml").write_text(f"{{name: x, agent: '{agent}', files: program, env: {{A: b}}}}")
    assert load_variant("x", tmp_path).files == str(tmp_path / "program")


@pytest.mark.parametrize(
    "options, message",
    [
        (("--variant", "a", "--variant", "b", "--name", "c"), "--name names one method"),
        (("--variant", "a", "--variant", "a"), "two variants have the same name"),
        (("--variant", "empty"), "variant empty has no command"),
        (("--agent", "noop", "--name", "a/b"), "--name: expected"),
        (("--variant", "unknown"), "variant unknown: unknown agent 'noob' (did you mean `noop`?)"),
        (("--variant", "prompt"), "variant prompt: unknown prompt 'sytem_v1'"),
        (("--variant", "tokens"), "variant tokens: options.context_tokens: expected a number of tokens, got 'many'"),
        (("--variant", "option"), "variant option: unknown option 'contxt_tokens' of agent 'context_packer'"),
        (("--variant", "provider"), "variant provider: model openaii:x: unknown provider 'openaii'"),
        (("--variant", "several"), "variant several: unknown option 'x' of agent 'context_packer'"),
        (("--variant", "several"), "variant several: unknown prompt 'sytem_v1'"),
        (("--variant", "several"), "variant several: options.context_tokens: expected a number of tokens, got 'many'"),
        ((), "no agent was named, and the default agent 'llm_v0' needs a model"),
        (("--agent", "llm_v0"), "error: agent 'llm_v0' needs a model"),
    ],
)
def test_bad_names_and_missing_commands_end_before_anything_runs(
    ab: Ab, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    make_suite(tmp_path / "tasks", "one")
    variants = tmp_path / "configs" / "variants"
    variants.mkdir(parents=True)
    (tmp_path / "script.yaml").write_text("answers: [{text: done}]")
    for name, keys in {
        "a": "agent: noop",
        "b": "agent: noop",
        "empty": "agent: command",
        "unknown": "agent: noob",
        "prompt": "agent: llm_v0, prompt: sytem_v1, model: {name: 'scripted:script.yaml'}",
        "tokens": "agent: context_packer, options: {context_tokens: many}, model: {name: 'scripted:script.yaml'}",
        "option": "agent: context_packer, options: {contxt_tokens: '9'}, model: {name: 'scripted:script.yaml'}",
        "several": "agent: context_packer, prompt: sytem_v1, options: {x: '1', context_tokens: many}, "
        "model: {name: 'scripted:script.yaml'}",
        "provider": "agent: llm_v0, model: {name: 'openaii:x'}",
    }.items():
        (variants / f"{name}.yaml").write_text(f"{{name: {name}, {keys}}}")
    for dry in ((), ("--dry-run",)):
        ran = ab("run", "--suite", "tiny", *options, *dry)
        assert ran.code == 2
        assert message in ran.stderr
    assert not (tmp_path / "artifacts").exists()
