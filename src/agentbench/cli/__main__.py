"""`python -m agentbench.cli` is `ab`."""

from agentbench.cli.main import main

main()
