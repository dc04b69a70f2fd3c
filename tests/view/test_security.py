"""Requests that the server must refuse."""

from __future__ import annotations

import http.client
from pathlib import Path

import httpx
import pytest

from agentbench.view.security import MAX_BODY, Bucket, Guard, kept_secret
from tests.view.conftest import Served, serve, write_runs, write_suite

pytestmark = pytest.mark.component


def stranger(served: Served) -> httpx.Client:
    return httpx.Client(base_url=served.base, timeout=60)


def test_nothing_is_served_without_the_token(served: Served) -> None:
    with stranger(served) as client:
        for path in ("/", "/?token=wrong", "/?token=", "/api/runs", "/api/columns", "/no/such/page"):
            assert client.get(path).status_code == 401, path


def test_token_becomes_a_cookie_that_scripts_cannot_read(served: Served) -> None:
    with stranger(served) as client:
        answer = client.get("/", params={"token": served.token})
        assert answer.status_code == 303
        assert answer.headers["location"] == "/"
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert served.token not in cookie
        assert client.get("/api/runs").status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example"]
)
def test_foreign_host_is_refused(served: Served, host: str) -> None:
    assert served.client.get("/api/runs", headers={"host": host}).status_code == 421


def test_other_pages_cannot_send_requests(served: Served) -> None:
    for headers in ({"origin": "http://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}):
        assert served.client.get("/api/runs", headers=headers).status_code == 403, headers
    body = {"sql": "select 1"}
    assert served.client.post("/api/query", json=body).status_code == 403
    assert served.post("/api/query", body).status_code == 200
    assert served.client.post("/api/query", content=b"{}", headers={"origin": served.base}).status_code == 415


def test_actions_need_a_second_token(served: Served) -> None:
    answer = {"run": served.key("a"), "question": "x", "decision": "stop", "reason": "no"}
    assert served.post("/api/actions/decide", answer).status_code == 403
    assert served.post("/api/actions/decide", answer, **{"x-ab-action": "wrong"}).status_code == 403
    refused = served.act("decide", answer)
    assert refused.status_code == 400
    assert refused.json()["error"] == "the question is no longer pending"


def test_read_only_view_has_no_actions(tmp_path: Path) -> None:
    runs = write_runs(tmp_path / "runs")
    for served in serve(runs, tasks_dir=tmp_path, read_only=True):
        assert served.action_token == "None"
        body = {"run": served.key("a"), "attempt": "x", "truth": "correct", "minutes": 1}
        refused = served.act("adjudicate", body)
        assert refused.status_code == 403
        assert refused.json()["error"] == "this view is read-only"
        assert not list(runs.glob("*/adjudications.jsonl"))


def test_no_address_leads_outside_of_the_served_folders(served: Served) -> None:
    (served.folder.parent / "secret").mkdir(exist_ok=True)
    (served.folder.parent / "secret" / "run.json").write_text("{}")
    link = served.folder / "link"
    if not link.is_symlink():
        link.symlink_to(served.folder.parent / "secret")
    key = served.key("a")
    names = ["../../secret", "..%2F..%2Fsecret", "%2e%2e/%2e%2e", "....//", "/etc/passwd", "%00", "a%00b"]
    paths = [f"/api/run/{name}/page" for name in names]
    paths += [f"/api/run/{key}/attempt/{name}" for name in names]
    paths += [f"/api/suite/{name}/scenario" for name in names]
    port = served.client.base_url.port
    cookie = "; ".join(f"{name}={value}" for name, value in served.client.cookies.items())
    for path in paths:
        # http.client does not normalise the path.
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", path, headers={"cookie": cookie})
        answer = connection.getresponse()
        assert answer.status in {400, 404}, path
        assert b"root:" not in answer.read()
        connection.close()
    assert "secret" not in {run["name"] for run in served.get("/api/runs")["runs"]}
    assert "link" not in {run["name"] for run in served.get("/api/runs")["runs"]}


def test_size_of_requests_is_bounded(served: Served) -> None:
    assert served.post("/api/query", {"sql": "x" * MAX_BODY}).status_code == 413
    headers = {"origin": served.base, "content-type": "application/json"}
    surrogate = rb'{"sql": "select \ud800"}'
    assert served.client.post("/api/query", content=surrogate, headers=headers).status_code == 400
    assert served.client.get("/api/runs", params={"x": "y" * 20_000}).status_code == 414
    too_deep = b"[" * 100_000
    headers = {"origin": served.base, "content-type": "application/json"}
    assert served.client.post("/api/query", content=too_deep, headers=headers).status_code == 400

    def endless() -> object:
        yield b"{"

    assert served.client.post("/api/query", content=endless(), headers=headers).status_code == 413  # type: ignore[arg-type]


def test_every_answer_has_a_strict_policy(served: Served) -> None:
    page = served.client.get("/")
    policy = page.headers["content-security-policy"]
    for part in ("default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"):
        assert part in policy
    assert "unsafe" not in policy
    for answer in (page, served.client.get("/api/runs"), served.client.get("/nothing")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_rate_of_requests_is_bounded() -> None:
    bucket = Bucket(per_sec=0.0, burst=3.0)
    bucket._left = 3.0
    assert [bucket.take() for _ in range(5)] == [True, True, True, False, False]
    guard = Guard("127.0.0.1", 80, _bucket=Bucket(per_sec=0.0, burst=0.0))
    refusal = guard.check("GET", "/", {"host": "127.0.0.1"})
    assert refusal is not None
    assert refusal.status == 429


def test_host_that_others_reach_is_known_by_its_addresses_only() -> None:
    guard = Guard("0.0.0.0", 8800)  # noqa: S104 - not bound
    assert not guard.loopback
    assert guard._own_host("192.0.2.7:8800")
    assert guard._own_host("[2001:db8::1]:8800")
    assert not guard._own_host("rebound.example:8800")
    local = Guard("127.0.0.1", 8800)
    assert not local._own_host("192.0.2.7:8800")


def test_methods_other_than_get_and_post_are_refused(served: Served) -> None:
    for method in ("OPTIONS", "PUT", "DELETE", "PATCH", "TRACE"):
        assert served.client.request(method, "/api/runs").status_code == 405, method
    assert "access-control-allow-origin" not in served.client.get("/api/runs").headers


def test_rebound_name_reaches_nothing_even_with_the_cookie(served: Served) -> None:
    """DNS rebinding: the browser sends the foreign name as Host, and takes the page for its own origin."""
    port = served.client.base_url.port
    headers = {"host": f"rebound.example:{port}", "origin": f"http://rebound.example:{port}"}
    assert served.client.get("/api/runs", headers=headers).status_code == 421
    assert served.client.get("/", params={"token": served.token}, headers=headers).status_code == 421


def test_suite_that_links_elsewhere_is_not_opened(tmp_path: Path) -> None:
    outside = write_suite(tmp_path / "outside") / "mine"
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "linked").symlink_to(outside)
    before = (outside / "scenario.yaml").read_text()
    for served in serve(write_runs(tmp_path / "runs"), tasks_dir=tmp_path / "tasks"):
        for path in ("/api/suite/linked", "/api/suite/linked/scenario"):
            assert served.client.get(path).status_code == 400, path
        body = {"suite": "linked", "scorers": [], "digest": ""}
        assert served.post("/api/scenario/preview", body).status_code == 400
        assert served.act("scenario", body).status_code == 400
    assert (outside / "scenario.yaml").read_text() == before


def test_evidence_that_links_elsewhere_is_not_shown(tmp_path: Path) -> None:
    runs = write_runs(tmp_path / "runs")
    (tmp_path / "secret").write_text("root:x:0:0\n")
    for served in serve(runs, tasks_dir=tmp_path):
        key = served.key("a")
        paths = [file for file in (runs / "a" / "tasks").rglob("*") if file.is_file()]
        assert paths
        for file in paths:
            file.unlink()
            file.symlink_to(tmp_path / "secret")
        page = served.get(f"/api/run/{key}/page")
        for row in page["attempts"]:
            address = f"/api/run/{key}/attempt/{row[page['columns'].index('id')]}"
            for answer in (served.client.get(address), served.client.get(f"{address}/trace/0")):
                assert "root:" not in answer.text


def test_secret_of_a_chosen_port_is_kept_privately(tmp_path: Path) -> None:
    secret = kept_secret(tmp_path)
    assert kept_secret(tmp_path) == secret
    file = tmp_path / "view.secret"
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    assert kept_secret(tmp_path) != secret, "others may have read it"
    file.unlink()
    file.symlink_to("/dev/zero")
    assert len(kept_secret(tmp_path)) == 32
    one = Guard("127.0.0.1", 8800, secret=secret, served="/a")
    assert one.token == Guard("127.0.0.1", 8800, secret=secret, served="/a").token
    others = [
        Guard("127.0.0.1", 8801, secret=secret, served="/a"),
        Guard("127.0.0.1", 8800, secret=secret, served="/b"),
        Guard("127.0.0.1", 8800, True, secret, "/a"),
        Guard("127.0.0.1", 8800, served="/a"),
    ]
    tokens = [one.token, one.action_token, one._cookie_value, *(guard.token for guard in others)]
    assert len(set(tokens)) == len(tokens)
