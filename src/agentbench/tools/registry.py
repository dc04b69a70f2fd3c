"""The tools by name, in the order in which they are presented to agents."""

from __future__ import annotations

from collections.abc import Mapping

from agentbench.tools.apply_patch import APPLY_PATCH
from agentbench.tools.definition import Tool
from agentbench.tools.read_files import LIST_FILES, READ_FILE
from agentbench.tools.run_command import RUN
from agentbench.tools.search import SEARCH

TOOLS: Mapping[str, Tool] = {
    "list_files": LIST_FILES,
    "read_file": READ_FILE,
    "search": SEARCH,
    "apply_patch": APPLY_PATCH,
    "run": RUN,
}
