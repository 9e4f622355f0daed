"""The evidence ledger of agents, engines and conversations of LlamaIndex.

What is expected was worked out by hand.

The model and the embeddings are fakes, everything else is the framework's own.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from lanes import crossed, examples
from llama_index.core import VectorStoreIndex, get_response_synthesizer
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.llms import (
    ChatMessage,
    CompletionResponse,
    CustomLLM,
    LLMMetadata,
)
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.memory import ChatMemoryBuffer, Memory
from llama_index.core.query_engine import SubQuestionQueryEngine
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import FunctionTool, QueryEngineTool, RetrieverTool
from llama_index.core.workflow import (
    Context,
    HumanResponseEvent,
    InputRequiredEvent,
)
from llama_index.evaluation.ragmetrics import capture
from own_words import FOUND_PAGES, NAMED, PASSED, Passed, check_evidence, check_page
from workflows.errors import WorkflowCancelledByUser

from ragmetrics_core import Sample

pytestmark = [
    # The framework's workflows look at all members of an agent, deprecated pydantic
    # ones among them.
    pytest.mark.filterwarnings(
        "ignore:The `(__fields|model_):pydantic.warnings.PydanticDeprecatedSince20"
    ),
    pytest.mark.filterwarnings(
        "ignore:Accessing the 'model_:pydantic.warnings.PydanticDeprecatedSince211"
    ),
    pytest.mark.filterwarnings(
        "ignore:is_running called from within a step:DeprecationWarning"
    ),
    pytest.mark.filterwarnings(
        "ignore:Skipping serialization of known unserializable key"
    ),
    pytest.mark.filterwarnings("ignore:.*aiosqlite:ResourceWarning"),
    pytest.mark.usefixtures("databases_let_go"),
]

Q = "Which city is the capital?"
A = "The answer of the model."
SAYS = "Paris is it, as the store has it on its first page."
P = {
    "paris": "Paris is the capital of France and lies on the river Seine.",
    "wine": "France is renowned for its wine, above all that of Bordeaux.",
    "lyon": "Lyon lies in the south-east, where Rhone and Saone flow together.",
    "nice": "Nice is a city on the Mediterranean coast, close to Italy.",
}
_SHORT = {text: name for name, text in P.items()}
FOUND = ("paris", "wine")  # of every query that names nothing else
COAST = ("nice", "paris")


@dataclass(frozen=True)
class Call:
    """What an entry must be, pages by their names; by default all of it was shown."""

    kind: str
    items: tuple[str, ...] = ()
    shown: tuple[int, ...] | None = ()
    step: int = 0
    name: str | None = None
    query: str | None = None
    agent: str | None = None
    error: str | None = None
    turn: int = 1


def call(kind: str, *items: str, **fields: Any) -> Call:
    return Call(kind, items, **{"shown": tuple(range(len(items))), **fields})


def told(sample: Sample) -> tuple[int, list[Call]]:
    """The turn, and the entries."""
    assert sample.ledger is not None
    fields = ("shown", "step", "name", "query", "agent", "error", "turn")
    found = []
    for one in sample.ledger.calls:
        items = tuple(_SHORT.get(item.text, item.text) for item in one.items)
        values = {name: getattr(one, name) for name in fields}
        if values["query"] is not None:
            # the framework's tool for retrievers asks "input is capital"
            values["query"] = values["query"].strip().removeprefix("input is ")
        found.append(Call(one.kind, items, **values))
    return sample.ledger.turn, found


@dataclass(frozen=True)
class Row:
    """What runs, and per sample its turn and its ledger; ``same`` if all are one conversation."""

    run: Callable[[ModuleType], Any]
    ledgers: tuple[tuple[int, list[Call]], ...]
    tools: frozenset[str] | None = None
    same: bool = True


LEDGERS: dict[str, Row] = {}


def row(
    name: str,
    *turns: list[Call],
    tools: frozenset[str] | None = None,
    same: bool = True,
) -> Callable[[Any], Any]:
    """Add a row; its turns are numbered where they are one conversation."""

    def add(run: Any) -> Any:
        assert name not in LEDGERS
        LEDGERS[name] = Row(
            run,
            tuple((at if same else 1, one) for at, one in enumerate(turns, start=1)),
            tools,
            same,
        )
        return run

    return add


def retriever(kit: ModuleType, *names: str) -> Any:
    return VectorStoreIndex(kit.pages(*names)).as_retriever(similarity_top_k=2)


def engine(kit: ModuleType, says: str = A, **settings: Any) -> Any:
    return VectorStoreIndex(kit.pages()).as_query_engine(
        llm=kit.Model(answer=says), similarity_top_k=2, **settings
    )


def searching(kit: ModuleType, name: str = "store") -> RetrieverTool:
    return RetrieverTool.from_defaults(
        retriever(kit), name=name, description="Knows the country."
    )


def asking(kit: ModuleType, name: str = "store", says: str = SAYS) -> QueryEngineTool:
    return QueryEngineTool.from_defaults(
        engine(kit, says), name=name, description="Knows the country."
    )


def scripted(kit: ModuleType, *replies: Any, **settings: Any) -> Any:
    """A model that says one thing after another: calls of tools as (tool, argument), at last its answer."""
    replies = (
        (*replies, A) if not replies or not isinstance(replies[-1], str) else replies
    )

    class Scripted(kit.Model):  # type: ignore[name-defined,misc]  # of a fixture
        def _reply(self, prompt: str) -> Any:
            at = len(self.asked)
            said = replies[min(at, len(replies) - 1)]
            given = (
                (name, one if isinstance(one, dict) else {"input": one})
                for name, one in said
            )
            self.script[:] = [("", said if isinstance(said, str) else list(given))]
            return super()._reply(prompt)

    return Scripted(**settings)


async def ask(agent: Any, question: str = Q, **given: Any) -> str:
    return str(await agent.run(user_msg=question, **given))


CAPITAL = ("store", "capital")
SEARCH = {"step": 1, "name": "store", "query": "capital"}
HIT = call("retrieval", *FOUND, **SEARCH)


# -- engines


@row("queries of a fusion are one retrieval", [call("retrieval", *FOUND, query=Q)])
def _(kit: ModuleType) -> None:
    llm = kit.Model(answer="capital\ncity")
    both = QueryFusionRetriever(
        [retriever(kit)], llm=llm, num_queries=2, similarity_top_k=2, use_async=False
    )
    docs = both.retrieve(Q)
    told = ChatMessage(role="system", content="\n".join(one.text for one in docs))
    kit.Model().chat([told, ChatMessage(content=Q)])


SUBS = (
    '[{"sub_question": "the capital", "tool_name": "a"}, {"sub_question": "the coast",'
    ' "tool_name": "b"}]'
)
INNER = (
    "The first page has it that it is Paris.",
    "The last page has it that it is Nice.",
)


@row(
    "sub-questions",
    [
        call("written", INNER[0], step=1, query="the capital"),
        call("retrieval", *FOUND, step=1, query="the capital"),
        call("written", INNER[1], step=2, query="the coast"),
        call("retrieval", *COAST, step=2, query="the coast"),
    ],
)
def _(kit: ModuleType) -> None:
    tools = [asking(kit, name, says) for name, says in zip("ab", INNER, strict=True)]
    llm = kit.Model(
        script=[("Sub question", A)], answer=f'```json\n{{"items": {SUBS}}}\n```'
    )
    questions = LLMQuestionGenerator.from_defaults(llm=llm)
    made = get_response_synthesizer(llm=llm)
    SubQuestionQueryEngine.from_defaults(
        query_engine_tools=tools,
        question_gen=questions,
        response_synthesizer=made,
        use_async=False,
    ).query(Q)


# -- tools


@row(
    "ReAct over a model that completes: a streamed call is one step",
    [HIT, call("retrieval", *COAST, step=2, name="store", query="coast")],
)
def _(kit: ModuleType) -> None:
    thoughts = [
        f'Thought: I look.\nAction: store\nAction Input: {{"input": "{word}"}}'
        for word in ("capital", "coast")
    ]
    llm = Completing(lines=[*thoughts, f"Thought: I can answer.\nAnswer: {A}"])
    asyncio.run(ask(ReActAgent(tools=[searching(kit)], llm=llm)))


class Completing(CustomLLM):
    """A model that completes prompts, and says one thing after the other."""

    lines: list[str]

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="fake")

    @llm_completion_callback()
    def complete(
        self, prompt: str, formatted: bool = False, **_: Any
    ) -> CompletionResponse:
        return CompletionResponse(text=self.lines.pop(0))

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        line = self.lines.pop(0)
        middle = len(line) // 2
        return (
            CompletionResponse(text=text, delta=delta)
            for text, delta in ((line[:middle], line[:middle]), (line, line[middle:]))
        )


ANSWERED = [call("written", SAYS, **SEARCH), HIT]


@row("an agent asks an engine", ANSWERED)
def _(kit: ModuleType) -> None:
    asyncio.run(ask(FunctionAgent(tools=[asking(kit)], llm=scripted(kit, [CAPITAL]))))


BOTH = [HIT, call("retrieval", *COAST, **{**SEARCH, "query": "coast"})]


def _reversed(kit: ModuleType, **settings: Any) -> None:
    async def run() -> None:
        over = asyncio.Event()

        async def store(
            input: str,  # noqa: A002
        ) -> list[NodeWithScore]:  # the name of the argument
            """Search."""
            if input == "capital":
                await over.wait()
            found = await retriever(kit).aretrieve(input)
            over.set()
            return found

        await ask(
            FunctionAgent(
                tools=[store],
                llm=scripted(kit, [CAPITAL, ("store", "coast")], **settings),
            )
        )

    asyncio.run(run())


@row(
    "an agent goes on with kept messages, of which one is a tool's result",
    [call("tool", "lyon"), HIT],
)
def _(kit: ModuleType) -> None:
    kept = [("user", Q), ("assistant", ""), ("tool", P["lyon"])]
    talk = [ChatMessage(role=role, content=text) for role, text in kept]
    agent = FunctionAgent(tools=[searching(kit)], llm=scripted(kit, [CAPITAL]))

    async def run() -> None:
        assert str(await agent.run(chat_history=talk)) == A

    asyncio.run(run())


@row("the first of two calls of one reply ends last", BOTH)
def _(kit: ModuleType) -> None:
    _reversed(kit)


@row("a tool that returns nodes of its own", [call("retrieval", "lyon", **SEARCH)])
def _(kit: ModuleType) -> None:
    async def store(input: str) -> list[NodeWithScore]:  # noqa: A002
        """Search."""
        return [NodeWithScore(node=TextNode(id_="lyon", text=P["lyon"]), score=0.5)]

    asyncio.run(ask(FunctionAgent(tools=[store], llm=scripted(kit, [CAPITAL]))))


@row(
    "a tool that fails",
    [call("tool", step=1, name="sql", query="x", error="ValueError: no such table")],
)
def _(kit: ModuleType) -> None:
    async def sql(input: str) -> str:  # noqa: A002
        """Query."""
        raise ValueError("no such table")

    asyncio.run(ask(FunctionAgent(tools=[sql], llm=scripted(kit, [("sql", "x")]))))


# -- several agents

BOSS = {"name": "boss", "description": "Leads."}


@row(
    "a hand-off",
    [call("retrieval", *FOUND, step=2, name="store", query="capital", agent="finder")],
)
def _(kit: ModuleType) -> None:
    hands = [("handoff", {"to_agent": "finder", "reason": "It finds."})]
    boss = FunctionAgent(**BOSS, llm=scripted(kit, hands), tools=[])
    finder = FunctionAgent(
        name="finder",
        description="Finds.",
        llm=scripted(kit, [CAPITAL]),
        tools=[searching(kit)],
    )
    asyncio.run(ask(AgentWorkflow(agents=[boss, finder], root_agent="boss")))


def _finder(kit: ModuleType) -> FunctionTool:
    inner = FunctionAgent(
        name="finder", llm=scripted(kit, [CAPITAL], SAYS), tools=[searching(kit)]
    )

    async def find(input: str) -> str:  # noqa: A002
        """Find."""
        return str(await inner.run(user_msg=input))

    return FunctionTool.from_defaults(async_fn=find)


@row(
    "an agent as a tool",
    [
        call("written", SAYS, step=1, name="find", query="the city", agent="boss"),
        call(
            "retrieval", *FOUND, step=1, name="store", query="capital", agent="finder"
        ),
    ],
)
def _(kit: ModuleType) -> None:
    boss = FunctionAgent(
        **BOSS, tools=[_finder(kit)], llm=scripted(kit, [("find", "the city")])
    )
    asyncio.run(ask(boss))


# -- a person


async def confirm(ctx: Context, input: str) -> str:  # noqa: A002
    """Ask a person."""
    asked = InputRequiredEvent(prefix=input)  # type: ignore[call-arg]
    said = await ctx.wait_for_event(
        HumanResponseEvent, waiter_id="w", waiter_event=asked
    )
    return str(said.response)


REPLY = "Yes, but only the city in the north, please."
CONFIRMED = [
    call("tool", REPLY, step=1, name="confirm", query="Sure?"),
    replace(HIT, step=2),
]


@row("a person is asked", CONFIRMED)
def _(kit: ModuleType) -> None:
    agent = FunctionAgent(
        tools=[confirm, searching(kit)],
        llm=scripted(kit, [("confirm", "Sure?")], [CAPITAL]),
    )

    async def run() -> None:
        handler = agent.run(user_msg=Q)
        async for event in handler.stream_events():
            if isinstance(event, InputRequiredEvent):
                handler.ctx.send_event(HumanResponseEvent(response=REPLY))  # type: ignore[call-arg]
        assert str(await handler) == A

    asyncio.run(run())


@row("a person does not answer", [])
def _(kit: ModuleType) -> None:
    agent = FunctionAgent(tools=[confirm], llm=scripted(kit, [("confirm", "Sure?")]))

    async def run() -> None:
        handler = agent.run(user_msg=Q)
        async for event in handler.stream_events():
            if isinstance(event, InputRequiredEvent):
                await handler.cancel_run()
                break
        with pytest.raises(WorkflowCancelledByUser):
            await handler

    asyncio.run(run())


def waits() -> None:
    """Agents of 0.14.0 take a tool that waits for a person for one that failed."""
    if version("llama-index-core") == "0.14.0":
        pytest.skip("no tool of its agents can wait for a person")


def test_a_run_that_was_cancelled_has_no_answer(parts: ModuleType) -> None:
    waits()
    with capture() as captured:
        LEDGERS["a person does not answer"].run(parts)
    (sample,) = captured.samples
    assert sample.capture is not None
    assert (sample.question, sample.answer, sample.capture.grade) == (
        Q,
        None,
        "incomplete",
    )


# -- conversations

SECOND = "And where is the coast?"
LATER = call("retrieval", *COAST, step=1, name="store", query="coast", turn=2)


@row("two turns with one memory", [HIT], [HIT, LATER], [HIT, LATER])
def _(kit: ModuleType) -> None:
    agent = FunctionAgent(
        tools=[searching(kit)],
        llm=scripted(kit, [CAPITAL], A, [("store", "coast")], "On it.", "Done."),
    )
    memory = ChatMemoryBuffer.from_defaults(token_limit=4000)

    async def run() -> None:
        for question in (Q, SECOND, "Thank you."):
            await ask(agent, question, memory=memory)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("memory", "mode", "streamed"),
    crossed(
        ["default", "Memory", "ChatMemoryBuffer"],
        ["context", "condense_plus_context", "best", "condense_question"],
        [False, True],
    ),
)
def test_a_chat_engine_remembers_until_it_is_reset(
    memory: str, mode: str, streamed: bool, parts: ModuleType
) -> None:
    made = {"Memory": Memory, "ChatMemoryBuffer": ChatMemoryBuffer}.get(memory)
    kept = {} if made is None else {"memory": made.from_defaults(token_limit=3000)}
    chat = VectorStoreIndex(parts.pages()).as_chat_engine(
        chat_mode=mode, llm=parts.Model(), similarity_top_k=2, **kept
    )

    def ask_both() -> None:
        for question in (Q, SECOND):
            if streamed:
                assert "".join(chat.stream_chat(question).response_gen)
            else:
                chat.chat(question)

    with capture() as captured:
        ask_both()
        chat.reset()
        ask_both()
    first = [("user", Q), ("assistant", A)]
    assert [
        [(turn.role, turn.content) for turn in one.history] for one in captured.samples
    ] == [[], first, [], first]
    ledgers = [one.ledger for one in captured.samples if one.ledger]
    assert [one.turn for one in ledgers] == [1, 2, 1, 2]
    assert [[call.turn for call in one.calls] for one in ledgers] == [
        [1],
        [1, 2],
        [1],
        [1, 2],
    ]
    assert len({one.conversation for one in ledgers}) == 1  # the memory's own name


@pytest.mark.parametrize("memory", [Memory, ChatMemoryBuffer])
def test_react_remembers_what_it_saw_and_answered(
    memory: Any, parts: ModuleType
) -> None:
    thinks = (
        'Thought: I need to use a tool.\nAction: store\nAction Input: {"input":'
        ' "capital"}'
    )
    llm = scripted(
        parts,
        thinks,
        *(f"Thought: I can answer.\nAnswer: {one}" for one in (A, "On it.", "Done.")),
    )
    agent, kept = (
        ReActAgent(tools=[searching(parts)], llm=llm),
        memory.from_defaults(token_limit=4000),
    )

    async def run() -> None:
        for question in (Q, SECOND, "Thank you."):
            await ask(agent, question, memory=kept)

    with capture() as captured:
        asyncio.run(run())
    assert [told(one)[1][0].shown for one in captured.samples] == [(0, 1)] * len(
        captured.samples
    )
    said = [[turn.content for turn in one.history] for one in captured.samples]
    assert said == [[], [Q, A], [Q, A, SECOND, "On it."]]


@pytest.mark.parametrize("name", LEDGERS)
def test_ledger(name: str, parts: ModuleType) -> None:
    if "a person" in name:
        waits()
    row = LEDGERS[name]
    with capture(context_tools=row.tools) as captured:
        row.run(parts)
    assert not captured.problems
    assert [told(sample) for sample in captured.samples] == list(row.ledgers)
    ids = {sample.ledger.conversation for sample in captured.samples if sample.ledger}
    assert len(ids) == 1 if row.same else len(ids) > 1 or ids == {None}


def noting(kit: ModuleType, passed: list[Passed]) -> FunctionAgent:
    """An agent whose model passes texts to a tool, and searches at last."""
    by_text = {each.text: each for each in passed}
    stored: list[TextNode] = []

    def note(text: str) -> Any:
        """Keep a note."""
        each = by_text[text]
        nodes = [TextNode(text=each.text), TextNode(text=each.page)]
        if each.way == "store":
            stored.extend(nodes)
        return nodes if each.way == "documents" else each.told

    class Stored(BaseRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return [NodeWithScore(node=node, score=0.5) for node in stored]

    search = RetrieverTool.from_defaults(Stored(), name="search", description="S.")
    tools = [FunctionTool.from_defaults(note), search]
    wishes = [[("note", {"text": each.text})] for each in passed]
    return FunctionAgent(tools=tools, llm=scripted(kit, *wishes, [("search", "house")]))


@settings(
    max_examples=examples(10),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(passed=PASSED, named=NAMED)
def test_what_a_model_passes_to_a_tool_never_comes_back_as_evidence(
    passed: list[Passed], named: frozenset[str] | None, parts: ModuleType
) -> None:
    with capture(context_tools=named) as captured:
        asyncio.run(ask(noting(parts, passed)))
    (sample,) = captured.samples
    check_evidence(sample, passed)


@pytest.mark.parametrize("name", FOUND_PAGES)
def test_a_page_that_no_model_wrote_stays_as_it_is(
    name: str, parts: ModuleType
) -> None:
    question, argument, page = FOUND_PAGES[name]
    agent = noting(parts, [Passed("page", argument, page)])
    with capture(context_tools={"note"}) as captured:
        asyncio.run(ask(agent, question))
    (sample,) = captured.samples
    check_page(sample, page)
