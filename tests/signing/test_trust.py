from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.core.errors import ContractError, InputError
from agentbench.signing.keys import SigningKey
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


def test_mistakes_are_reported_with_their_place(tmp_path: Path, keys: Path, ada: SigningKey) -> None:
    trust = tmp_path / "trust.yaml"
    trust.write_text(f"keys:\n  - name: Ada\n    key: {ada.public.text}\n    valid_untill: 2030-01-01\n")
    with pytest.raises(ContractError) as refused:
        read_trust(str(trust), keys)
    assert refused.value.problems[0].startswith(f"{trust}:4: keys[0].valid_untill: unknown key")
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
