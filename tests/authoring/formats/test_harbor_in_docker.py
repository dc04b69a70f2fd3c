"""Running a foreign Harbor task in containers: image, verifier and solution."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbench.authoring.formats.harbor import import_folder
from agentbench.contract.load import load_task
from agentbench.execution.lab import Lab
from agentbench.execution.validation import validate_suite
from agentbench.sandbox.docker.engine import find_engine
from agentbench.sandbox.docker.images import RUNNER
from tests.sandbox.conftest import remove_images, require_docker

pytestmark = [pytest.mark.req("C-18"), pytest.mark.component]

FILES = {
    "task.toml": (
        'version = "1.0"\n[metadata]\nauthor_name = "somebody"\n[verifier]\ntimeout_sec = 60.0\n'
        "[agent]\ntimeout_sec = 60.0\n[environment]\nbuild_timeout_sec = 60.0\ncpus = 1\nmemory_mb = 512\n"
    ),
    "instruction.md": "Write the words of names.txt and /opt/words/more.txt to sorted.txt, sorted, one per line.\n",
    "environment/Dockerfile": "FROM {image}\nCOPY more.txt tools/ /opt/words/\nWORKDIR /app\nCOPY names.txt .\nRUN test $(wc -l < names.txt) = 2\n",
    "environment/names.txt": "pear\napple\n",
    "environment/more.txt": "fig\n",
    "environment/tools/count.sh": "wc -l\n",
    "tests/test.sh": (
        "#!/bin/bash\n\npython3 /tests/test_outputs.py\n\n"
        "if [ $? -eq 0 ]; then\n  echo 1 > /logs/verifier/reward.txt\nelse\n  echo 0 > /logs/verifier/reward.txt\nfi\n"
    ),
    "tests/test_outputs.py": (
        "from pathlib import Path\n\nassert Path('/app/sorted.txt').read_text().split() == ['apple', 'fig', 'pear']\n"
    ),
    "solution/solve.sh": "#!/bin/bash\nset -e\nsh /opt/words/count.sh < names.txt\nsort names.txt /opt/words/more.txt > sorted.txt\n",
}


@pytest.fixture
def docker_lab(tmp_path: Path) -> Iterator[Lab]:
    require_docker()
    with Lab(sandbox="docker", state=tmp_path / "state") as lab:
        yield lab
    remove_images(find_engine(), tmp_path / "state")


def test_foreign_harbor_task_is_valid(tmp_path: Path, docker_lab: Lab) -> None:
    image = find_engine().output("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", RUNNER).split()[0]
    theirs = tmp_path / "sort-names"
    for name, text in FILES.items():
        (theirs / name).parent.mkdir(parents=True, exist_ok=True)
        (theirs / name).write_text(text.replace("{image}", image))
    task = load_task(import_folder(theirs, tmp_path / "tasks/theirs"))
    (validation,) = validate_suite([task], docker_lab, repeats=2, workers=1, report=lambda _line: None)
    assert (validation.valid, validation.baseline, validation.reference) == (True, "fail", "pass"), validation.why
    assert validation.flaky == ()
