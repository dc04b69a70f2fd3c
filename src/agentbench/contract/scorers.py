"""Scorer types: fields, ranges and defaults. `acceptance.scorers` implements them."""

# No `from __future__ import annotations`: pydantic would compile every annotation, a quarter of the time to import this.

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from agentbench.contract.problem import KeyPath, KeyProblems, did_you_mean
from agentbench.contract.schema import Model, NonEmpty, Scorer
from agentbench.contract.schema_problems import expected, show
from agentbench.contract.yaml_document import Value, descend
from agentbench.core.errors import InputError
from agentbench.plugins.extensions import Extensions
from agentbench.plugins.kinds import Kind

MAX_TIMEOUT = 3600
DEFAULT_TIMEOUT = 900
DEFAULT_TESTS = (
    "test_*.py", "*/test_*.py", "*_test.py", "tests.py", "*/tests.py", "conftest.py", "*/conftest.py",
    "test/*", "*/test/*", "tests/*", "*/tests/*", "spec/*", "*/spec/*", "__tests__/*", "*/__tests__/*",
    "*_test.go", "*_test.rs", "*.test.[jt]s", "*.test.[jt]sx", "*.spec.[jt]s", "*.spec.[jt]sx",
    "*Test.java", "*Tests.java", "*Test.kt", "*_spec.rb", "*_test.rb",
)  # fmt: skip
"""Default patterns of test files: names that test runners look for, and test folders."""


def _relative(path: str) -> str:
    """Check that a path has the form in which changed files are listed: relative to the workspace, normalised."""
    parts = path.split("/")
    if "\x00" in path:
        raise ValueError("contains a NUL character")
    if path.startswith("/"):
        raise ValueError(f"expected a path relative to the workspace; got {path}")
    if ".." in parts:
        raise ValueError(f"expected a path inside the workspace, without `..`; got {path}")
    if "." in parts or "" in parts:
        raise ValueError(f"expected a plain relative path such as src/core.py; got {path}")
    return path


def _exact(path: str) -> str:
    if "*" in path or "?" in path:
        raise ValueError(f"expected exact paths, not patterns; got {path}")
    return _relative(path)


def _pattern(pattern: str) -> str:
    """Check that an fnmatch pattern can match the path of a changed file."""
    if pattern.startswith(("/", "./")) or ".." in pattern.split("/") or "\x00" in pattern:
        raise ValueError(f"expected a pattern relative to the workspace; {pattern} matches no file")
    if pattern.endswith("/"):
        raise ValueError(f"{pattern} matches no file; to match everything in the folder write {pattern}*")
    if _has_unclosed_bracket(pattern):
        raise ValueError(f"unclosed bracket in {pattern}; to match the character itself write [[]")
    return pattern


def _has_unclosed_bracket(pattern: str) -> bool:
    """Return whether fnmatch would take a bracket literally because it is not closed.

    The first character inside a bracket never closes it.
    """
    start = 0
    while (start := pattern.find("[", start)) >= 0:
        end = pattern.find("]", start + (3 if pattern.startswith("[!", start) else 2))
        if end < 0:
            return True
        start = end + 1
    return False


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("expected some text; it is blank")
    return text


NotBlank = Annotated[NonEmpty, AfterValidator(_not_blank)]
RelativePath = Annotated[NonEmpty, AfterValidator(_relative)]
ExactPath = Annotated[NonEmpty, AfterValidator(_exact)]
Pattern = Annotated[NonEmpty, AfterValidator(_pattern)]
Patterns = Annotated[tuple[Pattern, ...], Field(min_length=1)]
ExactPaths = Annotated[tuple[ExactPath, ...], Field(min_length=1)]


class Spec(Model):
    """Fields that every scorer has. `required` is None if the type's default applies."""

    required_by_default: ClassVar[bool] = True
    name: NonEmpty
    required: bool | None = None

    @property
    def is_required(self) -> bool:
        return self.required_by_default if self.required is None else self.required


class CommandSpec(Spec):
    """The command must exit with 0."""

    type: Literal["command"]
    command: NotBlank
    timeout_s: Annotated[int, Field(ge=1, le=MAX_TIMEOUT)] = DEFAULT_TIMEOUT


class AllowedPathsSpec(Spec):
    """Every changed file matches one of the patterns."""

    type: Literal["allowed_paths"]
    patterns: Patterns


class ForbidPathsSpec(Spec):
    """No changed file matches any of the patterns."""

    type: Literal["forbid_paths"]
    patterns: Patterns


class MaxFilesChangedSpec(Spec):
    type: Literal["max_files_changed"]
    limit: Annotated[int, Field(ge=0)]


class ForbidSecretsSpec(Spec):
    """No added line looks like a secret. A tripwire, not a complete scanner."""

    type: Literal["forbid_secrets"]


class FileExistsSpec(Spec):
    type: Literal["file_exists"]
    path: RelativePath


class TestsUnmodifiedSpec(Spec):
    """None of these files was edited."""

    __test__: ClassVar[bool] = False  # keeps pytest from collecting it
    type: Literal["tests_unmodified"]
    paths: ExactPaths


class BaselineUnmodifiedSpec(Spec):
    """None of these files was edited."""

    type: Literal["baseline_unmodified"]
    paths: ExactPaths


class NoNewSkipsSpec(Spec):
    """No more skip and xfail markers in changed test files than before."""

    required_by_default = False
    type: Literal["no_new_skips"]
    test_globset: Patterns | None = None


class AssertionsNotWeakenedSpec(Spec):
    """No fewer assertions in changed test files than before."""

    required_by_default = False
    type: Literal["assertions_not_weakened"]
    test_globset: Patterns | None = None


class LlmJudgeSpec(Spec):
    """A note for the judge. It never gates, whatever `required` says."""

    required_by_default = False
    type: Literal["llm_judge"]
    rubric: NotBlank


BuiltInSpec: TypeAlias = (
    CommandSpec
    | AllowedPathsSpec
    | ForbidPathsSpec
    | MaxFilesChangedSpec
    | ForbidSecretsSpec
    | FileExistsSpec
    | TestsUnmodifiedSpec
    | BaselineUnmodifiedSpec
    | NoNewSkipsSpec
    | AssertionsNotWeakenedSpec
    | LlmJudgeSpec
)

SPECS: Mapping[str, type[BuiltInSpec]] = {
    get_args(spec.model_fields["type"].annotation)[0]: spec for spec in get_args(BuiltInSpec)
}
"""Models by the value of their `type`."""
OTHER_SCORERS: Extensions[Callable[..., Any]] = Extensions(Kind.SCORER, SPECS.keys())
"""Scorer types of plug-ins, which `acceptance.scorers` calls."""


class OtherSpec(Spec):
    """A scorer of a plug-in. Fields besides `name`, `type` and `required` are its options."""

    model_config = ConfigDict(extra="allow")
    required_by_default = False
    type: str

    @property
    def options(self) -> Mapping[str, Any]:
        return self.model_extra or {}


ScorerSpec: TypeAlias = BuiltInSpec | OtherSpec


@cache
def _adapter() -> TypeAdapter[BuiltInSpec]:
    return TypeAdapter(Annotated[BuiltInSpec, Field(discriminator="type")])


def scorer_spec(scorer: Scorer) -> ScorerSpec:
    """Return a scorer with the fields of its type.

    Raises:
        InputError: the type is unknown or a field is invalid; names the scorer and the field.
    """
    for path, message in scorer_problems(scorer):
        place = ".".join(str(part) for part in path) + ": " if path else ""
        raise InputError(
            f"scorer `{scorer.name}`: {place}{message}",
            remedy="fix it in task.yaml or scenario.yaml, then run `ab task lock`",
        )
    return _validated(scorer)


def scorer_problems(scorer: Scorer) -> KeyProblems:
    """Report every problem in the fields of one scorer, with its key."""
    spec = SPECS.get(scorer.type)
    if spec is None:
        if not OTHER_SCORERS.has(scorer.type):
            known = [*SPECS, *OTHER_SCORERS.names()]
            yield ("type",), f"expected one of {', '.join(known)}; got {scorer.type}{did_you_mean(scorer.type, known)}"
        return
    try:
        _validated(scorer)
    except ValidationError as error:
        known = [name for name in spec.model_fields if name not in {"name", "type", "required"}]
        given = scorer.model_dump(mode="json")
        for detail in error.errors(include_url=False, include_input=False):
            # The first part of the location is the union member.
            path = detail["loc"][1:]
            if detail["type"] == "extra_forbidden":
                fields = f"expected {', '.join(f'`{name}`' for name in known)}" if known else "it has none of its own"
                hint = did_you_mean(str(path[-1]), known)
                yield path, f"unknown field for type `{scorer.type}`; {fields}{hint}"
            elif detail["type"] == "missing":
                yield (), f"missing `{path[-1]}`, required for type `{scorer.type}`"
            elif message := _message(detail, descend(given, path)):
                yield path, message


def _message(detail: ErrorDetails, given: Value) -> str:
    """Describe a validation error; empty if it only follows from another one."""
    kind = detail["type"]
    if kind == "value_error":
        return detail["msg"].removeprefix("Value error, ")
    if kind == "too_short":
        # A list whose only item is invalid is also reported as too short.
        return "expected at least one; the list is empty" if given == [] else ""
    if kind == "string_too_short":
        return "expected some text; it is empty"
    return f"expected {'text' if kind == 'string_type' else expected(detail)}; got {show(given)}"


def _validated(scorer: Scorer) -> ScorerSpec:
    if scorer.type not in SPECS:
        return OtherSpec.model_validate(scorer.model_dump())
    # Strict like the document itself: "5" is not a number. JSON makes lists of tuples.
    return _adapter().validate_json(json.dumps(scorer.model_dump(mode="json")), strict=True)


def scorer_list_problems(scorers: tuple[Scorer, ...]) -> KeyProblems:
    """Report every problem in the list under the key `scorers`."""
    names = [scorer.name for scorer in scorers]
    for index, scorer in enumerate(scorers):
        if scorer.name in names[:index]:
            yield ("scorers", index, "name"), f"two scorers have the name `{scorer.name}`"
        for path, message in scorer_problems(scorer):
            yield ("scorers", index, *path), message


def unmodified_paths(scorers: tuple[Scorer, ...]) -> Iterator[tuple[KeyPath, str]]:
    """Return the paths that scorers require to be unmodified, with their keys. Invalid ones are reported elsewhere."""
    for index, scorer in enumerate(scorers):
        paths = (scorer.model_extra or {}).get("paths")
        if scorer.type in {"tests_unmodified", "baseline_unmodified"} and isinstance(paths, list | tuple):
            yield from (
                (("scorers", index, "paths", position), path)
                for position, path in enumerate(paths)
                if isinstance(path, str)
            )


def missing_unmodified_paths(scorers: tuple[Scorer, ...], exists: Callable[[str], bool]) -> KeyProblems:
    """Report paths that must stay unmodified but are not files of the workspace."""
    for key, path in unmodified_paths(scorers):
        if not exists(path):
            yield key, f"{path} is not a file of the workspace, so the scorer always passes"
