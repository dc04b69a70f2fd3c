"""The public Python API. Everything public is a name of `agentbench` itself; the modules here are private.

`ab` uses the same functions. They raise `AgentBenchError` and its kinds. They must not
print, and must not read a command line.
"""
