"""Backends by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.core.errors import InputError, SandboxUnavailable
from agentbench.sandbox.registry import open_backend


def test_unknown_backend_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="chroot"):
        open_backend("chroot", state=tmp_path, needs_image=False)


def test_missing_bubblewrap_comes_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="not installed") as caught:
        open_backend("bwrap", state=tmp_path, needs_image=False)
    assert "bubblewrap" in caught.value.remedy
