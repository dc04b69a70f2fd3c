"""A model service that solves the tiny task and repeats the key that it got. Prints its address.

python -m tests.execution.cluster.echo_service
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.execution.tasks import PATCH
from tests.models.service import Handler, Server, answer_body


def behave(handler: Handler, _body: dict[str, Any]) -> None:
    text = f"Your key is {handler.headers['authorization']}.\n```diff\n{PATCH}```"
    handler.whole(json.dumps(answer_body(text)).encode())


if __name__ == "__main__":
    server = Server(behave)
    sys.stdout.write(f"{server.url}\n")
    sys.stdout.flush()
    server.serve_forever()
