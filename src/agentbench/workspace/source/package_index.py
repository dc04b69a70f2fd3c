"""Finds releases (`pypi:NAME==VERSION`) where the user's own pip or uv would look.

Supports both forms of the simple API (JSON and HTML), folders and pages given as find-links, and local indexes with
file:// URLs. An index only provides the location of a file; the digest in the task decides whether it is the right one.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from html.parser import HTMLParser
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urljoin, urlsplit

from agentbench.core.command import MIB
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import SourceError
from agentbench.core.package_name import normal_name
from agentbench.core.package_settings import PackageSettings, host_settings, without_credentials
from agentbench.workspace.source.download import DOWNLOAD_ERRORS, open_url

_REQUEST = re.compile(r"pypi:(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9][A-Za-z0-9._+!-]*)")
_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_PAGE_BYTES = 64 * MIB
_SDIST = (".tar.gz", ".zip", ".tar.bz2", ".tar.xz", ".tgz")
_WEB = ("http://", "https://")
_SHA256 = re.compile(r"sha256=([0-9a-f]{64})")
_MAX_FAILURES = 2
"""Failed requests in a row after which the indexes are no longer asked."""
_PARALLEL = 8


@dataclass(frozen=True, slots=True)
class Release:
    """One file of a release, with the digest that the index gives."""

    url: str
    filename: str
    sha256: str | None
    uploaded: str | None = None
    """Upload time (ISO 8601), if the index provides it."""

    @property
    def is_source(self) -> bool:
        return self.filename.lower().endswith(_SDIST)


def open_release(request: str, sha256: str, *, settings: PackageSettings | None = None) -> BinaryIO:
    """Open the file of a release that has this digest according to an index, or a source distribution without a digest.

    Raises:
        SourceError: no configured index has the file, or it cannot be downloaded.
    """
    settings = settings or host_settings()
    releases, problems = find_release(request, settings)
    candidates = [release for release in releases if release.sha256 == sha256] or [
        release for release in releases if release.sha256 is None and release.is_source
    ]
    if not candidates:
        raise _not_found(request, releases, problems, settings)
    for release in candidates:
        try:
            return _open_file(release.url, settings)
        except DOWNLOAD_ERRORS as error:
            problems.append(f"{without_credentials(release.url)}: {error}")
    raise SourceError(f"cannot download {request}: {'; '.join(problems)}", remedy="check the network and try again")


def find_release(request: str, settings: PackageSettings) -> tuple[list[Release], list[str]]:
    """Return every file of a release in the configured indexes, and the problems with indexes that failed.

    Raises:
        SourceError: the request is not `pypi:NAME==VERSION`.
    """
    match = _REQUEST.fullmatch(request)
    if match is None:
        raise SourceError(f"{request}: expected pypi:NAME==VERSION")
    name, version = normal_name(match["name"]), match["version"]
    files, problems = find_project(name, settings)
    return files_of_version(files, name, version), problems


def files_of_version(files: Iterable[Release], name: str, version: str) -> list[Release]:
    """Return the files of one version among those of a project, however the version is written."""
    wanted = _normal_version(version)
    return [file for file in files if _is_version(file.filename, normal_name(name), wanted)]


def find_project(project: str, settings: PackageSettings) -> tuple[list[Release], list[str]]:
    """Return every file of a project in the configured indexes, and the problems with indexes that failed."""
    name = normal_name(project)
    files: list[Release] = []
    problems: list[str] = []
    pages = [(f"{_as_url(index).rstrip('/')}/{name}/", True) for index in settings.indexes()]
    pages += [(_as_url(location), False) for location in settings.many.get("find-links", ())]
    for page, is_index in pages:
        try:
            files += [file for file in _read_links(page, settings) if version_of(file.filename, name) is not None]
        except FileNotFoundError:
            if not is_index:
                problems.append(f"{page}: no such folder")
        except DOWNLOAD_ERRORS as error:
            if getattr(error, "code", None) not in {404, 410}:  # a project that an index does not have is not a problem
                problems.append(f"{without_credentials(page)}: {error}")
    return list(dict.fromkeys(files)), problems


@dataclass
class ProjectFiles:
    """The files of projects on the configured indexes. Each project is looked up once."""

    settings: PackageSettings = field(default_factory=host_settings)
    _known: dict[str, tuple[Release, ...]] = field(default_factory=dict)
    _failures: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, project: str) -> tuple[Release, ...]:
        name = normal_name(project)
        with self._lock:
            known = self._known.get(name)
            # Requests to an unreachable index can be slow to fail, so give up after a few.
            give_up = self._failures >= _MAX_FAILURES
        if known is None:
            files, failures = ([], []) if give_up else find_project(name, self.settings)
            known = tuple(files)
            with self._lock:
                self._known[name] = known
                self._failures = self._failures + 1 if failures and not files else 0 if files else self._failures
        return known

    def look_up(self, projects: Iterable[str]) -> None:
        """Look up several projects at once, if the indexes answer."""
        names = iter(sorted({normal_name(project) for project in projects} - self._known.keys()))
        for name in names:
            if self.of(name):
                break
        with ThreadPoolExecutor(_PARALLEL) as pool:
            list(pool.map(self.of, names))


def _not_found(request: str, releases: list[Release], problems: list[str], settings: PackageSettings) -> SourceError:
    if releases:
        listed = "; ".join(f"{release.filename} {release.sha256 or 'without a digest'}" for release in releases[:6])
        return SourceError(
            f"{request}: no file has the digest of the task; the index has: {listed}",
            remedy="set `repo.sha256` to the digest of the intended source distribution",
        )
    if problems:
        return SourceError(
            f"cannot look up {request}: {'; '.join(problems)}",
            remedy="check the network, or configure a reachable index (PIP_INDEX_URL, pip.conf)",
        )
    indexes = ", ".join(settings.addresses()) or "none (no-index is set)"
    return SourceError(
        f"{request} was not found; configured indexes: {indexes}",
        remedy="check name and version, or configure an index that has it (PIP_INDEX_URL, pip.conf)",
    )


def _normal_version(version: str) -> str:
    """Normalize spellings of one release: case, separators of the local part, trailing zeros."""
    public, plus, local = version.lower().removeprefix("v").partition("+")
    public = re.sub(r"(\.0+)+$", "", public)
    return f"{public}{plus}{re.sub(r'[-_]', '.', local)}"


def _is_version(filename: str, name: str, version: str) -> bool:
    file_version = version_of(filename, name)
    return file_version is not None and _normal_version(file_version) == version


def version_of(filename: str, name: str) -> str | None:
    """Return the version in a file name; None if it is not a distribution of the project `name` (normalized)."""
    lower = filename.lower()
    if lower.endswith(".whl"):
        parts = filename.split("-")
        return parts[1] if len(parts) >= 5 and normal_name(parts[0]) == name else None
    suffix = next((suffix for suffix in _SDIST if lower.endswith(suffix)), None)
    stem = filename[: -len(suffix)] if suffix else ""
    # A project name may contain dashes, so the version may start after any of them.
    ends = (dash for dash in re.finditer("-", stem) if normal_name(stem[: dash.start()]) == name)
    return next((stem[dash.end() :] for dash in ends), None)


def _as_url(location: str) -> str:
    return location if "://" in location else Path(location).expanduser().absolute().as_uri()


def _local_path(url: str) -> Path | None:
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def _read_links(page: str, settings: PackageSettings) -> Iterator[Release]:
    path = _local_path(page)
    if path is not None and path.is_dir() and not (path / "index.html").is_file():
        yield from (Release(file.as_uri(), file.name, None) for file in sorted(path.iterdir()) if file.is_file())
        return
    if path is not None and path.is_dir():
        path, page = path / "index.html", page.rstrip("/") + "/"
    body, kind = _read_page(page, path, settings)
    listed = _json_links(body) if kind.endswith("json") else _html_links(body)
    with_credentials = "@" in urlsplit(page).netloc
    for href, filename, digest, uploaded in listed:
        # An index may list tens of thousands of files, so most of them are not parsed as URLs.
        url = (href if href.startswith(_WEB) else urljoin(page, href)).partition("#")[0]
        if url.startswith(_WEB) or (path is not None and _local_path(url) is not None):
            name = filename or unquote(url.partition("?")[0].rpartition("/")[2])
            yield Release(_with_credentials(url, page) if with_credentials else url, name, digest, uploaded)


def _read_page(page: str, path: Path | None, settings: PackageSettings) -> tuple[str, str]:
    if path is not None:
        with path.open("rb") as file:
            return file.read(_PAGE_BYTES).decode("utf-8", "replace"), "json" if path.suffix == ".json" else "html"
    with open_url(page, headers={"Accept": _ACCEPT}, certificates=settings.single.get("cert")) as response:
        kind = getattr(response, "headers", {}).get("Content-Type", "").partition(";")[0].strip()
        return response.read(_PAGE_BYTES).decode("utf-8", "replace"), kind


def _json_links(body: str) -> Iterator[tuple[str, str, str | None, str | None]]:
    data = json.loads(body)
    files = data.get("files") if isinstance(data, dict) else None
    for file in files if isinstance(files, list) else ():
        if isinstance(file, dict) and isinstance(file.get("url"), str):
            hashes = file.get("hashes")
            digest = hashes.get("sha256") if isinstance(hashes, dict) else None
            uploaded = file.get("upload-time")
            yield (
                file["url"],
                str(file.get("filename", "")),
                digest if isinstance(digest, str) else None,
                uploaded if isinstance(uploaded, str) else None,
            )


def _html_links(body: str) -> Iterator[tuple[str, str, str | None, str | None]]:
    parser = _LinkParser()
    parser.feed(body)
    for href, uploaded in parser.links:
        digest = _SHA256.search(href)
        yield href, "", digest[1] if digest else None, uploaded


class _LinkParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # `data-upload-time` is not standard, but some mirrors that serve only HTML provide it.
        values = dict(attrs)
        href = values.get("href")
        if tag == "a" and href:
            self.links.append((href, values.get("data-upload-time")))


def _with_credentials(url: str, page: str) -> str:
    """Add the credentials of the index page to files on the same host, and only there."""
    index, file = urlsplit(page), urlsplit(url)
    if "@" in index.netloc and index.netloc.rpartition("@")[2] == file.netloc and index.scheme == file.scheme:
        return file._replace(netloc=index.netloc).geturl()
    return url


def _open_file(url: str, settings: PackageSettings) -> BinaryIO:
    path = _local_path(url)
    if path is not None:
        return os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb")
    return open_url(url, certificates=settings.single.get("cert"))
