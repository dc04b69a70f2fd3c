"""Create a task from one commit."""
