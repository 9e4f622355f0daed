"""Entry point of the ``ragmetrics`` command.

Exit codes: 0 all well; 1 a gate failed, or nothing was scored; 2 bad input or an
unusable judge; 3 a gate is undecided; 4 batches are on their way; 130 interrupted (what
is done is written).
"""

import argparse
import logging
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from io import TextIOWrapper
from typing import TextIO

from ragmetrics_core.cli import COMMANDS, example_and_help

# The module that adds a command. A command that is not listed has a module of its name.
_MODULE_BY_COMMAND = {
    **dict.fromkeys(("init", "demo", "trust"), "start"),
    "evaluate": "evaluate_options",
    "agreement draw": "agreement",
    "report": "report_page",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    Args:
        arguments: What was typed after ``ragmetrics``; None for the process's own.
    """
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:  # Ctrl-C, also while modules are imported in ``_run``
        print("ragmetrics: interrupted", file=sys.stderr)
        return 130


def _run(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name, and print its errors.

    It imports its modules itself, so that ``main`` also handles a Ctrl-C meanwhile.
    Example: ``["evaluate", "rows.csv"]`` without such a file prints "ragmetrics: …" and
    returns 2.

    Returns:
        The exit code: that of the command, 2 for an error of input or settings, and 0
        if nobody reads the output any more (such as ``head``).
    """
    # a terminal that cannot show a character shows a question mark
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    logging.basicConfig(format="%(message)s", level=logging.WARNING, handlers=[Lines()])
    logging.getLogger("ragmetrics_core").setLevel(logging.INFO)
    from ragmetrics_core.data import RagMetricsError

    empty = _empty_argument(arguments)
    if empty is not None:
        print(
            f"ragmetrics: {empty} is empty, perhaps a variable that is not set; give a"
            " value",
            file=sys.stderr,
        )
        return 2
    arguments = command_first(arguments)
    command_name = arguments[0] if arguments else ""
    options = command_parser(command_name).parse_args(arguments)
    from ragmetrics_core.cli.options import discard_output
    from ragmetrics_core.cli.paths import check_paths
    from ragmetrics_core.data.display import as_line

    try:
        # The parser of a command put its functions among the options.
        if "fill_in" in options:  # takes what was not typed from the settings file
            options.fill_in(options)
        check_paths(options)
        exit_code = int(options.run(options))
        sys.stdout.flush()  # a pipe that is closed shows only now
    except RagMetricsError as error:
        print(as_line(f"ragmetrics: {error}"), file=sys.stderr)
        return 2
    except BrokenPipeError:  # nobody reads what is still to be printed
        discard_output()
        return 0
    return exit_code


def command_first(arguments: Sequence[str]) -> list[str]:
    """Return arguments of which the first is the command.

    Of the one command of two words whose first word is a command as well, "agreement
    draw", both words are joined.
    """
    if list(arguments[:2]) == ["agreement", "draw"]:
        return ["agreement draw", *arguments[2:]]
    return list(arguments)


def _empty_argument(arguments: Sequence[str]) -> str | None:
    """Say which argument is empty, e.g. "the value of --judge"; None if none is.

    A shell makes an empty value of a variable that is not set. It must not count as an
    option that is left out, or the run takes another judge or address than was meant.
    """
    before = ""
    for argument in arguments:
        option, has_value, value = argument.partition("=")
        if option.startswith("--") and has_value and not value.strip():
            return f"the value of {option}"
        if not argument.strip():
            return f"the value of {before}" if before.startswith("-") else "an argument"
        before = argument
    return None


class Lines(logging.StreamHandler[TextIO]):
    """Writes log records to standard error, above a progress bar that is shown there."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record to the present standard error: a progress bar replaces it."""
        self.stream = sys.stderr
        super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; on a terminal it first erases an unfinished line there."""
        line = super().format(record)
        return f"\r\x1b[K{line}" if sys.stderr.isatty() else line


def command_parser(command: str = "") -> argparse.ArgumentParser:
    """Make the parser of the command line.

    It lists all commands with their help. Only the module of the command that was typed
    is imported, and adds the command with its options: all modules would take long.
    Example: for "card" the options of ``card`` are added, and "evaluate" has its help
    alone.

    Args:
        command: The command that was typed; "" for none.
    """
    # Imported here and not above, so that ``main`` handles a Ctrl-C during the import.
    from ragmetrics_core.cli.parsers import CommandParser, show_help_without_command

    parser = CommandParser(
        prog="ragmetrics",
        description="Evaluate retrieval and answers of RAG applications.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"ragmetrics {version('ragmetrics-core')}",
    )
    # Nothing is shown yet: parsing a line without a command will show the help.
    show_help_without_command(parser)
    commands = parser.add_subparsers(metavar="COMMAND")
    # An example is a whole command line: its second word is the command.
    command_names = dict.fromkeys(example.split()[1] for example, _ in COMMANDS)
    module_to_import = _module_of(command)
    for name in command_names:
        # A module may add several commands: if "demo" was typed, its module adds
        # "init" as well. All commands of other modules get their help alone.
        if _module_of(name) != module_to_import:
            _, help_text = example_and_help(name)
            commands.add_parser(name, help=help_text)
    # any other command is refused when the line is parsed
    if command.partition(" ")[0] in command_names:
        module = import_module(f"ragmetrics_core.cli.{module_to_import}")
        module.add_to(commands)
    return parser


def _module_of(command: str) -> str:
    """Return the name of the module that adds a command to the parser."""
    return _MODULE_BY_COMMAND.get(command, command)


if __name__ == "__main__":
    if not sys.flags.safe_path:
        # ``python -m`` puts the working folder first: a module there must not stand in
        # for another module of the same name.
        del sys.path[0]
    sys.exit(main())
