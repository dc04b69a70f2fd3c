"""Releases are found on the package indexes that the user's pip would use."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.server
import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from agentbench.core.errors import SourceError
from agentbench.core.package_settings import PackageSettings, host_settings
from agentbench.workspace.source.package_index import find_release, open_release
from tests.workspace.source.test_archive import EXPECTED, RELEASE
from tests.workspace.tasks import files, snapshots, task

pytestmark = [pytest.mark.req("C-03b", "C-17"), pytest.mark.component]

DIGEST = hashlib.sha256(RELEASE).hexdigest()
HTML = f'<a href="../../files/My_Pkg-1.0.tar.gz#sha256={DIGEST}">x</a><a href="../../files/my_pkg-2.0.tar.gz">y</a>'


@contextlib.contextmanager
def serving(answers: Mapping[str, tuple[str, bytes]], password: str = "") -> Iterator[tuple[str, list[str]]]:
    requested: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # name given by the base class
            requested.append(self.path)
            expected = "Basic " + base64.b64encode(password.encode()).decode()
            denied = password and self.headers.get("Authorization") != expected
            kind, body = answers.get(self.path, ("", b""))
            self.send_response(401 if denied else 200 if kind else 404)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(b"" if denied else body)

        def log_message(self, *_arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", requested
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def local_index(folder: Path) -> str:
    (folder / "simple/my-pkg").mkdir(parents=True)
    (folder / "files").mkdir()
    (folder / "simple/my-pkg/index.html").write_text(HTML)
    (folder / "files/My_Pkg-1.0.tar.gz").write_bytes(RELEASE)
    return (folder / "simple").as_uri()


def settings_with(index: str = "", **many: list[str]) -> PackageSettings:
    single = {"index-url": index} if index else {"no-index": "true"}
    return PackageSettings(single=single, many={key.replace("_", "-"): value for key, value in many.items()})


def read(request: str, settings: PackageSettings, digest: str = DIGEST) -> bytes:
    with open_release(request, digest, settings=settings) as file:
        return file.read()


def test_local_index_with_file_url(tmp_path: Path) -> None:
    assert read("pypi:my.pkg==1.0", settings_with(local_index(tmp_path))) == RELEASE


def test_task_uses_the_configured_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", local_index(tmp_path))
    loaded = task(tmp_path / "task", archive="pypi:My-Pkg==1.0", sha256=DIGEST)
    assert files(snapshots(tmp_path).materialize(loaded)) == EXPECTED


def test_simple_api_as_json_and_html() -> None:
    file = {"filename": "my_pkg-1.0.tar.gz", "url": "/f/my_pkg-1.0.tar.gz", "hashes": {"sha256": DIGEST}}
    answers = {
        "/j/my-pkg/": ("application/vnd.pypi.simple.v1+json", json.dumps({"files": [file]}).encode()),
        "/h/my-pkg/": ("text/html", f'<a href="/f/my_pkg-1.0.tar.gz#sha256={DIGEST}">a</a>'.encode()),
        "/f/my_pkg-1.0.tar.gz": ("application/gzip", RELEASE),
    }
    with serving(answers) as (host, _):
        for form in ("j", "h"):
            assert read("pypi:my_pkg==1", settings_with(f"http://{host}/{form}/")) == RELEASE


def test_extra_index_is_used_if_the_first_lacks_the_project(tmp_path: Path) -> None:
    with serving({}) as (host, requested):
        settings = settings_with(f"http://{host}/simple", extra_index_url=[local_index(tmp_path)])
        assert read("pypi:my-pkg==1.0", settings) == RELEASE
        assert requested == ["/simple/my-pkg/"]


def test_find_links_folder_needs_no_index(tmp_path: Path) -> None:
    (tmp_path / "my_pkg-1.0.tar.gz").write_bytes(RELEASE)
    (tmp_path / "my_pkg_more-1.0.tar.gz").write_bytes(b"another package")
    releases, problems = find_release("pypi:my-pkg==1.0", settings_with(find_links=[str(tmp_path)]))
    assert ([release.filename for release in releases], problems) == (["my_pkg-1.0.tar.gz"], [])


def test_file_is_chosen_by_digest() -> None:
    page = (
        f'<a href="/my_pkg-1.0-py3-none-any.whl#sha256={"a" * 64}">w</a><a href="/my-pkg-1.0.zip#sha256={DIGEST}">s</a>'
    )
    with serving({"/my-pkg/": ("text/html", page.encode()), "/my-pkg-1.0.zip": ("x", b"the zip")}) as (host, _):
        assert read("pypi:my-pkg==1.0", settings_with(f"http://{host}")) == b"the zip"


def test_url_password_is_sent_to_the_index_and_never_shown() -> None:
    page = f'<a href="/f/my_pkg-1.0.tar.gz#sha256={DIGEST}">a</a>'
    answers = {"/my-pkg/": ("text/html", page.encode()), "/f/my_pkg-1.0.tar.gz": ("x", RELEASE)}
    with serving(answers, "me:s3cret") as (host, _):
        assert read("pypi:my-pkg==1.0", settings_with(f"http://me:s3cret@{host}")) == RELEASE
        with pytest.raises(SourceError) as caught:
            read("pypi:my-pkg==1.0", settings_with(f"http://me:wrong@{host}"))
    assert "401" in caught.value.message
    assert "wrong" not in caught.value.message


def test_remote_page_cannot_link_to_local_files(tmp_path: Path) -> None:
    (tmp_path / "my_pkg-1.0.tar.gz").write_bytes(RELEASE)
    page = f'<a href="{(tmp_path / "my_pkg-1.0.tar.gz").as_uri()}">a</a>'
    with (
        serving({"/my-pkg/": ("text/html", page.encode())}) as (host, _),
        pytest.raises(SourceError, match="was not found"),
    ):
        read("pypi:my-pkg==1.0", settings_with(f"http://{host}"))


class TestErrors:
    def test_wrong_digest_lists_the_available_digests(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match=f"My_Pkg-1.0.tar.gz {DIGEST}"):
            read("pypi:my-pkg==1.0", settings_with(local_index(tmp_path)), "0" * 64)

    def test_missing_version_lists_the_configured_indexes(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match=r"not found; configured indexes: file://.*simple") as caught:
            read("pypi:my-pkg==3.0", settings_with(local_index(tmp_path)))
        assert "PIP_INDEX_URL" in caught.value.remedy

    def test_unreachable_index(self) -> None:
        with pytest.raises(SourceError, match=r"cannot look up pypi:my-pkg==1.0: http://127\.0\.0\.1:1/") as caught:
            read("pypi:my-pkg==1.0", settings_with("http://127.0.0.1:1"))
        assert "network" in caught.value.remedy

    def test_missing_version_in_request(self) -> None:
        with pytest.raises(SourceError, match="expected pypi:NAME==VERSION"):
            read("pypi:my-pkg", settings_with())


def test_settings_from_files_and_environment(tmp_path: Path) -> None:
    (tmp_path / ".config/pip").mkdir(parents=True)
    (tmp_path / ".config/pip/pip.conf").write_text(
        "[global]\nindex-url = https://a/simple\nextra-index-url = https://b/simple\n"
    )
    settings = host_settings({"PIP_INDEX_URL": "https://c/simple"}, tmp_path)
    assert settings.indexes()[0] == "https://c/simple"
    assert "https://b/simple" in settings.indexes()
