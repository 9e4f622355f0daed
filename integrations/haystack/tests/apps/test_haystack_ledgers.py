"""The ledger of agents and pipelines as people write them: each call that brought evidence."""

from __future__ import annotations

import pytest
from haystack_apps import SHORT, TEXTS
from haystack_integrations.components.evaluators.ragmetrics import capture
from haystack_ledgers import ROWS, UNKNOWN, Call

from ragmetrics_core.data.sample_parts import EvidenceCall

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
