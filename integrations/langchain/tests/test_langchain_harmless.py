"""An evaluator never harms the application: many at once, long-lived, with judges that misbehave."""

from __future__ import annotations

import asyncio
import copy
import gc
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_fakes import ANSWER, QUESTION, Letters, Shelf, Speaker, document, rag
from langchain_ragmetrics import (
    LangChainModel,
    RagMetricsCallback,
    capture,
    observe,
    watch,
)
from langchain_ragmetrics.capturing import RECORDER

from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.data.sample import Sample


async def reply(question: str, found: Any) -> str:
    await asyncio.sleep(0)
    return f"Answer to {question}."


def tracked() -> int:
    """How many recorded runs and documents there are; of samples the latest 1,000 stay."""
    gc.collect()
    return sum(
        1 for one in gc.get_objects() if type(one).__name__ in ("Run", "Document")
    )


@pytest.mark.nightly
def test_memory_is_flat_over_many_runs() -> None:
    """Nothing of a run stays in the process's recorder: the count is zero after few runs and after many."""
    chain = RunnableLambda(lambda question: [document("text")]) | (lambda found: ANSWER)
    watching = watch(metrics=[], max_queue=50)
    sizes = []
    try:
        for _ in range(4):
            with ThreadPoolExecutor(2) as pool:
                list(
                    pool.map(
                        lambda _: [chain.invoke(QUESTION) for _ in range(25)], range(10)
                    )
                )
            assert watching.flush(60)
            sizes.append(tracked())
            assert (len(RECORDER.open), repr(RECORDER)[:20]) == (
                0,
                "Recorder(0 open runs",
            )
    finally:
        watching.stop()
    # a round has 250 runs; what other tests leave comes and goes by a few
    assert max(sizes) - sizes[0] <= 20, sizes


def test_the_judge_is_never_captured() -> None:
    """Not by the callback on its own model, not by capture, not by watch, and not by a chain as a judge."""
    captured_models = []

    def judge(messages: list[BaseMessage]) -> str:
        Shelf().invoke("a retrieval inside the judge")
        captured_models.append(True)
        return (
            '{"reason": "It says so.", "supported": 1, "claims": 1, "unsupported": []}'
        )

    watched: list[Any] = []
    watching = watch(metrics=[], on_result=watched.append)
    try:
        with capture() as captured:
            handler = RagMetricsCallback(
                metrics=["context_adherence"], judge=RunnableLambda(judge)
            )
            rag().invoke(QUESTION, config={"callbacks": [handler]})
            handler.report()
            report = captured.evaluate(
                ["context_adherence"], judge=RunnableLambda(judge), progress=False
            )
            model = LangChainModel(
                RunnableLambda(judge).with_config(callbacks=[handler])
            )
            captured.evaluate(["context_adherence"], judge=model, progress=False)
        assert watching.flush(10)
    finally:
        watching.stop()
    assert captured_models
    assert report.results[0].results["context_adherence"].value == 1.0
    assert len(captured.samples) == len(handler.samples) == len(watched) == 1


def _as_messages(question: str) -> list[BaseMessage]:
    return [HumanMessage("Hello"), AIMessage("Hello, too"), HumanMessage(question)]


MESSAGES: dict[str, Callable[[list[BaseMessage]], Any]] = {
    "a list": lambda messages: messages,
    "a state": lambda messages: {"messages": messages},
}


@pytest.mark.parametrize("changed", ["by a step", "after the run"])
@pytest.mark.parametrize("form", MESSAGES)
def test_a_message_that_the_application_changes_later_leaves_the_sample_as_it_was(
    form: str, changed: str
) -> None:
    def answered(value: Any) -> Any:
        messages: list[BaseMessage] = (
            value["messages"] if isinstance(value, dict) else value
        )
        question = messages[-1]
        found = Shelf(books=[document("Paris is nice.")]).invoke(str(question.text))
        if changed == "by a step":
            question.content = f"{found[0].page_content}\n{question.content}"
        reply = Speaker().invoke([HumanMessage(f"{found[0].page_content}\n{QUESTION}")])
        return MESSAGES[form]([*messages, reply])

    given = _as_messages(QUESTION)
    with capture() as captured:
        result = RunnableLambda(answered).invoke(MESSAGES[form](given))
    messages = result["messages"] if isinstance(result, dict) else result
    # the caller's own objects
    assert [id(message) for message in messages[:3]] == [
        id(message) for message in given
    ]
    if changed == "after the run":
        for message in messages:
            message.content = "changed"
    (sample,) = captured.samples
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    assert [said.content for said in sample.history or ()] == ["Hello", "Hello, too"]


class Scoring(BaseRetriever):
    """Writes a score into the document that another retriever found."""

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        found = Shelf(books=[document(LONG)]).invoke(query)
        found[0].metadata["relevance_score"] = 0.9
        return found


LONG = "Paris is the capital. It lies on the Seine, which is a river of France."


def test_a_document_that_a_step_changes_is_the_one_before_and_the_one_after() -> None:
    def shortened(found: list[Document]) -> list[Document]:
        found[0].page_content = LONG.partition(" It")[0]
        return found

    with capture() as captured:
        rag(Scoring()).invoke(QUESTION)
        rag(Shelf(books=[document(LONG)]) | shortened).invoke(QUESTION)
    scored, shorter = captured.samples
    assert [found.score for found in scored.retrieved or ()] == [None]
    assert [shown.score for shown in scored.known_contexts] == [0.9]
    assert [found.text for found in shorter.retrieved or ()] == [LONG]
    assert [shown.text for shown in shorter.known_contexts] == ["Paris is the capital."]


def test_a_reply_whose_blocks_the_application_drops_later_tells_what_was_searched() -> (
    None
):
    search: dict[str, Any] = {
        "type": "file_search_call",
        "id": "1",
        "queries": ["capital"],
        "results": [{"filename": "a.txt", "text": LONG}],
    }
    reply = AIMessage([{"type": "text", "text": ANSWER}, search])
    with capture() as captured:
        said = Speaker(lines=[reply]).invoke(QUESTION)
        search["results"].clear()
        assert isinstance(said.content, list)
        said.content.clear()
    (sample,) = captured.samples
    assert [found.text for found in sample.retrieved or ()] == [LONG]


class Kept(list[SampleResult]):
    """A sink."""

    def write(self, result: SampleResult) -> None:
        self.append(result)

    def flush(self) -> None:
        pass


def test_a_callback_takes_what_watch_takes() -> None:
    sink = Kept()
    masked = Sample(question="masked")
    handler = RagMetricsCallback(
        metrics=[], sinks=[sink], redact=lambda sample: masked, max_queue=100
    )
    rag().batch([QUESTION] * 3, config={"callbacks": [handler]})
    assert handler.stop(60)
    assert [one.sample for one in sink] == [masked] * 3


def test_a_callback_names_itself_where_an_argument_is_unknown() -> None:
    arguments: dict[str, Any] = {"max_que": 100}
    with pytest.raises(
        TypeError, match=r"RagMetricsCallback\(\).*'max_que'.*max_queue"
    ):
        RagMetricsCallback(metrics=[], **arguments)


def test_a_copied_config_has_the_same_callback() -> None:
    handler = RagMetricsCallback(metrics=[])
    for made in (
        copy.copy(handler),
        copy.deepcopy({"callbacks": [handler]})["callbacks"][0],
    ):
        rag().invoke(QUESTION, config={"callbacks": [made]})
    assert len(handler.samples) == 2


def calls_while_captured(state: object) -> int:
    """How many Python functions run while a chain hands on a state and is captured."""
    chain = RunnableLambda(lambda _: {"state": state}) | RunnableLambda(
        lambda found: {**found, "answer": "Paris."}
    )
    count = 0

    def counted(frame: object, event: str, _: object) -> None:
        nonlocal count
        count += event == "call"

    with capture():
        chain.invoke(QUESTION)  # what is made once is made now
        sys.setprofile(counted)
        try:
            assert chain.invoke(QUESTION)["state"] is state
        finally:
            sys.setprofile(None)
    return count


@pytest.mark.parametrize("number", [0.5, 7], ids=["embeddings", "tokens"])
def test_what_capture_does_grows_with_no_vector_of_a_step(number: float) -> None:
    short, long = ([[number] * length for _ in range(3)] for length in (20, 20_000))
    assert calls_while_captured(long) <= calls_while_captured(short) + 20


def test_what_capture_does_grows_with_no_long_list_of_a_step() -> None:
    long, longer = ([{"row": n} for n in range(size)] for size in (20_000, 80_000))
    assert calls_while_captured(longer) <= calls_while_captured(long) + 20


def test_observed_store_is_the_store() -> None:
    """Everything but searches goes to the store itself, and searches return what they return without us."""
    from langchain_fakes import store

    inner = store()
    seen = observe(inner)
    assert seen.similarity_search("Paris", k=2) == inner.similarity_search("Paris", k=2)
    assert seen.similarity_search_with_score(
        "Paris"
    ) == inner.similarity_search_with_score("Paris")
    assert seen.as_retriever().invoke("Paris") == inner.as_retriever().invoke("Paris")
    seen.add_documents([document("New.", "new")])
    assert inner.get_by_ids(["new"])[0].page_content == "New."
    assert seen.embeddings is inner.embeddings
    assert asyncio.run(
        seen.asimilarity_search("Paris", k=1)
    ) == inner.similarity_search("Paris", k=1)


def test_a_copy_of_an_observed_store_is_observed() -> None:
    """Also where the store says how it is copied."""

    class Copied(InMemoryVectorStore):
        def __deepcopy__(self, memo: object) -> InMemoryVectorStore:
            return self

    seen = copy.deepcopy(
        observe(Copied.from_documents([document("Paris.", "paris")], Letters()))
    )
    with capture() as captured:
        RunnableLambda(
            lambda question: seen.similarity_search(question)[0].page_content
        ).invoke("Paris?")
    assert [one.id for one in captured.samples[0].known_contexts] == ["paris"]


class Unspeakable(Exception):
    """An application's error whose words cannot be had."""

    def __repr__(self) -> str:
        raise KeyError("detail")

    __str__ = __repr__


def test_a_run_that_ends_with_an_error_without_words_ends() -> None:
    def fail(_: object) -> str:
        raise Unspeakable

    with capture() as captured, pytest.raises(Unspeakable):
        (Shelf() | RunnableLambda(fail)).invoke(QUESTION)
    assert [sample.error for sample in captured.samples] == ["Unspeakable"]
    assert not RECORDER.open
