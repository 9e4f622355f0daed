"""Sources that a provider quotes: the quote decides, before index and title."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_ragmetrics import capture
from test_planted_losses import QUESTION, TEXTS

from ragmetrics_core import Context, Sample
from ragmetrics_core.capture.cited_sources import contexts_of_quotes

ANSWER = "It was opened in 1874."
EARLIER = "Puffins nest on the western cliffs from April until August."
OTHERS = (
    "Herring and timber are traded in the harbour.",
    "The steamer sank in a gale of the winter of 1869.",
    "Four clerks work in the customs house.",
)


def document_block(text: str, title: str | None) -> dict[str, Any]:
    """A document of the prompt, as Anthropic documents it."""
    source = {"type": "text", "media_type": "text/plain", "data": text}
    block = {"type": "document", "source": source, "citations": {"enabled": True}}
    return block if title is None else {**block, "title": title}


def asked(
    texts: tuple[str, ...], title: str | None, citation: dict[str, Any]
) -> Sample:
    """The sample of a second turn: the document of the first has the same title."""
    documents = [Document(text, metadata={"source": title}) for text in texts]
    reply = AIMessage(
        [{"type": "text", "text": ANSWER, "citations": [citation]}],
        response_metadata={"model_provider": "anthropic"},
    )
    first_turn = [
        HumanMessage(
            [document_block(EARLIER, title), {"type": "text", "text": "Why?"}]
        ),
        AIMessage("So."),
    ]

    def prompt(found: list[Document]) -> list[Any]:
        blocks = [document_block(one.page_content, title) for one in found]
        return [
            *first_turn,
            HumanMessage([*blocks, {"type": "text", "text": QUESTION}]),
        ]

    made = (
        RunnableLambda(lambda _: documents).with_config(run_name="retriever")
        | prompt
        | GenericFakeChatModel(messages=iter([reply]))
    )
    with capture(contexts_from="retriever") as runs:
        made.invoke(QUESTION)
    (sample,) = runs.samples
    return sample


def cited_words(title: str | None, words: str, index: int) -> dict[str, Any]:
    return {
        "type": "char_location",
        "cited_text": words,
        "document_index": index,
        "document_title": title,
    }


@pytest.mark.parametrize("title", ["report.pdf", None])
@pytest.mark.parametrize("texts", [TEXTS[:1], TEXTS])
def test_a_title_that_an_earlier_turn_shares_is_no_evidence(
    texts: tuple[str, ...], title: str | None
) -> None:
    sample = asked(texts, title, cited_words(title, EARLIER, 0))
    assert sample.citations is None
    assert sample.citations_unknown


@pytest.mark.parametrize("title", ["report.pdf", None])
def test_the_words_choose_among_texts_of_one_title(title: str | None) -> None:
    sample = asked(TEXTS, title, cited_words(title, TEXTS[2], 3))
    assert sample.citations is not None, sample.citations_unknown
    assert [one.contexts for one in sample.citations] == [(2,)]


@given(
    texts=st.permutations([*TEXTS, *OTHERS]),
    separator=st.sampled_from(["", " ", "\n\n"]),
    bounds=st.tuples(st.integers(0, 5), st.integers(1, 6)).filter(
        lambda pair: pair[0] < pair[1]
    ),
)
def test_a_range_of_blocks_cites_all_its_blocks(
    texts: list[str], separator: str, bounds: tuple[int, int]
) -> None:
    """Anthropic's ``content_block_location`` quotes the blocks from one to another as one."""
    start, end = bounds
    contexts = [Context(text=text) for text in texts]
    (quoted,) = contexts_of_quotes([separator.join(texts[start:end])], contexts)
    assert sorted(quoted.cited) == list(range(start, end))


def test_a_range_of_blocks_may_begin_and_end_inside_contexts() -> None:
    pairs = zip(TEXTS, OTHERS, strict=True)
    contexts = [Context(text=f"{one} {other}") for one, other in pairs]
    (quoted,) = contexts_of_quotes([OTHERS[0] + TEXTS[1]], contexts)
    assert quoted.cited == (0, 1)


@pytest.mark.parametrize("words", [TEXTS[0] + EARLIER, EARLIER + TEXTS[0]])
def test_a_quote_that_is_shown_in_part_alone_cites_nothing_shown(words: str) -> None:
    contexts = [Context(text=text) for text in TEXTS]
    (quoted,) = contexts_of_quotes([words], contexts)
    assert quoted.cited == ()
