"""Steps that hand their documents straight to the template of the prompt: what they drop is theirs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import (
    ChatPromptTemplate,
    MessagesPlaceholder,
    PromptTemplate,
)
from langchain_core.runnables import (
    Runnable,
    RunnableLambda,
    RunnablePassthrough,
)
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
from langchain_fakes import Shelf
from langchain_ragmetrics import capture, samples_from

from ragmetrics_core.data import Sample

QUESTION = "What does a bicycle cost on the ferry?"
TEXTS = (
    "The ferry sails from pier 7, behind the fish market.",
    "The only shop of the island sells bread and postcards.",
    "For residents a bicycle is free of charge on board.",
)
SHELF = Shelf(books=[Document(text) for text in TEXTS])
PROMPT = ChatPromptTemplate.from_template("{context}\nQuestion: {question}")
MODEL = FakeListChatModel(responses=["The ferry sails from pier 7."])
WHOLE_QUESTION: Any = {"docs": SHELF, "question": RunnablePassthrough()}


def take(found: Sequence[Any]) -> list[Any]:
    return list(found[:2])


def with_scores(found: Sequence[Document]) -> list[tuple[Document, float]]:
    return [(document, 1 - rank / 10) for rank, document in enumerate(found)]


def fuse(lists: Sequence[Sequence[Document]]) -> list[tuple[Document, float]]:
    """Reciprocal rank fusion, as it is published: pairs, of which the best two stay."""
    return with_scores(lists[0])[:2]


def two_queries(question: str) -> list[str]:
    return [question, f"{question} For residents?"]


def picked(inputs: dict[str, Any]) -> list[Document]:
    return take(inputs["docs"])


def as_inputs(inputs: dict[str, Any]) -> dict[str, Any]:
    return {"context": take(inputs["docs"]), "question": inputs["question"]}


def asked(context: Any, prompt: Runnable[Any, Any] = PROMPT) -> Runnable[Any, Any]:
    """A chain that fills the template with what a way of finding returns."""
    return {"context": context, "question": RunnablePassthrough()} | prompt | MODEL


WAYS: dict[str, tuple[Runnable[Any, Any], str]] = {
    "documents": (asked(SHELF | take), "take"),
    "pairs": (asked(SHELF | with_scores | take), "take"),
    "fusion": (asked(RunnableLambda(two_queries) | SHELF.map() | fuse), "fuse"),
    "a mapping": (
        WHOLE_QUESTION | RunnableLambda(as_inputs) | PROMPT | MODEL,
        "as_inputs",
    ),
    "a template of one value": (
        SHELF | take | PromptTemplate.from_template("{context}\nIs it free?") | MODEL,
        "take",
    ),
    "a template with sections": (
        asked(
            SHELF | take,
            PromptTemplate.from_template(
                "{{#context}}{{page_content}}\n{{/context}}{{question}}",
                template_format="mustache",
            ),
        ),
        "take",
    ),
    "beside a conversation": (
        asked(
            SHELF | take,
            ChatPromptTemplate.from_messages(
                [
                    ("system", "{context}"),
                    MessagesPlaceholder("history", optional=True),
                    ("user", "{question}"),
                ]
            ),
        ),
        "take",
    ),
}


def sample_of(chain: Runnable[Any, Any]) -> Sample:
    with capture() as captured:
        chain.invoke(QUESTION)
    (sample,) = captured.samples
    return sample


def fates(sample: Sample) -> list[tuple[bool | None, str | None]]:
    """Of each passage whether it was kept, and what dropped it."""
    assert sample.capture is not None
    assert sample.capture.passages is not None
    return [(note.kept, note.dropped_by) for note in sample.capture.passages]


@pytest.mark.parametrize("way", WAYS)
def test_what_the_last_step_before_a_template_drops_is_not_kept(way: str) -> None:
    chain, name = WAYS[way]
    assert fates(sample_of(chain)) == [(True, None), (True, None), (False, name)]


def test_a_run_of_a_tracer_tells_the_same() -> None:
    runs = RunCollectorCallbackHandler()
    chain, name = WAYS["documents"]
    chain.invoke(QUESTION, config={"callbacks": [runs]})
    (sample,) = samples_from(runs.traced_runs[0])
    assert fates(sample) == [(True, None), (True, None), (False, name)]


@settings(max_examples=examples(15))
@given(
    order=st.permutations(range(6)),
    n_kept=st.integers(1, 6),
    is_written=st.booleans(),
)
def test_a_list_in_a_template_tells_what_its_text_tells(
    order: list[int], n_kept: int, is_written: bool
) -> None:
    """Whether a last step writes the text or the template does, the filter dropped the same."""
    found = [
        Document(f"Passage {word} tells of the {word} ferry to the island.")
        for word in ("first", "second", "third", "fourth", "fifth", "sixth")
    ]
    kept = order[:n_kept]

    def pick(documents: list[Document]) -> list[Document]:
        return [documents[index] for index in kept]

    def write(documents: list[Document]) -> str:
        return "\n".join(document.page_content for document in documents)

    way = Shelf(books=found) | RunnableLambda(pick)
    sample = sample_of(asked(way | write if is_written else way))
    dropped = {index for index, (_, name) in enumerate(fates(sample)) if name == "pick"}
    assert dropped == set(range(6)).difference(kept)
