"""Help that lists the options of a command under headings."""

from __future__ import annotations

import click

SECTIONS: dict[str, tuple[str, ...]] = {
    "Tasks": ("path", "suite", "tasks_dir", "tasks", "strata", "failed_of", "limit"),
    "Comparison": (
        *("variants", "repeats", "seed", "dry_run"),
        *("stop_when", "stop_rule", "looks", "margin", "futility"),
    ),
    "Agent and model": (
        *("agent", "name", "agent_command", "agent_files", "script", "max_steps", "operator"),
        *(
            "model",
            "temperature",
            "model_patience",
            "preflight",
            "preflight_wait",
            "lenient",
            "judge_model",
            "judge_repeats",
        ),
        "monitors",
    ),
    "Cost": ("prices", "task_usd", "total_usd"),
    "Sandbox and workers": ("sandbox", "fresh_setup", "workers", "executor", "ray_address"),
    "Evidence": ("evidence", "vault_recipients", "vault_passphrase", "sign", "witness"),
    "Output": ("out", "view", "as_json", "fail_on", "notify"),
}
"""Heading -> names of parameters, in the order of the help."""
OTHER = "Other options"


class SectionedCommand(click.Command):
    """A command whose help lists options under the headings of `SECTIONS`, and those without one last."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records = {parameter.name: parameter.get_help_record(ctx) for parameter in self.get_params(ctx)}
        listed = {name for names in SECTIONS.values() for name in names}
        for heading, names in {**SECTIONS, OTHER: [name for name in records if name not in listed]}.items():
            rows = [record for name in names if (record := records.get(name)) is not None]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)
