"""Check that commands without their extra name it, and that every extra installs what it is for.

python scripts/check_extras.py WHEEL FOLDER    FOLDER is emptied and gets one environment without extras and one per extra
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
RUN = "demo-reference"
"""A recorded run in tests/data/demo-runs.tar.xz."""
NEEDS = {
    "mcp": ["ab", "mcp", "no-such-folder"],
    "query": ["ab", "query", "select count(*) from attempts", RUN],
    "ray": ["ab", "run", "--suite", "demo", "--agent", "noop", "--executor", "ray", "--dry-run"],
    "tables": ["python", "-c", f"import agentbench; print(agentbench.open_run({RUN!r}).to_pandas())"],
    "vault": ["ab", "vault", "new-key", "audit.key"],
    "view": ["ab", "view", "no-such-folder"],
}
"""Extra -> a command that needs it."""
MESSAGES = {
    "mcp": "no-such-folder is not a folder",
    "ray": "cannot connect to a Ray cluster",
    "view": "no-such-folder is not a folder",
}
"""Extra -> message of its command when the extra is installed, if the command cannot succeed here."""


def install(environment: Path, wheel: Path, extra: str = "") -> None:
    """Install a wheel with the locked versions of its dependencies."""
    uv = str(ROOT / "scripts" / "uv")
    requirements = environment.with_suffix(".txt")
    chosen = ["--extra", extra] if extra else []
    export = [uv, "export", "--quiet", "--frozen", "--no-default-groups", "--no-emit-project", "--output-file"]
    subprocess.run([*export, str(requirements), *chosen], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, environment], check=True)
    pip = [uv, "pip", "install", "--quiet", "--python", str(environment)]
    subprocess.run([*pip, "--require-hashes", "--requirement", str(requirements)], check=True)
    subprocess.run([*pip, "--offline", f"{wheel}[{extra}]" if extra else str(wheel)], check=True)


def run(environment: Path, command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    program = str(environment / "bin" / command[0])
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("AB_", "PYTHON"))}
    return subprocess.run(
        [program, *command[1:]],
        cwd=folder,
        env=settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def main() -> None:
    wheel, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tarfile.open(ROOT / "tests" / "data" / "demo-runs.tar.xz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)  # noqa: S202 - an archive of our own
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    if set(extras) != set(NEEDS):
        sys.exit(f"check_extras.py: NEEDS must have one command per extra: {sorted(set(extras) ^ set(NEEDS))}")
    install(folder / "bare", wheel)
    failures = []
    for extra, command in NEEDS.items():
        without = run(folder / "bare", command, folder)
        named = without.returncode != 0 and f"agentbench-harness[{extra}]" in without.stdout
        install(folder / extra, wheel, extra)
        installed = run(folder / extra, command, folder)
        works = MESSAGES[extra] in installed.stdout if extra in MESSAGES else installed.returncode == 0
        print(f"{extra}: {'named when missing' if named else 'NOT NAMED'}, {'works' if works else 'DOES NOT WORK'}")
        if not (named and works):
            failures.append(extra)
            print(without.stdout, installed.stdout, sep="\n---\n")
        shutil.rmtree(folder / extra)
    if failures:
        sys.exit(f"failed: {', '.join(failures)}")


if __name__ == "__main__":
    main()
