"""What is known of an endpoint from the calls of all runs of a session.

Whether it answers at all, which features of requests it takes, and which it refuses.
What nobody knows yet is tried by one request, and the others wait for it: so a wrong key
costs one call, and each feature is refused once. A refusal comes soon, while an answer
may take long: after ten seconds the others go on, without what was refused by then.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from ragmetrics_core.data import errors
from ragmetrics_core.models.chat import ChatReply

# How long no call is sent to an endpoint that refuses everything, in seconds.
_OUTAGE_SECONDS = 30.0
# How long other requests wait for the one that tries something new. Under load, refusals
# took more than two seconds.
_PATIENCE_SECONDS = 10.0
# After so many refusals in a row, an endpoint that has answered before is taken to
# refuse everything.
_MOST_REFUSALS = 32
# An endpoint that never answered, and so often sent what is no reply, or let a request
# wait in vain, is none: perhaps a login page.
_MOST_WITHOUT_REPLY = 4


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
        guessed: The features that a rejected request was sent without, once for each.
        n_answers: How many calls it has answered.
    """

    def __init__(self, missing: set[str]) -> None:
        self.missing = missing
        self.refused: set[str] = set()
        self.taken: set[str] = set()
        self.guessed: set[str] = set()
        self.n_answers = 0
        # Whether a call has reached it since the last outage.
        self._is_reached = False
        # The latest request that tried what nobody knew; None before the first.
        self._trial: Trial | None = None
        # How many calls were refused since the last answer.
        self._n_refusals = 0
        # How many calls brought what is no reply, and requests were given up.
        self._n_without_reply = 0
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
            if self._is_in_outage() or (self._is_reached and not features):
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

    def refuse_during_outage(self) -> None:
        """Raise the error with which the endpoint refuses everything, if it does."""
        if self._is_in_outage():
            assert self._outage is not None  # noqa: S101
            raise self._outage.with_traceback(None)  # without lines of earlier calls

    def observe(self, outcome: ChatReply | errors.JudgeError | None) -> None:
        """Learn from the end of a call whether the endpoint answers at all.

        Args:
            outcome: The reply or the error; None for a call that was given up.
        """
        if isinstance(outcome, ChatReply):
            self.n_answers += 1
            self._n_refusals = 0
            self._outage = None
            self._is_reached = True
        elif isinstance(outcome, errors.JudgeUnavailable):
            # Where the endpoint has answered before, a refusal may concern its own
            # request alone. Then only many in a row begin an outage. Until then each is
            # marked as ``single``, so that it fails its own request and no other.
            self._n_refusals += 1
            outcome.single = self.n_answers > 0 and self._n_refusals < _MOST_REFUSALS
            if outcome.single:
                self._is_reached = True
            else:
                self.begin_outage(outcome)
        elif isinstance(outcome, errors.TransientJudgeError) and outcome.is_unreadable:
            self.note_no_reply(outcome)
        elif outcome is not None and not self._is_in_outage():
            # During an outage no call is sent: this one was sent before it began, and
            # says nothing new.
            is_unsent = (
                isinstance(outcome, errors.TransientJudgeError) and not outcome.is_sent
            )
            self._is_reached = not is_unsent or self.n_answers > 0
            self._outage = None

    def note_no_reply(self, error: errors.TransientJudgeError) -> None:
        """Begin an outage where no reply comes, again and again, and never came."""
        self._n_without_reply += 1
        if self.n_answers == 0 and self._n_without_reply >= _MOST_WITHOUT_REPLY:
            self.begin_outage(errors.JudgeUnavailable(str(error)))

    def begin_outage(self, error: errors.JudgeUnavailable) -> None:
        """Send no call for a while; after that, one call is sent alone again.

        Args:
            error: The error with which the endpoint refuses everything.
        """
        self._is_reached = False
        self._outage = error
        self._outage_began_at = time.monotonic()

    def _is_in_outage(self) -> bool:
        """Whether the endpoint refuses everything, and was not left alone long enough."""
        ends_at = self._outage_began_at + _OUTAGE_SECONDS
        return self._outage is not None and time.monotonic() < ends_at
