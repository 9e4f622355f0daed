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

_MODULE_BY_COMMAND = {  # others have a module of their own
    **dict.fromkeys(("init", "demo", "metrics", "trust"), "start"),
    "label": "agreement",
    "batch": "store",
    "facts": "dataset",
    "push": "compare",
    "report": "report_page",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    The arguments are by default those of the process.
    """
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:  # also while modules load
        print("ragmetrics: interrupted", file=sys.stderr)
        return 130


def _run(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name, and print its errors.

    Modules are imported inside, so that an interrupt meanwhile ends the command
    quietly.

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
    command_name = arguments[0] if arguments else ""
    options = command_parser(command_name).parse_args(arguments)
    from ragmetrics_core.cli.options import discard, visible
    from ragmetrics_core.cli.paths import check_paths

    try:
        if "settle" in options:  # take what was not typed from the settings file
            options.settle(options)
        check_paths(options)
        exit_code = int(options.run(options))
        sys.stdout.flush()  # a pipe that is closed shows only now
    except RagMetricsError as error:
        print(visible(f"ragmetrics: {error}"), file=sys.stderr)
        return 2
    except BrokenPipeError:
        discard()
        return 0
    return exit_code


def _empty_argument(arguments: Sequence[str]) -> str | None:
    """What is empty among the arguments, in words; None if nothing is.

    An empty value is what a shell makes of a variable that is not set. It must not
    count as an option that is left out, or a run takes another judge or another address
    than it was told.
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
    """Log lines on the standard error of the moment.

    Each is on a line of its own, above a bar that goes on.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line to the standard error of the moment.

        A bar replaces standard error for its time, and a counter leaves its line
        unfinished.
        """
        self.stream = sys.stderr
        super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        """The line; on a terminal in the place of what was shown there."""
        return ("\r\x1b[K" if sys.stderr.isatty() else "") + super().format(record)


def command_parser(command: str = "") -> argparse.ArgumentParser:
    """Make the parser of the command line.

    It lists all commands. Only the module of the one that was typed is imported, so
    that no command waits for the others; it adds the command with its options.

    Args:
        command: The command that was typed; "" for none.
    """
    # imported inside, where an interrupt ends the command quietly
    from ragmetrics_core.cli.parsers import CommandParser, show_help

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
    show_help(parser)
    commands = parser.add_subparsers(metavar="COMMAND")
    # an example is a whole command line: its second word is the command
    command_names = dict.fromkeys(example.split()[1] for example, _ in COMMANDS)
    # a command that the table does not hold has a module of its own name
    module_name = _MODULE_BY_COMMAND.get(command, command)
    for name in command_names:
        is_added_by_module = _MODULE_BY_COMMAND.get(name, name) == module_name
        if not is_added_by_module:
            _, help_text = example_and_help(name)
            commands.add_parser(name, help=help_text)
    if command in command_names:
        module = import_module(f"ragmetrics_core.cli.{module_name}")
        module.add_to(commands)
    return parser


if __name__ == "__main__":
    if not sys.flags.safe_path:
        # the working folder, which python -m puts first: no module of it stands for
        # another
        del sys.path[0]
    sys.exit(main())
