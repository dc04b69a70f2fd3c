"""Every file of a signed run is attacked with full write access but without the key. Every attack is detected."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentbench.core.canonical import sha256_hex
from agentbench.core.errors import RecordError
from agentbench.record.audit import verify_run
from agentbench.record.recompute import recompute
from agentbench.signing.keys import SigningKey
from agentbench.signing.run_signature import State, sign_run, verify_signature
from agentbench.signing.trust import Trust, read_trust
from tests.record.samples import attempt, new_run, whole_run
from tests.signing.attacker import reseal, turn_failure_into_pass

pytestmark = pytest.mark.component

Attack = Callable[[Path, Path], None]


def change(path: Path, _other: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def extend(path: Path, _other: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x\n")


def truncate(path: Path, _other: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def empty(path: Path, _other: Path) -> None:
    path.write_bytes(b"")


def drop(path: Path, _other: Path) -> None:
    path.unlink()


def swap(path: Path, other: Path) -> None:
    """Replace the file by that of another run; rule files of both have different names."""
    path.write_bytes(other.read_bytes() if other.is_file() else b"{}")


def add(path: Path, _other: Path) -> None:
    path.with_name("added.txt").write_text("added")


def link(path: Path, other: Path) -> None:
    path.unlink()
    path.symlink_to(other)


def pipe(path: Path, _other: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path, _other: Path) -> None:
    path.unlink()
    path.mkdir()


def huge(path: Path, _other: Path) -> None:
    os.truncate(path, 1 << 40)


def rename(path: Path, _other: Path) -> None:
    path.rename(path.with_name(path.name.swapcase()))


ATTACKS = (change, extend, truncate, empty, drop, swap, add, link, pipe, folder, huge, rename)


@pytest.fixture
def trust(ada: SigningKey) -> Trust:
    return read_trust(ada.public.text, Path())


@pytest.fixture
def signed(tmp_path: Path, ada: SigningKey) -> Path:
    run = whole_run(tmp_path / "signed")
    sign_run(run, ada)
    return run


def small_run(out: Path, text: str) -> Path:
    """Create a run with one file of every kind."""
    run = new_run(out)
    attempt(run)
    (run.path / "rules").mkdir()
    (run.path / "rules" / f"{sha256_hex(text.encode())}.json").write_text(text + "\n")
    (run.path / "report_summary.md").write_text(text)
    run.close()
    return run.path


def accepted(run: Path, trust: Trust) -> bool:
    return consistent(run) and verify_signature(run, trust).ok


def consistent(run: Path) -> bool:
    return verify_run(run, recompute=recompute).ok


def files(run: Path) -> Iterator[str]:
    return (str(path.relative_to(run)) for path in sorted(run.rglob("*")) if path.is_file())


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: str(attack.__name__))
@pytest.mark.parametrize("recomputed", [False, True], ids=["plain", "hashes-recomputed"])
def test_no_attack_on_any_file_stays_undetected(
    attack: Attack, recomputed: bool, ada: SigningKey, trust: Trust, eve: SigningKey, tmp_path: Path
) -> None:
    signed, other = small_run(tmp_path / "signed", "signed"), small_run(tmp_path / "other", "other")
    sign_run(signed, ada)
    sign_run(other, eve)
    assert accepted(signed, trust)
    assert len(list(files(signed))) > 10
    undetected, only_by_signature = [], 0
    for name in files(signed):
        run = tmp_path / "attacked"
        shutil.copytree(signed, run)
        attack(run / name, other / name)
        if recomputed and attack not in {pipe, huge}:
            # If the attack destroyed what the formats need, nothing can be recomputed.
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecordError):
                reseal(run)
        if same_files(run, signed):
            assert recomputed or attack is swap, name  # recomputed as it was, or equal in both runs
        elif accepted(run, trust):
            undetected.append(name)
        else:
            only_by_signature += consistent(run)
        shutil.rmtree(run)
    assert undetected == []
    # The hashes that the attacker recomputed convince a verifier without the signature.
    assert not recomputed or attack in {link, pipe, folder, huge} or only_by_signature > 2


def same_files(run: Path, other: Path) -> bool:
    def contents(folder: Path) -> dict[str, bytes | None]:
        return {name: _content(folder / name) for name in files(folder)}

    return contents(run) == contents(other)


def _content(path: Path) -> bytes | None:
    return None if path.is_symlink() or path.stat().st_size > 1 << 30 else path.read_bytes()


def test_rewritten_verdict_with_all_hashes_recomputed_is_detected(signed: Path, trust: Trust) -> None:
    turn_failure_into_pass(signed, failed="other", passed="toy@r1a2")
    assert consistent(signed)
    check = verify_signature(signed, trust)
    assert check.state is State.ALTERED
    assert str(check.problems[0]) == "changed: tasks/other/meta/record.json: differs from what was signed"
    assert {problem.place for problem in check.problems} >= {"attempts.jsonl", "events.jsonl"}


def test_signature_over_another_run_is_detected(signed: Path, trust: Trust, tmp_path: Path) -> None:
    other = whole_run(tmp_path / "other")
    shutil.copy(signed / "signature.dsse.json", other)
    assert consistent(other)
    assert verify_signature(other, trust).state is State.ALTERED


def test_evidence_deleted_behind_a_forged_approval_is_detected(signed: Path, trust: Trust) -> None:
    from agentbench.record.retention import reduce_run

    reduce_run(signed, approved_by="mallory", reason="none")
    assert consistent(signed)
    assert verify_signature(signed, trust).state is State.REDUCED


def test_run_resigned_by_the_attacker_is_detected(signed: Path, trust: Trust, eve: SigningKey) -> None:
    turn_failure_into_pass(signed, failed="other", passed="toy@r1a2")
    (signed / "signature.dsse.json").unlink()
    sign_run(signed, eve)
    check = verify_signature(signed, trust)
    assert check.state is State.UNTRUSTED
    assert eve.public.key_id in check.problems[0].message


def test_key_id_of_a_trusted_key_on_a_foreign_signature_is_detected(
    signed: Path, trust: Trust, ada: SigningKey, eve: SigningKey
) -> None:
    file = signed / "signature.dsse.json"
    file.unlink()
    sign_run(signed, eve)
    file.write_text(file.read_text().replace(eve.public.key_id, ada.public.key_id))
    check = verify_signature(signed, trust)
    assert check.state is State.UNTRUSTED
    assert "is wrong" in check.problems[0].message


def test_files_beside_attempts_are_detected(signed: Path, trust: Trust) -> None:
    (signed / "tasks/toy/repo").mkdir()
    (signed / "tasks/toy/repo/evil.py").write_text("")
    check = verify_signature(signed, trust)
    assert check.problems[0].place == "tasks/toy/repo"


def test_empty_folders_in_attempts_are_detected(signed: Path) -> None:
    (signed / "tasks/toy/logs/PASSED").mkdir()
    (problem,) = verify_run(signed, recompute=recompute).problems
    assert problem.place == "tasks/toy/logs/PASSED"


def test_reports_and_adjudications_may_be_added_and_are_listed(signed: Path, trust: Trust) -> None:
    (signed / "report").mkdir()
    (signed / "adjudications.jsonl").write_text("")
    check = verify_signature(signed, trust)
    assert check.ok
    assert check.added == ("adjudications.jsonl", "report")


@pytest.mark.parametrize(
    "name, create",
    [
        ("report", os.mkfifo),
        ("report", Path.touch),
        ("adjudications.jsonl", os.mkfifo),
        ("adjudications.jsonl", Path.mkdir),
    ],
)
def test_later_files_must_be_a_folder_and_a_file(
    name: str, create: Callable[[Path], None], signed: Path, trust: Trust
) -> None:
    create(signed / name)
    assert not accepted(signed, trust)


def test_unsigned_members_and_spaces_of_the_envelope_are_detected(signed: Path, trust: Trust) -> None:
    file = signed / "signature.dsse.json"
    data = file.read_bytes()
    for changed in (data + b" ", data[:-1], data.replace(b"{", b'{"approved": true,', 1)):
        file.write_bytes(changed)
        check = verify_signature(signed, trust)
        assert check.state is State.ALTERED
        assert "has other bytes than `ab sign` writes" in check.problems[0].message
