"""Options that several commands share, each declared once.

What options lead to, and how commands print, stands here, too.
"""

import argparse
import atexit
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar, get_args

from pydantic.fields import FieldInfo

from ragmetrics_core.cli import example_and_help
from ragmetrics_core.cli.parsers import show_help_without_command
from ragmetrics_core.data import (
    InputError,
    SettingError,
    Settings,
    Usage,
    as_input_error,
    replace_surrogates,
    write_text,
)
from ragmetrics_core.data.display import as_line
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

COLUMNS = (
    "question",
    "contexts",
    "answer",
    "reference",
    "retrieved",
    "facts",
    "expected_ids",
    "expected_contexts",
    "id",
)
"""The fields of a sample whose columns an option may name."""


def positive(text: str) -> int:
    """Read the value of an option: a whole number of at least 1."""
    if int(text) < 1:
        raise ValueError
    return int(text)


def share(text: str) -> float:
    """Read the value of an option: a number from 0 to 1."""
    number = float(text)
    if not 0 <= number <= 1:
        raise ValueError
    return number


def command(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    description: str | None = None,
    epilog: str = "",
) -> argparse.ArgumentParser:
    """Add a command to a parser's commands, and return its parser.

    Args:
        commands: The commands of the parser.
        name: The command; the table of commands has its help and an example.
        run: What the command runs; returns the exit code.
        description: The beginning of the command's own help.
        epilog: The end of the command's own help, before the example.
    """
    example, text = example_and_help(name)
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=text, allow_abbrev=False, description=description
    )
    parser.epilog = f"{epilog} Example: {example}".strip()
    parser.set_defaults(run=run)
    return parser


def group(commands: Any, name: str) -> Any:
    """Add a command that has commands of its own, and return the object to add them to."""
    parser = commands.add_parser(
        name, help=example_and_help(name)[1], allow_abbrev=False
    )
    show_help_without_command(parser)
    return parser.add_subparsers(metavar="COMMAND")


def add(
    parser: Any,
    name: str,
    help_text: str,
    *,
    unit: str | None = None,
    convert: Any = None,
    default: Any = None,
    action: Literal["append"] | None = None,
    nargs: Literal["+", "?", "*"] | None = None,
    choices: Sequence[str] | None = None,
    required: bool = False,
    dest: str | None = None,
) -> None:
    """Add an option or argument with a value to a parser of argparse.

    Example: ``add(parser, "--out", "the results", unit="FILE", convert=Path)``.

    Args:
        parser: The parser, or a group of it.
        name: The option with its dashes, or the argument without.
        help_text: What the help says of it.
        unit: What stands for its value in the help, such as FILE.
        convert: Makes the value of the text that was typed; None keeps the text.
        default: The value if nothing was typed.
        action: As in argparse, like those below.
        nargs: How many values it takes.
        choices: The only values that it takes.
        required: Whether it must be given.
        dest: The name of its attribute among the parsed options.
    """
    settings = {
        "action": action,
        "nargs": nargs,
        "choices": choices,
        "required": required or None,
        "dest": dest,
    }
    # argparse refuses some of these for arguments, even with the value None
    settings_given = {
        key: value for key, value in settings.items() if value is not None
    }
    parser.add_argument(
        name,
        help=help_text,
        metavar=unit,
        type=convert,
        default=default,
        **settings_given,
    )


def flag(parser: Any, name: str, text: str) -> None:
    """Add an option without a value."""
    parser.add_argument(name, action="store_true", help=text)


def add_calls(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that calls models."""
    add_endpoint(parser)
    add(
        parser,
        "--concurrency",
        "most model calls in flight",
        unit="N",
        convert=positive,
        default=32,
    )
    flag(parser, "--dry-run", "print calls, tokens and price, and make no call")
    parser.add_argument(
        "--quiet",
        dest="progress",
        action="store_false",
        default=None,
        help="no progress",
    )
    replies = parser.add_argument_group(
        "stored replies", "nothing is paid twice: replies of models are kept in a file"
    )
    where = replies.add_mutually_exclusive_group()
    add_store(where)
    flag(where, "--no-store", "keep no replies after the run")
    help_text = (
        "ask everything anew, and keep the new replies in place of the old ones; after"
        " an interruption go on without "
    )
    flag(
        replies,
        "--fresh",
        help_text
        + "it, which takes what was paid for, and for the rest the old replies that"
        " there are",
    )


def add_endpoint(parser: Any) -> None:
    """Add the options that name an address and its key."""
    add(
        parser,
        "--api-base",
        "the models' endpoint, e.g. http://127.0.0.1:8000/v1",
        unit="URL",
    )
    help_text = (
        "the environment variable that holds the key of --api-base, which gets no"
        " other; else of the provider itself"
    )
    add(parser, "--api-key-env", help_text, unit="NAME")


def add_store(parser: Any) -> None:
    """Add the option that names the file of stored replies."""
    add(
        parser,
        "--store",
        "by default RAGMETRICS_STORE, else in the user's cache folder",
        unit="FILE",
        convert=Path,
    )


def add_judge(
    parser: argparse.ArgumentParser,
    other_choices: str = "",
    *,
    action: Literal["append"] | None = None,
    default: list[str] | None = None,
) -> None:
    """Add the option that names a judge; with ``append`` it may be given several times."""
    help_text = (
        "lexical (embedded, the default), a model, e.g. gpt-4o-mini, or module:name of"
        f" your own{other_choices}"
    )
    add(parser, "--judge", help_text, unit="NAME", default=default, action=action)


def add_metric(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the one metric of a run that is meant."""
    add(
        parser,
        "--metric",
        "name of the metric; by default the run's only one",
        unit="NAME",
    )


def add_explain(parser: Any) -> None:
    """Add the option that shows what stands behind the first screen."""
    help_text = "print all numbers, methods and remarks below the first screen"
    flag(parser, "--explain", help_text)


def add_name(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a run."""
    add(parser, "--name", "what to call the run, in results and titles", unit="NAME")


def add_clusters_of_samples(parser: argparse.ArgumentParser, only: str = "") -> None:
    """Add the option that says which samples belong together.

    None if each stands alone.
    """
    help_text = (
        f"{only}samples that belong together, e.g. user.id in their metadata; none if"
        " each stands alone; by default "
    )
    help_text += "the conversation or source document, where there is one"
    add(
        parser,
        "--cluster",
        help_text,
        unit="KEY",
        convert=lambda key: None if key == "none" else key,
        default="auto",
    )


def add_settings(
    parser: Any, settings: type[Settings], only: Sequence[str] = (), about: str = ""
) -> None:
    """Add an option for each setting of a class.

    The setting's type decides the kind of option: a flag without a value (true or
    false), a number, or else a path. A setting whose default is a text takes a text.
    Example: the setting ``max_calls`` becomes ``--max-calls N``.

    Args:
        parser: A parser, or a group of it, to which the options are added.
        settings: The class, whose fields are the settings.
        only: Names of the settings to add; () for all. An option that is not given on
            the command line has the setting's default; with names here, it is None.
        about: Words before the help of each option, except of flags.
    """
    for name in only or settings.model_fields:
        field = settings.model_fields[name]
        option = f"--{name.replace('_', '-')}"
        types = _types_of(field)
        help_text = f"{about}{field.description}"
        if field.default is not None:
            help_text += f" ({field.default})"
        default = None if only else field.default
        if bool in types:
            flag(parser, option, field.description or "")
        elif isinstance(field.default, str):
            choices = get_args(field.annotation) or None
            add(parser, option, help_text, default=default, choices=choices)
        elif int in types or float in types:
            convert = _converter_to_number(field)
            add(parser, option, help_text, unit="N", convert=convert, default=default)
        else:
            add(parser, option, help_text, unit="FILE", convert=Path, default=default)


def _types_of(field: FieldInfo) -> set[Any]:
    """Return the type of a field and its parts: of ``int | None`` int and NoneType."""
    return {field.annotation, *get_args(field.annotation)}


def _converter_to_number(field: FieldInfo) -> Callable[[str], float]:
    """Return the function that makes a setting's number of a text.

    A whole number must be at least 1. Where the default is 0 or None, 0 may have a
    meaning, so the settings class itself checks the number.
    """
    if int not in _types_of(field):
        return float
    return positive if field.default else int


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
    replies = SqliteStore(options.store or default_path(), fresh=options.fresh)
    # When the command ends, the last replies are written to the file.
    atexit.register(replies.flush)
    return replies


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


def add_gates(parser: argparse.ArgumentParser) -> Any:
    """Add the options on gates, i.e. means to reach; return their group."""
    gates = parser.add_argument_group("gates")
    help_text = (
        "e.g. adherence=0.8, for each language adherence=0.8@metadata.language,"
        " answered=0.8, or share(adherence>0.5)=0.95; may be repeated"
    )
    add(
        gates,
        "--fail-under",
        help_text,
        unit="METRIC=MEAN",
        default=[],
        action="append",
    )
    add_summary(gates)
    add_undecided(gates)
    return gates


def add_undecided(parser: Any) -> None:
    """Add the options that say when a gate is undecided, which is exit code 3."""
    help_text = (
        "a gate is undecided, too, where the rows are too few to tell: the interval"
        " holds the threshold"
    )
    flag(parser, "--strict", help_text)
    help_text = (
        "share of the rows that must be scored; with fewer a gate is undecided"
        f" ({MIN_SCORED})"
    )
    add(parser, "--min-scored", help_text, unit="SHARE", convert=share)
    help_text = (
        "share above which answers must not decline; else a gate is undecided"
        f" ({MIN_ANSWERED})"
    )
    add(parser, "--min-answered", help_text, unit="SHARE", convert=share)


def add_allow_broken(parser: Any) -> None:
    """Add the option that lets gates be decided on a file with broken lines."""
    help_text = (
        "decide gates although lines of a file are broken, as after a full disk; each"
        " counts as a row without a score"
    )
    flag(parser, "--allow-broken", help_text)


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


def add_summary(parser: Any) -> None:
    """Add the option that names a Markdown file for people who read a CI job.

    See ``summarise``.
    """
    help_text = (
        "write Markdown for a CI job's summary; by default added to"
        " $GITHUB_STEP_SUMMARY, where that is set"
    )
    add(parser, "--summary", help_text, unit="FILE.md", convert=Path)


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


def show(*lines: str) -> None:
    """Print lines, each on one line.

    A line end within a line comes from data, and becomes a blank: so no text of data
    can begin a line. Control characters become visible. A reader that went away, such
    as ``head``, changes neither the run nor its exit code.
    """
    try:
        print("\n".join(map(as_line, lines)), flush=True)
    except BrokenPipeError:
        discard_output()


def discard_output() -> None:
    """Throw away what is still to be printed, so that the interpreter ends quietly."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
