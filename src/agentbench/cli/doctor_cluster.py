"""`ab doctor --executor ray`: check every node of a Ray cluster."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from agentbench.core.text import printable

if TYPE_CHECKING:
    from agentbench.execution.cluster.doctor import ProbedNode


def check_cluster(address: str, *, as_json: bool) -> None:
    """Probe all nodes and print what they said. Exits with 3 unless all can be used.

    Raises:
        InputError: there is no cluster at the address.
    """
    from agentbench.execution.cluster.doctor import probe_cluster

    nodes = sorted(probe_cluster(address), key=lambda node: node.address)
    click.echo(_as_json(nodes) if as_json else _as_text(nodes))
    if not nodes or any(node.problem for node in nodes):
        raise click.exceptions.Exit(3)


def headline(nodes: Sequence[ProbedNode]) -> str:
    from agentbench.reports.number_format import plural

    usable = sum(not node.problem for node in nodes)
    counted = plural(len(nodes), "node")
    if not usable:
        return f"NOT READY: none of {counted} can be used"
    return f"READY {counted}" if usable == len(nodes) else f"PARTLY READY: {usable} of {counted} can be used"


def _as_text(nodes: Sequence[ProbedNode]) -> str:
    lines = [headline(nodes)]
    for node in nodes:
        lines.append(f"node {node.address}: {node.problem or 'ok'}")
        if node.report is not None:
            report = node.report
            lines.append(f"  host {report.host}, harness {report.harness_version}")
            lines.append(f"  free in Ray: {node.free_cpus:g} CPUs, {node.free_memory_mb} MB memory")
            lines.append(
                f"  state in {report.state}, {report.disk_free_mb} MB free; memory folder, {report.memory_folder_mb} MB free"
            )
            lines += [f"  sandbox {name}: {why or 'ok'}" for name, why in report.backends.items()]
    return "\n".join(map(printable, lines))


def _as_json(nodes: Sequence[ProbedNode]) -> str:
    value = {
        "ready": bool(nodes) and not any(node.problem for node in nodes),
        "headline": headline(nodes),
        "nodes": [asdict(node) for node in nodes],
    }
    return json.dumps(value, indent=2)
