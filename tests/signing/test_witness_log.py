"""The witness log shows which runs are missing, and keeps every entry when several processes write it."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentbench.cli.sign import command as sign
from agentbench.cli.verify import command as verify
from agentbench.core.errors import InputError
from agentbench.record import find_run, naming
from agentbench.record.bundle import write_bundle
from agentbench.record.run_directory import RunDirectory
from agentbench.signing import git_witness_log
from agentbench.signing.keys import SigningKey, load_signing_key
from agentbench.signing.run_signature import sign_run
from agentbench.signing.trust import read_trust
from agentbench.signing.witness_log import open_witness, witness_run
from tests.record.bundles import member, pack
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
    assert complete.output.startswith(
        "VERIFIED: 3 runs, 3 entries in the witness log, none missing\n  head of the witness log"
    )
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
    assert "the entry is not signed with the key ada (SHA256:" in problem.message


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
        assert f"the entry is not signed with a key of {trust}" in refused.output
        assert "not authenticated" not in refused.output


def test_end_of_the_log_is_missed_if_its_head_was_noted(tmp_path: Path, ada: SigningKey) -> None:
    first, second = (whole_run(tmp_path / "runs") for _ in range(2))
    log = tmp_path / "witness/witness.jsonl"
    check = [str(tmp_path / "runs"), "--witness", str(log.parent), "--signed-by", ada.public.text]
    heads = []
    for run in (first, second):
        sign_run(run, ada)
        witness_run(log.parent, run, ada)
        heads.append(json.loads(CliRunner().invoke(verify, [*check, "--json"]).output)["witness_head"])
    # A log that has grown still contains the earlier head.
    assert CliRunner().invoke(verify, [*check, "--expect-head", heads[0]]).exit_code == 0
    shutil.rmtree(second)
    log.write_bytes(log.read_bytes().splitlines(keepends=True)[0])
    assert CliRunner().invoke(verify, check).exit_code == 0
    done = CliRunner().invoke(verify, [*check, "--expect-head", heads[1]])
    assert done.exit_code == 1
    assert done.output.startswith(f"ALTERED removed: witness.jsonl: has no line with the digest {heads[1]}: its end")


def test_pipe_in_place_of_the_log_is_reported(tmp_path: Path, keys: Path) -> None:
    os.mkfifo(tmp_path / "witness.jsonl")
    refused = CliRunner().invoke(verify, [str(tmp_path), "--witness", str(tmp_path)]).exception
    assert isinstance(refused, InputError)
    assert "not a regular file" in refused.message


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
    monkeypatch.setitem(git_witness_log._OVERRIDES, "core.filesRefLockTimeout", "0")
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


def test_bundles_of_a_folder_are_verified_and_copies_count_once(tmp_path: Path, ada: SigningKey) -> None:
    runs, place = tmp_path / "runs", tmp_path / "witness"
    paths = [whole_run(runs) for _ in range(2)]
    assert CliRunner().invoke(sign, [*map(str, paths), "--key", "ada", "--witness", str(place)]).exit_code == 0
    write_bundle(paths[0], runs / "first.tar.zst")
    shutil.rmtree(paths[0])
    (runs / "notes.txt").write_text("not a run")
    check = [str(runs), "--signed-by", "ada", "--witness", str(place)]
    first_line = CliRunner().invoke(verify, check).output.splitlines()[0]
    assert first_line == "VERIFIED: 2 runs, 2 entries in the witness log, none missing"

    shutil.copytree(paths[1], runs / "copy")
    write_bundle(paths[1], runs / "second.tar.zst")
    done = CliRunner().invoke(verify, check)
    assert done.exit_code == 0
    assert done.output.splitlines()[0] == "VERIFIED: 2 runs, 2 entries in the witness log, none missing"
    assert done.output.count("and counts once") == 2

    pack(runs / "unsafe.tar.zst", member("../evil"))
    (runs / "copy/tasks/other/diffs/final.patch").write_bytes(b"")
    done = CliRunner().invoke(verify, check)
    assert done.exit_code == 1
    assert "changed: copy/tasks/other/diffs/final.patch: " in done.output
    assert "unsafe.tar.zst is not a safe bundle: " in done.output
    assert "is missing" not in done.output


def test_large_run_json_and_large_folders_are_not_read(
    tmp_path: Path, ada: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, place = tmp_path / "runs", tmp_path / "witness"
    witness_run(place, whole_run(runs), ada)
    monkeypatch.setattr(naming, "MAX_RUN_JSON", 10)
    done = CliRunner().invoke(verify, [str(runs), "--witness", str(place)])
    assert done.exit_code == 1
    assert "is missing: entry 1" in done.output
    monkeypatch.setattr(find_run, "MAX_ENTRIES", 0)
    refused = CliRunner().invoke(verify, [str(runs), "--witness", str(place)]).exception
    assert isinstance(refused, InputError)
    assert "has more than 0 entries" in refused.message


def test_hostile_repository_executes_nothing(tmp_path: Path, keys: Path, ada: SigningKey) -> None:
    run, place = whole_run(tmp_path / "runs"), repository(tmp_path / "witness")
    witness_run(place, run, ada)
    executed = tmp_path / "executed"
    evil = tmp_path / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {executed}\n")
    evil.chmod(0o755)
    for hook in ("reference-transaction", "post-commit", "post-index-change", "fsmonitor-watchman"):
        shutil.copy(evil, place / ".git/hooks" / hook)
    included = tmp_path / "included"
    included.write_text(f"[core]\n\tfsmonitor = {evil}\n\tsshCommand = {evil}\n\thooksPath = {place}/.git/hooks\n")
    remote = tmp_path / "remote"
    subprocess.run(["git", "clone", "-q", "--bare", place, remote], check=True)
    with (place / ".git/config").open("a") as config:
        config.write(f"[include]\n\tpath = {included}\n[core]\n\tpager = {evil}\n\talternateRefsCommand = {evil}\n")
        config.write(
            f"[extensions]\n\tpartialClone = origin\n[gpg]\n\tprogram = {evil}\n[log]\n\tshowSignature = true\n"
        )
        config.write(f'[remote "origin"]\n\turl = {remote}\n\tuploadpack = {evil}\n\tpromisor = true\n')
        config.write(f'[filter "x"]\n\tclean = {evil}\n\tsmudge = {evil}\n')
    (place / ".git/info/attributes").write_text("* filter=x\n")
    trust = read_trust("ada", keys)
    assert open_witness(place, trust).problem is None
    assert witness_run(place, run, ada).seq == 2
    # A missing object makes git fetch it from a promisor remote, with the program that `uploadpack` names.
    shutil.rmtree(place / ".git/objects")
    (place / ".git/objects").mkdir()
    with pytest.raises(InputError, match="git "):
        open_witness(place, trust)
    assert not executed.exists()


def test_runs_are_signed_all_or_none(tmp_path: Path, ada: SigningKey) -> None:
    good, bad, place = whole_run(tmp_path / "a"), whole_run(tmp_path / "b"), tmp_path / "witness"
    (bad / "tasks/other/diffs/final.patch").write_bytes(b"")
    arguments = [str(good), str(bad), "--key", "ada", "--witness", str(place)]
    refused = CliRunner().invoke(sign, arguments).exception
    assert isinstance(refused, InputError)
    assert "does not verify" in refused.message
    assert refused.remedy.startswith("none of the 2 runs was signed; ")
    assert not (good / "signature.dsse.json").exists()
    assert not place.exists()
    place.mkdir()
    (place / "witness.jsonl").write_bytes(b"{}\n")
    broken = CliRunner().invoke(sign, [str(good), "--key", "ada", "--witness", str(place)]).exception
    assert isinstance(broken, InputError)
    assert "is broken" in broken.message
    assert not (good / "signature.dsse.json").exists()
    twice = CliRunner().invoke(sign, [str(good), str(good), "--key", "ada"])
    assert twice.output.count("Signed ") == 1


def test_signature_is_called_not_checked_without_a_key(
    tmp_path: Path, ada: SigningKey, eve: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = whole_run(tmp_path / "runs")
    sign_run(run, ada)
    done = CliRunner().invoke(verify, [str(run)])
    assert done.exit_code == 0
    first, second = done.output.splitlines()[:2]
    assert first == "VERIFIED: 3 attempts, 50 events, 3 verdicts recomputed"
    assert second.startswith("  signature not checked, because no trust file is set; it claims the key SHA256:")
    assert second.endswith("; check it with --signed-by KEY")
    trust = tmp_path / "trust.yaml"
    trust.write_text(f"keys: [{{name: Eve, key: {eve.public.text}}}]")
    monkeypatch.setenv("AB_TRUST", str(trust))
    untrusted = CliRunner().invoke(verify, [str(run)])
    assert untrusted.exit_code == 0
    assert untrusted.output.splitlines()[1].startswith("  signature not trusted: signed with SHA256:")
    monkeypatch.setenv("AB_TRUST", str(tmp_path / "nothing.yaml"))
    missing = CliRunner().invoke(verify, [str(run)]).exception
    assert isinstance(missing, InputError)
    assert missing.message == f"AB_TRUST names {tmp_path}/nothing.yaml, which does not exist"


def test_pilot_files_in_a_run_do_not_change_what_is_verified(tmp_path: Path, ada: SigningKey) -> None:
    run = whole_run(tmp_path)
    sign_run(run, ada)
    (run / "pilot.yaml").write_text("")
    done = CliRunner().invoke(verify, [str(run), "--signed-by", "ada"])
    assert done.exit_code == 1
    assert done.output.startswith("ALTERED appended: pilot.yaml: was added after the run was signed")
