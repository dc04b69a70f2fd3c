"""Which values in a file are secrets, and which only look like them."""

from __future__ import annotations

import json
import time

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
    "path, text, value",
    [
        ("config.py", "DB_PASS='k2Vw-9xPq'", "k2Vw-9xPq"),
        ("deploy.sh", "export SMTP_PASS=k2Vw-9xPq", "k2Vw-9xPq"),
        ("mail.js", "auth: { user: 'app', pass: 'k2Vw-9xPq' }", "k2Vw-9xPq"),
        ("mail.js", "const dbPass    = 'k2Vw-9xPq'", "k2Vw-9xPq"),
        ("config.py", "settings['db_pass'] = 'k2Vw-9xPq'", "k2Vw-9xPq"),
        ("config.py", "ADMIN_PWD = 'k2Vw-9xPq'", "k2Vw-9xPq"),
        ("config.py", "ROOT_PASSWD = 'k2Vw-9xPq'", "k2Vw-9xPq"),
        ("config.py", "GPG_PASSPHRASE = 'k2Vw-9xPq'", "k2Vw-9xPq"),
        (".netrc", "machine git.host\n  login app\n  password k2Vw-9xPq", "k2Vw-9xPq"),
        ("home/_netrc", "machine git.host login app password k2Vw-9xPq", "k2Vw-9xPq"),
        ("setup.py", "write('machine git.host login app password k2Vw-9xPq')", "k2Vw-9xPq"),
        ("settings.xml", "<server><password>k2Vw-9xPq</password></server>", "k2Vw-9xPq"),
        ("settings.xml", '<db:adminPassword type="text">k2Vw-9xPq</db:adminPassword>', "k2Vw-9xPq"),
        ("web.config", '<add key="SmtpPassword" value="k2Vw-9xPq" />', "k2Vw-9xPq"),
        ("web.config", 'connectionString="Server=db;User Id=app;Password=k2Vw-9xPq;Timeout=3"', "k2Vw-9xPq"),
        ("Program.cs", 'var db = "Server=db;Uid=app;Pwd=k2Vw-9xPq;";', "k2Vw-9xPq"),
        ("Program.cs", 'var db = "Password=k2Vw-9xPq;Server=db";', "k2Vw-9xPq"),
        ("client.py", "get('/items?page=1&api_key=9f8e7d6c5b4a3928')", "9f8e7d6c5b4a3928"),
        ("README.md", "curl -u admin:k2Vw-9xPq https://host/", "k2Vw-9xPq"),
        ("Jenkinsfile", "sh 'curl --user admin:k2Vw-9xPq host'", "k2Vw-9xPq"),
        ("call.py", 'run(["curl", "-u", "admin:k2Vw-9xPq", "host"])', "k2Vw-9xPq"),
        ("dump.sh", "mysqldump -h db -u root -pk2Vw-9xPq shop", "k2Vw-9xPq"),
        ("dump.py", "os.system('mysql -uroot --password=k2Vw-9xPq shop')", "k2Vw-9xPq"),
        ("dump.py", "os.system('sshpass -p k2Vw-9xPq ssh host')", "k2Vw-9xPq"),
        ("dump.py", "os.system('PGPASSWORD=k2Vw-9xPq psql -h db')", "k2Vw-9xPq"),
        ("package.json", '{"start": "DB_PASS=k2Vw-9xPq node app.js"}', "k2Vw-9xPq"),
        ("config.py", "API_KEY = (\n    'k2Vw-9xPq'\n)", "k2Vw-9xPq"),
        ("config.py", "API_KEY = \\\n    'k2Vw-9xPq'", "k2Vw-9xPq"),
        ("config.json", '{"password":\r\n  "k2Vw-9xPq"}', "k2Vw-9xPq"),
        ("config.py", "SECRET_KEY = 'QwzXkLpRtYvBnKmHsD'", "QwzXkLpRtYvBnKmHsD"),
        ("config.py", "SECRET_KEY = 'QwzXkLpRtYvBnKmHsD42'", "QwzXkLpRtYvBnKmHsD42"),
    ],
)
def test_usual_forms_of_passwords_are_found(path: str, text: str, value: str) -> None:
    found = values(f"# settings\n{text}\n", path)
    assert set(found) == {value}


def test_value_with_escaped_quotes_is_found_as_written_and_decoded() -> None:
    text = json.dumps({"password": 'k2"Vw\\9xPq'})
    assert set(values(text, "config.json")) == {'k2"Vw\\9xPq', 'k2\\"Vw\\\\9xPq'}


def test_value_on_the_next_line_has_its_own_line_number() -> None:
    (match,) = find_secrets("a.py", b"x = 1\nAPI_KEY = (\n\n    'k2Vw-9xPq'\n)\n")
    assert match.line == 4


@pytest.mark.parametrize(
    "unit",
    [
        *('password="', "password        =        ", 'password="\\"', "password = (\n", "pass: ", "DB_PASS='"),
        *(" -u a:", "mysql -u ", "mysql -p", "--password", "PASSWORD=A1b2", ";a=b;password = ", "?token=&token="),
        *("<password ", "<password>", 'password" value="', "login a password ", 'token="aBcDeFgH'),
    ],
)
@pytest.mark.parametrize("separator", ["", "\n"])
def test_search_takes_linear_time(unit: str, separator: str) -> None:
    def seconds(size: int) -> float:
        """Return the least CPU time of three runs: on a busy machine, single runs take much longer."""
        content = ((unit + separator) * (size // len(unit)))[:size].encode()
        times = []
        for _ in range(3):
            started = time.process_time()
            list(find_secrets(".netrc", content))
            times.append(time.process_time() - started)
        return min(times)

    seconds(1000)
    # Eight times the size takes eight times as long, and 64 times if the search is quadratic.
    assert seconds(32_000) < 24 * max(seconds(4_000), 0.005)


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
        "password=next_password2;",
        "let pass = readPass1(); bypass = 'k2Vw-9xPq'",
        "TOKEN=settings.token2, PASSWORD=read2pass1word(3)",
        "docker run -u 1000:1000 --name mysql -p3306:3306 db",
        'mysql -u root -p"$MYSQL_PASSWORD_2" --password=${DB_PASS_2}',
        "curl -u admin:password123 https://host/",
        "curl -u $USER_1:$PASSWORD_1 https://host/",
        "usage: tool --password PASSWORD2 --token-file path/to/file1",
        "login with the password from the 1password-vault2",
        "<password>changeme-please-2</password><secretName>db-password-v2</secretName>",
        "query = '?token=lock%26keys&next=1'",
        'access_token_class = "OAuthAccessTokenProvider"',
        'token_provider = "getUserByIdOrNameFactory"',
        'secret_pattern = "[-!#0-9a-zA-Z]+"',
        "token = (\n    'the-default-token'\n)",
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
