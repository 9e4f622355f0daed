"""Standard output that neither a closed pipe nor a narrow encoding can break."""

import logging
import os
import sys
from io import TextIOWrapper
from typing import TextIO


def tolerant() -> None:
    """Let terminals and files that cannot show a character get a question mark instead of an exception."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


class Lines(logging.StreamHandler[TextIO]):
    """Log lines on the standard error of the moment, each on a line of its own above a bar that goes on."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line; a bar replaces standard error for its time, and a counter leaves its line unfinished."""
        self.stream = sys.stderr
        super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        """The line; on a terminal in the place of what was shown there."""
        return ("\r\x1b[K" if sys.stderr.isatty() else "") + super().format(record)


def show(text: str) -> None:
    """Print a text; a reader that went away, such as ``head``, changes neither the run nor its exit code."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        discard()


def discard() -> None:
    """Send what is still to be printed nowhere, so that the interpreter can end quietly."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
