"""Options that several commands share, each declared once.

What options lead to, and how commands print, stands here, too.
"""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from ragmetrics_core.data import (
    RagMetricsError,
    SettingError,
    Settings,
    Usage,
    replace_surrogates,
    write_text,
)
from ragmetrics_core.models.reply_store import (
    MemoryStore,
    ReplyStore,
    SqliteStore,
    default_path,
)
from ragmetrics_core.reporting.gates import Gate, decide
from ragmetrics_core.reporting.run_facts import Decision
from ragmetrics_core.reporting.summary import Summary

BAD_INPUT = 2
"""The exit code of a command whose input cannot be used."""

S = TypeVar("S", bound=Settings)


def settings_from(options: argparse.Namespace, settings: type[S]) -> S:
    """Return the settings, from the options that a command has for them.

    Raises:
        SettingError: If a value is invalid; it names the option.
    """
    values = {name: getattr(options, name) for name in settings.model_fields}
    try:
        return settings(**values)
    except SettingError as error:
        # "Limits: max_cost: …" in Python
        problem = str(error).removeprefix(f"{settings.__name__}: ")
        name, _, sentence = problem.partition(": ")
        option = f"--{name.replace('_', '-')}"
        raise type(error)(f"{option}: {sentence}") from None


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

    Example: "40 calls, stored replies: 10, $0.0200".
    """
    parts = ["1 call" if usage.calls == 1 else f"{usage.calls} calls"]
    if usage.stored:
        parts.append(usage.stored_in_words)
    if usage.faults:
        parts.append(f"{usage.faults} repeated after faults")
    parts.append("price unknown" if usage.cost is None else f"${usage.cost:.4f}")
    return ", ".join(parts)


def decide_gates(
    gates: Iterable[Gate], summary: Summary, options: argparse.Namespace
) -> list[Decision]:
    """Decide each gate by the numbers of a run, as the options say."""
    return [
        decide(
            gate,
            summary,
            strict=options.strict,
            min_scored=options.min_scored,
            min_answered=options.min_answered,
        )
        for gate in gates
    ]


def exit_code(decisions: Iterable[Decision]) -> int:
    """Return the exit code for all gates: 1 if one failed, 3 if one is undecided, else 0."""
    outcomes = {decision.outcome for decision in decisions}
    if "failed" in outcomes:
        return 1
    return 3 if "undecided" in outcomes else 0


def exit_code_of_run(summary: Summary, decisions: Sequence[Decision]) -> int:
    """Return the exit code of a run: that of its gates.

    Without any it is 1 if nothing was scored, and 3 if the results are incomplete.
    """
    if decisions:
        return exit_code(decisions)
    if not any(metric.count for metric in summary.metrics):
        return 1
    return 3 if summary.stopped else 0


class Outputs:
    """Writes what a command makes, before it prints: so a verdict has the exit code.

    An output that cannot be written takes nothing else away: the first error is raised
    at the end, when all is printed.
    """

    def __init__(self) -> None:
        self._error: RagMetricsError | None = None

    @contextmanager
    def written(self) -> Iterator[None]:
        """Write one output inside; keep its error."""
        try:
            yield
        except RagMetricsError as error:
            self._error = self._error or error

    def exit_code(self, if_written: int) -> int:
        """Return the exit code of the command: the given one if all could be written."""
        return if_written if self._error is None else BAD_INPUT

    def end(self) -> None:
        """Raise the first error, if there was one."""
        if self._error is not None:
            raise self._error


def write_job_summary(options: argparse.Namespace, text: str) -> None:
    """Write the summary of a CI job, if there is a file for it.

    The file that ``--summary`` names is replaced. To the file that the CI job names,
    ``$GITHUB_STEP_SUMMARY``, the text is added. If that fails, a line says so: nobody
    asked for it.

    Raises:
        InputError: If the file of ``--summary`` cannot be written.
    """
    if options.summary:
        write_text(options.summary, text, "the summary")
        return
    file_of_job = os.environ.get("GITHUB_STEP_SUMMARY")
    if not file_of_job:
        return
    try:
        with Path(file_of_job).open("a", encoding="utf-8") as file:
            file.write(f"{replace_surrogates(text)}\n")
    except OSError as error:
        print(
            f"ragmetrics: GITHUB_STEP_SUMMARY cannot be written: {error.strerror};"
            " --summary names another file",
            file=sys.stderr,
        )
