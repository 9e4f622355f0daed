"""Shapes of traces, each with what a reader must make of it, written before the reader was run.

A sample that is graded exact or located must be one of those that are wanted. A trace
that gives none must be named.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spans_by_hand import Told, otlp, span

from ragmetrics_core import Sample
from ragmetrics_core.data.errors import InputError
from ragmetrics_core.traces import samples_from_spans

GATE = "The gate of Weilburg was built in 1632."
MILL = "The mill lies by the river Lahn."
BELL = "The bell was cast in 1711 by Anna Brandt."
ASK_GATE, SAY_GATE = "When was the gate built?", "It was built in 1632."
ASK_MILL, SAY_MILL = "Where is the mill?", "It is by the Lahn."
ASK_BELL, SAY_BELL = "Who cast the bell?", "Anna Brandt cast it."


@dataclass
class Call:
    """A call of an application, to be written as a span of OpenInference.

    Attributes:
        kind: The kind of the span; "" for a span without a mark.
        attributes: What it records.
        inside: The calls inside it.
    """

    kind: str
    attributes: dict[str, Any] = field(default_factory=dict)
    inside: list[Call] = field(default_factory=list)


def step(
    question: str | None = None,
    answer: str | None = None,
    *inside: Call,
    kind: str = "CHAIN",
    session: str = "",
) -> Call:
    attributes = {"input.value": question, "output.value": answer}
    attributes["session.id"] = session or None
    return Call(kind, attributes, list(inside))


def around(*inside: Call) -> Call:
    """A span of the web server, which no instrumentation of models wrote."""
    return Call("", {"http.route": "/ask"}, list(inside))


def search(query: str, *texts: str, session: str = "") -> Call:
    attributes: dict[str, Any] = {"input.value": query, "session.id": session or None}
    for place, text in enumerate(texts):
        name = f"retrieval.documents.{place}.document"
        attributes[f"{name}.content"] = text
        attributes[f"{name}.id"] = f"id of {text}"
    return Call("RETRIEVER", attributes)


def model(prompt: str | Sequence[str], reply: str, *, session: str = "") -> Call:
    """A call of a model; of several messages every second one is the assistant's."""
    messages = [prompt] if isinstance(prompt, str) else prompt
    attributes: dict[str, Any] = {"session.id": session or None}
    for place, text in enumerate(messages):
        name = f"llm.input_messages.{place}.message"
        attributes[f"{name}.role"] = "assistant" if place % 2 else "user"
        attributes[f"{name}.content"] = text
    attributes["llm.output_messages.0.message.role"] = "assistant"
    attributes["llm.output_messages.0.message.content"] = reply
    return Call("LLM", attributes)


def tool(name: str, arguments: str, text: str) -> Call:
    attributes = {"tool.name": name, "input.value": arguments, "output.value": text}
    return Call("TOOL", attributes)


def rag(question: str, text: str, answer: str, *, session: str = "") -> Call:
    """A chain with a retriever and a model, with what went in and came out."""
    found = search(question, text)
    said = model(shown(text, question), answer)
    return step(question, answer, found, said, session=session)


def shown(text: str, question: str) -> str:
    return f"Answer from this:\n{text}\nQuestion: {question}"


def written(*traces: Call) -> list[Told]:
    """The spans of traces, one after another, each of an id of its own."""
    spans: list[Told] = []
    clock = iter(range(10, 10**6, 10))
    for number, root in enumerate(traces):
        _write(root, "", "abcdefgh"[number], clock, spans)
    return spans


def _write(
    call: Call, parent: str, trace: str, clock: Iterator[int], spans: list[Told]
) -> None:
    start = next(clock)
    name = f"{trace}{start:06}"
    for inner in call.inside:
        _write(inner, name, trace, clock, spans)
    attributes = {
        key: value for key, value in call.attributes.items() if value is not None
    }
    if call.kind:
        attributes["openinference.span.kind"] = call.kind
    spans.append(span(name, parent, start, next(clock), trace, **attributes))


Wanted = tuple[str | None, tuple[str, ...], str | None]


def seen(sample: Sample) -> Wanted:
    texts = tuple(context.text for context in sample.known_contexts)
    return sample.question, texts, sample.answer


OF_GATE: Wanted = (ASK_GATE, (GATE,), SAY_GATE)
OF_MILL: Wanted = (ASK_MILL, (MILL,), SAY_MILL)
OF_BELL: Wanted = (ASK_BELL, (BELL,), SAY_BELL)


@dataclass
class Shape:
    """A shape of traces.

    Attributes:
        traces: The outermost call of each trace.
        wanted: The samples that a reader makes of it, in any order.
        n_exact: How many of them are exact or located; None for all.
        is_whole: Whether the reader finds all that is wanted. Else it finds less, and
            says so by the grade.
        named: The codes of the traces without a sample, by their letter.
        warns: Words that stand in a warning of each sample.
    """

    traces: list[Call]
    wanted: list[Wanted]
    n_exact: int | None = None
    is_whole: bool = True
    named: Mapping[str, str] = field(default_factory=dict)
    warns: str = ""


CHAINS = (
    rag(ASK_GATE, GATE, SAY_GATE),
    rag(ASK_MILL, MILL, SAY_MILL),
    rag(ASK_BELL, BELL, SAY_BELL),
)
FLAT = (
    search(ASK_GATE, GATE),
    model(shown(GATE, ASK_GATE), SAY_GATE),
    search(ASK_MILL, MILL),
    model(shown(MILL, ASK_MILL), SAY_MILL),
)
BOTH = f"{SAY_GATE} {SAY_MILL}"
ASK_BOTH = "When was the gate built, and where is the mill?"

SHAPES: dict[str, Shape] = {
    "one chain": Shape([CHAINS[0]], [OF_GATE]),
    # several questions under one span
    "three chains under a span of the web server": Shape(
        [around(*CHAINS)], [OF_GATE, OF_MILL, OF_BELL]
    ),
    "three chains under a step that says nothing": Shape(
        [step(None, None, *CHAINS)], [OF_GATE, OF_MILL, OF_BELL]
    ),
    "three chains under a step that was given a list": Shape(
        [
            step(
                json.dumps({"questions": [ASK_GATE, ASK_MILL, ASK_BELL]}),
                json.dumps([SAY_GATE, SAY_MILL, SAY_BELL]),
                *CHAINS,
            )
        ],
        [OF_GATE, OF_MILL, OF_BELL],
    ),
    "three chains under two steps that say nothing": Shape(
        [step(None, None, step(None, None, *CHAINS[:2]), CHAINS[2])],
        [OF_GATE, OF_MILL, OF_BELL],
    ),
    "calls of two questions under a span of the web server": Shape(
        [around(*FLAT)], [OF_GATE, OF_MILL], n_exact=0, is_whole=False
    ),
    "calls of two questions under a step that says nothing": Shape(
        [step(None, None, *FLAT)], [OF_GATE, OF_MILL], n_exact=0, is_whole=False
    ),
    "two chains under a step with a question of its own": Shape(
        [step(ASK_BOTH, BOTH, *CHAINS[:2])], [(ASK_BOTH, (GATE, MILL), BOTH)]
    ),
    "parts of a question, and a model that makes one answer of theirs": Shape(
        [
            step(
                ASK_BOTH,
                "1632, and by the Lahn.",
                *CHAINS[:2],
                model(f"{BOTH}\nQuestion: {ASK_BOTH}", "1632, and by the Lahn."),
            )
        ],
        [(ASK_BOTH, (GATE, MILL), "1632, and by the Lahn.")],
        n_exact=0,
        is_whole=False,
    ),
    "parts of a question and the answer made of theirs, below a span of the web server": Shape(
        [
            around(
                *CHAINS[:2],
                step(
                    ASK_BOTH,
                    "1632, and by the Lahn.",
                    model(f"{BOTH}\nQuestion: {ASK_BOTH}", "1632, and by the Lahn."),
                ),
            )
        ],
        [(ASK_BOTH, (GATE, MILL), "1632, and by the Lahn.")],
        n_exact=0,
        is_whole=False,
    ),
    # one question in separate traces: they are not joined
    "a retrieval and a model in traces of one conversation": Shape(
        [
            search(ASK_GATE, GATE, session="one"),
            model(shown(GATE, ASK_GATE), SAY_GATE, session="one"),
        ],
        [(ASK_GATE, (GATE,), None)],
        n_exact=0,
        named={"b": "no_retrieval"},
    ),
    "a retrieval and a model in traces that name no conversation": Shape(
        [search(ASK_GATE, GATE), model(shown(GATE, ASK_GATE), SAY_GATE)],
        [(ASK_GATE, (GATE,), None)],
        n_exact=0,
        named={"b": "no_retrieval"},
    ),
    "a retrieval and a model in traces of two conversations": Shape(
        [
            search(ASK_GATE, GATE, session="one"),
            model(shown(GATE, ASK_GATE), SAY_GATE, session="two"),
        ],
        [(ASK_GATE, (GATE,), None)],
        n_exact=0,
        named={"b": "no_retrieval"},
    ),
    "a text that was found stands in a later trace as the assistant's word": Shape(
        [
            search(ASK_GATE, GATE, session="one"),
            model([ASK_GATE, GATE, "Thank you, and the mill?"], "-", session="one"),
        ],
        [(ASK_GATE, (GATE,), None)],
        n_exact=0,
        named={"b": "no_retrieval"},
    ),
    "a whole turn after a retrieval that nobody answered from": Shape(
        [
            search(ASK_GATE, GATE, session="one"),
            rag(ASK_MILL, MILL, SAY_MILL, session="one"),
        ],
        [(ASK_GATE, (GATE,), None), OF_MILL],
        n_exact=1,
    ),
    # agents
    "an agent whose spans say nothing of the run": Shape(
        [
            step(
                None,
                None,
                step(None, None, model(ASK_GATE, "Let me look it up.")),
                step(
                    None,
                    None,
                    search("gate built", GATE),
                    model([ASK_GATE, "Let me look it up.", GATE], SAY_GATE),
                ),
                kind="AGENT",
            )
        ],
        [OF_GATE],
        n_exact=0,
    ),
    "a tool's text alone": Shape(
        [
            step(
                ASK_GATE,
                SAY_GATE,
                tool("search", '{"query": "gate"}', GATE),
                model(shown(GATE, ASK_GATE), SAY_GATE),
                kind="AGENT",
            )
        ],
        [(ASK_GATE, (), SAY_GATE)],
        n_exact=0,
        warns="context_tools",
    ),
    "a search that is repeated with a query that a model wrote": Shape(
        [
            around(
                search(ASK_GATE, MILL),
                model(shown(MILL, ASK_GATE), "gate Weilburg year"),
                search("gate Weilburg year", GATE),
                model(shown(GATE, ASK_GATE), SAY_GATE),
            )
        ],
        [OF_GATE],
        n_exact=0,
    ),
    "two agents' runs below a span that says nothing": Shape(
        [
            step(
                None,
                None,
                *(
                    step(
                        None,
                        None,
                        model(asked, "I look it up."),
                        search(f"find {text}", text),
                        model([asked, "I look it up.", text], answer),
                        kind="AGENT",
                    )
                    for asked, (text,), answer in (OF_GATE, OF_MILL)
                ),
            )
        ],
        [OF_GATE, OF_MILL],
        n_exact=0,
        is_whole=False,
    ),
    "a turn and a judge's call beside it": Shape(
        [
            around(
                CHAINS[0],
                Call("EVALUATOR", {"input.value": SAY_GATE}, [model(GATE, "yes")]),
            )
        ],
        [OF_GATE],
    ),
}


def _read(spans: list[Told]) -> tuple[list[Sample], dict[str, str], int]:
    """The samples of spans, why traces gave none, and how many spans are unreadable."""
    read = samples_from_spans([otlp(*spans)])
    samples = list(read)
    code_by_trace = dict(read.notes.without_sample)
    assert len(code_by_trace) == len(read.notes.without_sample)
    return samples, code_by_trace, len(read.notes.unreadable)


def _is_exact(sample: Sample) -> bool:
    return sample.capture.grade == "exact"


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("is_shuffled", [False, True], ids=["in order", "shuffled"])
def test_each_shape_gives_what_was_written_before(name, is_shuffled):
    shape = SHAPES[name]
    spans = written(*shape.traces)
    if is_shuffled:
        random.Random(3).shuffle(spans)
    samples, code_by_trace, _ = _read(spans)
    exact = [sample for sample in samples if _is_exact(sample)]
    assert [sample for sample in exact if seen(sample) not in shape.wanted] == []
    if shape.is_whole:
        assert sorted(map(repr, map(seen, samples))) == sorted(map(repr, shape.wanted))
    n_wanted = len(shape.wanted) if shape.n_exact is None else shape.n_exact
    assert len(exact) == n_wanted
    assert {trace[0]: code for trace, code in code_by_trace.items()} == shape.named
    for sample in samples:
        assert shape.warns in " ".join(sample.capture.warnings)


def test_a_span_whose_kind_was_lost_asks_nothing():
    """Nothing tells what it did, so what went into it is no question of a user's."""
    spans = written(around(*FLAT))
    without_first_model = [one for one in spans if one["startTimeUnixNano"] != "40"]
    kept = [
        _without_kind(one) if one["startTimeUnixNano"] == "20" else one
        for one in without_first_model
    ]
    samples, _, _ = _read(kept)
    assert [seen(sample) for sample in samples] == [OF_MILL]


def _without_kind(one: Told, value: Mapping[str, str] | None = None) -> Told:
    attributes = [
        {"key": attribute["key"], "value": value or {}}
        if attribute["key"] == "openinference.span.kind"
        else attribute
        for attribute in one["attributes"]
    ]
    return {**one, "attributes": attributes}


FLAT_SHAPES = (
    "calls of two questions under a span of the web server",
    "calls of two questions under a step that says nothing",
)
CHANGES = ("leave out", "repeat", "lose the parent", "odd attribute", "odd value")


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_each_trace_gives_a_sample_or_is_named_whatever_its_spans_are(data):
    """Spans in any order, left out, repeated, without parents or with odd attributes.

    Nothing is raised, each trace gives a sample or is named, and what an exact sample
    says stands in the spans. Its question and answer belong together, whichever spans
    were left out.
    """
    name = data.draw(st.sampled_from(sorted(SHAPES)))
    spans = written(*SHAPES[name].traces)
    kept: list[Told] = []
    for one in data.draw(st.permutations(spans)):
        change = data.draw(st.sampled_from(("none", "none", *CHANGES)))
        kept += _changed(one, change, data)
    if not kept:
        return
    if not any(_bears_mark(one) for one in kept):
        with pytest.raises(InputError, match="no span bears the mark"):
            _read(kept)
        return
    samples, code_by_trace, _ = _read(kept)
    accounted = set(code_by_trace).union(str(sample.id) for sample in samples)
    assert {one["traceId"] for one in kept} == accounted
    text = json.dumps(kept, ensure_ascii=False)
    for sample in filter(_is_exact, samples):
        said = (
            sample.question,
            sample.answer,
            *(c.text for c in sample.known_contexts),
        )
        assert all(json.dumps(one)[1:-1] in text for one in said if one)
        _assert_belongs_together(sample)


@pytest.mark.parametrize(
    ("name", "lost", "unasked"),
    [
        ("three chains under a span of the web server", (30, 50, 90, 110), ()),
        ("three chains under a span of the web server", (30, 50, 150, 170), ()),
        ("three chains under a span of the web server", (50, 110), (20, 140)),
        (
            "parts of a question and the answer made of theirs,"
            " below a span of the web server",
            (30, 50, 150),
            (),
        ),
    ],
)
def test_a_chain_that_lost_its_calls_gives_its_question_to_no_other_answer(
    name, lost, unasked
):
    """Found by the law: chains without calls looked like steps of the one with calls.

    So did chains whose input was lost, though their searches were asked other things.
    """
    spans = written(*SHAPES[name].traces)
    kept = [one for one in spans if int(one["startTimeUnixNano"]) not in lost]
    assert len(kept) == len(spans) - len(lost)
    for one in kept:
        if int(one["startTimeUnixNano"]) in unasked:
            del one["attributes"][0]
    samples, _, _ = _read(kept)
    assert samples
    for sample in samples:
        assert sample.capture.grade == "inferred"
        assert "which_turn" in sample.capture.doubts


@pytest.mark.parametrize("lost", [("60", "80"), ("20", "40"), ("20", "60"), ("60",)])
@pytest.mark.parametrize("name", FLAT_SHAPES)
def test_a_search_whose_kind_was_lost_gives_its_question_to_no_other_answer(name, lost):
    """Found by the law: of the other calls lost one reply is left, to another question."""
    without_kind, *left_out = lost
    spans = [
        _without_kind(one, {"intValue": "7"})
        if one["startTimeUnixNano"] == without_kind
        else one
        for one in written(*SHAPES[name].traces)
        if one["startTimeUnixNano"] not in left_out
    ]
    samples, _, _ = _read(spans)
    for sample in filter(_is_exact, samples):
        _assert_belongs_together(sample)


@pytest.mark.parametrize("change", ["none", "one process", "other processes"], ids=str)
def test_two_parents_that_are_not_there_say_that_spans_are_missing(change):
    """One missing parent may be around all; of two at least one belongs to the trace."""
    chains = written(around(*CHAINS[:2]))[:-1]
    if change == "lost":
        lost = [one for one in chains if one["startTimeUnixNano"] not in ("20", "80")]
    else:
        flags = 0x300 if change == "other processes" else 0x100
        lost = [
            {**one, "parentSpanId": f"{place}" * 16, "flags": flags}
            if one["startTimeUnixNano"] in ("20", "80")
            else one
            for place, one in enumerate(chains)
        ]
    samples, _, _ = _read(lost)
    assert samples
    grades = set()
    for sample in samples:
        grades.add(sample.capture.grade)
    expected = "exact" if change == "other processes" else "incomplete"
    assert grades == {expected}


def _bears_mark(one: Told) -> bool:
    kinds = [
        attribute["value"]
        for attribute in one["attributes"]
        if attribute["key"] == "openinference.span.kind"
    ]
    return any(kinds)


def _changed(one: Told, change: str, data: st.DataObject) -> list[Told]:
    """What becomes of a span: none, one or two."""
    if change == "leave out":
        return []
    if change == "repeat":
        return [one, dict(one)]
    if change == "lose the parent":
        return [{**one, "parentSpanId": "9" * 16}]
    if change == "odd attribute":
        odd = {"key": "llm.input_messages.0.odd.1", "value": {"stringValue": "{"}}
        return [{**one, "attributes": [*one["attributes"], odd]}]
    if change == "odd value":
        attributes = [dict(attribute) for attribute in one["attributes"]]
        if attributes:
            place = data.draw(st.integers(0, len(attributes) - 1))
            attributes[place]["value"] = data.draw(
                st.sampled_from(
                    [{}, None, {"intValue": "7"}, {"arrayValue": {"values": []}}]
                )
            )
        return [{**one, "attributes": attributes}]
    return [one]


ANSWER_BY_QUESTION = {asked: answer for asked, _, answer in (OF_GATE, OF_MILL, OF_BELL)}


def _assert_belongs_together(sample: Sample) -> None:
    """Fail where an exact sample has the answer to another question than its own."""
    answer = ANSWER_BY_QUESTION.get(sample.question or "")
    if answer is None or sample.answer not in ANSWER_BY_QUESTION.values():
        return
    assert sample.answer == answer
