"""The paths of the gateway, and what each of them serves."""

from __future__ import annotations

from typing import Literal

from agentbench.core.dataclass import dataclass
from agentbench.core.http1 import BadRequest
from agentbench.models.client.endpoint import PATHS, Dialect
from agentbench.models.dialects.usage import count_input
from agentbench.models.gateway.http import Request
from agentbench.models.json_values import JsonObject, read_object
from agentbench.models.upstream import ModelRequest

_POSTS = {path: dialect for dialect, path in PATHS.items()}
_FORWARDED = ("anthropic-version", "anthropic-beta", "openai-beta")
"""Client headers passed to the service. They select features and do not identify the client."""

Kind = Literal["completion", "count", "models", "model"]


@dataclass(frozen=True, slots=True)
class Route:
    kind: Kind
    dialect: Dialect


def dialect_of(request: Request) -> Dialect:
    """Return the dialect for responses to a client whose path does not say."""
    return Dialect.MESSAGES if "anthropic-version" in request.headers else Dialect.CHAT


def route(request: Request) -> Route:
    """
    Raises:
        BadRequest: unknown path, or wrong method.
    """
    path = request.path.rstrip("/").removeprefix("/v1")
    method = "POST"
    if path in _POSTS:
        matched = Route("completion", _POSTS[path])
    elif path == "/messages/count_tokens":
        matched = Route("count", Dialect.MESSAGES)
    elif path == "/models" or path.startswith("/models/"):
        matched, method = Route("models" if path == "/models" else "model", dialect_of(request)), "GET"
    else:
        raise BadRequest(404, f"unknown path {request.path[:200]}: this gateway only serves a model")
    if request.head.method != method:
        raise BadRequest(405, f"expected {method}")
    return matched


def model_request(request: Request, dialect: Dialect) -> ModelRequest:
    """
    Raises:
        BadRequest: the body is not a JSON object, or has no messages.
    """
    body = _json_body(request)
    required = "input" if dialect is Dialect.RESPONSES else "messages"
    if not isinstance(body.get(required), list if required == "messages" else list | str):
        raise BadRequest(400, f"{required}: expected {'a list' if required == 'messages' else 'text or a list'}")
    headers = {name: request.headers[name] for name in _FORWARDED if name in request.headers}
    return ModelRequest(dialect, body, headers, raw=request.body)


def _json_body(request: Request) -> JsonObject:
    if request.headers.get("content-encoding", "identity") != "identity":
        raise BadRequest(415, "compressed requests are not supported")
    try:
        return read_object(request.body)
    except ValueError as error:
        raise BadRequest(400, f"the body is not a JSON object: {error}") from None


def token_count(request: Request) -> JsonObject:
    return {"input_tokens": count_input(_json_body(request))}


def model_list(name: str) -> JsonObject:
    """Return a list of the only model, in a form that both OpenAI and Anthropic clients read."""
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
