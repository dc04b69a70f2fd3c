"""Removes from requests what would make the service reach out by itself. Pure.

A sandbox has no network, and its gateway leads to one model. A service that searches the web, fetches a URL, runs code or asks
another model for its client would bypass both, and the agent could look the solution up. Only conversation, and tools that the
client runs itself, may pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from agentbench.models.client.endpoint import Dialect
from agentbench.models.faults import Rejected
from agentbench.models.json_values import JsonObject, arr, obj, string

_FIELDS = (
    # OpenRouter: other models instead of the pinned one, and plug-ins such as web search.
    *("models", "route", "provider", "preset", "plugins"),
    # Web searches before the answer, by the names that services use.
    *("web_search_options", "search_parameters", "search_options", "enable_search", "extra_body", "google"),
    # Tools and instructions that the service stores, or reaches over the network.
    *("mcp_servers", "container", "prompt"),
    # Answers later, so that nothing of them is counted, or for another price than that of the price table.
    *("background", "service_tier", "speed"),
)
_GROUP = "namespace"
_CLIENT_TOOLS: Mapping[Dialect, frozenset[str]] = {
    Dialect.CHAT: frozenset({"function", "custom"}),
    Dialect.RESPONSES: frozenset({"function", "custom", "local_shell", "apply_patch", "computer_use_preview", _GROUP}),
    Dialect.MESSAGES: frozenset({"custom"}),
}
"""Types of tools that the client runs itself."""

_CLIENT_PREFIXES: Mapping[Dialect, tuple[str, ...]] = {
    Dialect.MESSAGES: ("bash_", "text_editor_", "computer_", "memory_"),
}
"""Prefixes of such types where the type ends with a date."""

_PLAIN_TEXT = frozenset({"type", "text", "cache_control", "annotations"})
"""A content block with only these keys is plain text."""

_URL_KEYS = ("image_url", "file_url", "video_url", "audio_url")
_ADDRESS = re.compile(r"\s*(?!data:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
"""The beginning of a URL, which Base64 has not. Some services take one in place of content."""


def forbidden_parts(dialect: Dialect, body: Mapping[str, JsonValue]) -> list[str]:
    """Return the names of the parts of a request that will not reach the service."""
    fields = [name for name in _FIELDS if body.get(name) is not None]
    return [*fields, *(_kind(tool) or "tool" for tool in _foreign(dialect, body.get("tools")))]


def without_forbidden_parts(dialect: Dialect, body: JsonObject) -> JsonObject:
    """Return the request without its forbidden parts.

    Raises:
        Rejected: it contains a URL that the service would fetch.
    """
    if next(_urls(body), None) is not None:
        raise Rejected("the service must not fetch URLs for a sandbox: send the content itself", status=400)
    if not forbidden_parts(dialect, body):
        return body
    kept = {name: value for name, value in body.items() if name not in _FIELDS}
    foreign = _foreign(dialect, body.get("tools"))
    if foreign:
        kept["tools"] = _own(dialect, body.get("tools"))
        choice = obj(body.get("tool_choice"))
        named = {_kind(tool) for tool in foreign} | {string(obj(tool).get("name")) for tool in foreign}
        if not kept["tools"]:
            kept.pop("tools")
        # A tool that was removed cannot be chosen.
        if "tools" not in kept or {string(choice.get("type")), string(choice.get("name"))} & (named - {""}):
            kept.pop("tool_choice", None)
    return kept


def _foreign(dialect: Dialect, tools: JsonValue) -> list[JsonValue]:
    """Return the tools that the service would run, including those inside a group."""
    foreign: list[JsonValue] = []
    for tool in arr(tools):
        if not _is_own(dialect, tool):
            foreign.append(tool)
        elif _kind(tool) == _GROUP:
            foreign += [member for member in arr(obj(tool).get("tools")) if not _is_own_member(member)]
    return foreign


def _own(dialect: Dialect, tools: JsonValue) -> list[JsonValue]:
    own: list[JsonValue] = []
    for tool in arr(tools):
        if _kind(tool) == _GROUP and _is_own(dialect, tool):
            own.append({**obj(tool), "tools": list(filter(_is_own_member, arr(obj(tool).get("tools"))))})
        elif _is_own(dialect, tool):
            own.append(tool)
    return own


def _is_own_member(tool: JsonValue) -> bool:
    """Return whether the client runs this tool of a group. No API has groups within groups."""
    return _is_own(Dialect.CHAT, tool)


def _is_own(dialect: Dialect, tool: JsonValue) -> bool:
    """Return whether the client runs a tool itself. A tool without a type is a plain function."""
    kind = obj(tool).get("type")
    if kind is None:
        return True
    return isinstance(kind, str) and (
        kind in _CLIENT_TOOLS[dialect] or kind.startswith(_CLIENT_PREFIXES.get(dialect, ()))
    )


def _kind(tool: JsonValue) -> str:
    return string(obj(tool).get("type"))


def _urls(body: Mapping[str, JsonValue]) -> Iterator[str]:
    """Yield the URLs that stand in place of content. URLs in plain text are harmless."""
    pending = [arr(body.get(name)) for name in ("messages", "input", "system")]
    while pending:
        for block in pending.pop():
            # Most blocks are plain text; skip them early to keep long conversations cheap.
            if not isinstance(block, dict) or block.keys() <= _PLAIN_TEXT:
                continue
            source = obj(block.get("source"))
            output = block.get("output")
            pending += [arr(block.get("content")), arr(source.get("content"))]
            pending.append([output] if isinstance(output, dict) else arr(output))
            values = [block[name] for name in _URL_KEYS if name in block]
            if source.get("type") == "url":
                values.append(source.get("url"))
            yield from filter(_ADDRESS.match, map(string, _contents(block)))
            for value in values:
                url = string(obj(value).get("url")) or string(value)
                if url and not url.lstrip().lower().startswith("data:"):
                    yield url


def _contents(block: JsonObject) -> Iterator[JsonValue]:
    """Yield the content of files, sounds and frames of a block."""
    for part in (block, obj(block.get("file"))):
        yield from (part.get("file_data"), part.get("fileData"))
    yield obj(block.get("input_audio")).get("data")
    yield from arr(block.get("video"))
