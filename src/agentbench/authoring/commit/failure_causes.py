"""What failing tests died of, read from what they said: the network, dependencies that moved on, the clock. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence

from agentbench.core.python_syntax import parse as parse_python

_NETWORK = re.compile(
    r"gaierror|Name or service not known|Temporary failure in name resolution|Network is unreachable|No route to host"
    r"|nodename nor servname|NewConnectionError|MaxRetryError|NameResolutionError|urlopen error|ConnectError"
    r"|ConnectionRefusedError|ConnectionError: |Could not resolve host|ProxyError|ServerNotFoundError",
)
_MOVED = re.compile(
    r"ImportError|ModuleNotFoundError|AttributeError|TypeError|DeprecationWarning|PytestRemovedIn|PytestDeprecation"
    r"|FutureWarning|is deprecated|was removed|has been removed|no longer supported"
    r"|unexpected keyword argument|unrecognized arguments|unknown (?:hook|config)|called directly",
)
_MISSING = re.compile(r"No module named '?([A-Za-z_]\w*)'?(?![\w.])")
_IMPORTED_OR_SKIPPED = re.compile(r"""(?m)^[^#\n]*\bimportorskip\(\s*["']([A-Za-z_]\w*)""")
_CLOCK = re.compile(
    r"\btime\.(?:time|sleep|clock)(?:_ns)?\b|\b(?:perf_counter|monotonic|process_time)(?:_ns)?\b|\btimeit\b"
    r"|\bsleep\(|\bdatetime\.(?:now|utcnow|today)\b|\bdate\.today\b|\bwait_for\(|\btimeout\s*=",
)
_WAITED = re.compile(r"(?i)timed? ?out|elapsed|seconds|deadline|took too long|TimeoutError")


def needs_network(whys: Mapping[str, str]) -> tuple[str, ...]:
    """Tests that failed because there is no network where tests run."""
    return tuple(test for test, why in whys.items() if _NETWORK.search(why))


def missing_modules(said: Iterable[str]) -> tuple[str, ...]:
    """Modules that could not be imported because nothing here has them."""
    return tuple(dict.fromkeys(match[1] for text in said for match in _MISSING.finditer(text)))


def skip_reasons(outcomes: Mapping[str, str], whys: Mapping[str, str], sources: Mapping[str, bytes]) -> tuple[str, ...]:
    """Why tests are skipped. What a whole file is skipped for nobody reports: it stands in the file."""
    told = [whys[test] for test, outcome in outcomes.items() if outcome == "skipped" and whys.get(test)]
    texts = (source.decode("utf-8", "replace") for source in sources.values())
    told += [f"could not import '{match[1]}'" for text in texts for match in _IMPORTED_OR_SKIPPED.finditer(text)]
    return tuple(dict.fromkeys(told))


def moved_on(whys: Mapping[str, str], newer: Sequence[str], undated: Sequence[str] = ()) -> tuple[str, ...]:
    """Distributions that the failures speak of, or whose interface they miss.

    `newer`: what came out after the commit. `undated`: what may have; it has to be named to count.
    """
    text = "\n".join(whys.values())
    if not _MOVED.search(text):
        return ()
    named = [one for one in (*newer, *undated) if re.search(rf"(?i)\b{re.escape(_module(one))}\b", text)]
    return tuple(named or newer)


def _module(pinned: str) -> str:
    return pinned.split("==", maxsplit=1)[0].replace("-", "_")


def uses_clock(tests: Iterable[str], sources: Mapping[str, bytes], whys: Mapping[str, str]) -> tuple[str, ...]:
    """Of some tests, those that look at the clock or wait, by their code or by what they said."""
    cached: dict[str, Mapping[str, str]] = {}
    found = []
    for test in tests:
        file, _, rest = test.partition("::")
        if file not in cached:
            cached[file] = _functions(sources.get(file, b""))
        name = rest.split("[")[0].split("::")[-1]
        if _CLOCK.search(cached[file].get(name, "")) or _WAITED.search(whys.get(test, "")):
            found.append(test)
    return tuple(found)


def mentions_clock(sources: Iterable[bytes]) -> bool:
    return any(_CLOCK.search(source.decode("utf-8", "replace")) for source in sources)


def _functions(source: bytes) -> dict[str, str]:
    text = source.decode("utf-8", "replace")
    try:
        tree = parse_python(text)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {node.name: ast.get_source_segment(text, node) or "" for node in nodes}


def whys_of(diagnostics: str) -> dict[str, str]:
    """The reasons by test of a graded check: a line for the test, its words indented below."""
    found: dict[str, str] = {}
    last = ""
    for line in diagnostics.splitlines():
        if line.startswith("    ") and last:
            found[last] = f"{found[last]}\n{line.strip()}".strip()
        elif ": " in line:
            last = line.rpartition(": ")[0]
            found[last] = ""
    return found
