"""A guess at what a broken document meant, so that its other problems can be found in the same pass.

Never used to run anything: a document that needed a guess is refused.
"""

from __future__ import annotations

import copy

from pydantic import BaseModel

from agentbench.contract.problem import KeyPath, nearest
from agentbench.contract.schema_shape import keys_of, model_at
from agentbench.contract.yaml_document import Document, Value, descend

_STAND_IN = "stand-in"


class Repair:
    """A copy of the document's value that is changed until it fits; `doubtful` has the keys that were made up."""

    def __init__(self, document: Document, model: type[BaseModel]) -> None:
        self.document = document
        self.model = model
        self.value = copy.deepcopy(document.value)
        self.doubtful: set[KeyPath] = set()

    def apply(self, errors: list[tuple[KeyPath, str]]) -> None:
        for path, kind in errors:
            if not path:
                continue
            owner = descend(self.value, path[:-1])
            if isinstance(owner, dict) and isinstance(path[-1], str):
                self._key(owner, path, path[-1], kind)
            elif isinstance(owner, list) and isinstance(path[-1], int) and path[-1] < len(owner):
                # Items keep their places, so that later problems name the right index.
                self.doubtful.add(path)
                owner[path[-1]] = self._item(path)

    def _key(self, owner: dict[str, Value], path: KeyPath, key: str, kind: str) -> None:
        if kind == "extra_forbidden":
            value = owner.pop(key, None)
            if isinstance(value, bool | int | float):
                value = self.document.plain.get(path, value)
            model = model_at(self.model, path[:-1])
            meant = nearest(key, keys_of(model)) if model is not None else ""
            if meant and meant not in owner:
                owner[meant] = value
            return
        self.doubtful.add(path)
        if kind == "missing":
            owner[key] = _stand_in(key)
        elif kind == "string_type" and path in self.document.plain and key in owner:
            owner[key] = self.document.plain[path] or _STAND_IN
        elif self._required(path):
            owner[key] = _stand_in(key)
        else:
            owner.pop(key, None)

    def _required(self, path: KeyPath) -> bool:
        model = model_at(self.model, path[:-1])
        info = model.model_fields.get(str(path[-1])) if model is not None else None
        return info is not None and info.is_required()

    def _item(self, path: KeyPath) -> Value:
        model = model_at(self.model, path)
        if model is None:
            return _STAND_IN
        return {name: f"{_STAND_IN}-{path[-1]}" for name, info in model.model_fields.items() if info.is_required()}


def _stand_in(key: str) -> Value:
    return {"path": _STAND_IN} if key == "repo" else _STAND_IN
