"""Streamed chats of LlamaIndex: what a thread writes beside them is never another's answer."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from spans_by_hand import ANSWER, GATE, MILL, QUESTION, Told, otlp, span

from ragmetrics_core import Sample
from ragmetrics_core.traces import samples_from_spans

OTHER_QUESTION, OTHER_ANSWER = "Where does the mill lie?", "By the river Lahn."


def chat(
    number: int,
    question: str,
    text: str,
    start: int,
    name: str = "ContextChatEngine",
    parent: str = "",
) -> list[Told]:
    """The spans of a streamed chat, as Traceloop writes them: they hold no answer."""
    nodes = [{"node": {"id_": f"node {number}", "text": text}, "score": 0.9}]
    engine = f"chat{number}"
    full_name = f"{name}.task" if parent else f"{name}.workflow"
    return [
        _span(engine, parent, start, start + 9, full_name, {"message": question}),
        _span(
            f"find{number}",
            engine,
            start + 1,
            start + 2,
            "Retriever.task",
            {"str_or_query_bundle": question},
            [json.dumps(node) for node in nodes],
        ),
    ]


def writer(
    number: int,
    question: str,
    text: str,
    answer: str,
    start: int,
    parent: str = "lost",
    history: str = "",
) -> list[Told]:
    """The spans of what writes a chat's answer; its parent is never exported."""
    prompt = [{"role": "user", "content": f"{history}{text}\n{question}"}]
    reply = [{"role": "assistant", "content": answer}]
    model = _span(
        f"say{number}",
        f"write{number}",
        start + 1,
        start + 2,
        "Model.task",
        {"messages": prompt},
    )
    model["attributes"] += _attributes(
        {"gen_ai.input.messages": prompt, "gen_ai.output.messages": reply}
    )
    name = "StreamingAgentChatResponse.workflow"
    return [_span(f"write{number}", parent, start, start + 3, name), model]


def _span(
    short_name: str,
    parent: str,
    start: int,
    end: int,
    name: str,
    inputs: Any = None,
    output: Any = None,
) -> Told:
    made = span(short_name, parent, start, end, traceloop__span__kind="task")
    values = {"traceloop.entity.input": inputs, "traceloop.entity.output": output}
    recorded = {key: value for key, value in values.items() if value is not None}
    attributes = [*made["attributes"], *_attributes(recorded)]
    return {**made, "name": name, "attributes": attributes}


def _attributes(values: dict[str, Any]) -> list[Told]:
    return [
        {"key": key, "value": {"stringValue": json.dumps(value)}}
        for key, value in values.items()
    ]


def read(*spans: list[Told]) -> list[Sample]:
    made = otlp(*(one for some in spans for one in some), scope="llamaindex")
    return list(samples_from_spans([made]))


def seen(sample: Sample) -> tuple[str | None, list[str], str | None]:
    return sample.question, [one.text for one in sample.known_contexts], sample.answer


def grade(sample: Sample) -> str:
    assert sample.capture is not None
    return sample.capture.grade


def test_a_chat_below_another_span_is_known_by_what_it_was_given() -> None:
    """Traceloop calls only an outermost call a workflow: this chat is a task."""
    spans = chat(1, QUESTION, GATE, 10, parent="app")
    app = _span("app", "", 1, 90, "app.task", {"page": 1})
    (sample,) = read([app], spans, writer(1, QUESTION, GATE, ANSWER, 13, "chat1"))
    assert seen(sample) == (QUESTION, [GATE], ANSWER)
    assert grade(sample) in ("exact", "inferred")


def test_of_two_chats_with_one_question_neither_takes_the_answer() -> None:
    """Nothing tells which of them the thread wrote for."""
    spans = [
        chat(1, QUESTION, GATE, 10),
        chat(2, QUESTION, MILL, 11),
        writer(1, QUESTION, GATE, ANSWER, 30),
    ]
    samples = read(*spans)
    by_contexts = [seen(sample)[1:] for sample in samples]
    assert [GATE] not in [texts for texts, answer in by_contexts if answer]
    assert "exact" not in {grade(sample) for sample in samples}


def test_a_chat_takes_no_answer_to_another_question() -> None:
    spans = [
        chat(1, QUESTION, GATE, 10),
        writer(2, OTHER_QUESTION, MILL, OTHER_ANSWER, 30),
    ]
    samples = read(*spans)
    assert (QUESTION, [GATE], None) in map(seen, samples)
    assert {grade(sample) for sample in samples} == {"incomplete"}


@given(st.permutations(range(3)), st.permutations(range(3)), st.sets(st.integers(0, 2)))
def test_in_whatever_order_threads_write_no_answer_is_anothers(
    chats: list[int], writers: list[int], lost: set[int]
) -> None:
    """Three chats at the same time; the writers of some are lost."""
    turns = [
        (QUESTION, GATE, ANSWER),
        (OTHER_QUESTION, MILL, OTHER_ANSWER),
        ("Who cast the bell?", "Anna Brandt cast the bell.", "Anna Brandt."),
    ]
    spans: list[list[Told]] = []
    for place, number in enumerate(chats):
        question, text, _ = turns[number]
        spans.append(chat(number, question, text, 10 + 2 * place))
    for place, number in enumerate(writers):
        if number not in lost:
            spans.append(writer(number, *turns[number], 40 + 10 * place))
    answers = {question: answer for question, _, answer in turns}
    samples = read(*spans)
    for sample in samples:
        if sample.question in answers:
            assert sample.answer in (None, answers[sample.question])
        assert grade(sample) == "incomplete"
