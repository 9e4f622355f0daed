"""Batches: requests that are asked together and answered within a day.

They cost half the price where the service has it so.

A run over a ``ParkingStore`` calls nothing: requests without a reply are parked, and
become batches at the end of the pass. A later pass over the same samples takes each
answer as if it came from a call, and parks what is asked next; the pass that parks
nothing has the results of a run that calls. All of it stands in the file of replies,
without a prompt (``batch_table``). A batch is entered there before it is made, and its
metadata bear the entry's token, by which it is found again.
"""

import asyncio
import json
import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Any, Concatenate, ParamSpec, TypeVar, cast
from uuid import uuid4

from ragmetrics_core.data import SettingError, Usage, errors
from ragmetrics_core.models.addresses import public_address
from ragmetrics_core.models.attempts import check_reply
from ragmetrics_core.models.chat import ChatModel, ChatReply, ChatRequest, Choice
from ragmetrics_core.models.compatible_model import OpenAICompatibleModel
from ragmetrics_core.models.decision_model import DecisionModel
from ragmetrics_core.models.endpoint_errors import Fault
from ragmetrics_core.models.limits import Budget
from ragmetrics_core.models.reply_store import ReplyStore, SqliteStore
from ragmetrics_core.scale import batch_calls, batch_table
from ragmetrics_core.scale.batch_calls import ENDED, SETTLED_SECONDS, reason_for_failure
from ragmetrics_core.scale.batch_table import (
    MAX_TRIES,
    NEVER_ASKED,
    Batch,
    ParkedRequest,
    RequestEntry,
    WaitingRequests,
    digest,
)

T = TypeVar("T")
P = ParamSpec("P")

LOOK_SECONDS = 10.0
"""Seconds between two looks at batches that are on their way."""

# Seconds that a batch has to be made, once its file is there and the deadline has come.
_LAST_SECONDS = 5.0
_PASSING_ERRORS = (errors.TransientJudgeError, errors.JudgeUnavailable)
# What is said of the requests of a batch that has no answer for them. Those of a batch
# with another status, which was refused or cancelled, were not asked.
_CODES_BY_STATUS = {"completed": "no_result", "expired": "batch_expired"}

logger = logging.getLogger("ragmetrics_core")


class ParkingStore(SqliteStore):
    """The file of replies, for one pass of a run that asks in batches.

    No file chooses where a key goes: batches at other addresses than those of the
    models are left alone.

    Args:
        store: The file of replies.
        models: The models that the run asks.
        budget: What the run may spend. What is parked counts at what is usual.

    Attributes:
        batches_of_pass: Tokens of the batches that hold requests of this pass, those
            that have ended included.
        address_by_foreign_batch: By token the address of a batch at a service that none
            of the models asks.

    Raises:
        SettingError: If the store is no single file, or a model takes no batches.
    """

    def __init__(
        self,
        store: ReplyStore,
        models: Sequence[ChatModel],
        budget: Budget | None = None,
    ) -> None:
        """Begin a pass, which is one evaluation of all samples.

        Example: the first pass collects 10 requests and submits them as a batch; the
        second takes the answers of the batch.

        Raises:
            SettingError: If the store is no single file, or a model takes no batches.
        """
        if not isinstance(store, SqliteStore):
            raise SettingError(
                "batches are kept in the file of replies: name one, e.g."
                " store='replies.sqlite'"
            )
        batch_models = [
            model
            for model in models
            if isinstance(model, OpenAICompatibleModel)
            and not isinstance(model, DecisionModel)
        ]
        if not models or len(batch_models) < len(models):
            raise SettingError(
                "only models of OpenAI's, and openai-compatible/MODEL with api_base="
                " (--api-base), take batches: name one by judge= (--judge), or leave out"
                " batch= (--batch)"
            )
        super().__init__(store.path, fresh=store.fresh)
        # tokens (random names) of the batches that hold requests of this pass
        self.batches_of_pass: set[str] = set()
        # whether another process is making a batch of requests of this pass
        self._waits_for_other_process = False
        # by token: the address of a batch at a service that none of the models asks
        self.address_by_foreign_batch: dict[str, str] = {}
        self._model_by_address = {model.base_url: model for model in batch_models}
        self._pass_token = uuid4().hex  # names this pass in the file
        self._budget = budget or Budget()
        # A pass takes the answers of all batches once more, and counts their costs anew.
        self._budget.calls = 0
        self._budget.spent = 0.0
        self._waiting = WaitingRequests(self.path.resolve().parent)
        # ids of failed requests whose calls were counted: each is counted once
        self._ids_of_counted_failures: set[str] = set()
        self.write(batch_table.create_tables)

    @property
    def needs_further_pass(self) -> bool:
        """Whether requests of this pass have no answer yet."""
        return bool(self.batches_of_pass) or self._waits_for_other_process

    @property
    def state_in_words(self) -> str:
        """Where the pass stands, in a sentence for people."""
        n_batches = len(self.batches_of_pass) + int(self._waits_for_other_process)
        return (
            f"{self._waiting.n_requests:,} requests wait for batches"
            f" ({n_batches}), which are answered within a day; evaluate"
            " again with the same store when 'ragmetrics store batches' says that they"
            " have ended"
        )

    def get(self, key: str) -> Choice | None:
        """Return the reply kept under a key.

        None where a batch has an answer that this pass has not taken yet.
        """
        if self._memory.get(key) is None:
            waits_to_be_taken = self.read(
                batch_table.IS_ANSWERED_FOR_OTHERS, (digest(key), self._pass_token)
            )
            if waits_to_be_taken is not None:
                return None
        return super().get(key)

    def reply_from_batch(
        self, model: ChatModel, keys: Sequence[str], request: ChatRequest
    ) -> ChatReply:
        """Return what a batch answered to a request; else let the request wait.

        A request that waits gets a reply that failed with ``LimitReached``. Example:
        the first pass puts the request aside, to stand in a batch at its end; the
        second pass finds that batch's answer, "yes".

        Args:
            model: The model that is asked.
            keys: The keys under which its replies are stored, one for each reply.
            request: What is asked.
        """
        assert isinstance(model, OpenAICompatibleModel)  # noqa: S101  # the run has no other
        body = json.dumps(model.body(request))
        first_key = keys[0]
        request_id = digest(first_key)  # under it the file knows the request
        row = self.read(batch_table.ROW_OF_REQUEST, (request_id,))
        entry = NEVER_ASKED if row is None else RequestEntry(*row)
        reply: ChatReply | None = None
        if entry.result:
            reply = _reply_of_result(model, entry.result)
            is_last = bool(reply.choices) or entry.tries >= MAX_TRIES
            # a batch may have been asked something else under this key
            is_other_request = entry.body_digest.decode() != digest(body)
            first_failure = reply.failures[0] if reply.failures else None
            may_pass = isinstance(first_failure, _PASSING_ERRORS)
            if not is_last and (is_other_request or may_pass):
                reply = None
        if reply is not None:  # a batch has answered the request
            usage = self._note_taken(reply, keys, request_id, entry.tries)
            # The caller wants a failure for each of the n replies; a batch names one.
            failures = reply.failures * request.n
            return ChatReply(reply.choices, usage, failures)
        if entry.token and entry.result is None:  # it stands in a batch, not ended
            self.batches_of_pass.add(entry.token.decode())
        else:  # no batch has answered, or it has failed for a reason that may pass
            self._waiting.write(model, request_id, body, entry.tries + 1)
        self._waiting.count(model, body, request.n)
        waits = errors.LimitReached("the request stands in a batch: evaluate again")
        waits.single = True
        return ChatReply((), failures=(waits,) * request.n)

    def _note_taken(
        self, reply: ChatReply, keys: Sequence[str], request_id: str, tries: int
    ) -> Usage:
        """Note that this evaluation has used a batch's answer, and add up its cost.

        Example: an answer of 1 cent adds 1 to ``budget.calls`` and .01 to
        ``budget.spent``.

        Args:
            reply: The answer.
            keys: The keys under which its replies are stored.
            request_id: The id of the request.
            tries: How often the request was asked.

        Returns:
            The usage that counts for the answer in the results of the run.
        """
        n_replies = max(1, len(reply.choices))
        reply_ids = [digest(key) for key in keys[:n_replies]]
        self.write(
            lambda connection: batch_table.note_taken(
                connection, reply_ids, request_id, self._pass_token
            )
        )
        self._budget.calls += 1
        self._budget.spent += reply.usage.cost or 0.0
        if reply.choices:
            return reply.usage
        if request_id in self._ids_of_counted_failures:
            return Usage()
        self._ids_of_counted_failures.add(request_id)
        return replace(reply.usage, calls=tries * reply.usage.calls)

    async def submit(self) -> None:
        """Make batches of the requests that wait at the end of this pass.

        If none waits, the file forgets the batches' answers, which the store of replies
        holds by now. Otherwise a further pass is needed.

        Raises:
            BatchFailed: If the budget is too small, or the service refuses a batch.
        """
        with self._waiting.open_files:
            limits = self._budget.limits
            n_calls = self._budget.calls + self._waiting.n_requests
            cost = self._budget.spent + self._waiting.price
            # None stands for no limit
            may_call = n_calls <= (limits.max_calls or inf)
            may_pay = cost <= (limits.max_cost or inf)
            if self._waiting.n_requests and not (may_call and may_pay):
                price = "an unknown price" if cost == inf else f"up to ${cost:.4f}"
                raise errors.BatchFailed(
                    f"no batch was made: {n_calls} requests, for {price} in all, are"
                    " more than the limits allow"
                )
            for model, requests in self._waiting.batches():
                await self._make_batch(model, requests)
        if not self.needs_further_pass:
            self._change(batch_table.forget_answers_of, self._pass_token)

    async def _make_batch(
        self, model: OpenAICompatibleModel, requests: Sequence[ParkedRequest]
    ) -> None:
        """Make a batch of the requests that no other process has claimed.

        Example: of 10 requests another process has claimed 4, to put them into a batch
        of its own: a batch of 6 is made. Before the service is asked, the batch is
        entered in the file of replies under a token, a random word. The service is told
        the token, so that the batch can be found again if this process is ended.

        Raises:
            BatchFailed: If the service refuses it.
        """
        token = uuid4().hex
        # the claimed requests as the service wants them: each as a line of JSON
        request_lines = self._change(
            batch_table.claim_requests, requests, token, model.base_url
        )
        if not request_lines:  # other processes have claimed all requests
            self._waits_for_other_process = True
            return
        self.batches_of_pass.add(token)
        try:
            file_id = await batch_calls.upload_file(model, request_lines)
        except asyncio.CancelledError:  # the run's deadline has come
            self.batches_of_pass.discard(token)
            self._change(batch_table.forget_batch, token, None)
            raise
        except errors.JudgeError as error:
            raise self._not_made(token, error) from None
        # from now the requests are claimed for ten minutes more
        has_claim_expired = not self._change(
            batch_table.update_batch, token, "since", time.time()
        )
        if has_claim_expired:  # the upload was so slow that other processes took over
            return
        try:
            batch_id = await self._make_batch_of_file(model, file_id, token)
        except errors.JudgeError as error:
            # Refused, so surely not made: the token is removed from the file again.
            if not batch_calls.may_have_made_batch(error):
                raise self._not_made(token, error) from None
            logger.warning("a batch may have been made, and is looked for: %s", error)
            return
        logger.info(
            "%s is submitted: %d requests to %s",
            batch_id,
            len(request_lines),
            model.name,
        )

    def _not_made(self, token: str, error: errors.JudgeError) -> errors.BatchFailed:
        """Forget a batch that was surely not made, and return the error to raise."""
        self._change(batch_table.forget_batch, token, None)
        return errors.BatchFailed(
            f"a batch was not made, and the next run asks its requests: {error}"
        )

    async def _make_batch_of_file(
        self, model: OpenAICompatibleModel, file_id: str, token: str
    ) -> str:
        """Make a batch of a file, enter the id that the service gives it, and return it.

        If the run's deadline comes meanwhile, the batch has a few seconds left to be
        made. Else the next run would not know whether it was, and look for it for ten
        minutes.
        """

        async def make() -> str:
            batch_id = await batch_calls.make_batch(model, file_id, token)
            self._change(batch_table.update_batch, token, "id", batch_id)
            return batch_id

        making = asyncio.ensure_future(make())
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            await asyncio.wait({making}, timeout=_LAST_SECONDS)
            making.cancel()
            raise

    async def look_at_batches(
        self, collect: bool = True, cancel: bool = False
    ) -> dict[str, dict[str, Any]]:
        """Ask the services how their batches stand, and store the answers of ended ones.

        Example: {"3f2a…": {"id": "batch_1", "status": "in_progress", …}}.

        Args:
            collect: Whether the answers of ended batches are stored.
            cancel: Whether batches that have not ended are cancelled, and forgotten
                where the service does not know them.

        Returns:
            What the service says of each batch, by its token. Batches of other services
            are in ``address_by_foreign_batch``.

        Raises:
            BatchFailed: With ``collect``, if a batch that has ended was refused or
                cancelled.
            JudgeError: If a service cannot be asked.
        """
        states: dict[str, dict[str, Any]] = {}
        for batch in self._change(batch_table.all_batches):
            model = self._model_by_address.get(batch.endpoint)
            if model is None:  # of another service: it is left alone, and logged once
                if batch.token not in self.address_by_foreign_batch:
                    address = public_address(str(batch.endpoint))
                    self.address_by_foreign_batch[batch.token] = address
                    logger.warning(
                        "a batch of this store is at %s, which is not asked here",
                        address,
                    )
                continue
            try:
                state = await self._state_of(model, batch)
            except errors.BatchFailed:
                if not cancel:
                    raise
                # it is unknown there: its requests are to be asked again
                self._change(batch_table.forget_batch, batch.token, None)
                given_up = {"status": "not known there, given up", "request_counts": {}}
                states[batch.token] = {"id": batch.id, **given_up}
                continue
            # the service lists it, under an id, and it has not ended
            is_cancellable = bool(state["id"]) and state["status"] not in ENDED
            if cancel and is_cancellable:
                state = await batch_calls.cancel_batch(model, state["id"])
            if collect and state["status"] in ENDED:
                await self._collect(model, batch, state)
            states[batch.token] = state
        return states

    async def _state_of(
        self, model: OpenAICompatibleModel, batch: Batch
    ) -> dict[str, Any]:
        """Return what the service says of a batch.

        The id of a batch is unknown where a run was ended while the batch was made.
        Then the batch is looked for by the token in its metadata, and its id is
        entered. A batch that is not listed for ten minutes was never made, and counts
        as expired. Example: {"id": "batch_1", "status": "completed", …}.
        """
        if batch.id:
            state = await batch_calls.batch_by_id(model, batch.id)
            # Without an id the reply is still about the batch that was asked about.
            state["id"] = state["id"] or batch.id
            return state
        state = await batch_calls.batch_by_token(model, batch.token)
        if state["id"]:
            self._change(batch_table.update_batch, batch.token, "id", state["id"])
        elif time.time() < batch.since + SETTLED_SECONDS:  # since it was entered
            state["status"] = "not confirmed yet"
        else:
            state["status"] = "expired"
        return state

    async def wait(self) -> bool:
        """Wait until the batches of this pass have ended.

        ``look_at_batches`` is called again and again, and stores their answers. Example:
        of two batches one ends after an hour, the other after three: three hours, True.

        Returns:
            True if the pass had batches and all have ended, so that a further pass
            finds answers. False if it had none, or if the deadline of the run came
            first: the batches go on then.
        """
        if not self.needs_further_pass:
            return False
        try:
            async with asyncio.timeout(self._budget.remaining) as deadline:
                is_any_going_on = True
                while is_any_going_on:
                    is_any_going_on = await self._is_any_batch_going_on()
                    # 0 at the end: only lets other tasks, and the deadline, have a turn
                    await asyncio.sleep(LOOK_SECONDS if is_any_going_on else 0)
        except TimeoutError:
            if not deadline.expired():
                raise
            return False
        return True

    async def _is_any_batch_going_on(self) -> bool:
        """Look at the batches, and say whether one of this pass has not ended."""
        try:
            states = await self.look_at_batches()
        except errors.TransientJudgeError:  # logged; the service is asked again
            return bool(self.batches_of_pass)
        # The file of replies may hold batches of other runs, too.
        return any(
            token in self.batches_of_pass and state["status"] not in ENDED
            for token, state in states.items()
        )

    async def _collect(
        self, model: OpenAICompatibleModel, batch: Batch, state: dict[str, Any]
    ) -> None:
        """Store the answers of a batch that has ended, forget it, and log its outcome.

        A request that was not answered fails alone, and is asked again up to three
        times in all.

        If the answers cannot be read yet, ``state["status"]`` is changed to say so, and
        the batch is looked at again later. Example of a log: "batch_1: completed, 8
        requests answered, 2 to be asked again".

        Args:
            model: The model that was asked.
            batch: The batch as our file of replies describes it.
            state: The batch as the service describes it.

        Raises:
            BatchFailed: If the batch was refused or cancelled.
        """
        token = batch.token
        status = state["status"]
        n_entered, are_all_readable = await self._enter_answers_of(model, token, state)
        if not are_all_readable:  # it is looked at again for ten minutes
            first_look = batch.unreadable_since
            if first_look is None:
                first_look = time.time()
                self._change(
                    batch_table.update_batch, token, "unreadable_since", first_look
                )
            if time.time() - first_look < SETTLED_SECONDS:
                state["status"] = (
                    f"{status}, but its answers cannot be read yet (in ten minutes they"
                    " are asked again)"
                )
                return
        # those for a reason that may pass: the next run asks these requests
        n_failed = self._change(batch_table.count_passing_failures, token)
        # In our file, requests without an answer become failures with this code. None:
        # the batch was refused or cancelled.
        code_of_unanswered = _CODES_BY_STATUS.get(status)
        n_without_answer = self._change(
            batch_table.forget_batch, token, code_of_unanswered
        )
        # Of a batch that was refused they are no failures: all are asked again. Else they
        # are counted with the new failures, without those that were asked three times.
        n_to_ask_again = n_failed + n_without_answer
        if code_of_unanswered is not None:
            n_to_ask_again = self._change(batch_table.count_passing_failures, token)
        outcome = (
            f"{state['id'] or 'a batch not made'}: {status}, {n_entered - n_failed}"
            f" requests answered, {n_to_ask_again} to be asked again"
        )
        if code_of_unanswered is None:
            reason = reason_for_failure(state)  # "" if the service says none
            raise errors.BatchFailed(f"{outcome} by the next run {reason}".rstrip())
        are_all_answered = n_failed == 0 and n_without_answer == 0
        level = logging.INFO if are_all_answered else logging.WARNING
        logger.log(level, "%s", outcome)

    async def _enter_answers_of(
        self, model: OpenAICompatibleModel, token: str, state: dict[str, Any]
    ) -> tuple[int, bool]:
        """Fetch the answers of a batch from the service, and enter them into our file.

        The service has two files: one of failed requests, and an output file of the
        requests that were answered. Both kinds are entered. A file that the service has
        deleted is passed over.

        Returns:
            How many answers are new in our file, and whether the output file has as many
            as the service says. Example: 8 answers and 2 failures, entered for the
            first time, of 8 requests that the service calls completed: (10, True).
        """
        n_entered = 0
        n_output_lines = 0
        for name in ("error_file_id", "output_file_id"):
            if not state.get(name):
                continue
            # a service deletes a file after a while
            with suppress(errors.BatchFailed):
                content = await batch_calls.file_content(model, state[name])
                n_entered += self._change(batch_table.enter_answers, token, content)
                if name == "output_file_id":
                    n_output_lines = len(content.splitlines())
        # Of a completed batch whose service counts nothing one at least was answered.
        at_least = 1 if state["status"] == "completed" else 0
        n_completed: int = state["request_counts"].get("completed", at_least)
        are_all_readable = n_output_lines >= n_completed
        return n_entered, are_all_readable

    def _change(
        self,
        change: Callable[Concatenate[sqlite3.Connection, P], T],
        *values: P.args,
        **named: P.kwargs,
    ) -> T:
        """Run a function of ``batch_table`` on the file, and commit what it changes.

        Returns:
            What the function returns.

        Raises:
            SettingError: If the file cannot be written.
        """
        result = self.write(lambda connection: change(connection, *values, **named))
        if self.trouble is not None:
            raise SettingError(
                f"{self.path} cannot be written, and batches are kept there: make room"
                " or name another"
            )
        return cast("T", result)


def _reply_of_result(model: OpenAICompatibleModel, result: bytes) -> ChatReply:
    """Make a reply of what a batch answered to one request.

    The cost is computed at the prices of a batch. If the request failed, the reply has
    no choices, and its failure says why. Example: [200, {"choices": …}] gives the
    choices; [null, …] gives a failure, and no call is counted.

    Args:
        model: The model that was asked.
        result: Status and body of the answer, as JSON; the status is None where the
            service never got to the request.
    """
    status, body = json.loads(result)
    if status == 200:
        try:
            return check_reply(model, model.reply(body, model.batch_prices))
        except errors.JudgeError as raised:  # the reply could not be read
            error = raised
    else:
        fault = Fault.from_reply(status, json.dumps(body))
        error = model.error_of(fault)
    if isinstance(error, errors.JudgeUnavailable):
        error.single = True  # it concerns this request only: the run goes on
    was_executed = status is not None
    return ChatReply((), Usage(calls=int(was_executed)), (error,))
