"""The cluster files in `examples/ray` are valid: by Ray's own schema, and by the definition of KubeRay if it is at hand."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.execution.cluster.ray_nodes import ROOT

pytestmark = [pytest.mark.component, pytest.mark.req("R-14a")]

EXAMPLES = ROOT / "examples" / "ray"
KUBERAY_CRD = "AB_KUBERAY_CRD"
"""Path of `ray.io_rayclusters.yaml`, which the KubeRay project publishes. It is not part of this repository."""


def test_file_for_virtual_machines_is_valid_for_ray() -> None:
    autoscaler = pytest.importorskip("ray.autoscaler")
    jsonschema = pytest.importorskip("jsonschema")
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = yaml.safe_load((EXAMPLES / "cluster.yaml").read_text())
    schema = json.loads((Path(autoscaler.__file__).parent / "ray-schema.json").read_text())
    jsonschema.validate(config, schema)
    validate_config(prepare_config(config))


def strict(schema: Any) -> Any:
    """Return a schema that rejects unknown keys, as the Kubernetes server does on request."""
    if isinstance(schema, list):
        return [strict(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    own = {name: strict(inner) for name, inner in schema.items()}
    if own.get("x-kubernetes-int-or-string"):
        own["type"] = ["integer", "string"]
    if "properties" in own and not own.get("x-kubernetes-preserve-unknown-fields"):
        own.setdefault("additionalProperties", False)
    return own


def test_file_for_kuberay_is_a_ray_cluster() -> None:
    cluster = yaml.safe_load((EXAMPLES / "kuberay.yaml").read_text())
    assert (cluster["apiVersion"], cluster["kind"]) == ("ray.io/v1", "RayCluster")
    groups = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
    for group in groups:
        (container,) = group["template"]["spec"]["containers"]
        assert {"name": "RAY_AUTH_MODE", "value": "token"} in container["env"]
        assert container["resources"]["limits"] == container["resources"]["requests"]
    if KUBERAY_CRD not in os.environ:
        return
    jsonschema = pytest.importorskip("jsonschema")
    versions = yaml.safe_load(Path(os.environ[KUBERAY_CRD]).read_text())["spec"]["versions"]
    (schema,) = (version["schema"]["openAPIV3Schema"] for version in versions if version["name"] == "v1")
    jsonschema.Draft202012Validator(strict(schema["properties"]["spec"])).validate(cluster["spec"])
