"""Compare AgentBench with other harnesses: the same trivial work on one machine in one run, docker against docker.

All use the same image without a network: single calls (`true`, `cat`), and attempts of ten calls with their grading. A peer
that cannot be installed or run is reported as not measured with its own error output, and the others go on.

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
from bench.peers.install import (
    PEERS,
    NotInstalledError,
    Peer,
    cache,
    compose_environment,
    compose_version,
    ensure_installed,
    packages_for_image,
)
from bench.peers.table import goals, render_table
from bench.peers.work import Measurements, Work

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "bench" / "results"
RUN_SEC = 240
OURS = {"docker": "ours, docker", "bwrap": "ours, bubblewrap"}


class NotMeasuredError(Exception):
    """A peer failed; the message is its own output."""


def run_peer(peer: Peer, work: Work, env: dict[str, str]) -> Measurements:
    """
    Raises:
        NotInstalledError, NotMeasuredError.
    """
    python = ensure_installed(peer)
    arguments = list(peer.arguments)
    if peer.packages_for_image:
        arguments.append(str(packages_for_image(peer, python, images.python_version(work.image))))
    with tempfile.TemporaryDirectory(prefix="peer-run-") as directory:
        workdir = Path(directory)
        (workdir / "work.json").write_text(json.dumps(asdict(work)), encoding="utf-8")
        argv = [str(python), "-m", f"bench.peers.{peer.runner}", "work.json", "measurements.json", *arguments]
        # No telemetry is sent, and the user's own settings are not read.
        settings = {
            "HOME": directory,
            "PYTHONPATH": str(ROOT),
            "HARBOR_TELEMETRY": "0",
            "MSWEA_SILENT_STARTUP": "1",
            **env,
        }
        code, output = run_with_timeout(argv, workdir, {**os.environ, **settings})
        if code != 0 or not (workdir / "measurements.json").exists():
            raise NotMeasuredError(f"exit {code}: {output[-600:]}")
        return Measurements(**json.loads((workdir / "measurements.json").read_text(encoding="utf-8")))


def run_with_timeout(argv: list[str], workdir: Path, env: dict[str, str]) -> tuple[int, str]:
    """Return the exit code and the last lines of output; kill the whole process group after the time limit."""
    with (workdir / "output").open("wb") as stream:
        process = subprocess.Popen(argv, cwd=workdir, env=env, stdout=stream, stderr=stream, start_new_session=True)
        try:
            code = process.wait(RUN_SEC)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise NotMeasuredError(f"timed out after {RUN_SEC} s") from None
    lines = (workdir / "output").read_text(encoding="utf-8", errors="replace").splitlines()
    return code, " / ".join(line.strip() for line in lines[-8:] if line.strip())


def merge(first: Measurements, second: Measurements) -> Measurements:
    """Merge two measurements of AgentBench, taken before and after the peers, so that changes in load affect both."""
    merged = Measurements(notes=first.notes)
    merged.calls = {name: [*values, *second.calls[name]] for name, values in first.calls.items()}
    for kind in ("attempts", "gradings"):
        ours_first, ours_second = getattr(first, kind), getattr(second, kind)
        total = {
            workers: {key: value + ours_second[workers][key] for key, value in numbers.items()}
            for workers, numbers in ours_first.items()
        }
        setattr(merged, kind, total)
    return merged


def measure(work: Work, wanted: list[Peer], env: dict[str, str]) -> tuple[dict[str, Measurements], dict[str, str]]:
    """Return the measurements by name, and the reasons for harnesses that were not measured."""
    measured: dict[str, Measurements] = {}
    missing: dict[str, str] = {}
    for backend, name in OURS.items():
        measured[name] = ours.measure(backend, work)
        print(f"measured: {name}", file=sys.stderr, flush=True)
    for peer in wanted:
        try:
            measured[peer.name] = run_peer(peer, work, env)
            print(f"measured: {peer.name}", file=sys.stderr, flush=True)
        except (NotInstalledError, NotMeasuredError, RuntimeError) as error:
            missing[peer.name] = str(error)
            print(f"not measured: {peer.name}: {error}", file=sys.stderr, flush=True)
        finally:
            images.clear(work.image)
    for backend, name in OURS.items():
        measured[name] = merge(measured[name], ours.measure(backend, work))
    return measured, missing


def summary(measurements: Measurements) -> dict[str, object]:
    """Summarize the single values."""
    calls = {
        name: {
            "times": len(values),
            "p50_ms": statistics.median(values),
            "p99_ms": sorted(values)[int(len(values) * 0.99)],
        }
        for name, values in measurements.calls.items()
        if values
    }
    each = {
        kind: {
            workers: {**totals, "each_sec": totals["seconds"] / totals["count"]}
            for workers, totals in getattr(measurements, kind).items()
        }
        for kind in ("attempts", "gradings")
    }
    return {"calls": calls, **each, "notes": measurements.notes}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only",
        action="append",
        choices=[peer.runner.removeprefix("run_") for peer in PEERS],
        help="measure only this peer",
    )
    parser.add_argument("--times", type=int, default=60, help="calls of each kind (%(default)s)")
    parser.add_argument("--attempts", type=int, default=8, help="attempts at two workers (%(default)s)")
    parser.add_argument("--install", action="store_true", help="install the peers and measure nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="default: bench/results/peers-DATE.json")
    return parser.parse_args()


def main() -> None:
    arguments = options()
    wanted = [peer for peer in PEERS if not arguments.only or peer.runner.removeprefix("run_") in arguments.only]
    env: dict[str, str] = {}
    try:
        env = compose_environment()
    except NotInstalledError as error:
        print(f"docker compose is not available: {error}", file=sys.stderr)
    if arguments.install:
        for peer in wanted:
            try:
                print(f"{peer.name}: {ensure_installed(peer)}")
            except NotInstalledError as error:
                print(f"{peer.name}: not installed: {error}")
        return
    # Keep the environments prepared here with the peers, apart from the user's.
    os.environ.setdefault("AB_STATE", str(cache() / "state"))
    try:
        image = images.build()
    except (RuntimeError, subprocess.CalledProcessError) as error:
        sys.exit(f'cannot build the image: {error}\nA Docker engine is needed: eval "$(scripts/docker-engine start)"')
    work = Work(image, arguments.times, {"2": arguments.attempts, "1": max(arguments.attempts // 3, 1)})
    before, now = load(), datetime.now(UTC)
    print(f"conditions: {conditions()}", flush=True)
    try:
        measured, missing = measure(work, wanted, env)
    except (HarnessError, InputError) as error:
        sys.exit(f"cannot measure AgentBench: {error}")
    whole = {
        "schema": 1,
        "taken_at": now.isoformat(timespec="seconds"),
        "machine": {**machine(), "docker_compose": compose_version(env)},
        "load_before": before,
        "load_after": load(),
        **remark(),
        "image": {"name": image, "id": images.docker("image", "inspect", "--format", "{{.Id}}", image)},
        "versions": {peer.name: list(peer.requirements) for peer in wanted},
        "measured": {name: summary(measurements) for name, measurements in measured.items()},
        "not_measured": missing,
        "goals": goals(measured),
    }
    print(render_table(measured, missing))
    path = arguments.json or RESULTS / f"peers-{now:%Y-%m-%d}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"Wrote {path}")


if __name__ == "__main__":
    main()
