"""Prompts that still show a tool's result of an earlier turn: what its numbers leave unknown."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from haystack.dataclasses import ChatMessage, ToolCall
from haystack_pipelines import answered_by_pipeline
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_ragmetrics import capture as capture_langchain
from test_planted_losses import QUESTION, TEXTS, Finds, Found

from ragmetrics_core import Sample

# how a tool writes its results
FORMS = (
    "[{}] {}",
    "Source {}:\n{}",
    "{}. {}",
    '<doc id="{}">{}</doc>',
    '{{"id": {}, "text": "{}"}}',
    "[{}] report.pdf\n{}",
)
OTHER_TEXTS = (
    "Coal was found below the village in the spring of the same year.",
    "The mill was sold to a paper maker from another town.",
)


def result_of_tool(form: str, numbers: list[int], texts: tuple[str, ...]) -> str:
    """What a tool returned in an earlier turn."""
    return "\n\n".join(
        form.format(number, text) for number, text in zip(numbers, texts, strict=False)
    )


def in_langchain(earlier: str, answer: str) -> Sample:
    """A chain whose prompt holds the messages of an earlier turn."""
    call = {"name": "search", "args": {"query": "x"}, "id": "a"}
    prompt = ChatPromptTemplate.from_messages(
        [
            ("system", "Cite by number.\n\n{context}"),
            HumanMessage("And the village?"),
            AIMessage("", tool_calls=[call]),
            ToolMessage(earlier, tool_call_id="a"),
            AIMessage("There was a mill."),
            ("human", "{question}"),
        ]
    )
    context = Found() | (
        lambda documents: "\n".join(
            f"[{number}] {document.page_content}"
            for number, document in enumerate(documents, start=1)
        )
    )
    chain = (
        {"context": context, "question": RunnablePassthrough()}
        | prompt
        | FakeListChatModel(responses=[answer])
    )
    with capture_langchain() as captured:
        chain.invoke(QUESTION)
    (sample,) = captured.samples
    return sample


def in_haystack(earlier: str, answer: str) -> Sample:
    """A pipeline whose prompt holds the messages of an earlier turn."""
    context = "{% for d in documents %}[{{ loop.index }}] {{ d.content }}\n{% endfor %}"
    call = ToolCall("search", {"query": "x"}, id="a")
    template = [
        ChatMessage.from_system("Cite by number.\n" + context),
        ChatMessage.from_user("And the village?"),
        ChatMessage.from_assistant(tool_calls=[call]),
        ChatMessage.from_tool(earlier, origin=call),
        ChatMessage.from_assistant("There was a mill."),
        ChatMessage.from_user("{{ query }}"),
    ]
    return answered_by_pipeline(Finds((0, 1, 2)), template, answer, QUESTION)


RUNS: dict[str, Callable[[str, str], Sample]] = {
    "LangChain": in_langchain,
    "Haystack": in_haystack,
}


@settings(max_examples=examples(10), deadline=None)
@given(
    form=st.sampled_from(FORMS),
    earlier=st.sampled_from(([1], [1, 2], [2, 1], [2, 3])),
    number=st.sampled_from((1, 2, 3)),
)
def test_a_number_that_an_earlier_result_has_too_is_unknown(
    form: str, earlier: list[int], number: int
) -> None:
    result = result_of_tool(form, earlier, OTHER_TEXTS)
    sample = in_langchain(result, f"The Velm rises in the hills [{number}].")
    if number in earlier:
        assert sample.citations is None
        assert f"[{number}]" in sample.citations_unknown
    else:
        assert [one.contexts for one in sample.citations or ()] == [(number - 1,)]


@pytest.mark.parametrize("name", RUNS)
def test_numbers_of_an_earlier_result_are_seen_in_each_framework(name: str) -> None:
    result = result_of_tool("[{}] {}", [1], OTHER_TEXTS)
    assert RUNS[name](result, "The Velm rises in the hills [1].").citations is None
    known = RUNS[name](result, "The bridge was opened in 1874 [2].").citations or ()
    assert [one.contexts for one in known] == [(1,)]


def test_a_text_that_an_earlier_result_showed_under_its_number_keeps_its_meaning() -> (
    None
):
    result = result_of_tool("[{}] {}", [1, 2], (TEXTS[0], TEXTS[1]))
    sample = in_langchain(result, "The Velm rises in the hills [1]. It fell [3].")
    assert [one.contexts for one in sample.citations or ()] == [(0,), (2,)]


def test_a_result_without_numbers_leaves_those_of_the_prompt_known() -> None:
    sample = in_langchain(OTHER_TEXTS[0], "The Velm rises in the hills [1].")
    assert [one.contexts for one in sample.citations or ()] == [(0,)]


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("result", ["", " \n", "---\n"])
def test_an_earlier_result_without_words_takes_nothing_away(
    name: str, result: str
) -> None:
    """A search that found nothing gives an empty result."""
    sample = RUNS[name](result, "The Velm rises in the hills [1].")
    assert [one.contexts for one in sample.citations or ()] == [(0,)]
