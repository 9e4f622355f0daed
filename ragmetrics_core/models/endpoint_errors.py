"""Makes a judge error of an error reply, or of an exception that a client raised.

The HTTP status and the provider's own code decide, and a few words where providers share
one status between faults. There are eight outcomes: the judge is unavailable, the key is
refused, the request is rejected, it is too long, its content is refused, its reply is
unusable, a rate is exceeded, or a passing fault. A refusal that names a feature of
requests says so in ``topics``, whatever its status.

Of what the endpoint wrote, messages repeat a code and, by ``endpoint_sentences``, its
sentence.
"""

import json
import math
import os
import re
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, Self

from ragmetrics_core.data import errors
from ragmetrics_core.data.errors import frame_of_users_code, is_users_code
from ragmetrics_core.models.features import topics_of

MOST_BYTES = 16 * 2**20
"""The largest reply that is read."""
ADVICE_ON_REFUSED_CONTENT = (
    "read the row's texts, and judge it with another model or leave it out"
)
_MOST_SEARCHED = 20_000  # characters of an error that are searched for words

# Client errors that pass by themselves: a time-out, a conflict, and "too early".
_PASSING = frozenset({408, 409, 425})
# Statuses of rejections that concern no feature of the request, whatever their words.
_NO_REFUSALS = frozenset({401, 402, 429})
# Words of a code, such as "invalid_api_key" and "DeploymentNotFound". A single word may
# be one of a sample or a part of a key.
_CODE = re.compile(r"[A-Za-z]{2,20}(?:_[A-Za-z]{2,20}){1,5}|(?:[A-Z][a-z]{2,19}){2,6}")
# A rejection may repeat words of a sample, so a message has to begin with these.
_KEY_REFUSED = re.compile(
    r"\W*(?:(?:invalid|incorrect|missing|no)\b.{0,20}\b(?:api[ _-]?key|credentials)"
    r"|api[ _-]?key (?:not valid|not found|invalid|is missing))",
    re.IGNORECASE,
)
# What clients say that were given no key.
_NO_KEY = re.compile(
    r"missing (?:credentials|\w+ api key)|no key is set|api[_ ]key client option must"
    r" be set",
    re.IGNORECASE,
)
# How a page of HTML begins.
_PAGE = re.compile(
    r"\s*(?:<!--.*?-->\s*)?<(?:!doctype\s+)?html\b", re.IGNORECASE | re.S
)
# Servers built on pydantic say with any status that a parameter is not theirs.
_UNSUPPORTED = re.compile(
    r"unsupported|not support|unrecognized request|unexpected keyword|extra_forbidden"
    r"|literal_error|Extra inputs are not permitted",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"content_?(?:filter|policy)|content management policy|ResponsibleAI|flagged_input"
    r"|data_inspection_failed|invalid_prompt|Content Exists Risk"
    r"|violat\w+ (?:our |its |the )?(?:usage|content|safety) (?:polic|guideline)",
    re.IGNORECASE,
)
# Errors in place of a reply that was written, and how that ended.
_ENDS_OF_REPLIES: tuple[tuple[Literal["length", "other"], re.Pattern[str]], ...] = (
    ("length", re.compile(r"max_tokens or model output limit was reached")),
    ("other", re.compile(r"json_validate_failed")),
)
# Codes of what no wait of a run brings back, and sentences that stand for one.
_SPENT = re.compile(
    r"insufficient_quota|exceeded_current_quota|billing_(?:hard_limit|not_active)"
    r"|credit balance is too low|Budget has been exceeded|budget_exceeded|ExceededBudget"
    r'|"Arrearage"|your specified API usage limits'  # Model Studio's, Anthropic's
)
# Words that say the same with these statuses, which seldom repeat a text of a sample.
_SPENT_IN_WORDS = re.compile(
    r"insufficient (?:account )?balance|balance (?:is )?(?:insufficient|not enough)"
    r"|not[ _]enough[ _]balance|余额不足|exceeded budget|spending limit|any credits"
    r"|(?:weekly|session|hourly) usage limit|per-?day",
    re.IGNORECASE,
)
_STATUSES_OF_SPENT = frozenset({401, 403, 412, 429})
_QUOTA = "exceeded your current quota"  # Gemini's, of a minute like that of a day
# Statuses with which no filter refuses: servers repeat what was sent with that of size,
# and routers what was refused before with those of budgets and rates.
_UNFILTERED = frozenset({402, 413, 429})
_UPSTREAM = re.compile(r"\s*upstream connect error")  # Envoy's; some send it as a 403
_MODEL = re.compile(r"model|deployment", re.IGNORECASE)
_RATE = re.compile(r"\W*(?:API )?rate limit", re.IGNORECASE)  # GitHub's, with a 403
# "Please retry in 3.07s.", "try again in 14m24s", "wait 3 seconds", and Google's
# "retryDelay": "3s"
_WAIT_IN_WORDS = re.compile(
    r"\b(?:wait|(?:(?:re)?try(?: again)?|resets?)(?: in| after|Delay\W{1,6}))\s?(?:(\d{1,4})h)?"
    r"(?:(\d{1,4})m(?!s))?(?:(\d{1,6}(?:\.\d{1,9})?) ?s(?:ec|\b))?",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(
    r"context[ _-]?(?:length|window|size|limit)|prompt is too long|input token count"
    r"|too many tokens|request too large|max_tokens_exceeded"
    r"|longer than the (?:model's )?maximum|must have less than|inputs?.? tokens? \+ .?max_new_tokens",
    re.IGNORECASE,
)
_MOMENT = re.compile(r"[0-9]{10}(?:[0-9]{3})?")  # of this century
# Classes of exceptions of clients that sent nothing, as nothing listens.
_NOT_SENT = frozenset(
    {
        "ClientConnectorError",
        "ConnectError",
        "ConnectTimeout",
        "ConnectionRefusedError",
        "ConnectionTimeoutError",
        "gaierror",
    }
)
# Classes of exceptions of clients to which a proxy opened no way.
_REFUSED_BY_PROXY = frozenset({"ClientHttpProxyError", "ProxyError"})
# Classes of exceptions of clients whose connection broke.
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
# How deep lists and objects of an error's body hold its message.
_DEEPEST_DETAIL = 6
# Most exceptions that are looked at in a chain of causes.
_MOST_CAUSES = 8
_FIRST_ERROR = 400  # of the statuses; a client's code may be any number


@dataclass(frozen=True, slots=True, repr=False)
class Fault:
    """The information in an exception of a client, or in an error reply.

    Args:
        status: The HTTP status; None if none is known.
        codes: The endpoint's own words for the fault, e.g. "invalid_api_key".
        retry_after: Seconds after which the endpoint wants the next call; None if it
            does not say.
        text: Its words, a long error cut. They are searched, and never shown.
        sentence: The message in it; "" without one. It may repeat texts of a sample.
        written: What the model had written, where the endpoint says so; else "".
        class_names: Names of the exceptions' classes and their bases, causes included;
            empty for a reply.
        tls_problem: Why no TLS connection was made, in OpenSSL's words, e.g.
            "self-signed certificate"; "" for no such problem.
    """

    status: int | None = None
    codes: tuple[str, ...] = ()
    retry_after: float | None = None
    text: str = ""
    class_names: frozenset[str] = frozenset()
    sentence: str = ""
    written: str = ""
    tls_problem: str = ""

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """Read an exception of an OpenAI-like client, with the exceptions behind it.

        Clients keep status, body and headers in attributes of various names. Example: an
        exception with ``status_code`` 429 and the header "retry-after: 3" gives
        ``status`` 429 and ``retry_after`` 3.0.
        """
        exceptions = [error]  # and its cause, the cause of its cause, and so on
        while len(exceptions) < _MOST_CAUSES:
            cause = exceptions[-1].__cause__ or exceptions[-1].__context__
            if cause is None:
                break
            exceptions.append(cause)
        bodies = [getattr(exception, "body", None) for exception in exceptions]
        # Google's client keeps it as details, Ollama's its sentence alone
        for name, kind in (("details", Mapping), ("error", str)):
            others = [getattr(exception, name, None) for exception in exceptions]
            bodies += [each for each in others if isinstance(each, kind)]
        class_names: set[str] = set()
        holders: list[object] = []  # of status and headers
        for exception in exceptions:
            class_names.update(base.__name__ for base in type(exception).__mro__)
            response = getattr(exception, "response", None)
            if isinstance(response, Mapping):
                response, error_of_aws = _reply_of_aws(response)
                bodies.append({"error": error_of_aws})
            holders += [exception, response]
        body = next((body for body in bodies if body), None)
        status: int | None = None
        retry_after: float | None = None
        for holder in holders:  # the first that has them decides
            for name in ("status_code", "status", "code"):
                value = getattr(holder, name, None) if status is None else None
                if isinstance(value, int) and (name != "code" or value >= _FIRST_ERROR):
                    status = int(value)
            for name in ("headers", "litellm_response_headers"):
                headers = getattr(holder, name, None)
                if retry_after is None and isinstance(headers, (Mapping, Message)):
                    retry_after = wait_in_headers(headers)

        tls_errors = [each for each in exceptions if isinstance(each, ssl.SSLError)]
        tls_words = [
            getattr(each, name, None)
            for name in ("verify_message", "reason")
            for each in tls_errors
        ]
        # Newer clients of OpenAI keep the body out of their message.
        words = "\n".join(map(_words_of, (*exceptions, body)))
        return replace(
            cls._of_body(body, words, status, retry_after),
            class_names=frozenset(class_names),
            tls_problem=next((str(words) for words in tls_words if words), ""),
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
            body = text
        # A batch service may write anything in place of a status.
        known_status = status if type(status) is int else None
        return cls._of_body(body, text, known_status, retry_after)

    @classmethod
    def _of_body(
        cls, body: object, words: str, status: int | None, retry_after: float | None
    ) -> Self:
        """Read the body of an error, beside the error's other words."""
        detail = _detail_in(body)
        named = [detail.get(name) for name in ("code", "type", "status", "param")]
        codes = [
            each for each in named if isinstance(each, str) and _CODE.fullmatch(each)
        ]
        parameter = detail.get("param")
        about = f"parameter {parameter}" if isinstance(parameter, str) else ""
        written = detail.get("failed_generation")  # Groq's, of what it rejects
        sentence = message_in(body)
        text = f"{about}\n{sentence}\n{words}"[:_MOST_SEARCHED]
        return cls(
            status,
            tuple(dict.fromkeys(codes)),
            _wait_in(body, text) if retry_after is None else retry_after,
            text,
            sentence=sentence,
            written=written if isinstance(written, str) else "",
        )

    @property
    def is_about_key(self) -> bool:
        """Whether the words of the endpoint or its client are about a key."""
        if self.status in range(400, 500) and self.status != 401:
            begins_so = any(map(_KEY_REFUSED.match, self.text.split("\n", 3)[:3]))
            return begins_so or "invalid_api_key" in self.codes
        return _NO_KEY.search(self.text) is not None

    @property
    def is_unsent(self) -> bool:
        """Whether no connection was made, so that nothing was sent."""
        return not self.class_names.isdisjoint(_NOT_SENT)

    @property
    def is_refused_by_proxy(self) -> bool:
        """Whether a proxy on the way, and not the endpoint, refused the request."""
        names_a_proxy = not self.class_names.isdisjoint(_REFUSED_BY_PROXY)
        return self.status == 407 or (names_a_proxy and not self.is_unsent)

    @property
    def is_timeout(self) -> bool:
        """Whether the client waited in vain for a reply."""
        return any("Timeout" in name for name in self.class_names)

    @property
    def is_connection_lost(self) -> bool:
        """Whether no whole reply came.

        A client may report a status of its own making then, e.g. 500.
        """
        is_broken = not self.class_names.isdisjoint(_BROKEN)
        return self.is_unsent or self.is_timeout or is_broken

    @property
    def has_large_headers(self) -> bool:
        """Whether the client read no reply, as its headers are too long or too many."""
        return "LineTooLong" in self.class_names or "Too many headers" in self.text

    @property
    def is_rejection(self) -> bool:
        """Whether the request itself was rejected, so that it would be again."""
        status = self.status or 0
        is_clients_fault = (
            400 <= status < 500
            and status not in _PASSING
            and not _UPSTREAM.match(self.text)
        )
        # 501: the server will not have learnt it a second later.
        return is_clients_fault or status == 501 or self.refuses_parameter

    @property
    def refuses_parameter(self) -> bool:
        """Whether its words name a feature of requests, and say that it is not known."""
        return bool(topics_of(self.text)) and bool(_UNSUPPORTED.search(self.text))

    @property
    def later(self) -> str:
        """When to ask again, in words: "in 60 min", or "later" where that is not said."""
        minutes = math.ceil((self.retry_after or 0) / 60)
        return f"in {minutes:,} min" if minutes > 1 else "later"

    @property
    def details(self) -> str:
        """Status and codes in words, e.g. " (HTTP 429, tokens)"; "" without any."""
        known = [f"HTTP {self.status}"] if self.status else []
        known += self.codes
        return f" ({', '.join(known)})" if known else ""


def judge_error(
    fault: Fault, where: str, *, advice_on_key: str = "", advice_on_model: str = ""
) -> errors.JudgeError:
    """Return the judge error for a fault, with a message that says what to do.

    Example: status 429 gives ``RateLimited``, status 401 ``AuthenticationFailed``.

    Args:
        fault: What the exception or the reply says.
        where: Name of the model, with its address if that is one of the user's own.
        advice_on_key: What to do if the key is missing; "" if a key was sent.
        advice_on_model: What to do if the endpoint does not know the model; "" for the
            general advice.
    """
    if "ImportError" in fault.class_names:
        return errors.JudgeUnavailable(
            f"{where} was not asked, as its client lacks a package: install that, or name"
            " a server of OpenAI's form openai-compatible/MODEL"
        )
    if fault.is_about_key:
        return _error_of_key(fault, where, advice_on_key)
    if fault.is_refused_by_proxy:
        return errors.JudgeUnavailable(
            f"the proxy refused the way to {where}: check it, its user and password, or"
            " list the host in NO_PROXY"
        )
    if fault.is_connection_lost:
        return _error_of_connection(fault, where)
    if fault.is_rejection:
        for finish, pattern in _ENDS_OF_REPLIES:
            if pattern.search(fault.text):
                unusable = errors.UnusableReply(
                    f"{where} sent an error in place of its reply{fault.details}: raise"
                    " max_tokens, or use another model",
                    raw=fault.written,
                )
                unusable.finish = finish
                return unusable
        error = _error_of_rejection(fault, where, advice_on_key, advice_on_model)
    elif fault.status == 500 and _TOO_LONG.search(fault.sentence):
        error = errors.ContextWindowExceeded(
            f"the request is longer than {where} takes{fault.details}, alone or beside"
            " others: use shorter contexts, a larger window (llama.cpp: -c), or a lower"
            " concurrency"
        )
        error.may_be_shared = True
    else:
        error = errors.TransientJudgeError(
            f"{where} failed or sent no valid reply{fault.details}: run again"
            f" {fault.later} or check the endpoint",
            retry_after=fault.retry_after,
        )
    error.raw = fault.sentence
    if fault.is_rejection and fault.status not in _NO_REFUSALS:
        error.topics = topics_of(fault.text)
        if isinstance(error, errors.ContextWindowExceeded) and fault.status != 413:
            error.topics += ("limit",)  # the window is also for the reply
    elif fault.status == 500:  # of templates and servers that check nothing themselves
        error.topics = topics_of(fault.sentence)
    return error


def _error_of_key(
    fault: Fault, where: str, advice_on_key: str
) -> errors.AuthenticationFailed:
    if advice_on_key:
        return errors.AuthenticationFailed(
            f"no key was given for {where}: {advice_on_key}"
        )
    return errors.AuthenticationFailed(
        f"{where} refused the key{fault.details}: check the key and what it may use"
    )


def _error_of_connection(fault: Fault, where: str) -> errors.JudgeError:
    """Return the error of a call to which no whole reply came."""
    if "SSLCertVerificationError" in fault.class_names:
        certificates = os.environ.get("SSL_CERT_FILE", "")
        if certificates and not Path(certificates).is_file():
            return errors.JudgeUnavailable(
                f"{where} cannot be trusted, as SSL_CERT_FILE names no file:"
                f" {certificates}"
            )
        return errors.JudgeUnavailable(
            f"{where} has a certificate that is not trusted ({fault.tls_problem}): name"
            " a file with those that you trust in SSL_CERT_FILE, before Python is started,"
            " or check the address"
        )
    if fault.tls_problem:
        sentence = (
            f"could not be reached by TLS ({fault.tls_problem}): check whether the"
            " address begins with http:// or https://"
        )
    elif fault.is_unsent:
        sentence = "could not be reached: check the address and that the server runs"
    elif fault.is_timeout:
        sentence = "sent no reply in time: raise the timeout or check the endpoint"
    else:
        sentence = (
            "could not send its whole reply, as the connection broke: run again later"
            " or check the endpoint"
        )
    if fault.is_timeout and not fault.is_unsent:
        return errors.NoReplyInTime(f"{where} {sentence}")
    error = errors.TransientJudgeError(f"{where} {sentence}")
    error.is_sent = not fault.is_unsent
    return error


def _error_of_rejection(
    fault: Fault, where: str, advice_on_key: str, advice_on_model: str
) -> errors.JudgeError:
    """Return the error of a request that would be rejected again.

    The first of the cases that fits decides.
    """
    status = fault.status
    # before all that is sought in words: such an error may repeat what was refused
    words = fault.text
    if status == 422:  # servers that check their input repeat it behind the message
        words = "\n".join((*fault.codes, fault.sentence))
    if status not in _UNFILTERED and _FILTERED.search(words):
        return errors.ContentRefused(
            f"{where} or a content filter refused the request{fault.details}:"
            f" {ADVICE_ON_REFUSED_CONTENT}"
        )
    is_spent = status == 402 or _SPENT.search(fault.text)
    if status in _STATUSES_OF_SPENT:
        is_spent = is_spent or _SPENT_IN_WORDS.search(fault.text)
    if is_spent or (_QUOTA in fault.text and fault.retry_after is None):
        spent = errors.JudgeUnavailable(
            f"the quota or budget for {where} is used up{fault.details}: raise it or use"
            " another model"
        )
        if is_spent:  # whatever was answered before
            spent.single = False
        return spent
    # Some providers tell a request that is too long as a rate that is exceeded.
    is_within_rate = status != 429 or "oo large" in fault.text
    if is_within_rate and (status == 413 or _TOO_LONG.search(fault.text)):
        return errors.ContextWindowExceeded(
            f"the request is longer than {where} takes{fault.details}: use shorter"
            " contexts"
        )
    if status == 429 or (status == 403 and _RATE.match(fault.sentence)):
        # a wait of minutes is no matter of a few calls at once
        advice = (
            "lower the concurrency" if fault.later == "later" else "raise the limit"
        )
        return errors.RateLimited(
            f"{where} asked to slow down{fault.details}: {advice} or run again"
            f" {fault.later}",
            retry_after=fault.retry_after,
        )
    if status == 401:
        return _error_of_key(fault, where, advice_on_key)
    if status == 403:
        no_key = f"; no key was given: {advice_on_key}" if advice_on_key else ""
        sentence = (
            f"{where} refused access{fault.details}: check the key, its rights and the"
            f" region{no_key}"
        )
        if _PAGE.match(fault.text):  # endpoints send JSON or a line
            sentence = (
                f"a page came in place of a reply of {where}{fault.details}, as proxies"
                " and firewalls send it: have them let this address through"
            )
        refusal = errors.JudgeUnavailable(sentence)
        refusal.single = True  # it may be about the row's texts
        return refusal
    # A router words so, too, that none of its servers takes what was asked for.
    if status == 404 and "parameter" not in fault.sentence:
        advice = advice_on_model or (
            "give provider/model as your endpoint knows it, e.g. openai/gpt-4o-mini or"
            " ollama/llama3.1; of a ChatModel of your own, check its address and its"
            " model"
        )
        # A rule of the account, or a path, may be what was not found.
        names_another = fault.sentence and not _MODEL.search(fault.text)
        what = (
            f"{where} found no way to answer"
            if names_another
            else (f"there is no model {where}")
        )
        return errors.JudgeUnavailable(f"{what}{fault.details}: {advice}")
    return _rejection(fault, where)


def _rejection(fault: Fault, where: str) -> errors.RequestRejected:
    return errors.RequestRejected(
        f"{where} rejected the request{fault.details}: check the model, its address and"
        " its settings, and the row's texts"
    )


def error_of_client(error: BaseException, where: str) -> errors.JudgeError:
    """Return the judge error for an exception that any client raised.

    It goes by what the exception says of the endpoint: a status, a missing key, no
    reply in time. If it says nothing of the kind, the message names the exception's
    class and where it was raised, and never its words. A line of the user's own file is
    named before the line of a library that it called. Example: a ``ValueError`` of a
    client gives "gpt could not answer: its client raised ValueError in send
    (…/client.py:12): check the model, its address and its settings".

    Args:
        error: What was raised.
        where: Name of the model.
    """
    fault = Fault.of(error)
    if "ContentFilterFinishReasonError" in fault.class_names:  # of OpenAI's client
        return errors.ContentRefused(
            f"a content filter cut off the reply of {where}: {ADVICE_ON_REFUSED_CONTENT}"
        )
    tells_of_endpoint = (
        fault.status is not None
        or fault.is_connection_lost
        or fault.is_refused_by_proxy
    )
    if tells_of_endpoint or fault.is_about_key:
        return judge_error(fault, where)
    # A client that does not know a parameter raises one of these.
    if isinstance(error, NotImplementedError) or (
        isinstance(error, (TypeError, ValueError, KeyError)) and fault.refuses_parameter
    ):
        rejection = _rejection(fault, where)
        rejection.topics = topics_of(fault.text)
        return rejection
    message = f"{where} could not answer: its client raised {type(error).__name__}"
    if error.__traceback__ is not None:
        frame = frame_of_users_code(error)
        message += f" in {frame.name} ({frame.filename}:{frame.lineno})"
        if is_users_code(frame):
            message += "; raise TransientJudgeError there if asking again may help"
            return errors.JudgeError(message)
    return errors.JudgeError(
        f"{message}: check the model, its address and its settings"
    )


def error_of_redirect(where: str) -> errors.JudgeUnavailable:
    """Return the error for a call that was answered with a redirect.

    The target is not named, which may echo anything that was sent.
    """
    return errors.JudgeUnavailable(
        f"{where} answered with a redirect, which was not followed, because keys and"
        " texts would go there: configure the address that it leads to, if it is the"
        " right one"
    )


def error_of_large_reply(where: str, most: int = MOST_BYTES) -> errors.UnusableReply:
    """Return the error for a reply that is longer than any usable reply."""
    return errors.UnusableReply(
        f"{where} sent more than {most // 2**20} MB; check the endpoint"
    )


def wait_in_headers(headers: Mapping[str, Any] | Message) -> float | None:
    """Return the seconds after which an endpoint wants the next call; None if not said.

    ``Retry-After`` decides, else the moment at which a rate begins anew of which nothing
    is left, in seconds or milliseconds since 1970, as GitHub and OpenRouter write it.
    """
    value_by_name = {str(name).lower(): value for name, value in headers.items()}
    wait = seconds_of_retry_after(value_by_name.get("retry-after"))
    if wait is not None or str(value_by_name.get("x-ratelimit-remaining")) != "0":
        return wait
    moment = str(value_by_name.get("x-ratelimit-reset"))
    if not _MOMENT.fullmatch(moment):
        return None
    seconds = int(moment) / (1000 if len(moment) > 10 else 1)
    return max(seconds - time.time(), 0.0)


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


# Where clients and gateways keep what they know.


def status_of_body(body: object) -> int | None:
    """Return the status of an error that came as a success; None if it is no error.

    Gateways send such replies where the model's service fails after the headers, with
    their status 200, were sent. Example: ``{"error": {"code": 429}}`` gives 429;
    ``{"choices": […]}`` gives None, and so does an error that says no status.
    """
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return None
    for name in ("code", "status"):
        status = error.get(name)
        if isinstance(status, str) and status.strip().isdecimal():
            status = int(status.strip()[:9])
        if type(status) is int and 400 <= status < 600:
            return status
    return None


def _wait_in(body: object, words: str) -> float | None:
    """Return the seconds after which an error asks for the next call, or None.

    Headers of the provider behind a gateway tell, which stand in the body, else words.
    """
    error = body.get("error") if isinstance(body, Mapping) else None
    metadata = error.get("metadata") if isinstance(error, Mapping) else None
    headers = metadata.get("headers") if isinstance(metadata, Mapping) else None
    wait = wait_in_headers(headers) if isinstance(headers, Mapping) else None
    for told in _WAIT_IN_WORDS.finditer(words):
        if wait is None and any(told.groups()):
            hours, minutes, seconds = (float(number or 0) for number in told.groups())
            wait = 3600 * hours + 60 * minutes + seconds
    return wait


def _words_of(value: object) -> str:
    """Return the message of an exception of any client; "" if that raises."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001  # it is their code
        return ""


def _reply_of_aws(response: Mapping[str, Any]) -> tuple[object, Mapping[str, Any]]:
    """Return a reply as the client of AWS keeps it: with status and headers, its error."""
    error, facts = response.get("Error"), response.get("ResponseMetadata")
    facts = facts if isinstance(facts, Mapping) else {}
    reply = SimpleNamespace(
        status_code=facts.get("HTTPStatusCode"), headers=facts.get("HTTPHeaders")
    )
    error = error if isinstance(error, Mapping) else {}
    return reply, {str(name).lower(): value for name, value in error.items()}


def _detail_in(body: object) -> Mapping[str, Any]:
    """Return the part of an error's body that holds its code and message.

    Examples: of ``[{"error": {"message": "Busy"}}]`` and ``{"detail": "Busy"}`` it is
    ``{"message": "Busy"}``, perhaps with what stands beside it. Of a gateway's error it
    is that of the provider behind it, where it is repeated.
    """
    detail: Mapping[str, Any] = {}
    for _ in range(_DEEPEST_DETAIL):
        if isinstance(body, Mapping):
            detail = body
            holders = [detail.get(name) for name in ("error", "errors", "detail")]
            holders.append(_raw_in(detail))
            body = next((each for each in holders if each), None)
        elif isinstance(body, list):
            body = body[0] if body else None
        elif isinstance(body, str) and not body.lstrip().startswith("<"):
            return {**detail, "message": body}
        else:
            break
    return detail


def _raw_in(detail: Mapping[str, Any]) -> object:
    """Return the error of a provider that a gateway repeats beside its own, or None."""
    metadata = detail.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    try:
        return json.loads(raw) if isinstance(raw, str) else None
    except (ValueError, RecursionError):
        return raw


def message_in(body: object) -> str:
    """Return the first line of an error's message; "" without one.

    Of a message in a box, as templates raise it, the last line counts.
    """
    detail = _detail_in(body)
    message = detail.get("message") or detail.get("msg")
    lines = message.strip().split("\n") if isinstance(message, str) else [""]
    is_boxed = lines[0].startswith("---")
    return lines[-1 if is_boxed else 0][:_MOST_SEARCHED]
