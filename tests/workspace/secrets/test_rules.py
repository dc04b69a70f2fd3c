"""Which values in a file are secrets, and which only look like them."""

from __future__ import annotations

import pytest

from agentbench.workspace.secrets.rules import find_secrets

pytestmark = [pytest.mark.req("E-10a"), pytest.mark.component]

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI4ODEyNzM2NCJ9.Qm9k3LwX7vTz2NcRy5HsJd8FgPuK1aWe"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIBPAIBAAJBANPQbQ92nlbeg1Q5JNHSO1Yey46nZ7GJ\nltLWw1ccSvp7pnvm\n-----END RSA PRIVATE KEY-----"


def values(text: str, path: str = "config.py") -> list[str]:
    return [match.value for match in find_secrets(path, text.encode())]


@pytest.mark.parametrize(
    "path, line, value",
    [
        ("config.py", 'PASSWORD = "hT7#qLm2vXz9"', "hT7#qLm2vXz9"),
        ("config.py", "db = connect(password='k2Vw-9xPq')", "k2Vw-9xPq"),
        ("config.js", 'const apiKey = "9f8e7d6c5b4a39281706";', "9f8e7d6c5b4a39281706"),
        ("config.json", '{"client_secret": "Zx8q1-Kq92_m4T"}', "Zx8q1-Kq92_m4T"),
        ("app.ini", "api_token = 4f9a1c77be20d3", "4f9a1c77be20d3"),
        (".env", "SESSION_SECRET=hunter2hunter2", "hunter2hunter2"),
        ("values.yaml", "  dbPassword: Vk3mZ8qLw2", "Vk3mZ8qLw2"),
        ("compose.yaml", "url: postgres://app:Vk3mZ8qLw2@db/prod", "Vk3mZ8qLw2"),
        ("README.md", "curl -H 'Authorization: Bearer 7fK2mQ9xZ4tB8vN1cW6'", "7fK2mQ9xZ4tB8vN1cW6"),
        ("a.py", f"x = '{JWT}'", JWT),
        ("a.py", "k = 'AKIAQ7LR2MXW4ZP9TBNC'", "AKIAQ7LR2MXW4ZP9TBNC"),
        ("a.py", "ghp_R8wQ2mZx7LkT4vB9nC3yH6sJ1dF5gP0uK8aW", "ghp_R8wQ2mZx7LkT4vB9nC3yH6sJ1dF5gP0uK8aW"),
        (".npmrc", "//registry.npmjs.org/:_authToken=npm_R8wQ2mZx7LkT4vB9nC3yH6sJ1dF5gP0uK8aW", None),
        ("key.pem", PEM, PEM),
        ("account.json", '{"private_key": "' + PEM.replace("\n", "\\n") + '"}', PEM.replace("\n", "\\n")),
    ],
)
def test_secrets_are_found(path: str, line: str, value: str | None) -> None:
    found = values(f"import os\n{line}\n", path)
    assert (value or "npm_R8wQ2mZx7LkT4vB9nC3yH6sJ1dF5gP0uK8aW") in found
    assert len(set(found)) == 1


@pytest.mark.parametrize(
    "line",
    [
        'password = "test"',
        'password = "password123"',
        'PASSWORD = "changeme-please-2"',
        'token = "<your token here>"',
        'api_key = "YOUR_API_KEY_12345"',
        'api_key = os.environ["API_KEY_2"]',
        'secret = "${SECRET_2_VALUE}"',
        'aws_access_key_id = "AKIAIOSFODNN7EXAMPLE"',
        'aws_secret_access_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"',
        'token = "ghp_' + "a" * 36 + '"',
        'token_type = "oauth2_access_token"',
        'secret_name = "projects/demo/secrets/db-password-v2"',
        'encryption_key_algorithm = "aes-256-gcm"',
        'token = get_token(user, "abc1234x")',
        'password_url = "https://host/reset/8f7a6b5c"',
        'secret_pattern = r"[A-Z0-9_]*(?:KEY|TOKEN)"',
        'token = "the quick brown fox 42"',
        'sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"',
        'commit = "c3499c2729730a7f807efb8676a92dcb6f8a3f8f"',
        "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com",
        "-----BEGIN CERTIFICATE-----\nMIIBPAIBAAJBANPQbQ92nlbeg1Q5JNHSO1Yey46nZ7GJ\n-----END CERTIFICATE-----",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
    ],
)
def test_samples_names_and_digests_are_no_secrets(line: str) -> None:
    assert values(f"import os\n{line}\n") == []


def test_unquoted_values_count_only_in_configuration_files() -> None:
    assert values("token = krs2vbq9ltx", "app.ini") == ["krs2vbq9ltx"]
    assert values("token = krs2vbq9ltx", "app.py") == []


def test_lines_are_counted_and_repeated_values_reported() -> None:
    text = 'x = 1\nPASSWORD = "hT7#qLm2vXz9"\n\npassword = "hT7#qLm2vXz9"\n'
    assert [match.line for match in find_secrets("a.py", text.encode())] == [2, 4]


def test_secret_in_a_very_long_line_is_found() -> None:
    text = "a" * 300_000 + ';apiKey:"9f8e7d6c5b4a39281706";' + "b" * 300_000
    assert values(text, "app.min.js") == ["9f8e7d6c5b4a39281706"]


def test_bytes_that_are_not_utf8_are_kept() -> None:
    (match,) = find_secrets("a.py", b'PASSWORD = "hT7#q\xffm2vXz9"\n')
    assert match.value.encode("utf-8", "surrogateescape") == b"hT7#q\xffm2vXz9"
