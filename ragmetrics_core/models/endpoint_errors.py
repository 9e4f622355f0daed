"""Makes a judge error of an exception that a client raised, or of an error reply.

A ``Fault`` holds what the exception or the reply says: status, codes, words.
``judge_error`` makes a judge error of it.

The sentences hold status codes, and codes and names of parameters that services are
known to send. They never hold anything else that the endpoint wrote: it may echo keys
or texts of samples.
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
from ragmetrics_core.models.urls import UNREADABLE, public_address, read_address

MOST_BYTES = 16 * 2**20
"""The largest reply that is read."""
# Error codes and types that services document. Only these are repeated: other texts may
# echo keys or samples.
_DOCUMENTED = (
    # OpenAI, Azure, Anthropic, Mistral, Groq, Together, vLLM, TGI and llama.cpp
    "account_deactivated api_error authentication_error batch_cancelled batch_expired"
    " billing_error billing_hard_limit_reached billing_not_active content_filter"
    " content_policy_violation context_length_exceeded duplicate_custom_id empty_file"
    " engine_overloaded exceed_context_size_error generation http_error"
    " incomplete_generation insufficient_quota integer_above_max_value"
    " integer_below_min_value internal_error internal_server_error invalid_api_key"
    " invalid_authentication invalid_image invalid_json invalid_json_line invalid_model"
    " invalid_organization invalid_parameter invalid_prompt invalid_request"
    " invalid_request_error invalid_type invalid_url invalid_value json_validate_failed"
    " mismatched_model missing_parameter missing_required_parameter"
    " model_decommissioned model_not_found model_overloaded not_found not_found_error"
    " not_supported_error organization_restricted overloaded overloaded_error"
    " permission_denied permission_error rate_limit_error rate_limit_exceeded"
    " rate_limit_reached request_too_large requests server_error service_unavailable"
    " string_above_max_length timeout_error token_limit_exceeded tokens unauthorized"
    " unavailable_error unknown_parameter unknown_url"
    " unsupported_country_region_territory unsupported_model unsupported_parameter"
    " unsupported_value validation validation_error AccessDenied BadRequest"
    " BadRequestError DeploymentNotFound InternalServerError NotFoundError"
    " NotImplementedError OperationNotSupported PermissionDenied ResourceNotFound"
    " ResponsibleAIPolicyViolation ServiceUnavailable TooManyRequests Unauthorized"
    " UnprocessableEntityError "
    # Google
    "DEADLINE_EXCEEDED FAILED_PRECONDITION INTERNAL INVALID_ARGUMENT NOT_FOUND"
    " PERMISSION_DENIED RESOURCE_EXHAUSTED UNAUTHENTICATED UNAVAILABLE "
    # Ours, of requests in batches
    "no_result contradictory_answers "
    # Parameters of a request
    "model messages max_tokens max_completion_tokens temperature top_p n logprobs"
    " top_logprobs response_format reasoning_effort seed stop stream tools tool_choice"
    " presence_penalty frequency_penalty"
)
_DOCUMENTED_SYMBOLS = frozenset(_DOCUMENTED.split())
_PART_OF_PARAMETER = lazy_pattern(
    r"messages\.?\[\d{1,4}\](?:\.(?:role|content))?|response_format\.(?:type|json_schema(?:\.(?:name|schema|strict))?)"
)
_PARAMETERS = lazy_pattern(
    r"\b(top_logprobs|logprobs|response_format|json_schema|temperature|max_tokens)\b"
)
_ABOUT_N = lazy_pattern(r"['\"`]n['\"`]|\bparam(?:eter)? n\b")
_ABOUT_KEY = lazy_pattern(
    r"missing (?:credentials|\w+ api key)|no key is set|api[_ ]key client option must"
    r" be set",
    re.IGNORECASE,
)
_UNSUPPORTED = lazy_pattern(
    r"unsupported|not support|unrecognized request", re.IGNORECASE
)
# How servers built on pydantic say that a parameter is not one of theirs, whatever
# status they send.
_INVALID_PARAMETER = lazy_pattern(
    r"literal_error|extra_forbidden|Input should be|Extra inputs are not permitted"
)
_NOT_JSON = lazy_pattern(
    r"Unable to get json response|JSONDecodeError|Expecting value|json_invalid"
)
_FILTERED = lazy_pattern(
    r"content_filter|content_policy|content management policy|ResponsibleAI",
    re.IGNORECASE,
)
_TOO_LONG = lazy_pattern(
    r"context_length_exceeded|context[ _-]?(?:length|window|size)|prompt is too"
    r" long|input token count|too many tokens"
    r"|max_tokens_exceeded|longer than the (?:model's )?maximum|inputs?.? tokens? \+ .?max_new_tokens",
    re.IGNORECASE,
)
# A class of error, words, and the more special class of an error that says these words.
# The first row that fits counts. A row for ``JudgeError``, the base of all classes,
# fits every class.
_REFINEMENTS: tuple[
    tuple[type[errors.JudgeError], re.Pattern[str], type[errors.JudgeError]], ...
] = (
    (
        errors.JudgeError,
        lazy_pattern("LLM Provider NOT provided", re.IGNORECASE),
        errors.ModelNotFound,
    ),
    (
        errors.RateLimited,
        lazy_pattern(
            r"insufficient_quota|exceeded your current quota|billing_hard_limit|credit"
            r" balance is too low"
        ),
        errors.QuotaExhausted,
    ),
    (
        errors.RateLimited,
        lazy_pattern(r"request too large", re.IGNORECASE),
        errors.ContextWindowExceeded,
    ),
    (errors.AuthenticationFailed, _FILTERED, errors.ContentRefused),
    (errors.RequestRejected, _FILTERED, errors.ContentRefused),
    (errors.RequestRejected, _TOO_LONG, errors.ContextWindowExceeded),
    (errors.RequestRejected, _UNSUPPORTED, errors.UnsupportedParameter),
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
_CLASS_BY_STATUS: dict[int | None, type[errors.JudgeError]] = {
    **dict.fromkeys(range(400, 500), errors.RequestRejected),
    401: errors.AuthenticationFailed,
    402: errors.QuotaExhausted,
    403: errors.AuthenticationFailed,
    404: errors.ModelNotFound,
    408: errors.JudgeTimeout,
    429: errors.RateLimited,
    501: errors.RequestRejected,  # the server will not have learnt it a second later
}
# What a code says that comes without the status that belongs to it.
_STATUS_OF_SYMBOL = {
    **dict.fromkeys(
        (
            "invalid_api_key",
            "authentication_error",
            "invalid_authentication",
            "unauthorized",
            "Unauthorized",
        ),
        401,
    ),
    "UNAUTHENTICATED": 401,
    **dict.fromkeys(
        (
            "insufficient_quota",
            "billing_error",
            "billing_hard_limit_reached",
            "billing_not_active",
        ),
        402,
    ),
    **dict.fromkeys(
        (
            "permission_denied",
            "permission_error",
            "PermissionDenied",
            "PERMISSION_DENIED",
        ),
        403,
    ),
    **dict.fromkeys(
        ("model_not_found", "not_found_error", "NotFoundError", "NOT_FOUND"), 404
    ),
    **dict.fromkeys(
        (
            "rate_limit_exceeded",
            "rate_limit_error",
            "rate_limit_reached",
            "TooManyRequests",
        ),
        429,
    ),
    "RESOURCE_EXHAUSTED": 429,
    **dict.fromkeys(
        ("invalid_request_error", "context_length_exceeded", "INVALID_ARGUMENT"), 400
    ),
}
_KEY_REFUSED = lazy_pattern(
    r"(?:invalid|incorrect|missing|no)\b.{0,20}\b(?:api[ _-]?key|credentials)",
    re.IGNORECASE,
)
# What a client's own code raises while it reads a reply of another form than expected.
_RAISED_BY_READING = frozenset(
    {"AttributeError", "IndexError", "JSONDecodeError", "KeyError", "TypeError"}
)
_CONNECTION = frozenset(
    {
        "APIConnectionError",
        "ClientConnectionError",
        "ConnectionError",
        "NetworkError",
        "RemoteProtocolError",
    }
)
_SENTENCES: dict[type[errors.JudgeError], str] = {
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
    errors.ConnectionFailed: (
        "{where} could not be reached{details}: check the address and that the server"
        " runs"
    ),
    errors.JudgeServerError: (
        "{where} failed or sent no valid reply{details}: run again later or check the"
        " endpoint"
    ),
    errors.UnsupportedParameter: (
        "{where} does not support a parameter of the request{details}"
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
        symbols: The error codes and names of parameters in it that services document,
            e.g. "invalid_api_key" and "temperature".
        retry_after: Seconds after which the endpoint wants the next call; None if it
            does not say.
        text: All words of it. They are searched, and never shown.
        class_names: Names of the exceptions' classes and their bases, causes included;
            empty for a reply.
    """

    status: int | None = None
    symbols: tuple[str, ...] = ()
    retry_after: float | None = None
    text: str = ""
    class_names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """Read an exception of an OpenAI-like client, with the exceptions behind it.

        Clients keep status, body and headers in attributes of various names. The
        helpers called here are the only functions that know these names. Example: an
        exception with ``status_code`` 429 and the header "retry-after: 3" gives
        ``status`` 429 and ``retry_after`` 3.0.
        """
        exceptions = _with_causes(error)
        body = _body_in(exceptions)
        # Newer clients of OpenAI keep the body out of their message.
        text = "\n".join(_words_of(source) for source in (*exceptions, body))
        class_names: set[str] = set()
        # Status and headers stand in an exception or in its response.
        holders: list[object] = []
        for exception in exceptions:
            class_names.update(base.__name__ for base in type(exception).__mro__)
            holders += [exception, getattr(exception, "response", None)]
        return cls(
            status=_status_in(holders),
            # documented error codes and names of parameters, e.g. "invalid_api_key"
            symbols=_symbols(body, text),
            retry_after=_retry_after_in(holders),
            text=text,
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
        return cls(known_status, _symbols(body, text), retry_after, text)

    @property
    def about_key(self) -> bool:
        """Whether the words say that a key is missing or wrong."""
        is_rejection = self.status in range(400, 500)
        is_about_access = self.status in (401, 403)
        if is_rejection and not is_about_access:
            # Another rejection, e.g. 400, may echo such words from a sample.
            return False
        return _ABOUT_KEY.search(self.text) is not None

    @property
    def about_parameter(self) -> bool:
        """Whether the words name a parameter of the request."""
        return bool(_PARAMETERS.search(self.text) or _ABOUT_N.search(self.text))

    @property
    def timeout_or_failed_connection(self) -> type[errors.JudgeError] | None:
        """The class of error where no reply came: a timeout, or a failed connection.

        It goes by the names of the exceptions' classes. None if a reply came, or nobody
        knows.
        """
        if any("Timeout" in name for name in self.class_names):
            return errors.JudgeTimeout
        if not self.class_names.isdisjoint(_CONNECTION):
            return errors.ConnectionFailed
        return None

    @property
    def is_unreadable(self) -> bool:
        """Whether a reply came that the client could not read.

        It shows in the exception's words, or in its class: an ``IndexError``, for
        example, is raised where the client looks for what the reply lacks.
        """
        if self.timeout_or_failed_connection is errors.JudgeTimeout:
            return False
        if _NOT_JSON.search(self.text) is not None:
            return True
        if "OSError" in self.class_names:  # the connection failed
            return False
        return not self.class_names.isdisjoint(_RAISED_BY_READING)


def _with_causes(error: BaseException) -> list[BaseException]:
    """Return an exception, its cause, the cause of its cause, and so on."""
    exceptions = [error]
    while len(exceptions) < _MOST_CAUSES:
        cause = exceptions[-1].__cause__ or exceptions[-1].__context__
        if cause is None:
            break
        exceptions.append(cause)
    return exceptions


def _body_in(exceptions: Sequence[BaseException]) -> dict[str, Any]:
    """Return the first body of a reply that any exception holds; {} if none does."""
    for exception in exceptions:
        body = getattr(exception, "body", None)
        if isinstance(body, dict):
            return body
    return {}


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
        status = _status_of_symbol(error.get(name))
        if status is not None and status >= 400:
            return status
    return None


def _status_of_symbol(symbol: object) -> int | None:
    """Return the HTTP status that an error code stands for; None for an unknown code.

    The code may be the status itself, or a name such as "RESOURCE_EXHAUSTED".
    """
    status = status_number(symbol)
    if status is None and isinstance(symbol, str):
        return _STATUS_OF_SYMBOL.get(symbol)
    return status


def _words_of(value: object) -> str:
    """Return the message of an exception of any client; "" if that raises."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001  # it is their code
        return ""


def _symbols(body: Mapping[str, Any], text: str) -> tuple[str, ...]:
    """Return the error codes and names of parameters in an error reply, without repeats.

    Only documented codes and names are returned: any other text may echo a key or a
    sample. Example: ``{"error": {"code": "unsupported_parameter", "param":
    "logprobs"}}`` gives "unsupported_parameter" and "logprobs".

    Args:
        body: The body of the reply; empty if it is unknown.
        text: All words of the error, in which names of parameters are searched.
    """
    nested = body.get("error")
    detail = nested if isinstance(nested, dict) else body
    symbols: list[str] = []
    for name in ("code", "type", "param"):
        symbol = detail.get(name)
        if isinstance(symbol, str) and _is_documented(symbol):
            symbols.append(symbol)
    symbols += _PARAMETERS.findall(text)
    # The parameter named n: a mere "n" would be found in any text.
    if _ABOUT_N.search(text):
        symbols.append("param n")
    return tuple(dict.fromkeys(symbols))


def _is_documented(symbol: str) -> bool:
    """Whether services document a code, or a name of a parameter."""
    return (
        symbol in _DOCUMENTED_SYMBOLS
        or _PART_OF_PARAMETER.fullmatch(symbol) is not None
    )


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

    Clients use one class of exception for several faults. So these are looked at, in
    this order:

    1. Is the fault about the key, or about an invalid parameter?
    2. The HTTP status, if the exception says only "server error".
    3. Words that name a more special fault: "insufficient_quota" turns ``RateLimited``
       into ``QuotaExhausted``.
    4. Of a server error or a failed connection: whether the reply was unreadable, and
       why no reply came.
    5. The class of the exception.

    Args:
        stated_class: What the class of the client's exception stands for.
        fault: What the exception or the reply says.
    """
    if fault.about_key:
        return errors.AuthenticationFailed
    if _INVALID_PARAMETER.search(fault.text) and fault.about_parameter:
        return errors.UnsupportedParameter
    error_class = stated_class
    if stated_class is errors.JudgeServerError:
        error_class = _CLASS_BY_STATUS.get(fault.status, stated_class)
    for general_class, words, special_class in _REFINEMENTS:
        is_for_any_class = general_class is errors.JudgeError
        is_for_this_class = is_for_any_class or general_class is error_class
        if is_for_this_class and words.search(fault.text):
            return special_class
    if error_class in (errors.JudgeServerError, errors.ConnectionFailed):
        if fault.is_unreadable:
            return errors.JudgeServerError
        if fault.timeout_or_failed_connection is not None:
            return fault.timeout_or_failed_connection
    return error_class


def judge_error(
    stated_class: type[errors.JudgeError],
    fault: Fault,
    where: str,
    endpoint: str | None = None,
    advice_on_key: str = "",
    advice_on_model: str = "",
) -> errors.JudgeError:
    """Return the judge error for a fault, with a message that says what to do.

    The message repeats nothing that the endpoint wrote, except documented codes.
    Example: status 429 gives ``RateLimited``, status 401 ``AuthenticationFailed``.

    Args:
        stated_class: A first guess, by the class of the client's exception;
            ``JudgeServerError`` if it says nothing. The status and the words of the
            fault may overrule it, e.g. status 401 gives ``AuthenticationFailed``.
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
    if error_class is errors.AuthenticationFailed and advice_on_key:
        return error_class(f"no key was given for {where}: {advice_on_key}")
    if issubclass(error_class, errors.ContextWindowExceeded):
        # "maximum context length is 8192 tokens, but you requested 9000" has both.
        n_tokens = _number_in(fault.text, _TOKENS)
        window = _number_in(fault.text, _WINDOW)
        return error_class.from_counts(where, n_tokens, window)
    sentence = _sentence(error_class, fault, advice_on_model)
    message = sentence.format(where=where, details=_details_in_words(fault))
    if issubclass(error_class, errors.TransientJudgeError):
        return error_class(message, retry_after=fault.retry_after)
    return error_class(message)


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
    details += fault.symbols
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
    has_no_reply = fault.timeout_or_failed_connection is not None
    if fault.status is not None or fault.about_key or has_no_reply:
        # ``judge_error`` finds the right class by what the fault says, e.g.
        # ``RateLimited`` by the status 429. It has to be given a class for faults that
        # do not tell: a fault of the server.
        return judge_error(errors.JudgeServerError, fault, where)
    if _is_about_unknown_parameter(error, fault):
        return judge_error(errors.UnsupportedParameter, fault, where)
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
    if fault.about_parameter or "unexpected keyword" in fault.text:
        return True
    return _UNSUPPORTED.search(fault.text) is not None


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
