"""Running containers: the disk limit, and how they end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agentbench.core.command import Command
from agentbench.core.errors import PatchInvalid
from agentbench.sandbox.docker.backend import DockerBackend
from agentbench.tree.entry import FileWrite
from tests.sandbox.conftest import SPEC
from tests.sandbox.docker.conftest import SETUP, ignore, make_plan

pytestmark = pytest.mark.component

_KEEP_DELETED_FILES_OPEN = """python3 -c "
import os, time
held = [open(f'f{i}', 'wb', 0) for i in range(8)]
for file in held: os.unlink(file.name); file.write(bytes(20 << 20))
time.sleep(60)" """

_NEST_FOLDERS = """python3 -c "
import os, time
for i in range(30): os.mkdir('d' * 200); os.chdir('d' * 200)
time.sleep(60)" """


@pytest.mark.req("R-06")
@pytest.mark.parametrize(
    "line, reason",
    [
        ("for i in $(seq 40); do head -c 10M /dev/zero > f$i; done; sleep 60", "disk limit of 64 MB"),
        ("python3 -c \"for i in range(40000): open(f'f{i}', 'w').close()\"; sleep 60", "more than its limit of 20000"),
        (_KEEP_DELETED_FILES_OPEN, "disk limit of 64 MB"),
        (_NEST_FOLDERS, "too deeply to measure"),
    ],
    ids=["bytes", "files", "deleted-files", "deep-folders"],
)
def test_container_over_its_disk_limit_is_ended(docker: DockerBackend, line: str, reason: str) -> None:
    """The result names the limit and counts as the candidate's own failure."""
    with docker.open(SPEC, None) as sandbox:
        done = sandbox.run(Command(line=line, timeout_sec=60))
        assert done.exit_code == 137
        assert reason in done.stderr.kept.decode()
        assert reason in sandbox.run(Command(line="true")).stderr.kept.decode()
        with pytest.raises(PatchInvalid, match="cannot read the workspace"):
            list(sandbox.tree().entries())
        with pytest.raises(PatchInvalid, match=r"cannot (be written|write)"):
            sandbox.write_files([FileWrite(b"x", b"x")])


@pytest.mark.req("R-06")
def test_hard_disk_limit_is_enforced_by_the_kernel(docker: DockerBackend, source: Path) -> None:
    assert docker.limits().on_request == ("disk",)
    prepared = docker.prepare(make_plan(source, "echo made > made; echo x > ~/home"), SETUP, on_step=ignore)
    with docker.open(replace(SPEC, hard_disk=True), prepared) as sandbox:
        done = sandbox.run(Command(line="cat made ~/home; python -c 'print(1)'; ./run.sh"))
        assert done.stdout.kept == b"made\nx\n1\nran\n"
        assert list(sandbox.tree().entries()) == list(prepared.base_tree.entries())
        fill = Command(line="for i in 1 2 3 4 5 6; do head -c 30M /dev/zero > f$i || exit 9; done", timeout_sec=60)
        done = sandbox.run(fill)
        assert (done.exit_code, done.oom) == (9, False)
        assert b"No space left" in done.stderr.kept
        done = sandbox.run(Command(line="rm f*; echo x > /etc/x; echo x > /var/x; echo alive"))
        assert done.stdout.kept == b"alive\n"
        fake = "printf '#!/bin/sh\\nhead -c 5000 /dev/zero | tr \\\\0 9\\n' > /opt/env/bin/df && chmod +x /opt/env/bin/df && df"
        assert len(sandbox.run(Command(line=fake)).stdout.kept) == 5000
        disk_mb = sandbox.usage().disk_mb
        assert disk_mb is not None
        assert disk_mb < 5
    with docker.open(replace(SPEC, hard_disk=True, workdir="/home/agent/deep/project"), None) as sandbox:
        assert sandbox.run(Command(line="pwd; touch x; ls")).stdout.kept == b"/home/agent/deep/project\nx\n"
