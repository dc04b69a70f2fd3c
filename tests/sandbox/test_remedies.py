"""Remedies for hosts on which a sandbox does not start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentbench.sandbox.remedies import start_failure_remedy, user_namespace_remedy


@pytest.mark.parametrize(
    "file,value,word",
    [
        ("user/max_user_namespaces", "0", "max_user_namespaces"),
        ("kernel/unprivileged_userns_clone", "0", "unprivileged_userns_clone"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor"),
    ],
)
def test_restricted_user_namespaces_have_a_remedy(tmp_path: Path, file: str, value: str, word: str) -> None:
    assert user_namespace_remedy(tmp_path) == ""
    (tmp_path / "proc/sys" / file).parent.mkdir(parents=True)
    (tmp_path / "proc/sys" / file).write_text(value + "\n")
    assert word in user_namespace_remedy(tmp_path)
    assert word in start_failure_remedy("bwrap: setting up uid map: Permission denied", tmp_path)


def test_root_and_ordinary_users_get_different_remedies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/apparmor_restrict_unprivileged_userns").write_text("1\n")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "bwrap-userns-restrict" in user_namespace_remedy(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "bwrap-userns-restrict" not in user_namespace_remedy(tmp_path)
    assert "--sandbox docker" in user_namespace_remedy(tmp_path)


def test_refused_overlays_and_namespaces_have_a_remedy(tmp_path: Path) -> None:
    assert "modprobe overlay" in start_failure_remedy("mount overlay on /tmp/m: Operation not permitted", tmp_path)
    assert "seccomp=unconfined" in start_failure_remedy("unshare: Operation not permitted", tmp_path)
