from __future__ import annotations

from pathlib import Path

from agentbench.core.errors import ModelFault
from agentbench.models import faults
from agentbench.models.gateway.server import PORT
from agentbench.models.keys import preset_key_names
from agentbench.models.presets import bundled_presets
from agentbench.models.recording.request_diff import KEYS
from agentbench.policy.prices import FALLBACK, UNITS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/models.md").read_text(encoding="utf-8")
CONFIGURATION = (ROOT / "docs/reference/configuration.md").read_text(encoding="utf-8")


def test_page_lists_every_provider_and_variable() -> None:
    presets = bundled_presets()
    assert all(f"`{name}`" in PAGE for name in (*presets.providers, *presets.models, *preset_key_names()))
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    assert all(f"# {name}=" in example for name in preset_key_names())


def test_page_lists_every_fault_status() -> None:
    kinds = [kind for kind in vars(faults).values() if isinstance(kind, type) and issubclass(kind, ModelFault)]
    inner = {"service_error", "bad_answer", "replay"}
    labels = {getattr(kind, "label", "") for kind in kinds} - inner - {""}
    assert [label for label in sorted(labels) if f"`{label}`" not in PAGE] == []


def test_page_lists_ignored_request_keys_and_gateway_port() -> None:
    assert [key for key in KEYS if f"`{key}`" not in PAGE] == []
    assert f"127.0.0.1:{PORT}" in PAGE


def test_configuration_page_lists_every_price_unit() -> None:
    assert [unit for unit in UNITS if f"`{unit}`" not in CONFIGURATION] == []
    assert FALLBACK.method_id in CONFIGURATION
