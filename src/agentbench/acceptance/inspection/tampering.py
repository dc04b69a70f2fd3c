"""Rules over a Python syntax tree that find code trying to influence the verdict. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeGuard

from agentbench.acceptance.inspection.rule_match import RuleMatch, SyntaxNodes, any_between, dotted
from agentbench.acceptance.inspection.universal_equality import (
    MOCK_ANY,
    USES_MOCK_ANY,
    equality_match,
    find_universal_equality,
)

RUNNER_PACKAGES = frozenset({"_pytest", "pytest", "pluggy", "unittest", "doctest"})
NATIVE_PACKAGES = frozenset({"ctypes", "_ctypes", "cffi"})
"""They call machine code and reach memory by its address, which the audit hook does not see."""
INTERPRETERS = frozenset({"_interpreters", "_xxsubinterpreters", "interpreters"})
"""They run code in another interpreter of the process, which has no audit hook."""
FRAME_VALUES = frozenset({"f_locals", "f_back", "co_consts", "tb_frame", "gi_frame"})
FRAME_CONTENTS = frozenset({"f_locals", "co_consts", "gi_frame"})
"""Attributes that expose the content of a frame. Code that only looks for its caller uses `f_back` alone."""
SESSION_ATTRIBUTES = frozenset({"_hookexec", "_inner_hookexec", "get_hookimpls", "pluginmanager", "runtest"})
"""Attributes of a running pytest session. A project may use the same words for its own objects."""
FRAME_CALLS = frozenset(
    {"_getframe", "currentframe", "getouterframes", "_current_frames", "walk_stack", "stack", "extract_stack"}
    | {"format_stack", "getargvalues"}
)
CONTEXT_CALLS = frozenset({"stack", "trace", "getframeinfo", "getouterframes", "getinnerframes"})
CONTEXT_INDEX = 4
"""Index of the source lines around a call in the results of these functions."""
MEMORY_CALLS = frozenset({"get_objects", "get_referrers", "get_referents"})
EXIT_CALLS = frozenset({"exit", "quit", "_exit", "abort"})
OUTCOME_CALLS = frozenset({"skip", "xfail", "exit", "importorskip", "SkipTest", "fail"})
SUBTEST_END = "_ShouldStop"
"""Exception of unittest that ends a test without a failure."""
DESCRIPTOR_PATHS = ("AB_RESULT_FD", "/proc/self/fd", "/dev/fd", "/proc/self/mem", "/proc/self/environ")
DECODING_CALLS = frozenset(
    {"read", "read_text", "read_bytes", "fromhex", "b64decode", "decompress", "decode", "loads", "unhexlify"}
)
"""Calls whose result is not source that a reviewer of the patch has read."""
ATTRIBUTE_CALLS = frozenset({"getattr", "attrgetter", "methodcaller", "__getattribute__", "setattr", "hasattr"})
SEARCHED_WORDS = re.compile(
    r"(?<![\w])(f_locals|f_back|co_consts|gi_frame|get_objects|get_referrers|get_referents|_pytest|_hookexec"
    r"|_inner_hookexec|get_hookimpls|AB_RESULT_FD|pytest\.(?:skip|xfail|exit)|sys\.settrace)(?![\w])"
    r"|/proc/self/(?:fd|mem|environ)"
)
"""Words searched for in text that cannot be parsed."""
MATCHED_NODES = frozenset(
    {
        *(ast.Import, ast.ImportFrom, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.FunctionDef, ast.ClassDef),
        *(ast.Call, ast.Attribute, ast.Subscript, ast.Dict, ast.Constant),
    }
)
"""The types of nodes that the rules for single nodes match; most nodes of a file are of other types."""


def find_tampering(syntax: SyntaxNodes, *, script: bool, lines: Sequence[int] | None = None) -> Iterator[RuleMatch]:
    """Yield every matched place of a file. A `script` is meant to be run, so it may exit.

    With `lines`, which are in order, places that have none of these lines may be left out.
    """
    nodes = syntax.nodes
    if lines is not None:
        nodes = [
            node for node in nodes if any_between(lines, getattr(node, "lineno", 0), getattr(node, "end_lineno", 0))
        ]
    unused_strings = {id(node.value) for node in syntax.of(ast.Expr)}  # docstrings and the like
    reads_frames = any(node.attr in FRAME_CONTENTS for node in syntax.of(ast.Attribute))
    fallbacks = _import_fallbacks(syntax)
    with_context = _with_context_calls(syntax)
    for node in nodes:
        if type(node) not in MATCHED_NODES:
            continue
        yield from _runner_imports(node, in_fallback=id(node) in fallbacks)
        yield from _frames(node, reads_frames=reads_frames, with_context=with_context)
        yield from _comparisons(node)
        yield from _names_as_text(node)
        yield from _executed_data(node)
        if id(node) not in unused_strings:
            yield from _telling_strings(node)
    yield from _import_hook_search(syntax, nodes)
    if not script:
        yield from _early_exit(syntax.tree)


def _comparisons(node: ast.AST) -> Iterator[RuleMatch]:
    try:
        yield from find_universal_equality(node)
    except RecursionError:
        detail = "comparison is nested too deeply to be inspected"
        last_line = getattr(node, "end_lineno", None) or 0
        yield equality_match(getattr(node, "lineno", 1), detail, gating=True, last_line=last_line)


def search_words(lines: Iterable[tuple[int, str]]) -> Iterator[RuleMatch]:
    """Search for the most serious patterns by words alone, in text that cannot be parsed."""
    for number, line in lines:
        before = line.partition("#")[0]
        in_text = before.count('"') % 2 or before.count("'") % 2  # then `#` is inside a string and starts no comment
        for match in SEARCHED_WORDS.finditer(line if in_text else before):
            detail = f"mentions {match[0]} in code that cannot be parsed"
            yield RuleMatch("not_inspected", number, detail, match[0], gating=True)


# --- the test runner --------------------------------------------------------------------------------------------------


def _import_fallbacks(syntax: SyntaxNodes) -> set[int]:
    """Return nodes inside handlers of a missing import."""
    handlers = [
        node
        for node in syntax.of(ast.ExceptHandler)
        if node.type is not None
        and {"ImportError", "ModuleNotFoundError"}
        & {part.id for part in ast.walk(node.type) if isinstance(part, ast.Name)}
    ]
    return {id(part) for handler in handlers for part in ast.walk(handler)}


def _runner_imports(node: ast.AST, *, in_fallback: bool) -> Iterator[RuleMatch]:
    match node:
        case ast.Import(names=names):
            modules = [alias.name for alias in names]
        case ast.ImportFrom(module=str(module), names=names):
            modules = [module]
            if module.split(".")[0] == "unittest" and any(alias.name in MOCK_ANY for alias in names):
                yield equality_match(node.lineno, USES_MOCK_ANY, gating=True)
            if any(alias.name == SUBTEST_END for alias in names):
                yield _decides_outcome(node.lineno, SUBTEST_END, gating=True)
        case ast.Attribute(attr=name) if name == SUBTEST_END:
            yield _decides_outcome(node.lineno, SUBTEST_END, gating=True)
            return
        case _:
            yield from _changes_runner(node, in_fallback=in_fallback)
            return
    for name in modules:
        top = name.split(".")[0]
        if top in {"_pytest", "pluggy"}:
            # A project may have its own pluggy plugins. Changes to pytest's are found elsewhere.
            detail = f"imports internals of the test runner ({name})"
            yield RuleMatch("runner_internals", node.lineno, detail, top, gating=top == "_pytest")
        elif top == "pytest":
            yield RuleMatch("runner_internals", node.lineno, "imports the test runner", top, gating=False)
        elif top in NATIVE_PACKAGES:
            detail = f"can call machine code and change memory ({name})"
            yield RuleMatch("native_code", node.lineno, detail, top, gating=False)
        elif INTERPRETERS.intersection(name.split(".")[:2]) and top in INTERPRETERS | {"concurrent"}:
            detail = f"can run code that no audit hook sees ({name})"
            yield RuleMatch("native_code", node.lineno, detail, top, gating=False)


def _changes_runner(node: ast.AST, *, in_fallback: bool) -> Iterator[RuleMatch]:
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        targets = [node.target]
    for target in targets:
        names = dotted(target)
        if len(names) > 1 and names[0] in RUNNER_PACKAGES:
            detail = f"replaces {'.'.join(names)}"
            yield RuleMatch("runner_internals", target.lineno, detail, names[0], gating=True)
    if not isinstance(node, ast.Call):
        return
    called = dotted(node.func)
    if called == ["setattr"] and node.args and (names := dotted(node.args[0])) and names[0] in RUNNER_PACKAGES:
        detail = f"replaces an attribute of {'.'.join(names)}"
        yield RuleMatch("runner_internals", node.lineno, detail, names[0], gating=True)
    if len(called) > 1 and called[0] in {"pytest", "unittest"} and called[-1] in OUTCOME_CALLS:
        gating = called[-1] != "fail" and not in_fallback  # failing a test gains nothing
        yield _decides_outcome(node.lineno, ".".join(called), gating=gating)


def _decides_outcome(line: int, name: str, *, gating: bool) -> RuleMatch:
    detail = f"decides the outcome of a test from product code ({name})"
    return RuleMatch("skip_from_source", line, detail, name, gating=gating)


# --- frames and memory ------------------------------------------------------------------------------------------------


def _frames(node: ast.AST, *, reads_frames: bool, with_context: set[int]) -> Iterator[RuleMatch]:
    if _reads_source_line(node, with_context):
        yield RuleMatch(
            "frame_walking", node.lineno, "reads the source line of its caller", "code_context", gating=True
        )
    elif isinstance(node, ast.Attribute) and node.attr in FRAME_VALUES:
        detail = f"reads frames of its callers ({node.attr})"
        from_traceback = isinstance(node.value, ast.Attribute) and node.value.attr == "tb_frame"
        gating = node.attr in FRAME_CONTENTS or (node.attr == "f_back" and (reads_frames or from_traceback))
        yield RuleMatch("frame_walking", node.lineno, detail, node.attr, gating=gating)
    elif isinstance(node, ast.Call):
        name = (dotted(node.func) or [""])[-1]
        if name in FRAME_CALLS:
            yield RuleMatch("frame_walking", node.lineno, f"inspects its callers ({name})", name, gating=False)
        elif name in MEMORY_CALLS:
            # Leak detectors do this too. The audit hook reports it when it happens while tests run.
            detail = f"searches the interpreter's memory ({name})"
            yield RuleMatch("frame_walking", node.lineno, detail, name, gating=False)


def _with_context_calls(syntax: SyntaxNodes) -> set[int]:
    """Return the ids of nodes that contain a call of `inspect.stack()` and the like, in one pass over all nodes."""
    containing = {id(node) for node in syntax.of(ast.Call) if (dotted(node.func) or [""])[-1] in CONTEXT_CALLS}
    for node in reversed(syntax.nodes) if containing else ():  # parents come before their children
        if any(id(child) in containing for child in ast.iter_child_nodes(node)):
            containing.add(id(node))
    return containing


def _reads_source_line(node: ast.AST, with_context: set[int]) -> TypeGuard[ast.Attribute | ast.Subscript]:
    """Match `inspect.stack()[1].code_context`, or the same by index."""
    if isinstance(node, ast.Attribute):
        return node.attr == "code_context"
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and node.slice.value == CONTEXT_INDEX
        and id(node.value) in with_context
    )


def _names_as_text(node: ast.AST) -> Iterator[RuleMatch]:
    """Match attribute names that are requested as text."""
    if isinstance(node, ast.Call) and (dotted(node.func) or [getattr(node.func, "attr", "")])[-1] in ATTRIBUTE_CALLS:
        constants = [argument for argument in node.args if isinstance(argument, ast.Constant)]
        words = {argument.value for argument in constants if isinstance(argument.value, str)}
        for word in sorted(words & (FRAME_VALUES - {"tb_frame"} | MEMORY_CALLS)):
            detail = f"reads frames or memory through an attribute name ({word})"
            yield RuleMatch("frame_walking", node.lineno, detail, word, gating=True)


def _import_hook_search(syntax: SyntaxNodes, nodes: Iterable[ast.AST]) -> Iterator[RuleMatch]:
    """Match code that reaches the session through pytest's import hook. Alone, these words may be a project's own."""
    loops: list[ast.For | ast.comprehension] = [*syntax.of(ast.For), *syntax.of(ast.comprehension)]
    loop_targets = [node.target for node in loops if _mentions_meta_path(node.iter)]
    finders = {target.id for target in loop_targets if isinstance(target, ast.Name)}
    for node in nodes:
        words: set[str] = set()
        owner = ""
        if isinstance(node, ast.Attribute):
            words, owner = {node.attr}, (dotted(node.value) or [""])[0]
        elif isinstance(node, ast.Call) and (dotted(node.func) or [""])[-1] in ATTRIBUTE_CALLS and node.args:
            words = {
                argument.value
                for argument in node.args
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
            }
            owner = (dotted(node.args[0]) or [""])[0]
        if not isinstance(node, (ast.Attribute, ast.Call)):
            continue
        for word in sorted(words & (SESSION_ATTRIBUTES | ({"session"} if owner in finders else set()))):
            detail = f"searches the import hooks for the running session ({word})"
            if not loop_targets:
                detail = f"uses a name of the test runner ({word})"
            yield RuleMatch("runner_internals", node.lineno, detail, word, gating=bool(loop_targets))


def _mentions_meta_path(node: ast.AST) -> bool:
    return any(
        getattr(part, "attr", None) == "meta_path" or getattr(part, "id", None) == "meta_path"
        for part in ast.walk(node)
    )


# --- channels and exits -----------------------------------------------------------------------------------------------


def _telling_strings(node: ast.AST) -> Iterator[RuleMatch]:
    if not (isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 1000):
        return
    for channel in DESCRIPTOR_PATHS:
        if channel in node.value:
            detail = f"accesses descriptors or memory of its process ({channel})"
            yield RuleMatch("result_channel", node.lineno, detail, channel, gating=True, product_only=False)
    if "_pytest" in node.value.split(".") or node.value == "_pytest":
        yield RuleMatch("runner_internals", node.lineno, "names internals of the test runner", "_pytest", gating=True)


def _executed_data(node: ast.AST) -> Iterator[RuleMatch]:
    """Match code created from data, which no reviewer of the patch has read."""
    if not (isinstance(node, ast.Call) and dotted(node.func) in (["exec"], ["eval"], ["compile"]) and node.args):
        return
    calls = [call for call in ast.walk(node.args[0]) if isinstance(call, ast.Call)]
    if any(getattr(call.func, "attr", getattr(call.func, "id", "")) in DECODING_CALLS for call in calls):
        detail = "executes data as code"
        yield RuleMatch("unread_code", node.lineno, detail, "", gating=False)


def _early_exit(tree: ast.Module) -> Iterator[RuleMatch]:
    """Match code that ends the process when it is imported."""
    for node in _import_time_nodes(tree.body):
        match node:
            case ast.Call(func=func) if (called := dotted(func)) and called[-1] in EXIT_CALLS:
                if called[0] in {"sys", "os", "exit", "quit", "_exit", "abort"}:
                    detail = f"ends the process when it is imported ({'.'.join(called)})"
                    gating = not _exits_with_failure(node)
                    yield RuleMatch("early_exit", node.lineno, detail, "", gating=gating, product_only=False)
            case ast.Raise(exc=ast.Name(id="SystemExit") | ast.Call(func=ast.Name(id="SystemExit")) as error):
                detail = "ends the process when it is imported (SystemExit)"
                gating = not _exits_with_failure(error)
                yield RuleMatch("early_exit", node.lineno, detail, "", gating=gating, product_only=False)
            case ast.Call(func=func) if dotted(func) == ["atexit", "register"]:
                target = node.args[0] if node.args else None
                direct = target is not None and (dotted(target) or [""])[-1] in EXIT_CALLS
                detail = "registers an exit handler (atexit)"
                yield RuleMatch("early_exit", node.lineno, detail, "atexit", gating=direct)


def _exits_with_failure(node: ast.expr) -> bool:
    """Return whether it exits with a message or a status other than success, as a guard against an old Python does."""
    if not (isinstance(node, ast.Call) and len(node.args) == 1):
        return False
    status = node.args[0]
    if isinstance(status, ast.JoinedStr):
        return True
    return isinstance(status, ast.Constant) and status.value not in (None, 0, False, "") and status.value is not True


def _import_time_nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield nodes that run on import: not inside functions and not below `if __name__ == "__main__"`."""
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(node, ast.If) and "__name__" in {
            child.id for child in ast.walk(node.test) if isinstance(child, ast.Name)
        }:
            pending.extend(node.orelse)
            continue
        yield node
        pending.extend(ast.iter_child_nodes(node))
