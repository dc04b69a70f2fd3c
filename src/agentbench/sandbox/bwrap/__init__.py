"""The bubblewrap backend: sandboxes without a daemon."""
