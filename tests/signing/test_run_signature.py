"""Signatures are those of DSSE and in-toto, and follow a run that is continued, reduced or signed again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from securesystemslib.dsse import Envelope as IndependentEnvelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey  # type: ignore[attr-defined] # as in its documentation

from agentbench.core.errors import InputError
from agentbench.record.retention import reduce_run
from agentbench.record.run_directory import RunDirectory
from agentbench.signing.keys import PublicKey, SigningKey
from agentbench.signing.run_signature import State, check_signature, sign_run, verify_signature
from agentbench.signing.trust import Trust, TrustedKey, read_trust
from tests.record.samples import attempt, new_run, whole_run

pytestmark = pytest.mark.component


def trust_in(*keys: SigningKey) -> Trust:
    return Trust("trust", tuple((key.public, TrustedKey(name=key.public.name, key=key.public.text)) for key in keys))


def state(run: Path, *keys: SigningKey) -> State:
    return verify_signature(run, trust_in(*keys)).state


def independent_key(key: PublicKey) -> SSlibKey:
    """Return the key for securesystemslib, read from the text that people exchange."""
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    return SSlibKey.from_crypto(load_ssh_public_key(key.text.encode()), key.key_id)


def test_independent_implementation_verifies_the_envelope(tmp_path: Path, ada: SigningKey, eve: SigningKey) -> None:
    run = whole_run(tmp_path)
    value = json.loads(sign_run(run, ada).read_bytes())
    envelope = IndependentEnvelope.from_dict(value)
    assert list(envelope.verify([independent_key(ada.public)], 1)) == [ada.public.key_id]
    with pytest.raises(VerificationError):
        envelope.verify([independent_key(eve.public)], 1)
    envelope.payload = envelope.payload.replace(b'"passed":1', b'"passed":2')
    with pytest.raises(VerificationError):
        envelope.verify([independent_key(ada.public)], 1)


def test_statement_follows_in_toto_and_names_files_by_their_digest(tmp_path: Path, ada: SigningKey) -> None:
    import base64
    import hashlib

    run = whole_run(tmp_path)
    registration = tmp_path / "registration.json"
    registration.write_text("{}")
    statement = json.loads(
        base64.b64decode(json.loads(sign_run(run, ada, registration).read_bytes())["payload"]),
    )
    assert (statement["_type"], statement["predicateType"]) == (
        "https://in-toto.io/Statement/v1",
        "urn:agentbench:run:v1",
    )
    digests = {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}
    head = json.loads((run / "events.jsonl").read_bytes().splitlines()[-1])["hash"]
    assert "sha256:" + digests.pop("events.jsonl#head") == head == statement["predicate"]["chain"]["head"]
    assert digests.pop("registration:registration.json") == hashlib.sha256(b"{}").hexdigest()
    assert {name: hashlib.sha256((run / name).read_bytes()).hexdigest() for name in digests} == digests
    assert {"run.json", "attempts.jsonl", "tasks/other/meta/record.json"} <= set(digests)
    verdicts = statement["predicate"]["verdicts"]
    assert verdicts == {"attempts": 2, "passed": 1, "invalid": 0, "reasons": {"TESTS_FAILED": 1}}


def test_unsigned_run_is_reported_as_such(tmp_path: Path, ada: SigningKey) -> None:
    run = whole_run(tmp_path)
    assert state(run, ada) is State.UNSIGNED
    assert check_signature(run, None).line() == "not signed"


def test_unfinished_or_altered_run_is_not_signed(tmp_path: Path, ada: SigningKey) -> None:
    unfinished = new_run(tmp_path / "a")
    attempt(unfinished)
    unfinished.release()
    with pytest.raises(InputError, match="does not verify"):
        sign_run(unfinished.path, ada)
    altered = whole_run(tmp_path / "b")
    (altered / "tasks/other/diffs/final.patch").write_bytes(b"")
    with pytest.raises(InputError, match="does not verify"):
        sign_run(altered, ada)


def test_reports_name_the_signer_only_with_a_trust_file(tmp_path: Path, ada: SigningKey, eve: SigningKey) -> None:
    run = whole_run(tmp_path)
    sign_run(run, ada)
    key_id = ada.public.key_id
    unchecked = f"signature not checked, because no trust file is set; it claims the key {key_id}"
    assert check_signature(run, None).line() == unchecked
    foreign = f"signature not trusted: signed with {key_id}, which is not a key of trust"
    assert check_signature(run, trust_in(eve)).line() == foreign
    assert check_signature(run, trust_in(eve, ada)).line() == "signed by ada, verified"


def test_continued_run_has_a_stale_signature_until_signed_again(tmp_path: Path, ada: SigningKey) -> None:
    path = whole_run(tmp_path)
    sign_run(path, ada)
    run = RunDirectory.open(path, writable=True)
    attempt(run, "later")
    run.close()
    check = verify_signature(path, trust_in(ada))
    assert check.state is State.STALE
    assert "continued after it was signed (run_resumed)" in check.problems[0].message
    assert check_signature(path, trust_in(ada)).line().startswith("signature is stale: ")
    sign_run(path, ada)
    assert state(path, ada) is State.VALID


def test_deletion_of_evidence_needs_a_signature_too(tmp_path: Path, ada: SigningKey, eve: SigningKey) -> None:
    run = whole_run(tmp_path)
    original = sign_run(run, ada).read_bytes()
    reduce_run(run, approved_by="eve", reason="old")
    assert state(run, ada) is State.REDUCED
    assert sign_run(run, eve).name == "retention.dsse.json"
    assert (run / "signature.dsse.json").read_bytes() == original
    assert state(run, ada) is State.UNTRUSTED
    assert check_signature(run, trust_in(ada, eve)).line() == (
        "signed by ada, verified, deletion of evidence signed by eve"
    )
    (run / "tasks/other/diffs/final.patch").write_bytes(b"")
    (run / "retention.dsse.json").unlink()
    assert state(run, ada, eve) is State.REDUCED


def test_run_reduced_before_it_is_signed_needs_one_signature(tmp_path: Path, ada: SigningKey) -> None:
    run = whole_run(tmp_path)
    reduce_run(run, approved_by="eve", reason="old")
    sign_run(run, ada)
    assert state(run, ada) is State.VALID


def test_second_key_signs_the_same_statement(tmp_path: Path, ada: SigningKey, eve: SigningKey) -> None:
    run = whole_run(tmp_path)
    first = json.loads(sign_run(run, ada).read_bytes())
    second = json.loads(sign_run(run, eve).read_bytes())
    assert second["payload"] == first["payload"]
    assert [signature["keyid"] for signature in second["signatures"]] == [ada.public.key_id, eve.public.key_id]
    assert state(run, ada) is state(run, eve) is State.VALID
    assert len(json.loads(sign_run(run, eve).read_bytes())["signatures"]) == 2


def test_other_registration_does_not_replace_a_signature(tmp_path: Path, ada: SigningKey, eve: SigningKey) -> None:
    run, registration = whole_run(tmp_path / "runs"), tmp_path / "registration.json"
    registration.write_text("{}")
    first = sign_run(run, ada).read_bytes()
    with pytest.raises(InputError, match="already signed with no registration, not with registration:reg"):
        sign_run(run, eve, registration)
    assert (run / "signature.dsse.json").read_bytes() == first
    (run / "signature.dsse.json").unlink()
    sign_run(run, ada, registration)
    sign_run(run, eve, registration)
    assert state(run, ada) is state(run, eve) is State.VALID
    with pytest.raises(InputError, match=r"already signed with registration:.*, not with no reg"):
        sign_run(run, eve)
    registration.write_text("[]")
    with pytest.raises(InputError, match="already signed with another content of registration:"):
        sign_run(run, eve, registration)
    assert state(run, ada) is State.VALID


def test_second_key_also_signs_the_deletion_of_evidence(tmp_path: Path, ada: SigningKey, eve: SigningKey) -> None:
    run = whole_run(tmp_path)
    sign_run(run, ada)
    reduce_run(run, approved_by="ada", reason="old")
    sign_run(run, ada)
    assert state(run, ada) is State.VALID
    signatures = json.loads(sign_run(run, eve).read_bytes())["signatures"]
    assert [signature["keyid"] for signature in signatures] == [ada.public.key_id, eve.public.key_id]
    assert state(run, ada) is State.VALID


def test_second_key_does_not_sign_false_claims(tmp_path: Path, ada: SigningKey, eve: SigningKey) -> None:
    from agentbench.signing.envelope import seal
    from agentbench.signing.statement import PAYLOAD_TYPE, describe_run

    run = whole_run(tmp_path)
    true = describe_run(run)
    signed_at = json.loads(true)["predicate"]["signed_at"].encode()
    head = b'"name":"events.jsonl#head"'
    planted = {
        "claims something else": [
            true.replace(b'"passed":1', b'"passed":2'),
            true.replace(head, b'"more":1,' + head),
            true.replace(b'"subject":[', b'"subject":[{"digest":{"sha256":"' + b"0" * 64 + b'"},' + head + b"},"),
            b" " + true,
        ],
        "claims to be signed at": [
            true.replace(signed_at, b"2020-01-01T00:00:00+00:00"),
            true.replace(signed_at, b"x"),
        ],
        "has no version": [true.replace(b'"signed_with":"', b'"signed_with":"Ada approves ')],
        "already signed with registration:": [
            true.replace(b'"registration":null', b'"registration":{"digest":{},"name":"registration:x"}')
        ],
    }
    for why, payloads in planted.items():
        for payload in payloads:
            assert payload != true
            (run / "signature.dsse.json").write_bytes(seal(PAYLOAD_TYPE, payload, [eve]).encoded())
            with pytest.raises(InputError, match=why):
                sign_run(run, ada)
    (run / "signature.dsse.json").write_bytes(seal(PAYLOAD_TYPE, true, [eve]).encoded())
    sign_run(run, ada)
    assert state(run, ada) is State.VALID


def test_trusted_signer_cannot_claim_another_result_than_the_run(tmp_path: Path, ada: SigningKey) -> None:
    from agentbench.signing.envelope import seal
    from agentbench.signing.run_signature import verify_signature
    from agentbench.signing.statement import PAYLOAD_TYPE, describe_run

    run = whole_run(tmp_path)
    true = describe_run(run)
    trust = read_trust(ada.public.text, Path())
    value = json.loads(true)
    head = value["subject"][0]["digest"]["sha256"].encode()
    false = {
        "verdicts in the statement": true.replace(b'"passed":1', b'"passed":2'),
        "suite in the statement": true.replace(b'"suite":"demo"', b'"suite":"other"'),
        "contracts in the statement": true.replace(b'"contracts":{', b'"contracts":{"easy":"sha256:0",'),
        "head of the chain": true.replace(b'{"digest":{"sha256":"' + head, b'{"digest":{"sha256":"' + b"0" * 64),
        "a subject twice": json.dumps({**value, "subject": [*value["subject"], value["subject"][-1]]}).encode(),
    }
    for why, payload in false.items():
        assert payload != true
        (run / "signature.dsse.json").write_bytes(seal(PAYLOAD_TYPE, payload, [ada]).encoded())
        check = verify_signature(run, trust)
        assert check.state is State.ALTERED
        assert why in check.problems[0].message


def test_signature_of_a_deletion_that_did_not_happen_is_reported(tmp_path: Path, ada: SigningKey) -> None:
    path = whole_run(tmp_path)
    sign_run(path, ada)
    reduce_run(path, approved_by="ada", reason="old")
    sign_run(path, ada)
    stray = (path / "retention.dsse.json").read_bytes()
    run = RunDirectory.open(path, writable=True)
    attempt(run, "later")
    run.close()
    sign_run(path, ada)
    assert state(path, ada) is State.VALID
    (path / "retention.dsse.json").write_bytes(stray)
    check = verify_signature(path, trust_in(ada))
    assert check.state is State.ALTERED
    assert str(check.problems[0]).startswith("appended: retention.dsse.json: no evidence was deleted after")


def test_symbolic_links_are_reported_and_not_signed(tmp_path: Path, ada: SigningKey) -> None:
    for number, name in enumerate(("events.jsonl", "tasks", "tasks/other/events.jsonl", "rules")):
        run = whole_run(tmp_path / str(number))
        target = tmp_path / f"target{number}"
        (run / "rules").mkdir()
        (run / name).rename(target)
        (run / name).symlink_to(target)
        with pytest.raises(InputError, match=f"changed: {name}: is a symbolic link"):
            sign_run(run, ada)


@pytest.mark.parametrize(
    "entry,objection",
    [
        ({"valid_until": "2020-01-01"}, "expired on 2020-01-01"),
        ({"valid_from": "2999-01-01"}, "is valid from 2999-01-01"),
        ({"revoked": "2026-06-01", "reason": "stolen"}, "was revoked on 2026-06-01 (stolen)"),
    ],
)
def test_expired_or_revoked_key_does_not_count(
    entry: dict[str, str], objection: str, tmp_path: Path, ada: SigningKey
) -> None:
    run = whole_run(tmp_path / "runs")
    sign_run(run, ada)
    trust = tmp_path / "trust.json"
    valid = {"name": "Ada", "key": ada.public.text}
    trust.write_text(json.dumps({"keys": [valid]}))
    assert verify_signature(run, read_trust(str(trust), tmp_path)).signer == "Ada"
    trust.write_text(json.dumps({"keys": [{**valid, **entry}]}))
    check = verify_signature(run, read_trust(str(trust), tmp_path))
    assert check.state is State.UNTRUSTED
    assert objection in check.problems[0].message


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b'{"payloadType":"text/plain","payload":"","signatures":[{"sig":""}]}',
        b'{"payloadType":"application/vnd.in-toto+json","payload":"!","signatures":[{"sig":""}]}',
        b'{"payloadType":"application/vnd.in-toto+json","payload":"e30=","signatures":[]}',
        b'{"payloadType":"application/vnd.in-toto+json","payload":"e30=","signatures":[{"sig":"AA=="}]}',
    ],
)
def test_malformed_envelope_is_a_problem_of_its_own(text: bytes, tmp_path: Path, ada: SigningKey) -> None:
    run = whole_run(tmp_path)
    (run / "signature.dsse.json").write_bytes(text)
    check = verify_signature(run, trust_in(ada))
    assert check.state is State.ALTERED
    assert check.problems[0].place == "signature.dsse.json"
    with pytest.raises(InputError, match=r"signature\.dsse\.json"):
        sign_run(run, ada)
