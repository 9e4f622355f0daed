"""From what a client raised, or an endpoint replied, to the judge error that says it.

The sentences hold status codes, and codes and names of parameters that services are
known to send. They never hold anything else that the endpoint wrote: it may echo keys
or texts of samples.
"""

import json
import math
import re
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any, Self
from urllib.parse import urljoin

from ragmetrics_core.data import errors
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
_SYMBOLS = frozenset(_DOCUMENTED.split())
_PART_OF_PARAMETER = re.compile(
    r"messages\.?\[\d{1,4}\](?:\.(?:role|content))?|response_format\.(?:type|json_schema(?:\.(?:name|schema|strict))?)"
)
_PARAMETERS = re.compile(
    r"\b(top_logprobs|logprobs|response_format|json_schema|temperature|max_tokens)\b"
)
_ABOUT_N = re.compile(r"['\"`]n['\"`]|\bparam(?:eter)? n\b")
_ABOUT_KEY = re.compile(
    r"missing (?:credentials|\w+ api key)|no key is set|api[_ ]key client option must"
    r" be set",
    re.IGNORECASE,
)
_UNSUPPORTED = re.compile(
    r"unsupported|not support|unrecognized request", re.IGNORECASE
)
# How servers built on pydantic say that a parameter is not one of theirs, whatever
# status they send.
_INVALID = re.compile(
    r"literal_error|extra_forbidden|Input should be|Extra inputs are not permitted"
)
_NOT_JSON = re.compile(
    r"Unable to get json response|JSONDecodeError|Expecting value|json_invalid"
)
_FILTERED = re.compile(
    r"content_filter|content_policy|content management policy|ResponsibleAI",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(
    r"context_length_exceeded|context[ _-]?(?:length|window|size)|prompt is too"
    r" long|input token count|too many tokens"
    r"|max_tokens_exceeded|longer than the (?:model's )?maximum|inputs?.? tokens? \+ .?max_new_tokens",
    re.IGNORECASE,
)
# What a kind of error is rather, if these words were said; the first that fits.
_RATHER: tuple[
    tuple[type[errors.JudgeError], re.Pattern[str], type[errors.JudgeError]], ...
] = (
    (
        errors.JudgeError,
        re.compile("LLM Provider NOT provided", re.IGNORECASE),
        errors.ModelNotFound,
    ),
    (
        errors.RateLimited,
        re.compile(
            r"insufficient_quota|exceeded your current quota|billing_hard_limit|credit"
            r" balance is too low"
        ),
        errors.QuotaExhausted,
    ),
    (
        errors.RateLimited,
        re.compile(r"request too large", re.IGNORECASE),
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
_TOKENS = re.compile(
    r"(?:resulted in|you requested(?: about)?|you passed|request has|requested"
    r" tokens|prompt is too long:|given:"
    rf"|input token count|request(?= {_NUMBER} tokens)|prompt contains(?: at"
    rf" least)?|\d, requested) {_NUMBER}",
    re.IGNORECASE,
)
_WINDOW = re.compile(
    rf"(?:maximum context length is|context window of|context size|>(?= {_NUMBER}"
    r" maximum)"
    r"|maximum number of tokens allowed|must be <=|context length of only|\(TPM\):"
    rf" limit) {_NUMBER}",
    re.IGNORECASE,
)
_STATUSES: dict[int | None, type[errors.JudgeError]] = {
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
_KEY_REFUSED = re.compile(
    r"(?:invalid|incorrect|missing|no)\b.{0,20}\b(?:api[ _-]?key|credentials)",
    re.IGNORECASE,
)
_STUMBLES = frozenset(
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
        " endpoint knows it, e.g. openai/gpt-4o-mini or ollama/llama3.1"
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


@dataclass(frozen=True, slots=True, repr=False)
class Fault:
    """What an exception of a client, or a reply that is an error, says."""

    status: int | None = None
    symbols: tuple[str, ...] = ()  # error codes and names of parameters
    retry_after: float | None = None
    text: str = ""  # everything said, to be searched, never to be shown
    # names of the exceptions' classes and their bases, causes included
    classes: frozenset[str] = frozenset()

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """Probe an exception of an OpenAI-like client.

        The one place that looks for attributes by name.
        """
        chain = [error]
        while len(chain) < 8 and (
            cause := chain[-1].__cause__ or chain[-1].__context__
        ):
            chain.append(cause)
        body = next(
            (
                body
                for link in chain
                if isinstance(body := getattr(link, "body", None), dict)
            ),
            {},
        )
        # newer clients of OpenAI keep the body out of their message
        text = "\n".join(map(_words_of, (*chain, body)))
        holders = [
            holder
            for link in chain
            for holder in (link, getattr(link, "response", None))
        ]
        statuses = (
            getattr(holder, name, None)
            for holder in holders
            for name in ("status_code", "status")
        )
        names = ("headers", "litellm_response_headers")
        headers = (getattr(holder, name, None) for holder in holders for name in names)
        waits = (
            seconds_of_retry_after(mapping.get("retry-after"))
            for mapping in headers
            if isinstance(mapping, (Mapping, Message))
        )
        return cls(
            status=next(
                (status for status in statuses if isinstance(status, int)), None
            ),
            symbols=_symbols(body, text),
            retry_after=next((wait for wait in waits if wait is not None), None),
            text=text,
            classes=frozenset(
                base.__name__ for link in chain for base in type(link).__mro__
            ),
        )

    @classmethod
    def from_reply(
        cls, status: int | None, text: str, retry_after: float | None
    ) -> Self:
        """Read a reply that is an error; its text may be no JSON."""
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            body = {}
        # a batch service may write anything there
        status = status if type(status) is int else None
        return cls(
            status,
            _symbols(body if isinstance(body, dict) else {}, text),
            retry_after,
            text,
        )

    @property
    def about_key(self) -> bool:
        """True if a key is missing.

        Refusals for another reason may echo such words from a sample. So they do not
        count.
        """
        elsewise = self.status in range(400, 500) and self.status not in (401, 403)
        return not elsewise and _ABOUT_KEY.search(self.text) is not None

    @property
    def about_parameter(self) -> bool:
        """True if a parameter is named."""
        return bool(_PARAMETERS.search(self.text) or _ABOUT_N.search(self.text))

    @property
    def unanswered(self) -> type[errors.JudgeError] | None:
        """Class of the error if no reply came in time, or no connection was made.

        The classes of the exceptions tell. It is None otherwise.
        """
        if any("Timeout" in name for name in self.classes):
            return errors.JudgeTimeout
        return None if self.classes.isdisjoint(_CONNECTION) else errors.ConnectionFailed

    @property
    def unreadable(self) -> bool:
        """True if there was a reply that the client could not read.

        What the client calls that does not matter.
        """
        stumbled = (
            not self.classes.isdisjoint(_STUMBLES) and "OSError" not in self.classes
        )
        return self.unanswered is not errors.JudgeTimeout and (
            stumbled or _NOT_JSON.search(self.text) is not None
        )


def status_number(status: object) -> int | None:
    """A status as a number, also where a service writes it as a text.

    None if it is none.
    """
    if isinstance(status, str) and status.strip().isdecimal():
        status = int(status.strip()[:9])
    return status if type(status) is int and 100 <= status < 600 else None


def status_of_body(body: object) -> int | None:
    """The status of the error that a reply is, though it came as a success.

    None if it is no error.

    Gateways answer so where the model's own service failed after the headers were sent.
    """
    if not isinstance(body, dict) or body.get("choices") or not body.get("error"):
        return None
    error = body["error"]
    if isinstance(error, str):
        return 401 if _KEY_REFUSED.match(error) else None
    symbols = (
        [error.get("code"), error.get("status"), error.get("type")]
        if isinstance(error, dict)
        else []
    )
    statuses = [
        status_number(symbol)
        or (_STATUS_OF_SYMBOL.get(symbol) if isinstance(symbol, str) else None)
        for symbol in symbols
    ]
    return next(
        (status for status in statuses if status is not None and status >= 400), None
    )


def _words_of(value: object) -> str:
    """What an exception of somebody's client says; "" if it cannot be told."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001  # it is their code
        return ""


def _symbols(body: Mapping[str, Any], text: str) -> tuple[str, ...]:
    """Return error codes and names of parameters.

    They are known as far as services are known to send them.
    """
    detail = nested if isinstance(nested := body.get("error"), dict) else body
    symbols = [detail.get(name) for name in ("code", "type", "param")]
    valid = [
        symbol for symbol in symbols if isinstance(symbol, str) and _is_known(symbol)
    ]
    named = [
        *_PARAMETERS.findall(text),
        *(("param n",) if _ABOUT_N.search(text) else ()),
    ]
    return tuple(dict.fromkeys((*valid, *named)))


def _is_known(symbol: str) -> bool:
    return symbol in _SYMBOLS or _PART_OF_PARAMETER.fullmatch(symbol) is not None


def seconds_of_retry_after(header: Any, now: datetime | None = None) -> float | None:
    """Seconds from now that a ``Retry-After`` header says, as a number or a date.

    None if it says neither.
    """
    text = str("" if header is None else header).strip()
    try:
        wait = float(text)
    except ValueError:
        try:
            date = parsedate_to_datetime(text)
        except (ValueError, OverflowError):
            return None
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        wait = (date - (now or datetime.now(UTC))).total_seconds()
    return max(wait, 0.0) if math.isfinite(wait) else None


def _class_of_error(
    stated: type[errors.JudgeError], fault: Fault
) -> type[errors.JudgeError]:
    """Return the class of error that a fault is.

    It is what the client's class stands for, corrected where one class stands for
    several.
    """
    if fault.about_key:
        return errors.AuthenticationFailed
    if _INVALID.search(fault.text) and fault.about_parameter:
        return errors.UnsupportedParameter
    kind = (
        _STATUSES.get(fault.status, stated)
        if stated is errors.JudgeServerError
        else stated
    )
    for general, words, specific in _RATHER:
        if general in (kind, errors.JudgeError) and words.search(fault.text):
            return specific
    if kind in (errors.JudgeServerError, errors.ConnectionFailed):
        return errors.JudgeServerError if fault.unreadable else fault.unanswered or kind
    return kind


def judge_error(
    stated: type[errors.JudgeError],
    fault: Fault,
    where: str,
    endpoint: str | None = None,
    no_key: str = "",
    no_model: str = "",
) -> errors.JudgeError:
    """Return the judge error for a fault.

    Its message holds nothing that the endpoint wrote.

    Args:
        stated: What the client's class of exception stands for.
        fault: What the exception says.
        where: Name of the model.
        endpoint: Its address, if it is one of the user's own.
        no_key: What to do about a key that is missing; "" if there was one.
        no_model: What to do about a model that the endpoint does not know; "" for what
            holds of all endpoints.
    """
    kind = _class_of_error(stated, fault)
    where = f"{where} at {public_address(endpoint)}" if endpoint else where
    if kind is errors.AuthenticationFailed and no_key:
        return kind(f"no key was given for {where}: {no_key}")
    if issubclass(kind, errors.ContextWindowExceeded):
        return kind.from_counts(
            where, _count(_TOKENS, fault.text), _count(_WINDOW, fault.text)
        )
    details = ", ".join(
        (*((f"HTTP {fault.status}",) if fault.status else ()), *fault.symbols)
    )
    sentence = next(_SENTENCES[base] for base in kind.__mro__ if base in _SENTENCES)
    if kind is errors.JudgeServerError and fault.unreadable:
        sentence = (
            "{where} sent a reply that cannot be read: check that the endpoint is what"
            " its name says"
        )
    if kind is errors.ModelNotFound and no_model:
        sentence = "there is no model {where}{details}: " + no_model
    message = sentence.format(where=where, details=f" ({details})" if details else "")
    return (
        kind(message, retry_after=fault.retry_after)
        if issubclass(kind, errors.TransientJudgeError)
        else kind(message)
    )


def _count(pattern: re.Pattern[str], text: str) -> int | None:
    match = pattern.search(text)
    return int(match[match.lastindex or 0].replace(",", "")) if match else None


def error_of_client(error: BaseException, where: str) -> errors.JudgeError:
    """Return the judge error for what any client raised.

    It goes by what the error says of the endpoint, else by its class.
    """
    fault = Fault.of(error)
    if fault.status is not None or fault.about_key or fault.unanswered:
        return judge_error(errors.JudgeServerError, fault, where)
    unknown = (
        fault.about_parameter
        or "unexpected keyword" in fault.text
        or _UNSUPPORTED.search(fault.text)
    )
    if isinstance(error, NotImplementedError) or (
        isinstance(error, (TypeError, ValueError, KeyError)) and unknown
    ):
        # a client that does not know a parameter
        return judge_error(errors.UnsupportedParameter, fault, where)
    places = traceback.extract_tb(error.__traceback__)[-1:]
    place = "".join(
        f" in {frame.name} ({frame.filename}:{frame.lineno})" for frame in places
    )
    return errors.JudgeError(
        f"{where} could not answer: its client raised {type(error).__name__}{place}"
    )


def error_of_redirect(
    where: str, asked: str, location: str, key: str = ""
) -> errors.EndpointMoved:
    """The error for a redirect of a call to an address.

    Of where it points to, only scheme, host and port are told.

    The path may be an echo of anything that was sent.

    Args:
        where: Name of the model.
        asked: The address that was called.
        location: Where the redirect points to.
        key: The key that was sent; a host that holds it is not told.
    """
    try:
        origin = read_address(urljoin(asked, location)).origin
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
    """The error for a reply that is longer than any reply to a question."""
    return errors.MalformedReply(
        f"{where} sent more than {most // 2**20} MB; check the endpoint"
    )
