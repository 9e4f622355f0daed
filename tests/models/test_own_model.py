"""A chat model of one's own: what it must have, what it costs, and how its faults are told."""

import asyncio
import json
import math
import re
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import replace
from email.message import Message
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import httpx
import pytest
from aiohttp import ClientResponseError, RequestInfo
from multidict import CIMultiDict, CIMultiDictProxy
from pydantic import BaseModel
from yarl import URL

from ragmetrics_core import (
    ContextAdherence,
    ContextRecall,
    ContextUtilization,
    LexicalJudge,
    Limits,
    LLMJudge,
    OpenAICompatibleModel,
    Report,
    RetrievalAccuracy,
    evaluate,
)
from ragmetrics_core.capture import FrameworkModel
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.asking import Instructions, LabelProbability, Question
from ragmetrics_core.data.errors import (
    JudgeUnavailable,
    RequestRejected,
    SettingError,
)
from ragmetrics_core.data.replies import Answer, Asked, Usage, Weight
from ragmetrics_core.engine.resolve import resolve_judge
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.models.chat import (
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
)
from ragmetrics_core.models.reply_store import SqliteStore
from ragmetrics_core.models.threads import call_in_thread

PAGE = Path(__file__).parents[2] / "docs" / "own_model.md"
BLOCKS = re.findall(
    r"^```python\n(.*?)^```$",
    PAGE.read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)
SPACE: dict[str, Any] = {"__name__": __name__}
for block in BLOCKS:
    exec(block, SPACE)
ROWS = [
    {"question": f"q {number}", "contexts": ["c"], "answer": "a"} for number in range(5)
]
GOOD = Choice('{"useful": 1, "reason": "r"}')
TEXT = "a secret text"


class Own(ChatModel):
    """Replies, or raises, what it is given."""

    name = "my-gateway"

    def __init__(
        self, given: Any = None, prices: tuple[float, float] | None = None
    ) -> None:
        self.calls = 0
        self._given, self._prices = (
            ChatReply((GOOD,)) if given is None else given,
            prices,
        )

    def prices(self) -> tuple[float, float] | None:
        return self._prices

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        if isinstance(self._given, BaseException):
            raise self._given
        reply: ChatReply = self._given
        return reply


def run(model: ChatModel, **settings: Any) -> Report:
    return evaluate(
        ROWS, ContextUtilization(), judge=LLMJudge(model, attempts=1), **settings
    )


@pytest.mark.parametrize(
    ("usage", "prices", "cost"),
    [
        # 10 × 0.01 + 2 × 0.1
        (Usage(prompt_tokens=10, completion_tokens=2), (0.01, 0.1), 0.3),
        (Usage(prompt_tokens=10, completion_tokens=2, cost=None), (0.01, 0.1), 0.3),
        (Usage(prompt_tokens=10, completion_tokens=2, cost=0.5), (0.01, 0.1), 0.5),
        (Usage(prompt_tokens=10, completion_tokens=2, cost=0.5), None, 0.5),
        (Usage(prompt_tokens=10, completion_tokens=2), (0.0, 0.0), 0.0),
        (Usage(), (0.0, 0.0), 0.0),
        (Usage(), (0.01, 0.1), None),
        (Usage(prompt_tokens=10, completion_tokens=2), None, None),
        (Usage(), None, None),
    ],
)
def test_what_a_call_costs(usage, prices, cost):
    model = Own(ChatReply((GOOD,), usage), prices)
    assert run(model).usage.cost == (None if cost is None else pytest.approx(5 * cost))


def test_a_cap_on_money_without_a_price_ends_after_one_call():
    model = Own()
    assert (
        "the price of the judge's model is not known, or its server counts no"
        in run(model, limits=Limits(max_cost=1.0)).run.stopped
    )
    assert model.calls == 1


def test_a_server_that_estimates_its_tokens_has_cut_no_prompt():
    """Some take four characters for one, however short the words are."""
    text = "1 " * 4_000
    reply = ChatReply((GOOD,), Usage(prompt_tokens=len(text) // 4))
    result = ContextUtilization().score(
        question="q", contexts=[text], answer="a", judge=LLMJudge(Own(reply))
    )
    assert (result.value, result.usage.calls) == (1.0, 1)


def test_two_endpoints_of_a_class_share_no_stored_replies(tmp_path):
    store = SqliteStore(tmp_path / "replies.sqlite")
    not_useful = '{"useful": 0, "reason": "r"}\n{"declined": 0}'
    one, other = Own(), Own(ChatReply((Choice(not_useful),)))
    scores = [
        run(model, store=store).scores("context_utilization") for model in (one, other)
    ]
    assert scores == [[1.0] * 5, [0.0] * 5]
    judge = LLMJudge(Own())
    for _ in range(2):
        evaluate(ROWS, ContextUtilization(), judge=judge, store=store)
    assert isinstance(judge.model, Own)
    assert judge.model.calls == 5  # kept for the process


class Keyed(Own):
    cache_key = "http://127.0.0.1/a"


def test_with_a_key_its_replies_are_stored(tmp_path):
    models = [Keyed(), Keyed()]
    for model in models:
        run(model, store=SqliteStore(tmp_path / "replies.sqlite"))
    assert [model.calls for model in models] == [5, 0]


class Nameless(ChatModel):
    async def complete(self, request: ChatRequest) -> ChatReply:
        return ChatReply((GOOD,))


class Mute(ChatModel):
    name = "mute"


class Blocking(ChatModel):
    name = "blocking"

    def complete(self, request: ChatRequest) -> ChatReply:  # type: ignore[override]
        return ChatReply((GOOD,))


class Duck:
    name = "duck"

    async def complete(self, request: ChatRequest) -> ChatReply:
        return ChatReply((GOOD,))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Nameless(), "Nameless has no name"),
        (Mute(), "Mute has no method complete"),
        (Blocking(), "complete that is no 'async def'"),
        (Duck(), "Duck must inherit from ChatModel"),
        (Own, "Own is a class"),
        ("gpt-4o-mini", "str must inherit"),
    ],
)
def test_what_a_model_lacks_is_said_when_the_judge_is_made(model, said):
    with pytest.raises(SettingError, match=said):
        LLMJudge(model)


class Enough(ChatModel):
    def __init__(self) -> None:
        self.name = "enough"  # type: ignore[misc]  # as without annotations

    async def complete(self, request: ChatRequest) -> ChatReply:
        return ChatReply((GOOD,))


def test_a_name_and_complete_are_enough():
    assert run(Enough()).scores("context_utilization") == [1.0] * 5


def responded(status: int) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "http://127.0.0.1:9")
    return httpx.HTTPStatusError(
        TEXT, request=request, response=httpx.Response(status, request=request)
    )


ADDRESS = URL("http://127.0.0.1:9")
ASKED = RequestInfo(ADDRESS, "POST", CIMultiDictProxy(CIMultiDict()), ADDRESS)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ('{"useful": 1}', "JudgeError"),
        ({"choices": []}, "JudgeError"),
        (ChatReply(GOOD), "JudgeError"),  # type: ignore[arg-type]  # as without the comma of a tuple
        (ChatReply((GOOD.text,)), "JudgeError"),  # type: ignore[arg-type]
        (ChatReply((Choice(None),)), "JudgeError"),  # type: ignore[arg-type]
        (ChatReply((Choice("x", "max_tokens"),)), "JudgeError"),  # type: ignore[arg-type]
        (ChatReply((Choice("x", tokens=("x",)),)), "JudgeError"),  # type: ignore[arg-type]
        (ChatReply((GOOD,), None), "JudgeError"),  # type: ignore[arg-type]
        (ChatReply((GOOD,), Usage(prompt_tokens=None)), "JudgeError"),  # type: ignore[arg-type]
        (ChatReply((GOOD,), Usage(cost="0.1")), "JudgeError"),  # type: ignore[arg-type]
        (ChatReply((GOOD,), Usage(cost=float("nan"))), "JudgeError"),
        (ChatReply(()), "UnusableReply"),
        (KeyError(TEXT), "JudgeError"),
        (RuntimeError(TEXT), "JudgeError"),
        (StopIteration(TEXT), "JudgeError"),
        (SystemExit(TEXT), "JudgeError"),
        (NotImplementedError(TEXT), "RequestRejected"),
        (responded(400), "RequestRejected"),
        (responded(429), "RateLimited"),
        (responded(500), "TransientJudgeError"),
        (HTTPError("http://127.0.0.1:9", 429, TEXT, Message(), None), "RateLimited"),
        (
            ClientResponseError(ASKED, (), status=503, message=TEXT),
            "TransientJudgeError",
        ),
    ],
)
def test_what_goes_wrong_in_a_model_is_typed_and_names_it(given, kind):
    report = run(Own(given))
    results = [row.results["context_utilization"] for row in report.results]
    assert {result.error.type for result in results if result.status == "failed"} == {
        kind
    }
    assert len([result for result in results if result.status == "failed"]) == 5
    assert kind == "UnusableReply" or "my-gateway" in results[0].reason
    assert TEXT not in results[0].model_dump_json()


@pytest.mark.parametrize("given", [TimeoutError(TEXT), httpx.ReadTimeout(TEXT)])
def test_a_reply_that_does_not_come_in_time_is_typed(given):
    result = ContextUtilization().score(
        **ROWS[0], judge=LLMJudge(Own(given), attempts=1)
    )
    assert (result.error.type, TEXT in result.reason) == ("NoReplyInTime", False)


class Unready(Own):
    async def prepare(self) -> None:
        raise LookupError(TEXT)


def test_what_goes_wrong_before_the_first_call_is_typed_too():
    result = ContextUtilization().score(**ROWS[0], judge=LLMJudge(Unready()))
    assert result.error.type == "JudgeError"
    assert (
        "my-gateway could not answer: its client raised LookupError in prepare"
        in result.reason
    )


class Rubbish(Own):
    """Its endpoint sends a page of HTML."""

    async def complete(self, request: ChatRequest) -> ChatReply:
        return ChatReply((Choice(json.loads(f"<html>{TEXT}</html>")),))


def test_what_a_library_raises_is_placed_in_the_models_own_file():
    """And it says what to do there: the reply of a proxy passes."""
    result = ContextUtilization().score(**ROWS[0], judge=LLMJudge(Rubbish()))
    lines = Path(__file__).read_text("utf-8").splitlines()
    number = next(n for n, line in enumerate(lines, 1) if "json.loads(f" in line)
    assert result.reason.endswith(
        f"its client raised JSONDecodeError in complete ({__file__}:{number});"
        " raise TransientJudgeError there if asking again may help"
    )


MODULE = """
from ragmetrics_core import LLMJudge
from ragmetrics_core.models.chat import ChatModel, ChatReply, Choice


class Gateway(ChatModel):
    name = "my-gateway"

    async def complete(self, request):
        return ChatReply((Choice('{"useful": 1, "reason": "r"}'),))


gateway = Gateway()
judge = LLMJudge(gateway)
nothing, number, text = None, 3, "lexical"
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with a chat model and a judge, in the working directory."""
    name = f"gateways_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(MODULE)
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    monkeypatch.chdir(tmp_path)
    for variable in ("RAGMETRICS_JUDGE", "RAGMETRICS_API_BASE"):
        monkeypatch.delenv(variable, raising=False)
    return name


@pytest.mark.parametrize("name", ["gateway", "judge"])
def test_a_model_or_judge_by_the_place_where_it_stands(
    name, module, monkeypatch, capsys
):
    place = f"{module}:{name}"
    arguments = [
        "evaluate",
        "rows.jsonl",
        "--metrics",
        "utilization",
        "--quiet",
        "--no-store",
    ]
    assert main([*arguments, "--explain", "--judge", place]) == 0
    assert "Spent: 5 calls, price unknown" in capsys.readouterr().out
    made = evaluate(ROWS, ContextUtilization(), judge=place)
    assert made.scores("context_utilization") == [1.0] * 5
    assert made.run.judges == ("my-gateway",)
    assert resolve_judge(place) is resolve_judge(f" {place} ")
    assert main([*arguments, "--judge", place, "--max-cost", "1"]) == 2
    assert "the price of my-gateway is not known" in capsys.readouterr().err
    monkeypatch.setenv("RAGMETRICS_JUDGE", place)
    # of other judges
    monkeypatch.setenv("RAGMETRICS_API_BASE", "http://127.0.0.1:9/v1")
    assert main(arguments) == 0


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("{}:Gateway", "Gateway is a class: give one of its objects"),
        ("{}:nothing", "nothing is a NoneType; give an object of Judge or ChatModel"),
        ("{}:number", "number is a int"),
        ("{}:text", "text is a str"),
        ("{}:missing", "has no 'missing'"),
        (
            "mistral:latest",
            (
                "No module named 'mistral'; a model is named with its provider, e.g."
                " ollama/mistral:latest"
            ),
        ),
    ],
)
def test_a_place_without_a_judge_is_one_line(place, said, module, capsys):
    with pytest.raises(SettingError, match=said):
        evaluate(ROWS, ContextUtilization(), judge=place.format(module))
    assert main(["evaluate", "rows.jsonl", "--judge", place.format(module)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_judge_of_ones_own_has_its_own_address(module, capsys):
    arguments = ["--judge", f"{module}:gateway", "--api-base", "http://127.0.0.1:9/v1"]
    assert main(["evaluate", "rows.jsonl", *arguments]) == 2
    assert "gateway takes no other endpoint or key" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name",
    [
        "ollama/llama3.1:8b",
        "openai/ft:gpt-4o-mini:acme::1",
        "bedrock/a.b-v1:0",
        "x1.5:8b",
    ],
)
def test_a_colon_in_a_models_name_is_no_place(name):
    assert resolve_judge(name).name == name


class TestThePagesModel(SPACE["TestGateway"]):  # type: ignore[misc]
    """The contract, as the page has it."""


class Local(SPACE["Gateway"]):  # type: ignore[misc]
    """A service that takes one text and no key, and does not say how a reply ended."""

    async def complete(self, request: ChatRequest) -> ChatReply:
        text = "\n\n".join(message.content for message in request.messages)
        messages = (replace(request.messages[0], content=text),)
        reply: ChatReply = await super().complete(replace(request, messages=messages))
        (choice,) = reply.choices
        return replace(reply, choices=(Choice(choice.text),))


class TestAModelThatTakesOneTextAndNoKey(SPACE["TestGateway"]):  # type: ignore[misc]
    """The contract holds for it where ``lacks`` says what its service lacks."""

    lacks = SPACE["TestGateway"].lacks | {"key", "roles", "ends"}

    def model(self, base_url: str, key: str, timeout: float) -> ChatModel:
        local = Local(base_url, "", timeout)
        del local._settings["headers"]
        return local


@pytest.mark.parametrize(
    ("lack", "name", "words"),
    [
        ("key", "test_a_request_arrives_as_it_is", "send the key in a header"),
        ("roles", "test_a_request_arrives_as_it_is", "send each message with its role"),
        ("ends", "test_how_replies_end", 'a reply that ended with .length. .*"ends"'),
    ],
)
def test_the_contract_says_what_a_service_lacks_that_lacks_does_not_name(
    lack, name, words, loopback_server
):
    contract = TestAModelThatTakesOneTextAndNoKey()
    contract.lacks -= {lack}
    translated = partial(
        loopback_server, to_openai=contract.to_openai, from_openai=contract.from_openai
    )
    ends = ({"content": "x"}, "length", "length", "x") if lack == "ends" else ()
    with pytest.raises(AssertionError, match=words):
        getattr(contract, name)(*ends, translated)


def test_the_page_is_short_and_its_model_has_at_most_30_lines():
    code = [
        line
        for line in BLOCKS[0].splitlines()
        if line and not line.startswith(("import", "from"))
    ]
    assert len(code) <= 30
    assert len(PAGE.read_text("utf-8").splitlines()) <= 80


def test_the_pages_model_judges_and_costs(loopback_server):
    contract = SPACE["TestGateway"]()
    server = loopback_server(
        lambda _: GOOD.text,
        to_openai=contract.to_openai,
        from_openai=contract.from_openai,
    )
    report = run(SPACE["Gateway"](server.base_url, "k"), limits=Limits(max_cost=1))
    assert report.scores("context_utilization") == [1.0] * 5
    usage = report.usage
    price = 2e-6 * usage.prompt_tokens + 8e-6 * usage.completion_tokens
    assert usage.cost == pytest.approx(price)
    assert price > 0


class Patient(Own):
    """Its client blocks until 40 calls are in flight, but for the first, which is sent alone."""

    others = threading.Barrier(40)

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        if self.calls > 1:
            await asyncio.wrap_future(
                call_in_thread(self.others.wait, context=copy_context(), name="gateway")
            )
        return ChatReply((GOOD,))


def test_clients_that_block_in_threads_do_not_wait_for_each_other():
    rows = [
        {"question": f"q {number}", "contexts": ["c"], "answer": "a"}
        for number in range(41)
    ]
    report = evaluate(rows, ContextUtilization(), judge=Patient(), concurrency=40)
    assert report.scores("context_utilization") == [1.0] * 41


NO_NUMBERS: tuple[Any, ...] = (math.nan, math.inf, -math.inf, -1, True, False, "5", "")


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
@pytest.mark.parametrize("setting", ["timeout", "attempts", "max_tokens"])
def test_a_judge_refuses_settings_that_are_no_numbers_in_range(setting, value):
    with pytest.raises(
        SettingError, match=rf"LLMJudge\({setting}=\) must be a .* number .*, got "
    ):
        LLMJudge(
            OpenAICompatibleModel("http://127.0.0.1:9/v1", "m"), **{setting: value}
        )


@pytest.mark.parametrize("value", [*NO_NUMBERS, 0], ids=repr)
def test_models_questions_and_limits_refuse_numbers_out_of_range(value):
    class Reply(BaseModel):
        useful: int

    with pytest.raises(SettingError, match="timeout"):
        OpenAICompatibleModel("http://127.0.0.1:9/v1", "m", timeout=value)
    with pytest.raises(SettingError, match="fallback_polls"):
        LabelProbability("useful", fallback_polls=value)
    with pytest.raises(SettingError, match="polls"):
        Question(parts={}, instructions=Instructions(""), Reply=Reply, polls=value)
    if value not in (0, "5"):
        with pytest.raises(SettingError, match="temperature"):
            Question(
                parts={}, instructions=Instructions(""), Reply=Reply, temperature=value
            )
    if value != "5":  # from a command line
        for limit in ("max_calls", "max_cost", "deadline", "requests_per_minute"):
            with pytest.raises(SettingError, match=limit):
                Limits(**{limit: value})


@pytest.mark.parametrize(
    "metric",
    [ContextUtilization(), RetrievalAccuracy(), ContextRecall(), ContextAdherence()],
)
@pytest.mark.parametrize(
    "weight",
    [{"mode": "mine"}, {"p": 1.5}, {"p": math.nan}, {"p": -0.1}, {"mass": 2.0}],
    ids=str,
)
def test_a_probability_of_a_foreign_judge_that_is_none_is_a_typed_failure(
    metric, weight
):
    class Foreign(Judge):
        name = "foreign"

        async def answer(self, question: Question[Any]) -> Answer[Any]:
            reply = question.example_reply()
            return Answer(Asked((reply,), weights=(Weight(**{"p": 0.9, **weight}),)))  # type: ignore[arg-type]

    outcome = metric.score(
        question="q", answer="a", contexts=["c"], reference="a", judge=Foreign()
    )
    assert (outcome.status, outcome.error.type) == ("failed", "JudgeError")
    assert "the judge gave a probability of" in outcome.reason


def test_a_judge_that_calls_score_is_told_what_works():
    """Both ways that the sentence names are gone here."""
    row: Any = {"question": "q", "answer": "Paris", "contexts": ["Paris"]}

    class Asks(Judge):
        name = "asks"

        def __init__(self, how: str) -> None:
            self.how = how

        async def answer(self, question: Question[Any]) -> Answer[Any]:
            if self.how == "other judge":
                return await LexicalJudge().answer(question)
            if self.how == "thread":
                await asyncio.to_thread(
                    ContextUtilization().score, **row, judge="lexical"
                )
            else:
                ContextUtilization().score(**row, judge="lexical")
            return Answer(Asked((question.read({"useful": 1}),)))

    outcomes = {
        how: ContextUtilization().score(**row, judge=Asks(how))
        for how in ("score", "thread", "other judge")
    }
    assert [outcome.status for outcome in outcomes.values()] == [
        "failed",
        "scored",
        "scored",
    ]
    for way in (
        "await other_judge.answer(question)",
        "await asyncio.to_thread(metric.score, ...)",
    ):
        assert way in outcomes["score"].reason


class OfFramework(FrameworkModel):
    """A framework's own model object, here a function, which knows no schemas."""

    def __init__(self, held: Callable[[], str]) -> None:
        super().__init__(held, "held", Capabilities(), judge_async=False, cache_key="")

    def _exchange(
        self, messages: list[dict[str, str]], settings: dict[str, Any]
    ) -> FrameworkModel.Exchange:
        if "response_format" in settings:
            raise NotImplementedError("no structured output")
        held: Any = self._held
        return held, held, lambda text: {"choices": [{"message": {"content": text}}]}

    def _form(self) -> object:
        return {}


def test_a_framework_s_model_is_asked_in_a_thread_and_without_what_it_cannot_do():
    threads: list[str] = []

    def held() -> str:
        threads.append(threading.current_thread().name)
        return GOOD.text

    model = OfFramework(held)
    assert run(model, concurrency=1).scores("context_utilization") == [1.0] * 5
    assert set(threads) == {"ragmetrics-model"}
    with pytest.raises(RequestRejected, match="held cannot be bound to a json_schema"):
        asyncio.run(model.complete(ChatRequest((), schema={"type": "object"})))


def test_a_key_that_an_endpoint_repeats_is_not_kept_with_a_framework_s_model():
    keys = ("abcd1234efgh5678ijkl", "another-key-of-1903")

    class Echoing(OfFramework):
        def _exchange(self, *_: Any) -> FrameworkModel.Exchange:
            choices = [{"message": {"content": f"The keys are {' and '.join(keys)}."}}]
            held: Any = self._held
            return (held, held, lambda model: {"choices": choices, "model": model})

        def _secrets(self) -> Sequence[str]:
            return keys

    for model, told in ((keys[0], ()), (keys[1], ()), ("m-1", ("m-1",))):
        reply = asyncio.run(Echoing(partial(str, model)).complete(ChatRequest(())))
        assert reply.usage.models == told
        assert not any(key[:12] in reply.choices[0].text for key in keys)


def test_a_client_that_was_given_no_key_says_so():
    error = RuntimeError("The api_key client option must be set, e.g. by api_key=")
    with pytest.raises(JudgeUnavailable, match="key"):
        run(Own(error))


def test_a_package_that_a_client_lacks_is_no_broken_connection():
    class Lacking(ConnectionError):
        """As clients of many providers put an ``ImportError`` into their own."""

    error = Lacking("cannot import name")
    error.__cause__ = ModuleNotFoundError("No module named 'vllm'")
    with pytest.raises(JudgeUnavailable, match="its client lacks a package: install"):
        run(Own(error))
