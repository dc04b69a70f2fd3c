"""Loading arbitrary task files gives a task or a ContractError, never another exception."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agentbench.contract.load import LoadedTask, load_task
from agentbench.core.errors import ContractError

pytestmark = pytest.mark.component

FILE = Path(__file__).parent / "short_example" / "task.yaml"
PLAIN = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def outcome(folder: Path, data: bytes) -> LoadedTask | ContractError:
    (folder / "task.yaml").write_bytes(data)
    try:
        return load_task(folder)
    except ContractError as error:
        rejection = error
    assert rejection.problems
    assert all(problem.startswith(str(folder)) for problem in rejection.problems if "more problems" not in problem)
    assert all(problem.isprintable() for problem in rejection.problems)
    return rejection


@pytest.mark.req("C-01")
@given(data=st.binary(max_size=400))
@example(data=b"\x00")
@example(data=b"\xef\xbb\xbf")
@example(data=b"%YAML 99999999999999999999.1\n---\na: b")
@example(data=b"%TAG ! tag:x,\n--- !y a")
@example(data=b"&a [*a]")
@example(data=b"? ? ?")
@PLAIN
def test_arbitrary_bytes_only_raise_contract_errors(tmp_path: Path, data: bytes) -> None:
    assert isinstance(outcome(tmp_path, data), ContractError)


YAMLISH = st.text(
    alphabet=st.sampled_from(list("ab:-[]{}#&*!|>'\"%@`?, \n\t0123.\\~<=\u2028\u0085\ud7ff")), max_size=120
)


@pytest.mark.req("C-01")
@given(text=YAMLISH)
@PLAIN
def test_yaml_punctuation_only_raises_contract_errors(tmp_path: Path, text: str) -> None:
    assert isinstance(outcome(tmp_path, text.encode()), ContractError)


VALUES = st.recursive(
    st.sampled_from(
        ["x", "none", "3.10", "-1", "[]", "{}", "~", "yes", "'..'", "/", '"\\0"', "1e999", "!!str a", "*a", "<<"]
    ),
    lambda inner: st.lists(inner, max_size=3).map(lambda items: "[" + ", ".join(items) + "]"),
    max_leaves=4,
)


@pytest.mark.req("C-01")
@given(seed=st.integers(0, 2**32), value=VALUES, count=st.integers(1, 4))
@PLAIN
def test_mutated_task_loads_or_raises_contract_error(tmp_path: Path, seed: int, value: str, count: int) -> None:
    chooser = random.Random(seed)
    lines = FILE.read_text().splitlines()
    for _ in range(count):
        index = chooser.randrange(len(lines))
        key, colon, _ = lines[index].partition(":")
        action = chooser.choice(["value", "drop", "repeat", "indent", "byte"])
        if action == "value":
            lines[index] = f"{key}{colon} {value}"
        elif action == "drop":
            lines[index] = ""
        elif action == "repeat":
            lines.insert(index, lines[chooser.randrange(len(lines))])
        elif action == "indent":
            lines[index] = " " * chooser.randrange(6) + lines[index].strip()
        else:
            lines[index] += chr(chooser.randrange(0x2100))
    outcome(tmp_path, "\n".join(lines).encode("utf-8", "replace"))
