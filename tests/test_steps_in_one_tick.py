"""Rerankers that follow one another in one tick of the clock: the second is the last."""

from typing import Any

import pytest

from ragmetrics_core.data.sample_parts import PassageNote
from ragmetrics_core.traces import samples_from_spans

LAMP = "Anna Brandt kept the lamp."
TOWER = "The tower is built of red stone."
RAIN = "Rain fell on the harbour all day."
QUESTION = "Who kept the lamp?"


def _span(
    number: str, name: str, kind: str, start: int, end: int, **attributes: str
) -> dict[str, Any]:
    """A span whose clock counts milliseconds; "1" is the root."""
    attributes = {"openinference.span.kind": kind, **attributes}
    return {
        "traceId": "a" * 32,
        "spanId": number * 16,
        "parentSpanId": "" if number == "1" else "1" * 16,
        "name": name,
        "startTimeUnixNano": str(start * 10**6),
        "endTimeUnixNano": str(end * 10**6),
        "attributes": [
            {"key": key, "value": {"stringValue": value}}
            for key, value in attributes.items()
        ],
    }


def _documents(field: str, *texts: str) -> dict[str, str]:
    return {
        f"{field}.{index}.document.content": text for index, text in enumerate(texts)
    }


def _reranker(
    number: str,
    name: str,
    ticks: tuple[int, int],
    *,
    given: list[str],
    returned: list[str],
) -> dict[str, Any]:
    return _span(
        number,
        name,
        "RERANKER",
        *ticks,
        **_documents("reranker.input_documents", *given),
        **_documents("reranker.output_documents", *returned),
    )


def _notes(*rerankers: dict[str, Any]) -> dict[str, PassageNote]:
    """The note of each passage of an application, by the passage's text."""
    said = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": f"{LAMP}\n\n{QUESTION}",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "Anna Brandt.",
    }
    whole = {"input.value": QUESTION, "output.value": "Anna Brandt."}
    found = _documents("retrieval.documents", RAIN, TOWER, LAMP)
    spans = [
        _span("1", "app", "CHAIN", 1, 90, **whole),
        _span("2", "search", "RETRIEVER", 2, 10, **found),
        *rerankers,
        _span("5", "model", "LLM", 32, 80, **said),
    ]
    [sample] = samples_from_spans(
        [{"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}]
    )
    assert sample.retrieved is not None
    assert sample.capture is not None
    texts = [document.text for document in sample.retrieved]
    return dict(zip(texts, sample.capture.passages, strict=True))


@pytest.mark.parametrize("begins", [20, 21])
def test_a_reranker_that_begins_where_another_ends_is_the_last(begins: int) -> None:
    notes = _notes(
        _reranker(
            "3", "coarse", (12, 20), given=[RAIN, TOWER, LAMP], returned=[LAMP, TOWER]
        ),
        _reranker("4", "fine", (begins, 30), given=[LAMP, TOWER], returned=[LAMP]),
    )
    assert (notes[LAMP].kept, notes[LAMP].rank_kept) == (True, 1)
    assert (notes[TOWER].kept, notes[TOWER].dropped_by) == (False, "fine")
    assert (notes[RAIN].kept, notes[RAIN].dropped_by) == (False, "coarse")


@pytest.mark.parametrize("ends", [20, 25])
def test_two_rerankers_of_one_tick_both_keep_what_they_only_order(ends: int) -> None:
    everything = [RAIN, TOWER, LAMP]
    notes = _notes(
        _reranker(
            "3", "coarse", (20, 20), given=everything, returned=[TOWER, RAIN, LAMP]
        ),
        _reranker(
            "4",
            "fine",
            (20, ends),
            given=[TOWER, RAIN, LAMP],
            returned=[LAMP, TOWER, RAIN],
        ),
    )
    assert [notes[text].kept for text in everything] == [True, True, True]
    assert [notes[text].rank_kept for text in (LAMP, TOWER, RAIN)] == [1, 2, 3]
