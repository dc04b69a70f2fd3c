"""Canonical JSON (RFC 8785) and digests over it.

The `rfc8785` package is the reference. The standard library's C encoder gives the same bytes if a value has only plain types,
no float with two spellings, no integer beyond 2^53 and no key outside the basic multilingual plane (below it, UTF-16 order is
code point order). Nearly every value qualifies and is encoded at once. Others are encoded in parts, of which those that do not
qualify go to the reference.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn, TypeAlias

import rfc8785
from pydantic_core import from_json, to_json

from agentbench.core.unique_keys import DuplicateKeyError, unique_members

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

SAFE_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader keeps exact. Larger ones are written as strings."""

_SAFE_DIGITS = len(str(-SAFE_INTEGER))
_ASTRAL = "\U00010000"
_ARRAYS = (list, tuple)
_CONSTANTS = {None: "null", True: "true", False: "false"}

_encode = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, sort_keys=True, separators=(",", ":")
).encode
_quoted = json.encoder.encode_basestring


class CanonicalError(ValueError):
    """A value without a canonical form, or bytes that are not canonical JSON."""


def canonical(value: Json) -> bytes:
    """Encode `value`. Equal values give equal bytes, whatever their key order.

    Raises:
        CanonicalError: a number that is not finite or beyond 2^53, a lone surrogate, a key that is not a string, or
            nesting that is too deep.
    """
    try:
        return (_encode(value) if _is_plain(value) else _in_parts(value)).encode()
    except rfc8785.CanonicalizationError as error:
        raise CanonicalError(str(error)) from None
    except UnicodeEncodeError:
        raise CanonicalError("text contains a lone surrogate") from None
    except RecursionError:
        raise CanonicalError("nested too deeply") from None


def parse_canonical(data: bytes) -> Json:
    """Parse canonical JSON. Any other encoding of the same value is rejected, and so are duplicate keys and NaN."""
    try:
        value: Json = from_json(data, allow_inf_nan=False)
        if (_is_ordered(value) and to_json(value) == data) or canonical(value) == data:
            return value
    except ValueError:
        pass  # The slow path below accepts what the fast parser does not support, or says what is wrong.
    value = _parse(data, _lenient)
    try:
        same = canonical(value) == data
    except CanonicalError:
        # 1e20 is written without an exponent, so an apparent integer may be a float.
        value = _parse(data, _doubles)
        same = canonical(value) == data
    if not same:
        raise CanonicalError("not in canonical form")
    return value


def parse_strict(data: bytes) -> Json:
    """Parse JSON in any formatting, but reject what parsers disagree about: duplicate keys, NaN, lone surrogates."""
    value = _parse(data, _strict)
    canonical(value)
    return value


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digest(value: Json) -> str:
    """Return `sha256:…` over the canonical form."""
    return "sha256:" + sha256_hex(canonical(value))


def _is_plain(value: object) -> bool:
    """Return whether the C encoder gives the canonical bytes. Subclasses may encode differently and do not qualify."""
    kind = type(value)
    if kind is dict:
        for key, inner in value.items():  # type: ignore[attr-defined]
            if not _is_plain_key(key) or not (type(inner) is str or _is_plain(inner)):
                return False
        return True
    if kind is list or kind is tuple:
        for inner in value:  # type: ignore[attr-defined]  # noqa: SIM110 - `all` takes twice as long
            if not (type(inner) is str or _is_plain(inner)):
                return False
        return True
    return kind is str or kind is bool or value is None or _is_plain_number(value)


def _is_plain_number(value: object) -> bool:
    if type(value) is int:
        return -SAFE_INTEGER <= value <= SAFE_INTEGER
    return type(value) is float and _is_short(value)


def _is_plain_key(key: object) -> bool:
    return type(key) is str and (key.isascii() or max(key) < _ASTRAL)


def _in_parts(value: Json) -> str:
    """Encode a value that is not plain: its containers, texts and most numbers here, the rest by the reference."""
    if type(value) is str:
        text = _quoted(value)
    elif type(value) is dict and all(map(_is_plain_key, value)):
        text = "{" + ",".join([f"{_quoted(key)}:{_in_parts(value[key])}" for key in sorted(value)]) + "}"
    elif isinstance(value, list | tuple) and type(value) in _ARRAYS:
        text = "[" + ",".join(map(_in_parts, value)) + "]"
    elif value is None or type(value) is bool:
        text = _CONSTANTS[value]
    elif type(value) is float and value.is_integer() and abs(value) <= SAFE_INTEGER:
        text = str(int(value))  # RFC 8785 writes 1.0 as 1
    else:
        text = repr(value) if _is_plain_number(value) else rfc8785.dumps(value).decode()
    return text


def _is_ordered(value: object) -> bool:
    """Return whether a parsed value encodes to its canonical bytes as it is: sorted keys, plain numbers."""
    if isinstance(value, dict):
        keys = list(value)
        if keys != sorted(keys) or not "".join(keys).isascii():
            return False
        parts: Iterable[object] = value.values()
    else:
        parts = value if isinstance(value, list) else (value,)
    for part in parts:
        kind = type(part)
        if kind is str or kind is bool or part is None:
            continue
        if isinstance(part, int):
            if not -SAFE_INTEGER <= part <= SAFE_INTEGER:
                return False
        elif isinstance(part, float):
            if not _is_short(part):
                return False
        elif not _is_ordered(part):
            return False
    return True


def _is_short(number: float) -> bool:
    """Return whether every encoder spells a float alike: not integral, and in the range written without an exponent."""
    return 1e-4 <= abs(number) < 1e16 and not number.is_integer()


def _parse(data: bytes, decoder: json.JSONDecoder) -> Json:
    try:
        value: Json = decoder.decode(data.decode())
    except CanonicalError:
        raise
    except DuplicateKeyError as error:
        raise CanonicalError(str(error)) from None
    except UnicodeDecodeError:
        raise CanonicalError("not UTF-8") from None
    except RecursionError:
        raise CanonicalError("nested too deeply") from None
    except ValueError as error:
        raise CanonicalError(f"not JSON: {error}") from None
    else:
        return value


def _number(digits: str) -> int | float:
    """Parse an integer; beyond 2^53 it becomes a float, as in other JSON readers."""
    if len(digits) <= _SAFE_DIGITS and abs(number := int(digits)) <= SAFE_INTEGER:
        return number
    return float(digits)


def _reject(constant: str) -> NoReturn:
    raise CanonicalError(f"{constant} is not JSON")


_lenient = json.JSONDecoder(parse_constant=_reject)
_doubles = json.JSONDecoder(parse_constant=_reject, parse_int=_number)
_strict = json.JSONDecoder(parse_constant=_reject, parse_int=_number, object_pairs_hook=unique_members)
