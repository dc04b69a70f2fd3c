"""The tools an agent works with, and the session through which it uses them.

Owns the tools (each with its arguments, schema and implementation), the `Session` that is all an agent sees, and the stages,
scopes, caps, output limits and events behind it. An invalid call is a `ToolResult` with an error, never an exception; only a
failure of the sandbox itself is raised. Must not run anything on the host or decide a verdict.
"""
