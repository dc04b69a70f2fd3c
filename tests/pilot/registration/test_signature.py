"""Signatures of registrations: made with the freeze, required by `--signed-by`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentbench.pilot.lifecycle.freeze import amend_pilot, freeze_pilot
from agentbench.pilot.registration.registration import read_registrations
from agentbench.pilot.registration.signature import SIGNATURE, RegistrationSignatures, check_signatures
from agentbench.signing.keys import SigningKey, create_key, load_signing_key
from agentbench.signing.trust import Trust, read_trust
from tests.execution.conftest import Ab
from tests.pilot.studies import make_pilot

pytestmark = [pytest.mark.component, pytest.mark.req("L-01")]


def trust_in(key: SigningKey, folder: Path) -> Trust:
    return read_trust(key.public.text, folder)


def new_key(folder: Path, name: str) -> SigningKey:
    create_key(name, None, folder)
    return load_signing_key(name, folder)


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    return new_key(tmp_path / "keys", "ada")


@pytest.fixture
def folder(tmp_path: Path, key: SigningKey) -> Path:
    from agentbench.pilot.design.pilot_design import read_design, write_plan_files

    folder = make_pilot(tmp_path / "study")
    write_plan_files(read_design(folder))
    freeze_pilot(folder, key)
    return folder


def checked(folder: Path, trust: Trust | None, *, required: bool = True) -> RegistrationSignatures:
    return check_signatures(folder, read_registrations(folder), trust, required=required)


def test_signed_registration_is_accepted(folder: Path, key: SigningKey) -> None:
    result = checked(folder, trust_in(key, folder))
    assert (result.problems, len(result.signers), result.not_checked) == ([], 1, 0)
    assert checked(folder, None, required=False).not_checked == 1


def test_another_key_is_not_trusted(folder: Path) -> None:
    (problem,) = checked(folder, trust_in(new_key(folder / "keys", "eve"), folder)).problems
    assert problem.message.startswith("it is not signed with the key SHA256:")


def test_every_amendment_must_be_signed(folder: Path, key: SigningKey) -> None:
    amend_pilot(folder, "a second registration")
    (problem,) = checked(folder, trust_in(key, folder)).problems
    assert (problem.kind, problem.message) == ("missing", "registration 2 is not signed")
    assert checked(folder, trust_in(key, folder), required=False).problems == []


def test_signature_of_another_registration_is_found(folder: Path, key: SigningKey) -> None:
    amend_pilot(folder, "a second registration")
    copies = folder / "registrations"
    (copies / "2" / SIGNATURE).write_bytes((copies / "1" / SIGNATURE).read_bytes())
    (problem,) = checked(folder, trust_in(key, folder), required=False).problems
    assert (problem.kind, problem.message) == ("changed", "registration 2 differs from what was signed")


def test_garbled_signature_is_found(folder: Path, key: SigningKey) -> None:
    (folder / "registrations" / "1" / SIGNATURE).write_text(json.dumps({"payload": 1}))
    (problem,) = checked(folder, trust_in(key, folder), required=False).problems
    assert problem.kind == "changed"


@pytest.mark.end_to_end
def test_freeze_signs_with_a_named_key(ab: Ab, tmp_path: Path) -> None:
    folder = make_pilot(tmp_path / "study")
    env = {"AB_KEYS": str(tmp_path / "keys")}
    assert ab("keys", "new", "ada", "--no-passphrase", env=env).code == 0
    assert ab("pilot", "plan", folder).code == 0
    unknown = ab("pilot", "freeze", folder, "--sign", "nobody", env=env)
    assert unknown.code == 2
    assert not (folder / "registration.json").exists()
    done = ab("pilot", "freeze", folder, "--sign", "ada", env=env)
    assert done.code == 0, done.stderr
    assert "  signed with ada (" in done.stdout
    verified = ab("verify", folder, "--signed-by", "ada", env=env)
    assert (verified.code, "  registration signed by ada" in verified.stdout) == (0, True), verified
    (folder / "registrations" / "1" / SIGNATURE).unlink()
    unsigned = ab("verify", folder, "--signed-by", "ada", env=env)
    assert unsigned.code == 1
    assert "registrations/1/registration.dsse.json: registration 1 is not signed" in unsigned.stdout
