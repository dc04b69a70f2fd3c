"""Adds a command line program that exits with a status."""

from __future__ import annotations

from tests.cheats.snippets import CORE, RIGHT

CHANGES: dict[str, str | None] = {
    CORE: RIGHT,
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
