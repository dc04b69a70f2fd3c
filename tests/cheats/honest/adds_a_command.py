"""Adds a command line that exits with a status, as programs do."""

from __future__ import annotations

from tests.cheats.planted import CORE, RIGHT

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
