"""What no request may ask of a service: to go somewhere itself. Pure.

A sandbox has no network, and its gateway leads to one model. A service that searches the web, fetches an address, runs code or
asks another model on behalf of its client would be a way round both: whoever can ask for it can look the solution up. What
passes is conversation, and tools that the client runs itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from agentbench.models.client.endpoint import Dialect
from agentbench.models.faults import Rejected
from agentbench.models.json_values import JsonObject, arr, obj, string

_FIELDS = (
    # OpenRouter: other models in the place of the one that is pinned, and plug-ins such as a search.
    *("models", "route", "provider", "preset", "plugins"),
    # Searches that a service makes before it answers, by the names that services gave them.
    *("web_search_options", "search_parameters", "search_options", "enable_search", "extra_body", "google"),
    # Tools and instructions that the service keeps, or reaches over the network.
    *("mcp_servers", "container", "prompt"),
)
_GROUP = "namespace"
_CLIENT_TOOLS: Mapping[Dialect, frozenset[str]] = {
    Dialect.CHAT: frozenset({"function", "custom"}),
    Dialect.RESPONSES: frozenset({"function", "custom", "local_shell", "apply_patch", "computer_use_preview", _GROUP}),
    Dialect.MESSAGES: frozenset({"custom"}),
}
"""Types of tools that the client itself runs."""

_CLIENT_PREFIXES: Mapping[Dialect, tuple[str, ...]] = {
    Dialect.MESSAGES: ("bash_", "text_editor_", "computer_", "memory_"),
}
"""The same where the type ends with a date."""

_PLAIN = frozenset({"type", "text", "cache_control", "annotations"})
"""A block that has nothing else is text."""

_ADDRESSES = ("image_url", "file_url", "video_url", "audio_url")


def forbidden_parts(dialect: Dialect, body: Mapping[str, JsonValue]) -> list[str]:
    """What of a request would not reach the service, by name."""
    fields = [name for name in _FIELDS if body.get(name) is not None]
    return [*fields, *(_kind(tool) or "tool" for tool in _foreign(dialect, body.get("tools")))]


def without_forbidden_parts(dialect: Dialect, body: JsonObject) -> JsonObject:
    """The request without what would lead elsewhere.

    Raises:
        Rejected: it has an address in it that the service would fetch.
    """
    if next(_addresses(body), None) is not None:
        msg = "an address for the service to fetch is a way out of the sandbox: send the content itself"
        raise Rejected(msg, status=400)
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
        # What is not there cannot be chosen.
        if "tools" not in kept or {string(choice.get("type")), string(choice.get("name"))} & (named - {""}):
            kept.pop("tool_choice", None)
    return kept


def _foreign(dialect: Dialect, tools: JsonValue) -> list[JsonValue]:
    """Tools that the service would run, those inside a group of tools too."""
    found: list[JsonValue] = []
    for tool in arr(tools):
        if not _is_own(dialect, tool):
            found.append(tool)
        elif _kind(tool) == _GROUP:
            found += [one for one in arr(obj(tool).get("tools")) if not _is_member(one)]
    return found


def _own(dialect: Dialect, tools: JsonValue) -> list[JsonValue]:
    own: list[JsonValue] = []
    for tool in arr(tools):
        if _kind(tool) == _GROUP and _is_own(dialect, tool):
            own.append({**obj(tool), "tools": list(filter(_is_member, arr(obj(tool).get("tools"))))})
        elif _is_own(dialect, tool):
            own.append(tool)
    return own


def _is_member(tool: JsonValue) -> bool:
    """Of a group: groups in groups are not known to anybody."""
    return _is_own(Dialect.CHAT, tool)


def _is_own(dialect: Dialect, tool: JsonValue) -> bool:
    """One without a type is a plain function in the dialects that know such."""
    kind = obj(tool).get("type")
    if kind is None:
        return True
    return isinstance(kind, str) and (
        kind in _CLIENT_TOOLS[dialect] or kind.startswith(_CLIENT_PREFIXES.get(dialect, ()))
    )


def _kind(tool: JsonValue) -> str:
    return string(obj(tool).get("type"))


def _addresses(body: Mapping[str, JsonValue]) -> Iterator[str]:
    """Addresses in the conversation that stand where content could. In plain text they are only words."""
    waiting = [arr(body.get(name)) for name in ("messages", "input", "system")]
    while waiting:
        for block in waiting.pop():
            # Nearly all are: a long conversation must not cost more than its reading.
            if not isinstance(block, dict) or block.keys() <= _PLAIN:
                continue
            source = obj(block.get("source"))
            waiting += [arr(block.get("content")), arr(block.get("output")), arr(source.get("content"))]
            places = [block[name] for name in _ADDRESSES if name in block]
            if source.get("type") == "url":
                places.append(source.get("url"))
            for place in places:
                address = string(obj(place).get("url")) or string(place)
                if address and not address.lstrip().lower().startswith("data:"):
                    yield address
