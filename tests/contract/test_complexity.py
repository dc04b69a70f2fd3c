"""Measuring the complexity of a source tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.contract.complexity import measure
from agentbench.core.errors import ContractError

pytestmark = pytest.mark.component


def tree(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


@pytest.mark.req("C-13")
def test_measure_counts_sizes_and_imports(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "src/pkg/__init__.py": "from . import core\nfrom .core import f\n",
            "src/pkg/core.py": "import os\nimport numpy as np\nfrom pkg.deep.more import x\n",
            "src/pkg/deep/__init__.py": "",
            "src/pkg/deep/more.py": "from ..core import f\nimport requests.sessions\n",
            "tests/test_core.py": "import pkg\nfrom pkg import core\n",
            "README.md": "one\ntwo",
            "logo.png": b"\x89PNG\0\0",
            ".git/config": "not counted\n",
        },
    )
    complexity = measure(tmp_path)
    assert (complexity.files, complexity.binary_files, complexity.python_modules, complexity.skipped) == (7, 1, 5, 0)
    assert complexity.lines_by_suffix == {".md": 2, ".py": 9}
    assert complexity.lines == 11
    assert complexity.external_packages == ("numpy", "requests")
    assert complexity.internal_imports == 5
    assert complexity.most_imported[0] == ("pkg.core", 3)
    text = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.suffix in {".py", ".md"})
    assert complexity.approx_tokens == -(-text // 4)


@pytest.mark.req("C-13")
def test_numbers_are_labelled_as_proxies(tmp_path: Path) -> None:
    label = measure(tmp_path).as_json()["label"]
    assert isinstance(label, str)
    assert label.startswith("proxies")


def test_hostile_source_is_counted_but_not_followed(tmp_path: Path) -> None:
    import os

    tree(
        tmp_path,
        {
            "deep.py": "(" * 5000,
            "nul.py": "x = 1\n" + "a" * 9000 + "\0",
            "broken.py": "def (:\n",
            "old.py": "print 'x'\n",
            "escape.py": 'x = "\\d"\n',
            "odd.py": b"# -*- coding: nonsense -*-\n",
        },
    )
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "out.py").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / os.fsdecode(b"name-\xff.py")).write_text("import os\n")
    complexity = measure(tmp_path)
    assert complexity.files == 10
    assert complexity.skipped == 5
    assert complexity.python_modules == 2


def test_missing_folder_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ContractError):
        measure(tmp_path / "nowhere")
