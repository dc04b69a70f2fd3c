from __future__ import annotations

import os

import pytest

from agentbench.acceptance.checks.pytest.records import read_transcript
from agentbench.acceptance.runner.channel import open_channel


def test_record_that_cannot_be_encoded_takes_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    monkeypatch.setenv("AB_RESULT_FD", str(write))
    send = open_channel("nonce")
    nested: list[object] = []
    for _ in range(5000):
        nested = [nested]
    send("start")
    with pytest.raises(RecursionError):
        send(nested)
    send("end", 1)
    transcript = read_transcript(os.read(read, 1000), "nonce")
    os.close(read)
    assert (transcript.started, transcript.ended, transcript.foreign) == (True, True, 0)
