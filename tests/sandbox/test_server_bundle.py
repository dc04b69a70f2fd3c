"""The command server as one file."""

from __future__ import annotations

from agentbench.sandbox.server_bundle import server_source


def test_joined_server_imports_nothing_of_the_harness() -> None:
    source = server_source()
    compile(source, "server", "exec")
    assert "from agentbench" not in source.split("if False:")[0]
    assert source.count("from __future__") == 1
