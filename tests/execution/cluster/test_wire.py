"""Messages between a node and the driver keep every value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.execution.cluster.wire import (
    amount_json,
    decode,
    encode,
    event_json,
    question_json,
    read_amount,
    read_event,
    read_question,
)
from agentbench.models.ledger import Amount
from agentbench.models.sse import SseEvent
from agentbench.tools.operator import Question

pytestmark = pytest.mark.component


@given(st.builds(Question))
def test_question_keeps_the_call_that_waits(question: Question) -> None:
    assert read_question(decode(encode(question_json(question)))) == question


@given(st.builds(SseEvent, st.text(), st.text()))
def test_event_keeps_its_data_and_name(event: SseEvent) -> None:
    assert read_event(decode(encode(event_json(event)))) == event


@given(st.builds(Amount, st.integers(0), st.integers(0)))
def test_amount_keeps_cost_and_tokens(amount: Amount) -> None:
    assert read_amount(decode(encode(amount_json(amount)))) == amount
