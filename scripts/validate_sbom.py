"""Validate a bill of materials against the CycloneDX schema.

uv run --no-project --with cyclonedx-python-lib --with jsonschema python scripts/validate_sbom.py FILE

The extra `json-validation` would also check the syntax of every address, which takes minutes for the thousand files of the lock.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(Path(sys.argv[1]).read_text(encoding="utf-8"))
if error is not None:
    sys.exit(f"{sys.argv[1]}: not CycloneDX 1.5: {error}")
print(f"{sys.argv[1]}: valid CycloneDX 1.5")
