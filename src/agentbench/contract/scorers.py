"""The eleven types of scorers, each with its own fields, ranges and defaults. What they do stands with the oracle."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from agentbench.contract.file_locations import Found
from agentbench.contract.problem import did_you_mean
from agentbench.contract.schema import Model, NonEmpty, Scorer
from agentbench.contract.schema_problems import expected, show
from agentbench.contract.yaml_document import Value, descend
from agentbench.core.errors import InputError

MAX_TIMEOUT = 3600
DEFAULT_TIMEOUT = 900
DEFAULT_TESTS = (
    "test_*.py", "*/test_*.py", "*_test.py", "tests.py", "*/tests.py", "conftest.py", "*/conftest.py",
    "test/*", "*/test/*", "tests/*", "*/tests/*", "spec/*", "*/spec/*", "__tests__/*", "*/__tests__/*",
    "*_test.go", "*_test.rs", "*.test.[jt]s", "*.test.[jt]sx", "*.spec.[jt]s", "*.spec.[jt]sx",
    "*Test.java", "*Tests.java", "*Test.kt", "*_spec.rb", "*_test.rb",
)  # fmt: skip
"""What counts as a test file where a scorer does not say: names that test runners look for, and folders of tests."""


def _relative(path: str) -> str:
    """A path inside the workspace, written in the only form a changed file is listed in."""
    parts = path.split("/")
    if "\x00" in path:
        raise ValueError("expected no NUL character")
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
    """An fnmatch pattern that can match a path of a changed file at all."""
    if pattern.startswith(("/", "./")) or ".." in pattern.split("/") or "\x00" in pattern:
        raise ValueError(f"expected a pattern for paths relative to the workspace; {pattern} can match none")
    if pattern.endswith("/"):
        raise ValueError(f"{pattern} matches no file; for everything below it write {pattern}*")
    if _unclosed(pattern):
        raise ValueError(f"the bracket in {pattern} is never closed; for the character itself write [[]")
    return pattern


def _unclosed(pattern: str) -> bool:
    """Whether a bracket has no end, so that fnmatch takes it for the character itself. The first character within never ends it."""
    at = 0
    while (at := pattern.find("[", at)) >= 0:
        end = pattern.find("]", at + (3 if pattern.startswith("[!", at) else 2))
        if end < 0:
            return True
        at = end + 1
    return False


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("expected some text; it is blank")
    return text


Said = Annotated[NonEmpty, AfterValidator(_said)]
RelativePath = Annotated[NonEmpty, AfterValidator(_relative)]
ExactPath = Annotated[NonEmpty, AfterValidator(_exact)]
Pattern = Annotated[NonEmpty, AfterValidator(_pattern)]
SomePatterns = Annotated[tuple[Pattern, ...], Field(min_length=1)]
SomePaths = Annotated[tuple[ExactPath, ...], Field(min_length=1)]


class Spec(Model):
    """What every scorer has. `required` is None when the author left it to the type."""

    required_by_default: ClassVar[bool] = True
    name: NonEmpty
    required: bool | None = None

    @property
    def is_required(self) -> bool:
        return self.required_by_default if self.required is None else self.required


class CommandSpec(Spec):
    """The command must exit with 0."""

    type: Literal["command"]
    command: Said
    timeout_s: Annotated[int, Field(ge=1, le=MAX_TIMEOUT)] = DEFAULT_TIMEOUT


class AllowedPathsSpec(Spec):
    """Every changed file matches one of the patterns."""

    type: Literal["allowed_paths"]
    patterns: SomePatterns


class ForbidPathsSpec(Spec):
    """No changed file matches any of the patterns."""

    type: Literal["forbid_paths"]
    patterns: SomePatterns


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

    __test__: ClassVar[bool] = False  # no test class, though its name begins like one
    type: Literal["tests_unmodified"]
    paths: SomePaths


class BaselineUnmodifiedSpec(Spec):
    """None of these files was edited."""

    type: Literal["baseline_unmodified"]
    paths: SomePaths


class NoNewSkipsSpec(Spec):
    """No more skip and xfail markers in changed test files than before."""

    required_by_default = False
    type: Literal["no_new_skips"]
    test_globset: SomePatterns | None = None


class AssertionsNotWeakenedSpec(Spec):
    """No fewer assertions in changed test files than before."""

    required_by_default = False
    type: Literal["assertions_not_weakened"]
    test_globset: SomePatterns | None = None


class LlmJudgeSpec(Spec):
    """A note for the judge. It never gates, whatever `required` says."""

    required_by_default = False
    type: Literal["llm_judge"]
    rubric: Said


ScorerSpec: TypeAlias = (
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

SPECS: Mapping[str, type[ScorerSpec]] = {
    "command": CommandSpec,
    "allowed_paths": AllowedPathsSpec,
    "forbid_paths": ForbidPathsSpec,
    "max_files_changed": MaxFilesChangedSpec,
    "forbid_secrets": ForbidSecretsSpec,
    "file_exists": FileExistsSpec,
    "tests_unmodified": TestsUnmodifiedSpec,
    "baseline_unmodified": BaselineUnmodifiedSpec,
    "no_new_skips": NoNewSkipsSpec,
    "assertions_not_weakened": AssertionsNotWeakenedSpec,
    "llm_judge": LlmJudgeSpec,
}
_ADAPTER: TypeAdapter[ScorerSpec] = TypeAdapter(Annotated[ScorerSpec, Field(discriminator="type")])


def scorer_spec(scorer: Scorer) -> ScorerSpec:
    """A scorer with its typed fields.

    Raises:
        InputError: a type nobody has, or a field that is wrong; names the scorer and the field.
    """
    for path, message in scorer_problems(scorer):
        place = ".".join(str(part) for part in path)
        raise InputError(
            f"scorer `{scorer.name}`: {place}: {message}",
            remedy="correct it in task.yaml or scenario.yaml, then lock anew",
        )
    return _validated(scorer)


def scorer_problems(scorer: Scorer) -> Found:
    """Everything wrong with the fields of one scorer, each with its key."""
    spec = SPECS.get(scorer.type)
    if spec is None:
        yield ("type",), f"expected one of {', '.join(SPECS)}; got {scorer.type}{did_you_mean(scorer.type, SPECS)}"
        return
    try:
        _validated(scorer)
    except ValidationError as error:
        known = [name for name in spec.model_fields if name not in {"name", "type", "required"}]
        given = scorer.model_dump(mode="json")
        for detail in error.errors(include_url=False, include_input=False):
            # The validator puts the member of the union first.
            path = detail["loc"][1:]
            if detail["type"] == "extra_forbidden":
                fields = f"it has {', '.join(f'`{name}`' for name in known)}" if known else "it has none"
                hint = did_you_mean(str(path[-1]), known)
                yield path, f"is no field of a {scorer.type} scorer; {fields}{hint}"
            elif detail["type"] == "missing":
                yield (), f"expected `{path[-1]}`, which a {scorer.type} scorer needs"
            elif words := _words(detail, descend(given, path)):
                yield path, words


def _words(detail: ErrorDetails, given: Value) -> str:
    """What was expected and what came; empty for what follows from another problem."""
    kind = detail["type"]
    if kind == "value_error":
        return detail["msg"].removeprefix("Value error, ")
    if kind == "too_short":
        # A list whose only item is wrong also counts as too short, once that item is gone.
        return "expected at least one; the list is empty" if given == [] else ""
    if kind == "string_too_short":
        return "expected some text; it is empty"
    wanted = "text" if kind == "string_type" else expected(detail)
    return f"expected {wanted}; got {show(given)}"


def _validated(scorer: Scorer) -> ScorerSpec:
    # Strict as in a document: "5" is no number. Lists come as tuples or lists, hence by way of JSON.
    return _ADAPTER.validate_json(json.dumps(scorer.model_dump(mode="json")), strict=True)


def listed_problems(scorers: tuple[Scorer, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What is wrong with a list of scorers at the key `scorers`."""
    names = [scorer.name for scorer in scorers]
    for index, scorer in enumerate(scorers):
        if scorer.name in names[:index]:
            yield ("scorers", index, "name"), f"`{scorer.name}` is the name of two scorers"
        for path, message in scorer_problems(scorer):
            yield ("scorers", index, *path), message


UNGUARDED = "is no file of the workspace: nobody can edit it, so the scorer passes whatever happens"


def guarded(scorers: tuple[Scorer, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The paths that scorers say must not be edited, each with its key. Ill-formed ones are complained about elsewhere."""
    for index, scorer in enumerate(scorers):
        paths = (scorer.model_extra or {}).get("paths")
        if scorer.type in {"tests_unmodified", "baseline_unmodified"} and isinstance(paths, list | tuple):
            yield from (
                (("scorers", index, "paths", at), path) for at, path in enumerate(paths) if isinstance(path, str)
            )


def unguarded(
    scorers: tuple[Scorer, ...], is_there: Callable[[str], bool]
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Paths that must not be edited and that the workspace does not have as a file."""
    yield from ((key, f"{path} {UNGUARDED}") for key, path in guarded(scorers) if not is_there(path))
