"""What can be asked of the gateway, and by which path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentbench.models.client.endpoint import Dialect
from agentbench.models.dialects.usage import count_input
from agentbench.models.gateway.http import BadRequest, Request
from agentbench.models.json_values import JsonObject, read_object
from agentbench.models.upstream import ModelRequest

_POSTS = {
    "/chat/completions": Dialect.CHAT,
    "/responses": Dialect.RESPONSES,
    "/messages": Dialect.MESSAGES,
}
_PASSED_ON = ("anthropic-version", "anthropic-beta", "openai-beta")
"""Headers of a client that a service may see: they choose features, and say nothing of who asks."""

Kind = Literal["call", "count", "models", "model"]


@dataclass(frozen=True, slots=True)
class Route:
    kind: Kind
    dialect: Dialect


def dialect_of(request: Request) -> Dialect:
    """In which dialect to speak to a client of which nothing else is known."""
    return Dialect.MESSAGES if "anthropic-version" in request.headers else Dialect.CHAT


def route(request: Request) -> Route:
    """
    Raises:
        BadRequest: there is nothing at this path, or not for this method.
    """
    path = request.path.rstrip("/").removeprefix("/v1")
    dialect = dialect_of(request)
    found: Route | None = None
    method = "POST"
    if path in _POSTS:
        found = Route("call", _POSTS[path])
    elif path == "/messages/count_tokens":
        found = Route("count", Dialect.MESSAGES)
    elif path == "/models" or path.startswith("/models/"):
        found, method = Route("models" if path == "/models" else "model", dialect), "GET"
    if found is None:
        raise BadRequest(404, f"nothing at {request.path[:200]}: this gateway leads to a model and nowhere else")
    if request.method != method:
        raise BadRequest(405, f"expected {method}")
    return found


def call_of(request: Request, dialect: Dialect) -> ModelRequest:
    """
    Raises:
        BadRequest: the body is no JSON object, or lacks what every request has.
    """
    body = body_of(request)
    needed = "input" if dialect is Dialect.RESPONSES else "messages"
    if not isinstance(body.get(needed), list if needed == "messages" else list | str):
        raise BadRequest(400, f"{needed}: expected {'a list' if needed == 'messages' else 'text or a list'}")
    headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
    return ModelRequest(dialect, body, headers, raw=request.body)


def body_of(request: Request) -> JsonObject:
    if request.headers.get("content-encoding", "identity") != "identity":
        raise BadRequest(415, "compressed requests are not taken")
    try:
        return read_object(request.body)
    except ValueError as error:
        raise BadRequest(400, f"the body is no JSON object: {error}") from None


def token_count(request: Request) -> JsonObject:
    return {"input_tokens": count_input(body_of(request))}


def model_list(name: str) -> JsonObject:
    """The one model there is, in a form that clients of both kinds read."""
    return {"object": "list", "data": [model_entry(name)], "has_more": False, "first_id": name, "last_id": name}


def model_entry(name: str) -> JsonObject:
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "agentbench",
        "type": "model",
        "display_name": name,
        "created_at": "1970-01-01T00:00:00Z",
    }
