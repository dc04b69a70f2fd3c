from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.core.errors import ContractError, InputError
from agentbench.signing.keys import SigningKey, create_key
from agentbench.signing.trust import default_trust, read_trust

pytestmark = pytest.mark.component


def names(text: str, keys: Path) -> list[str]:
    return [entry.name for _, entry in read_trust(text, keys).keys]


def test_key_file_trust_file_and_name_are_accepted(tmp_path: Path, keys: Path, ada: SigningKey) -> None:
    trust = tmp_path / "trust.yaml"
    trust.write_text(f"keys:\n  - {{name: Ada L., key: {ada.public.text}, valid_until: 2030-12-31}}\n")
    assert names(ada.public.text, keys) == [ada.public.key_id]
    assert names(str(keys / "ada.pub"), keys) == [ada.public.key_id]
    assert names(str(trust), keys) == ["Ada L."]
    assert names("ada", keys) == ["ada"]


def test_plain_name_is_never_a_file_of_the_current_folder(
    tmp_path: Path, keys: Path, ada: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = create_key("mallory", None, tmp_path / "others")
    (tmp_path / "ada").write_text(other.public.text)
    monkeypatch.chdir(tmp_path)
    ((key, _),) = read_trust("ada", keys).keys
    assert key.key_id == ada.public.key_id


def test_key_that_is_listed_twice_is_refused(tmp_path: Path, keys: Path, ada: SigningKey) -> None:
    trust = tmp_path / "trust.yaml"
    lines = [
        f"{{name: {name}, key: {ada.public.text}{revoked}}}"
        for name, revoked in (("Ada", ", revoked: 2026-01-01"), ("Ada2", ""))
    ]
    trust.write_text("keys:\n" + "".join(f"  - {line}\n" for line in lines))
    with pytest.raises(InputError, match="Ada and Ada2 have the same key"):
        read_trust(str(trust), keys)


def test_mistakes_are_reported_with_their_place(tmp_path: Path, keys: Path, ada: SigningKey) -> None:
    trust = tmp_path / "trust.yaml"
    trust.write_text(f"keys:\n  - name: Ada\n    key: {ada.public.text}\n    valid_untill: 2030-01-01\n")
    with pytest.raises(ContractError) as refused:
        read_trust(str(trust), keys)
    (problem,) = refused.value.problems
    assert problem.startswith(f"{trust}:4: keys[0].valid_untill: unknown key")
    trust.write_text("keys: []\n")
    with pytest.raises(ContractError) as refused:
        read_trust(str(trust), keys)
    assert refused.value.problems == (f"{trust}:1: keys: expected at least 1; got an empty list",)
    days = "valid_from: 2026-02-01, valid_until: 2026-01-01"
    trust.write_text(f"keys:\n  - {{name: Ada, key: {ada.public.text}, {days}}}\n")
    with pytest.raises(InputError, match=r"key 1 \(Ada\): valid_until is before valid_from"):
        read_trust(str(trust), keys)
    trust.write_text("keys:\n  - {name: Ada, key: ssh-ed25519 AAAA}\n")
    with pytest.raises(InputError, match=r"key 1 \(Ada\): not a public key"):
        read_trust(str(trust), keys)
    with pytest.raises(InputError, match="does not exist"):
        read_trust("missing.yaml", keys)
    with pytest.raises(InputError, match="no key 'bob'"):
        read_trust("bob", keys)


def test_reports_use_the_trust_file_of_the_environment(tmp_path: Path, keys: Path, ada: SigningKey) -> None:
    assert default_trust() is None
    text = f"keys:\n  - {{name: Ada, key: {ada.public.text}}}\n"
    (keys / "trust.yaml").write_text(text)
    trust = default_trust()
    assert trust is not None
    assert trust.keys[0][1].name == "Ada"
    other = tmp_path / "other.yaml"
    other.write_text(text.replace("Ada", "Bob"))
    trust = default_trust({"AB_TRUST": str(other)})
    assert trust is not None
    assert trust.keys[0][1].name == "Bob"
