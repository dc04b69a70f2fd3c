"""Passwords that stand next to their name without an assignment of the language around them.

Command lines, environment variables before a command, connection strings, query strings, XML elements, `.netrc` entries and
settings with a name and a value. Every repetition is bounded, so a search takes linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MARKS = (
    *(b" -u", b"\t-u", b"'-u", b'"-u', b"--user", b"--proxy-user", b"mysql", b"mariadb", b"sshpass", b"--pass"),
    *(b"pass=", b"pass:", b"pass>"),
)
"""Each usage contains one of these or a mark of an assigned value, in lower case."""

_NAME = r"(?:passw(?:or)?d|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key)"
_VALUE = r"(?P<value>[^\s\"'`<>(){}\[\],;&|\\]{8,200})"
_END = r"(?=[\s\"'`,;&|<\\]|$)"
"""An expression goes on with a bracket."""

_USAGES: tuple[tuple[str, str, re.Pattern[str]], ...] = (
    (
        "password of a command",
        "-",
        re.compile(
            r"(?<![\w-])(?:-u|--user|--proxy-user)(?:[\"'],)?[\s=]{0,4}[\"']?[^\s:\"'/=]{1,64}:(?P<value>[^\s\"'`<>(){}]{8,200})"
            rf"|(?<![\w-])--[a-z-]{{0,24}}(?:{_NAME}|pass)(?:[\"'],\s?|[\s=]{{1,4}})[\"']?(?P<option>[^\s\"'`<>(){{}}]{{8,200}})"
            r"|(?<![\w-])(?:mysql|mariadb)[a-z-]{0,12}\s[^\r\n|;&]{0,160}?(?<=[\s\"'])-p[\"']?(?P<attached>[^\s\"'`<>(){}]{8,200})"
            r"|(?<![\w-])sshpass\s{1,4}-p\s{0,4}[\"']?(?P<separate>[^\s\"'`<>(){}]{8,200})"
        ),
    ),
    (
        "environment variable",
        "=",
        re.compile(
            rf"(?:PASSWORD|PASSWD|PASSPHRASE|(?<![A-Z])PASS|PWD|SECRET|TOKEN|API_KEY|ACCESS_KEY)=\\?[\"']?{_VALUE}{_END}"
        ),
    ),
    (
        "connection string",
        "=",
        re.compile(rf"[;\"'>&?]\s?(?:[\w-]{{0,24}}[_ -])?{_NAME}\s?=\s?{_VALUE}(?=[;\"'&<])", re.IGNORECASE),
    ),
    (
        "XML element",
        "</",
        re.compile(
            rf"<[\w:.-]{{0,40}}(?:{_NAME}|(?<![a-z])pass)[\w.-]{{0,24}}(?:\s[^<>]{{0,120}})?>\s{{0,4}}(?:<!\[CDATA\[)?"
            r"(?P<value>[^\s<>\]]{8,200})\s{0,4}(?:\]\]>)?\s{0,4}</",
            re.IGNORECASE,
        ),
    ),
    (
        "named setting",
        "alue",
        re.compile(
            rf"{_NAME}[\w.-]{{0,24}}[\"']\s{{1,4}}value\s?=\s?[\"'](?P<value>[^\s\"'<>]{{8,200}})[\"']", re.IGNORECASE
        ),
    ),
    ("login", "login", re.compile(r"\blogin\s{1,8}\S{1,100}\s{1,8}password\s{1,8}[\"']?(?P<value>[^\s\"'`]{8,200})")),
)
"""Kind, a text that every match contains, and the pattern."""
_NETRC = re.compile(r"(?:^|/)(?:[._]?netrc|\.authinfo)$", re.IGNORECASE)
_NETRC_PASSWORD = re.compile(r"(?:^|\s)(?:password|passwd)\s{1,8}[\"']?([^\s\"']{8,200})")


def find_usages(path: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield kind and value of what may be a password in a line of a file. Samples and names are not excluded."""
    for kind, mark, pattern in _USAGES:
        for match in pattern.finditer(text) if mark in text else ():
            yield kind, next(value for value in match.groupdict().values() if value is not None)
    if _NETRC.search(path):
        for match in _NETRC_PASSWORD.finditer(text):
            yield "login", match[1]
