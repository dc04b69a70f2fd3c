"""Sandboxes: isolated environments in which untrusted code runs.

Owns the `Sandbox` protocol, its backends, limits, prepared environments and the command channel. A failure of a backend
is a `SandboxError` and can never look like a command's output. Must not know checks, agents or verdicts.
"""
