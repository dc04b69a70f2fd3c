"""Releases of a package index: `pypi:NAME==VERSION`, found where the user's own pip or uv would look.

Both forms of the simple API (JSON and HTML), folders and pages given as find-links, local indexes behind file://.
What is found is only a place: the task's digest decides whether it is the release that was meant.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urljoin, urlsplit

from agentbench.core.command import MIB
from agentbench.core.errors import SourceError
from agentbench.core.package_settings import PackageSettings, host_settings, without_credentials
from agentbench.workspace.source.download import WEB_ERRORS, open_web

_REQUEST = re.compile(r"pypi:(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9][A-Za-z0-9._+!-]*)")
_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_PAGE_BYTES = 64 * MIB
_SDIST = (".tar.gz", ".zip", ".tar.bz2", ".tar.xz", ".tgz")
_SHA256 = re.compile(r"sha256=([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Release:
    """One file of a release: where it is, and what the index says its digest is."""

    url: str
    filename: str
    sha256: str | None
    uploaded: str | None = None
    """When it came out (ISO 8601), where the index tells."""

    @property
    def is_source(self) -> bool:
        return self.filename.lower().endswith(_SDIST)


def open_release(request: str, sha256: str, *, settings: PackageSettings | None = None) -> BinaryIO:
    """The file of a release that has this digest, as far as the indexes say; else its only source distribution.

    Raises:
        SourceError: it is in none of the places that are configured; the message says what is.
    """
    settings = settings or host_settings()
    found, troubles = find_release(request, settings)
    fitting = [one for one in found if one.sha256 == sha256] or [
        one for one in found if one.sha256 is None and one.is_source
    ]
    if not fitting:
        raise _missing(request, found, troubles, settings)
    for one in fitting:
        try:
            return _open_link(one.url, settings)
        except WEB_ERRORS as error:
            troubles.append(f"{without_credentials(one.url)}: {error}")
    raise SourceError(
        f"{request} cannot be downloaded: {'; '.join(troubles)}", remedy="check the network and try again"
    )


def find_release(request: str, settings: PackageSettings) -> tuple[list[Release], list[str]]:
    """Every file of a release in every configured place, and what went wrong with places that did not answer.

    Raises:
        SourceError: the request is not `pypi:NAME==VERSION`.
    """
    match = _REQUEST.fullmatch(request)
    if match is None:
        raise SourceError(f"{request}: expected pypi:NAME==VERSION")
    name, version = normal_name(match["name"]), _normal_version(match["version"])
    files, troubles = find_project(name, settings)
    return [one for one in files if _fits(one.filename, name, version)], troubles


def find_project(project: str, settings: PackageSettings) -> tuple[list[Release], list[str]]:
    """Every file of every release of a project in every configured place, and what went wrong with places."""
    name = normal_name(project)
    found: list[Release] = []
    troubles: list[str] = []
    pages = [(f"{_as_url(index).rstrip('/')}/{name}/", True) for index in settings.indexes()]
    pages += [(_as_url(place), False) for place in settings.many.get("find-links", ())]
    for page, is_index in pages:
        try:
            found += [one for one in _links(page, settings) if version_of(one.filename, name) is not None]
        except FileNotFoundError:
            if not is_index:
                troubles.append(f"{page}: no such folder")
        except WEB_ERRORS as error:
            if getattr(error, "code", None) not in {404, 410}:  # an index that does not have it is no trouble
                troubles.append(f"{without_credentials(page)}: {error}")
    return list(dict.fromkeys(found)), troubles


def _missing(request: str, found: list[Release], troubles: list[str], settings: PackageSettings) -> SourceError:
    places = ", ".join(settings.addresses()) or "no index (no-index is set)"
    if found:
        listed = "; ".join(f"{one.filename} {one.sha256 or 'without a digest'}" for one in found[:6])
        return SourceError(
            f"{request}: no file has the digest that the task says; the index has: {listed}",
            remedy="take `repo.sha256` from the source distribution that is meant",
        )
    if troubles:
        return SourceError(
            f"{request} could not be looked up: {'; '.join(troubles)}",
            remedy="check the network, or configure an index (PIP_INDEX_URL, pip.conf) that can be reached",
        )
    return SourceError(
        f"{request} is in none of the configured places: {places}",
        remedy="check name and version, or configure an index (PIP_INDEX_URL, pip.conf) that has it",
    )


# --- names -------------------------------------------------------------------------------------------------------


def normal_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _normal_version(version: str) -> str:
    """Enough to compare spellings of one release: case, separators before a local part, zeros that say nothing."""
    public, plus, local = version.lower().removeprefix("v").partition("+")
    public = re.sub(r"(\.0+)+$", "", public)
    return f"{public}{plus}{re.sub(r'[-_]', '.', local)}"


def _fits(filename: str, name: str, version: str) -> bool:
    found = version_of(filename, name)
    return found is not None and _normal_version(found) == version


def version_of(filename: str, name: str) -> str | None:
    """The version that a file is of, as its name spells it; None when it is no distribution of that (normal) name."""
    lower = filename.lower()
    if lower.endswith(".whl"):
        parts = filename.split("-")
        return parts[1] if len(parts) >= 5 and normal_name(parts[0]) == name else None
    suffix = next((one for one in _SDIST if lower.endswith(one)), None)
    stem = filename[: -len(suffix)] if suffix else ""
    # A name may contain dashes, so every dash may be where the version begins.
    ends = (dash for dash in re.finditer("-", stem) if normal_name(stem[: dash.start()]) == name)
    return next((stem[dash.end() :] for dash in ends), None)


# --- pages -------------------------------------------------------------------------------------------------------


def _as_url(place: str) -> str:
    return place if "://" in place else Path(place).expanduser().absolute().as_uri()


def _local(url: str) -> Path | None:
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def _links(page: str, settings: PackageSettings) -> Iterator[Release]:
    path = _local(page)
    if path is not None and path.is_dir() and not (path / "index.html").is_file():
        yield from (Release(file.as_uri(), file.name, None) for file in sorted(path.iterdir()) if file.is_file())
        return
    if path is not None and path.is_dir():
        path, page = path / "index.html", page.rstrip("/") + "/"
    body, kind = _read_page(page, path, settings)
    listed = _json_links(body) if kind.endswith("json") else _html_links(body)
    for href, filename, digest, uploaded in listed:
        url = urljoin(page, href)
        if urlsplit(url).scheme in {"http", "https"} or (path is not None and _local(url) is not None):
            shown = filename or unquote(urlsplit(url).path.rsplit("/", 1)[-1])
            yield Release(_with_credentials(url.partition("#")[0], page), shown, digest, uploaded)


def _read_page(page: str, path: Path | None, settings: PackageSettings) -> tuple[str, str]:
    if path is not None:
        with path.open("rb") as file:
            return file.read(_PAGE_BYTES).decode("utf-8", "replace"), "json" if path.suffix == ".json" else "html"
    answer = open_web(page, headers={"Accept": _ACCEPT}, certificates=settings.single.get("cert"))
    if answer is None:
        msg = "leads to something that is not http or https"
        raise ValueError(msg)
    with answer:
        kind = getattr(answer, "headers", {}).get("Content-Type", "").partition(";")[0].strip()
        return answer.read(_PAGE_BYTES).decode("utf-8", "replace"), kind


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
    reader = _Anchors()
    reader.feed(body)
    for href, uploaded in reader.found:
        digest = _SHA256.search(href)
        yield href, "", digest[1] if digest else None, uploaded


class _Anchors(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # `data-upload-time` is in no standard, but mirrors that serve pages only as HTML tell the time with it.
        told = dict(attrs)
        href = told.get("href")
        if tag == "a" and href:
            self.found.append((href, told.get("data-upload-time")))


def _with_credentials(url: str, page: str) -> str:
    """A private index protects its files as it protects its pages; another host gets nothing of it."""
    mine, theirs = urlsplit(page), urlsplit(url)
    if "@" in mine.netloc and mine.netloc.rpartition("@")[2] == theirs.netloc and mine.scheme == theirs.scheme:
        return theirs._replace(netloc=mine.netloc).geturl()
    return url


def _open_link(url: str, settings: PackageSettings) -> BinaryIO:
    path = _local(url)
    if path is not None:
        return os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb")
    answer = open_web(url, certificates=settings.single.get("cert"))
    if answer is None:
        msg = "leads to something that is not http or https"
        raise ValueError(msg)
    return answer
