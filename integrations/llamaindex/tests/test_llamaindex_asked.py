"""The question is what the user asked now; where nobody asked, nothing is exact; the answer is what was said."""

from __future__ import annotations

import asyncio
from types import ModuleType
from typing import Any

import pytest
from llama_index.core.agent.workflow import ReActAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.query_engine import CustomQueryEngine, RetrieverQueryEngine
from llama_index.core.tools import QueryEngineTool
from llama_index.core.workflow import Event, StartEvent, StopEvent, Workflow, step
from llama_index.evaluation.ragmetrics import capture
from pydantic import BaseModel

from ragmetrics_core.data.sample import Sample

pytestmark = [
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
    # Its chat memory never closes its database.
    pytest.mark.filterwarnings("ignore:.*aiosqlite:ResourceWarning"),
    pytest.mark.usefixtures("databases_let_go"),
]

BRIDGE = "The Velm bridge was opened in 1874 by the mayor of the town."
QUESTION = "When was the bridge opened?"
BEFORE = [("user", "How often does the ferry go?"), ("assistant", "Every hour.")]
SUMMARY = "A summary: the bridge of 1874, opened by the mayor."
POST = "Come and see our old bridge, built long ago! #velm"


class Found(Event):
    text: str
    asked: str


class Summarised(Event):
    text: str


def workflow(kit: ModuleType, key: str) -> Workflow:
    """Searches and answers; what it is asked stands under a name of its own."""
    retriever = kit.FixedRetriever([kit.node("bridge", BRIDGE, 0.9)])
    llm = kit.ScriptedLLM(script={"": "In 1874."})

    class Asking(Workflow):
        @step
        async def search(self, event: StartEvent) -> Found:
            asked = str(event.get(key, ""))
            (found,) = await retriever.aretrieve(asked)
            return Found(text=found.get_content(), asked=asked)

        @step
        async def answer(self, event: Found) -> StopEvent:
            reply = await llm.acomplete(
                f"Use only this: {event.text}\nQuestion: {event.asked}"
            )
            return StopEvent(result=str(reply))

    return Asking()


def only_sample(application: Workflow, **given: Any) -> Sample:
    async def run() -> None:
        await application.run(**given)

    with capture() as captured:
        asyncio.run(run())
    (sample,) = captured.samples
    return sample


def as_messages() -> list[ChatMessage]:
    return [ChatMessage(role=role, content=text) for role, text in BEFORE]


def as_dictionaries() -> list[dict[str, str]]:
    return [{"role": role, "content": text} for role, text in BEFORE]


HISTORIES = {"messages": as_messages, "dictionaries": as_dictionaries}


@pytest.mark.parametrize("form", HISTORIES)
@pytest.mark.parametrize("name", ["chat_history", "history", "messages"])
@pytest.mark.parametrize("key", ["query", "question", "user_msg", "input"])
def test_a_history_beside_the_question_is_not_the_question(
    kit: ModuleType, key: str, name: str, form: str
) -> None:
    sample = only_sample(workflow(kit, key), **{key: QUESTION, name: HISTORIES[form]()})
    assert sample.question == QUESTION
    assert sample.standalone_question is None
    assert [context.text for context in sample.known_contexts] == [BRIDGE]
    if name == "chat_history" and form == "messages":
        assert [(turn.role, turn.content) for turn in sample.history] == BEFORE


def test_without_a_question_nothing_is_exact(kit: ModuleType) -> None:
    sample = only_sample(workflow(kit, "query"), limit=3)
    assert not sample.question
    assert sample.capture is not None
    assert sample.capture.grade in ("inferred", "incomplete")


@pytest.mark.parametrize("verdict", ["yes", '{"grounded": true}'])
def test_a_verdict_beside_the_answer_is_not_the_answer(
    kit: ModuleType, verdict: str
) -> None:
    retriever = kit.FixedRetriever([kit.node("bridge", BRIDGE, 0.9)])
    llm = kit.ScriptedLLM(
        script={"Is this grounded": verdict, "": "It was opened in 1874."}
    )

    class Checking(Workflow):
        @step
        async def search(self, event: StartEvent) -> StopEvent:
            (found,) = await retriever.aretrieve(event.query)
            draft = str(
                await llm.acomplete(
                    f"Use only this: {found.get_content()}\nQuestion: {event.query}"
                )
            )
            check = str(
                await llm.acomplete(f"Is this grounded? {draft}\n{found.get_content()}")
            )
            return StopEvent(result={"draft": draft, "output": check})

    sample = only_sample(Checking(), query=QUESTION)
    assert sample.capture is not None
    is_sure = sample.capture.grade == "exact"
    assert sample.answer == "It was opened in 1874." or not is_sure


class Streaming(CustomQueryEngine):
    """Returns what it was written to return: the words of a stream, or what Python calls a stream."""

    retriever: Any
    llm: Any
    read: bool

    def custom_query(self, query_str: str) -> str:
        (found,) = self.retriever.retrieve(query_str)
        stream = self.llm.stream_complete(
            f"Use only this: {found.get_content()}\nQuestion: {query_str}"
        )
        return "".join(chunk.delta for chunk in stream) if self.read else str(stream)


@pytest.mark.parametrize("read", [True, False])
def test_the_name_of_a_stream_in_memory_is_no_answer(
    kit: ModuleType, read: bool
) -> None:
    retriever = kit.FixedRetriever([kit.node("bridge", BRIDGE, 0.9)])
    engine = Streaming(
        retriever=retriever, llm=kit.ScriptedLLM(script={"": "In 1874."}), read=read
    )
    with capture() as captured:
        engine.query(QUESTION)
    (sample,) = captured.samples
    assert sample.answer == ("In 1874." if read else None)


class Report(BaseModel):
    answer: str
    source: str


def test_a_structured_call_answers_from_what_was_collected_for_it(
    kit: ModuleType,
) -> None:
    """One call says that it has enough; another, with a schema, writes the report."""
    retriever = kit.FixedRetriever([kit.node("bridge", BRIDGE, 0.9)])
    llm = kit.ScriptedLLM(
        script={
            "Report": '{"answer": "In 1874.", "source": "the guide"}',
            "": "I have enough now.",
        }
    )

    class Reporting(Workflow):
        @step
        async def search(self, event: StartEvent) -> StopEvent:
            (found,) = await retriever.aretrieve(event.query)
            await llm.acomplete(
                f"Is there enough to answer {event.query}? {found.get_content()}"
            )
            reply = await llm.acomplete(
                f"Write a Report on {event.query} from {found.get_content()}"
            )
            return StopEvent(result=Report.model_validate_json(str(reply)))

    sample = only_sample(Reporting(), query=QUESTION)
    assert sample.answer is not None
    assert "In 1874." in sample.answer
    assert "enough" not in sample.answer
    assert [context.text for context in sample.known_contexts] == [BRIDGE]


# An agent that is run with instructions around the user's words

INSTRUCTION = "Answer the user's question. Use the tool.\nIf you find nothing, say so."


def agents_sample(
    kit: ModuleType,
    message: str,
    *searched: str,
    answer: str = "It was opened in 1874.",
) -> Sample:
    """The sample of an agent that is run with a message and calls its tool."""
    retriever = kit.FixedRetriever([kit.node("bridge", BRIDGE, 0.9)])
    engine = RetrieverQueryEngine.from_args(
        retriever, llm=kit.ScriptedLLM(script={"": "It was in 1874."})
    )
    tool = QueryEngineTool.from_defaults(engine, name="store", description="Pages.")
    says = [
        f'Thought: I need a tool.\nAction: store\nAction Input: {{"input": "{query}"}}'
        for query in searched
    ]
    says.append(f"Thought: I can answer.\nAnswer: {answer}")

    class Reasoning(kit.ScriptedLLM):  # type: ignore[misc,name-defined]
        def _said(self, prompt: str) -> str:
            return says[prompt.count("Observation: It was")]

    agent = ReActAgent(tools=[tool], llm=Reasoning())

    async def run() -> None:
        await agent.run(message)

    with capture() as captured:
        asyncio.run(run())
    (sample,) = captured.samples
    assert sample.answer == answer
    assert [context.text for context in sample.known_contexts] == [BRIDGE]
    return sample


@pytest.mark.parametrize(
    ("message", "searched"),
    [
        (QUESTION, [QUESTION]),
        (QUESTION, ["bridge opening year"]),
        (f"Please tell me: {QUESTION}", [QUESTION]),
        (f"I plan a trip.\n{QUESTION}", ["bridge opening year"]),
        (f"I plan a trip.\nMy question: {QUESTION}", ["bridge opening year"]),
        (f"Who built it?\n{QUESTION}", ["Who built it?", QUESTION]),
    ],
)
def test_other_questions_are_what_the_agent_was_given(
    kit: ModuleType, message: str, searched: list[str]
) -> None:
    sample = agents_sample(kit, message, *searched)
    assert sample.question == message
    assert sample.capture is not None
    assert sample.capture.grade == "exact"


@pytest.mark.parametrize("answer", ["It was in 1874.", "It was opened in 1874."])
def test_an_agent_was_shown_what_its_tool_said_though_it_repeats_it(
    kit: ModuleType, answer: str
) -> None:
    sample = agents_sample(kit, QUESTION, "bridge opening year", answer=answer)
    assert sample.ledger is not None
    written = [call for call in sample.ledger.calls if call.kind == "written"]
    # a text that is the answer itself is no entry
    for text in written:
        assert [item.text for item in text.items] == ["It was in 1874."]
        assert text.shown == (0,)
    assert len(written) == int(answer != "It was in 1874.")
    assert sample.capture is not None
    assert sample.capture.grade == "exact"


class Repeating(CustomQueryEngine):
    """Asks its model the same several times before it searches, and once behind it."""

    retriever: Any
    llm: Any
    n_times: int

    def custom_query(self, query_str: str) -> str:
        for _ in range(self.n_times):
            self.llm.complete(f"Is this a question on a town? {query_str}")
        (found,) = self.retriever.retrieve(query_str)
        prompt = f"Use only this: {found.get_content()}\nQuestion: {query_str}"
        return str(self.llm.complete(prompt))


@pytest.mark.parametrize("n_times", [1, 2, 3])
def test_equal_calls_of_a_model_behind_each_other_are_as_many_steps(
    kit: ModuleType, n_times: int
) -> None:
    retriever = kit.FixedRetriever([kit.node("bridge", BRIDGE, 0.9)])
    llm = kit.ScriptedLLM(script={"": "It was opened in 1874."})
    engine = Repeating(retriever=retriever, llm=llm, n_times=n_times)
    with capture() as captured:
        engine.query(QUESTION)
    (sample,) = captured.samples
    assert sample.ledger is not None
    assert [call.step for call in sample.ledger.calls] == [n_times]
