from __future__ import annotations

import json

import pytest
import yaml

from agentbench.core.unique_keys import DuplicateKeyError, key_lines, unique_members
from agentbench.core.unique_yaml import load_yaml


def test_duplicate_key_in_a_nested_object_is_refused() -> None:
    with pytest.raises(DuplicateKeyError, match="duplicate key 'b'"):
        json.loads('{"a": [{"b": 1, "c": 2, "b": 3}]}', object_pairs_hook=unique_members)
    assert json.loads('{"a": {"b": 1}, "b": 1}', object_pairs_hook=unique_members) == {"a": {"b": 1}, "b": 1}


def test_lines_of_a_key_are_found() -> None:
    assert key_lines('{\n"a.b": 1,\n"axb": 2,\n"a.b" : 3}', "a.b", first=5) == [6, 8]


def test_duplicate_key_in_yaml_is_refused_with_both_lines() -> None:
    with pytest.raises(yaml.YAMLError, match=r"duplicate key 'b', first on line 2(.|\n)*line 4"):
        load_yaml("a:\n  b: 1\n  c: 2\n  b: 3\n")
    assert load_yaml("base: &x {a: 1}\nother:\n  <<: *x\n  a: 2\n") == {"base": {"a": 1}, "other": {"a": 2}}
