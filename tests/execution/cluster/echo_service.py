"""A model service that solves the tiny task and repeats the key that it got. It limits the rate of requests. Prints its address.

python -m tests.execution.cluster.echo_service
"""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

from tests.execution.tasks import PATCH
from tests.models.service import Handler, Server, answer_body

REFUSED = 9
"""Requests of a run that are refused before the first answer, so that one of three workers is refused three times."""
ANSWERED = 4
"""Requests of a run that are answered."""
_asked = itertools.count()


def behave(handler: Handler, body: dict[str, Any]) -> None:
    preflight = body.get("max_tokens") == 1
    if not preflight and next(_asked) % (REFUSED + ANSWERED) < REFUSED:
        handler.whole(b'{"error": {"message": "slow down"}}', status=429, retry_after="0.5")
        return
    text = f"Your key is {handler.headers['authorization']}.\n```diff\n{PATCH}```"
    handler.whole(json.dumps(answer_body(text)).encode())


if __name__ == "__main__":
    server = Server(behave)
    sys.stdout.write(f"{server.url}\n")
    sys.stdout.flush()
    server.serve_forever()
