"""The command `siteconf`."""

import json
import os
import sys

from siteconf.errors import ConfigError
from siteconf.load import load
from siteconf.merge import lookup

USAGE = "usage: siteconf show FILE… | siteconf get FILE… KEY"


def run(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    if len(arguments) < 2 or arguments[0] not in ("show", "get"):
        print(USAGE, file=sys.stderr)
        return 2
    command, *rest = arguments
    try:
        if command == "show":
            print(json.dumps(load(rest, os.environ), indent=2, sort_keys=True))
        else:
            print(json.dumps(lookup(load(rest[:-1], os.environ), rest[-1])))
    except ConfigError as error:
        print(f"siteconf: {error}", file=sys.stderr)
        return 1
    return 0
