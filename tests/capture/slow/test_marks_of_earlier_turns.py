"""Numbers that an earlier turn gave to texts: a mark of now that may repeat them is unknown."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough, RunnableSerializable
from langchain_ragmetrics import capture as capture_langchain
from planted_pipelines import QUESTION, Found

from ragmetrics_core import Sample

EARLIER = (
    "The park was founded in 1911 by Count Arnim [1]. It was enlarged in 1934 [6]."
)
COAL = "Coal was found below the village in the spring of the same year."


def numbered_context() -> RunnableSerializable[str, str]:
    """A retriever of LangChain, and its texts under "[1]", "[2]", and so on."""
    return Found() | (
        lambda documents: "\n".join(
            f"[{number}] {document.page_content}"
            for number, document in enumerate(documents, start=1)
        )
    )


def in_langchain(earlier: str, result: str, answer: str) -> Sample:
    """A chain whose prompt holds an earlier turn: a tool's result, and the answer."""
    call = {"name": "search", "args": {"query": "x"}, "id": "a"}
    messages: Sequence[BaseMessage | tuple[str, str]] = [
        ("system", "Cite by number.\n\n{context}"),
        HumanMessage("When was it founded?"),
        AIMessage("", tool_calls=[call]),
        ToolMessage(result, tool_call_id="a"),
        AIMessage(earlier),
        ("human", "{question}"),
    ]
    chain = (
        {"context": numbered_context(), "question": RunnablePassthrough()}
        | ChatPromptTemplate.from_messages(messages)
        | FakeListChatModel(responses=[answer])
    )
    with capture_langchain() as captured:
        chain.invoke(QUESTION)
    (sample,) = captured.samples
    return sample


Known = list[tuple[int, ...]] | None  # the contexts of each mark; None: unknown
ROWS: dict[str, tuple[str, str, str, Known]] = {
    "a repeated mark": (
        EARLIER,
        "",
        "The park was founded in 1911 by Count Arnim [1].",
        None,
    ),
    "a number of the earlier answer alone": (
        EARLIER,
        "",
        "It was enlarged later [6].",
        None,
    ),
    "a repeated mark beside a new one": (
        EARLIER,
        "",
        "After 1911 [1], the bridge was opened in 1874 [2].",
        None,
    ),
    "another number": (EARLIER, "", "The park was founded in 1911 [2].", None),
    "a number of an earlier result": (
        "There was a mill.",
        f"[1] {COAL}",
        "The Velm rises in the hills [1].",
        None,
    ),
    "an earlier result without numbers": (
        "There was a mill.",
        COAL,
        "The Velm rises in the hills [1].",
        [(0,)],
    ),
    "an earlier result of nothing": (
        "There was a mill.",
        "---\n",
        "The Velm rises in the hills [1]. It fell [9].",
        [(0,), ()],
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_number_that_an_earlier_turn_has_too_is_unknown(name):
    *texts, known = ROWS[name]
    sample = in_langchain(*texts)
    if known is None:
        assert sample.citations is None
    else:
        assert [one.contexts for one in sample.citations or ()] == known


def test_a_draft_of_this_turn_is_no_earlier_answer():
    answer = "The park was founded in 1911 by Count Arnim [1]."
    draft = ChatPromptTemplate.from_template(
        "Cite by number.\n\n{context}\n\n{question}"
    )
    better = ChatPromptTemplate.from_messages(
        [
            ("system", "Cite by number.\n\n{context}"),
            ("human", "{question}"),
            ("ai", "{draft}"),
            ("human", "Say it better."),
        ]
    )
    write_draft = draft | FakeListChatModel(responses=[answer]) | StrOutputParser()
    chain = (
        {"context": numbered_context(), "question": RunnablePassthrough()}
        | RunnablePassthrough.assign(draft=write_draft)
        | better
        | FakeListChatModel(responses=[f"So it is: {answer}"])
    )
    with capture_langchain() as captured:
        chain.invoke(QUESTION)
    (sample,) = captured.samples
    assert [citation.contexts for citation in sample.citations or ()] == [(0,)]
