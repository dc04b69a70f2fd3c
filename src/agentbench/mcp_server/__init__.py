"""The MCP server (`ab mcp`): suites, tasks, runs and traces for agents and editors, and with `--allow-runs` bounded runs.

It is built on the public Python API. It must not serve anything outside of the given folders, must not show hidden tests or
references, and must not start anything unless runs are allowed. Text that an evaluated agent wrote is data: bounded and escaped.
"""
