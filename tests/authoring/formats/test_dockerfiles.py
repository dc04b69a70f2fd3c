"""Making Dockerfiles standalone: copied files become workspace files or are embedded."""

from __future__ import annotations

import base64
import io
import re
import tarfile
from pathlib import Path

import pytest

from agentbench.authoring.formats.dockerfiles import StandaloneDockerfile, make_standalone
from agentbench.core.errors import InputError

pytestmark = [pytest.mark.req("C-18"), pytest.mark.component]


def standalone(tmp_path: Path, text: str) -> StandaloneDockerfile:
    for name in ("a.txt", "b.txt", "app/one.py", "app/deep/two.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "Dockerfile").write_text(text)
    return make_standalone(tmp_path / "Dockerfile")


def embedded(text: str) -> dict[str, int]:
    """Return the embedded files with their modes."""
    modes: dict[str, int] = {}
    for parcel in re.findall(r"(?s)printf %s '(.*?)'", text):
        packed = io.BytesIO(base64.b64decode(parcel.replace("\\\n", "")))
        with tarfile.open(fileobj=packed) as archive:
            modes |= {f"/{member.name}": member.mode for member in archive.getmembers()}
    return modes


@pytest.mark.parametrize(
    "line, files",
    [
        ("COPY a.txt .", {"a.txt"}),
        ("COPY a.txt b.txt ./in/", {"in/a.txt", "in/b.txt"}),
        ("copy *.txt /w", {"a.txt", "b.txt"}),
        ("COPY app/ /w/", {"one.py", "deep/two.py"}),
        ("COPY --chown=me:me app src", {"src/one.py", "src/deep/two.py"}),
        ('COPY ["a.txt", "new name.txt"]', {"new name.txt"}),
        ("ADD . .", {"a.txt", "b.txt", "app/one.py", "app/deep/two.py"}),
        ("COPY \\\n  # why\n  a.txt \\\n  ./x.txt", {"x.txt"}),
        ("COPY a.txt /opt/a.txt", set()),
        ("RUN <<END\nCOPY a.txt .\nEND", set()),
    ],
)
def test_files_copied_below_the_last_workdir_are_workspace_files(tmp_path: Path, line: str, files: set[str]) -> None:
    assert standalone(tmp_path, f"FROM x\nWORKDIR /w\n{line}\n").workspace_files.keys() == files


def test_only_files_outside_the_workspace_are_embedded(tmp_path: Path) -> None:
    dockerfile = standalone(
        tmp_path, "FROM x\nWORKDIR /w\nCOPY b.txt .\nRUN cat b.txt\nCOPY --chmod=700 app /opt/\nCOPY a.txt .\n"
    )
    assert embedded(dockerfile.text) == {"/w/b.txt": 0o644, "/opt/one.py": 0o700, "/opt/deep/two.py": 0o700}
    assert dockerfile.workspace_files.keys() == {"a.txt", "b.txt"}
    assert not re.search("(?m)^COPY", dockerfile.text)


def test_stages_users_and_other_sources_are_kept(tmp_path: Path) -> None:
    text = "FROM x AS y\nWORKDIR /w\nCOPY a.txt .\nFROM x\nUSER me\nCOPY --from=y /w/a.txt /z\nCOPY b.txt /etc/\n"
    dockerfile = standalone(tmp_path, text)
    assert (dockerfile.workdir, dockerfile.workspace_files) == ("/app", {})
    assert embedded(dockerfile.text) == {"/w/a.txt": 0o644, "/etc/b.txt": 0o644}
    assert "COPY --from=y /w/a.txt /z" in dockerfile.text
    assert dockerfile.text.endswith("USER me\n")


def test_lines_stay_below_dockers_limit(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(b"".join(i.to_bytes(4, "big") for i in range(2**32 - 1, 0, -(2**32 // 40_000))))
    dockerfile = standalone(tmp_path, "FROM x\nCOPY noise /opt/\n")
    assert max(map(len, dockerfile.text.splitlines())) < 65_000
    assert embedded("".join(dockerfile.text.split("' >> /.agentbench-parcel\nRUN printf %s '"))) == {
        "/opt/noise": 0o644
    }


@pytest.mark.parametrize(
    "line, message",
    [
        ("COPY gone.txt /x/", r"Dockerfile:2: gone\.txt: no such file"),
        ("COPY ../secret /x/", "outside the folder"),
        ("COPY link/hosts /x/", "outside the folder"),
        ("COPY $FILE /x/", "variables in paths"),
        ("COPY a.txt .", "unknown working directory"),
        ("COPY a.txt", "a source and a destination"),
        ("ADD data.tar.gz /x/", "archives are not supported"),
    ],
)
def test_unsupported_instructions_are_rejected_with_their_line(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "link").symlink_to("/etc")
    with pytest.raises(InputError, match=message):
        standalone(tmp_path, f"FROM x\n{line}\n")
