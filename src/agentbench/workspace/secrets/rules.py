"""Decide which values in a text are secrets.

Five rules, in this order: private keys between their BEGIN and END lines, tokens with a known form, passwords in addresses,
passwords in commands and connection strings, and values that are assigned to a name such as `password` or `api_key`. The last
three must look chosen to be secret. A digest or an identifier has as
much entropy as a key, so entropy alone decides nothing; a wrong match hides evidence from readers of a log.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from urllib.parse import unquote

from agentbench.core.dataclass import dataclass
from agentbench.workspace.secrets.detectors import form_detectors, is_placeholder
from agentbench.workspace.secrets.usage import MARKS as USAGE_MARKS
from agentbench.workspace.secrets.usage import find_usages

MIN_LENGTH = 8
"""Shorter values occur inside ordinary words."""
MAX_LENGTH = 512
MIN_ENTROPY = 2.75
"""Bits per character of an assigned value; `hunter2hunter2` has 2.8."""
MIN_TOKEN_ENTROPY = 3.0
MIN_RANDOM_LETTERS = 16
MAX_WORDS = 0.6
"""Largest share of pronounceable words in random letters: 97% of 18 random letters have less, 3% of names in source code."""
_LONG_LINE = 800
_PIECE, _MARGIN = 200, 600
"""A long line is searched only around marks, in pieces with a margin: some patterns take quadratic time."""

_KEY_NAMES = ("api", "auth", "access", "private", "signing", "encryption", "client", "account", "master")
_MARKS = (
    *(b"passw", b"passphrase", b"pwd", b"secret", b"token", b"credential", b"salt", b"dsn", b"bearer ", b"basic "),
    *(f"{name}{separator}key".encode() for name in _KEY_NAMES for separator in ("", "_", "-")),
    *(
        b"akia",
        b"asia",
        b"abia",
        b"acca",
        b"eyj",
        b"ghp_",
        b"gho_",
        b"ghu_",
        b"ghs_",
        b"ghr_",
        b"github_pat_",
        b"glpat-",
    ),
    *(
        b"gldt-",
        b"xox",
        b"xapp-",
        b"hooks.slack.com",
        b"sk-",
        b"sk_live",
        b"rk_live",
        b"sg.",
        b"aiza",
        b"npm_",
        b"pypi-",
    ),
    *(b"hf_", b"sq0", b"akc", b"dop_v1", b"shpat_", b"softlayer", b"cloudant", b"mailchimp", b"twilio", b"discord"),
    *(b"telegram", b"://"),
    *(b"pass=", b"pass:", b"pass =", b"pass  ", b"pass\t", b"pass'", b'pass"', b"pass]"),
    *USAGE_MARKS,
)
"""Every line with a secret contains one of these, in any case. Searching for them first is much faster than the rules."""

_PEM = re.compile(
    r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----[^-]{40,16000}-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
)
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_-])(?:"
    r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{16,}"
    r"|sk-(?:or-v1-|ant-|proj-)?[A-Za-z0-9_-]{24,}"
    r"|gh[pousr]_[A-Za-z0-9]{36,}"
    r"|github_pat_[A-Za-z0-9_]{40,}"
    r"|gl(?:pat|dt)-[A-Za-z0-9_-]{20,}"
    r"|x(?:ox[abeprs]|app)-[A-Za-z0-9-]{20,}"
    r"|AIza[A-Za-z0-9_-]{35}"
    r"|(?:hf|npm)_[A-Za-z0-9]{30,}"
    r"|(?:dop_v1_|shpat_)[a-f0-9]{32,}"
    r")(?![A-Za-z0-9_-])"
)
_JWT = "eyJ"
_LONG_RUN = re.compile(r"[A-Za-z0-9+/_-]{16,}")
"""Part of every secret that the detectors of the library recognise; it contains a digit."""
_REPLACED_DETECTORS = frozenset({"JwtTokenDetector", "PrivateKeyDetector", "BasicAuthDetector"})
"""Their own rules are above: the library reports a JWT without its signature and of a private key only the first line."""
_URL_PASSWORD = re.compile(
    r"[a-z][a-z0-9+.-]{1,30}://[^\s/:@'\"<>]{0,100}:([^\s/@'\"<>{}$%]{8,200})@[\w\[]", re.IGNORECASE
)
_BEARER = re.compile(r"\b(?:bearer|basic)\s{1,4}([A-Za-z0-9._~+/-]{16,512}=*)", re.IGNORECASE)
_NAMES = (
    rf"(?:passw(?:or)?d|passphrase|pwd|secret|token|credentials?|(?:{'|'.join(_KEY_NAMES)})[_-]?key|salt|dsn"
    r"|(?-i:(?<![A-Za-z])(?:PASS|Pass|pass)|(?<=[a-z])Pass|(?<=db|my)pass|(?<=user|root|smtp|mail)pass)(?![\w.-]))"
    r"[\w.-]{0,40}[\"'\])]{0,3}"
)
_QUOTED = r"(?P<quote>[\"'`])(?P<quoted>(?:(?!(?P=quote))[^\\\r\n]|\\[^\r\n]){8,512})(?P=quote)"
_ASSIGNED = re.compile(
    rf"{_NAMES}\s{{0,8}}(?::=|=>|==|[:=(])\s{{0,8}}[rb]?(?:{_QUOTED}|(?P<bare>[^\s\"'`<>{{}}()\[\],;]{{8,512}}))",
    re.IGNORECASE,
)
_OPEN_END = (b"(", b"=", b":", b"[", b"\\", b">")
_OPEN_LINE = re.compile(rf"{_NAMES}[ \t]{{0,8}}(?::=|=>|[:=(])[ \t]{{0,8}}[(\[\\]?\s{{0,8}}$", re.IGNORECASE)
"""A line whose value stands on the next one."""
_BELOW = re.compile(rf"\s{{1,80}}[rb]?{_QUOTED}", re.IGNORECASE)
_ESCAPE = re.compile(r"\\([\"'`\\/])")
_CONFIGURATION = re.compile(
    r"(?:^|/)(?:\.env[\w.-]*|\.npmrc|\.pypirc|\.netrc|\.pgpass|\.?credentials?|dockerfile|makefile|[^/]*\.(?:"
    r"env|ini|cfg|conf|config|properties|toml|ya?ml|tfvars|sh|bash|service|txt|md|rst))$",
    re.IGNORECASE,
)
"""Files in which a value needs no quotes. Elsewhere an unquoted value is an expression."""

_SAMPLES = re.compile(
    r"example|placeholder|change.?me|dummy|redacted|your.?(?:own|api|pass|token|secret|key)|x{4}|\*{3}|\.{3}|<|\$\{|\{\{|%\(|\(\?|\[[A-Za-z^-]|0-9|a-z|&\w+=|\\[uUxwWdDsS]",
    re.IGNORECASE,
)
_COMMON = re.compile(
    r"test(?:ing)?|pass(?:word|wd|phrase)?|secret|token|admin|user(?:name)?|default|fake|mock|demo|sample|login|root"
    r"|foo|bar|baz|qux|hello|world|value|invalid|wrong|bad|good|new|old|my|the|some|key|api|auth|abcd?e?f?|qwerty|0?1?234?5?6?7?8?9?0?",
    re.IGNORECASE,
)
"""Parts of values that authors of tests and examples write."""
_WORD = re.compile(r"[A-Z]?[a-z]{3,}")
_VOWEL = re.compile(r"[aeiouy]", re.IGNORECASE)
_CONSONANTS = re.compile(r"[bcdfghjklmnpqrstvwxz]{5}", re.IGNORECASE)
_NAME_PART = re.compile(r"[A-Za-z]*[0-9]{0,4}")


@dataclass(frozen=True, slots=True)
class Match:
    """A secret in a text."""

    value: str
    kind: str
    line: int


def find_secrets(path: str, content: bytes) -> Iterator[Match]:
    """Yield the secrets in a file, in the order of their lines. Values that occur twice are reported twice."""
    lowered = content.lower()
    found: set[tuple[int, str, str]] = set()
    if b"private key" in lowered:
        text = content.decode("utf-8", "surrogateescape")
        for key in _PEM.finditer(text):
            if any(len(run) >= 16 and _entropy(run) >= MIN_TOKEN_ENTROPY for run in re.findall(r"[\w+/=]+", key[0])):
                found.add((text.count("\n", 0, key.start()) + 1, "private key", key[0]))
    unquoted = bool(_CONFIGURATION.search(path))
    for line, start, end in _windows(content, lowered):
        window = content[start:end].decode("utf-8", "surrogateescape")
        for kind, value in (*_tokens(window), *_passwords(path, window, unquoted=unquoted)):
            found.add((line, kind, value))
        if content[start:end].rstrip().endswith(_OPEN_END) and _OPEN_LINE.search(window):
            below = content[end : end + _LONG_LINE].decode("utf-8", "surrogateescape")
            if match := _BELOW.match(below):
                for value in _written(match["quoted"]):
                    found.add((line + below.count("\n", 0, match.start("quoted")), "assigned value", value))
    reported: set[tuple[int, str]] = set()
    for line, kind, value in sorted(found):
        if (line, value) not in reported:
            reported.add((line, value))
            yield Match(value, kind, line)


def _windows(content: bytes, lowered: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield line number, start and end of every line with a mark, or of the part of a long line around a mark."""
    marked: set[tuple[int, int]] = set()
    for mark in _MARKS:
        position = lowered.find(mark)
        while position >= 0:
            start = content.rfind(b"\n", 0, position) + 1
            end = content.find(b"\n", position)
            end = len(content) if end < 0 else end
            if end - start > _LONG_LINE:
                piece = position - (position - start) % _PIECE
                start, end = max(start, piece - _PIECE), min(end, piece + _PIECE + _MARGIN)
                marked.add((start, end))
                position = lowered.find(mark, piece + _PIECE)
            else:
                marked.add((start, end))
                position = lowered.find(mark, end)
    number, counted = 1, 0
    for start, end in sorted(marked):
        number += content.count(b"\n", counted, start)
        counted = start
        yield number, start, end


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yield kind and value of tokens with a known form."""
    for match in _TOKEN.finditer(text):
        if _is_token(match[0]):
            yield ("JSON Web Token" if match[0].startswith(_JWT) else "token"), match[0]
    searchable = any(any(map(str.isdigit, run)) for run in _LONG_RUN.findall(text))
    for detector in form_detectors() if searchable else ():
        if type(detector).__name__ not in _REPLACED_DETECTORS:
            for secret in detector.analyze_string(text):
                value = secret.strip(" \t=:\"'")
                if _is_token(value):
                    yield str(detector.secret_type).lower(), value


def _passwords(path: str, text: str, *, unquoted: bool) -> Iterator[tuple[str, str]]:
    """Yield kind and value of values that are secret because of the text around them."""
    for pattern, kind in ((_URL_PASSWORD, "password in an address"), (_BEARER, "authorization")):
        for match in pattern.finditer(text):
            if _is_chosen(match[1]):
                yield kind, match[1]
    for kind, value in find_usages(path, text):
        if "://" not in value and _is_chosen(value):
            yield kind, value
    for match in _ASSIGNED.finditer(text):
        for value in _written(match["quoted"] or (match["bare"] if unquoted else "") or ""):
            yield "assigned value", value


def _written(value: str) -> Iterator[str]:
    """Yield an assigned value that is a secret, as it is written and without escapes."""
    if "://" not in value and _is_chosen(value):
        yield from dict.fromkeys((value, _ESCAPE.sub(r"\1", value)))


def _is_token(value: str) -> bool:
    """Return whether a value with the form of a token is more than an example of one."""
    return (
        MIN_LENGTH <= len(value) <= MAX_LENGTH * 8
        and not _SAMPLES.search(value)
        and any(map(str.isalpha, value))
        and (any(map(str.isdigit, value)) or len(value) == len("AKIA") + 16)
        and _entropy(value) >= MIN_TOKEN_ENTROPY
        and not is_placeholder(value)
        and not ("-" in value and _is_name(value))
    )


def _is_chosen(value: str) -> bool:
    """Return whether an assigned value looks like a real password or key, not like a sample, a name or prose."""
    if not MIN_LENGTH <= len(value) <= MAX_LENGTH or any(map(str.isspace, value)) or _SAMPLES.search(value):
        return False
    if value[0] in "/.~-@#%&" or value.startswith(("http", "os.", "process.", "self.", "env.")):
        return False
    if len(_COMMON.sub("", value)) < 6 or _entropy(value) < MIN_ENTROPY or is_placeholder(value):
        return False
    if _is_random(value):
        return True
    if _is_name(value):
        return False
    decoded = unquote(value)
    strong = any(letter in "!@#$%^&*~+=?" for letter in decoded)
    mixed = any(map(str.isupper, decoded)) and any(map(str.islower, decoded))
    return any(map(str.isalpha, decoded)) and (any(map(str.isdigit, decoded)) or (strong and mixed))


def _is_name(value: str) -> bool:
    """Return whether a value consists of words and numbers, like `aes-256-gcm`."""
    return all(_NAME_PART.fullmatch(part) for part in re.split(r"[-_./:]", value))


def _is_random(value: str) -> bool:
    """Return whether a value consists of letters in both cases, and possibly digits at its end, that form no words."""
    letters = value.rstrip("0123456789")
    if len(letters) < MIN_RANDOM_LETTERS or not (letters.isascii() and letters.isalpha()):
        return False
    if letters in (letters.lower(), letters.upper()):
        return False
    words = (word for word in _WORD.findall(letters) if _VOWEL.search(word) and not _CONSONANTS.search(word))
    return sum(map(len, words)) < MAX_WORDS * len(letters)


def _entropy(value: str) -> float:
    """Return the Shannon entropy of a text in bits per character."""
    return -sum(count / len(value) * math.log2(count / len(value)) for count in Counter(value).values())
