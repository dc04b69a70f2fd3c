import sys

from shelf.cli import run

sys.exit(run())
