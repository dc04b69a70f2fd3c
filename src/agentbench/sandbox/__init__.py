"""Sandboxes: where code that nobody vetted runs.

Owns the `Sandbox` protocol, its backends, limits, prepared environments and the command channel. A backend's own trouble
is a `SandboxError` and can never look like a command's output. Knows nothing of tasks' oracles, agents or verdicts.
"""
