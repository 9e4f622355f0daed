"""Where code of a user's own raised, in words that hold no text of a sample."""

import os
import sysconfig
import traceback
from pathlib import Path

from pydantic import ValidationError

from ragmetrics_core.data.errors import RagMetricsError

# Folders in which no code of a user's own stands.
_FOLDERS_OF_OTHERS = (str(Path(__file__).parents[1]), sysconfig.get_path("stdlib"))


def frame_of_users_code(error: BaseException) -> traceback.FrameSummary:
    """Return the innermost frame of an error that stands in code of the user's own.

    It is the innermost of all where none does.
    """
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:  # it was made, and never raised
        return traceback.FrameSummary("nowhere", 0, "nothing")
    frames_of_user = [frame for frame in frames if is_users_code(frame)]
    return (frames_of_user or frames)[-1]


def is_users_code(frame: traceback.FrameSummary) -> bool:
    """Tell whether a frame stands in no installed package, nor in Python's own."""
    is_of_others = frame.filename.startswith(_FOLDERS_OF_OTHERS)
    return not is_of_others and "site-packages" not in frame.filename


def is_ours(kind: type) -> bool:
    """Tell whether a class is one of ragmetrics, and not a user's own.

    What it does computes in proportion to the texts, and waits for nothing.
    """
    return kind.__module__.startswith("ragmetrics_core.")


def reason_of_crash(error: BaseException) -> str:
    """Return our own error's words, which say what to do; else ``crash_in_words``."""
    if isinstance(error, RagMetricsError):
        return str(error)  # it holds no text of a sample
    return crash_in_words(error)


def crash_in_words(error: BaseException) -> str:
    """Return the kind of an error and where it was raised, without its own words.

    These may hold texts of samples. What the operating system says holds none.

    Examples:
        >>> try:
        ...     open("/no/such/folder/scores.jsonl")
        ... except OSError as error:
        ...     print(crash_in_words(error).split(" in ")[0])
        FileNotFoundError (No such file or directory)
    """
    frame = frame_of_users_code(error)
    kind = type(error).__name__
    if isinstance(error, OSError) and error.errno:
        kind = f"{kind} ({os.strerror(error.errno)})"
    elif isinstance(error, ValidationError):
        kind = f"{kind} ({_first_problem(error)})"
    return f"{kind} in {frame.name} ({frame.filename}:{frame.lineno})"


def _first_problem(error: ValidationError) -> str:
    """Return the field of a model that is wrong, and what kind of problem that is.

    The value is left out, and so are pydantic's words, which may repeat it.
    """
    problem = error.errors(
        include_url=False, include_context=False, include_input=False
    )[0]
    field = problem["loc"][0] if problem["loc"] else "all fields together"
    return f"{error.title}: {field}: {problem['type']}"
