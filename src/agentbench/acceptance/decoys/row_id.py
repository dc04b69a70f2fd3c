"""Changes the id of a row of `parametrize` together with the value that it repeats. Pure."""

from __future__ import annotations

import ast
import re

from agentbench.acceptance.decoys.mutation import Mutation
from agentbench.acceptance.decoys.places import WrittenValue
from agentbench.acceptance.decoys.prose import occurrences, says, word_of
from agentbench.acceptance.decoys.source_file import SourceFile
from agentbench.core.dataclass import dataclass

_is_plain = re.compile(r"[^\\'\"\n\r]+").fullmatch
"""Whether a text is written the same way in every literal."""
_minus_zeros = re.compile(r"-0(?![\w.])").findall
"""Finds minus zeros, which people do not write: an id with one would be recognised."""
_is_name = re.compile(r"\w+", re.ASCII).fullmatch
"""Whether the compiler makes equal texts one object."""


@dataclass(frozen=True, slots=True)
class RowId:
    """The id of a row that repeats a literal of the row once, as a word."""

    node: ast.Constant
    word: str
    file: SourceFile

    @classmethod
    def of(cls, literal: ast.Constant, written: WrittenValue, file: SourceFile) -> RowId | None:
        """Return the id of the row that a literal is in, if changing this id hides the literal's value.

        That is not so if other values of the row contain it: the id would say something about them that is not true.
        """
        param, word = written.param, word_of(literal.value, file.text(literal))
        row_id = None if param is None else next((part.value for part in param.keywords if part.arg == "id"), None)
        if param is None or not isinstance(row_id, ast.Constant) or not isinstance(row_id.value, str):
            return None
        text, said = file.text(row_id), row_id.value
        is_in_one_value = sum(occurrences(word, file.text(part)) for part in param.args) == 1
        is_said_once = occurrences(word, said) == 1 and not says(said.replace(word, " ", 1), word)
        is_only_id = _is_plain(said) and text[1:-1] == said and file.literals[str].count(text) == 1
        return cls(row_id, word, file) if is_in_one_value and is_said_once and is_only_id else None

    def possible(self, replacements: list[str]) -> list[str]:
        """Return the replacements of the literal with which the id looks like the original."""
        return [text for text in replacements if self._looks_alike(self._changed(text))]

    def widened(self, mutation: Mutation) -> Mutation:
        """Return a mutation of the literal that changes the id as well."""
        end = self.file.end(self.node)
        between = self.file.source[mutation.end : self.file.start(self.node)].decode()
        replacements = tuple(f"{text}{between}{self._changed(text)}" for text in mutation.replacements)
        original = self.file.source[mutation.start : end].decode()
        return mutation.model_copy(update={"end": end, "original": original, "replacements": replacements})

    def _changed(self, replacement: str) -> str:
        """Return the literal of the id with another word."""
        other = word_of(ast.literal_eval(replacement), replacement)
        return re.sub(
            rf"(?<![^\W_])(?<!\.){re.escape(self.word)}(?![^\W_]|\.\d)", lambda _: other, self.file.text(self.node)
        )

    def _looks_alike(self, changed: str) -> bool:
        text, before = changed[1:-1], self.file.text(self.node)[1:-1]
        if not _is_plain(text) or changed in self.file.literals[str] or bool(_is_name(text)) != bool(_is_name(before)):
            return False
        return len(_minus_zeros(text)) <= len(_minus_zeros(before))
