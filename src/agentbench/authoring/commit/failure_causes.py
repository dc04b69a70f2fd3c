"""Guess why tests fail from their messages: no network, changed dependencies, missing modules, the clock. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence

from agentbench.core.python_syntax import parse_or_none

_NETWORK = re.compile(
    r"gaierror|Name or service not known|Temporary failure in name resolution|Network is unreachable|No route to host"
    r"|nodename nor servname|NewConnectionError|MaxRetryError|NameResolutionError|urlopen error|ConnectError"
    r"|ConnectionRefusedError|ConnectionError: |Could not resolve host|ProxyError|ServerNotFoundError",
)
_API_CHANGED = re.compile(
    r"ImportError|ModuleNotFoundError|AttributeError|TypeError|DeprecationWarning|PytestRemovedIn|PytestDeprecation"
    r"|FutureWarning|is deprecated|was removed|has been removed|no longer supported"
    r"|unexpected keyword argument|unrecognized arguments|unknown (?:hook|config)|called directly",
)
_MISSING = re.compile(r"No module named '?([A-Za-z_]\w*)'?(?![\w.])")
_IMPORTORSKIP = re.compile(r"""(?m)^[^#\n]*\bimportorskip\(\s*["']([A-Za-z_]\w*)""")
_CLOCK = re.compile(
    r"\btime\.(?:time|sleep|clock)(?:_ns)?\b|\b(?:perf_counter|monotonic|process_time)(?:_ns)?\b|\btimeit\b"
    r"|\bsleep\(|\bdatetime\.(?:now|utcnow|today)\b|\bdate\.today\b|\bwait_for\(|\btimeout\s*=",
)
_TIMED_OUT = re.compile(r"(?i)timed? ?out|elapsed|seconds|deadline|took too long|TimeoutError")


def needs_network(reasons: Mapping[str, str]) -> tuple[str, ...]:
    """Return the tests that failed because the sandbox has no network."""
    return tuple(test for test, reason in reasons.items() if _NETWORK.search(reason))


def missing_modules(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the modules that could not be imported."""
    return tuple(dict.fromkeys(match[1] for text in texts for match in _MISSING.finditer(text)))


def skip_reasons(
    outcomes: Mapping[str, str], reasons: Mapping[str, str], sources: Mapping[str, bytes]
) -> tuple[str, ...]:
    """Return why tests are skipped. pytest reports no reason for whole files; those are read from the source."""
    skipped = [reasons[test] for test, outcome in outcomes.items() if outcome == "skipped" and reasons.get(test)]
    texts = (source.decode("utf-8", "replace") for source in sources.values())
    skipped += [f"could not import '{match[1]}'" for text in texts for match in _IMPORTORSKIP.finditer(text)]
    return tuple(dict.fromkeys(skipped))


def drifted_dependencies(
    reasons: Mapping[str, str], newer: Sequence[str], undated: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the distributions whose newer versions may explain the failures.

    `newer` were released after the commit. `undated` may have been, so they count only if a failure names them.
    """
    text = "\n".join(reasons.values())
    if not _API_CHANGED.search(text):
        return ()
    named = [pin for pin in (*newer, *undated) if re.search(rf"(?i)\b{re.escape(_module(pin))}\b", text)]
    return tuple(named or newer)


def _module(pinned: str) -> str:
    return pinned.split("==", maxsplit=1)[0].replace("-", "_")


def uses_clock(tests: Iterable[str], sources: Mapping[str, bytes], reasons: Mapping[str, str]) -> tuple[str, ...]:
    """Return the tests that read the clock or wait, judging by their code and their failure message."""
    functions: dict[str, Mapping[str, str]] = {}
    timed = []
    for test in tests:
        file, _, rest = test.partition("::")
        if file not in functions:
            functions[file] = _functions(sources.get(file, b""))
        name = rest.split("[")[0].split("::")[-1]
        if _CLOCK.search(functions[file].get(name, "")) or _TIMED_OUT.search(reasons.get(test, "")):
            timed.append(test)
    return tuple(timed)


def mentions_clock(sources: Iterable[bytes]) -> bool:
    return any(_CLOCK.search(source.decode("utf-8", "replace")) for source in sources)


def _functions(source: bytes) -> dict[str, str]:
    text = source.decode("utf-8", "replace")
    tree = parse_or_none(text) or ast.Module([], [])
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {node.name: ast.get_source_segment(text, node) or "" for node in nodes}


def parse_reasons(diagnostics: str) -> dict[str, str]:
    """Parse the diagnostics of a graded check: one line per test, its message indented below."""
    reasons: dict[str, str] = {}
    test = ""
    for line in diagnostics.splitlines():
        if line.startswith("    ") and test:
            reasons[test] = f"{reasons[test]}\n{line.strip()}".strip()
        elif ": " in line:
            test = line.rpartition(": ")[0]
            reasons[test] = ""
    return reasons
