"""What every chat model over a framework's own must do when that one raises: what is asked again, what is told.

class TestMyModel(FrameworkModelContract):
    def model(self, call: Callable[[], str]) -> ChatModel:
        return MyModel(AModelOfTheFramework(call))
"""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import httpx
import pytest
from lanes import few_by_day

from ragmetrics_core.data import errors
from ragmetrics_core.data.asking import Instructions, Part, Question
from ragmetrics_core.data.replies import Answer, NotAnswered
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.engine.evaluation import evaluate
from ragmetrics_core.judging.llm import LLMJudge
from ragmetrics_core.judging.reading import read
from ragmetrics_core.metrics.context_utilization import ContextUtilization, Usefulness
from ragmetrics_core.models.chat import ChatModel
from ragmetrics_core.models.limits import Budget
from ragmetrics_core.testing.chat_model_contract import (
    BY_STATUS,
    PLAIN,
    TEXT,
    ChatModelContract,
)

REPLY = '{"useful": 1, "reason": "r"}'
ATTEMPTS = 3
FORMS = 5  # most calls for a request that is rejected in words that name no feature
QUESTION = Question(
    parts={"chunk": Part("Chunk", TEXT)},
    instructions=Instructions('Reply {"useful": 0|1}.\n---\n{chunk}'),
    Reply=Usefulness,
)


class FrameworkClientContract(ChatModelContract):
    """The contract of all chat models, of whose long tables a framework's client keeps a few rows by day."""

    test_faults_are_typed_and_tell_nothing_private = few_by_day(
        ChatModelContract.test_faults_are_typed_and_tell_nothing_private
    )
    test_a_refused_feature_is_left_out_whatever_the_status = few_by_day(
        ChatModelContract.test_a_refused_feature_is_left_out_whatever_the_status
    )
    test_what_an_endpoint_cannot_do_is_replaced = few_by_day(
        ChatModelContract.test_what_an_endpoint_cannot_do_is_replaced
    )

    @pytest.mark.parametrize("reason", ["length", "stop", "tool_calls"])
    @pytest.mark.parametrize(
        "replies",
        [
            ('{"reason": "r", "useful": 0',),
            ('{"reason": "r", "useful": 1}', '{"reason": "r", "useful": 0}'),
            ('{"reason": "r", "useful": 1, "useful": 0}',),
        ],
        ids=["cut", "two", "twice"],
    )
    def test_a_reply_is_read_as_the_model_wrote_it(
        self, replies, reason, loopback_server
    ):
        """Parsers of frameworks complete what was cut off, and take one of two."""

        def send(asked):
            message = {"role": "assistant", "content": "\n".join(replies)}
            if asked.get("tools"):
                name = asked["tools"][0]["function"]["name"]
                function = {"name": name, "arguments": replies[-1]}
                call = {"id": "1", "type": "function", "function": function}
                said = "\n".join(replies[:-1])
                message = {"role": "assistant", "content": said, "tool_calls": [call]}
            return {"message": message, "finish_reason": reason}

        server = loopback_server(send)
        takes_schema = "json_schema" not in self.lacks
        schema = Usefulness.model_json_schema() if takes_schema else None
        (choice,) = self.complete(server, replace(PLAIN, schema=schema)).choices
        with pytest.raises(errors.UnusableReply):
            read(choice, QUESTION)


class StatusError(Exception):
    """How most clients say a status."""

    def __init__(self, status: int) -> None:
        super().__init__(TEXT)
        self.status_code = status


def responded(status: int) -> httpx.HTTPStatusError:
    """How httpx says a status."""
    request = httpx.Request("POST", "http://127.0.0.1:9/v1")
    return httpx.HTTPStatusError(
        TEXT, request=request, response=httpx.Response(status, request=request)
    )


# What a client raised and ours: a status, or no reply in time, or no connection.
TOLD: dict[str, tuple[Callable[[], Exception], type[errors.JudgeError]]] = {
    **{
        f"{make.__name__} {status}": (partial(make, status), kind)
        for make in (StatusError, responded)
        for status, kind in BY_STATUS.items()
        if status != 200
    },
    "timeout": (partial(TimeoutError, TEXT), errors.NoReplyInTime),
    "connect timeout": (
        partial(httpx.ConnectTimeout, TEXT),
        errors.TransientJudgeError,
    ),
    "read timeout": (partial(httpx.ReadTimeout, TEXT), errors.NoReplyInTime),
    "pool timeout": (partial(httpx.PoolTimeout, TEXT), errors.NoReplyInTime),
    "refused": (partial(httpx.ConnectError, TEXT), errors.TransientJudgeError),
    "reset": (partial(ConnectionResetError, TEXT), errors.TransientJudgeError),
}
PASSING = [
    told
    for told, (_, kind) in TOLD.items()
    if issubclass(kind, errors.TransientJudgeError)
]
# What says nothing of an endpoint: bugs, and what frameworks raise by themselves.
UNTOLD = (
    RuntimeError,
    ValueError,
    TypeError,
    KeyError,
    NotImplementedError,
    ZeroDivisionError,
    OSError,
)


def _raise(
    error: Exception, outer: type[Exception] | None = None, *, caused: bool = True
) -> None:
    """Raise an error bare, as the cause of another, or as what another one was raised over, as frameworks do."""
    try:
        raise error
    except type(error):
        if outer is None:
            raise
        if caused:
            raise outer(TEXT) from error
        raise outer(TEXT)  # noqa: B904


async def _at_once(_: float) -> None:
    return


_OVER = partial(_raise, outer=RuntimeError, caused=False)
RAISED = (
    _raise,
    partial(_raise, outer=RuntimeError),
    partial(_raise, outer=ValueError),
    _OVER,
)


class FrameworkModelContract:
    """Tests that a chat model passes whose framework tells no more of a fault than an exception does.

    A call is repeated only for HTTP 408, 429 and 5xx, a timeout, or a lost connection,
    wherever in the chain of exceptions it stands. Everything else is a fault that would
    come again.
    """

    def model(self, call: Callable[[], str]) -> ChatModel:
        """Make the model to test; each call to the framework's model returns or raises what ``call`` does.

        It can do nothing but reply: a request that is rejected is tried in few other
        forms, such as without a system role.
        """
        raise NotImplementedError

    def asked(
        self, *faults: Callable[[], None]
    ) -> tuple[Answer[Any] | BaseException, int]:
        """Put one question to a judge on the model, whose first calls raise as told.

        With the number of calls.
        """
        calls = 0

        def call() -> str:
            nonlocal calls
            calls += 1
            for fault in faults[calls - 1 : calls]:
                fault()
            return REPLY

        async def work() -> Answer[Any] | BaseException:
            judge = LLMJudge(self.model(call), attempts=ATTEMPTS)
            session = judge.session(
                concurrency=1, store=None, budget=Budget(sleep=_at_once)
            )
            (outcome,) = await asyncio.gather(
                session.answer(QUESTION), return_exceptions=True
            )
            return outcome

        return asyncio.run(work()), calls

    def fault(self, *faults: Callable[[], None]) -> tuple[BaseException, int]:
        """What a question ended with that was not answered.

        With the number of calls.
        """
        outcome, calls = self.asked(*faults)
        if isinstance(outcome, BaseException):
            return outcome, calls
        return outcome.reply.error, calls

    @pytest.mark.parametrize("told", TOLD)
    def test_what_the_chain_of_exceptions_tells_is_typed(self, told):
        """A fault that may pass is asked again until the attempts are used up, any other never."""
        make, kind = TOLD[told]
        for raised in RAISED:
            error, calls = self.fault(
                *[lambda raised=raised: raised(make())] * (ATTEMPTS + FORMS)
            )
            # by anybody: no question will be answered
            never_reached = told in ("connect timeout", "refused")
            assert type(error) is (
                errors.JudgeUnavailable if never_reached else kind
            ), raised
            if kind is errors.RequestRejected:
                assert calls <= FORMS, raised
            else:
                assert calls == (ATTEMPTS if told in PASSING else 1), raised
            assert TEXT not in str(error)

    @pytest.mark.parametrize("told", PASSING)
    def test_a_fault_that_passed_is_counted(self, told):
        """Asked again, the question is answered."""
        answer, calls = self.asked(lambda: _raise(TOLD[told][0]()))
        assert isinstance(answer, Answer)
        assert not isinstance(answer.reply, NotAnswered)
        assert (calls, answer.usage.calls, answer.usage.faults) == (2, 2, 1)

    @pytest.mark.parametrize("untold", UNTOLD)
    def test_an_exception_that_tells_of_no_endpoint_is_not_asked_again(self, untold):
        """The adapter names it by its class, or hands it on as it is."""
        for raised in RAISED:
            error, calls = self.fault(
                *[lambda raised=raised: raised(untold(TEXT))] * FORMS
            )
            assert not isinstance(
                error, errors.TransientJudgeError | errors.JudgeUnavailable
            ), raised
            assert calls == 1 or isinstance(error, errors.RequestRejected), raised
            assert TEXT not in str(error) or not isinstance(
                error, errors.RagMetricsError
            )

    def test_an_error_of_ours_stays_what_it_is(self):
        """As a model of one's own may raise it."""
        error = errors.ContentRefused("refused", raw=TEXT)
        assert self.fault(lambda: _raise(error)) == (error, 1)

    def test_calls_hold_no_more_threads_than_are_in_flight(self, monkeypatch):
        """Nor is one left behind."""
        alive, start = list[int](), threading.Thread.start

        def counted(thread: threading.Thread) -> None:
            start(thread)
            alive.append(threading.active_count())

        def slow() -> str:
            time.sleep(0.002)  # long enough for calls to overlap
            return REPLY

        samples = [
            Sample(question="q", contexts=("c",), answer=f"a {number}")
            for number in range(100)
        ]
        # the threads of judges and of users' code stay
        evaluate(samples[:1], [ContextUtilization()], judge=self.model(slow))
        before = set(threading.enumerate())
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", counted)
            report = evaluate(
                samples, [ContextUtilization()], judge=self.model(slow), concurrency=4
            )
        assert len(report.scores("context_utilization")) == len(samples)
        # on a busy machine one that has done its work may take a while to end
        assert max(alive, default=0) <= len(before) + 2 * 4 + 2
        for thread in set(threading.enumerate()) - before:
            # the loop keeps a pool for who blocks it
            if not thread.name.startswith("asyncio_"):
                thread.join(10)
                assert not thread.is_alive()
