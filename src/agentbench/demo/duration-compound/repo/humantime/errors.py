"""Errors of the package."""


class DurationError(ValueError):
    """A text that is not a duration. `text` is what was given."""

    def __init__(self, text, why):
        super().__init__(f"not a duration: {text!r} ({why})")
        self.text = text
        self.why = why
