"""Every error that ragmetrics raises or reports.

RagMetricsError
├── InputError                    what the caller gave cannot be used
│   ├── RowError                  one row of a table or file
│   │   ├── CutOffLine            the last line of a file, which a crash cut off
│   │   ├── NotJson               a text is no JSON
│   │   ├── NoSuchColumn          a column that was named is not in this row
│   │   └── AmbiguousColumns      two columns may hold one field, and differ
│   └── SettingError              a setting of a metric, a judge or a run
│       └── ForeignFile           a file that was to be ours is somebody else's
├── MissingDependency             an optional package is needed for this
├── MetricCrashed                 a metric's own code raised; the run goes on
├── ScoreOutOfRange               a metric's own arithmetic gave no number in [0, 1]
└── JudgeError                    a question was not answered
    ├── JudgeUnavailable          no question will be answered: the run ends
    │   ├── AuthenticationFailed
    │   └── LimitReached          a cap of the run: it ends with what is done
    ├── TransientJudgeError       no reply now; the same request may succeed later
    │   ├── NoReplyInTime         the time of a call ended first
    │   └── RateLimited
    ├── RequestRejected           this request will never succeed
    │   └── ContextWindowExceeded
    ├── UnusableReply             there is a reply, but no verdict in it
    │   └── ContentRefused
    ├── TooFewPolls
    ├── BatchFailed               a batch was not made, refused or cancelled
    ├── JudgeCrashed              the code of a judge of your own raised
    ├── LanguageNotMeasured       the judge was not measured on texts of this language
    └── QuestionNotSupported

Messages say what was given, what is needed and what to do. They never hold keys or
texts of samples; the raw reply of a judge is on ``UnusableReply.raw``.
"""

import os
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import ValidationError


class RagMetricsError(Exception):
    """Root of every error of ragmetrics."""


class InputError(RagMetricsError, ValueError):
    """What the caller gave cannot be used; the message says what is needed."""


class RowError(InputError):
    """A row of a table or file is no sample.

    It is no object, or a field has a wrong type.
    """


class CutOffLine(RowError):
    """The last line of a file does not end and is no JSON.

    The program that wrote it was killed, or is still writing.
    """


class NotJson(RowError):
    """A text is no JSON, or JSON that Python cannot hold."""


class NoSuchColumn(RowError):
    """The row lacks a column that was named for a field of the sample."""


class AmbiguousColumns(RowError):
    """Two columns of the row may hold one field of the sample, and differ."""


class SettingError(InputError):
    """A setting of a metric, a judge or a run is invalid."""


class ForeignFile(SettingError):
    """A file that was named to keep replies or rates in is somebody else's.

    It was left as it is.
    """


class MissingDependency(RagMetricsError, ImportError):
    """An optional package is needed; the message names the extra to install."""


class MetricCrashed(RagMetricsError):
    """A metric's own code raised an unexpected exception."""


class ScoreOutOfRange(RagMetricsError):
    """A metric's value is NaN or outside [0, 1]."""


class JudgeError(RagMetricsError):
    """A question was not answered by the judge.

    ``topics`` says which features of the request the endpoint's refusal names, e.g.
    ``("logprobs",)``; it is empty where it names none. ``raw`` is what the endpoint
    said: its reply as received, or the sentence of its refusal.
    """

    topics: tuple[str, ...] = ()
    raw: str = ""


class JudgeUnavailable(JudgeError):
    """No question will be answered by this judge as it is configured.

    The model is not known, the endpoint has moved, the quota is used up, or one of the
    errors below.

    ``single`` is True if only this question was refused, as far as is known: it has
    answered others, or the refusal may be about the row's texts. It is False where the
    refusal speaks of every question, e.g. of money that is spent.
    """

    single: bool | None = None


class AuthenticationFailed(JudgeUnavailable):
    """The endpoint refused the key."""


class LimitReached(JudgeUnavailable):
    """A cap of the run was reached: calls, money, time, or how long it waits."""


class TransientJudgeError(JudgeError):
    """The same request may succeed later.

    No reply came in time, the connection broke, or the endpoint failed (HTTP 5xx) or
    sent a body that is no reply. ``retry_after`` holds the seconds that the endpoint
    asked to wait; None if it did not say. ``is_sent`` is False if no connection could
    be made, so that nothing was sent. ``is_of_other`` is True if something else than an
    endpoint answered, such as a page.
    """

    is_sent: bool = True
    is_of_other: bool = False

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NoReplyInTime(TransientJudgeError):
    """The time that a call may take ended before its reply came."""


class RateLimited(TransientJudgeError):
    """The endpoint asked to slow down (HTTP 429)."""


class RequestRejected(JudgeError):
    """The endpoint rejected this request (HTTP 4xx); repeating it would not help."""


class ContextWindowExceeded(RequestRejected):
    """The request is longer than the model's context window.

    ``may_be_shared`` is True if other requests in flight may have taken a part of the
    window, as the slots of llama.cpp do.
    """

    may_be_shared: bool = False


class UnusableReply(JudgeError):
    """There is a reply, but no verdict can be read from it.

    It is empty, cut off, of another form than was asked for, or contradicts itself.

    ``raw`` is the reply as received. The message does not contain it. ``read`` is what
    was read of a reply that is only odd, else None: it counts if the judge, asked again,
    says the same ``verdict``. ``finish`` is how a reply ended in place of which the
    endpoint sent an error, else "".
    """

    verdict: object = None
    finish: Literal["", "length", "other"] = ""

    def __init__(self, message: str, *, raw: str = "", read: object = None) -> None:
        super().__init__(message)
        self.raw = raw
        self.read = read


class ContentRefused(UnusableReply):
    """The model or a content filter refused to answer."""


class TooFewPolls(JudgeError):
    """Polls were lost that could turn the verdict."""


class BatchFailed(JudgeError):
    """A batch was not made, refused when it was checked, or cancelled."""


class JudgeCrashed(JudgeError):
    """The code of a judge of a user's own raised an unexpected exception.

    ``raw`` is its traceback, which may hold texts. The message does not contain it.
    """


class LanguageNotMeasured(JudgeError):
    """The judge was not measured on texts of this language, and so decides nothing.

    The metric is then undefined, with the code ``language``; nothing failed.
    """


class QuestionNotSupported(JudgeError):
    """This judge cannot answer questions of this type."""


LEFT = {
    "ConflictingVerdicts": "UnusableReply",
    "ConnectionFailed": "TransientJudgeError",
    "CutOffReply": "UnusableReply",
    "EmptyReply": "UnusableReply",
    "EndpointMoved": "JudgeUnavailable",
    "JudgeServerError": "TransientJudgeError",
    "JudgeTimeout": "TransientJudgeError",
    "MalformedReply": "UnusableReply",
    "ModelNotFound": "JudgeUnavailable",
    "QuotaExhausted": "JudgeUnavailable",
    "Unreachable": "TransientJudgeError",
}
"""Names of classes in files of earlier versions, with the nearest class that there is."""


@contextmanager
def as_setting_error(before: str, after: str = "") -> Iterator[None]:
    """Run code of the user's own: what it raises becomes a ``SettingError``.

    The message names the type of what was raised, between the two texts; never its own
    words, which may hold texts of samples. Our own errors pass as they are.
    """
    try:
        yield
    except RagMetricsError:
        raise
    except Exception as error:  # whatever somebody's code raises
        raise SettingError(f"{before} raised {type(error).__name__}{after}") from error


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
        # The field of a model that is wrong, and what kind of problem that is; without
        # the value, and without pydantic's words, which may repeat it.
        problem = error.errors(
            include_url=False, include_context=False, include_input=False
        )[0]
        field = problem["loc"][0] if problem["loc"] else "all fields together"
        kind = f"{kind} ({error.title}: {field}: {problem['type']})"
    return f"{kind} in {frame.name} ({frame.filename}:{frame.lineno})"
