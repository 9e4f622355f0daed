"""Makes a judge error of an error reply, or of an exception that a client raised.

The HTTP status and the provider's own code decide, and a few words where providers share
one status between faults. A refusal that names a feature of requests says so in
``topics``, whatever its status.

Messages repeat nothing that the endpoint wrote, except a code: it may echo keys or texts
of samples.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any, Self
from urllib.parse import urljoin

from ragmetrics_core.data import errors
from ragmetrics_core.data.crashes import frame_of_users_code, is_users_code
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.models.features import topics_of
from ragmetrics_core.models.urls import UNREADABLE, public_address, read_address

MOST_BYTES = 16 * 2**20
"""The largest reply that is read."""

_CLASS_BY_STATUS: Mapping[int, type[errors.JudgeError]] = {
    401: errors.AuthenticationFailed,
    402: errors.QuotaExhausted,
    403: errors.AuthenticationFailed,
    404: errors.ModelNotFound,
    408: errors.JudgeTimeout,
    409: errors.JudgeServerError,  # a conflict, and "too early": both pass
    425: errors.JudgeServerError,
    429: errors.RateLimited,
    501: errors.RequestRejected,  # the server will not have learnt it a second later
}
# Statuses with which endpoints refuse a feature that they do not know.
_REFUSING = frozenset({400, 403, 404, 422, 501})
# The status that belongs to a code, where a gateway sends the code as a success.
_STATUS_OF_CODE: Mapping[str, int] = {
    "authentication_error": 401,
    "invalid_api_key": 401,
    "unauthenticated": 401,
    "unauthorized": 401,
    "billing_error": 402,
    "insufficient_quota": 402,
    "permission_denied": 403,
    "permission_error": 403,
    "model_not_found": 404,
    "not_found": 404,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "resource_exhausted": 429,
    "context_length_exceeded": 400,
    "invalid_argument": 400,
    "invalid_request_error": 400,
}
# Words of a code. A single word may be one of a sample or a part of a key.
_CODE = lazy_pattern(r"[A-Za-z]{2,20}(?:_[A-Za-z]{2,20}){1,5}")
_KEY_REFUSED = lazy_pattern(
    r"\W*(?:(?:invalid|incorrect|missing|no)\b.{0,20}\b(?:api[ _-]?key|credentials)"
    r"|api[ _-]?key (?:not valid|not found|invalid|is missing))",
    re.IGNORECASE,
)
# What clients say that were given no key; a sample may hold the words, too.
_NO_KEY = lazy_pattern(
    r"missing (?:credentials|\w+ api key)|no key is set|api[_ ]key client option must"
    r" be set",
    re.IGNORECASE,
)
_UNSUPPORTED = lazy_pattern(
    r"unsupported|not support|unrecognized request|unexpected keyword|extra_forbidden"
    r"|literal_error|Extra inputs are not permitted",
    re.IGNORECASE,
)
_NO_PROVIDER = lazy_pattern("LLM Provider NOT provided", re.IGNORECASE)
_FILTERED = lazy_pattern(
    r"content_filter|content_policy|content management policy|ResponsibleAI",
    re.IGNORECASE,
)
_QUOTA = lazy_pattern(
    r"insufficient_quota|exceeded your current quota|billing_hard_limit|credit balance"
    r" is too low"
)
_TOO_LONG = lazy_pattern(
    r"context_length_exceeded|context[ _-]?(?:length|window|size)|prompt is too"
    r" long|input token count|too many tokens|request too large"
    r"|max_tokens_exceeded|longer than the (?:model's )?maximum|inputs?.? tokens? \+ .?max_new_tokens",
    re.IGNORECASE,
)
_NUMBER = r"\(?(\d[\d,]*)\)?"
# Tokens of the request, and the window, in the words of OpenAI, vLLM, llama.cpp,
# Anthropic, Gemini and TGI.
_TOKENS = lazy_pattern(
    r"(?:resulted in|you requested(?: about)?|you passed|request has|requested"
    r" tokens|prompt is too long:|given:"
    rf"|input token count|request(?= {_NUMBER} tokens)|prompt contains(?: at"
    rf" least)?|\d, requested) {_NUMBER}",
    re.IGNORECASE,
)
_WINDOW = lazy_pattern(
    rf"(?:maximum context length is|context window of|context size|>(?= {_NUMBER}"
    r" maximum)"
    r"|maximum number of tokens allowed|must be <=|context length of only|\(TPM\):"
    rf" limit) {_NUMBER}",
    re.IGNORECASE,
)
# Classes of exceptions of clients, by what they mean.
_NOTHING_LISTENS = frozenset(
    {"ClientConnectorError", "ConnectError", "ConnectionRefusedError", "gaierror"}
)
# LiteLLM calls a connection that was reset one that could not be made.
_RESET = frozenset(
    {"BrokenPipeError", "ConnectionResetError", "ServerDisconnectedError"}
)
_BROKEN = frozenset(
    {
        "APIConnectionError",
        "ClientConnectionError",
        "ClientPayloadError",
        "ConnectionError",
        "IncompleteRead",
        "NetworkError",
        "RemoteProtocolError",
    }
)
# Raised by a client's own code while it reads a reply of another form than expected.
_READING = frozenset(
    {"AttributeError", "IndexError", "JSONDecodeError", "KeyError", "TypeError"}
)
_NOT_JSON = lazy_pattern(r"Unable to get json response|JSONDecodeError|Expecting value")
_SENTENCES: Mapping[type[errors.JudgeError], str] = {
    errors.AuthenticationFailed: (
        "{where} refused the key{details}: check the key and what it may use"
    ),
    errors.ModelNotFound: (
        "nothing provides the model {where}{details}: give provider/model as your"
        " endpoint knows it, e.g. openai/gpt-4o-mini or ollama/llama3.1; of a ChatModel"
        " of your own, check its address and its model"
    ),
    errors.QuotaExhausted: (
        "the quota or budget for {where} is used up{details}: raise it or use another"
        " model"
    ),
    errors.RateLimited: (
        "{where} asked to slow down{details}: lower the concurrency or run again later"
    ),
    errors.JudgeTimeout: (
        "{where} sent no reply in time: raise the timeout or check the endpoint"
    ),
    errors.Unreachable: (
        "{where} could not be reached: check the address and that the server runs"
    ),
    errors.ConnectionFailed: (
        "the connection to {where} broke before its reply was complete{details}: run"
        " again later or check the endpoint"
    ),
    errors.JudgeServerError: (
        "{where} failed or sent no valid reply{details}: run again later or check the"
        " endpoint"
    ),
    errors.RequestRejected: "{where} rejected the request{details}",
    errors.ContentRefused: "{where} or a content filter refused the request{details}",
    errors.JudgeError: "{where} could not answer{details}",
}
_MOST_CAUSES = 8
"""Most exceptions that are looked at in a chain of causes."""


@dataclass(frozen=True, slots=True, repr=False)
class Fault:
    """The information in an exception of a client, or in an error reply.

    Args:
        status: The HTTP status; None if none is known.
        codes: The endpoint's own words for the fault, e.g. "invalid_api_key".
        retry_after: Seconds after which the endpoint wants the next call; None if it
            does not say.
        text: All words of it. They are searched, and never shown.
        class_names: Names of the exceptions' classes and their bases, causes included;
            empty for a reply.
    """

    status: int | None = None
    codes: tuple[str, ...] = ()
    retry_after: float | None = None
    text: str = ""
    class_names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """Read an exception of an OpenAI-like client, with the exceptions behind it.

        Clients keep status, body and headers in attributes of various names. Only the
        functions called here know them. Example: an exception with ``status_code`` 429
        and the header "retry-after: 3" gives ``status`` 429 and ``retry_after`` 3.0.
        """
        exceptions = _with_causes(error)
        bodies = [getattr(exception, "body", None) for exception in exceptions]
        body = next((body for body in bodies if isinstance(body, dict)), {})
        class_names: set[str] = set()
        holders: list[object] = []  # of status and headers
        for exception in exceptions:
            class_names.update(base.__name__ for base in type(exception).__mro__)
            holders += [exception, getattr(exception, "response", None)]
        # Newer clients of OpenAI keep the body out of their message.
        words = [_parameter_in(body), *map(_words_of, (*exceptions, body))]
        return cls(
            status=_status_in(holders),
            codes=_codes(body),
            retry_after=_retry_after_in(holders),
            text="\n".join(words),
            class_names=frozenset(class_names),
        )

    @classmethod
    def from_reply(
        cls, status: int | None, text: str, retry_after: float | None = None
    ) -> Self:
        """Read an error reply.

        Args:
            status: Its HTTP status; None if that is not known.
            text: Its body, which may be no JSON.
            retry_after: Seconds after which the endpoint wants the next call; None if
                it does not say.
        """
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            body = {}
        # A batch service may write anything in place of a status.
        known_status = status if type(status) is int else None
        words = f"{_parameter_in(body)}\n{_message_in(body)}\n{text}"
        return cls(known_status, _codes(body), retry_after, words)

    @property
    def is_about_key(self) -> bool:
        """Whether the endpoint or its client says that a key is missing or wrong.

        A rejection of another kind may repeat such words of a sample. So its message
        has to begin with them.
        """
        if self.status in range(400, 500) and self.status not in (401, 403):
            return any(map(_KEY_REFUSED.match, self.text.split("\n", 3)[:3]))
        return _NO_KEY.search(self.text) is not None

    @property
    def no_reply(self) -> type[errors.JudgeError] | None:
        """The class of error where no whole reply came; None if one came, or unknown.

        A client may report a status of its own making then, e.g. 500.
        """
        if not self.class_names.isdisjoint(_RESET):
            return errors.ConnectionFailed
        if not self.class_names.isdisjoint(_NOTHING_LISTENS):
            return errors.Unreachable
        if any("Timeout" in name for name in self.class_names):
            return errors.JudgeTimeout
        if self.is_unreadable or self.class_names.isdisjoint(_BROKEN):
            return None
        return errors.ConnectionFailed

    @property
    def is_unreadable(self) -> bool:
        """Whether a reply came that the client could not read."""
        if "OSError" in self.class_names:  # the connection failed
            return False
        is_raised_by_reading = not self.class_names.isdisjoint(_READING)
        return is_raised_by_reading or _NOT_JSON.search(self.text) is not None


def _with_causes(error: BaseException) -> list[BaseException]:
    """Return an exception, its cause, the cause of its cause, and so on."""
    exceptions = [error]
    while len(exceptions) < _MOST_CAUSES:
        cause = exceptions[-1].__cause__ or exceptions[-1].__context__
        if cause is None:
            break
        exceptions.append(cause)
    return exceptions


def _status_in(holders: Sequence[object]) -> int | None:
    """Return the first status in exceptions or their responses; None if none has one."""
    for holder in holders:
        for name in ("status_code", "status"):
            status = getattr(holder, name, None)
            if isinstance(status, int):
                return status
    return None


def _retry_after_in(holders: Sequence[object]) -> float | None:
    """Return the first ``Retry-After`` in exceptions or responses, in seconds, or None."""
    for holder in holders:
        for name in ("headers", "litellm_response_headers"):
            headers = getattr(holder, name, None)
            if isinstance(headers, (Mapping, Message)):
                wait = seconds_of_retry_after(headers.get("retry-after"))
                if wait is not None:
                    return wait
    return None


def _words_of(value: object) -> str:
    """Return the message of an exception of any client; "" if that raises."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001  # it is their code
        return ""


def _detail_in(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of an error's body that holds its code and message."""
    nested = body.get("error")
    return nested if isinstance(nested, dict) else body


def _codes(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the codes in an error reply that look like codes, without repeats."""
    detail = _detail_in(body)
    named = [detail.get(name) for name in ("code", "type", "status", "param")]
    codes = [code for code in named if isinstance(code, str) and _CODE.fullmatch(code)]
    return tuple(dict.fromkeys(codes))


def _parameter_in(body: Mapping[str, Any]) -> str:
    """Return words that name the parameter that an error is about; "" without one."""
    parameter = _detail_in(body).get("param")
    return f"parameter {parameter}" if isinstance(parameter, str) else ""


def _message_in(body: Mapping[str, Any]) -> str:
    """Return the first line of an error's message; "" without one."""
    error = body.get("error")
    message = error if isinstance(error, str) else _detail_in(body).get("message")
    return message.partition("\n")[0] if isinstance(message, str) else ""


def status_number(status: object) -> int | None:
    """Return an HTTP status as a number; a service may have written it as a text.

    None if it is no status.
    """
    if isinstance(status, str) and status.strip().isdecimal():
        status = int(status.strip()[:9])
    return status if type(status) is int and 100 <= status < 600 else None


def status_of_body(body: object) -> int | None:
    """Return the status of an error that came as a success; None if it is no error.

    Gateways send such replies where the model's service fails after the headers, with
    their status 200, were sent. Example: ``{"error": {"code": 429}}`` gives 429;
    ``{"choices": […]}`` gives None.
    """
    if not isinstance(body, dict) or body.get("choices") or not body.get("error"):
        return None
    error = body["error"]
    if isinstance(error, str):
        return 401 if _KEY_REFUSED.match(error) else None
    if not isinstance(error, dict):
        return None
    for name in ("code", "status", "type"):
        code = error.get(name)
        status = status_number(code)
        if status is None and isinstance(code, str):
            status = _STATUS_OF_CODE.get(code.lower())
        if status is not None and status >= 400:
            return status
    return None


def seconds_of_retry_after(header: Any, now: datetime | None = None) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks to wait.

    Example: "3" gives 3.0, and "soon" gives None.

    Args:
        header: The header's value, a number of seconds or a date; None if there is no
            such header.
        now: The time from which a date is counted; None for the clock's.

    Returns:
        None if the header is neither a finite number nor a date; 0 for a date that is
        past.
    """
    text = "" if header is None else str(header).strip()
    try:
        wait = float(text)
    except ValueError:
        try:
            date = parsedate_to_datetime(text)
        except (ValueError, OverflowError):
            return None
        if date.tzinfo is None:
            date = date.replace(tzinfo=UTC)
        counted_from = datetime.now(UTC) if now is None else now
        wait = (date - counted_from).total_seconds()
    if not math.isfinite(wait):
        return None
    return max(wait, 0.0)


def _class_of_error(
    stated_class: type[errors.JudgeError], fault: Fault
) -> type[errors.JudgeError]:
    """Return the class of judge error for a fault.

    Args:
        stated_class: What the class of the client's exception stands for;
            ``JudgeServerError`` if it does not tell.
        fault: What the exception or the reply says.
    """
    if fault.is_about_key:
        return errors.AuthenticationFailed
    if _NO_PROVIDER.search(fault.text):
        return errors.ModelNotFound
    error_class = stated_class
    if stated_class is errors.JudgeServerError:
        error_class = fault.no_reply or _class_by_status(fault)
    if error_class is errors.RateLimited and _QUOTA.search(fault.text):
        return errors.QuotaExhausted
    is_refusal = issubclass(
        error_class, (errors.RequestRejected, errors.AuthenticationFailed)
    )
    is_too_large = error_class is errors.RateLimited and "oo large" in fault.text
    if is_refusal and _FILTERED.search(fault.text):
        return errors.ContentRefused
    is_rejected = issubclass(error_class, errors.RequestRejected) or is_too_large
    if is_rejected and _TOO_LONG.search(fault.text):
        return errors.ContextWindowExceeded
    return error_class


def _class_by_status(fault: Fault) -> type[errors.JudgeError]:
    """Return the class of error for the status of a fault.

    Servers built on pydantic say with any status that a parameter is not theirs.
    """
    status = fault.status or 0
    if status in _CLASS_BY_STATUS:
        return _CLASS_BY_STATUS[status]
    is_of_server = not 400 <= status < 500
    names_parameter = bool(topics_of(fault.text)) and _UNSUPPORTED.search(fault.text)
    if is_of_server and not names_parameter:
        return errors.JudgeServerError
    return errors.RequestRejected


def judge_error(
    stated_class: type[errors.JudgeError],
    fault: Fault,
    where: str,
    endpoint: str | None = None,
    advice_on_key: str = "",
    advice_on_model: str = "",
) -> errors.JudgeError:
    """Return the judge error for a fault, with a message that says what to do.

    Example: status 429 gives ``RateLimited``, status 401 ``AuthenticationFailed``.

    Args:
        stated_class: What the class of the client's exception stands for;
            ``JudgeServerError`` if it says nothing. The status then decides.
        fault: What the exception or the reply says.
        where: Name of the model.
        endpoint: Its address, if it is one of the user's own; else None.
        advice_on_key: What to do if the key is missing; "" if a key was sent.
        advice_on_model: What to do if the endpoint does not know the model; "" for the
            general advice.
    """
    error_class = _class_of_error(stated_class, fault)
    if endpoint:
        where = f"{where} at {public_address(endpoint)}"
    if issubclass(error_class, errors.ContextWindowExceeded):
        # "maximum context length is 8192 tokens, but you requested 9000" has both.
        n_tokens = _number_in(fault.text, _TOKENS)
        window = _number_in(fault.text, _WINDOW)
        return error_class.from_counts(where, n_tokens, window)
    sentence = _sentence(error_class, fault, advice_on_model)
    if error_class is errors.AuthenticationFailed and advice_on_key:
        sentence = "no key was given for {where}: " + advice_on_key
    message = sentence.format(where=where, details=_details_in_words(fault))
    if issubclass(error_class, errors.TransientJudgeError):
        return error_class(message, retry_after=fault.retry_after)
    error = error_class(message)
    is_rejected = issubclass(error_class, errors.RequestRejected)
    if is_rejected or fault.status in _REFUSING:
        error.topics = topics_of(fault.text)
    return error


def _sentence(
    error_class: type[errors.JudgeError], fault: Fault, advice_on_model: str
) -> str:
    """Return the message of an error, to be formatted with ``where`` and ``details``.

    A class without a sentence of its own has the sentence of its next base.
    """
    if error_class is errors.JudgeServerError and fault.is_unreadable:
        return (
            "{where} sent a reply that cannot be read: check that the endpoint is what"
            " its name says"
        )
    if error_class is errors.ModelNotFound and advice_on_model:
        return "there is no model {where}{details}: " + advice_on_model
    return next(_SENTENCES[base] for base in error_class.__mro__ if base in _SENTENCES)


def _details_in_words(fault: Fault) -> str:
    """Return status and codes of a fault, e.g. " (HTTP 429, tokens)"; "" without any."""
    details: list[str] = []
    if fault.status:
        details.append(f"HTTP {fault.status}")
    details += fault.codes
    return f" ({', '.join(details)})" if details else ""


def _number_in(text: str, pattern: re.Pattern[str]) -> int | None:
    """Return the number in the last group of a pattern; None if it finds nothing."""
    match = pattern.search(text)
    if match is None:
        return None
    digits = match[match.lastindex or 0].replace(",", "")
    return int(digits)


def error_of_client(error: BaseException, where: str) -> errors.JudgeError:
    """Return the judge error for an exception that any client raised.

    It goes by what the exception says of the endpoint: a status, a missing key, no
    reply in time. If it says nothing of the kind, the message names the exception's
    class and where it was raised, and never its words. A line of the user's own file is
    named before the line of a library that it called. Example: a ``ValueError`` of a
    client gives "gpt could not answer: its client raised ValueError in send
    (…/client.py:12)".

    Args:
        error: What was raised.
        where: Name of the model.
    """
    fault = Fault.of(error)
    tells_of_endpoint = fault.status is not None or fault.no_reply is not None
    if tells_of_endpoint or fault.is_about_key:
        return judge_error(errors.JudgeServerError, fault, where)
    if _is_about_unknown_parameter(error, fault):
        return judge_error(errors.RequestRejected, fault, where)
    message = f"{where} could not answer: its client raised {type(error).__name__}"
    if error.__traceback__ is not None:
        frame = frame_of_users_code(error)
        message += f" in {frame.name} ({frame.filename}:{frame.lineno})"
        if is_users_code(frame):
            message += "; raise JudgeServerError there if asking again may help"
    return errors.JudgeError(message)


def _is_about_unknown_parameter(error: BaseException, fault: Fault) -> bool:
    """Whether a client raised an error because it does not know a parameter."""
    if isinstance(error, NotImplementedError):
        return True
    if not isinstance(error, (TypeError, ValueError, KeyError)):
        return False
    return bool(topics_of(fault.text)) or _UNSUPPORTED.search(fault.text) is not None


def error_of_redirect(
    where: str, called_address: str, location: str, key: str = ""
) -> errors.EndpointMoved:
    """Return the error for a call that was answered with a redirect.

    The message names scheme, host and port of the redirect's target. It does not name
    the path, which may echo anything that was sent.

    Args:
        where: Name of the model.
        called_address: The address that was called.
        location: The target of the redirect.
        key: The key that was sent; a host that contains the key is not named.
    """
    try:
        origin = read_address(urljoin(called_address, location)).origin
    except ValueError:  # also one of urljoin's
        origin = UNREADABLE
    if key and key.casefold() in origin.casefold():
        origin = UNREADABLE
    return errors.EndpointMoved(
        f"{where} answered with a redirect to {origin}, which was not followed, because"
        " keys and texts would go there: configure that address as the endpoint's, if"
        " it is the right one"
    )


def error_of_large_reply(where: str, most: int = MOST_BYTES) -> errors.MalformedReply:
    """Return the error for a reply that is longer than any usable reply."""
    return errors.MalformedReply(
        f"{where} sent more than {most // 2**20} MB; check the endpoint"
    )
