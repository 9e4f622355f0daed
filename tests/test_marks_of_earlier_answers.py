"""Answers that repeat a sentence of an earlier turn's answer, together with its mark."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from haystack.dataclasses import ChatMessage
from haystack_pipelines import answered_by_pipeline
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough, RunnableSerializable
from langchain_ragmetrics import capture as capture_langchain
from test_planted_losses import QUESTION, Finds, Found

from ragmetrics_core import Sample

EARLIER = (
    "The park was founded in 1911 by Count Arnim [1]. It was enlarged in 1934 [6]."
)
SENTENCES = ("The park was founded in 1911 by Count Arnim", "It was enlarged in 1934")


def answered(answer: str, earlier: str = EARLIER) -> Sample:
    """A chain of LangChain with a history."""
    return answered_by(
        ChatPromptTemplate.from_messages(
            [
                ("system", "Cite by number.\n\n{context}"),
                HumanMessage("When was it founded?"),
                AIMessage(earlier),
                ("human", "{question}"),
            ]
        ),
        answer,
    )


def numbered_context() -> RunnableSerializable[str, str]:
    """A retriever of LangChain, and its texts under "[1]", "[2]", and so on."""
    return Found() | (
        lambda documents: "\n".join(
            f"[{number}] {document.page_content}"
            for number, document in enumerate(documents, start=1)
        )
    )


def answered_by(prompt: ChatPromptTemplate, answer: str) -> Sample:
    """A chain of LangChain with this prompt."""
    chain = (
        {"context": numbered_context(), "question": RunnablePassthrough()}
        | prompt
        | FakeListChatModel(responses=[answer])
    )
    with capture_langchain() as captured:
        chain.invoke(QUESTION)
    (sample,) = captured.samples
    return sample


def answered_after_a_written_history(answer: str) -> Sample:
    """A chain whose history is written out in its one message."""
    history = f"User: When was it founded?\nAssistant: {EARLIER}\nUser: {{question}}"
    template = "Cite by number.\n\n{context}\n\n" + history + "\nAssistant:"
    return answered_by(ChatPromptTemplate.from_template(template), answer)


def in_haystack(answer: str) -> Sample:
    """A pipeline of Haystack with a history."""
    context = "{% for d in documents %}[{{ loop.index }}] {{ d.content }}\n{% endfor %}"
    template = [
        ChatMessage.from_system("Cite by number.\n" + context),
        ChatMessage.from_user("When was it founded?"),
        ChatMessage.from_assistant(EARLIER),
        ChatMessage.from_user("{{ query }}"),
    ]
    return answered_by_pipeline(Finds((0, 1, 2)), template, answer, QUESTION)


@settings(max_examples=examples(10), deadline=None)
@given(
    sentence=st.sampled_from(SENTENCES),
    opening=st.sampled_from(("", "As mentioned, ", "Yes: ")),
    new_sentence=st.sampled_from(("", " The bridge opened in 1874 [2].")),
)
def test_a_repeated_mark_is_unknown(
    sentence: str, opening: str, new_sentence: str
) -> None:
    number = 1 if sentence == SENTENCES[0] else 6
    repeated = sentence[0].lower() + sentence[1:] if opening else sentence
    sample = answered(f"{opening}{repeated} [{number}].{new_sentence}")
    assert sample.citations is None
    assert f"an earlier answer has [{number}]" in sample.citations_unknown


@pytest.mark.parametrize("answered_in", [in_haystack, answered_after_a_written_history])
def test_a_repeated_mark_is_unknown_wherever_the_history_stands(
    answered_in: Callable[[str], Sample],
) -> None:
    sample = answered_in("The park was founded in 1911 by Count Arnim [1].")
    assert sample.citations is None
    assert "an earlier answer has [1]" in sample.citations_unknown


def test_the_same_number_behind_other_words_is_that_of_the_new_prompt() -> None:
    for sample in (
        answered("The Velm rises in the hills [1]. It fell [9]."),
        in_haystack("The Velm rises in the hills [1]. It fell [9]."),
        answered_after_a_written_history(
            "The Velm rises in the hills [1]. It fell [9]."
        ),
    ):
        assert [c.contexts for c in sample.citations or ()] == [(0,), ()]


def test_another_number_behind_the_same_words_is_that_of_the_new_prompt() -> None:
    sample = answered("The park was founded in 1911 by Count Arnim [2].")
    assert [c.contexts for c in sample.citations or ()] == [(1,)]


@settings(max_examples=examples(10), deadline=None)
@given(
    clause=st.sampled_from(
        ("Besides the founding by Arnim", "After 1911", "Unlike Count Arnim's park")
    ),
    answered_in=st.sampled_from(
        (answered, in_haystack, answered_after_a_written_history)
    ),
)
def test_a_number_beside_words_that_only_the_earlier_answer_has_is_unknown(
    clause: str, answered_in: Callable[[str], Sample]
) -> None:
    sample = answered_in(f"{clause} [1], the bridge was opened in 1874 [2].")
    assert sample.citations is None
    assert "an earlier answer has [1]" in sample.citations_unknown


def test_words_that_the_passage_has_too_are_those_of_the_passage() -> None:
    earlier = "The Velm rises in the hills, and Count Arnim went there [1]."
    sample = answered("The Velm rises in the hills [1].", earlier)
    assert [c.contexts for c in sample.citations or ()] == [(0,)]


def test_a_number_of_the_earlier_prompt_alone_is_not_made_up() -> None:
    sample = answered("It was enlarged later [6].")
    assert sample.citations is None
    assert "an earlier answer has [6]" in sample.citations_unknown


def test_a_repeated_mark_is_unknown_after_a_sentence_of_few_words() -> None:
    sample = answered("In the end it closed [1].", earlier="It closed [1].")
    assert sample.citations is None
    assert "an earlier answer has [1]" in sample.citations_unknown


def test_a_draft_of_this_turn_is_no_earlier_answer() -> None:
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
