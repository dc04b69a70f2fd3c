"""Loads YAML and refuses duplicate keys, of which PyYAML keeps the last silently."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml


def load_yaml(text: str) -> object:
    """Load YAML.

    Raises:
        yaml.YAMLError: it is not valid, or has a key twice (the message has both lines).
    """
    return yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506 - a subclass of the safe loader


class _UniqueKeyLoader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - as in PyYAML
        seen: dict[str, yaml.Node] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    where = f"duplicate key '{key.value}', first on line {seen[key.value].start_mark.line + 1}"
                    raise yaml.constructor.ConstructorError(None, None, where, key.start_mark)
                seen[key.value] = key
        return super().construct_mapping(node, deep)
