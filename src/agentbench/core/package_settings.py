"""The host's package index and proxy settings, merged from the configuration of pip and uv."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from agentbench.core.dataclass import dataclass

_SINGLE = ("index-url", "no-index", "cert", "proxy", "timeout", "retries")
_MANY = ("extra-index-url", "find-links", "trusted-host")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ftp_proxy")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO")
DEFAULT_INDEX = "https://pypi.org/simple"
_ALWAYS_MOUNTED = ("/usr/", "/etc/ssl/", "/etc/pki/", "/etc/ca-certificates/")


@dataclass(slots=True)
class PackageSettings:
    """Merged settings: `single` has single values, `many` has lists in the order they are tried."""

    single: dict[str, str] = field(default_factory=dict)
    many: dict[str, list[str]] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)

    def pip_conf(self) -> str:
        lines = ["[global]"]
        lines += [f"{key} = {value}" for key, value in sorted(self.single.items())]
        for key, values in sorted(self.many.items()):
            lines.append(f"{key} =")
            lines += [f"    {value}" for value in values]
        lines.append("disable-pip-version-check = true")
        # Percent signs in URLs are literal: pip reads this file without interpolation.
        return "\n".join(lines) + "\n"

    def folders(self) -> list[Path]:
        """Return the local paths that the settings refer to, to be mounted at the same path."""
        paths = []
        addresses = [self.single.get("index-url", ""), *self.many.get("extra-index-url", ())]
        for value in [*addresses, *self.many.get("find-links", ())]:
            path = _local(value)
            if path is None:
                continue
            # Index pages link to files beside the index (`../../files/…`).
            paths.append(path.parent if path.name == "simple" else path)
        certificates = [value for key, value in self.env.items() if key in _CERTIFICATES]
        paths += [Path(value) for value in [*certificates, self.single.get("cert", "")] if value.startswith("/")]
        return [path for path in _outermost(paths) if path.exists() and not f"{path}/".startswith(_ALWAYS_MOUNTED)]

    def addresses(self) -> list[str]:
        """Return the registries in use, without credentials."""
        values = [self.single.get("index-url", DEFAULT_INDEX)] if "no-index" not in self.single else []
        values += [*self.many.get("extra-index-url", ()), *self.many.get("find-links", ())]
        return [without_credentials(value) for value in values]

    def indexes(self) -> list[str]:
        """Return the index URLs in the order they are tried, with credentials."""
        if self.single.get("no-index", "").lower() in {"1", "true", "yes", "on"}:
            return []
        return [self.single.get("index-url", DEFAULT_INDEX), *self.many.get("extra-index-url", ())]

    def without_proxies(self) -> PackageSettings:
        """Return the settings without the host's proxies, for a sandbox that has a proxy of its own."""
        single = {key: value for key, value in self.single.items() if key != "proxy"}
        return PackageSettings(
            single, self.many, {key: value for key, value in self.env.items() if key.lower() not in _PROXIES}
        )

    def secrets(self) -> list[str]:
        """Return the credentials contained in URLs."""
        secrets = []
        proxies = [self.env[key] for key in self.env if key.lower() in _PROXIES]
        for value in [*self.single.values(), *(item for items in self.many.values() for item in items), *proxies]:
            match = re.search(r"://([^/@\s]+)@", value)
            if match:
                credentials = match[1]
                parts = [credentials, *credentials.split(":", 1)[1:]]
                secrets += [text for part in parts for text in (part, unquote(part)) if text]
        return list(dict.fromkeys(sorted(secrets, key=len, reverse=True)))


def without_credentials(address: str) -> str:
    return re.sub(r"://[^/@\s]+@", "://", address)


def host_settings(env: Mapping[str, str] | None = None, home: Path | None = None) -> PackageSettings:
    """Return the settings that pip and uv would use on this host for the current user."""
    env = os.environ if env is None else env
    home = Path.home() if home is None else home
    settings = PackageSettings()
    for path in _pip_files(env, home):
        _merge(settings, _pip_file(path))
    for path in _uv_files(env, home):
        _merge(settings, _uv_file(path))
    _merge(settings, _variables(env))
    for key in (*_PROXIES, *(name.upper() for name in _PROXIES)):
        if env.get(key):
            settings.env[key] = env[key]
    for key in _CERTIFICATES:
        if env.get(key) and Path(env[key]).exists():
            settings.env[key] = env[key]
    return settings


def _pip_files(env: Mapping[str, str], home: Path) -> list[Path]:
    if env.get("PIP_CONFIG_FILE") == os.devnull:
        return []
    config = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
    files = [Path("/etc/xdg/pip/pip.conf"), Path("/etc/pip.conf"), home / ".pip/pip.conf", config / "pip/pip.conf"]
    if env.get("PIP_CONFIG_FILE"):
        files.append(Path(env["PIP_CONFIG_FILE"]))
    return files


def _uv_files(env: Mapping[str, str], home: Path) -> list[Path]:
    config = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
    return [Path("/etc/uv/uv.toml"), config / "uv/uv.toml"]


def _pip_file(path: Path) -> list[tuple[str, str]]:
    import configparser  # noqa: PLC0415 - only setup needs it

    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text())
    except (OSError, configparser.Error, UnicodeDecodeError):
        return []
    options: list[tuple[str, str]] = []
    for section in ("global", "install", "download"):
        if parser.has_section(section):
            options += [(key.replace("_", "-"), value) for key, value in parser.items(section)]
    return options


def _uv_file(path: Path) -> list[tuple[str, str]]:
    import tomllib  # noqa: PLC0415 - only setup needs it

    try:
        data = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError):
        return []
    options: list[tuple[str, str]] = []
    for table in (data, data.get("pip", {})):
        for key in (*_SINGLE, *_MANY):
            value = table.get(key)
            values = value if isinstance(value, list) else [value]
            options += [(key, item) for item in values if isinstance(item, str)]
        for index in table.get("index", []):
            if isinstance(index, dict) and isinstance(index.get("url"), str):
                options.append(("index-url" if index.get("default") else "extra-index-url", index["url"]))
    return options


def _variables(env: Mapping[str, str]) -> list[tuple[str, str]]:
    names = {f"PIP_{key.upper().replace('-', '_')}": key for key in (*_SINGLE, *_MANY)}
    names |= {"PIP_DEFAULT_TIMEOUT": "timeout", "UV_DEFAULT_INDEX": "index-url", "UV_INDEX_URL": "index-url"}
    names |= {"UV_EXTRA_INDEX_URL": "extra-index-url", "UV_INDEX": "extra-index-url", "UV_FIND_LINKS": "find-links"}
    # uv index URLs may have a name: `name=https://…`.
    return [(key, re.sub(r"(^|\s)[\w-]+=(?=\w+://)", r"\1", env[name])) for name, key in names.items() if env.get(name)]


def _merge(settings: PackageSettings, options: Iterable[tuple[str, str]]) -> None:
    for name, value in options:
        key = "timeout" if name == "default-timeout" else name
        if key in _SINGLE and value.strip():
            settings.single[key] = value.strip()
        elif key in _MANY:
            known = settings.many.setdefault(key, [])
            known += [item for item in re.split(r"[\s,]+", value) if item and item not in known]


def _local(value: str) -> Path | None:
    if value.startswith("file://"):
        return Path(unquote(urlsplit(value).path))
    return Path(value) if value.startswith("/") else None


def _outermost(paths: Iterable[Path]) -> list[Path]:
    outermost: list[Path] = []
    for path in sorted(set(paths), key=lambda item: len(item.parts)):
        if path != Path("/") and not any(parent in outermost for parent in (path, *path.parents)):
            outermost.append(path)
    return outermost
