"""What every chat model must do, as tests to inherit.

They hold requests and replies, typed faults, and that nothing private is told.

class TestMyModel(ChatModelContract):
    def model(self, base_url: str, key: str, timeout: float) -> ChatModel:
        return MyModel(...)
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from typing import Any, ClassVar, Literal, TypeVar, get_args

import pytest

from ragmetrics_core.data import (
    Asked,
    Instructions,
    LabelProbability,
    NotAnswered,
    Part,
    Question,
    errors,
)
from ragmetrics_core.judging.llm import LLMJudge
from ragmetrics_core.metrics.fact_matrix import Covered
from ragmetrics_core.metrics.polls import AdherenceReply
from ragmetrics_core.models.attempts import call_authors_code
from ragmetrics_core.models.chat import ChatModel, ChatReply, ChatRequest, Message
from ragmetrics_core.testing.loopback import Fault, LoopbackServer

T = TypeVar("T")
Servers = Callable[..., LoopbackServer]

KEY = "sk-secret-key"
TEXT = "a secret text"
REQUEST = ChatRequest(
    (Message("system", "Rules."), Message("user", TEXT)),
    schema={"type": "object", "properties": {"useful": {"type": "integer"}}},
    n=2,
    temperature=1.0,
    top_logprobs=5,
    max_tokens=50,
)
PLAIN = ChatRequest((Message("user", TEXT),), temperature=None)


def rejection_fault(message: str, code: str, status: int = 400) -> Fault:
    """Make a rejection in OpenAI's form whose message echoes ``TEXT`` and ``KEY``."""
    error = {
        "message": f"{message}: {TEXT} {KEY}",
        "code": code,
        "type": "invalid_request_error",
    }
    return Fault(status, body=json.dumps({"error": error}))


BY_STATUS: dict[int, type[errors.JudgeError]] = {
    **dict.fromkeys((400, 422), errors.RequestRejected),
    401: errors.AuthenticationFailed,
    **dict.fromkeys((402, 403, 404), errors.JudgeUnavailable),
    408: errors.TransientJudgeError,
    413: errors.ContextWindowExceeded,
    429: errors.RateLimited,
    **dict.fromkeys((200, 500, 502, 503), errors.TransientJudgeError),
}
_BARE_FAULTS = tuple(
    (Fault(status), kind) for status, kind in BY_STATUS.items() if status != 200
)
FAULTS: tuple[tuple[Fault, type[errors.JudgeError]], ...] = (
    *_BARE_FAULTS,
    (Fault(401, code="invalid_api_key"), errors.AuthenticationFailed),
    (Fault(404, code="model_not_found"), errors.JudgeUnavailable),
    (Fault(400, code="unsupported_parameter"), errors.RequestRejected),
    (
        rejection_fault(
            "the maximum context length is 9 tokens", "context_length_exceeded"
        ),
        errors.ContextWindowExceeded,
    ),
    (
        rejection_fault("content_policy_violation", "content_policy_violation"),
        errors.ContentRefused,
    ),
    (rejection_fault("content_filter", "content_filter", 403), errors.ContentRefused),
    (
        rejection_fault("the user wrote: missing credentials", "invalid_request", 422),
        errors.RequestRejected,
    ),
    (Fault(429, code="insufficient_quota"), errors.JudgeUnavailable),
    (Fault(200, body="<html>no JSON</html>"), errors.TransientJudgeError),
    (Fault(200, body="{}"), errors.TransientJudgeError),
    (Fault(200, body='{"choices": []}'), errors.TransientJudgeError),
    (Fault(reset=True), errors.TransientJudgeError),
    (Fault(hang=True), errors.TransientJudgeError),
)
# A feature of requests, and the status with which an endpoint refuses it: each feature
# with the usual one, and each status once.
REFUSED_FEATURES = [
    *((feature, 400) for feature in ("n", "json_schema", "logprobs", "temperature")),
    *(("n", 403), ("json_schema", 404), ("temperature", 422), ("logprobs", 501)),
]
REFUSAL = {"content": None, "refusal": "I cannot"}
ENDS: tuple[tuple[dict[str, Any], str, str, str], ...] = (
    ({"content": "x"}, "length", "length", "x"),
    ({"content": "x"}, "content_filter", "refused", "x"),
    (REFUSAL, "stop", "refused", "I cannot"),
    ({"content": None}, "stop", "stop", ""),
    ({"content": "x", "reasoning_content": "hm"}, "stop", "stop", "x"),
)
Able = Literal["n", "logprobs", "json_schema", "temperature"]
Lack = (
    Able
    | Literal[
        "json_schema beside others",
        "key",
        "roles",
        "ends",
        "refusals",
        "bodies",
        "codes",
        "model",
    ]
)


def _is_answered(fault: Fault) -> bool:
    """Tell whether a fault sends a reply; a hanging or broken connection does not."""
    return not (fault.hang or fault.reset)


def _question(number: int) -> Question[Any]:
    """Ask for the probability of a label, about a text of its own."""
    return Question(
        parts={"context": Part("Context", f"c{number}")},
        instructions=Instructions('Reply {"covered": 1}.\n---\n{context}'),
        Reply=Covered,
        wanted_probability=LabelProbability("covered"),
    )


class ChatModelContract:
    """Tests that every chat model passes against a server on this machine.

    The server is compatible with OpenAI. A model names what its framework or protocol
    does not hand on; the tests then hold it to that. One of another protocol says where
    its requests arrive (``path``), how they read (``to_openai``) and how they are
    answered (``from_openai``).

    Attributes:
        lacks: What the model cannot do, of:

            - ``n`` (several replies in one request), ``logprobs``, ``json_schema`` and
              ``temperature``; the model's capabilities must say so, too.
            - ``json_schema beside others``: it sends a schema, but not in one request
              with several replies or log-probabilities.
            - ``key``: it sends no key, as to a service on this machine.
            - ``roles``: it sends the messages as one text, in their order.
            - ``ends``: how a reply ended, cut off or complete; its finish may then
              always be "stop" or "other".
            - ``refusals``: the words of a model that refuses, and that it did.
            - ``bodies``: whether the endpoint sent no valid reply or the client failed;
              the error then says neither that the fault passes nor that the request
              was rejected.
            - ``codes``: what OpenAI's error codes say beyond the status.
            - ``model``: the model's name as the endpoint returns it.
        adds: Fields that the framework sends although nobody asked for them.
        path: Where requests arrive; ``base_url`` ends with ``/v1``.
    """

    lacks: ClassVar[frozenset[Lack]] = frozenset()
    adds: ClassVar[frozenset[str]] = frozenset()
    path: ClassVar[str] = "/v1/chat/completions"

    def model(self, base_url: str, key: str, timeout: float) -> ChatModel:
        """Make the model to test, with its own retries off."""
        raise NotImplementedError

    def to_openai(self, body: dict[str, Any]) -> dict[str, Any]:
        """Make the body of a request that of OpenAI."""
        return body

    def from_openai(self, body: dict[str, Any]) -> dict[str, Any]:
        """Make the body of OpenAI's reply that of the model's server."""
        return body

    @pytest.fixture
    def loopback_server(self) -> Iterator[Servers]:
        """A factory of servers that speak the model's protocol.

        They stop after the test.
        """
        make = partial(
            LoopbackServer, to_openai=self.to_openai, from_openai=self.from_openai
        )
        with ExitStack() as stack:
            yield lambda *args, **how: stack.enter_context(make(*args, **how))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine; override it if the model must stay on one loop."""
        return asyncio.run(work)

    def using(
        self,
        work: Callable[[ChatModel], Awaitable[T]],
        base_url: str,
        timeout: float = 30.0,
    ) -> T:
        """Do something with a new model, and close it."""

        async def use_and_close() -> T:
            model = self.model(base_url, KEY, timeout)
            try:
                return await work(model)
            finally:
                await model.aclose()

        return self.run(use_and_close())

    def complete(
        self, server: LoopbackServer, request: ChatRequest, timeout: float = 30.0
    ) -> ChatReply:
        """Send one request to the server; exceptions are typed as a judge does."""
        return self.using(
            lambda model: call_authors_code(model.name, model.complete, request),
            server.base_url,
            timeout,
        )

    def raised(
        self, server: LoopbackServer, timeout: float = 30.0
    ) -> errors.JudgeError:
        """Send a request that the server lets fail, and return the model's error."""
        with pytest.raises(errors.JudgeError) as caught:
            self.complete(server, REQUEST, timeout)
        return caught.value

    def test_a_request_arrives_as_it_is(self, loopback_server: Servers) -> None:
        """The server gets messages, parameters, schema and key of a request.

        ``lacks`` names what the model cannot send: it is not looked for. Two of its
        words are about the schema: "json_schema" of a model that sends none, and
        "json_schema beside others" of a model that sends one only without other
        parameters. ``REQUEST`` has other parameters, so neither sends one here.
        """
        server = loopback_server()
        capabilities = self.model(server.base_url, KEY, 30.0).capabilities()
        abilities = get_args(Able)
        unable = {name for name in abilities if getattr(capabilities, name) is False}
        assert unable == self.lacks.intersection(abilities), (
            f"capabilities() says that it cannot do {sorted(unable)}, lacks says"
            f" {sorted(self.lacks.intersection(abilities))}: say the same in both"
        )
        self.complete(server, REQUEST)
        (recorded,) = server.requests
        assert recorded.path == self.path, (
            f"the request arrived at {recorded.path}: name it in path; base_url ends"
            " with /v1"
        )
        is_key_sent = any(KEY in value for value in recorded.headers.values())
        assert is_key_sent is ("key" not in self.lacks), (
            'send the key in a header; lacks = {"key"} if the service takes none'
        )
        body = recorded.body
        self._check_messages(body["messages"])
        self._check_parameters(body)
        if self.lacks.isdisjoint({"json_schema", "json_schema beside others"}):
            schema = body["response_format"]["json_schema"]["schema"]
            assert schema["properties"]["useful"]["type"] == "integer", (
                "send request.schema as it is"
            )

    def _check_messages(self, messages: list[dict[str, Any]]) -> None:
        """Assert that the messages of ``REQUEST`` arrived, or their texts in one."""
        if "roles" in self.lacks:
            text = "\n".join(message["content"] for message in messages)
            assert 0 <= text.find("Rules.") < text.find(TEXT), (
                "send the texts of all messages, in their order"
            )
            return
        roles_and_texts = [
            (message["role"], message["content"]) for message in messages
        ]
        assert roles_and_texts == [("system", "Rules."), ("user", TEXT)], (
            'send each message with its role; lacks = {"roles"} if it takes one text'
        )

    def _check_parameters(self, body: dict[str, Any]) -> None:
        """Assert that a body has all parameters of ``REQUEST`` that the model sends.

        A model with ``lacks = {"temperature"}`` must send none, any other one 1.0.
        """
        temperature = None if "temperature" in self.lacks else 1.0
        top_logprobs = None if "logprobs" in self.lacks else 5
        n_replies = 1 if "n" in self.lacks else 2
        assert body.get("temperature") == temperature, (
            'send request.temperature; lacks = {"temperature"} if it takes none'
        )
        assert body.get("top_logprobs") == top_logprobs, (
            'send request.top_logprobs; lacks = {"logprobs"} if it takes none'
        )
        assert body.get("n", 1) == n_replies, (
            'send request.n; lacks = {"n"} if it gives one reply for each request'
        )
        max_tokens = (body.get("max_tokens"), body.get("max_completion_tokens"))
        assert max_tokens in ((50, None), (None, 50)), (
            "the limit of 50 tokens did not arrive: send request.max_tokens"
        )

    def test_a_schema_arrives(self, loopback_server: Servers) -> None:
        """The reply's schema is sent: as such, or as that of a function to call."""
        server = loopback_server()
        has_schema = "json_schema" not in self.lacks
        schema = REQUEST.schema if has_schema else None
        self.complete(server, replace(PLAIN, schema=schema, temperature=0.0))
        body = dict(server.requests[0].body)
        del body["messages"]
        # wherever a protocol puts the schema, the name of its field is there
        assert ("useful" in json.dumps(body)) is has_schema, (
            'send request.schema; lacks = {"json_schema"} if it takes none'
        )

    def test_a_bare_request_sends_no_options(self, loopback_server: Servers) -> None:
        """What is not asked for is left to the endpoint."""
        server = loopback_server()
        self.complete(server, PLAIN)
        body = server.requests[0].body
        sent = {name for name, value in body.items() if value is not None}
        options = sent - {"model", "messages", "extra_body", "stream"}
        assert options == self.adds, (
            "nobody asked for these options: send none whose field of the request is"
            " None; those that the framework sends by itself stand in adds"
        )

    def test_a_reply_is_read(self, loopback_server: Servers) -> None:
        """A client reads of a reply its texts, log-probabilities, usage and model.

        The loopback server sends two texts. A client with ``lacks = {"n"}`` gives only
        the first text; a client that lacks "logprobs" gives no tokens.
        """
        texts = ['{"useful": 1}', '{"useful": 0}']
        server = loopback_server(lambda _: texts)
        reply = self.complete(server, REQUEST)
        expected_texts = texts[:1] if "n" in self.lacks else texts
        assert [choice.text for choice in reply.choices] == expected_texts, (
            "give a Choice for each reply of the server, with its text"
        )
        tokens = reply.choices[0].tokens
        expected_text_of_tokens = "" if "logprobs" in self.lacks else texts[0]
        assert "".join(token.token for token in tokens) == expected_text_of_tokens, (
            'give the tokens of a reply; lacks = {"logprobs"} if it tells none'
        )
        # for the token "1" of '{"useful": 1}' the server lists three alternatives: "1",
        # "0" and "maybe", with their log-probabilities
        label_tokens = [token for token in tokens if token.token.strip() == "1"]
        assert all(len(token.alternatives) == 3 for token in label_tokens), (
            "give each token its alternatives, with their log-probabilities"
        )
        models = () if "model" in self.lacks else (server.requests[0].body["model"],)
        assert reply.usage.models == models, (
            'give the usage the model that the reply names; lacks = {"model"} if it'
            " names none"
        )
        assert reply.usage.prompt_tokens > 0, "give the usage its prompt_tokens"
        assert reply.usage.completion_tokens > 0, "give the usage its completion_tokens"

    @pytest.mark.parametrize(("message", "reason", "finish", "text"), ENDS)
    def test_how_replies_end(
        self,
        message: dict[str, Any],
        reason: str,
        finish: str,
        text: str,
        loopback_server: Servers,
    ) -> None:
        """A choice says why it ended: cut off, refused, empty, or as it should.

        The server's reason "length" must become the finish "length" (cut off).

        Args:
            message: What the server sends as the message of the reply.
            reason: What it sends as the reason of its end, in OpenAI's words.
            finish: The end that the choice must state, in ours.
            text: The text that the choice must have.
            loopback_server: Makes servers.
        """
        choice = {"message": {"role": "assistant", **message}, "finish_reason": reason}
        reply = self.complete(loopback_server(lambda _: choice), PLAIN)
        (choice_read,) = reply.choices
        if message is REFUSAL and "refusals" in self.lacks:
            finish, text = "stop", ""
        finishes = {finish, "stop", "other"} if "ends" in self.lacks else {finish}
        assert choice_read.finish in finishes, (
            f"a reply that ended with {reason!r} has the finish {choice_read.finish!r};"
            ' lacks = {"refusals"} or {"ends"} if the service does not tell it'
        )
        assert choice_read.text == text, "give the choice the reply's text"

    @pytest.mark.parametrize(
        ("reason", "finish"), [("length", "length"), ("content_filter", "refused")]
    )
    def test_how_replies_in_a_schema_end(
        self, reason: str, finish: str, loopback_server: Servers
    ) -> None:
        """A reply that is cut off says why, also where the client would parse it.

        Args:
            reason: What the server sends as the reason of its end, in OpenAI's words.
            finish: The end that the choice must state, in ours; for "refused" the model
                may raise ``ContentRefused``.
            loopback_server: Makes servers.
        """
        message = {"role": "assistant", "content": '{"use'}
        server = loopback_server(
            lambda _: {"message": message, "finish_reason": reason}
        )
        schema = None if "json_schema" in self.lacks else REQUEST.schema
        try:
            reply = self.complete(server, replace(PLAIN, schema=schema))
            finishes = [choice.finish for choice in reply.choices]
        except errors.ContentRefused:
            finishes = ["refused"]
        assert "ends" in self.lacks or finishes == [finish], (
            f"a reply in a schema that ended with {reason!r} has the finish {finishes}"
        )

    @pytest.mark.parametrize(("fault", "error_class"), FAULTS)
    def test_faults_are_typed_and_tell_nothing_private(
        self,
        fault: Fault,
        error_class: type[errors.JudgeError],
        loopback_server: Servers,
    ) -> None:
        """One call, one typed error, which holds neither the key nor a text.

        Example: a server answers 429; the model raises ``RateLimited``.

        Args:
            fault: What the server does.
            error_class: The class of the error that the model must raise, unless
                ``lacks`` says that it cannot tell.
            loopback_server: Makes servers.
        """
        server = loopback_server(faults=lambda _: fault)
        error = self.raised(server, timeout=0.3 if fault.hang else 30.0)
        # A model with ``lacks = {"bodies"}`` is not told whether the server sent no
        # valid reply, or its own client failed.
        has_broken_body = _is_answered(fault) and fault.status == 200
        if has_broken_body and "bodies" in self.lacks:
            misleading = (errors.TransientJudgeError, errors.RequestRejected)
            assert type(error) is error_class or not isinstance(error, misleading), (
                f"a broken reply was taken for {type(error).__name__}"
            )
        else:
            # A model with ``lacks = {"codes"}`` knows the status of a reply alone, and
            # not the error code in its body: then the class goes by the status.
            goes_by_status = _is_answered(fault) and "codes" in self.lacks
            expected = BY_STATUS[fault.status] if goes_by_status else error_class
            # clients tell a 408, too, as a reply that did not come in time
            is_late = isinstance(error, errors.NoReplyInTime)
            kind = errors.TransientJudgeError if is_late else type(error)
            assert kind is expected, (
                f"the fault must raise {expected.__name__}, it raised"
                f" {type(error).__name__}: give status and body to Fault.from_reply;"
                ' lacks = {"codes"} if its bodies say no more than the status,'
                ' {"bodies"} if a broken body cannot be told'
            )
            name = self.model(server.base_url, KEY, 30.0).name
            assert name in str(error), "the error must name the model"
        assert KEY not in str(error), "the error holds the key"
        assert TEXT not in str(error), "the error holds a text of the request"
        # On a busy machine a call's time may end before its request is sent.
        sent = {0, 1} if fault.hang else {1}
        assert len(server.requests) in sent, "send a request once: the judge repeats it"

    @pytest.mark.parametrize("status", [429, 503])
    def test_retry_after_is_read(self, status: int, loopback_server: Servers) -> None:
        """The error that a model raises says how long the endpoint asks to wait.

        The header "Retry-After" gives a number of seconds ("17"), or a date until which
        to wait.
        """
        not_transient = f"HTTP {status} passes by itself: raise a TransientJudgeError"
        unread = "give the header Retry-After to Fault.from_reply, in seconds"
        fault = Fault(status, {"Retry-After": "17"})
        error = self.raised(loopback_server(faults=lambda _: fault))
        assert isinstance(error, errors.TransientJudgeError), not_transient
        assert error.retry_after == 17.0, unread
        date = datetime.now(UTC) + timedelta(seconds=90)
        date_in_header = format_datetime(date, usegmt=True)
        fault_with_date = Fault(status, {"Retry-After": date_in_header})
        error = self.raised(loopback_server(faults=lambda _: fault_with_date))
        assert isinstance(error, errors.TransientJudgeError), not_transient
        assert error.retry_after is not None, unread
        # less than 90 seconds by the time that the test took
        assert 60 < error.retry_after <= 90, "the header may hold a date, too"

    def test_nobody_listens(self, loopback_server: Servers) -> None:
        """An address without a server."""
        server = loopback_server()
        address = server.base_url
        server.__exit__()
        with pytest.raises(errors.TransientJudgeError):
            self.using(
                lambda model: call_authors_code(model.name, model.complete, PLAIN),
                address,
            )

    def test_the_repr_hides_the_key(self) -> None:
        """Nor do its name and the key of its replies tell it."""
        model = self.model("http://127.0.0.1:9/v1", KEY, 30.0)
        told = f"{model!r}{model.name}{model.cache_key}"
        assert KEY not in told, "repr, name or cache_key hold the key"

    @pytest.mark.parametrize(
        ("n", "json_schema"),
        [
            (True, True),
            (True, "ignore"),
            (True, "reject"),
            (True, "json_mode"),
            ("ignore", True),
            ("reject", True),
            ("reject", "reject"),
        ],
    )
    def test_what_an_endpoint_cannot_do_is_replaced(
        self, n: Any, json_schema: Any, loopback_server: Servers
    ) -> None:
        """A judge gets its five replies, whatever the endpoint supports.

        Args:
            n: True: the server gives several replies in a request. "ignore": it silently
                gives only one. "reject": it answers with an error.
            json_schema: True, "ignore" or "reject", for the JSON schema of a reply.
                "json_mode": the server takes no schema, but the wish for JSON.
            loopback_server: Makes servers.
        """
        server = loopback_server(n=n, json_schema=json_schema)
        template = Instructions(
            'Reply {"supported": 1, "claims": 1, "unsupported": []}.\n---\n{contexts}\n{answer}'
        )
        parts = {"contexts": Part("Context", ("c",)), "answer": Part("Answer", "a")}
        question = Question(
            parts=parts,
            instructions=template,
            Reply=AdherenceReply,
            polls=5,
            temperature=1.0,
        )
        answer = self.using(
            lambda model: LLMJudge(model).answer(question), server.base_url
        )
        assert isinstance(answer.reply, Asked), (
            f"the judge got no answer: {answer.reply}; raise judge_error for a status"
            " that rejects what the service cannot do"
        )
        assert len(answer.reply.replies) == 5, "the judge asked for five replies"
        assert answer.usage.calls == len(server.requests), (
            "give one ChatReply for each request that was sent"
        )

    @pytest.mark.parametrize("status", [401, 403])
    def test_a_wrong_key_ends_a_judge_before_its_second_call(
        self, status: int, loopback_server: Servers
    ) -> None:
        """No question can be answered, so that no further one is asked.

        Args:
            status: The status with which the server refuses the key.
            loopback_server: Makes servers.
        """
        server = loopback_server(
            faults=lambda _: Fault(status, code="invalid_api_key"), logprobs="reject"
        )

        async def ask(model: ChatModel) -> list[Any]:
            judge = LLMJudge(model)
            asked = [judge.answer(_question(number)) for number in range(3)]
            return [answer.reply for answer in await asyncio.gather(*asked)]

        replies = self.using(ask, server.base_url)
        assert all(
            isinstance(reply, NotAnswered)
            and isinstance(reply.error, errors.AuthenticationFailed)
            for reply in replies
        ), f"raise judge_error for HTTP {status}; the questions ended with {replies}"
        assert len(server.requests) == 1, "a refused key is refused to all questions"

    @pytest.mark.parametrize(("feature", "status"), REFUSED_FEATURES)
    def test_a_refused_feature_is_left_out_whatever_the_status(
        self, feature: str, status: int, loopback_server: Servers
    ) -> None:
        """It is refused once; a judge asks without, and does not take it for a key.

        Args:
            feature: What the server refuses.
            status: The status with which it does.
            loopback_server: Makes servers.
        """
        refusals: dict[str, Any] = {feature: "reject"}
        server = loopback_server(
            reply=lambda _: '{"covered": 1}', status=status, **refusals
        )

        async def ask(model: ChatModel) -> list[Any]:
            judge = LLMJudge(model)
            return [(await judge.answer(_question(n))).reply for n in range(3)]

        replies = self.using(ask, server.base_url)
        assert all(isinstance(reply, Asked) for reply in replies), (
            f"the judge got no answer: {replies}; the message of judge_error has to name"
            " what was refused"
        )
        refused = [one for one in server.requests if server.rejection(one.body)]
        # a schema is refused as a schema, and as the wish for JSON
        most = 2 if feature == "json_schema" else 1
        assert len(refused) <= most, f"{feature} is asked for again after its refusal"
