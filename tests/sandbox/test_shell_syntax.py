from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agentbench.sandbox.shell_syntax import PARSERS, syntax_error

pytestmark = pytest.mark.skipif(
    any(shutil.which(name, path="/usr/bin:/bin") is None for name, *_ in PARSERS), reason="needs sh and bash"
)


@pytest.mark.parametrize("line", ["echo 'open", "if true; then", "(echo", "echo a | | b", "for; do", 'x="$(echo"'])
def test_syntax_error_is_named(line: str) -> None:
    assert "yntax error" in syntax_error(line) or "nexpected" in syntax_error(line)


@pytest.mark.parametrize(
    "line",
    ["true", "sh solve.sh; exit 3", "diff <(echo a) <(echo b)", "a=(1 2); [[ ${a[0]} == !(x) ]]", "cat <<'E'\nx\nE"],
)
def test_command_of_sh_or_bash_is_accepted(line: str) -> None:
    assert syntax_error(line) == ""


@pytest.mark.parametrize(
    "template",
    [
        "touch {0}",
        "$(touch {0})",
        "`touch {0}`",
        "set +n; touch {0}",
        "alias x='touch {0}'\nx",
        "trap 'touch {0}' EXIT; exit",
        "echo x > {0}",
        "cat <<E\n$(touch {0})\nE",
        "[[ -v 'a[$(touch {0})]' ]]",
        "$((a[$(touch {0})]))",
        "eval 'touch {0}'; . {0}; exec touch {0}",
        "() {{ touch {0}; }}; (",
        "touch {0}\n'",
    ],
)
def test_nothing_is_executed(tmp_path: Path, template: str) -> None:
    created = tmp_path / "created"
    syntax_error(template.format(created))
    assert not created.exists()
