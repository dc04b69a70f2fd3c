"""Ours beside the peers: the same trivial work, on one machine, in one run, docker against docker.

Everybody works on the same image, without a network: single calls (`true`, `cat`), and attempts of ten calls with their
grading. A peer that cannot be installed or run is reported as not measured, with its own words, and the others go on.

    python -m bench.peers [--only NAME …] [--times N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from agentbench.core.errors import HarnessError, InputError
from bench.conditions import conditions, load, machine, remark
from bench.peers import image as images
from bench.peers import ours
from bench.peers.installing import (
    PEERS,
    NotInstalledError,
    Peer,
    cache,
    compose_version,
    installed,
    packages_for_image,
    with_compose,
)
from bench.peers.table import goals, shown
from bench.peers.work import Found, Work

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "bench" / "results"
RUN_SEC = 240
OURS = {"docker": "ours, docker", "bwrap": "ours, bubblewrap"}


class NotMeasuredError(Exception):
    """A peer did not get through; the message is its own."""


def run_peer(peer: Peer, work: Work, env: dict[str, str]) -> Found:
    """
    Raises:
        NotInstalledError, NotMeasuredError.
    """
    python = installed(peer)
    arguments = list(peer.arguments)
    if peer.packages_for_image:
        arguments.append(str(packages_for_image(peer, python, images.python_version(work.image))))
    with tempfile.TemporaryDirectory(prefix="peer-run-") as made:
        place = Path(made)
        (place / "work.json").write_text(json.dumps(asdict(work)), encoding="utf-8")
        argv = [str(python), "-m", f"bench.peers.{peer.runner}", "work.json", "found.json", *arguments]
        # Nothing is reported to anybody, and nothing is read from the user's own settings.
        own = {"HOME": made, "PYTHONPATH": str(ROOT), "HARBOR_TELEMETRY": "0", "MSWEA_SILENT_STARTUP": "1", **env}
        code, words = to_the_end(argv, place, {**os.environ, **own})
        if code != 0 or not (place / "found.json").exists():
            raise NotMeasuredError(f"exit {code}: {words[-600:]}")
        return Found(**json.loads((place / "found.json").read_text(encoding="utf-8")))


def to_the_end(argv: list[str], place: Path, env: dict[str, str]) -> tuple[int, str]:
    """Exit code and last words; who takes too long is ended with everything it started."""
    with (place / "words").open("wb") as stream:
        process = subprocess.Popen(argv, cwd=place, env=env, stdout=stream, stderr=stream, start_new_session=True)
        try:
            code = process.wait(RUN_SEC)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise NotMeasuredError(f"not done after {RUN_SEC} s") from None
    lines = (place / "words").read_text(encoding="utf-8", errors="replace").splitlines()
    return code, " / ".join(line.strip() for line in lines[-8:] if line.strip())


def joined(first: Found, second: Found) -> Found:
    """Two turns of the same, before and after the others: whatever the machine did meanwhile is in both."""
    both = Found(notes=first.notes)
    both.calls = {name: [*values, *second.calls[name]] for name, values in first.calls.items()}
    for kind in ("attempts", "gradings"):
        mine, theirs = getattr(first, kind), getattr(second, kind)
        total = {
            workers: {key: value + theirs[workers][key] for key, value in numbers.items()}
            for workers, numbers in mine.items()
        }
        setattr(both, kind, total)
    return both


def measure(work: Work, wanted: list[Peer], env: dict[str, str]) -> tuple[dict[str, Found], dict[str, str]]:
    """What was measured, and why the rest was not, by name."""
    found: dict[str, Found] = {}
    missing: dict[str, str] = {}
    for backend, name in OURS.items():
        found[name] = ours.measured(backend, work)
        print(f"measured: {name}", file=sys.stderr, flush=True)
    for peer in wanted:
        try:
            found[peer.name] = run_peer(peer, work, env)
            print(f"measured: {peer.name}", file=sys.stderr, flush=True)
        except (NotInstalledError, NotMeasuredError, RuntimeError) as error:
            missing[peer.name] = str(error)
            print(f"not measured: {peer.name}: {error}", file=sys.stderr, flush=True)
        finally:
            images.clear(work.image)
    for backend, name in OURS.items():
        found[name] = joined(found[name], ours.measured(backend, work))
    return found, missing


def summary(found: Found) -> dict[str, object]:
    """Numbers without the single values they are of."""
    calls = {
        name: {
            "times": len(values),
            "p50_ms": statistics.median(values),
            "p99_ms": sorted(values)[int(len(values) * 0.99)],
        }
        for name, values in found.calls.items()
        if values
    }
    each = {
        kind: {
            workers: {**one, "each_sec": one["seconds"] / one["count"]} for workers, one in getattr(found, kind).items()
        }
        for kind in ("attempts", "gradings")
    }
    return {"calls": calls, **each, "notes": found.notes}


def options() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument(
        "--only", action="append", choices=[peer.runner.removeprefix("run_") for peer in PEERS], help="this peer"
    )
    made.add_argument("--times", type=int, default=60, help="calls of each kind (%(default)s)")
    made.add_argument("--attempts", type=int, default=8, help="attempts at two workers (%(default)s)")
    made.add_argument("--install", action="store_true", help="install the peers and measure nothing")
    made.add_argument("--json", type=Path, metavar="FILE", help="default: bench/results/peers-DATE.json")
    return made.parse_args()


def main() -> None:
    asked = options()
    wanted = [peer for peer in PEERS if not asked.only or peer.runner.removeprefix("run_") in asked.only]
    env: dict[str, str] = {}
    try:
        env = with_compose()
    except NotInstalledError as error:
        print(f"without docker compose: {error}", file=sys.stderr)
    if asked.install:
        for peer in wanted:
            try:
                print(f"{peer.name}: {installed(peer)}")
            except NotInstalledError as error:
                print(f"{peer.name}: not installed: {error}")
        return
    # Environments of ours that this prepares are kept with the peers, not among the user's.
    os.environ.setdefault("AB_STATE", str(cache() / "state"))
    try:
        image = images.built()
    except (RuntimeError, subprocess.CalledProcessError) as error:
        sys.exit(f'no image to work on: {error}\nan engine is needed: eval "$(scripts/docker-engine start)"')
    work = Work(image, asked.times, {"2": asked.attempts, "1": max(asked.attempts // 3, 1)})
    before, now = load(), datetime.now(UTC)
    print(f"conditions: {conditions()}", flush=True)
    try:
        found, missing = measure(work, wanted, env)
    except (HarnessError, InputError) as error:
        sys.exit(f"ours could not be measured: {error}")
    whole = {
        "schema": 1,
        "taken_at": now.isoformat(timespec="seconds"),
        "machine": {**machine(), "docker_compose": compose_version(env)},
        "load_before": before,
        "load_after": load(),
        **remark(),
        "image": {"name": image, "id": images.docker("image", "inspect", "--format", "{{.Id}}", image)},
        "versions": {peer.name: list(peer.requirements) for peer in wanted},
        "measured": {name: summary(one) for name, one in found.items()},
        "not_measured": missing,
        "goals": goals(found),
    }
    print(shown(found, missing))
    path = asked.json or RESULTS / f"peers-{now:%Y-%m-%d}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"written: {path}")


if __name__ == "__main__":
    main()
