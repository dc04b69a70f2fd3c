import json
from pathlib import Path

import pytest
from agentbench_exercism import exercism

import agentbench as ab


def test_exercise_becomes_a_task_with_hidden_tests(tmp_path: Path) -> None:
    exercise = tmp_path / "leap"
    files = {
        "leap.py": "def leap_year(year):\n    pass\n",
        "leap_test.py": "from leap import leap_year\n\n\ndef test_2024():\n    assert leap_year(2024)\n",
        ".meta/example.py": "def leap_year(year):\n    return year % 4 == 0\n",
        ".docs/instructions.md": "Say whether a year is a leap year.\n",
    }
    for name, text in files.items():
        (exercise / name).parent.mkdir(parents=True, exist_ok=True)
        (exercise / name).write_text(text)
    config = {"files": {"solution": ["leap.py"], "test": ["leap_test.py"], "example": [".meta/example.py"]}}
    (exercise / ".meta" / "config.json").write_text(json.dumps(config))
    (task,) = ab.import_tasks(exercism, tmp_path, tmp_path / "tasks" / "exercism")
    assert (task.id, task.statement) == ("leap", files[".docs/instructions.md"])
    assert list(task.hidden_files()) == [b"leap_test.py"]
    assert not (task.folder / "repo" / "leap_test.py").exists()


def test_folder_without_exercises_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ab.InputError, match="contains no exercise"):
        ab.import_tasks(exercism, tmp_path, tmp_path / "tasks")
