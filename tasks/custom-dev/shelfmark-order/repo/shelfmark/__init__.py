from shelfmark.mark import Mark, parse

__all__ = ["Mark", "parse"]
