"""Cleared results of tools, pages that a provider found, texts written again, runs resumed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_tree_rules import (
    ANSWER,
    CLEARED,
    DOCS,
    EVORA,
    FARO,
    OTHER_TEXT,
    PLAIN_TEXT,
    PORTO,
    QUESTION,
    SAYS,
    TOOL_CALL,
    Clock,
    alone,
    asked,
    model,
    retriever,
    step,
    tool,
    tree,
)

from ragmetrics_core.capture import Document, Message, Node, samples_of
from ragmetrics_core.capture.tree import THREAD
from ragmetrics_core.capture.turns import join_trees
from ragmetrics_core.data.sample import Sample

FOUND_BY_PROVIDER = "may have been shown to the answering call, too"


def only_sample(clock: Clock, *calls: Callable[[], Node]) -> Sample:
    (sample,) = samples_of(tree(clock, *calls, answers=SAYS, is_always_a_sample=True))
    assert sample.capture is not None
    return sample


def is_told(sample: Sample, words: str) -> bool:
    assert sample.capture is not None
    return any(words in warning for warning in sample.capture.warnings)


def shown(clock: Clock, results: list[str], reply: str | Message) -> Callable[[], Node]:
    """A model that is shown the question and some results of tools."""
    messages = [Message("tool", text) for text in results]
    return model(clock, [Message("user", QUESTION), *messages], reply)


def test_an_answer_without_messages_of_tools_had_none_taken_out() -> None:
    c = Clock()
    sample = only_sample(
        c,
        shown(c, [], TOOL_CALL),
        tool(c, PLAIN_TEXT, name="search"),
        shown(c, [PLAIN_TEXT], TOOL_CALL),
        tool(c, OTHER_TEXT, name="search"),
        shown(c, [], ANSWER),
    )
    assert not is_told(sample, CLEARED)


def test_results_of_an_agent_inside_a_tool_are_no_results_of_the_one_around_it() -> (
    None
):
    """The inner agent reads a result; the outer one is shown only what that agent wrote."""
    c = Clock()
    inner = [
        shown(c, [], TOOL_CALL),
        tool(c, PLAIN_TEXT, name="search"),
        shown(c, [PLAIN_TEXT], OTHER_TEXT),
    ]
    sample = only_sample(
        c,
        shown(c, [], TOOL_CALL),
        tool(c, OTHER_TEXT, *inner, name="researcher"),
        shown(c, [OTHER_TEXT], ANSWER),
    )
    assert not is_told(sample, CLEARED)


def test_an_agent_that_answers_inside_a_tool_has_prompts_of_its_own() -> None:
    """What the outer agent was shown need not stand in the inner agent's prompt."""
    c = Clock()
    inner = [
        shown(c, [], TOOL_CALL),
        tool(c, OTHER_TEXT, name="search"),
        shown(c, [OTHER_TEXT], ANSWER),
    ]
    sample = only_sample(
        c,
        shown(c, [], TOOL_CALL),
        tool(c, PLAIN_TEXT, name="search"),
        shown(c, [PLAIN_TEXT], TOOL_CALL),
        tool(c, ANSWER, *inner, name="researcher"),
    )
    assert not is_told(sample, CLEARED)


def test_a_result_shown_only_after_the_answer_was_not_taken_out_before_it() -> None:
    """A judge behind the answer reads the whole result; the answer's prompt a short one."""
    c = Clock()
    sample = only_sample(
        c,
        shown(c, [], TOOL_CALL),
        tool(c, PLAIN_TEXT, name="search"),
        shown(c, ["[shortened]"], ANSWER),
        shown(c, [PLAIN_TEXT], "yes"),
    )
    assert sample.answer == ANSWER
    assert not is_told(sample, CLEARED)


def provider_search(clock: Clock, text: str) -> Callable[[], Node]:
    return lambda: clock.node(
        "retriever",
        name="web_search",
        query=QUESTION,
        documents=(Document(text, "page"),),
        by_provider=True,
    )


def model_with_search(
    clock: Clock, page: str, prompt: str, reply: str | Message
) -> Callable[[], Node]:
    """A model whose provider searches while it answers."""

    def node() -> Node:
        call = model(clock, prompt, reply)()
        call.children = [provider_search(clock, page)()]
        call.ended = next(clock.now)
        return call

    return node


@pytest.mark.parametrize(
    ("second_prompt", "is_doubted"),
    [(QUESTION, True), (asked(f"{PORTO}\n{FARO}"), False)],
)
def test_a_page_found_for_an_earlier_call_is_doubted_unless_the_answer_s_prompt_holds_it(
    second_prompt: str, is_doubted: bool
) -> None:
    c = Clock()
    first = model_with_search(c, FARO, QUESTION, TOOL_CALL)
    calls = [
        retriever(c, DOCS[0]),
        first,
        tool(c, PLAIN_TEXT, name="search"),
        shown_with(c, second_prompt, PLAIN_TEXT),
    ]
    sample = only_sample(c, *calls)
    assert is_told(sample, FOUND_BY_PROVIDER) is is_doubted


def shown_with(clock: Clock, prompt: str, result: str) -> Callable[[], Node]:
    return model(clock, [Message("user", prompt), Message("tool", result)], ANSWER)


def test_a_page_found_for_the_answer_itself_is_not_doubted() -> None:
    c = Clock()
    sample = only_sample(
        c, retriever(c, DOCS[0]), model_with_search(c, FARO, asked(PORTO), ANSWER)
    )
    assert not is_told(sample, FOUND_BY_PROVIDER)


def texts_of_ledger(sample: Sample) -> list[str]:
    assert sample.ledger is not None
    texts: list[str] = []
    for call in sample.ledger.calls:
        texts += [item.text for item in call.items]
    return texts


def test_a_tool_whose_text_equals_the_answer_is_evidence() -> None:
    """Only what a model wrote is left out of the ledger where it is the answer again."""
    c = Clock()
    sample = only_sample(
        c,
        shown(c, [], TOOL_CALL),
        tool(c, ANSWER, name="search"),
        shown(c, [ANSWER], ANSWER),
    )
    assert ANSWER in texts_of_ledger(sample)


def test_a_tools_text_that_is_handed_out_as_the_answer_is_evidence() -> None:
    c = Clock()
    sample = only_sample(c, shown(c, [], TOOL_CALL), tool(c, ANSWER, name="search"))
    assert sample.answer == ANSWER
    assert ANSWER in texts_of_ledger(sample)


@pytest.mark.parametrize("is_read_by_a_model", [True, False])
def test_an_agents_reply_that_is_the_answer_again_is_evidence_if_a_model_read_it(
    is_read_by_a_model: bool,
) -> None:
    """A tool whose model writes the answer; it is handed to the agent, or out at once."""
    c = Clock()
    inner = model(c, QUESTION, ANSWER, name="writer")
    calls = [
        retriever(c, DOCS[0]),
        shown(c, [], TOOL_CALL),
        tool(c, ANSWER, inner, name="ask a colleague"),
    ]
    if is_read_by_a_model:
        calls.append(shown(c, [ANSWER], ANSWER))
    sample = only_sample(c, *calls)
    assert (ANSWER in texts_of_ledger(sample)) is is_read_by_a_model


@pytest.mark.parametrize("is_another_found", [True, False])
def test_a_piece_that_a_step_returns_is_not_retrieved_again(
    is_another_found: bool,
) -> None:
    """A node of a graph cuts a known text to a piece, and may search for a new one."""
    c = Clock()
    piece = Document(PORTO[:60], "piece")
    others = (DOCS[2],) if is_another_found else ()
    sample = only_sample(
        c,
        retriever(c, *DOCS[:2]),
        step(c, piece, *others, name="search"),
        model(c, asked("\n".join([FARO, *(other.text for other in others)]))),
    )
    names = [document.id for document in sample.retrieved or ()]
    assert names == ["p", "f", *(["e"] if is_another_found else [])]


def test_a_step_that_found_no_context_is_no_search() -> None:
    """Its new texts are shown to nobody; what it is, is not known."""
    c = Clock()
    sample = only_sample(
        c,
        retriever(c, DOCS[0]),
        step(c, DOCS[1], name="notes"),
        model(c, asked(f"{PORTO}\n{EVORA}")),
    )
    assert [document.id for document in sample.retrieved or ()] == ["p"]


def test_of_two_steps_the_one_whose_text_was_shown_is_a_search() -> None:
    c = Clock()
    sample = only_sample(
        c,
        retriever(c, DOCS[0]),
        step(c, DOCS[1], name="notes"),
        step(c, DOCS[2], name="search"),
        model(c, asked(f"{PORTO}\n{EVORA}")),
    )
    assert [document.id for document in sample.retrieved or ()] == ["p", "e"]


@pytest.mark.parametrize(
    ("tool_call_id", "query", "n_counted"),
    [("1", "Douro", 1), ("2", "Douro", 2), ("1", "Algarve", 2)],
)
def test_a_tool_run_again_when_a_graph_is_resumed_counts_once(
    tool_call_id: str, query: str, n_counted: int
) -> None:
    """The same call has the same id and the same query."""
    c = Clock()
    first = alone(
        tool(c, PLAIN_TEXT, name="search", tool_call_id="1", query="Douro"),
        question=QUESTION,
    )
    second_run = tree(
        c,
        tool(c, OTHER_TEXT, name="search", tool_call_id=tool_call_id, query=query),
        shown(c, [OTHER_TEXT], ANSWER),
        answers=SAYS,
        is_always_a_sample=True,
    )
    (sample,) = samples_of(join_trees([first, second_run], THREAD))
    texts = [PLAIN_TEXT, OTHER_TEXT]
    assert texts_of_ledger(sample) == texts[-n_counted:]
