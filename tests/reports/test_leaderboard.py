"""The leaderboard has only runs that verify, are signed by a trusted key and have the same contracts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agentbench.cli.export_run import command as export_run
from agentbench.cli.report import command
from agentbench.cli.show import command as show
from agentbench.cli.sign import command as sign
from agentbench.core.errors import InputError
from agentbench.core.reasons import Outcome
from agentbench.record.bundle import write_bundle
from agentbench.signing.keys import create_key, load_signing_key
from agentbench.signing.run_signature import sign_run
from agentbench.trace.events import ComparisonDecided
from tests.record.bundles import member, pack
from tests.record.samples import SampleAttempt, attempt, new_run

pytestmark = pytest.mark.component


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "keys"
    monkeypatch.setenv("AB_KEYS", str(folder))
    monkeypatch.delenv("AB_TRUST", raising=False)
    for name in ("ada", "eve"):
        create_key(name, None, folder)
    return folder


def run(out: Path, variant: str, outcome: Outcome = Outcome.PASS, **fields: object) -> Path:
    """Create a run of one method with two attempts."""
    made = new_run(out)
    for task in ("one", "two"):
        sample = SampleAttempt(outcome=outcome, lies={"variant": variant, **fields})
        attempt(made, task, sample=sample)
    made.close()
    return made.path


def signed(path: Path, keys: Path, key: str = "ada") -> Path:
    sign_run(path, load_signing_key(key, keys))
    return path


def leaderboard(*arguments: object) -> Result:
    return CliRunner().invoke(command, ["leaderboard", *map(str, arguments), "--signed-by", "ada"])


def test_signed_runs_are_ranked_with_intervals(tmp_path: Path, keys: Path) -> None:
    good = signed(run(tmp_path / "a", "good"), keys)
    bad = signed(run(tmp_path / "b", "bad", Outcome.FAIL), keys)
    done = leaderboard(bad, good, "--json")
    assert done.exit_code == 0, done.output
    board = json.loads(done.output)
    assert [(entry["rank"], entry["method"], entry["share"]) for entry in board["entries"]] == [
        (1, "good", 1.0),
        (2, "bad", 0.0),
    ]
    assert all(entry["interval"]["low"] < entry["interval"]["high"] for entry in board["entries"])
    assert {entry["signed_by"] for entry in board["entries"]} == {"ada"}
    assert board["rejected"] == []


def test_bundle_is_ranked_like_its_run(tmp_path: Path, keys: Path) -> None:
    good = signed(run(tmp_path / "a", "good"), keys)
    bad = signed(run(tmp_path / "b", "bad", Outcome.FAIL), keys)
    bundle = tmp_path / "bad.tar.zst"
    write_bundle(bad, bundle)
    done = leaderboard(good, bundle)
    assert done.exit_code == 0, done.output
    assert "| 2 | `bad` | 0.0% |" in done.output


def test_copies_and_unsafe_bundles_do_not_end_the_leaderboard(tmp_path: Path, keys: Path) -> None:
    good = signed(run(tmp_path / "a", "good"), keys)
    bad = signed(run(tmp_path / "b", "bad", Outcome.FAIL), keys)
    copy, unsafe, truncated = (tmp_path / f"{name}.tar.zst" for name in ("copy", "unsafe", "truncated"))
    write_bundle(bad, copy)
    pack(unsafe, member("../evil"))
    truncated.write_bytes(copy.read_bytes()[:-100])
    unreadable = signed(run(tmp_path / "c", "unreadable"), keys)
    (unreadable / "run.json").write_text("{")
    done = leaderboard(good, unsafe, bad, copy, truncated, unreadable, "--json")
    assert done.exit_code == 1, done.output
    board = json.loads(done.output)
    assert [entry["method"] for entry in board["entries"]] == ["good", "bad"]
    reasons = {rejected["origin"]: rejected["why"] for rejected in board["rejected"]}
    assert "is not a safe bundle" in reasons[str(unsafe)]
    assert "is a damaged bundle" in reasons[str(truncated)]
    assert reasons[str(copy)] == f"the same run as {bad}"
    assert str(unreadable) in reasons


def test_other_runs_are_rejected_with_the_reason(tmp_path: Path, keys: Path) -> None:
    good = signed(run(tmp_path / "a", "good"), keys)
    bad = signed(run(tmp_path / "b", "bad", Outcome.FAIL), keys)
    unsigned = run(tmp_path / "c", "unsigned")
    foreign = signed(run(tmp_path / "d", "foreign"), keys, "eve")
    altered = signed(run(tmp_path / "e", "altered"), keys)
    (altered / "tasks/one/diffs/final.patch").write_bytes(b"")
    other = new_run(tmp_path / "f")
    attempt(other, "three")
    other.close()
    signed(other.path, keys)
    done = leaderboard(good, bad, unsigned, foreign, altered, other.path, "--json")
    assert done.exit_code == 1
    board = json.loads(done.output)
    assert [entry["method"] for entry in board["entries"]] == ["good", "bad"]
    reasons = {one["origin"]: one["why"] for one in board["rejected"]}
    assert reasons[str(unsigned)].startswith("not signed: ")
    assert reasons[str(foreign)].startswith("not trusted: ")
    assert reasons[str(altered)].startswith("does not verify: changed: tasks/one/diffs/final.patch")
    assert "other contracts" in reasons[str(other.path)]
    assert "3 tasks (one, three, two)" in reasons[str(other.path)]


def test_every_format_shows_differences_and_deviations(tmp_path: Path, keys: Path) -> None:
    first = signed(run(tmp_path / "a", "first"), keys)
    other = signed(run(tmp_path / "b", "other", config_class="sha256:other", seed=7), keys)
    difference = "first, other: the configuration class (sandbox constraints, limits, logging) differs: one, two"
    deviation = "other used base seed 7; the protocol specifies"
    markdown = leaderboard(first, other).output
    headline = markdown.splitlines()[0]
    assert "[PROVISIONAL]. 2 differences between runs. 1 protocol deviation." in headline
    board = json.loads(leaderboard(first, other, "--json").output)
    assert board["differences"] == [difference, "first, other: A and B used different seeds"]
    assert board["deviations"][0].startswith(deviation)
    page = tmp_path / "board.html"
    assert leaderboard(first, other, "--format", "html", "--out", page).exit_code == 0
    for text in (markdown, leaderboard(first, other, "--format", "csv").output, page.read_text()):
        assert difference in text
        assert deviation in text


def test_run_with_a_wrong_stopping_decision_is_not_accepted(tmp_path: Path, keys: Path) -> None:
    stopped = new_run(tmp_path / "a")
    attempt(stopped, "one")
    stopped.record_decision(ComparisonDecided(look=1, blocks=1, outcome="futile", better=None))
    stopped.close()
    why = "a stopping rule has decided, but run.json declares none"
    refused = CliRunner().invoke(sign, [str(stopped.path), "--key", "ada"]).exception
    assert isinstance(refused, InputError)
    assert why in refused.message
    bundle = tmp_path / "run.tar.zst"
    refused = CliRunner().invoke(export_run, [str(stopped.path), "--out", str(bundle)]).exception
    assert isinstance(refused, InputError)
    assert why in refused.message
    assert not bundle.exists()
    rejected = json.loads(leaderboard(signed(stopped.path, keys), "--json").output)["rejected"]
    assert rejected[0]["why"].endswith(why)


def test_page_escapes_names(tmp_path: Path, keys: Path) -> None:
    hostile = signed(run(tmp_path / "a", "<script>alert(1)</script>"), keys)
    page = tmp_path / "board.html"
    done = leaderboard(hostile, "--format", "html", "--out", page)
    assert done.exit_code == 0, done.output
    text = page.read_text()
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_nothing_accepted_is_said_in_the_first_line(tmp_path: Path, keys: Path) -> None:
    done = leaderboard(run(tmp_path / "a", "x"))
    assert done.exit_code == 1
    assert done.output.startswith("# EMPTY: no run was accepted. 1 run rejected.")


def test_reports_show_the_signer(tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = signed(run(tmp_path / "a", "good"), keys)
    trust = tmp_path / "trust.yaml"
    trust.write_text(f"keys: [{{name: Ada, key: {load_signing_key('ada', keys).public.text}}}]")

    def line() -> str:
        return str(json.loads(CliRunner().invoke(command, ["summary", str(path), "--json"]).output)["signature"])

    assert line().startswith("signature not checked, because no trust file is set; it claims the key SHA256:")
    monkeypatch.setenv("AB_TRUST", str(trust))
    assert line() == "signed by Ada, verified (records compared, evidence files not: see ab verify)"
    record = path / "tasks/one/meta/record.json"
    original = record.read_bytes()
    record.write_bytes(original + b" ")
    assert line().startswith("SIGNATURE DOES NOT MATCH: changed: tasks/one/meta/record.json")
    record.write_bytes(original)
    shown = CliRunner().invoke(show, [str(path), "--task", "one"]).output
    assert "signed by Ada, verified (records compared" in shown
    (path / "tasks/one/diffs/final.patch").write_bytes(b"")
    shown = CliRunner().invoke(show, [str(path), "--task", "one"]).output
    assert "SIGNATURE DOES NOT MATCH: tasks/one/diffs/final.patch is changed" in shown
    page = tmp_path / "page"
    assert CliRunner().invoke(command, ["summary", str(path), "--format", "html", "--out", str(page)]).exit_code == 0
    assert "SIGNATURE DOES NOT MATCH: tasks/one/diffs/final.patch" in (page / "index.html").read_text()
    (path / "signature.dsse.json").unlink()
    assert line() == "not signed"


def test_report_of_a_run_that_does_not_match_its_signature_says_altered(tmp_path: Path, keys: Path) -> None:
    path, other = signed(run(tmp_path / "a", "good"), keys), run(tmp_path / "b", "good")
    (other / "signature.dsse.json").write_bytes((path / "signature.dsse.json").read_bytes())
    summary = CliRunner().invoke(command, ["summary", str(other)]).output
    assert summary.startswith("# ALTERED: signature.dsse.json does not match: ")
