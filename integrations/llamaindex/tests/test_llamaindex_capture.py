"""Which runs a capture gets, under concurrency and when something goes wrong.

What it costs the application.
"""

import asyncio
import contextlib
import gc
import threading
from types import ModuleType
from typing import Any

import pytest
from llama_index.core import (
    Document,
    DocumentSummaryIndex,
    SummaryIndex,
    get_response_synthesizer,
)
from llama_index.core.base.response.schema import (
    PydanticResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.chat_engine import CondenseQuestionChatEngine
from llama_index.core.chat_engine.types import (
    AgentChatResponse,
)
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.llms import ChatMessage, CompletionResponse, MessageRole
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.query_engine import CustomQueryEngine, RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.types import Thread
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from llama_index.evaluation.ragmetrics import capture, samples_from, watch
from llama_index.evaluation.ragmetrics.recording import recorder
from llama_index.evaluation.ragmetrics.recording.recorder import Spans
from pydantic import BaseModel

from ragmetrics_core import Sample
from ragmetrics_core.data.errors import SettingError

RECORDER = recorder.RECORDER


def spans_kept() -> set[str]:
    """The spans that the process's recorder keeps; none when all runs have ended.

    A test that failed, or a thread that goes on, may keep a run of another test open.
    """
    tables = [value for value in vars(RECORDER).values() if isinstance(value, dict)]
    assert tables
    return {id_ for table in tables for id_ in table}


@pytest.fixture
def echo(kit: ModuleType) -> RetrieverQueryEngine:
    """An engine whose nodes and answer name the question."""

    def nodes(question: str) -> list[NodeWithScore]:
        return [
            kit.node(
                f"{question}/{place}", f"text {place} for {question}", 1 - place / 10
            )
            for place in range(3)
        ]

    class Echo(kit.ScriptedLLM):
        def _said(self, prompt: str) -> str:
            return "answer to " + prompt.rpartition("Query: ")[2].partition("\n")[0]

    return RetrieverQueryEngine(
        kit.FixedRetriever(nodes),
        response_synthesizer=get_response_synthesizer(llm=Echo(delay=0.001)),
    )


class Odd(Workflow):
    """A workflow whose start and stop events name things in their own way."""

    @step
    async def only(self, ev: StartEvent) -> StopEvent:
        return StopEvent(
            result={
                "said": {"text": f"answer to {ev.topic}"},
                "passages": ["one", {"text": "two", "id": 2}],
            }
        )


def test_overrides() -> None:
    async def run() -> None:
        await Odd().run(topic="the topic", tone="dry")

    with capture(
        question_from="topic", contexts_from="passages", answer_from="said.text"
    ) as captured:
        asyncio.run(run())
    (sample,) = captured.samples
    assert sample.question == "the topic"
    assert sample.answer == "answer to the topic"
    assert [(context.text, context.id) for context in sample.known_contexts] == [
        ("one", None),
        ("two", "2"),
    ]
    with capture(question_from=lambda run: run.lookup_inputs[0]["tone"]) as captured:
        asyncio.run(run())
    assert captured.samples[0].question == "dry"
    with capture(contexts_from=lambda run: [run.kind]) as captured:
        asyncio.run(run())
    (context,) = captured.samples[0].known_contexts
    assert context.text == "workflow"


def test_a_response_without_a_text_still_says_what_was_found() -> None:
    found = NodeWithScore(node=TextNode(text="Anna lit it."), score=0.5)
    (sample,) = samples_from(Response("", source_nodes=[found]))
    assert list(sample.context_texts) == ["Anna lit it."]
    assert sample.answer is None


@pytest.mark.parametrize("ends_well", [True, False])
@pytest.mark.parametrize("place", ["dirname", "query", "message"])
def test_a_workflow_that_asks_no_model_answers_nobody(
    place: str, ends_well: bool
) -> None:
    class Indexing(Workflow):
        @step
        async def only(self, ev: StartEvent) -> StopEvent:
            if not ends_well:
                raise ValueError("no such folder")
            return StopEvent(result="Indexed 12 files.")

    async def run() -> None:
        with contextlib.suppress(ValueError):
            await Indexing().run(**{place: "all of it"})

    with capture() as captured:
        asyncio.run(run())
    assert not captured.samples
    with capture(answer_from="result") as named:
        asyncio.run(run())
    assert [each.answer for each in named.samples] == ["Indexed 12 files."] * ends_well


@pytest.mark.parametrize("path", ["result.response", "response.message.content"])
def test_a_models_response_that_a_workflow_returns_is_its_answer(
    path: str, kit: ModuleType
) -> None:
    class Returning(Workflow):
        @step
        async def only(self, ev: StartEvent) -> StopEvent:
            llm = kit.ScriptedLLM()
            return StopEvent(result={"response": await llm.achat(ev.talk)})

    async def run() -> None:
        await Returning().run(talk=[ChatMessage(role="user", content="Who?")])

    with capture(answer_from=path, contexts_from=lambda run: ["Rome."]) as captured:
        asyncio.run(run())
    (sample,) = captured.samples
    assert sample.capture is not None
    assert sample.answer
    assert not [each for each in sample.capture.warnings if "answer_from" in each]
    assert "answer_guessed" not in sample.capture.doubts


@pytest.mark.parametrize("returns_more", [False, True])
def test_the_one_text_that_a_workflow_returns_is_its_answer(
    returns_more: bool, kit: ModuleType
) -> None:
    """A model that was shown neither question nor documents wrote it."""
    post = "A post on Rome, which is older than it looks."

    class Posting(Workflow):
        @step
        async def only(self, ev: StartEvent) -> StopEvent:
            engine = RetrieverQueryEngine.from_args(
                kit.FixedRetriever([kit.node("a", "Rome was founded in 753 BC.")]),
                llm=kit.ScriptedLLM(script={"": "It was founded in 753 BC."}),
            )
            said = str(await engine.aquery("When was Rome founded?"))
            model = kit.ScriptedLLM(script={"": post})
            text = str(await model.acomplete(f"Write a post:\n{said}"))
            more = {"text": text, "said": said}
            return StopEvent(result=more if returns_more else text)

    async def run() -> None:
        await Posting().run(query="Tell me of Rome, as a post.")

    with capture() as captured:
        asyncio.run(run())
    (sample,) = captured.samples
    assert sample.capture is not None
    assert sample.answer == post
    assert ("answer_guessed" in sample.capture.doubts) == returns_more


# LlamaIndex's own, of pydantic


def test_nothing_stays_behind(echo: RetrieverQueryEngine, kit: ModuleType) -> None:
    open_before = RECORDER.listeners.open
    kept_before = spans_kept()
    with capture() as captured:
        echo.query("one")
        kit.FixedRetriever([]).retrieve("two")
        streaming = RetrieverQueryEngine(
            kit.FixedRetriever([kit.node("a", "a")]),
            response_synthesizer=get_response_synthesizer(
                llm=kit.ScriptedLLM(), streaming=True
            ),
        )
        streaming.query("three")
    gc.collect()
    assert len(captured.samples) == 3
    assert spans_kept() <= kept_before
    assert RECORDER.listeners.open == open_before
    echo.query("after")
    assert len(captured.samples) == 3


def test_installed_once_and_again_if_removed(echo: RetrieverQueryEngine) -> None:
    root = get_dispatcher()
    for _ in range(3):
        with capture():
            pass
    ours = [handler for handler in root.span_handlers if type(handler) is Spans]
    assert len(ours) == 1
    root.span_handlers[:] = [
        handler for handler in root.span_handlers if handler is not ours[0]
    ]
    with capture() as captured:
        echo.query("again")
    assert len(captured.samples) == 1


@pytest.mark.parametrize("written", ["before", "meanwhile", "after"])
def test_a_streamed_chat_whose_answer_is_written_before_or_after_it_returns(
    kit: ModuleType, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    said, returned, waiting = threading.Event(), threading.Event(), list[Thread]()

    class Held(ChatMemoryBuffer):
        """Keeps the answer at once, or only when the chat has returned."""

        def put(self, message: ChatMessage) -> None:
            if message.role == MessageRole.ASSISTANT:
                said.set()
                assert written != "meanwhile" or returned.wait(20)
            super().put(message)

    def start(thread: Thread) -> None:
        waiting.append(thread)
        if written != "after":
            threading.Thread.start(thread)
            assert said.wait(20)
        if written == "before":
            thread.join()

    monkeypatch.setattr(Thread, "start", start)
    engine = RetrieverQueryEngine(
        kit.FixedRetriever([kit.node("a", "Anna lit the lamp.")]),
        response_synthesizer=get_response_synthesizer(llm=kit.ScriptedLLM()),
    )
    chat = CondenseQuestionChatEngine.from_defaults(
        engine, llm=kit.ScriptedLLM(), memory=Held.from_defaults(token_limit=3000)
    )
    with capture() as captured:
        for _ in range(2):
            response = chat.stream_chat("Who lit the lamp?")
            returned.set()
            if written == "after":
                threading.Thread.start(waiting[-1])
            assert "".join(response.response_gen) == "The answer."
            waiting[-1].join()
            said.clear()
            returned.clear()
    for sample in captured.samples:
        # the second turn asks the same again: that may be doubted
        assert sample.capture.grade in ("exact", "inferred")
        assert sample.capture.evidence_from == "prompt"
        assert ([one.text for one in sample.known_contexts], sample.answer) == (
            ["Anna lit the lamp."],
            "The answer.",
        )
        assert sample.capture.complete
    assert len(captured.samples) == 2
    assert not captured.problems


def test_a_stream_of_a_model_without_the_frameworks_callback(kit: ModuleType) -> None:
    """No event tells what the model replied: the application reads it."""

    class Bare(kit.ScriptedLLM):
        def stream_complete(
            self, prompt: str, formatted: bool = False, **kwargs: Any
        ) -> Any:
            said = self._said(prompt)
            yield CompletionResponse(text=said, delta=said)

    engine = RetrieverQueryEngine(
        kit.FixedRetriever([kit.node("a", "Anna lit the lamp.")]),
        response_synthesizer=get_response_synthesizer(llm=Bare(), streaming=True),
    )
    with capture() as captured:
        engine.query("Who lit the lamp?").print_response_stream()
    (sample,) = captured.samples
    assert (sample.answer, sample.capture.grade) == ("The answer.", "exact")
    assert sample.capture.evidence_from == "prompt"


class FallingBack(CustomQueryEngine):
    """Asks a model with all that was found; where that fails, with the first text."""

    retriever: Any
    llm: Any

    def custom_query(self, query_str: str) -> str:
        texts = [found.text for found in self.retriever.retrieve(query_str)]
        try:
            reply = self.llm.complete(f"Much: {texts[0]}\n{texts[1]}\n{query_str}")
        except TimeoutError:
            reply = self.llm.complete(f"{texts[0]}\n{query_str}")
        return str(reply)


def test_a_call_after_one_that_failed_is_a_call_with_a_prompt_of_its_own(
    kit: ModuleType,
) -> None:
    class FailsAtMuch(kit.ScriptedLLM):
        def _said(self, prompt: str) -> str:
            if prompt.startswith("Much"):
                raise TimeoutError
            return "It goes every hour."

    texts = ["The ferry goes every hour.", "The mill ground corn until 1910."]
    nodes = [kit.node(str(place), text) for place, text in enumerate(texts)]
    engine = FallingBack(retriever=kit.FixedRetriever(nodes), llm=FailsAtMuch())
    with capture() as captured:
        engine.query("How often does the ferry go?")
    (sample,) = captured.samples
    assert sample.answer == "It goes every hour."
    assert [context.text for context in sample.known_contexts] == texts[:1]


def test_decorated_functions_and_parts_that_began_before(
    echo: RetrieverQueryEngine,
) -> None:
    dispatcher = get_dispatcher()

    @dispatcher.span
    def many() -> None:
        echo.query("first")
        echo.query("second")

    @dispatcher.span
    def inside() -> tuple[Sample, ...]:
        with capture() as captured:
            echo.query("inside")
        return captured.samples

    with capture() as captured:
        many()
    assert [sample.question for sample in captured.samples] == ["first", "second"]
    assert [sample.question for sample in inside()] == ["inside"]


@pytest.mark.parametrize("streaming", [False, True])
def test_a_capture_within_a_run_that_others_follow(
    kit: ModuleType, streaming: bool
) -> None:
    """What the inner block asks is a part of the run that the others follow."""
    kept_before = spans_kept()
    inner_blocks: list[Any] = []
    inner = RetrieverQueryEngine(
        kit.FixedRetriever([kit.node("a", "a", 0.5)]),
        response_synthesizer=get_response_synthesizer(
            llm=kit.ScriptedLLM(), streaming=streaming
        ),
    )

    class Outer(Workflow):
        @step
        async def only(self, ev: StartEvent) -> StopEvent:
            with capture(id="inner") as captured:
                response = await inner.aquery("inner question")
                said = (
                    str(response)
                    if not streaming
                    else "".join([t async for t in response.async_response_gen()])
                )
            inner_blocks.append(captured)
            return StopEvent(result=f"outer: {said}")

    async def run() -> None:
        await Outer().run(query="outer question")

    watching = watch([])
    with capture(id="outer") as captured:
        asyncio.run(run())
    assert watching.stop(timeout=10)
    (inner_block,) = inner_blocks
    assert not inner_block.samples
    assert inner_block.problems
    for (sample,) in (captured.samples, watching.samples):
        assert (sample.question, sample.answer) == (
            "outer question",
            "outer: The answer.",
        )
        assert [context.id for context in sample.known_contexts] == ["a"]
    assert spans_kept() <= kept_before


def test_a_watch_that_begins_within_a_run(
    echo: RetrieverQueryEngine, kit: ModuleType
) -> None:
    """What is a part of a run that began before is no run of its own."""
    started = []

    def nodes(question: str) -> list[NodeWithScore]:
        started.append(watch([]))
        return [kit.node("a", question)]

    engine = RetrieverQueryEngine(
        kit.FixedRetriever(nodes),
        response_synthesizer=get_response_synthesizer(llm=kit.ScriptedLLM()),
    )
    engine.query("before")
    echo.query("after")
    (watching,) = started
    assert watching.stop(timeout=10)
    assert [sample.question for sample in watching.samples] == ["after"]


def test_too_many_steps(
    echo: RetrieverQueryEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Loop(Workflow):
        @step
        async def only(self, ev: StartEvent) -> StopEvent:
            for number in range(20):
                await echo.aquery(f"question {number}")
            return StopEvent(result="done")

    async def run() -> None:
        await Loop().run(topic="much")

    monkeypatch.setattr(recorder, "_MOST_CALLS", 10)
    with capture() as captured:
        asyncio.run(run())
    (sample,) = captured.samples
    assert sample.answer == "done"
    assert sample.capture is not None
    assert sample.capture.grade == "incomplete"
    assert "more steps" in sample.capture.doubts["not_recorded"]


def test_no_text_in_reprs(echo: RetrieverQueryEngine) -> None:
    runs: list[Any] = []
    with capture(contexts_from=lambda run: runs.append(run) or []) as captured:
        echo.query("secret")
    assert captured.samples
    run = runs[0]
    texts = [
        repr(run),
        repr(run.root),
        repr(run.root.children),
        repr(run.root.children[0].documents),
        repr(captured),
    ]
    assert not any("for secret" in text or "query=" in text for text in texts)


class City(BaseModel):
    name: str


class Reply(BaseModel):
    response: str
    sure: float


def test_an_index_that_is_built_asks_nobodys_question(kit: ModuleType) -> None:
    """Each document is summarised by a model."""
    llm = kit.ScriptedLLM()
    with capture() as captured:
        DocumentSummaryIndex.from_documents(
            [Document(text="The Velm bridge opened in 1874.")],
            llm=llm,
            response_synthesizer=get_response_synthesizer(llm=llm),
        )
    assert captured.samples == ()


def test_a_node_may_hold_its_text_as_metadata(kit: ModuleType) -> None:
    nodes = [
        TextNode(id_="page", text="", metadata={"parsed_text": "The bridge is old."}),
        TextNode(id_="other", text="It opened in 1874."),
    ]
    engine = SummaryIndex(nodes).as_query_engine(llm=kit.ScriptedLLM())
    with capture() as captured:
        engine.query("When did the bridge open?")
    (sample,) = captured.samples
    assert sample.context_texts == (
        "parsed_text: The bridge is old.",
        "It opened in 1874.",
    )
    assert sample.capture is not None
    assert sample.capture.grade == "exact"


def test_samples_from_responses(kit: ModuleType) -> None:
    nodes = [
        kit.node("sub", "Sub question: Which?\nResponse: This."),
        kit.node("paris", "Paris.", 0.9, metadata={"page": 1}),
        kit.node("paris", "Paris.", 0.9, metadata={"page": 1}),
        kit.node("blank", " ", 0.1),
    ]
    for response, answer in (
        (Response("Paris", source_nodes=nodes), "Paris"),
        (PydanticResponse(City(name="Paris"), source_nodes=nodes), '{"name":"Paris"}'),
        (
            PydanticResponse(Reply(response="Paris", sure=0.9), source_nodes=nodes),
            "Paris",
        ),
        (PydanticResponse(Reply(response="", sure=0.0), source_nodes=nodes), None),
        (AgentChatResponse("Paris", source_nodes=nodes), "Paris"),
        (
            StreamingResponse(iter(()), source_nodes=nodes, response_txt="Paris"),
            "Paris",
        ),
        (StopEvent(result=Response("Paris", source_nodes=nodes)), "Paris"),
    ):
        (sample,) = samples_from(response, question_from=lambda response: "Capital?")
        assert (sample.question, sample.answer) == ("Capital?", answer)
        assert [
            (context.id, context.score, context.text)
            for context in sample.known_contexts
        ] == [("paris", 0.9, "page: 1\n\nParis.")]
        assert sample.retrieved is None
        assert sample.capture is not None
        assert [context.id for context in sample.capture.other] == ["sub", "blank"]
    unread = StreamingResponse((token for token in ["Paris"]), source_nodes=nodes)
    (sample,) = samples_from(unread)
    assert sample.answer is None
    assert sample.capture is not None
    assert not sample.capture.complete
    assert str(unread) == "Paris", "the stream was not read"
    with pytest.raises(SettingError, match="got int"):
        samples_from(7)  # type: ignore[arg-type]


class Pieces:
    """A stream of an application's own, with more than an iterator has."""

    usage = 7

    def __init__(self) -> None:
        self.left = ["Paris ", "it is."]

    def __iter__(self) -> "Pieces":
        return self

    def __next__(self) -> str:
        if not self.left:
            raise StopIteration
        return self.left.pop(0)


class StreamOf(CustomQueryEngine):
    """An engine that answers with a stream that the application made."""

    stream: Any

    def custom_query(self, query_str: str) -> StreamingResponse:
        return StreamingResponse(response_gen=self.stream, source_nodes=[])


@pytest.mark.parametrize(
    "stream", [["Paris ", "it is."], Pieces()], ids=["list", "iterator"]
)
def test_a_stream_that_is_no_generator_stays_what_it_is(stream: Any) -> None:
    with capture() as captured:
        response = StreamOf(stream=stream).query("Where?")
        assert response.response_gen is stream
        assert str(response) == "Paris it is."
    assert [sample.capture.grade for sample in captured.samples if sample.capture] == [
        "incomplete"
    ]
