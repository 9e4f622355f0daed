"""Components that an application runs by hand: they are seen, and nothing of them changes."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import inspect
import pickle
import threading
import zlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from haystack import Document, Pipeline, SuperComponent, component, tracing
from haystack.components.agents import Agent
from haystack.components.builders import AnswerBuilder, ChatPromptBuilder, PromptBuilder
from haystack.components.converters import TextFileToDocument
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.preprocessors import DocumentSplitter
from haystack.components.retrievers import MultiQueryTextRetriever
from haystack.components.retrievers.in_memory import (
    InMemoryBM25Retriever,
    InMemoryEmbeddingRetriever,
)
from haystack.components.writers import DocumentWriter
from haystack.core.component.component import ComponentMeta
from haystack.dataclasses import ByteStream, ChatMessage, StreamingChunk, ToolCall
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.tools import Tool, Toolset
from haystack.tracing.tracer import NullTracer
from haystack_integrations.components.evaluators.ragmetrics import (
    RagMetricsEvaluator,
    capture,
    watch,
)
from haystack_rows import connected

from ragmetrics_core import Sample

FERRY = "The ferry to Amrum leaves at nine from the southern pier."
MUSEUM = "The whaling museum of Amrum is closed on Mondays."
BRIDGE = "The bridge of Velm was opened in 1874 by the mayor."
QUESTION = "When does the ferry to Amrum leave?"
ANSWER = "It leaves at nine o'clock in the morning."
EACH = "{% for d in documents %}{{ d.content }}\n{% endfor %}"


def vector(text: str) -> list[float]:
    numbers = [0.0] * 64
    for word in text.lower().split():
        numbers[zlib.crc32(word.strip(".?,").encode()) % 64] += len(word) > 4
    return numbers if any(numbers) else [0.01] * 64


@component
class Embeds:
    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, Any]:
        return {"embedding": vector(text)}


def store() -> InMemoryDocumentStore:
    made = InMemoryDocumentStore()
    made.write_documents(
        [
            Document(id=str(n), content=text, embedding=vector(text))
            for n, text in enumerate((FERRY, MUSEUM, BRIDGE))
        ]
    )
    return made


STORE = store()


def texts(contexts: Any) -> list[str]:
    return [context.text for context in contexts or ()]


def only(samples: tuple[Sample, ...]) -> Sample:
    (sample,) = samples
    return sample


def doubts(sample: Sample) -> set[str]:
    assert sample.capture is not None
    return set(sample.capture.doubts)


def check(sample: Sample, found: list[str] | None = None) -> None:
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    assert texts(sample.contexts) == texts(sample.retrieved) == (found or [FERRY])
    assert not doubts(sample)


# The forms


def parts_of_a_pipeline() -> Pipeline:
    template = [
        ChatMessage.from_system("Answer from the notes."),
        ChatMessage.from_user(EACH + "Asked: {{ query }}"),
    ]
    return connected(
        ("embedder.embedding", "retriever.query_embedding"),
        ("retriever.documents", "prompt.documents"),
        ("prompt.prompt", "llm.messages"),
        embedder=Embeds(),
        retriever=InMemoryEmbeddingRetriever(STORE, top_k=1),
        prompt=ChatPromptBuilder(template=template, required_variables="*"),
        llm=MockChatGenerator(ANSWER),
    )


def step_by_step(pipeline: Pipeline, question: str) -> str:
    embedding = pipeline.get_component("embedder").run(text=question)["embedding"]
    retriever = pipeline.get_component("retriever")
    found = retriever.run(query_embedding=embedding)["documents"]
    builder = pipeline.get_component("prompt")
    prompt = builder.run(query=question, documents=found)["prompt"]
    replies = pipeline.get_component("llm").run(messages=prompt)["replies"]
    return str(replies[0].text)


def test_components_of_a_pipeline_run_one_by_one() -> None:
    pipeline = parts_of_a_pipeline()
    with capture() as captured:
        assert step_by_step(pipeline, QUESTION) == ANSWER
        assert step_by_step(pipeline, QUESTION) == ANSWER
    assert not captured.problems
    first, second = captured.samples
    check(first)
    check(second)


def test_by_hand_and_in_the_pipeline_it_is_the_same_sample() -> None:
    pipeline = parts_of_a_pipeline()
    with capture() as captured:
        step_by_step(pipeline, QUESTION)
        given = {"embedder": {"text": QUESTION}, "prompt": {"query": QUESTION}}
        pipeline.run(given)
    by_hand, by_pipeline = captured.samples
    for field in ("question", "answer", "contexts", "retrieved", "history"):
        assert getattr(by_hand, field) == getattr(by_pipeline, field)
    assert by_hand.capture is not None
    assert by_pipeline.capture is not None
    assert by_hand.capture.grade == by_pipeline.capture.grade == "exact"


def test_the_name_in_the_pipeline_is_the_place() -> None:
    pipeline = parts_of_a_pipeline()
    with capture(contexts_from="retriever.documents") as captured:
        step_by_step(pipeline, QUESTION)
    check(only(captured.samples))


def test_a_query_that_a_model_wrote_in_an_asynchronous_method() -> None:
    asked, query = "And when does it leave?", "ferry Amrum departure"
    intent, rewrite, answer = map(
        MockChatGenerator, ("search", query, "It leaves at nine.")
    )
    embedder, retriever = Embeds(), InMemoryEmbeddingRetriever(STORE, top_k=1)
    rewriting = PromptBuilder("Rewrite for a search: {{ question }}")
    answering = PromptBuilder(EACH + "Asked: {{ question }}\nSearched: {{ search }}")

    async def reply(question: str) -> str:
        prompt = rewriting.run(question=question)["prompt"]
        intent.run(f"Search or chat? {question}")
        search = (await rewrite.run_async(prompt))["replies"][0].text
        embedding = embedder.run(text=search)["embedding"]
        found = retriever.run(query_embedding=embedding)["documents"]
        prompt = answering.run(question=question, search=search, documents=found)
        return str((await answer.run_async(prompt["prompt"]))["replies"][0].text)

    with capture() as captured:
        assert asyncio.run(reply(asked)) == "It leaves at nine."
    sample = only(captured.samples)
    assert (sample.question, sample.answer) == (asked, "It leaves at nine.")
    assert sample.standalone_question == query
    assert texts(sample.contexts) == texts(sample.retrieved) == [FERRY]


@pytest.mark.parametrize("asked", [QUESTION, f"{QUESTION[:-1]} site:amrum.org"])
@pytest.mark.parametrize("is_pipeline", [True, False])
def test_a_pipeline_asked_what_a_model_wrote_may_have_been_asked_by_the_user(
    asked: str, is_pipeline: bool
) -> None:
    rewriting = connected(
        ("prompt.prompt", "llm.messages"),
        prompt=PromptBuilder("Rewrite: {{ query }}", required_variables="*"),
        llm=MockChatGenerator(QUESTION),
    )
    with capture() as captured:
        if is_pipeline:
            rewriting.run({"prompt": {"query": "the boat pls"}})
        else:
            rewriting.get_component("llm").run("Rewrite: the boat pls")
        given = {"embedder": {"text": asked}, "prompt": {"query": asked}}
        parts_of_a_pipeline().run(given)
    sample = captured.samples[-1]
    assert (texts(sample.contexts), sample.answer) == ([FERRY], ANSWER)
    assert doubts(sample) <= {"which_turn", "question_guessed"}
    assert doubts(sample)


def agent(*replies: Any) -> Agent:
    schema = {"type": "object", "properties": {}}
    return Agent(
        chat_generator=MockChatGenerator([*replies]),
        tools=[Tool("tide", "Tells the tide.", schema, function=lambda: "High tide.")],
    )


def test_searches_before_an_agent_stand_in_its_prompt() -> None:
    retriever = InMemoryBM25Retriever(STORE, top_k=1)

    def answered(application: Agent) -> str:
        found = [
            retriever.run(query=query)["documents"][0].content
            for query in (QUESTION, "whaling museum")
        ]
        system = ChatMessage.from_system("Notes:\n" + "\n".join(found))
        messages = [system, ChatMessage.from_user(QUESTION)]
        return str(application.run(messages=messages)["last_message"].text)

    asks = ChatMessage.from_assistant(tool_calls=[ToolCall("tide", {}, id="1")])
    with capture() as captured:
        assert answered(agent(ANSWER)) == ANSWER
    check(only(captured.samples), [FERRY, MUSEUM])
    with capture(context_tools={"tide"}) as captured:
        assert answered(agent(asks, ANSWER)) == ANSWER
    check(only(captured.samples), [FERRY, MUSEUM, "High tide."])


def test_a_generator_after_a_pipeline_that_only_searched() -> None:
    pipeline = connected(
        ("embedder.embedding", "retriever.query_embedding"),
        embedder=Embeds(),
        retriever=InMemoryEmbeddingRetriever(STORE, top_k=1),
    )
    with capture() as captured:
        found = pipeline.run({"embedder": {"text": QUESTION}})["retriever"]["documents"]
        prompt = f"[notes.md]\n{found[0].content}\n\nQuestion: {QUESTION}"
        MockChatGenerator(ANSWER).run([ChatMessage.from_user(prompt)])
    check(only(captured.samples))


@component
class Loops:
    """Searches and asks a model by itself."""

    def __init__(self) -> None:
        self.retriever = InMemoryBM25Retriever(STORE, top_k=1)
        self.generator = MockChatGenerator(ANSWER)

    @component.output_types(result=object)
    def run(self, task: str) -> dict[str, Any]:
        found = self.retriever.run(query=task)["documents"]
        prompt = [
            ChatMessage.from_system(found[0].content),
            ChatMessage.from_user(task),
        ]
        return {"result": self.generator.run(prompt)["replies"][0]}


def test_a_component_that_runs_others_by_itself() -> None:
    with capture() as captured:
        connected(agent=Loops()).run({"agent": {"task": QUESTION}})
        Loops().run(task=QUESTION)
    inside_a_pipeline, bare = captured.samples
    check(inside_a_pipeline)
    check(bare)


TIDE = Tool(
    "tide",
    "Tells the tide.",
    {"type": "object", "properties": {}},
    function=lambda: "High tide is at noon, says the harbour.",
)


def loops_over_tools(prompt: str) -> None:
    asks = ChatMessage.from_assistant(tool_calls=[ToolCall("tide", {}, id="1")])
    again = ChatMessage.from_assistant(tool_calls=[ToolCall("tide", {}, id="2")])
    generator = MockChatGenerator([asks, again, ANSWER])
    messages = [ChatMessage.from_user(prompt)]
    while True:
        (reply,) = generator.run(messages, tools=[TIDE])["replies"]
        messages.append(reply)
        if not reply.tool_calls:
            return
        for call in reply.tool_calls:
            result = TIDE.invoke(**call.arguments)
            messages.append(ChatMessage.from_tool(result, origin=call))


def test_tools_that_code_runs_itself_are_told() -> None:
    """Their texts stand in the prompt alone."""

    def answered() -> None:
        found = InMemoryBM25Retriever(STORE, top_k=1).run(query=QUESTION)["documents"]
        loops_over_tools(f"{found[0].content}\nQuestion: {QUESTION}")

    with capture() as captured:
        answered()
    assert doubts(only(captured.samples)) == {"undivided"}
    with capture(context_tools={"tide"}) as captured:
        answered()
    sample = only(captured.samples)
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    tide = "High tide is at noon, says the harbour."
    assert texts(sample.contexts) == [FERRY, tide]
    assert sample.ledger is not None
    assert [call.name for call in sample.ledger.calls] == [None, "tide", "tide"]


def test_tools_that_code_runs_itself_without_another_search() -> None:
    with capture(context_tools={"tide"}) as captured:
        loops_over_tools(QUESTION)
    sample = only(captured.samples)
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    assert texts(sample.contexts) == ["High tide is at noon, says the harbour."]


def test_a_call_that_a_person_rejects_brings_nothing() -> None:
    """No tool ran: the agent itself wrote the message that stands for its result."""
    confirmation = pytest.importorskip("haystack.hooks.human_in_the_loop")
    person = SimpleNamespace(
        get_user_confirmation=lambda *_: confirmation.ConfirmationUIResult("reject")
    )
    strategy = confirmation.BlockingConfirmationStrategy(
        confirmation_policy=confirmation.AlwaysAskPolicy(), confirmation_ui=person
    )
    asks = ChatMessage.from_assistant(tool_calls=[ToolCall("tide", {}, id="1")])
    agent = Agent(
        chat_generator=MockChatGenerator([asks, "You did not let me look."]),
        tools=[TIDE],
        hooks={"before_tool": [confirmation.ConfirmationHook({"tide": strategy})]},
    )
    with capture(context_tools={"tide"}) as captured:
        agent.run([ChatMessage.from_user(QUESTION)])
    sample = only(captured.samples)
    assert (sample.question, sample.answer) == (QUESTION, "You did not let me look.")
    assert sample.contexts is None
    assert doubts(sample) == {"no_search"}


def test_documents_beside_the_messages_are_shown() -> None:
    """Cohere and vLLM take them as a parameter."""
    with capture() as captured:
        found = InMemoryBM25Retriever(STORE, top_k=2).run(query=QUESTION)["documents"]
        beside = [{"id": it.id, "data": {"text": it.content}} for it in found]
        MockChatGenerator([ANSWER]).run(
            [ChatMessage.from_user(QUESTION)], generation_kwargs={"documents": beside}
        )
    sample = only(captured.samples)
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    assert texts(sample.contexts) == [it.content for it in found]
    assert not doubts(sample)


def test_an_input_called_tools_may_hold_anything() -> None:
    @component
    class Workshop:
        @component.output_types(replies=list[str])
        def run(self, prompt: str, tools: list[object]) -> dict[str, list[str]]:
            return {"replies": [f"{prompt}: {len(tools)}"]}

    workshop = Pipeline()
    workshop.add_component("workshop", Workshop())
    with capture() as captured:
        workshop.run({"prompt": "How many?", "tools": [SimpleNamespace(name="saw")]})
    assert not captured.problems


def test_an_answer_builder_by_hand() -> None:
    with capture() as captured:
        found = InMemoryBM25Retriever(STORE, top_k=1).run(query=QUESTION)["documents"]
        prompt = PromptBuilder(EACH + "{{ q }}").run(documents=found, q=QUESTION)
        replies = MockChatGenerator(ANSWER).run(prompt["prompt"])["replies"]
        AnswerBuilder().run(query=QUESTION, replies=replies, documents=found)
    check(only(captured.samples))


# What is no turn


def test_an_index_that_is_built_by_hand_is_no_evidence() -> None:
    indexed = InMemoryDocumentStore()
    with capture() as captured:
        source = ByteStream(f"{FERRY} {MUSEUM}".encode())
        read = TextFileToDocument().run(sources=[source])["documents"]
        splitter = DocumentSplitter(split_by="word", split_length=10)
        DocumentWriter(indexed).run(documents=splitter.run(read)["documents"])
        assert captured.samples == ()
        found = InMemoryBM25Retriever(indexed, top_k=1).run(query=QUESTION)["documents"]
        MockChatGenerator(ANSWER).run(f"{found[0].content}\nQuestion: {QUESTION}")
    sample = only(captured.samples)
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    assert texts(sample.retrieved) == [found[0].content]


@component
class Keywords:
    """A search that takes no query by its usual name."""

    @component.output_types(documents=list[Document])
    def run(self, search_terms: str) -> dict[str, Any]:
        return {"documents": [Document(content=FERRY)]}


def test_a_search_by_words_of_its_own() -> None:
    with capture() as captured:
        found = Keywords().run(search_terms="ferry")["documents"]
        MockChatGenerator(ANSWER).run(
            [
                ChatMessage.from_system(found[0].content),
                ChatMessage.from_user(QUESTION),
            ]
        )
    sample = only(captured.samples)
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    assert texts(sample.contexts) == texts(sample.retrieved) == [FERRY]
    assert doubts(sample) == {"question_guessed"}


def test_a_generator_alone_and_an_evaluator_are_no_turns() -> None:
    evaluator = RagMetricsEvaluator(metrics=["context_adherence"], judge="lexical")
    with capture() as captured:
        MockChatGenerator(ANSWER).run("Translate this.")
        evaluator.run(
            query=QUESTION, documents=[Document(content=FERRY)], replies=[ANSWER]
        )
    assert captured.samples == ()


def test_a_component_with_threads_of_its_own_is_one_search() -> None:
    """What it runs there is no run of the application."""

    def searching() -> MultiQueryTextRetriever:
        inner = InMemoryBM25Retriever(STORE, top_k=1)
        return MultiQueryTextRetriever(retriever=inner)

    watcher = watch([], judge="lexical")
    with capture() as captured:
        found = searching().run(queries=[QUESTION])["documents"]
        MockChatGenerator(ANSWER).run(f"{found[0].content}\nQuestion: {QUESTION}")
        pipeline = connected(
            ("retriever.documents", "prompt.documents"),
            ("prompt.prompt", "llm.messages"),
            retriever=searching(),
            prompt=PromptBuilder(EACH + "{{ q }}"),
            llm=MockChatGenerator(ANSWER),
        )
        given = {"retriever": {"queries": [QUESTION]}, "prompt": {"q": QUESTION}}
        pipeline.run(given)
    assert watcher.stop(10)
    assert not captured.problems
    for samples in (captured.samples, watcher.samples):
        assert len(samples) == 2
        for sample in samples:
            assert texts(sample.contexts) == texts(sample.retrieved) == [FERRY]


# No harm


def methods() -> dict[Any, Any]:
    """What each class of components holds."""
    classes = [*component.registry.values(), ComponentMeta]
    return {
        (one, name): vars(one).get(name)
        for one in classes
        for name in ("run", "run_async", "__call__")
    }


@component
class Base:
    @component.output_types(n=int)
    def run(self, n: int, *, more: int = 1) -> dict[str, Any]:
        """Add."""
        if n < 0:
            raise StopIteration(n)
        return {"n": n + more}


class Derived(Base):
    @component.output_types(n=int)
    def run(self, n: int, *, more: int = 2) -> dict[str, Any]:
        return super().run(n, more=more)


def test_everything_is_as_before_while_somebody_listens_and_afterwards() -> None:
    before, signature = methods(), inspect.signature(Base.run)
    made = Derived()
    with capture():
        with capture() as captured:
            assert methods() != before
            assert inspect.signature(Base.run) == signature
            assert (Base.run.__doc__, Base.run.__qualname__) == ("Add.", "Base.run")
            assert inspect.iscoroutinefunction(MockChatGenerator.run_async)
            assert not inspect.iscoroutinefunction(MockChatGenerator.run)

            @component
            class Later:
                @component.output_types(n=int)
                def run(self, n: int) -> dict[str, Any]:
                    return {"n": n}

            later = Later()
            assert later.run(3) == {"n": 3}
            assert made.run(3) == {"n": 5}
            assert made.run(3, more=4) == {"n": 7}
            for calling, error in (
                (lambda: made.run(-1), StopIteration),
                (lambda: made.run(unknown=1), TypeError),
            ):
                with pytest.raises(error):
                    calling()
            assert pickle.loads(pickle.dumps(made)).run(3) == {"n": 5}
            assert pickle.loads(pickle.dumps(made.run))(3) == {"n": 5}
            assert copy.deepcopy(made).run(3) == {"n": 5}
            pipeline = Pipeline()
            pipeline.add_component("llm", MockChatGenerator("Yes."))
            again = Pipeline.loads(pipeline.dumps())
            assert again.run({"llm": {"messages": "?"}})["llm"]["replies"]
        assert methods() != before
    assert not captured.problems
    after = methods()
    assert {key: after[key] for key in before} == before
    assert Later.run(later, 3) == {"n": 3}
    assert not hasattr(vars(Later)["run"], "__wrapped__")
    assert vars(made).keys() == vars(Derived()).keys()


class Louder(Keywords):
    """A class that no decorator registered."""

    @component.output_types(documents=list[Document])
    def run(self, search_terms: str) -> dict[str, Any]:
        return {"documents": [Document(content=FERRY)]}


def test_each_call_is_recorded_once() -> None:
    names: list[list[str]] = []

    def note(run: Any) -> str:
        components = [node for node in run.nodes if "component" in node.operation]
        names.append([node.name for node in components])
        return QUESTION

    def ask(search: Any) -> None:
        found = search.run(search_terms="ferry")["documents"]
        MockChatGenerator(ANSWER).run(found[0].content)

    louder = Louder()
    with capture(question_from=note) as captured:
        given = {"embedder": {"text": QUESTION}, "prompt": {"query": QUESTION}}
        parts_of_a_pipeline().run(given)
        agent(ANSWER).run(messages=[ChatMessage.from_user(QUESTION)])
        ask(louder)

        class Later(Keywords):
            @component.output_types(documents=list[Document])
            def run(self, search_terms: str) -> dict[str, Any]:
                return {"documents": [Document(content=MUSEUM)]}

        ask(Later())
    found = [texts(sample.retrieved) for sample in captured.samples]
    assert found == [[FERRY], [], [FERRY], [MUSEUM]]
    assert names[:2] == [["embedder", "retriever", "prompt", "llm"], []]


def test_a_later_patch_of_somebody_else_stays() -> None:
    @component
    class Patched:
        @component.output_types(n=int)
        def run(self, n: int) -> dict[str, Any]:
            return {"n": n}

    with capture():
        ours: Any = Patched.run

        def run_of_others(self: Any, n: int) -> Any:
            return {"n": ours(self, n)["n"] * 10}

        Patched.run = run_of_others  # type: ignore[method-assign]
        assert Patched().run(1) == {"n": 10}
    assert Patched.run is run_of_others
    assert Patched().run(1) == {"n": 10}
    with capture():
        assert Patched().run(1) == {"n": 10}
    assert Patched.run is run_of_others


def test_a_streamed_reply_reaches_its_callback() -> None:
    chunks: list[str] = []

    def callback(chunk: StreamingChunk) -> None:
        chunks.append(chunk.content)

    generator = MockChatGenerator("One two.", streaming_callback=callback)
    with capture():
        generator.run("Count.")
    assert "".join(chunks) == "One two."


def test_another_tracer_gets_no_spans_of_ours() -> None:
    names: list[str] = []

    class Named(NullTracer):
        def trace(self, operation_name: str, *given: Any, **named: Any) -> Any:
            names.append(operation_name)
            return super().trace(operation_name, *given, **named)

    tracing.enable_tracing(Named())
    try:
        with capture() as captured:
            step_by_step(parts_of_a_pipeline(), QUESTION)
    finally:
        tracing.disable_tracing()
    assert names == []
    check(only(captured.samples))


def test_questions_at_once_are_never_mixed() -> None:
    async def all_at_once() -> Any:
        retriever = InMemoryBM25Retriever(STORE, top_k=1)

        async def answered(word: str) -> None:
            found = (await retriever.run_async(query=f"{word} there?"))["documents"]
            await asyncio.sleep(0)
            prompt = f"{found[0].content}\nQuestion: {word} there?"
            await MockChatGenerator(f"Yes, a {word} is there.").run_async(prompt)

        with capture() as captured:
            await asyncio.gather(*map(answered, ("ferry", "museum", "bridge") * 5))
        return captured

    samples = asyncio.run(all_at_once()).samples
    assert len(samples) == 15
    for sample in samples:
        word = sample.question.removesuffix(" there?")
        assert sample.answer == f"Yes, a {word} is there."
        (context,) = sample.known_contexts
        assert word in context.text
        assert not doubts(sample)


def test_threads_of_a_served_application_under_watch() -> None:
    pipeline = parts_of_a_pipeline()
    watcher = watch([], judge="lexical")
    threads = [
        threading.Thread(target=step_by_step, args=(pipeline, QUESTION))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert watcher.stop(10)
    assert len(watcher.samples) == 4
    for sample in watcher.samples:
        check(sample)


def test_a_super_component_and_an_agent_keep_their_own_places() -> None:
    inner = connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt.prompt", "llm.messages"),
        retriever=InMemoryBM25Retriever(STORE, top_k=1),
        prompt=PromptBuilder(EACH + "{{ q }}"),
        llm=MockChatGenerator(ANSWER),
    )
    whole = SuperComponent(
        pipeline=inner,
        input_mapping={"query": ["retriever.query", "prompt.q"]},
        output_mapping={"llm.replies": "replies"},
    )
    with capture(contexts_from="retriever.documents") as captured:
        whole.run(query=QUESTION)
    sample = only(captured.samples)
    check(sample)
    assert sample.capture is not None
    assert not sample.capture.warnings  # the place was found


def test_a_super_component_that_only_searches_is_a_search_alone() -> None:
    inner = connected(retriever=InMemoryBM25Retriever(STORE, top_k=1))
    search = SuperComponent(
        pipeline=inner,
        input_mapping={"query": ["retriever.query"]},
        output_mapping={"retriever.documents": "documents"},
    )
    with capture() as captured:
        search.run(query=QUESTION)
    sample = only(captured.samples)
    assert (sample.question, sample.answer) == (QUESTION, None)
    assert texts(sample.contexts) == texts(sample.retrieved) == [FERRY]
    assert doubts(sample) == {"no_answer"}

    with capture() as captured:
        documents = search.run(query=QUESTION)["documents"]
        prompt = f"{documents[0].content}\nAsked: {QUESTION}"
        MockChatGenerator(ANSWER).run([ChatMessage.from_user(prompt)])
    check(only(captured.samples))


@component
class InTurn:
    """Searches; the first to begin ends last."""

    def __init__(self, all_have_begun: asyncio.Barrier) -> None:
        self.barrier = all_have_begun

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        return {"documents": [Document(content=FERRY)]}

    @component.output_types(documents=list[Document])
    async def run_async(self, query: str) -> dict[str, Any]:
        number = await self.barrier.wait()
        for _ in range(100 * (2 - number)):
            await asyncio.sleep(0)
        return self.run(query)


def test_samples_come_in_the_order_in_which_their_runs_began() -> None:
    questions = [f"{QUESTION} {number}" for number in range(3)]

    async def ask_all() -> None:
        barrier = asyncio.Barrier(3)
        runs = []
        for question in questions:
            made = connected(
                ("search.documents", "prompt.documents"),
                ("prompt.prompt", "llm.messages"),
                search=InTurn(barrier),
                prompt=PromptBuilder(EACH + "{{ q }}", required_variables="*"),
                llm=MockChatGenerator(ANSWER),
            )
            given = {"search": {"query": question}, "prompt": {"q": question}}
            runs.append(made.run_async(given))
        await asyncio.gather(*runs)

    with capture() as captured:
        asyncio.run(ask_all())
    assert [sample.question for sample in captured.samples] == questions


@component
class Closed:
    """A store that is down."""

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        raise ConnectionError("the store is down")


@component
class Tolerates:
    """Finds nothing where the search inside fails."""

    def __init__(self) -> None:
        self.inner = Closed()

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        try:
            return self.inner.run(query=query)
        except ConnectionError:
            return {"documents": []}


def test_a_search_that_failed_is_named_where_nothing_was_found() -> None:
    made = connected(
        ("search.documents", "prompt.documents"),
        ("prompt.prompt", "llm.messages"),
        search=Tolerates(),
        prompt=PromptBuilder(EACH + "{{ q }}", required_variables="*"),
        llm=MockChatGenerator(ANSWER),
    )
    with capture() as captured:
        made.run({"search": {"query": QUESTION}, "prompt": {"q": QUESTION}})
    sample = only(captured.samples)
    assert sample.contexts is None
    assert sample.capture is not None
    assert "Closed failed" in sample.capture.doubts["no_search"]


SEARCH_TOOL = Tool(
    "look_up",
    "Looks something up.",
    {"type": "object", "properties": {"query": {"type": "string"}}},
    lambda query: {"documents": [Document(content=FERRY)]},
)


@component
class ToldOfTools:
    """A generator that is told of its tools once and for all."""

    def __init__(self, tools: list[Tool]) -> None:
        self.tools = tools

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        return {"replies": [ChatMessage.from_assistant("Hello!")]}


HELLO = [ChatMessage.from_user("Hello, who are you?")]
OFFERING: dict[str, Callable[[], object]] = {
    "handed in": lambda: MockChatGenerator("Hello!").run(HELLO, tools=[SEARCH_TOOL]),
    "set of tools": lambda: MockChatGenerator("Hello!").run(
        HELLO, tools=Toolset([SEARCH_TOOL])
    ),
    "of the generator": lambda: ToldOfTools([SEARCH_TOOL]).run(messages=HELLO),
}


@pytest.mark.parametrize("name", OFFERING)
def test_a_model_that_was_offered_a_named_search_gives_a_sample(name: str) -> None:
    with capture(context_tools={"look_up"}) as captured:
        OFFERING[name]()
    sample = only(captured.samples)
    assert (sample.answer, sample.contexts) == ("Hello!", None)
    assert doubts(sample) == {"no_search"}
    with capture(context_tools={"another"}) as captured:
        OFFERING[name]()
    assert captured.samples == ()


@component
class EmbedsDocuments:
    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        return {
            "documents": [
                dataclasses.replace(each, embedding=vector(each.content or ""))
                for each in documents
            ]
        }


def test_a_message_that_is_stored_behind_its_answer_begins_no_turn() -> None:
    own = InMemoryDocumentStore()
    embeds, embeds_documents = Embeds(), EmbedsDocuments()
    finds = InMemoryEmbeddingRetriever(own)
    answers = Agent(chat_generator=MockChatGenerator(response_fn=lambda _: ANSWER))
    said = ["I like to take the ferry to Amrum at nine.", QUESTION]
    with capture() as captured:
        for words in said:
            embedding = embeds.run(text=words)["embedding"]
            found = finds.run(query_embedding=embedding)["documents"]
            memory = "\n".join(each.content or "" for each in found)
            prompt = [ChatMessage.from_system(memory), ChatMessage.from_user(words)]
            answers.run(messages=prompt)
            kept = embeds_documents.run(documents=[Document(content=words)])
            own.write_documents(kept["documents"])
    assert [sample.question for sample in captured.samples] == said
    assert [texts(sample.contexts) for sample in captured.samples] == [[], said[:1]]


def test_what_an_earlier_run_found_and_a_variable_shows_again_is_a_context() -> None:
    template = "{{ earlier }}\n" + EACH + "Asked: {{ query }}"
    pipeline = connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt.prompt", "llm.messages"),
        retriever=InMemoryBM25Retriever(STORE, top_k=1),
        prompt=ChatPromptBuilder(
            template=[ChatMessage.from_user(template)], required_variables="*"
        ),
        llm=MockChatGenerator(ANSWER),
    )
    earlier = ""
    with capture() as captured:
        for query in ("whaling museum", QUESTION):
            inputs = {"query": query, "earlier": earlier}
            pipeline.run({"retriever": {"query": query}, "prompt": inputs})
            earlier = MUSEUM
    sample = captured.samples[-1]
    assert sample.question == QUESTION
    assert texts(sample.contexts) == [MUSEUM, FERRY]
    assert texts(sample.retrieved) == [FERRY]
    assert not doubts(sample)


@component
class WebSearch:
    """Finds pages, and writes an answer beside them."""

    def __init__(self, answer: str) -> None:
        self.answer = answer

    @component.output_types(documents=list[Document], answer=str)
    def run(self, query: str) -> dict[str, Any]:
        return {"documents": [Document(content=FERRY)], "answer": self.answer}


@pytest.mark.parametrize(
    ("answer", "is_shown"), [("At nine.", True), (MUSEUM, True), (MUSEUM, False)]
)
def test_an_answer_that_a_search_wrote_beside_documents_is_in_doubt_if_it_is_shown(
    answer: str, is_shown: bool
) -> None:
    web = WebSearch(answer)
    with capture() as captured:
        found = web.run(query=QUESTION)
        written = f"Answer: {found['answer']}\n" if is_shown else ""
        prompt = f"{written}{found['documents'][0].content}\nAsked: {QUESTION}"
        MockChatGenerator(ANSWER).run(messages=[ChatMessage.from_user(prompt)])
    sample = only(captured.samples)
    assert texts(sample.contexts) == [FERRY]
    assert doubts(sample) == ({"undivided"} if is_shown else set())


@pytest.mark.parametrize(
    ("is_pipeline", "grades"), [(False, ["inferred"]), (True, ["exact", "inferred"])]
)
def test_what_is_suggested_from_a_search_for_the_answer_is_no_sure_answer(
    is_pipeline: bool, grades: list[str]
) -> None:
    pipeline = parts_of_a_pipeline()
    museum = InMemoryBM25Retriever(STORE, top_k=1)
    with capture() as captured:
        if is_pipeline:
            inputs = {"embedder": {"text": QUESTION}, "prompt": {"query": QUESTION}}
            (reply,) = pipeline.run(inputs)["llm"]["replies"]
            answer = reply.text
        else:
            answer = step_by_step(pipeline, QUESTION)
        found = museum.run(query=answer)["documents"][0].content
        prompt = f"Suggest a question on {found}\n{QUESTION}\nAnswer: {answer}"
        suggests = MockChatGenerator("Is the museum open?")
        suggests.run(messages=[ChatMessage.from_user(prompt)])
    assert [each.capture.grade for each in captured.samples if each.capture] == grades
