"""What a schema looks like from a key path: which mapping, which keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from pydantic import BaseModel

from agentbench.contract.problem import KeyPath


def keys_of(model: type[BaseModel]) -> list[str]:
    return [info.alias or name for name, info in model.model_fields.items()]


def sections_of(model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    for name, info in model.model_fields.items():
        inner = _inner_model(info.annotation)
        if inner is not None:
            yield info.alias or name, inner


def model_at(model: type[BaseModel], path: KeyPath) -> type[BaseModel] | None:
    """The model that describes the mapping at `path`."""
    current: type[BaseModel] | None = model
    for part in path:
        if isinstance(part, int):
            continue
        if current is None:
            return None
        info = next((info for name, info in current.model_fields.items() if part in {name, info.alias}), None)
        current = _inner_model(info.annotation) if info is not None else None
    return current


def _inner_model(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        if (found := _inner_model(argument)) is not None:
            return found
    return None
