"""Requests lose everything that would let the service reach out of the sandbox."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.errors import ModelFault
from agentbench.models.client.endpoint import Dialect
from agentbench.models.faults import Rejected
from agentbench.models.forbidden_requests import forbidden_parts, without_forbidden_parts
from agentbench.models.upstream import ModelRequest, ModelResponse
from tests.models import clients
from tests.models.conftest import OpenMetered
from tests.models.metered_gateway import PROMPT

pytestmark = [pytest.mark.req("T-05", "R-09"), pytest.mark.component]

FUNCTION = {"type": "function", "function": {"name": "run", "parameters": {}}}
FLAT = {"type": "function", "name": "run", "parameters": {}}
PLAIN = {"name": "run", "input_schema": {"type": "object"}}


@pytest.mark.parametrize(
    "dialect, own, foreign",
    [
        (Dialect.CHAT, FUNCTION, {"type": "web_search"}),
        (Dialect.CHAT, FUNCTION, {"type": "openrouter:web_search"}),
        (Dialect.RESPONSES, FLAT, {"type": "web_search"}),
        (Dialect.RESPONSES, FLAT, {"type": "web_search_preview_2025_03_11"}),
        (Dialect.RESPONSES, FLAT, {"type": "mcp", "server_url": "https://elsewhere.example"}),
        (Dialect.RESPONSES, FLAT, {"type": "code_interpreter", "container": {"type": "auto"}}),
        (Dialect.RESPONSES, {"type": "local_shell"}, {"type": "file_search"}),
        (Dialect.RESPONSES, {"type": "custom", "name": "apply_patch"}, {"type": ["web_search"]}),
        (Dialect.MESSAGES, PLAIN, {"type": "web_search_20250305", "name": "web_search"}),
        (Dialect.MESSAGES, {"type": "bash_20250124", "name": "bash"}, {"type": "web_fetch_20250910"}),
        (Dialect.MESSAGES, {"type": "custom", **PLAIN}, {"type": "code_execution_20250825"}),
    ],
)
def test_only_client_tools_reach_the_service(dialect: Dialect, own: Any, foreign: Any) -> None:
    body: dict[str, Any] = {"tools": [foreign, own], "tool_choice": "auto"}
    assert without_forbidden_parts(dialect, body) == {"tools": [own], "tool_choice": "auto"}
    assert len(forbidden_parts(dialect, body)) == 1
    assert without_forbidden_parts(dialect, {"tools": [foreign], "tool_choice": "auto", "stream": True}) == {
        "stream": True
    }


def test_tools_inside_a_group_are_filtered() -> None:
    group = {"type": "namespace", "name": "n", "tools": [FLAT, {"type": "mcp"}]}
    body: dict[str, Any] = {"tools": [group]}
    assert without_forbidden_parts(Dialect.RESPONSES, body) == {"tools": [{**group, "tools": [FLAT]}]}
    assert forbidden_parts(Dialect.RESPONSES, body) == ["mcp"]


def test_choice_of_a_removed_tool_is_removed() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    body: dict[str, Any] = {"tools": [search, PLAIN], "tool_choice": {"type": "tool", "name": "web_search"}}
    assert without_forbidden_parts(Dialect.MESSAGES, body) == {"tools": [PLAIN]}
    kept: dict[str, Any] = {"tools": [search, PLAIN], "tool_choice": {"type": "tool", "name": "run"}}
    assert without_forbidden_parts(Dialect.MESSAGES, kept)["tool_choice"] == {"type": "tool", "name": "run"}


@pytest.mark.parametrize(
    "name",
    [
        "plugins",
        "models",
        "web_search_options",
        "mcp_servers",
        "prompt",
        "extra_body",
        "background",
        "service_tier",
        "speed",
    ],
)
def test_parameters_that_bypass_the_sandbox_are_removed(name: str) -> None:
    body: dict[str, Any] = {"messages": PROMPT, name: [{"id": "web"}]}
    assert without_forbidden_parts(Dialect.CHAT, body) == {"messages": PROMPT}
    assert forbidden_parts(Dialect.CHAT, body) == [name]


ADDRESS = "https://elsewhere.example/pull/1.diff"
INSIDE = "data:image/png;base64,AAAA"


def _blocks(address: str) -> list[dict[str, Any]]:
    source = {"type": "url", "url": address}
    return [
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": address}}]}]},
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": address}]}]},
        {"input": [{"type": "function_call_output", "output": [{"type": "input_image", "image_url": address}]}]},
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": address}]}]},
        {"messages": [{"role": "user", "content": [{"type": "document", "source": source}]}]},
        {"messages": [{"content": [{"type": "tool_result", "content": [{"type": "image", "source": source}]}]}]},
        {"input": [{"type": "computer_call_output", "output": {"type": "computer_screenshot", "image_url": address}}]},
        {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_data": address}}]}]},
        {"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": address}}]}]},
        {"messages": [{"role": "user", "content": [{"type": "video", "video": [INSIDE, address]}]}]},
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_data": address}]}]},
    ]


@pytest.mark.parametrize("body", _blocks(ADDRESS))
def test_url_to_fetch_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(Rejected, match="must not fetch"):
        without_forbidden_parts(Dialect.CHAT, body)


BARE: list[dict[str, Any]] = [
    {"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "UklGRg=="}}]}]},
    {"input": [{"type": "function_call_output", "output": ADDRESS}]},
]


@pytest.mark.parametrize(
    "body", [*_blocks(INSIDE), {"messages": [{"role": "user", "content": f"see {ADDRESS}"}]}, {"input": ADDRESS}, *BARE]
)
def test_inline_content_and_urls_in_text_pass(body: dict[str, Any]) -> None:
    assert without_forbidden_parts(Dialect.CHAT, body) is body


class _Heard:
    dialects = frozenset(Dialect)

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    def send(self, call: ModelRequest) -> ModelResponse:
        self.bodies.append(call.body)
        raise ModelFault("heard")


def test_forbidden_parts_are_logged_but_not_sent(open_metered: OpenMetered) -> None:
    heard = _Heard()
    metered = open_metered(heard).open_gateway()
    with pytest.raises(clients.openai.APIError):
        metered.openai().responses.create(model="m", input="hi", tools=[{"type": "web_search"}], store=False)
    assert heard.bodies == [{"input": "hi", "model": "vendor/model", "store": False}]
    assert metered.requests()[0].parameters["left_out"] == "web_search"
    with pytest.raises(clients.openai.BadRequestError, match="must not fetch"):
        metered.openai().chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": ADDRESS}}]}],
        )
    assert len(heard.bodies) == 1
    assert [response.status for response in metered.responses()][1] == "rejected"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "name", "tools", "content", "source", "image_url", "url", "output", "input"]),
            inner,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["tools", "tool_choice", "messages", "input", "models"]), JSON))
def test_removing_forbidden_parts_is_idempotent(body: dict[str, Any]) -> None:
    for dialect in Dialect:
        try:
            once = without_forbidden_parts(dialect, body)
        except Rejected:
            continue
        assert without_forbidden_parts(dialect, once) == once
        assert forbidden_parts(dialect, once) == []
