"""What is read off a client's exception, and the sentence that a judge error says about it.

The sentences hold status codes, symbols and names of parameters, never what the endpoint wrote: it may echo
keys or texts of samples.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urljoin, urlsplit

from ragmetrics_core.data import errors
from ragmetrics_core.endpoints.overflow import filtered, token_counts, too_long

_SYMBOL = re.compile(r"[A-Za-z][\w.\-\[\]]{0,60}")
_PARAMETERS = re.compile(r"\b(top_logprobs|logprobs|response_format|json_schema|temperature|max_tokens)\b")
_ABOUT_N = re.compile(r"['\"`]n['\"`]|\bparam(?:eter)? n\b")
_ABOUT_KEY = re.compile(
    r"missing (?:credentials|\w+ api key)|no key is set|api[_ ]key client option must be set", re.IGNORECASE
)
_ABOUT_PROVIDER = re.compile(r"LLM Provider NOT provided", re.IGNORECASE)
_QUOTA = ("insufficient_quota", "exceeded your current quota", "billing_hard_limit", "credit balance is too low")
_UNSUPPORTED = ("unsupported_parameter", "unsupported_value", "not support", "unsupported", "unrecognized request")
# How servers built on pydantic say that a parameter is not one of theirs, whatever status they send.
_INVALID = ("literal_error", "extra_forbidden", "Input should be", "Extra inputs are not permitted")
_NOT_JSON = ("Unable to get json response", "JSONDecodeError", "Expecting value")
_STATUSES: dict[int | None, type[errors.JudgeError]] = {
    **dict.fromkeys(range(400, 500), errors.RequestRejected),
    401: errors.AuthenticationFailed,
    402: errors.QuotaExhausted,
    403: errors.AuthenticationFailed,
    404: errors.ModelNotFound,
    408: errors.JudgeTimeout,
    429: errors.RateLimited,
}
_STUMBLES = ("AttributeError", "IndexError", "JSONDecodeError", "KeyError", "TypeError")
_CONNECTION = frozenset(
    {"APIConnectionError", "ClientConnectionError", "ConnectionError", "NetworkError", "RemoteProtocolError"}
)


@dataclass(frozen=True, slots=True)
class Fault:
    """What an exception of a client says, in symbols.

    Args:
        status: HTTP status; None if there was none.
        symbols: Error codes and names of parameters.
        retry_after: Seconds to wait.
        text: Everything said, to be searched, never to be shown.
        classes: Names of the exceptions' classes and of their bases, causes included.
    """

    status: int | None
    symbols: tuple[str, ...]
    retry_after: float | None
    text: str
    classes: frozenset[str]

    def __repr__(self) -> str:
        return f"Fault({self.status}, {self.symbols})"

    @classmethod
    def of(cls, error: BaseException) -> Fault:
        """Probe an exception of an OpenAI-like client; the one place that looks for attributes by name."""
        chain = tuple(_chain(error))
        text = "\n".join(map(str, chain))
        bodies = (getattr(link, "body", None) for link in chain)
        body = next((body for body in bodies if isinstance(body, dict)), {})
        return cls(
            status=next(filter(lambda status: status is not None, map(_status, chain)), None),
            symbols=_symbols(body, text),
            retry_after=next(filter(lambda wait: wait is not None, map(_retry_after, chain)), None),
            text=text,
            classes=frozenset(base.__name__ for link in chain for base in type(link).__mro__),
        )

    @classmethod
    def from_reply(cls, status: int | None, text: str, retry_after: float | None) -> Fault:
        """Read a reply that is an error; its text may be no JSON."""
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            body = {}
        return cls(status, _symbols(body if isinstance(body, dict) else {}, text), retry_after, text, frozenset())

    @property
    def kind(self) -> type[errors.JudgeError] | None:
        """What ``judge_error`` is to narrow, whatever client raised it; None if the endpoint had no part in it."""
        told = self.status is not None or self.about_key or self.timed_out or self.disconnected
        return errors.JudgeServerError if told else None

    @property
    def timed_out(self) -> bool:
        """True if there was no reply in time."""
        return any("Timeout" in name for name in self.classes)

    @property
    def disconnected(self) -> bool:
        """True if the endpoint could not be reached, or the connection broke."""
        return not self.classes.isdisjoint(_CONNECTION)

    @property
    def unreadable(self) -> bool:
        """True if there was a reply that the client could not read, whatever it calls that itself."""
        stumbled = not self.classes.isdisjoint(_STUMBLES) and "OSError" not in self.classes
        return stumbled or any(word in self.text for word in _NOT_JSON)

    @property
    def about_key(self) -> bool:
        """True if a key is missing; refusals for another reason may echo such words from a sample."""
        elsewise = self.status in range(400, 500) and self.status not in (401, 403)
        return not elsewise and _ABOUT_KEY.search(self.text) is not None

    @property
    def about_parameter(self) -> bool:
        """True if a client says that it does not know a parameter; other faults of its code say nothing of requests."""
        said = self.text.lower()
        known = _PARAMETERS.search(self.text) or _ABOUT_N.search(self.text)
        return bool(known) or "unexpected keyword" in said or any(word in said for word in _UNSUPPORTED)

    @property
    def details(self) -> str:
        """Status and symbols in brackets, for messages."""
        status = (f"HTTP {self.status}",) if self.status else ()
        return f" ({', '.join((*status, *self.symbols))})" if status or self.symbols else ""


def _symbols(body: Mapping[str, Any], text: str) -> tuple[str, ...]:
    """Error codes and names of parameters, as far as they are symbols."""
    nested = body.get("error")
    detail = nested if isinstance(nested, dict) else body
    symbols = [detail.get(name) for name in ("code", "type", "param")]
    named = [*_PARAMETERS.findall(text), *(("param n",) if _ABOUT_N.search(text) else ())]
    valid = [symbol for symbol in symbols if isinstance(symbol, str) and _SYMBOL.fullmatch(symbol)]
    return tuple(dict.fromkeys((*valid, *named)))


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    for _ in range(8):
        if link is None:
            return
        yield link
        link = link.__cause__ or link.__context__


def _status(error: BaseException) -> int | None:
    """HTTP status, of the exception itself or of the response that it holds."""
    statuses = (getattr(holder, "status_code", None) for holder in (error, getattr(error, "response", None)))
    return next((status for status in statuses if isinstance(status, int)), None)


def _retry_after(error: BaseException) -> float | None:
    for holder in (getattr(error, "response", None), error):
        for name in ("headers", "litellm_response_headers"):
            headers = getattr(holder, name, None)
            if isinstance(headers, Mapping) and (wait := seconds(headers.get("retry-after"))) is not None:
                return wait
    return None


def seconds(header: Any, now: datetime | None = None) -> float | None:
    """Read a ``Retry-After`` header: seconds or an HTTP date.

    Returns:
        Seconds from now, at least 0; None if the header is missing or says neither.
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


def _narrowed(kind: type[errors.JudgeError], fault: Fault) -> type[errors.JudgeError]:
    """Correct the kind of error where clients put several faults under one class."""
    if fault.about_key:
        return errors.AuthenticationFailed
    if any(word in fault.text for word in _INVALID) and (_PARAMETERS.search(fault.text) or _ABOUT_N.search(fault.text)):
        return errors.UnsupportedParameter
    if fault.status == 403 and filtered(fault.text):
        return errors.ContentRefused
    if kind is errors.JudgeServerError and fault.status in _STATUSES:
        return _narrowed(_STATUSES[fault.status], fault)
    if _ABOUT_PROVIDER.search(fault.text):
        return errors.ModelNotFound
    if kind is errors.RateLimited and any(word in fault.text for word in _QUOTA):
        return errors.QuotaExhausted
    if kind in (errors.JudgeServerError, errors.ConnectionFailed):
        if fault.timed_out:
            return errors.JudgeTimeout
        if fault.unreadable:
            return errors.JudgeServerError
        return errors.ConnectionFailed if fault.disconnected else kind
    if kind is errors.RequestRejected and filtered(fault.text):
        return errors.ContentRefused
    if kind is errors.RequestRejected and too_long(fault.text):
        return errors.ContextWindowExceeded
    if kind is errors.RequestRejected and any(word in fault.text.lower() for word in _UNSUPPORTED):
        return errors.UnsupportedParameter
    return kind


def judge_error(
    kind: type[errors.JudgeError], fault: Fault, model: str, endpoint: str | None, variables: tuple[str, ...]
) -> errors.JudgeError:
    """Make the judge error for a fault.

    Args:
        kind: What the client's class of exception stands for.
        fault: What the exception says.
        model: Name of the model.
        endpoint: Address of the endpoint, if it is one of the user's own.
        variables: Environment variables that would hold the key, as far as they are not set.

    Returns:
        The error, its message without anything that the endpoint wrote.
    """
    kind = _narrowed(kind, fault)
    where = f"{model} at {public(endpoint)}" if endpoint else model
    if kind is errors.AuthenticationFailed and variables:
        return kind(f"no key was given for {where}: set {', '.join(variables)} or pass api_key=")
    sentence = _SENTENCES.get(kind, "{where} could not answer{details}")
    if kind is errors.JudgeServerError and any(word in fault.text for word in _NOT_JSON):
        sentence = "{where} sent a body that is no JSON{details}: check the endpoint"
    message = sentence.format(where=where, details=fault.details)
    if issubclass(kind, errors.ContextWindowExceeded):
        return kind.counted(where, *token_counts(fault.text))
    if kind is errors.JudgeServerError and fault.unreadable:
        message = f"{where} sent a reply that cannot be read: check that the endpoint is what its name says"
    if issubclass(kind, errors.TransientJudgeError):
        return kind(message, retry_after=fault.retry_after)
    return kind(message)


def public(address: str) -> str:
    """An address without the user, password and query that it may hold; what is no address is not repeated."""
    try:
        parts = urlsplit(address)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return _NO_ADDRESS
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host:
        return _NO_ADDRESS
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}{parts.path.rpartition('@')[2]}"


def moved(where: str, asked: str, location: str) -> errors.EndpointMoved:
    """The error for a redirect.

    Args:
        where: Name of the model.
        asked: The address that was called.
        location: Where its reply points to.
    """
    target = public(urljoin(asked, location))
    base = target.removesuffix("/chat/completions")
    if base == target:  # what else the path says is the endpoint's word, which may be anything
        base = "".join(re.findall(r"^https?://[^/]*", target)) or target
    return errors.EndpointMoved(
        f"{where} answered with a redirect to {base}, which was not followed, because keys and texts would go there: "
        "configure that address as the endpoint's, if it is the right one"
    )


def too_large(where: str) -> errors.MalformedReply:
    """The error for a reply that is longer than any reply to a question."""
    return errors.MalformedReply(f"{where} sent more than {MOST_BYTES // 2**20} MB; check the endpoint")


MOST_BYTES = 16 * 2**20
"""The largest reply that is read."""
_NO_ADDRESS = "an address that does not begin with http:// or https://"
_SENTENCES: dict[type[errors.JudgeError], str] = {
    errors.AuthenticationFailed: "{where} refused the key{details}: check the key and what it may use",
    errors.ModelNotFound: (
        "nothing provides the model {where}{details}: give provider/model as your endpoint knows it, "
        "e.g. openai/gpt-4o-mini or ollama/llama3.1"
    ),
    errors.QuotaExhausted: "the quota or budget for {where} is used up{details}: raise it or use another model",
    errors.RateLimited: "{where} asked to slow down{details}: lower the concurrency or run again later",
    errors.JudgeTimeout: "{where} sent no reply in time: raise the timeout or check the endpoint",
    errors.ConnectionFailed: "{where} could not be reached{details}: check the address and that the server runs",
    errors.JudgeServerError: "{where} failed or sent no valid reply{details}: run again later or check the endpoint",
    errors.UnsupportedParameter: "{where} does not support a parameter of the request{details}",
    errors.RequestRejected: "{where} rejected the request{details}",
    errors.ContentRefused: "{where} or a content filter refused the request{details}",
}
