"""Provider and model presets from a versioned data file, and the parsing of `--model`."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from agentbench.contract.problem import did_you_mean
from agentbench.core.canonical import sha256_hex
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.models.client.endpoint import UNNAMED, Auth, Dialect, Endpoint, check_allowed, check_url
from agentbench.models.keys import Keys

ALLOWED_VARIABLE = "AB_ALLOWED_ENDPOINTS"
_VARIABLE = re.compile(r"\{([A-Z][A-Z0-9_]*)\}")


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Sampling(_Closed):
    """Sampling parameters of a request. None is not sent, so that the service's default applies."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_tokens: int | None = Field(default=None, gt=0)


class ProviderPreset(_Closed):
    """A provider. `base_url` may contain environment variables in braces, and `{model}`."""

    base_url: str
    key: str | None
    key_optional: bool = False
    auth: Auth = "bearer"
    dialects: tuple[Dialect, ...] = (Dialect.CHAT,)
    headers: dict[str, str] = {}
    query: dict[str, str] = {}
    send_seed: bool = True
    """Whether requests of built-in agents contain the seed of the attempt."""


class ModelPreset(Sampling):
    provider: str
    name: str


class Presets(_Closed):
    """All presets. Records state the version and the digest of the file."""

    version: int
    default_provider: str
    defaults: Sampling = Sampling.model_construct()
    providers: dict[str, ProviderPreset]
    models: dict[str, ModelPreset] = {}
    _digest: str = PrivateAttr("")

    @property
    def identity(self) -> str:
        return f"presets_v{self.version}@{self._digest}"


_HOST = re.compile(
    r"(?:localhost|\[[0-9a-f:]+\]|[\w-]+(?:\.[\w-]+)+)(?::\d+)?(?:/.*)?|[\w.-]+:\d+(?:/.*)?", re.IGNORECASE
)
"""A host with a port or a path, as in a URL whose scheme was forgotten."""

Source = Literal["service", "scripted", "recorded", "python"]
_PLACES: Mapping[Source, str] = {"scripted": "a file", "recorded": "a run directory", "python": "a name"}
"""Sources of answers that are no service, and what follows their name. `python` is a model that was passed in."""
MODEL = "--model"


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A parsed `--model`. `name` is the model's name at its provider, or the path of a script or recording."""

    source: Source
    provider: str
    name: str
    base_url: str | None = None
    preset: str | None = None
    sampling: Sampling = field(default_factory=Sampling)
    option: str = MODEL
    """The option that chose it, for messages."""


@functools.cache
def bundled_presets() -> Presets:
    return parse_presets(Path(__file__).with_name("presets.json").read_bytes(), "presets.json")


def parse_presets(data: bytes, name: str) -> Presets:
    """
    Raises:
        InputError: `data` is invalid; `name` says in which file.
    """
    try:
        presets = Presets.model_validate_json(data)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc'])) or 'file'}: {problem['msg']}" for problem in error.errors()
        )
        raise InputError(f"{name}: {problems}") from None
    known = presets.providers
    for alias, preset in presets.models.items():
        if preset.provider not in known:
            msg = f"{name}: models.{alias}.provider: unknown provider {preset.provider!r} (known: {', '.join(known)})"
            raise InputError(msg)
    if presets.default_provider not in known:
        raise InputError(f"{name}: default_provider: unknown provider {presets.default_provider!r}")
    presets._digest = "sha256:" + sha256_hex(data)  # noqa: SLF001 - just created
    return presets


def choose(text: str, presets: Presets, option: str = MODEL) -> ModelChoice:
    """Parse `--model`, or another `option` of the same form.

    `PRESET` · `PROVIDER:NAME` · `NAME` (at the default provider) · `NAME@http://host/v1` · `scripted:FILE` · `recorded:RUN`

    Raises:
        InputError: it is empty, or contains an invalid URL.
    """
    text = text.strip()
    if not text or not text.isprintable():
        msg = f"{option}: expected a model, for example openrouter:vendor/name or name@http://127.0.0.1:8000/v1"
        raise InputError(msg)
    for source, expected in _PLACES.items():
        if text.startswith(source + ":"):
            place = text.removeprefix(source + ":")
            if not place:
                raise InputError(f"{option} {source}: expected {expected} after the colon")
            return ModelChoice(source, source, place, option=option)
    preset = presets.models.get(text)
    if preset is not None:
        return ModelChoice("service", preset.provider, preset.name, preset=text, sampling=_merged(preset, presets))
    name, at, rest = text.partition("@http")
    if at or "://" in text:
        url = at[1:] + rest if at else text.rpartition("@")[2]
        check_url(url, option)
        if not name or "://" in name:
            raise InputError(f"{option} {url}: no model is named", remedy=f"write NAME@{url}")
        return ModelChoice("service", UNNAMED, name, base_url=url, sampling=presets.defaults)
    host = text.rpartition("@")[2] if "@" in text else ""
    if _HOST.fullmatch(host):
        raise InputError(f"{option} {text}: the URL has no scheme", remedy=f"write {text.replace('@', '@http://', 1)}")
    provider, colon, name = text.partition(":")
    if colon and "/" not in provider:
        if provider not in presets.providers:
            msg = f"{option} {text}: unknown provider '{provider}'{did_you_mean(provider, presets.providers)}"
            raise InputError(msg, remedy=f"available providers: {', '.join(presets.providers)}")
        if not name:
            raise InputError(f"{option} {text}: expected the name of a model after the colon")
        return ModelChoice("service", provider, name, sampling=presets.defaults)
    return ModelChoice("service", presets.default_provider, text, sampling=presets.defaults)


def _merged(preset: ModelPreset, presets: Presets) -> Sampling:
    """Return the values that the preset sets, including null, and the defaults for the rest."""
    fields = Sampling.model_fields
    values = {name: getattr(preset, name) for name in fields if name in preset.model_fields_set}
    return presets.defaults.model_copy(update=values)


def endpoint_of(choice: ModelChoice, presets: Presets, keys: Keys) -> Endpoint:
    """Return the endpoint of a choice with its key, if it is on the list of allowed endpoints.

    Raises:
        InputError: a key or another variable is not set, or the endpoint is not allowed.
    """
    preset = presets.providers[choice.provider]
    purpose = f"model {choice.name} at {choice.provider}"
    base = choice.base_url or _filled(preset.base_url, choice.name, keys, purpose)
    check_url(base, purpose)
    key = None
    if preset.key is not None:
        key = keys.get(preset.key) if preset.key_optional else keys.require(preset.key, purpose)
    endpoint = Endpoint(
        provider=choice.provider,
        base_url=base.rstrip("/"),
        key=key,
        auth=preset.auth,
        dialects=frozenset(preset.dialects) | {Dialect.CHAT},
        headers=preset.headers,
        query=preset.query,
    )
    listed = keys.get(ALLOWED_VARIABLE)
    check_allowed(endpoint, tuple(listed.reveal().replace(",", " ").split()) if listed else ())
    return endpoint


def _filled(template: str, model: str, keys: Keys, purpose: str) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1]
        secret = keys.get(name)
        if secret is None:
            msg = f"{purpose} needs the environment variable {name}, which is not set"
            raise InputError(msg, remedy=f"set {name} in the environment or in .env")
        return secret.reveal().rstrip("/")

    return _VARIABLE.sub(value, template).replace("{model}", model)
