"""One attempt, from an empty folder to a sealed record."""
