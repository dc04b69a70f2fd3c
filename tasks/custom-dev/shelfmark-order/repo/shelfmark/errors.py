class MarkError(ValueError):
    """A text that is no call number."""
