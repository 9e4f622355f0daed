"""What is known of an endpoint from the calls of all runs of a session.

Whether it answers at all, which features of requests it takes, and which it refuses.
What nobody knows yet is tried by one request, and the others wait for it: so a wrong key
costs one call, and each feature is refused once. They wait two seconds at most.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from ragmetrics_core.data import errors
from ragmetrics_core.models.chat import ChatReply

# How long no call is sent to an endpoint that refuses everything, in seconds.
_OUTAGE_SECONDS = 30.0
# How long other requests wait for the one that tries something new.
_PATIENCE_SECONDS = 2.0
# After so many refusals in a row, an endpoint that has answered before is taken to
# refuse everything.
_MOST_REFUSALS = 32


class EndpointState:
    """What is known of an endpoint.

    Args:
        missing: The features of requests that it was found to refuse. The set outlives
            the event loop, and is changed in place.

    Attributes:
        missing: As given.
        taken: The features that it has taken.
        n_answers: How many calls it has answered.
    """

    def __init__(self, missing: set[str]) -> None:
        self.missing = missing
        self.taken: set[str] = set()
        self.n_answers = 0
        # Whether a call has reached it since the last outage.
        self._is_reached = False
        # Held by the request that tries what nobody knows yet.
        self._trying = asyncio.Lock()
        # How many calls were refused since the last answer.
        self._n_refusals = 0
        # The error with which the endpoint refuses everything; None without an outage.
        self._outage: errors.JudgeUnavailable | None = None
        self._outage_began_at = 0.0

    @asynccontextmanager
    async def first_with(self, features: Collection[str]) -> AsyncIterator[bool]:
        """Hold others back while one request tries something that nobody knows yet.

        Yields whether this request does.

        Args:
            features: What the request asks of the endpoint, where nobody has stated if
                it can do that.
        """
        is_first = await self._wait_for_turn(features)
        try:
            yield is_first
        finally:
            if is_first:
                self._trying.release()

    async def _wait_for_turn(self, features: Collection[str]) -> bool:
        """Wait until all is known, it is this request's turn, or patience ends.

        Returns:
            Whether this request tries what is unknown, and holds the lock.
        """
        if self._knows(features):
            return False
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._trying.acquire()
        except TimeoutError:
            return False
        if self._knows(features):
            self._trying.release()
            return False
        return True

    def _knows(self, features: Collection[str]) -> bool:
        """Whether a call has got through, and each feature was taken or refused."""
        return self._is_reached and (self.taken | self.missing).issuperset(features)

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
            self._note_refusal(outcome)
        elif outcome is not None and not self._is_in_outage():
            # During an outage no call is sent: this one was sent before it began, and
            # says nothing new.
            is_unsent = (
                isinstance(outcome, errors.TransientJudgeError) and not outcome.is_sent
            )
            self._is_reached = not is_unsent or self.n_answers > 0
            self._outage = None

    def _note_refusal(self, refusal: errors.JudgeUnavailable) -> None:
        """Begin an outage, unless the refusal may concern its own request alone.

        It may where the endpoint has answered before. Then only many refusals in a row
        begin an outage. Until then each is marked as ``single``, so that it fails its
        own request and no other.
        """
        self._n_refusals += 1
        refusal.single = self.n_answers > 0 and self._n_refusals < _MOST_REFUSALS
        if refusal.single:
            self._is_reached = True
        else:
            self.begin_outage(refusal)

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
