from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.signing.keys import SigningKey, create_key, load_signing_key


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty key folder, which commands use too."""
    for name in ("AB_SIGNING_KEY", "AB_KEY_PASSPHRASE", "AB_TRUST"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "keys"
    monkeypatch.setenv("AB_KEYS", str(folder))
    return folder


@pytest.fixture
def ada(keys: Path) -> SigningKey:
    create_key("ada", None, keys)
    return load_signing_key("ada", keys)


@pytest.fixture
def eve(keys: Path) -> SigningKey:
    create_key("eve", None, keys)
    return load_signing_key("eve", keys)
