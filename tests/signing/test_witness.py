"""The witness log shows which runs are missing, and keeps every entry when several processes write it."""

from __future__ import annotations

import multiprocessing
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentbench.cli.sign import command as sign
from agentbench.cli.verify import command as verify
from agentbench.core.errors import InputError
from agentbench.record.run_directory import RunDirectory
from agentbench.signing import git_witness
from agentbench.signing.keys import SigningKey, load_signing_key
from agentbench.signing.trust import read_trust
from agentbench.signing.witness import open_witness, witness_run
from tests.record.samples import attempt, whole_run

pytestmark = pytest.mark.component


def folder(path: Path) -> Path:
    return path


def repository(path: Path) -> Path:
    subprocess.run(["git", "init", "-q", path], check=True)
    return path


def bare_repository(path: Path) -> Path:
    subprocess.run(["git", "init", "-q", "--bare", path], check=True)
    return path


PLACES = pytest.mark.parametrize("make", [folder, repository, bare_repository])


@PLACES
def test_missing_and_altered_runs_are_found(
    make: Callable[[Path], Path], tmp_path: Path, ada: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, runs = make(tmp_path / "witness"), tmp_path / "runs"
    paths = [whole_run(runs) for _ in range(3)]
    signed = CliRunner().invoke(sign, [*map(str, paths), "--key", "ada", "--witness", str(place)])
    assert signed.exit_code == 0, signed.output
    check = ["--signed-by", "ada", "--witness", str(place)]
    complete = CliRunner().invoke(verify, [str(runs), *check])
    assert complete.output == "VERIFIED: 3 runs, 3 entries in the witness log, none missing\n"
    assert CliRunner().invoke(verify, [str(paths[0]), *check]).exit_code == 0

    shutil.rmtree(paths[1])
    missing = CliRunner().invoke(verify, [str(runs), *check])
    assert missing.exit_code == 1
    assert missing.output.startswith(f"ALTERED removed: {paths[1].name}: run ")

    shutil.rmtree(paths[0])
    shutil.rmtree(paths[2])
    assert CliRunner().invoke(verify, [str(runs), *check]).exit_code == 1

    unknown = whole_run(runs)
    assert CliRunner().invoke(sign, [str(unknown), "--key", "ada"]).exit_code == 0
    not_listed = CliRunner().invoke(verify, [str(unknown), *check])
    assert not_listed.output.startswith(f"ALTERED missing: {unknown.name}: the run is not in the witness log")


def test_run_replaced_after_it_was_witnessed_is_found(tmp_path: Path, ada: SigningKey) -> None:
    run, place = whole_run(tmp_path / "runs"), tmp_path / "witness"
    witness_run(place, run, ada)
    continued = RunDirectory.open(run, writable=True)
    attempt(continued, "later")
    continued.close()
    assert CliRunner().invoke(verify, [str(run), "--witness", str(place)]).exit_code == 0
    events = (run / "events.jsonl").read_bytes().splitlines(keepends=True)
    (run / "events.jsonl").write_bytes(b"".join(events[:-1]) + b"\n")
    other = whole_run(tmp_path / "other")
    (other / "run.json").write_bytes((run / "run.json").read_bytes())
    replaced = CliRunner().invoke(verify, [str(other), "--witness", str(place)])
    assert replaced.exit_code == 1
    assert "its chain is not the one of entry 1" in replaced.output


@pytest.mark.parametrize(
    "edit",
    [
        lambda lines: lines[1:],
        lambda lines: [lines[0], lines[2]],
        lambda lines: [lines[1], lines[0], lines[2]],
        lambda lines: [lines[0], lines[1].replace(b'"sig":"', b'"sig":"A'), lines[2]],
        lambda lines: [*lines, lines[2]],
        lambda lines: [*lines[:2], lines[2][:-20]],
        lambda lines: [*lines, b"{}\n"],
    ],
    ids=["first dropped", "middle dropped", "reordered", "signature", "repeated", "torn", "foreign line"],
)
def test_edited_log_is_detected(
    edit: Callable[[list[bytes]], list[bytes]], tmp_path: Path, keys: Path, ada: SigningKey
) -> None:
    run, place = whole_run(tmp_path / "runs"), tmp_path / "witness"
    for _ in range(3):
        witness_run(place, run, ada)
    log = place / "witness.jsonl"
    trust = read_trust("ada", keys)
    assert open_witness(place, trust).problem is None
    log.write_bytes(b"".join(edit(log.read_bytes().splitlines(keepends=True))))
    assert open_witness(place, trust).problem is not None


def test_entries_of_other_keys_are_not_trusted(tmp_path: Path, keys: Path, ada: SigningKey, eve: SigningKey) -> None:
    run, place = whole_run(tmp_path / "runs"), tmp_path / "witness"
    witness_run(place, run, eve)
    problem = open_witness(place, read_trust("ada", keys)).problem
    assert problem is not None
    assert "no key of ada signed the entry" in problem.message


def test_verify_without_signed_by_uses_the_trust_file_for_the_log(
    tmp_path: Path, ada: SigningKey, eve: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, place = tmp_path / "runs", tmp_path / "witness"
    run = whole_run(runs)
    witness_run(place, run, eve)
    for target in (run, runs):
        verified = CliRunner().invoke(verify, [str(target), "--witness", str(place)])
        assert verified.exit_code == 0, verified.output
        assert "note: witness entries are not authenticated" in verified.output
    trust = tmp_path / "trust.yaml"
    trust.write_text(f"keys: [{{name: Ada, key: {ada.public.text}}}]")
    monkeypatch.setenv("AB_TRUST", str(trust))
    for target in (run, runs):
        refused = CliRunner().invoke(verify, [str(target), "--witness", str(place)])
        assert refused.exit_code == 1
        assert f"no key of {trust} signed the entry" in refused.output
        assert "not authenticated" not in refused.output


def test_expected_head_of_a_folder_of_runs_is_a_usage_error(tmp_path: Path, ada: SigningKey) -> None:
    run, place = whole_run(tmp_path / "runs"), tmp_path / "witness"
    witness_run(place, run, ada)
    refused = CliRunner().invoke(verify, [str(run.parent), "--witness", str(place), "--expect-head", "sha256:0"])
    assert refused.exit_code == 2
    assert "--expect-head is for one run" in refused.output


def test_empty_folder_and_empty_log_are_nothing_to_verify(tmp_path: Path, keys: Path) -> None:
    for name in ("runs", "witness"):
        (tmp_path / name).mkdir()
    log = tmp_path / "witness/witness.jsonl"
    log.write_bytes(b"")
    arguments = [str(tmp_path / "runs"), "--witness", str(log.parent)]
    refused = CliRunner().invoke(verify, arguments).exception
    assert isinstance(refused, InputError)
    assert refused.message.startswith("nothing to verify: no runs in ")
    log.write_bytes(b"{}\n")
    assert CliRunner().invoke(verify, arguments).output.startswith("ALTERED changed: witness.jsonl:1: ")


def test_broken_log_is_not_continued(tmp_path: Path, ada: SigningKey) -> None:
    run, place = whole_run(tmp_path / "runs"), tmp_path / "witness"
    witness_run(place, run, ada)
    (place / "witness.jsonl").write_bytes(b"{}\n")
    with pytest.raises(InputError, match="is broken"):
        witness_run(place, run, ada)
    assert (place / "witness.jsonl").read_bytes() == b"{}\n"
    with pytest.raises(InputError, match="cannot read the witness log"):
        open_witness(tmp_path / "nothing", None)


def test_commit_that_rewrites_the_log_is_detected(tmp_path: Path, ada: SigningKey) -> None:
    run, place = whole_run(tmp_path / "runs"), repository(tmp_path / "witness")
    for _ in range(2):
        witness_run(place, run, ada)

    def git(*arguments: str, stdin: bytes = b"") -> str:
        identity = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
        done = subprocess.run(["git", *identity, *arguments], cwd=place, input=stdin, capture_output=True, check=True)
        return done.stdout.decode().strip()

    fresh = tmp_path / "fresh"
    witness_run(fresh, run, ada)
    blob = git("hash-object", "-w", "--stdin", stdin=(fresh / "witness.jsonl").read_bytes())
    tree = git("mktree", stdin=f"100644 blob {blob}\twitness.jsonl\n".encode())
    tip = git("rev-parse", "agentbench-witness")
    git("update-ref", "refs/heads/agentbench-witness", git("commit-tree", tree, "-p", tip, "-m", "rewrite"))
    problem = open_witness(place, None).problem
    assert problem is not None
    assert "changed earlier lines" in problem.message


def test_failure_of_git_is_reported_with_its_message(
    tmp_path: Path, ada: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, place = whole_run(tmp_path / "runs"), repository(tmp_path / "witness")
    stale = place / ".git/refs/heads/agentbench-witness.lock"
    stale.touch()
    monkeypatch.setitem(git_witness._OVERRIDES, "core.filesRefLockTimeout", "0")
    with pytest.raises(InputError, match=r"git update-ref failed in .*agentbench-witness\.lock': File exists"):
        witness_run(place, run, ada)
    stale.unlink()
    assert witness_run(place, run, ada).seq == 1


def test_repository_with_sha256_objects_keeps_a_log(tmp_path: Path, ada: SigningKey) -> None:
    run, place = whole_run(tmp_path / "runs"), tmp_path / "witness"
    subprocess.run(["git", "init", "-q", "--object-format=sha256", place], check=True)
    for _ in range(2):
        witness_run(place, run, ada)
    assert [entry.seq for entry in open_witness(place, None).entries] == [1, 2]


def append(place: Path, run: Path, keys: Path) -> None:
    for _ in range(4):
        witness_run(place, run, load_signing_key("ada", keys))


@PLACES
def test_processes_that_append_at_once_lose_nothing(
    make: Callable[[Path], Path], tmp_path: Path, keys: Path, ada: SigningKey
) -> None:
    run, place = whole_run(tmp_path / "runs"), make(tmp_path / "witness")
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=append, args=(place, run, keys)) for _ in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    log = open_witness(place, read_trust("ada", keys))
    assert log.problem is None
    assert [entry.seq for entry in log.entries] == list(range(1, 9))
