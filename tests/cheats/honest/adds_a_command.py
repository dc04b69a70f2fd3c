"""Adds a command line that exits with a status, as programs do."""

from __future__ import annotations

CHANGES: dict[str, str | None] = {
    "src/toy/core.py": r"""
def mean(values):
    return sum(values) / len(values)


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2
""",
    "src/toy/__main__.py": r"""
import sys

from toy import median


def main(argv):
    print(median([float(one) for one in argv]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
""",
}
