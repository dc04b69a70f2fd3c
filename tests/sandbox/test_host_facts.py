"""Small decisions about the host: which user, which state folder, which backend, which program."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from agentbench.core.errors import InputError, SandboxError, SandboxUnavailable
from agentbench.sandbox.bwrap.host_user import PREFERRED_UID, choose_uid
from agentbench.sandbox.environments.interpreter import inspect_interpreter, installed
from agentbench.sandbox.environments.inventory import packages
from agentbench.sandbox.registry import open_backend
from agentbench.sandbox.server_bundle import server_source
from agentbench.sandbox.state import Owner, default_state

FULL = "         0          0 4294967295\n"


def test_root_drops_to_a_uid_of_its_own() -> None:
    assert choose_uid(FULL, FULL) == PREFERRED_UID


def test_container_that_maps_few_uids_gets_one_that_is_mapped_and_not_nobody() -> None:
    assert choose_uid("0 100000 65536\n", "0 100000 65536\n") == 65535
    assert choose_uid("0 100000 65535\n", "0 100000 65535\n") == 65533
    assert choose_uid("0 1000 1\n1 100000 500\n", "0 1000 1\n1 100000 300\n") == 300


def test_state_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_state({"AB_STATE": "/x/y", "XDG_CACHE_HOME": "/z"}) == Path("/x/y")
    assert default_state({"XDG_CACHE_HOME": "/z"}) == Path("/z/agentbench")
    assert default_state({}) == tmp_path / ".cache/agentbench"


def test_unwritable_state_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SandboxError, match="cannot write to the state folder") as caught:
        Owner(tmp_path / "file")
    assert "AB_STATE" in caught.value.remedy


def test_unknown_backend_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="chroot"):
        open_backend("chroot", state=tmp_path, needs_image=False)


def test_missing_bubblewrap_is_said_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="not installed") as caught:
        open_backend("bwrap", state=tmp_path, needs_image=False)
    assert "bubblewrap" in caught.value.remedy


def test_shims_are_not_interpreters(tmp_path: Path) -> None:
    shim = tmp_path / "python3"
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    shim.chmod(0o755)
    assert inspect_interpreter(shim) is None
    assert inspect_interpreter(tmp_path / "absent") is None


def test_folder_on_the_path_that_cannot_be_entered_has_no_interpreters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(self))

    before = [found.executable for found in installed()]
    monkeypatch.setenv("PATH", f"/root/.cargo/bin:{os.environ['PATH']}")
    is_dir = Path.is_dir
    monkeypatch.setattr(Path, "is_dir", lambda self: refused(self) if "cargo" in str(self) else is_dir(self))
    assert [found.executable for found in installed()] == before


def test_joined_server_needs_nothing_of_ours() -> None:
    source = server_source()
    compile(source, "server", "exec")
    assert "from agentbench" not in source.split("if False:")[0]
    assert source.count("from __future__") == 1


def test_packages_are_read_from_their_metadata(tmp_path: Path) -> None:
    (tmp_path / "lib/python3.11/site-packages/some_thing-1.2.dist-info").mkdir(parents=True)
    assert packages(tmp_path) == ["some_thing==1.2"]
