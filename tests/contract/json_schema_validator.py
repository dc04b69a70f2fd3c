"""A small validator of JSON Schema, independent of the library that makes the schemas. Unknown keywords are errors."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_ANNOTATIONS = {"$schema", "$defs", "title", "description", "default"}
_APPLIED = {"$ref", "anyOf", "items", "properties", "additionalProperties"}


def problems(value: Any, schema: Any, root: Mapping[str, Any], place: str = "file") -> Iterator[str]:
    """Yield every way in which a value breaks a schema."""
    if schema is False:
        yield f"{place}: nothing is allowed here"
    if isinstance(schema, bool):
        return
    if "$ref" in schema:
        yield from problems(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, place)
    options = schema.get("anyOf", [])
    if options and not any(list(problems(value, option, root, place)) == [] for option in options):
        yield f"{place}: matches no alternative"
    for index, item in enumerate(value if isinstance(value, list) else ()):
        yield from problems(item, schema.get("items", True), root, f"{place}[{index}]")
    for key, member in value.items() if isinstance(value, dict) else ():
        rule = schema.get("properties", {}).get(key, schema.get("additionalProperties", True))
        yield from problems(member, rule, root, f"{place}.{key}")
    for keyword in schema.keys() - _ANNOTATIONS - _APPLIED:
        kinds, holds = _RULES[keyword]
        if isinstance(value, kinds) and not holds(value, schema[keyword]):
            yield f"{place}: {keyword} {schema[keyword]} does not hold for {value!r}"


def _is_of_type(value: object, name: str) -> bool:
    return isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


_NUMBER, _SIZED = (int, float), (str, list)
_RULES: dict[str, tuple[Any, Callable[[Any, Any], bool]]] = {
    "type": (object, _is_of_type),
    "const": (object, operator.eq),
    "enum": (object, lambda value, members: value in members),
    "required": (dict, lambda value, keys: set(keys) <= value.keys()),
    "minimum": (_NUMBER, operator.ge),
    "maximum": (_NUMBER, operator.le),
    "exclusiveMinimum": (_NUMBER, operator.gt),
    "exclusiveMaximum": (_NUMBER, operator.lt),
    "minLength": (_SIZED, lambda value, least: len(value) >= least),
    "maxLength": (_SIZED, lambda value, most: len(value) <= most),
    "minItems": (_SIZED, lambda value, least: len(value) >= least),
    "maxItems": (_SIZED, lambda value, most: len(value) <= most),
    "pattern": (str, lambda value, pattern: re.search(pattern, value) is not None),
}
