"""Write the software bill of materials of the wheel in a folder, as CycloneDX JSON beside it.

python scripts/sbom.py FOLDER

uv exports the locked dependencies with their digests. This script adds the version and the digest of the wheel, marks what only
extras install as optional, and replaces random and current values, so that the same commit gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def locked_dependencies(*options: str) -> dict[str, Any]:
    """Return uv's export of the locked dependencies."""
    command = [str(ROOT / "scripts" / "uv"), "export", "--quiet", "--frozen", "--no-default-groups"]
    result = subprocess.run(
        [*command, "--format", "cyclonedx1.5", *options], cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    export: dict[str, Any] = json.loads(result.stdout)
    return export


def describe(bom: dict[str, Any], core: dict[str, Any], wheel: Path, built: datetime) -> None:
    """Make an export of all extras the bill of materials of a wheel. `core` is the export without extras."""
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    bom["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'sha256:{digest}')}"
    bom["metadata"]["timestamp"] = built.strftime("%Y-%m-%dT%H:%M:%SZ")
    name, version = wheel.name.split("-")[:2]
    bom["metadata"]["component"] |= {
        "version": version,
        "purl": f"pkg:pypi/{name.replace('_', '-')}@{version}",
        "hashes": [{"alg": "SHA-256", "content": digest}],
        "licenses": [{"expression": "Apache-2.0"}],
    }
    required = {component["purl"] for component in core["components"]}
    for component in bom["components"]:
        component["scope"] = "required" if component["purl"] in required else "optional"


def commit_time() -> datetime:
    epoch = (
        os.environ.get("SOURCE_DATE_EPOCH")
        or subprocess.run(
            ["git", "log", "-1", "--format=%ct"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
        ).stdout.strip()
    )
    return datetime.fromtimestamp(int(epoch), tz=UTC)


def main() -> None:
    (wheel,) = Path(sys.argv[1]).glob("*.whl")
    bom = locked_dependencies("--all-extras")
    describe(bom, locked_dependencies(), wheel, commit_time())
    target = wheel.with_name("-".join(wheel.name.split("-")[:2]) + ".cdx.json")
    target.write_text(json.dumps(bom, indent=2) + "\n", encoding="utf-8")
    required = sum(component["scope"] == "required" for component in bom["components"])
    print(f"{target}: {required} required and {len(bom['components']) - required} optional packages")


if __name__ == "__main__":
    main()
