"""Standard output that neither a closed pipe nor a narrow encoding can break."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper


def tolerant() -> None:
    """Let terminals and files that cannot show a character get a question mark instead of an exception."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


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
