"""The ledger of agents and pipelines as people write them: each call that brought evidence."""

from __future__ import annotations

import pytest
from haystack_apps import SHORT, TEXTS
from haystack_integrations.components.evaluators.ragmetrics import capture
from haystack_ledgers import ROWS, UNKNOWN, Call

from ragmetrics_core.data.sample import EvidenceCall

KNOWN = {**TEXTS, **SHORT}


@pytest.mark.filterwarnings("ignore:.*experimental component")
@pytest.mark.parametrize("name", ROWS)
def test_ledger(name: str) -> None:
    one = ROWS[name]
    with capture(**one.capture) as captured:
        one.play()
    *earlier, sample = captured.samples
    assert len(earlier) == one.turns - 1
    assert (
        len({turn.ledger.conversation for turn in captured.samples if turn.ledger}) == 1
    )
    assert sample.ledger is not None
    assert [seen(call) for call in sample.ledger.calls] == [
        wanted(call) for call in one.calls
    ]
    for call, expected in zip(sample.ledger.calls, one.calls, strict=True):
        assert expected.error in (call.error or "")
    assert [
        context.id if context.id in KNOWN else context.text
        for context in sample.known_contexts
    ] == list(one.contexts)
    assert sample.answer == one.answer
    assert sample.capture is not None
    assert set(sample.capture.doubts) == set(one.doubts)
    assert sample.ledger.turn == max([one.turns, *(call.turn for call in one.calls)])


def wanted(call: Call) -> dict[str, object]:
    shown = tuple(range(len(call.items))) if call.shown is None else call.shown
    return {**vars(call), "shown": shown, "error": bool(call.error)}


def seen(call: EvidenceCall) -> dict[str, object]:
    for item in call.items:
        assert item.id not in KNOWN or item.text == KNOWN[str(item.id)]
    shown = UNKNOWN if call.shown is None else call.shown
    return {
        "kind": call.kind,
        "step": call.step,
        "items": tuple(
            item.id if item.id in KNOWN else item.text for item in call.items
        ),
        "name": call.name,
        "query": call.query,
        "shown": shown if call.items or call.shown else (),
        "agent": call.agent,
        "error": bool(call.error),
        "turn": call.turn,
    }


# What the framework shows of each part of a ledger; it knows neither hand-offs nor ids
# of conversations.
SHOWN = {
    "call: name, raw output": (
        "a_function_that_returns_documents",
        "a_tool_that_returns_data",
    ),
    "call that fails": (
        "a_tool_that_fails_and_is_tried_again",
        "a_retriever_that_fails_inside_a_tool",
    ),
    "call that finds nothing": ("nothing_is_found", "a_tool_that_finds_nothing"),
    "calls in parallel": (
        "calls_beside_each_other",
        "calls_beside_each_other_in_an_event_loop",
    ),
    "text shown": (
        "a_tool_that_shows_one_of_three",
        "a_tool_that_prints_its_documents",
    ),
    "step": ("a_query_that_a_model_wrote", "one_tool_after_the_other"),
    "sub-agent": (
        "an_agent_as_tool",
        "an_agent_tool",
        "an_agent_of_an_agent",
        "two_agents_in_one_pipeline",
    ),
    "person": (
        "a_call_that_a_person_edits",
        "a_call_that_a_person_rejects",
        "a_run_that_pauses_and_goes_on",
    ),
    "conversation": (
        "a_message_store",
        "two_runs_of_a_conversation_that_the_user_names",
    ),
    "compaction": (
        "a_result_that_is_pruned",
        "messages_that_are_left_out",
        "messages_that_are_summed_up",
    ),
    "given": (
        "documents_that_come_with_the_question",
        "an_agent_that_is_handed_documents",
    ),
}


def test_what_the_framework_shows_has_its_rows() -> None:
    assert {name for names in SHOWN.values() for name in names} <= set(ROWS)
    assert len(ROWS) >= 20
