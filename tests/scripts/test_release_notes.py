"""The section of the changelog that describes a release."""

from __future__ import annotations

import pytest

from scripts.release_notes import release_notes

pytestmark = pytest.mark.component
OLDER = "## [0.1.0] - 2026-01-01\n\n### Added\n\n- First.\n"


def test_section_of_the_version_is_returned() -> None:
    text = f"# Changelog\n\n## [0.2.0] - 2026-02-03\n\n### Fixed\n\n- A bug.\n\n{OLDER}"
    assert release_notes(text, "0.2.0") == "### Fixed\n\n- A bug."


@pytest.mark.parametrize(
    "first,problem",
    [
        ("## [Unreleased] (0.2.0)\n\n- A bug.\n", "the first section is \\[Unreleased\\]"),
        ("", "the first section is \\[0.1.0\\]"),
        ("## [0.2.0]\n\n- A bug.\n", "has no date"),
        ("## [0.2.0] - soon\n\n- A bug.\n", "has no date"),
        ("## [0.2.0] - 2026-02-03\n\n### Added\n\n", "lists no changes"),
    ],
)
def test_section_that_does_not_describe_the_release_is_refused(first: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        release_notes(f"# Changelog\n\n{first}\n{OLDER}", "0.2.0")
