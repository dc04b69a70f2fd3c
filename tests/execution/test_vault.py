"""Originals of redacted text: in the restricted store, readable with its key, and every access logged."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from agentbench.core.errors import RecordError
from agentbench.core.ids import new_ulid
from agentbench.execution.evidence import StoreOptions, create_store
from agentbench.vault.access_log import append, entry
from agentbench.vault.age import Unlock, encrypt, new_identity, read_identities
from agentbench.vault.store import RunStore
from tests.execution.conftest import Ab, Ran
from tests.execution.tasks import make_task
from tests.execution.test_interruption import Slow, wait_for

pytestmark = [pytest.mark.req("E-10b", "E-10c"), pytest.mark.end_to_end]

TOKEN = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"
LONG = "5d41402abc4b2a76b9719d911017c592ffee0102"
COMMAND = "cat app.ini; /bin/echo $(cat app.ini) > /dev/null; sed -i 's/demo/real/' app.ini; echo 42 > answer.txt"


@pytest.fixture
def task(tmp_path: Path) -> Path:
    folder = make_task(tmp_path / "task")
    (folder / "repo" / "app.ini").write_text(f"[app]\napi_token = {TOKEN}\nname = demo\n")
    return folder


@pytest.fixture
def key(ab: Ab) -> tuple[Path, str]:
    """A key file and its recipient."""
    ran = ab("vault", "new-key", "audit.key")
    assert ran.code == 0, ran.stderr
    return ab.cwd / "audit.key", ran.stdout.strip()


@pytest.fixture
def kept(ab: Ab, task: Path, key: tuple[Path, str]) -> Path:
    """A run whose originals are kept."""
    ran = ab.by_command(task, COMMAND, "--vault-recipient", key[1])
    assert ran.code == 0, ran.stderr
    assert ran.record["result"]["passed"], ran.record
    return Path(ran.json["run_dir"])


def files_with(folder: Path, text: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def events(run: Path, kind: str) -> list[dict[str, Any]]:
    lines = next(run.glob("tasks/*/events.jsonl")).read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["type"] == kind]


def accesses(ab: Ab, run: Path) -> list[tuple[str, str, str]]:
    ran = ab("vault", "log", run, "--json")
    assert ran.code == 0, ran.stdout
    return [(entry["outcome"], entry["place"], entry["why"]) for entry in ran.json["accesses"]]


def get(ab: Ab, run: Path, *options: str | Path, reason: str = "incident 42") -> Ran:
    return ab("vault", "get", run, *options, "--reason", reason, "--by", "eve")


def test_originals_are_readable_with_the_key_alone(ab: Ab, kept: Path, key: tuple[Path, str]) -> None:
    assert files_with(kept.parent, TOKEN) == []
    (output,) = [event for event in events(kept, "tool_call_finished") if event["payload"]["stdout"]["text"]]
    assert "[redacted:repo-secret:1]" in output["payload"]["stdout"]["text"]
    ran = get(ab, kept, "--event", str(output["seq"]), "--key", key[0])
    assert ran.code == 0, ran.stderr
    assert ran.json["outputs"] == {output["payload"]["stdout"]["sha256"]: f"[app]\napi_token = {TOKEN}\nname = demo\n"}
    (process,) = [event for event in events(kept, "process_started") if "repo-secret" in str(event["payload"]["argv"])]
    assert TOKEN in get(ab, kept, "--event", str(process["seq"]), "--key", key[0]).json["payload"]["argv"]
    patch = get(ab, kept, "--file", "diffs/final.patch", "--key", key[0])
    assert f" api_token = {TOKEN}\n" in patch.stdout
    meta = json.loads((kept / "run.json").read_text())
    (store,) = (path for path in (kept.parent / ".vault").iterdir() if path.is_dir())
    run_key = (store / "recipient").read_text().strip()
    assert meta["evidence"] == {"text": "redacted", "originals": "kept", "recipients": [key[1]], "run_key": run_key}
    verified = ab("verify", kept)
    assert verified.code == 0
    assert "note: originals are in the restricted store" in verified.stdout


def test_only_what_redaction_changed_is_kept(ab: Ab, kept: Path) -> None:
    listed = json.loads(next(kept.glob("tasks/*/meta/originals.json")).read_text())["originals"]
    kinds = sorted(place.partition(":")[0] for place in listed)
    assert kinds == ["event", "file", "output", "output"], listed
    assert all(len(original["sha256"]) == 64 for original in listed.values())


def test_every_access_and_refusal_is_logged(ab: Ab, kept: Path, key: tuple[Path, str], tmp_path: Path) -> None:
    other = ab("vault", "new-key", "other.key")
    assert other.code == 0
    patch = ("--file", "diffs/final.patch")
    attempt = json.loads((kept / "attempts.jsonl").read_text())["attempt_id"]
    assert get(ab, kept, *patch, "--key", key[0]).code == 0
    refused = [
        (get(ab, kept, *patch, "--key", key[0], reason=" "), "no reason given"),
        (get(ab, kept, *patch, "--key", "other.key"), "the key does not open the originals of this run"),
        (get(ab, kept, *patch), "no key given"),
        (get(ab, kept, *patch, "--key", "missing.key"), "cannot read missing.key: No such file or directory"),
        (get(ab, kept, "--file", "run.json", "--key", key[0]), "the run keeps no original of file:run.json"),
    ]
    refused += [
        (get(ab, kept, *patch, "--key", key[0], "--task", "other"), f"no such attempt in {kept}"),
        (get(ab, kept, "--event", "9999", "--key", key[0]), f"attempt {attempt} has no event 9999"),
    ]
    (tmp_path / "other.key").chmod(0o644)
    refused.append((get(ab, kept, *patch, "--key", "other.key"), "other.key can be read by other users"))
    for ran, why in refused:
        assert (ran.code, ran.stdout) == (2, ""), ran
        assert ran.stderr.startswith(f"error: {why}"), ran.stderr
    logged = accesses(ab, kept)
    assert logged[:2] == [("granted", "", ""), ("granted", "file:diffs/final.patch", "")]
    assert [entry[0] for entry in logged[2:]] == ["refused"] * len(refused)
    assert [entry[2] for entry in logged[2:]] == [why for _, why in refused]
    assert "refused get of" in ab("vault", "log", kept).stdout


PATCH = "file:diffs/final.patch"


def _store(run: Path) -> Path:
    (store,) = [path for path in (run.parent / ".vault").iterdir() if path.is_dir()]
    return store


def _entries(run: Path) -> tuple[Path, list[dict[str, Any]]]:
    (path,) = _store(run).glob("*.jsonl")
    return path, [json.loads(line) for line in path.read_text().splitlines()]


def _write(path: Path, entries: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(entry, sort_keys=True, separators=(",", ":")) + "\n" for entry in entries))


def _change_entry(run: Path) -> None:
    path, entries = _entries(run)
    patch = next(entry for entry in entries if entry["place"] == PATCH)
    data = bytearray(base64.b64decode(patch["age"]))
    data[-1] ^= 1
    patch["age"] = base64.b64encode(data).decode()
    _write(path, entries)


def _swap_entries(run: Path) -> None:
    path, entries = _entries(run)
    patch = next(entry for entry in entries if entry["place"] == PATCH)
    other = next(entry for entry in entries if entry["place"] != PATCH)
    patch |= {name: other[name] for name in ("age", "sha256", "bytes")}
    _write(path, entries)


def _drop_entry(run: Path) -> None:
    path, entries = _entries(run)
    _write(path, [entry for entry in entries if entry["place"] != PATCH])


def _change_list(run: Path) -> None:
    path = next(run.glob("tasks/*/meta/originals.json"))
    value = json.loads(path.read_text())
    value["originals"][PATCH]["sha256"] = "0" * 64
    path.write_text(json.dumps(value, sort_keys=True, separators=(",", ":")) + "\n")


def _replace_list(run: Path) -> None:
    next(run.glob("tasks/*/meta/originals.json")).write_text("[]\n")


def _change_key(run: Path) -> None:
    path = _store(run) / "key.age"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


CHANGES = {
    "cannot be decrypted": _change_entry,
    "another digest": _swap_entries,
    "is missing in the store": _drop_entry,
    "the evidence was changed": _change_list,
    "is not a list of originals": _replace_list,
    "the encrypted data was changed": _change_key,
}


def test_changed_originals_are_refused_and_logged(ab: Ab, kept: Path, key: tuple[Path, str]) -> None:
    for number, (why, change) in enumerate(CHANGES.items()):
        run = shutil.copytree(kept.parent, ab.cwd / f"copy{number}") / kept.name
        change(run)
        ran = get(ab, run, "--file", "diffs/final.patch", "--key", key[0])
        assert (ran.code, ran.stdout) == (1, ""), (why, ran)
        assert why in ran.stderr
        assert why in accesses(ab, run)[-1][2]


def test_changed_access_log_is_reported_and_stops_access(ab: Ab, kept: Path, key: tuple[Path, str]) -> None:
    assert get(ab, kept, "--file", "diffs/final.patch", "--key", key[0]).code == 0
    log = kept.parent / ".vault/access.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"who":"eve"', b'"who":"bob"'))
    ran = ab("vault", "log", kept)
    assert ran.code == 1
    assert ran.stdout.startswith("ALTERED: ")
    again = get(ab, kept, "--file", "diffs/final.patch", "--key", key[0])
    assert (again.code, again.stdout) == (3, "")


def test_rotation_replaces_the_keys_and_destruction_ends_access(ab: Ab, kept: Path, key: tuple[Path, str]) -> None:
    new = ab("vault", "new-key", "new.key").stdout.strip()
    rotate = ("vault", "rotate", kept, "--to", new, "--reason", "eve left")
    wrong = ab(*rotate, "--key", "new.key")
    assert (wrong.code, "does not open" in wrong.stderr) == (2, True)
    assert ab(*rotate, "--key", key[0]).code == 0
    patch = ("--file", "diffs/final.patch")
    assert get(ab, kept, *patch, "--key", key[0]).code == 2
    assert TOKEN in get(ab, kept, *patch, "--key", "new.key").stdout
    unexplained = ab("vault", "destroy", kept)
    assert (unexplained.code, "no reason given" in unexplained.stderr) == (2, True)
    assert ab("vault", "destroy", kept, "--reason", "request of the owner", "--by", "ann").code == 0
    assert list((kept.parent / ".vault").glob("*/*")) == []
    log = kept.parent / ".vault/access.jsonl"
    aside = log.rename(log.with_name("aside"))
    replaced = ab("vault", "log", kept)
    assert (replaced.code, "has no entry about this run" in replaced.stdout) == (1, True)
    aside.rename(log)
    gone = get(ab, kept, *patch, "--key", "new.key")
    assert gone.code == 2
    assert "destroyed at " in gone.stderr
    assert "by ann (request of the owner)" in gone.stderr
    logged = ab("vault", "log", kept, "--json").json["accesses"]
    assert [(entry["action"], entry["outcome"]) for entry in logged] == [
        ("create", "granted"),
        ("rotate", "refused"),
        ("rotate", "granted"),
        ("get", "refused"),
        ("get", "granted"),
        ("destroy", "refused"),
        ("destroy", "granted"),
        ("get", "refused"),
    ]
    verified = ab("verify", kept)
    assert (verified.code, "by ann (request of the owner)" in verified.stdout) == (0, True)


def test_rotation_of_all_runs_skips_some_and_can_be_repeated(ab: Ab, key: tuple[Path, str]) -> None:
    new = ab("vault", "new-key", "new.key").stdout.strip()
    other = ab("vault", "new-key", "other.key").stdout.strip()
    folder = ab.cwd / "store"
    first, middle, last = (RunStore(folder, new_ulid()) for _ in range(3))
    for store, recipient in ((first, key[1]), (middle, other), (last, key[1])):
        create_store(StoreOptions(str(folder), (recipient,)), store.run_id)
    rotate = ("vault", "rotate", "--all", "--vault", folder, "--to", new, "--reason", "eve left", "--key")
    ran = ab(*rotate, key[0])
    wrong = "the key does not open the originals of this run"
    states = ["rotated {}", f"skipped {{}}: {wrong}", "rotated {}"]
    assert (ran.code, sorted(ran.stdout.splitlines())) == (1, _lines(states, first, middle, last))
    again = ab(*rotate, key[0])
    states = ["already rotated {}", f"skipped {{}}: {wrong}", "already rotated {}"]
    assert (again.code, sorted(again.stdout.splitlines())) == (1, _lines(states, first, middle, last))
    end = ab(*rotate, "other.key")
    states = ["already rotated {}", "rotated {}", "already rotated {}"]
    assert (end.code, sorted(end.stdout.splitlines())) == (0, _lines(states, first, middle, last))
    for store in (first, middle, last):
        assert store.identity(Unlock(read_identities(ab.cwd / "new.key")))
    logged = ab("vault", "log", "--vault", folder, "--json").json["accesses"]
    outcomes = {
        store: [entry["outcome"] for entry in logged if entry["run_id"] == store.run_id] for store in (first, middle)
    }
    assert outcomes == {
        first: ["granted", "granted", "refused", "refused"],
        middle: ["granted", "refused", "refused", "granted"],
    }
    assert [entry["recipients"] for entry in logged if entry["run_id"] == first.run_id][:2] == [[key[1]], [new]]


def _swap_recipient(run: Path) -> None:
    (_store(run) / "recipient").write_text(new_identity()[1] + "\n")


def _swap_store_key(run: Path, recipient: str) -> None:
    """Replace the whole key pair, protected for the same reader."""
    identity, public = new_identity()
    (_store(run) / "recipient").write_text(public + "\n")
    (_store(run) / "key.age").write_bytes(encrypt(identity.encode(), [recipient]))


def test_replaced_public_key_of_the_run_is_noticed(ab: Ab, kept: Path, key: tuple[Path, str]) -> None:
    swapped = shutil.copytree(kept.parent, ab.cwd / "swapped") / kept.name
    _swap_recipient(swapped)
    ran = get(ab, swapped, "--file", "diffs/final.patch", "--key", key[0])
    assert (ran.code, "recipient was changed" in ran.stderr) == (1, True), ran
    run_id = json.loads((kept / "run.json").read_text())
    store = RunStore(swapped.parent / ".vault", run_id["run_id"])
    with pytest.raises(RecordError, match="originals would be encrypted for another key"):
        store.attempt(new_ulid(), withhold=False, run_key=run_id["evidence"]["run_key"])
    paired = shutil.copytree(kept.parent, ab.cwd / "paired") / kept.name
    _swap_store_key(paired, key[1])
    ran = get(ab, paired, "--file", "diffs/final.patch", "--key", key[0])
    assert (ran.code, "another key than the one that run.json names" in ran.stderr) == (1, True), ran


def _delete_log(log: Path) -> None:
    log.unlink()


def _replace_log(log: Path) -> None:
    append(log.parent / "other", entry(action="create", outcome="granted", who="x", reason="x", run_id="R"))
    (log.parent / "other" / log.name).replace(log)


def _edit_log(log: Path) -> None:
    log.write_bytes(log.read_bytes().replace(b'"reason":"ab run"', b'"reason":"ab rum"'))


DAMAGES = {"it was deleted": _delete_log, "it was replaced": _replace_log, "the chain is broken": _edit_log}


def test_damaged_access_log_is_noticed_and_can_be_repaired(ab: Ab, kept: Path, key: tuple[Path, str]) -> None:
    for number, (why, damage) in enumerate(DAMAGES.items()):
        run = shutil.copytree(kept.parent, ab.cwd / f"copy{number}") / kept.name
        vault = run.parent / ".vault"
        damage(vault / "access.jsonl")
        shown = ab("vault", "log", run)
        assert (shown.code, shown.stdout.startswith("ALTERED: "), why in shown.stdout) == (1, True, True), shown
        destroy = ("vault", "destroy", run, "--reason", "request", "--by", "ann")
        for refused in (get(ab, run, "--file", "diffs/final.patch", "--key", key[0]), ab(*destroy)):
            assert refused.code in {2, 3}
            assert "`ab vault repair --reason TEXT`" in refused.stderr
            assert "ab verify" not in refused.stderr
        repaired = ab("vault", "repair", "--vault", vault, "--by", "ann", "--reason", "incident 43")
        assert (repaired.code, "Started a new" in repaired.stderr) == (0, True), repaired
        assert len(list(vault.glob("access.damaged-*.jsonl"))) == (damage is not _delete_log)
        assert ab(*destroy).code == 0
        logged = ab("vault", "log", run, "--json").json["accesses"]
        assert [access["action"] for access in logged] == ["repair", "destroy"]
        assert why in ab("vault", "log", "--vault", vault).stdout.splitlines()[0]
    whole = ("vault", "repair", "--vault", kept.parent / ".vault")
    assert ab(*whole).code == 2
    assert "Nothing to repair" in ab(*whole, "--reason", "again").stderr


def test_repaired_log_knows_runs_whose_originals_were_destroyed(ab: Ab, kept: Path) -> None:
    vault = kept.parent / ".vault"
    assert ab("vault", "destroy", kept, "--reason", "request", "--by", "ann").code == 0
    _edit_log(vault / "access.jsonl")
    assert ab("vault", "repair", "--vault", vault, "--by", "ann", "--reason", "incident 43").code == 0
    shown = ab("vault", "log", kept)
    assert (shown.code, "its originals were destroyed at " in shown.stdout) == (0, True), shown


def test_log_of_a_store_that_does_not_exist_is_refused(ab: Ab, kept: Path) -> None:
    shutil.rmtree(kept.parent / ".vault")
    shown = ab("vault", "log", kept)
    assert (shown.code, ".vault does not exist" in shown.stderr) == (2, True), shown


def test_new_passphrase_without_a_terminal_is_refused(ab: Ab, kept: Path) -> None:
    ran = ab("vault", "rotate", kept, "--to-passphrase", "--reason", "x")
    assert (ran.code, "no new passphrase: stdin is not a terminal" in ran.stderr) == (2, True), ran


def test_originals_restored_after_destruction_are_refused(ab: Ab, kept: Path, key: tuple[Path, str]) -> None:
    store = _store(kept)
    shutil.copytree(store, ab.cwd / "backup")
    destroy = ("vault", "destroy", kept, "--reason", "request", "--by", "ann")
    assert ab(*destroy).code == 0
    assert ab(*destroy).code == 2
    shutil.copytree(ab.cwd / "backup", store)
    for ran in (
        get(ab, kept, "--file", "diffs/final.patch", "--key", key[0]),
        ab("vault", "rotate", kept, "--key", key[0], "--to", key[1], "--reason", "x"),
    ):
        assert (ran.code, ran.stdout) == (2, "")
        assert "destroyed at " in ran.stderr
        assert "a copy was restored since then; `ab vault destroy` removes it" in ran.stderr
    assert "a copy was restored since then" in ab("verify", kept).stdout
    assert ab(*destroy).code == 0
    assert not store.exists()


def _lines(states: list[str], *stores: RunStore) -> list[str]:
    return sorted(state.format(store.run_id) for state, store in zip(states, stores, strict=True))


def test_run_verifies_and_replays_without_the_store(ab: Ab, kept: Path, key: tuple[Path, str]) -> None:
    shutil.rmtree(kept.parent / ".vault")
    verified = ab("verify", kept)
    assert verified.code == 0
    assert "the restricted store with the originals is neither beside the run nor at $AB_VAULT" in verified.stdout
    assert ab("replay", kept).code == 0
    ran = get(ab, kept, "--file", "diffs/final.patch", "--key", key[0])
    assert (ran.code, "has no originals of this run" in ran.stderr) == (2, True)


def test_killed_run_keeps_originals_when_it_is_resumed(ab: Ab, tmp_path: Path, key: tuple[Path, str]) -> None:
    slow = Slow(ab, tmp_path, "one")
    (slow.tasks / "tiny/one/repo/app.ini").write_text(f"[app]\napi_token = {TOKEN}\n")
    use_secret = "/bin/echo $(cat app.ini) > /dev/null\n"
    (slow.files / "go.sh").write_text(f"{use_secret}sleep {slow.mark}\n")
    process = slow.start("--vault-recipient", key[1])
    wait_for(lambda: slow.asleep() == 1)
    process.kill()
    process.communicate(timeout=600)
    wait_for(lambda: slow.asleep() == 0)
    (slow.files / "go.sh").write_text(f"{use_secret}echo 42 > answer.txt\n")
    (run,) = slow.out.glob("*__tiny__*")
    ran = ab("run", "--resume", run, "--json")
    assert ran.code == 0, ran.stderr
    (final,) = ran.json["attempts"]
    assert final["supersedes"]
    assert len(list(run.glob("tasks/*/meta/originals.json"))) == 2
    assert files_with(slow.out, TOKEN) == []
    assert ab("verify", run).code == 0
    listed = json.loads((run / final["artifact_paths"]["task_dir"] / "meta/originals.json").read_text())["originals"]
    seq = next(place for place in listed if place.startswith("event:")).removeprefix("event:")
    assert TOKEN in get(ab, run, "--event", seq, "--key", key[0]).stdout


def test_declared_secret_in_a_patch_can_be_replayed_with_the_key(ab: Ab, task: Path, key: tuple[Path, str]) -> None:
    (task / "task.yaml").write_text((task / "task.yaml").read_text() + "artifacts: {redact: [PRIVATE_NAME]}\n")
    own = Ab(ab.cwd, {**ab.env, "PRIVATE_NAME": LONG})
    ran = own.by_command(task, f"echo 42 > answer.txt; echo {LONG} > note.txt", "--vault-recipient", key[1])
    run = Path(ran.json["run_dir"])
    assert "[redacted:PRIVATE_NAME:" in (run / ran.record["patch"]["path"]).read_text()
    assert "unavailable" in ab("replay", run, "--json").stdout
    replayed = ab("replay", run, "--key", key[0])
    assert (replayed.code, replayed.stdout.partition(":")[0]) == (0, "AGREES"), replayed
    assert ("granted", PATCH, "") in accesses(ab, run)


def test_store_elsewhere_and_recipients_from_the_environment(ab: Ab, task: Path, key: tuple[Path, str]) -> None:
    own = Ab(ab.cwd, {**ab.env, "AB_VAULT": str(ab.cwd / "safe"), "AB_VAULT_RECIPIENTS": key[1]})
    run = Path(own.by_command(task, COMMAND).json["run_dir"])
    assert not (run.parent / ".vault").exists()
    assert (ab.cwd / "safe").stat().st_mode & 0o777 == 0o700
    assert get(own, run, "--file", "diffs/final.patch", "--key", key[0]).code == 0
    assert get(ab, run, "--file", "diffs/final.patch", "--key", key[0], "--vault", ab.cwd / "safe").code == 0


def test_run_without_recipients_says_that_nothing_is_kept(ab: Ab, task: Path) -> None:
    # A passphrase in the environment, which readers also use, does not ask for a store.
    own = Ab(ab.cwd, {**ab.env, "AB_VAULT_PASSPHRASE": "correct horse"})
    run = Path(own.by_command(task, COMMAND).json["run_dir"])
    assert json.loads((run / "run.json").read_text())["evidence"] == {"text": "redacted", "originals": "not kept"}
    assert not (run.parent / ".vault").exists()
    assert list(run.glob("tasks/*/meta/originals.json")) == []


def test_invalid_recipient_is_refused_before_the_run(ab: Ab, task: Path) -> None:
    ran = ab("run-task", "--task", task, "--agent", "noop", "--vault-recipient", "age1nonsense")
    assert (ran.code, ran.stderr.splitlines()[0]) == (2, "error: not an age recipient: 'age1nonsense'.")
    assert not (ab.cwd / "artifacts").exists()
