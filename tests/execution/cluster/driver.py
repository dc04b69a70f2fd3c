"""Runs `ab` with a shorter wait for lost nodes.

python -m tests.execution.cluster.driver SECONDS ab-arguments…
"""

from __future__ import annotations

import sys

from agentbench.cli.main import main
from agentbench.execution.cluster import cluster_nodes

if __name__ == "__main__":
    cluster_nodes.LOST_SEC = cluster_nodes.GONE_SEC = float(sys.argv[1])
    del sys.argv[1]
    main()
