"""The tools an agent works with, and the session through which it works.

Owns the five tools (one definition each: arguments, schema, work), the `Session` that is all an agent sees, and what stands
behind it: stages, scope, caps, output policy, and the events of every call and of every change to the workspace.
A bad call is a `ToolResult` with an error in it, never an exception; only the sandbox's own trouble is raised.
Runs nothing on the host and decides no verdict.
"""
