"""A scorer: the patch adds no line with TODO, FIXME or another word of the option `words`."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import agentbench as ab

WORDS = ("TODO", "FIXME", "XXX")


def no_todos(workspace: ab.Workspace, options: Mapping[str, Any]) -> ab.ScorerVerdict:
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, options.get('words', WORDS)))})\b".encode())
    found = [
        f"{text.after_path}: {line.decode('utf-8', 'replace').strip()[:100]}"
        for text in workspace.texts
        for line in (Counter(text.after) - Counter(text.before)).elements()
        if pattern.search(line)
    ]
    if not found:
        return ab.ScorerVerdict("PASS", "no unfinished work was left")
    return ab.ScorerVerdict("FAIL", "\n".join([f"{len(found)} lines left unfinished", *found[:20]]))
