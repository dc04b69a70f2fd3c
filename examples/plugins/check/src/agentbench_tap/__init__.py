"""A parser of the Test Anything Protocol, which `node --test`, `prove`, `bats` and others write.

parser: tap            # the results are on stdout
report: results.tap    # optional: they are in this file
"""

import re

import agentbench as ab

LINE = re.compile(r"^(?P<indent> *)(?P<failed>not )?ok\b *(?P<number>\d+)?(?: *-)? *(?P<name>.*)$")
DIRECTIVE = re.compile(r"(?<!\\)# *(?P<word>skip|todo)\b.*$", re.IGNORECASE)
SUBTEST = re.compile(r"^(?P<indent> *)# Subtest: (?P<name>.*)$")


def tap(output: ab.RunnerOutput) -> ab.TestResults:
    """Return an outcome per test; the id of a subtest contains the names of its parents.

    Raises:
        ValueError: the output is not text, two tests have the same id, or the plan promises other tests.
    """
    texts = [content.decode() for content in output.reports.values()] or [output.stdout.decode()]
    outcomes: dict[str, str] = {}
    for text in texts:
        _read(text, outcomes)
    return ab.TestResults(outcomes)


def _read(text: str, outcomes: dict[str, str]) -> None:
    parents: dict[int, str] = {}
    top_level = 0
    for line in text.splitlines():
        if subtest := SUBTEST.match(line):
            parents[len(subtest["indent"])] = subtest["name"]
        elif test := LINE.match(line):
            depth = len(test["indent"])
            directive = DIRECTIVE.search(test["name"])
            name = DIRECTIVE.sub("", test["name"]).strip() or test["number"] or "?"
            path = " > ".join([*(parents[at] for at in sorted(parents) if at < depth), name])
            if path in outcomes:
                raise ValueError(f"two tests are called {path!r}")
            outcomes[path] = _outcome(bool(test["failed"]), directive["word"].lower() if directive else "")
            parents.pop(depth, None)
            top_level += depth == 0
    plan = re.search(r"^1\.\.(\d+)", text, re.MULTILINE)
    if plan is None or int(plan[1]) != top_level:
        raise ValueError(f"the plan promises {plan[1] if plan else 'no number of'} tests, {top_level} were reported")


def _outcome(failed: bool, directive: str) -> str:
    if directive:
        return "skipped"
    return "failed" if failed else "passed"
