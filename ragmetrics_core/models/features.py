"""What requests may ask of an endpoint beyond a plain reply, and how it is left out.

An endpoint refuses what it does not know. Its refusal names the feature, whatever the
status: 400, 403, 404, 422, 500 or 501. The feature is then dropped, for this endpoint and
model, once for all requests. Several replies are then asked for by several calls,
log-probabilities not at all (the judge polls instead), a schema as JSON mode and then by
the prompt alone.

A rejection may name none. Then the request is sent once without all features of which
nobody knows whether the endpoint takes them. If that is answered, they are tried again,
one topic at a time. If not, it is that request's own failure.

What nobody knows yet is tried by one request, and the others wait for it: so a wrong key
costs one call, and each feature is refused once. A refusal comes soon, while an answer
may take long: after ten seconds the others go on, without what was refused by then.
"""

import asyncio
import logging
import math
import re
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from ragmetrics_core.data import (
    ContextWindowExceeded,
    JudgeError,
    QuestionNotSupported,
    RequestRejected,
    Usage,
    errors,
)
from ragmetrics_core.models.chat import (
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
    Message,
)

# How long no call is sent to an endpoint that refuses everything, in seconds.
_OUTAGE_SECONDS = 30.0
# How long other requests wait for the one that tries something new. Under load, refusals
# took more than two seconds.
_PATIENCE_SECONDS = 10.0
# After so many calls in a row that failed, an endpoint is in doubt: it may be down.
_MOST_FAILED_CALLS = 8


@dataclass(eq=False, slots=True, repr=False)
class Trial:
    """A request that tries what nobody knows yet.

    Attributes:
        features: What it tries.
        began_at: When it began.
        refused: What it was refused so far. Its answer will show whether that was meant.
        is_over: Set once no other request need wait for it.
    """

    features: set[str]
    began_at: float
    refused: set[str] = field(default_factory=set)
    is_over: asyncio.Event = field(default_factory=asyncio.Event)


class EndpointState:
    """What is known of an endpoint.

    Args:
        missing: The features of requests that it was found to refuse. The set outlives
            the event loop, and is changed in place.

    Attributes:
        missing: As given.
        refused: What a trial was refused; to be among the missing once it is answered.
        taken: The features that it has taken.
        guessed: The features that a rejected request was once sent without.
        n_answers: How many calls it has answered.
        probing: Held by the request that is sent alone while the endpoint is in doubt.
        has_failed: Whether a request was sent to its last attempt since the last answer.
            Others then have one attempt each.
        least_too_long: Bytes of the last prompt that left no room for any reply.
    """

    def __init__(self, missing: set[str]) -> None:
        self.missing = missing
        self.refused: set[str] = set()
        self.taken: set[str] = set()
        self.guessed: set[str] = set()
        self.n_answers = 0
        self.least_too_long = math.inf
        # Whether it has answered a call, or works on one, since the last outage.
        self._is_reached = False
        # The latest request that tried what nobody knew; None before the first.
        self._trial: Trial | None = None
        # How many calls failed since the last answer.
        self._n_failed_calls = 0
        self.probing = asyncio.Lock()
        self.has_failed = False
        # When it first asked for a long wait that no answer followed.
        self._told_to_wait_at = math.inf
        # The error with which the endpoint refuses everything; None without an outage.
        self._outage: errors.JudgeUnavailable | None = None
        self._outage_began_at = 0.0

    @asynccontextmanager
    async def first_with(
        self, untried: Callable[[], set[str]]
    ) -> AsyncIterator[Trial | None]:
        """Hold others back while one request tries something that nobody knows yet.

        Yields the trial; None for a request that tries nothing.

        Args:
            untried: Returns what the request would ask of the endpoint now, where
                nobody has stated or seen if it can do that.
        """
        while True:
            features = untried()
            # a call has got through, or none will, and nothing is left to try
            if self.outage is not None or (self._is_reached and not features):
                yield None
                return
            trial = self._trial
            if trial is None or trial.is_over.is_set():
                break
            # Patience ends where the trial is being answered.
            waited = time.monotonic() - trial.began_at
            try:
                async with asyncio.timeout(_PATIENCE_SECONDS - waited):
                    await trial.is_over.wait()
            except TimeoutError:
                self.taken |= trial.features
                self._is_reached = True
                trial.is_over.set()

        self._trial = trial = Trial(features, time.monotonic())
        try:
            yield trial
        finally:
            self.refused -= trial.refused
            trial.is_over.set()

    @property
    def outage(self) -> errors.JudgeUnavailable | None:
        """The error with which the endpoint refuses everything.

        None if it does not, or was left alone long enough.
        """
        is_over = time.monotonic() >= self._outage_began_at + _OUTAGE_SECONDS
        return None if is_over else self._outage

    @property
    def is_in_doubt(self) -> bool:
        """Whether many calls in a row failed."""
        return self._n_failed_calls >= _MOST_FAILED_CALLS

    async def wait_in_doubt(self) -> bool:
        """Wait while another request probes an endpoint that is in doubt.

        True for the next one to probe it, which then holds ``probing``.
        """
        if self.is_in_doubt:
            await self.probing.acquire()
            if self.is_in_doubt:
                return True
            self.probing.release()
        return False

    def observe(self, outcome: ChatReply | errors.JudgeError | None) -> None:
        """Learn from the end of a call whether the endpoint answers at all.

        Late replies and rates tell of too many calls at once, which is for the slots.

        Args:
            outcome: The reply or the error; None for a call that was given up.
        """
        if isinstance(outcome, ChatReply):
            self.n_answers += 1
            self._n_failed_calls = 0
            self._told_to_wait_at = math.inf
            self.has_failed = False
            self.end_outage()
            self._is_reached = True
        elif isinstance(outcome, errors.JudgeUnavailable):
            # What has answered before may mean this request alone. It is marked as
            # ``single``, so that it fails its own request and no other.
            if outcome.single is None:
                outcome.single = self.n_answers > 0
            if not outcome.single:
                self.begin_outage(outcome)
        elif isinstance(outcome, errors.TransientJudgeError) and not isinstance(
            outcome, (errors.NoReplyInTime, errors.RateLimited)
        ):
            self._n_failed_calls += 1

    def is_told_to_wait_again(self, sent_at: float) -> bool:
        """Note a long wait that the endpoint asks for.

        True if it asked for one before this request was sent, and answered none since.
        """
        self._told_to_wait_at = min(self._told_to_wait_at, time.monotonic())
        return sent_at > self._told_to_wait_at

    def begin_outage(self, error: errors.JudgeUnavailable) -> None:
        """Send no call for a while; after that, one call is sent alone again.

        Args:
            error: The error with which the endpoint refuses everything.
        """
        self._is_reached = False
        self._outage = error
        self._outage_began_at = time.monotonic()

    def end_outage(self) -> None:
        """Let the next call leave."""
        self._outage = None


T = TypeVar("T")
SendCall = Callable[[ChatRequest, int], Awaitable[ChatReply]]
"""Sends one call.

It is given a request, and the index of the first reply that the call is for among all
replies that are wanted. It raises no failure: the reply that it returns holds them.
"""

_logger = logging.getLogger("ragmetrics_core")


class Feature(NamedTuple):
    """A feature of requests.

    Args:
        topic: How refusals name it: a group of ``_TOPICS``.
        is_used: Whether a request uses it.
        without: Returns what changes in a request that does without.
        is_lost: Whether a judge gets less without it. A parameter of another name, for
            example, loses nothing.
    """

    topic: str
    is_used: Callable[[ChatRequest], bool]
    without: Callable[[ChatRequest], Mapping[str, Any]]
    is_lost: bool = True


def _is_system(message: Message) -> bool:
    return message.role == "system"


def _without_system_role(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Put what the system's messages say before the text of the first other message."""
    instructions = [message.content for message in messages if _is_system(message)]
    first, *others = (message for message in messages if not _is_system(message))
    text = "\n\n".join([*instructions, first.content])
    return (replace(first, content=text), *others)


FEATURES: Mapping[str, Feature] = {
    "logprobs": Feature(
        "logprobs",
        lambda request: request.top_logprobs > 0,
        lambda _: {"top_logprobs": 0},
    ),
    "n": Feature("n", lambda request: request.n > 1, lambda _: {"n": 1}),
    "json_schema": Feature(
        "schema",
        lambda request: request.schema is not None,
        lambda _: {"schema": None, "json_mode": True},
    ),
    "json_mode": Feature(
        "schema",
        lambda request: request.json_mode and request.schema is None,
        lambda _: {"json_mode": False},
        is_lost=False,
    ),
    "temperature": Feature(
        "temperature",
        lambda request: request.temperature is not None,
        lambda _: {"temperature": None},
    ),
    "max_tokens": Feature(
        "limit",
        lambda request: request.max_tokens is not None and not request.newer_limit,
        lambda _: {"newer_limit": True},
        is_lost=False,
    ),
    "max_completion_tokens": Feature(
        "limit",
        lambda request: request.max_tokens is not None and request.newer_limit,
        lambda _: {"max_tokens": None},
        is_lost=False,
    ),
    "system_role": Feature(
        "system",
        lambda request: any(map(_is_system, request.messages)),
        lambda request: {"messages": _without_system_role(request.messages)},
        is_lost=False,
    ),
}
"""The features, in the order in which they are left out of a request."""

_TOPICS = re.compile(
    r"(?P<logprobs>log[ _-]?prob)"
    r"|(?P<n>(?<![\\\w])n\b(?!['’]\w)|candidate_?count"
    r"|multiple (?:candidates|choices|completions))"
    r"|(?P<schema>response[ _]?(?:format|schema|mime)|json[ _]?(?:schema|mode|object)"
    r"|structured[ _]output|guided[ _]decoding|grammar|additional_?properties"
    r"|\btool(?:s|_choice)?\b|function[ _]call)"
    r"|(?P<temperature>temperature)"
    r"|(?P<limit>max_(?:completion_|new_|output_)?tokens)"
    r"|(?P<system>\broles?\b|system[ _](?:role|message|prompt|instruction)"
    r"|developer[ _]instruction)",
    re.IGNORECASE,
)
# The limit of a reply's length is so many times higher for a model that reasons.
_REASONING_FACTOR = 16


def topics_of(text: str) -> tuple[str, ...]:
    """Return what an endpoint's words name, in their order, e.g. ("logprobs",)."""
    named = [match.lastgroup for match in _TOPICS.finditer(text) if match.lastgroup]
    return tuple(dict.fromkeys(named))


def refused_topics(error: JudgeError) -> tuple[str, ...]:
    """Return what a refusal names: as noted, else by the words of a user's own model."""
    if error.topics or not isinstance(error, RequestRejected):
        return error.topics
    return topics_of(str(error))


def refused_feature(error: JudgeError | None, request: ChatRequest) -> str | None:
    """Return the feature of a request that an error refuses.

    Args:
        error: How the call ended; None if nothing went wrong.
        request: The request as it was sent.

    Returns:
        The feature that the refusal names first; None if it names none that the request
        uses, or the request is too long.
    """
    if error is None or isinstance(error, ContextWindowExceeded):
        return None
    for topic in refused_topics(error):
        for name, feature in FEATURES.items():
            if feature.topic == topic and feature.is_used(request):
                return name
    return None


def no_logprobs(model_name: str) -> JudgeError:
    """Return the error of a question that is asked for its log-probabilities alone."""
    return QuestionNotSupported(
        f"{model_name} gives no log-probabilities, which this question needs"
    )


def stated_missing(stated: Capabilities) -> set[str]:
    """Return the features that a model says it lacks."""
    return {name for name in FEATURES if getattr(stated, name, None) is False}


async def gather_all(
    work: Iterable[Coroutine[Any, Any, T] | asyncio.Future[T]],
) -> list[T]:
    """Wait until all work has ended; return the results, or raise the first error.

    If the caller is cancelled, all work is cancelled.
    """
    awaitables = list(work)
    if len(awaitables) == 1:
        return [await awaitables[0]]  # the usual case needs no task of its own
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    # return_exceptions, so that all are done before the first error is raised.
    await asyncio.gather(*tasks, return_exceptions=True)
    return [task.result() for task in tasks]


@dataclass(eq=False, repr=False)
class FittedRequest:
    """A request on its way to an endpoint, with the replies that came so far.

    Args:
        model: The model.
        endpoint: What is known of the model's endpoint, from the calls of all runs.
        request: The request; its ``n`` says how many replies are wanted.
        send_call: Sends one call.
        may_guess: Whether a rejection that names no feature is worth further calls.
    """

    model: ChatModel
    endpoint: EndpointState
    request: ChatRequest
    send_call: SendCall
    may_guess: bool

    def __post_init__(self) -> None:
        self._stated = self.model.capabilities()
        self._stated_missing = stated_missing(self._stated)
        self._trial: Trial | None = None  # where it tries what nobody knows yet
        self._left_out: set[str] = set()  # features
        self._found_missing: set[str] = set()  # those of them that this request found
        self._refused: str | None = None  # the feature that the last calls refused
        self._choices: list[Choice] = []
        self._failures: list[JudgeError] = []
        # The replies that are still to come, by their index among all.
        self._missing_replies = list(range(self.request.n))

    async def complete(self) -> ChatReply:
        """Send the request; send it again without each feature that is refused.

        Returns:
            The replies. Failures are not raised: they are in ``failures``. The usage
            only names the features that the request had to do without.
        """
        async with self.endpoint.first_with(self._untried) as self._trial:
            missing = self.endpoint.missing | self.endpoint.refused
            self._left_out = self._stated_missing | missing
            await self._ask_without_refused()
            is_named = any(map(refused_topics, self._failures))
            if self._is_rejected and not is_named and self._trial and self.may_guess:
                await self._leave_out_refused()
            self._learn()

        fallbacks = [
            name
            for name, feature in FEATURES.items()
            if name in self._left_out
            and feature.is_lost
            and feature.is_used(self.request)
        ]
        usage = Usage(fallbacks=tuple(sorted(fallbacks)))
        return ChatReply(tuple(self._choices), usage, tuple(self._failures))

    async def _ask_without_refused(self) -> None:
        """Ask, and ask again without each feature that a refusal names."""
        await self._ask()
        while self._refused is not None:
            self._leave_out(self._refused)
            if self._trial is not None:
                # the others do without it meanwhile
                self._trial.refused.add(self._refused)
                self.endpoint.refused.add(self._refused)
            await self._ask()
        is_too_long = any(
            isinstance(failure, ContextWindowExceeded) and "limit" in failure.topics
            for failure in self._failures
        )
        if not is_too_long or "max_completion_tokens" in self._left_out:
            return
        texts = "".join(each.content for each in self.request.messages)
        n_bytes = len(texts.encode(errors="replace"))  # nearer to tokens than letters
        if n_bytes < self.endpoint.least_too_long:
            # the texts leave room for a shorter reply; those of other rows may not
            too_long = self._failures
            self._left_out |= {"max_tokens", "max_completion_tokens"}
            await self._ask_without_refused()
            if any(isinstance(each, ContextWindowExceeded) for each in self._failures):
                self.endpoint.least_too_long = n_bytes
            whole = [choice for choice in self._choices if choice.finish != "length"]
            if len(whole) < len(self._choices):  # nor is that room enough
                self._choices, self._failures = whole, too_long

    @property
    def _is_rejected(self) -> bool:
        """Whether the last calls were rejected, and not as too long or for a key."""
        return any(type(failure) is RequestRejected for failure in self._failures)

    async def _leave_out_refused(self) -> None:
        """Find the features for which a request was rejected in words that name none.

        It is asked without all untried topics, such as a schema and JSON mode. If that is
        answered, each topic is added again: with all its features, or with fewer. At last
        it is sent without those found. If none are, it is sent as it was: a rejection may
        have passed by itself, e.g. while a model was loaded.
        """
        untried = self._unstated_features(self._left_out)
        untried -= self.endpoint.taken | self.endpoint.guessed
        self.endpoint.guessed |= untried
        topics = dict.fromkeys(
            feature.topic for name, feature in FEATURES.items() if name in untried
        )
        names_by_topic = [
            [name for name, feature in FEATURES.items() if feature.topic == topic]
            for topic in topics
        ]
        left_out = self._left_out.union(*names_by_topic)
        if not untried:
            return
        if await self._is_answered(left_out):
            for names in names_by_topic:
                for n_left_out in range(len(names)):
                    fewer = left_out.difference(names[n_left_out:])
                    if await self._is_answered(fewer):
                        left_out = fewer
                        break
            for name in left_out - self._left_out:
                self._leave_out(name)
        await self._ask_without_refused()

    async def _is_answered(self, left_out: set[str]) -> bool:
        """Whether the request is answered without these features."""
        reply = await self.send_call(self._as_sent(left_out), 0)
        return bool(reply.choices)

    def _untried(self) -> set[str]:
        """Return the features it would use now of which nothing is stated or known."""
        missing = self._stated_missing | self.endpoint.missing
        return self._unstated_features(missing) - self.endpoint.taken

    def _as_sent(self, missing: set[str]) -> ChatRequest:
        """Return the request as it is sent: without the features that are missing.

        With log-probabilities the temperature is 1.0 whatever the request says: at
        another one they are not those of the model. Without them it is the request's own.

        For a model that reasons, the limit of the reply's length is raised, since it
        writes much before its reply. Models that take no temperature usually reason.
        """
        request = self.request
        reasons = "temperature" in missing or self._stated.reasoning
        if reasons and request.max_tokens is not None:
            longer = request.max_tokens * _REASONING_FACTOR
            request = replace(request, max_tokens=longer)
        for name, feature in FEATURES.items():
            if name in missing and feature.is_used(request):
                request = replace(request, **feature.without(request))
        if request.top_logprobs and request.temperature is not None:
            request = replace(request, temperature=1.0)
        return request

    def _unstated_features(self, missing: set[str]) -> set[str]:
        """Return the features it uses without those, of which the model states nothing."""
        request = self._as_sent(missing)
        return {
            name
            for name, feature in FEATURES.items()
            if name not in missing
            and getattr(self._stated, name, None) is None
            and feature.is_used(request)
            # 1 is the default, and nearly never refused
            and not (name == "temperature" and request.temperature == 1)
        }

    def _leave_out(self, feature: str) -> None:
        """Do without a feature, as the endpoint does not take it."""
        self._left_out.add(feature)
        self._found_missing.add(feature)

    async def _ask(self) -> None:
        """Ask for the missing replies: all in one call, if the endpoint knows ``n``.

        Otherwise each is asked for in a call of its own. Example: 5 replies are wanted.
        One call with ``n=5`` brings only 1: the other 4 are asked for one by one.
        """
        self._refused = None
        if self._lacks_what_it_needs:
            self._failures = [no_logprobs(self.model.name)]
            return
        self._failures = []
        request = self._as_sent(self._left_out)
        n_missing = len(self._missing_replies)
        if n_missing > 1 and "n" not in self._left_out:
            await self._call(replace(request, n=n_missing), self._missing_replies[0])
            if not self._missing_replies or self._failures:
                return
            self._leave_out("n")  # fewer replies came than were asked for
            request = replace(request, n=1)
        indices = self._missing_replies
        if self._trial is not None:  # five calls would be refused like one
            first_index, *indices = indices
            await self._call(request, first_index)
            if self._is_rejected:
                self._failures *= len(self._missing_replies)
                return
        await gather_all(self._call(request, index) for index in indices)

    @property
    def _lacks_what_it_needs(self) -> bool:
        return self.request.needs_logprobs and "logprobs" in self._left_out

    async def _call(self, request: ChatRequest, first_index: int) -> None:
        """Send one call, and note its replies, or why there is none."""
        reply = await self.send_call(request, first_index)
        if not reply.choices:
            self._failures += reply.failures
            self._refused = refused_feature(reply.error, request)
            return
        choices = reply.choices[: request.n]  # an endpoint may send more than asked for
        self._choices += choices
        answered = range(first_index, first_index + len(choices))
        self._missing_replies = [
            index for index in self._missing_replies if index not in answered
        ]

    def _learn(self) -> None:
        """Remember the features that the endpoint does not take; say each once.

        Nothing is learned from a request that was refused in the end: the refusal may
        have repeated words of the prompt.
        """
        if self.request.top_logprobs and "logprobs" not in self._left_out:
            complete_replies = [
                choice
                for choice in self._choices
                if choice.finish in ("stop", "tool_calls") and choice.text.strip()
            ]
            if not all(choice.tokens for choice in complete_replies):
                self._leave_out("logprobs")  # the endpoint ignored the wish for them
        learned = set[str]()
        if self._choices:
            learned = self._found_missing
            self.endpoint.taken |= self._unstated_features(self._left_out)
        elif self._lacks_what_it_needs:
            learned = self._found_missing & {"logprobs"}
        for name in sorted(learned - self.endpoint.missing):
            self.endpoint.missing.add(name)
            if FEATURES[name].is_lost:
                _logger.warning(
                    "%s does not take %s, and is asked without", self.model.name, name
                )
