"""What is graded: a tree, how its replicas are built, and the right solution to hold it against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agentbench.acceptance.grading_context import GradingBench, StepResult
from agentbench.acceptance.protected import GradedTree
from agentbench.sandbox.protocol import Sandbox
from agentbench.tree.entry import Entry


@dataclass(frozen=True, slots=True)
class Subject:
    """A tree to be checked: a candidate, or untouched R.

    `build` makes a replica ready and says how that went. `reference` gives the tree with the task's reference; `twins`: whether
    tests also ask for what is false, which takes one. `aside` gives the tree for what has no use for the hidden tests of
    pytest checks: who sees them there would know what is true.
    """

    bench: GradingBench
    tree: GradedTree
    base: Mapping[bytes, Entry]
    build: Callable[[Sandbox], StepResult]
    reference: Callable[[], GradedTree | None] | None = None
    twins: bool = False
    aside: Callable[[], GradedTree] | None = None


class NotBuilt(Exception):
    """The build ended a run before its check could start."""

    def __init__(self, step: StepResult) -> None:
        super().__init__(step.why)
        self.step = step
