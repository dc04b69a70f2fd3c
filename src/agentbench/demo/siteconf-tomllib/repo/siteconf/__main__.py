import sys

from siteconf.cli import run

sys.exit(run())
