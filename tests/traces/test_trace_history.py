"""What traces tell of earlier turns, and of a question that no span records."""

import json

import pytest
from spans_by_hand import ANSWER, GATE, MILL, QUESTION, Told, openinference, otlp, span

from ragmetrics_core import Sample
from ragmetrics_core.traces import samples_from_spans

EARLIER = [("user", "Who wrote the chronicle?"), ("assistant", "A monk of Marburg.")]


def said(sample: Sample) -> list[tuple[str, str]]:
    return [(turn.role, turn.content) for turn in sample.history]


def grade(sample: Sample) -> str | None:
    return sample.capture.grade


def prompt_of(spans: list[Told], *messages: tuple[str, str]) -> None:
    """Let the model be shown messages before the prompt that it has."""
    model = spans[2]
    prompt = ("user", text_of(model, "llm.input_messages.0.message.content"))
    model["attributes"] = [
        attribute
        for attribute in model["attributes"]
        if not attribute["key"].startswith("llm.input_messages")
    ]
    for place, (role, text) in enumerate([*messages, prompt]):
        for name, words in (("role", role), ("content", text)):
            key = f"llm.input_messages.{place}.message.{name}"
            attribute = {"key": key, "value": {"stringValue": words}}
            model["attributes"].append(attribute)


def text_of(told: Told, key: str) -> str:
    (text,) = (one["value"] for one in told["attributes"] if one["key"] == key)
    return str(text["stringValue"])


def without(told: Told, *keys: str) -> Told:
    kept = [one for one in told["attributes"] if one["key"] not in keys]
    return {**told, "attributes": kept}


STEP = ("assistant", "Calling tools: search(gate)")


@pytest.mark.parametrize(
    ("prompt", "names_conversation"),
    [
        (EARLIER, False),
        (EARLIER, True),  # which does not say what its first prompt holds
        ([EARLIER[0], STEP, EARLIER[1]], False),  # steps of an agent are no turns
    ],
)
def test_turns_of_the_first_prompt_are_history_in_doubt(prompt, names_conversation):
    """They may be examples: never exact without them."""
    spans = openinference()
    prompt_of(spans, *prompt)
    if names_conversation:
        session = {"key": "session.id", "value": {"stringValue": "one"}}
        spans[0]["attributes"].append(session)
    (sample,) = samples_from_spans([otlp(*spans)])
    assert said(sample) == EARLIER
    assert grade(sample) == "inferred"
    assert "may be examples" in str(sample.capture)


def test_what_tools_returned_in_messages_of_the_user_is_no_turn():
    """As Anthropic's API has it."""

    def observed(id_: str, kind: str, **more: object) -> dict[str, object]:
        parent = None if kind == "SPAN" else "r"
        call = {"id": id_, "traceId": "t", "parentObservationId": parent, "type": kind}
        return {**call, "startTime": f"2026-01-01T00:00:0{len(id_)}Z", **more}

    def returned(text: str) -> list[dict[str, object]]:
        use = {"type": "tool_use", "id": "c", "name": "search", "input": {"q": text}}
        result = {"type": "tool_result", "tool_use_id": "c", "content": text}
        return [
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result]},
        ]

    earlier = [{"role": role, "content": text} for role, text in EARLIER]
    question = {"role": "user", "content": QUESTION}
    prompt = [earlier[0], *returned("A monk."), earlier[1], question, *returned(GATE)]
    reply = {"role": "assistant", "content": [{"type": "text", "text": ANSWER}]}
    trace = [
        observed("r", "SPAN", input=QUESTION, output=ANSWER),
        observed("se", "RETRIEVER", input="gate", output=[GATE]),
        observed("mod", "GENERATION", input=prompt, output=reply),
    ]
    (sample,) = samples_from_spans([{"data": trace}])
    assert (sample.question, said(sample)) == (QUESTION, EARLIER)


ASKED, REPLIED = (text for _, text in EARLIER)


@pytest.mark.parametrize(
    "history",
    [
        [[ASKED, REPLIED]],
        [{"role": "Human", "content": ASKED}, {"role": "AI", "content": REPLIED}],
        [{"query": None, "question": ASKED, "answer": REPLIED}],
    ],
    ids=["pairs", "messages", "questions with their answers"],
)
def test_turns_that_a_run_was_given_are_history(history):
    spans = openinference()
    given = {"input": QUESTION, "chat_history": history}
    for attribute in spans[0]["attributes"]:
        if attribute["key"] == "input.value":
            attribute["value"] = {"stringValue": json.dumps(given)}
    (sample,) = samples_from_spans([otlp(*spans)])
    assert (sample.question, said(sample)) == (QUESTION, EARLIER)


def test_a_prompt_without_earlier_turns_leaves_no_doubt():
    spans = openinference()
    prompt_of(spans, ("system", "Answer in one sentence."))
    (sample,) = samples_from_spans([otlp(*spans)])
    assert (said(sample), grade(sample)) == ([], "exact")


def spans_as_recorded(users_words: str) -> list[Told]:
    """The spans of an application, where the input of a run is not recorded.

    Whatever the user's words are, it searches for the question that it makes of them.
    """
    chain, search, model = openinference()
    for attribute in chain["attributes"]:
        if attribute["key"] == "input.value":
            attribute["value"] = {"stringValue": users_words}
    return [without(chain, "input.value"), search, model]


def test_a_question_that_no_span_records_is_never_exact():
    """A reader that calls such a question exact is right only by luck.

    One user asks "When was the gate built?". Another one asks "gate", and the
    application's own code makes that question of it. Both write the same spans.
    """
    spans = spans_as_recorded(QUESTION)
    assert spans == spans_as_recorded("gate")
    (sample,) = samples_from_spans([otlp(*spans)])
    assert sample.question == QUESTION
    assert grade(sample) == "inferred"
    assert "question_guessed" in sample.capture.doubts


@pytest.mark.parametrize("around", ["Use only this:\n\n\nQuestion: ", ""])
def test_words_around_what_was_searched_for_in_vain_are_no_question(around):
    """Nothing was found, and the prompt is a template around the query."""
    chain, search, model = openinference()
    chain = without(chain, "input.value", "output.value")
    found = [
        one["key"]
        for one in search["attributes"]
        if one["key"].startswith("retrieval.documents")
    ]
    search = without(search, *found)
    nothing = {"key": "output.value", "value": {"stringValue": "[]"}}
    search["attributes"].append(nothing)
    for attribute in model["attributes"]:
        if attribute["key"] == "llm.input_messages.0.message.content":
            attribute["value"] = {"stringValue": f"{around}{QUESTION}"}
    (sample,) = samples_from_spans([otlp(chain, search, model)])
    assert sample.question == QUESTION
    assert grade(sample) == "inferred"


def test_a_tool_that_parses_the_answer_makes_no_verdict_of_it():
    """A model answers by calling a tool that holds the answer's fields, and it ran."""
    _, search, model = openinference()
    fields = json.dumps({"answer": ANSWER, "sources": [1]})
    call = "llm.output_messages.0.message.tool_calls.0.tool_call"
    model = without(model, "llm.output_messages.0.message.content")
    for key, text in (
        (f"{call}.function.name", "Sourced"),
        (f"{call}.function.arguments", fields),
    ):
        model["attributes"].append({"key": key, "value": {"stringValue": text}})
    search = {**search, "parentSpanId": ""}
    program = span(
        *("chain", "", 25, 90), openinference__span__kind="CHAIN", output__value=fields
    )
    parser = span(
        *("Sourced", "chain", 82, 84),
        openinference__span__kind="TOOL",
        tool__name="Sourced",
        input__value=fields,
        output__value=f"answer={ANSWER!r} sources=[1]",
    )
    (sample,) = samples_from_spans([otlp(search, program, model, parser)])
    assert sample.answer is not None
    assert ANSWER in sample.answer
    assert "verdict" not in str(sample.capture)
    assert [context.text for context in sample.known_contexts] == [GATE, MILL]
