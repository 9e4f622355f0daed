"""Runs that share a memory are turns of one conversation.

A summary of what was said is no turn.
"""

from __future__ import annotations

import asyncio
import json
from types import ModuleType
from typing import Any

import pytest
from lanes import crossed
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatResponse, LLMMetadata
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
)
from llama_index.core.llms import ChatMessage, MessageRole
from llama_index.core.memory import (
    ChatMemoryBuffer,
    ChatSummaryMemoryBuffer,
    Memory,
)
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import QueryBundle
from llama_index.core.tools import RetrieverTool
from llama_index.core.workflow import Context
from llama_index.evaluation.ragmetrics import capture

from ragmetrics_core.data.sample import Sample

pytestmark = [
    # The framework's workflows look at all members of an agent, deprecated pydantic
    # ones among them.
    pytest.mark.filterwarnings(
        "ignore:The `(__fields|model_):pydantic.warnings.PydanticDeprecatedSince20"
    ),
    pytest.mark.filterwarnings(
        "ignore:Accessing the 'model_:pydantic.warnings.PydanticDeprecatedSince211"
    ),
    # Its agents ask for a deprecated property.
    pytest.mark.filterwarnings(
        "ignore:is_running called from within a step:DeprecationWarning"
    ),
    # Its contexts cannot write the memory of an agent down with this release of
    # pydantic.
    pytest.mark.filterwarnings(
        "ignore:Skipping serialization of known unserializable key"
    ),
    # Its chat memory never closes its database.
    # its contexts cannot write down the memory of an agent with this release of pydantic
    pytest.mark.filterwarnings(
        "ignore:Skipping serialization of known unserializable key"
    ),
    pytest.mark.filterwarnings("ignore:.*aiosqlite:ResourceWarning"),
    pytest.mark.usefixtures("databases_let_go"),
]

BRIDGE = "The Velm bridge was opened in 1874 by the mayor of the town."
FERRY = "The Osta ferry crosses the lake every hour in summer."
MILL = "The Tarn mill ground corn until the flood of 1910 took its wheel."
PAGES = {"bridge": ("b", BRIDGE), "ferry": ("f", FERRY), "mill": ("m", MILL)}
ABOUT = {
    "When was the bridge opened?": "It was opened in 1874 by the mayor.",
    "And how often does the ferry go?": "Every hour, in summer.",
    "Until when did the mill run?": "Until the flood of 1910.",
}
QUESTIONS = [*ABOUT]


def retriever(kit: ModuleType) -> Any:
    def pages(query: str) -> list[Any]:
        return [kit.node(*page) for word, page in PAGES.items() if word in query]

    return kit.FixedRetriever(pages)


def agent(kit: ModuleType) -> FunctionAgent:
    """Searches for what the user asks, then says what was found."""

    class Guide(kit.ToolLLM):  # type: ignore[name-defined, misc]  # a class of the fixture
        def _reply(self, messages: Any) -> ChatResponse:
            question = next(
                one.content
                for one in reversed(messages)
                if one.role == MessageRole.USER
            )
            if messages[-1].role == MessageRole.USER:
                made = [
                    {
                        "id": question,
                        "name": "search",
                        "arguments": json.dumps({"input": question}),
                    }
                ]
                reply = ChatMessage(
                    role="assistant", content="", additional_kwargs={"tool_calls": made}
                )
                return ChatResponse(message=reply, delta="")
            return ChatResponse(
                message=ChatMessage(role="assistant", content=ABOUT[question]),
                delta=ABOUT[question],
            )

    tool = RetrieverTool.from_defaults(
        retriever(kit), name="search", description="Searches."
    )
    return FunctionAgent(name="guide", description="Guides.", tools=[tool], llm=Guide())


def conversations(samples: list[Sample]) -> list[tuple[str | None, int]]:
    return [
        (one.ledger.conversation, one.ledger.turn)
        for one in samples
        if one.ledger is not None
    ]


def said(*questions: str) -> list[str]:
    return [text for question in questions for text in (question, ABOUT[question])]


def history(sample: Sample) -> list[str]:
    return [turn.content for turn in sample.history]


def test_runs_without_a_context_are_conversations_of_their_own(kit: ModuleType) -> None:
    guide = agent(kit)

    async def chat() -> None:
        for question in QUESTIONS:
            await guide.run(user_msg=question)

    with capture() as captured:
        asyncio.run(chat())
    found = conversations(list(captured.samples))
    assert found == [(None, 1)] * 3
    assert not any(one.history for one in captured.samples)


SUMMARY = "They spoke about buildings near the lake."
MEMORIES: dict[str, Any] = {
    "the engine's own": lambda _: None,
    "buffer": lambda _: ChatMemoryBuffer.from_defaults(token_limit=3000),
    "sums nothing up": lambda llm: ChatSummaryMemoryBuffer.from_defaults(
        llm=llm, token_limit=3000
    ),
    "sums up": lambda llm: ChatSummaryMemoryBuffer.from_defaults(
        llm=llm, token_limit=14, tokenizer_fn=str.split
    ),
    "keeps": lambda _: Memory.from_defaults(token_limit=3000),
    "forgets": lambda _: Memory.from_defaults(
        token_limit=14, chat_history_token_ratio=1.0, tokenizer_fn=str.split
    ),
}


def guide_llm(kit: ModuleType, *, is_chat_model: bool) -> Any:
    """A model that answers the last question of its prompt, and sums up where it is asked to."""

    class Guide(kit.ScriptedLLM):  # type: ignore[name-defined, misc]  # a class of the fixture
        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(context_window=8192, is_chat_model=is_chat_model)

        def _said(self, prompt: str) -> str:
            if "Transcript so far" in prompt:
                return SUMMARY
            asked = max(QUESTIONS, key=prompt.rfind)
            return asked if "standalone question" in prompt else ABOUT[asked]

    return Guide()


def chat_engine(kit: ModuleType, mode: str, llm: Any, **options: Any) -> Any:
    found = retriever(kit)
    if mode == "condense_question":
        engine = RetrieverQueryEngine.from_args(found, llm=llm)
        return CondenseQuestionChatEngine.from_defaults(engine, llm=llm, **options)
    made_by = {"context": ContextChatEngine}.get(mode, CondensePlusContextChatEngine)
    return made_by.from_defaults(retriever=found, llm=llm, **options)


@pytest.mark.parametrize(
    ("mode", "memory", "is_chat_model", "handed_in"),
    crossed(
        ["context", "condense_question", "condense_plus_context"],
        [*MEMORIES],
        [True, False],
        [False, True],
    ),
)
def test_every_chat_engine_tells_all_that_was_said_before(
    kit: ModuleType, mode: str, memory: str, *, is_chat_model: bool, handed_in: bool
) -> None:
    llm = guide_llm(kit, is_chat_model=is_chat_model)
    kept = MEMORIES[memory](llm)
    options = {} if kept is None else {"memory": kept}
    engine = chat_engine(kit, mode, llm, **options)
    with capture() as captured:
        for number, question in enumerate(QUESTIONS):
            texts = zip("ua" * number, said(*QUESTIONS[:number]), strict=True)
            roles = {"u": "user", "a": "assistant"}
            talk = [ChatMessage(role=roles[who], content=text) for who, text in texts]
            engine.chat(question, **({"chat_history": talk} if handed_in else {}))
    samples = list(captured.samples)
    assert [(one.question, one.answer) for one in samples] == list(ABOUT.items())
    assert [history(one) for one in samples] == [
        [],
        said(QUESTIONS[0]),
        said(*QUESTIONS[:2]),
    ]
    assert [turn for _, turn in conversations(samples)] == [1, 2, 3]
    assert [[each.text for each in one.known_contexts] for one in samples] == [
        [BRIDGE],
        [FERRY],
        [MILL],
    ]
    assert [one.capture.grade for one in samples] == ["exact"] * 3


@pytest.mark.parametrize("is_chat_model", [True, False])
def test_what_was_summed_up_before_anybody_listened_is_not_read(
    kit: ModuleType, *, is_chat_model: bool
) -> None:
    llm = guide_llm(kit, is_chat_model=is_chat_model)
    engine = chat_engine(kit, "context", llm, memory=MEMORIES["sums up"](llm))
    for question in (*QUESTIONS[:2], QUESTIONS[0]):
        engine.chat(question)
    with capture() as captured:
        engine.chat(QUESTIONS[2])
    (sample,) = captured.samples
    assert "history_unread" in sample.capture.doubts
    assert [each.text for each in sample.known_contexts] == [MILL]


@pytest.mark.parametrize("has_examples", [False, True])
@pytest.mark.parametrize("is_chat_model", [True, False])
def test_a_chat_engine_goes_on_with_what_its_memory_kept(
    kit: ModuleType, *, is_chat_model: bool, has_examples: bool
) -> None:
    """Messages that an engine puts before its memory's may be examples."""
    texts = zip(("user", "assistant"), said(QUESTIONS[0]), strict=True)
    talk = [ChatMessage(role=role, content=text) for role, text in texts]
    engine = ContextChatEngine.from_defaults(
        retriever=retriever(kit),
        llm=guide_llm(kit, is_chat_model=is_chat_model),
        memory=Memory.from_defaults(chat_history=[] if has_examples else talk),
        prefix_messages=talk if has_examples else [],
    )
    with capture() as captured:
        engine.chat(QUESTIONS[1])
    (sample,) = captured.samples
    assert history(sample) == said(QUESTIONS[0])
    doubts = ["history_unread"] if has_examples else []
    assert list(sample.capture.doubts) == doubts


@pytest.mark.parametrize("mode", ["context", "condense_plus_context"])
@pytest.mark.parametrize("memory", ["the engine's own", "buffer", "keeps"])
def test_what_a_retrievers_model_is_shown_as_an_example_is_no_sure_talk(
    kit: ModuleType, memory: str, mode: str
) -> None:
    """The engine's own model is shown none: the talk of its memory stays sure."""
    llm = guide_llm(kit, is_chat_model=True)
    found = retriever(kit)
    example = zip(("user", "assistant"), ("bridge age?", "How old is it?"), strict=True)
    messages = [ChatMessage(role=role, content=text) for role, text in example]

    class Rewriting(kit.ScriptedLLM):  # type: ignore[name-defined, misc]  # a class of the fixture
        def _said(self, prompt: str) -> str:
            return f"In other words: {max(QUESTIONS, key=prompt.rfind)}"

    class Rewriter(BaseRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[Any]:
            question = ChatMessage(role="user", content=query_bundle.query_str)
            reply = Rewriting().chat([*messages, question])
            return list(found.retrieve(str(reply.message.content)))

    kept = MEMORIES[memory](llm)
    options = {} if kept is None else {"memory": kept}
    made_by = {"context": ContextChatEngine}.get(mode, CondensePlusContextChatEngine)
    engine = made_by.from_defaults(retriever=Rewriter(), llm=llm, **options)
    with capture() as captured:
        for question in QUESTIONS[:2]:
            engine.chat(question)
    first, second = captured.samples
    assert list(first.capture.doubts) == ["history_unread"]
    assert history(second) == said(QUESTIONS[0])
    assert second.capture.grade == "exact"


@pytest.mark.parametrize("memory", ["buffer", "sums nothing up", "sums up", "keeps"])
def test_an_agent_tells_all_that_was_said_before(kit: ModuleType, memory: str) -> None:
    guide = agent(kit)

    async def chat() -> None:
        kept = MEMORIES[memory](guide_llm(kit, is_chat_model=True))
        for question in QUESTIONS:
            await guide.run(user_msg=question, memory=kept)

    with capture() as captured:
        asyncio.run(chat())
    samples = list(captured.samples)
    assert [history(one) for one in samples] == [
        [],
        said(QUESTIONS[0]),
        said(*QUESTIONS[:2]),
    ]
    assert [turn for _, turn in conversations(samples)] == [1, 2, 3]
    assert [one.capture.grade for one in samples] == ["exact"] * 3


@pytest.mark.parametrize("conversation", [None, "c7"])
def test_agents_that_share_a_context_tell_what_their_model_was_shown(
    kit: ModuleType, conversation: str | None
) -> None:
    """With pydantic 2.14 the framework loses the memory that a context keeps."""
    guide = agent(kit)
    shown: list[str] = []

    class Watched(type(guide.llm)):  # type: ignore[misc]  # a class of the fixture
        def _reply(self, messages: Any) -> ChatResponse:
            shown.append("\n".join(one.content or "" for one in messages))
            return super()._reply(messages)  # type: ignore[no-any-return]

    guide = guide.model_copy(update={"llm": Watched()})

    async def chat() -> None:
        context = Context(guide)
        for question in QUESTIONS[:2]:
            await guide.run(user_msg=question, ctx=context)

    with capture(conversation=conversation) as captured:
        asyncio.run(chat())
    first, second = captured.samples
    is_kept = QUESTIONS[0] in shown[-1]
    is_known = is_kept or conversation is not None
    assert [history(first), history(second)] == [[], said(QUESTIONS[0]) * is_known]
    assert second.capture.grade == "exact"


@pytest.mark.parametrize(
    ("tools", "questions"),
    [
        (None, ["My name is Ann.", "What is my name?"]),  # it should have searched
        ({"search"}, ["My name is Ann.", "What is my name?"]),
        (set(), []),
    ],
)
def test_talk_with_a_context_is_no_sample_where_no_tool_searches(
    kit: ModuleType, tools: set[str] | None, questions: list[str]
) -> None:
    """The framework does not say which context a run has: it may be no conversation."""
    guide = agent(kit).model_copy(update={"llm": kit.ToolLLM(last="Your name is Ann.")})

    async def chat() -> None:
        context = Context(guide)
        for words in ("My name is Ann.", "What is my name?"):
            await guide.run(user_msg=words, ctx=context)

    with capture(context_tools=tools) as captured:
        asyncio.run(chat())
    assert [each.question for each in captured.samples] == questions
    for each in captured.samples:
        assert set(each.capture.doubts) == {"no_search"}
        is_said = "say context_tools=set()" in each.capture.doubts["no_search"]
        assert is_said == (tools is None)


def test_a_passage_that_an_agent_finds_again_is_shown(
    kit: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tool says the same in this turn as in the earlier one."""
    by_whom = "Who opened the bridge?"
    monkeypatch.setitem(ABOUT, by_whom, "The mayor of the town did.")
    guide = agent(kit)

    async def chat() -> None:
        memory = ChatMemoryBuffer.from_defaults()
        for question in (QUESTIONS[0], by_whom):
            await guide.run(user_msg=question, memory=memory)

    with capture() as captured:
        asyncio.run(chat())
    samples = list(captured.samples)
    assert [[each.text for each in one.known_contexts] for one in samples] == [
        [BRIDGE],
        [BRIDGE],
    ]
    assert [one.capture.grade for one in samples] == ["exact"] * 2


def test_an_engine_that_condenses_reads_its_memory_despite_an_empty_history(
    kit: ModuleType,
) -> None:
    """Other engines begin a conversation then."""
    engine = RetrieverQueryEngine.from_args(
        kit.FixedRetriever([kit.node("b", BRIDGE)]), llm=kit.ScriptedLLM()
    )
    chat = CondenseQuestionChatEngine.from_defaults(
        engine,
        llm=kit.ScriptedLLM(),
        memory=ChatMemoryBuffer.from_defaults(token_limit=3000),
    )
    with capture() as captured:
        chat.chat("When was the bridge opened?")
        chat.chat("By whom?", chat_history=[])
    first, second = captured.samples
    assert [len(sample.history) for sample in (first, second)] == [0, 2]
    assert first.ledger.conversation == second.ledger.conversation


@pytest.mark.parametrize("author", ["", "Ann: "])
@pytest.mark.parametrize("earlier", [0, 2])
def test_a_question_that_is_in_the_memory_already_is_no_earlier_turn(
    kit: ModuleType, earlier: int, author: str
) -> None:
    """An application that keeps the messages itself puts the question into the memory before it calls the engine."""
    memory = ChatMemoryBuffer.from_defaults()
    for question in QUESTIONS[:earlier]:
        memory.put(ChatMessage(role="user", content=question))
        memory.put(ChatMessage(role="assistant", content=ABOUT[question]))
    question = QUESTIONS[2]
    memory.put(ChatMessage(role="user", content=f"{author}{question}"))
    llm = kit.ScriptedLLM(script={"": ABOUT[question]})
    engine = ContextChatEngine.from_defaults(
        retriever=retriever(kit), llm=llm, memory=memory
    )
    with capture() as captured:
        engine.chat(question)
    (sample,) = captured.samples
    assert sample.question == question
    assert history(sample) == said(*QUESTIONS[:earlier])
    assert [turn for _, turn in conversations([sample])] == [earlier + 1]


@pytest.mark.parametrize("is_captured_from_the_first_turn_on", [True, False])
def test_a_chat_by_hand_goes_on_with_the_messages_that_its_model_was_shown(
    kit: ModuleType, is_captured_from_the_first_turn_on: bool
) -> None:
    """What captured turns did not say may be examples of the application."""
    said: list[ChatMessage] = []

    def turn(question: str) -> None:
        found = "\n".join(node.text for node in retriever(kit).retrieve(question))
        said.append(ChatMessage(role="user", content=question))
        prompt = [ChatMessage(role="system", content=f"Answer from:\n{found}"), *said]
        said.append(kit.ToolLLM(last=ABOUT[question]).chat(prompt).message)

    first, second, _ = QUESTIONS
    if not is_captured_from_the_first_turn_on:
        turn(first)
    with capture() as captured:
        if is_captured_from_the_first_turn_on:
            turn(first)
        turn(second)
    sample = captured.samples[-1]
    assert sample.question == second
    assert history(sample) == [first, ABOUT[first]]
    assert sample.capture is not None
    doubts = [] if is_captured_from_the_first_turn_on else ["history_unread"]
    assert list(sample.capture.doubts) == doubts


def test_another_message_that_ends_like_the_question_is_an_earlier_turn(
    kit: ModuleType,
) -> None:
    memory = ChatMemoryBuffer.from_defaults()
    earlier = f"My friend is here as well. {QUESTIONS[0]}"
    memory.put(ChatMessage(role="user", content=earlier))
    engine = ContextChatEngine.from_defaults(
        retriever=retriever(kit),
        memory=memory,
        llm=kit.ScriptedLLM(script={"": ABOUT[QUESTIONS[0]]}),
    )
    with capture() as captured:
        engine.chat(QUESTIONS[0])
    (sample,) = captured.samples
    assert history(sample) == [earlier]


def test_results_of_an_earlier_turn_are_known_once_both_turns_have_a_name(
    kit: ModuleType,
) -> None:
    """The doubt says so, and doing it ends the doubt."""

    class Model(kit.ToolLLM):  # type: ignore[misc]
        def _reply(self, messages: Any) -> Any:
            roles = [message.role for message in messages]
            last_of_user = len(roles) - 1 - roles[::-1].index(MessageRole.USER)
            return super()._reply(messages[last_of_user:])

    texts: list[str] = []  # what the tool returned, each time another one

    def look_up(query: str) -> str:
        """Looks something up."""
        n_calls = len(texts)
        texts.append(f"Anna Berg lit lamp {n_calls} of Skarn in the year 1882.")
        return texts[-1]

    async def second(**settings: Any) -> Sample:
        model = Model(calls=[("look_up", {"query": "lamp"})], last="In 1882, by Anna.")
        agent = FunctionAgent(tools=[look_up], llm=model)
        memory = ChatMemoryBuffer.from_defaults()
        with capture(context_tools={"look_up"}, **settings) as earlier:
            await agent.run(QUESTIONS[0], memory=memory)
        assert earlier.samples
        with capture(context_tools={"look_up"}, **settings) as captured:
            await agent.run(QUESTIONS[1], chat_history=memory.get_all())
        (sample,) = captured.samples
        return sample

    before = asyncio.run(second())
    assert before.capture is not None
    assert "name both by conversation=" in before.capture.doubts["which_turn"]
    after = asyncio.run(second(conversation="both turns"))
    assert after.capture is not None
    assert after.capture.grade == "exact"
    assert after.ledger is not None
    assert [call.turn for call in after.ledger.calls] == [1, 2]


def test_what_was_found_for_an_earlier_question_and_is_shown_again_is_a_context(
    kit: ModuleType,
) -> None:
    kept: list[str] = []
    with capture() as captured:
        for question in QUESTIONS:
            kept += [node.text for node in retriever(kit).retrieve(question)]
            model = kit.ScriptedLLM(script={"": ABOUT[question]})
            model.complete("\n".join([*kept, f"Question: {question}"]))
    pages = [BRIDGE, FERRY, MILL]
    for n, sample in enumerate(captured.samples):
        assert [context.text for context in sample.contexts or ()] == pages[: n + 1]
        assert sample.question == QUESTIONS[n]
        assert sample.capture is not None
        assert sample.capture.grade == "exact"
