"""The tools by name, in the order in which they are presented to agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentbench.tools.apply_patch import APPLY_PATCH
from agentbench.tools.definition import Tool
from agentbench.tools.read_files import LIST_FILES, READ_FILE
from agentbench.tools.request_stage import REQUEST_STAGE
from agentbench.tools.run_command import RUN
from agentbench.tools.search import SEARCH

TOOLS: Mapping[str, Tool[Any]] = {
    tool.name: tool for tool in (LIST_FILES, READ_FILE, SEARCH, APPLY_PATCH, RUN, REQUEST_STAGE)
}
"""`request_stage` is offered only in strict mode."""
