"""What traces tell of earlier turns, and of a question that no span records."""

from __future__ import annotations

import json
from typing import Any

import pytest
from spans_by_hand import ANSWER, GATE, MILL, QUESTION, Told, openinference, otlp, span

from ragmetrics_core import Sample
from ragmetrics_core.traces import samples_from_spans

EARLIER = [("user", "Who wrote the chronicle?"), ("assistant", "A monk of Marburg.")]


def said(sample: Sample) -> list[tuple[str, str]]:
    return [(turn.role, turn.content) for turn in sample.history]


def grade(sample: Sample) -> str | None:
    assert sample.capture is not None
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


def test_turns_of_the_first_prompt_are_history_in_doubt() -> None:
    """They may be examples, as no conversation is named: never exact without them."""
    spans = openinference()
    prompt_of(spans, *EARLIER)
    (sample,) = samples_from_spans([otlp(*spans)])
    assert said(sample) == EARLIER
    assert grade(sample) == "inferred"
    assert "may be examples" in str(sample.capture)


def test_steps_of_an_agent_are_no_turns_and_leave_a_doubt() -> None:
    spans = openinference()
    step = ("assistant", "Calling tools: search(gate)")
    prompt_of(spans, EARLIER[0], step, EARLIER[1])
    (sample,) = samples_from_spans([otlp(*spans)])
    assert said(sample) == []
    assert grade(sample) == "inferred"
    assert "may be earlier turns" in str(sample.capture)


def test_a_greeting_is_no_turn_and_leaves_no_doubt() -> None:
    spans = openinference()
    prompt_of(spans, ("assistant", "Hello! Ask me about Marburg."))
    (sample,) = samples_from_spans([otlp(*spans)])
    assert (said(sample), grade(sample)) == ([], "exact")


def test_examples_in_a_prompt_of_a_conversation_leave_a_doubt() -> None:
    """That a conversation is named does not say what its first prompt holds."""
    spans = openinference()
    prompt_of(spans, *EARLIER)
    session = {"key": "session.id", "value": {"stringValue": "one"}}
    spans[0]["attributes"].append(session)
    (sample,) = samples_from_spans([otlp(*spans)])
    assert grade(sample) == "inferred"
    assert "may be examples" in str(sample.capture)


def test_turns_that_were_recorded_are_known_in_later_prompts() -> None:
    """The second prompt of a conversation holds the first turn, whose trace was read."""
    first = openinference("a", question=EARLIER[0][1])
    second = openinference("b", 1000)
    session = {"key": "session.id", "value": {"stringValue": "one"}}
    for spans in (first, second):
        spans[0]["attributes"].append(session)
    prompt_of(second, EARLIER[0], ("assistant", ANSWER))
    _, sample = samples_from_spans([otlp(*first, *second)])
    assert said(sample) == [EARLIER[0], ("assistant", ANSWER)]
    assert grade(sample) == "exact"


def test_a_prompt_without_earlier_turns_leaves_no_doubt() -> None:
    spans = openinference()
    prompt_of(spans, ("system", "Answer in one sentence."))
    (sample,) = samples_from_spans([otlp(*spans)])
    assert (said(sample), grade(sample)) == ([], "exact")


def component(name: str, start: int, given: Any, made: Any) -> Told:
    """A component as Haystack traces it."""
    types = {"documents": "list[haystack.dataclasses.document.Document]"}
    gives = {key: {"type": types.get(key, "list[ChatMessage]")} for key in made}
    fields = {"input": given, "output": made, "input_spec": {}, "output_spec": gives}
    own = {f"haystack.component.{key}": json.dumps(one) for key, one in fields.items()}
    told = span(name, "run", start, start + 8, **own, haystack__component__type=name)
    return {**told, "name": "haystack.component.run"}


def chat_message(role: str, text: str) -> Told:
    return {"role": role, "meta": {}, "name": None, "content": [{"text": text}]}


def pipeline(
    memory: str, earlier: list[tuple[str, str]], run_inputs: Any = None
) -> list[Told]:
    """A memory, a search and a model; the prompt shows the earlier turns as text."""
    remembered = {"messages": [chat_message(*turn) for turn in earlier]}
    page = {"id": "gate", "content": GATE, "blob": None, "score": 0.5, "meta": {}}
    talk = "\n".join(text for _, text in earlier)
    prompt = chat_message("user", f"{talk}\n{GATE}\nQuestion: {QUESTION}")
    reply = {"replies": [chat_message("assistant", ANSWER)]}
    ends = {
        "input_data": {"search": {"query": QUESTION}, **(run_inputs or {})},
        "output_data": {"chat": reply},
    }
    run = {f"haystack.pipeline.{key}": json.dumps(one) for key, one in ends.items()}
    return [
        {**span("run", "", 1, 100, **run), "name": "haystack.pipeline.run"},
        component(memory, 10, {"session": "7"}, remembered),
        component("Search", 30, {"query": QUESTION}, {"documents": [page]}),
        component("Chat", 50, {"messages": [prompt]}, reply),
    ]


def test_what_a_memory_of_haystack_brings_back_leaves_a_doubt() -> None:
    (sample,) = samples_from_spans([otlp(*pipeline("ChatMemory", EARLIER))])
    assert sample.capture is not None
    assert grade(sample) == "inferred"
    assert "earlier turns" in sample.capture.doubts["provider"]


def test_what_a_component_returns_behind_the_model_is_no_history() -> None:
    """A writer puts this turn into the store, in its own words, and returns it."""
    spans = pipeline("ChatPromptBuilder", [])
    this_turn = [("user", "gate, year?"), ("assistant", ANSWER)]
    stored = {"messages": [chat_message(*turn) for turn in this_turn]}
    spans.append(component("ChatMessageWriter", 70, {"session": "7"}, stored))
    (sample,) = samples_from_spans([otlp(*spans)])
    assert said(sample) == []


def test_a_prompt_builder_of_haystack_is_no_memory() -> None:
    """Its messages are a template's: examples, perhaps."""
    (sample,) = samples_from_spans([otlp(*pipeline("ChatPromptBuilder", EARLIER))])
    assert said(sample) == []


def test_turns_that_a_run_of_haystack_is_handed_are_history() -> None:
    handed_in = {"messages": [chat_message(*turn) for turn in EARLIER]}
    spans = pipeline("ChatPromptBuilder", EARLIER, {"agent": handed_in})
    (sample,) = samples_from_spans([otlp(*spans)])
    assert (said(sample), grade(sample)) == (EARLIER, "exact")


def spans_as_recorded(users_words: str) -> list[Told]:
    """The spans of an application, where the input of a run is not recorded.

    Whatever the user's words are, it searches for the question that it makes of them.
    """
    chain, search, model = openinference()
    for attribute in chain["attributes"]:
        if attribute["key"] == "input.value":
            attribute["value"] = {"stringValue": users_words}
    return [without(chain, "input.value"), search, model]


def test_a_question_that_no_span_records_is_never_exact() -> None:
    """A reader that calls such a question exact is right only by luck.

    One user asks "When was the gate built?". Another one asks "gate", and the
    application's own code makes that question of it. Both write the same spans.
    """
    spans = spans_as_recorded(QUESTION)
    assert spans == spans_as_recorded("gate")
    (sample,) = samples_from_spans([otlp(*spans)])
    assert sample.question == QUESTION
    assert grade(sample) == "inferred"
    assert sample.capture is not None
    assert "question_guessed" in sample.capture.doubts


@pytest.mark.parametrize("around", ["Use only this:\n\n\nQuestion: ", ""])
def test_words_around_what_was_searched_for_in_vain_are_no_question(
    around: str,
) -> None:
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


def test_a_tool_that_parses_the_answer_makes_no_verdict_of_it() -> None:
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
        *("chain", "", 25, 90),
        openinference__span__kind="CHAIN",
        output__value=fields,
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
