"""Options that several commands share, each declared once.

What options lead to, and how commands print, stands here, too.
"""

import argparse
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn, TypeVar

from ragmetrics_core.data import (
    InputError,
    SettingError,
    Settings,
    Usage,
    as_input_error,
    replace_surrogates,
    write_text,
)
from ragmetrics_core.models.reply_store import (
    MemoryStore,
    ReplyStore,
    SqliteStore,
    default_path,
)
from ragmetrics_core.reporting.run_facts import Decision
from ragmetrics_core.statistics.stopping import MIN_ANSWERED, MIN_SCORED

BAD_INPUT = 2
"""The exit code of a command whose input cannot be used."""

S = TypeVar("S", bound=Settings)


def settings_from(options: argparse.Namespace, settings: type[S]) -> S:
    """Return the settings, from the options that ``add_settings`` added.

    Raises:
        SettingError: If a value is invalid.
    """
    return settings(**{name: getattr(options, name) for name in settings.model_fields})


def store(options: argparse.Namespace) -> ReplyStore:
    """Return the store of replies: the file of ``--store``, or the usual file.

    The file is made at the first call of a model. With ``--no-store`` replies stay in
    memory.
    """
    if options.no_store:
        return MemoryStore()
    return SqliteStore(options.store or default_path(), fresh=options.fresh)


def needs_out(options: argparse.Namespace) -> None:
    """Raise ``SettingError`` if a command lacks the name of the file that it makes.

    With ``--dry-run`` it makes none.
    """
    if options.out is None and not options.dry_run:
        raise SettingError(
            "--out names the file to write; without it only --dry-run makes sense"
        )


def spent(usage: Usage) -> str:
    """Return in words how many calls were made, how many were saved, and the cost.

    Example: "40 calls, 10 replies from the store, $0.0200".
    """
    parts = ["1 call" if usage.calls == 1 else f"{usage.calls} calls"]
    if usage.stored:
        parts.append(f"{usage.stored} replies from the store")
    if usage.faults:
        parts.append(f"{usage.faults} repeated after faults")
    # in a cascade a cheap judge decides some questions, and passes the others on
    n_asked_of_cheap_judge = usage.spared + usage.passed
    if n_asked_of_cheap_judge:
        parts.append(
            f"the cheap judge decided {usage.spared} of {n_asked_of_cheap_judge}"
            " questions"
        )
    parts.append("price unknown" if usage.cost is None else f"${usage.cost:.4f}")
    return ", ".join(parts)


_DEFAULTS_OF_GATES = {
    "min_scored": MIN_SCORED,
    "min_answered": MIN_ANSWERED,
}


def set_defaults_of_gate_options(
    options: argparse.Namespace, option: str, *, has_gate: bool
) -> None:
    """Give the options on how gates are decided their defaults, if they are not typed.

    Args:
        options: What was typed. It is changed.
        option: The option that gives the command a gate, for the message.
        has_gate: Whether the command has a gate to decide.

    Raises:
        SettingError: If such an option was typed, but there is no gate.
    """
    for name, default in _DEFAULTS_OF_GATES.items():
        if name not in options:
            continue
        if getattr(options, name) is None:
            setattr(options, name, default)
        elif not has_gate:
            _refuse_without_gate(name, option)
    if "strict" in options and options.strict and not has_gate:
        _refuse_without_gate("strict", option)


def _refuse_without_gate(name: str, option: str) -> NoReturn:
    """Raise ``SettingError`` for an option on gates where there is none."""
    raise SettingError(
        f"--{name.replace('_', '-')} belongs to {option}, and no gate is held: give"
        f" {option}, or leave it out"
    )


def exit_code(decisions: Iterable[Decision]) -> int:
    """Return the exit code for all gates: 1 if one failed, 3 if one is undecided, else 0."""
    outcomes = {decision.outcome for decision in decisions}
    if "failed" in outcomes:
        return 1
    return 3 if "undecided" in outcomes else 0


def summarise(options: argparse.Namespace, text: str) -> None:
    """Write the summary of a CI job, if there is a file for it.

    The file that ``--summary`` names is replaced. To the file that the CI job names,
    ``$GITHUB_STEP_SUMMARY``, the text is added.
    """
    if options.summary:
        write_text(options.summary, text, "the summary")
        return
    file_of_job = os.environ.get("GITHUB_STEP_SUMMARY")
    if file_of_job:
        with (
            as_input_error("GITHUB_STEP_SUMMARY cannot be written"),
            Path(file_of_job).open("a", encoding="utf-8") as file,
        ):
            file.write(f"{replace_surrogates(text)}\n")


def write_job_summary(options: argparse.Namespace, text: str) -> InputError | None:
    """Write the summary of a CI job; return the error if it cannot be written.

    The error is not raised here, so that the command can print its result before. The
    result names the exit code, which an error changes to ``BAD_INPUT``.
    """
    try:
        summarise(options, text)
    except InputError as failure:
        return failure
    return None
