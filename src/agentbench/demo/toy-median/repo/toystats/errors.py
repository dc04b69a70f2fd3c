"""Errors of the package."""


class EmptyData(ValueError):
    """A statistic was asked of no values at all."""

    def __init__(self, name):
        super().__init__(f"{name} of no values")
        self.name = name
