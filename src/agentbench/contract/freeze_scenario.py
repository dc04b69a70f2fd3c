"""Freeze the scorers and the judge of a suite into a task that is being created.

Later edits of `scenario.yaml` then do not change how the task is graded.
"""

from __future__ import annotations

from pathlib import Path

import yaml

from agentbench.contract.load import load_scenario

_COMMENT = "The suite's scorers and judge when this task was created. Remove this key to follow scenario.yaml."


def freeze_scenario(text: str, suite_folder: Path) -> str:
    """Return the text of a `task.yaml` with the current scenario of its suite, unless it has one already.

    Raises:
        ContractError: the scenario of the suite is not valid.
    """
    if "scenario" in (yaml.safe_load(text) or {}):
        return text
    frozen = load_scenario(suite_folder).frozen().model_dump(mode="json", by_alias=True, exclude_none=True)
    document = yaml.safe_dump({"scenario": frozen}, sort_keys=False, allow_unicode=True, width=118)
    return f"{text.rstrip()}\n\n# {_COMMENT}\n{document}"
