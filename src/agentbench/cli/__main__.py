"""Run `ab` as `python -m agentbench.cli`."""

from agentbench.cli.main import main

main()
