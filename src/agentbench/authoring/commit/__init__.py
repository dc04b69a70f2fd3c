"""A task from one commit: read it, split it, verify it, draft the task folder."""
