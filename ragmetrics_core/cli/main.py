"""Entry point of the ``ragmetrics`` command.

Exit codes: 0 all well; 1 a gate failed or, without gates, nothing was scored; 2 bad
input or an unusable judge; 3 a gate is undecided or the results are incomplete; 4
batches are on their way; 130 interrupted (what is done is written).
"""

import logging
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from importlib import import_module
from io import StringIO, TextIOWrapper
from typing import Any, TextIO


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    Args:
        arguments: What was typed after ``ragmetrics``; None for the process's own.
    """
    if arguments is None:  # this is the whole process; CI ends one by SIGTERM
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:  # Ctrl-C, also while modules are imported in ``_run``
        _tell("ragmetrics: interrupted")
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
    # the system may start a process with closed streams; their files are then not there
    if sys.stderr is None or getattr(sys.stderr, "closed", False):
        sys.stderr = StringIO()  # nobody reads it
    if sys.stdout is None or getattr(sys.stdout, "closed", False):
        _tell(
            "ragmetrics: standard output is closed; send it to a file or to /dev/null"
        )
        return 2
    # a terminal that cannot show a character shows a question mark
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    logging.basicConfig(format="%(message)s", level=logging.WARNING, handlers=[Lines()])
    logging.getLogger("ragmetrics_core").setLevel(logging.INFO)
    from ragmetrics_core.data import RagMetricsError
    from ragmetrics_core.data.deferred_imports import whole_installation_for
    from ragmetrics_core.data.display import as_line, discard_output

    before = ""
    for argument in arguments:
        option, has_value, value = argument.partition("=")
        empty = ""
        if option.startswith("--") and has_value and not value.strip():
            empty = f"the value of {option}"
        elif not argument.strip():
            is_value = before.startswith("-")
            empty = f"the value of {before}" if is_value else "an argument"
        if empty:
            _tell(
                f"ragmetrics: {empty} is empty, perhaps a variable that is not set;"
                " give a value"
            )
            return 2
        before = argument
    from ragmetrics_core.cli.parsers import COMMANDS, check_needed_options, parse

    try:
        try:
            with whole_installation_for("the command"):
                options = parse(arguments)
                from ragmetrics_core.cli.paths import check_paths  # not for --help

                command = COMMANDS[options.command]
                if "fill_in" in command:  # what was not typed, from the settings file
                    _function(command["fill_in"])(options)
                check_needed_options(options)
                check_paths(options)
                exit_code = int(_function(command["run"])(options))
        finally:
            sys.stdout.flush()  # a pipe that is closed, a disk that is full show only now
    except RagMetricsError as error:
        _tell(as_line(f"ragmetrics: {error}"))
        return 2
    except BrokenPipeError:  # nobody reads what is still to be printed
        discard_output()
        return 0
    except OSError as error:  # e.g. a disk that is full, a name that is too long
        place = f"{error.filename}: " if error.filename else ""
        _tell(as_line(f"ragmetrics: {place}{error.strerror}"))
        try:
            sys.stdout.flush()
        except OSError:  # else the interpreter flushes it again, and ends with 120
            discard_output()
        return 2
    return exit_code


def _tell(sentence: str) -> None:
    """Print a sentence to standard error; a full disk there changes no exit code."""
    try:
        print(sentence, file=sys.stderr, flush=True)
    except OSError:
        sys.stderr = StringIO()  # else the interpreter flushes it again, and fails


def _function(place: str) -> Callable[[Namespace], Any]:
    """Import a function of the command line by its place, such as "card:run"."""
    module, _, name = place.partition(":")
    function: Callable[[Namespace], Any] = getattr(
        import_module(f"ragmetrics_core.cli.{module}"), name
    )
    return function


class Lines(logging.StreamHandler[TextIO]):
    """Writes log records to standard error, above a progress bar that is shown there."""

    def __init__(self) -> None:
        # Now: at the end of the process, when a client may still log, nothing is imported.
        from ragmetrics_core.data.display import is_terminal

        super().__init__()
        self._is_terminal = is_terminal

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record to the present standard error: a progress bar replaces it."""
        self.stream = sys.stderr
        super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; on a terminal it first erases an unfinished line there."""
        line = super().format(record)
        return f"\r\x1b[K{line}" if self._is_terminal(sys.stderr) else line


if __name__ == "__main__":
    if not sys.flags.safe_path:
        # ``python -m`` puts the working folder first: a module there must not stand in
        # for another module of the same name.
        del sys.path[0]
    sys.exit(main())
