"""Ships unchecked bytecode next to an innocent source."""

from __future__ import annotations

from tests.cheats.snippets import EXITING_MODULE

FAMILY = "bytecode"
SCRIPT = (
    EXITING_MODULE
    + r"""python - <<'END'
import py_compile
py_compile.compile("/tmp/evil.py", "/workspace/src/toy/__pycache__/core.cpython-311.pyc", invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
py_compile.compile("/tmp/evil.py", "/workspace/src/toy/__pycache__/__init__.cpython-311.pyc", invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
END
echo '# looked at' >> src/toy/core.py
"""
)
