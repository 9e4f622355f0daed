"""Each trace gives a sample or is named, and the notes say what mends what is missing."""

import json
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from spans_by_hand import ANSWER, GATE, MILL, QUESTION, openinference, otlp, span

from ragmetrics_core.cli import main as command
from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.reporting.journey import why_texts_are_unread
from ragmetrics_core.traces import Notes, SampleProcessor, samples_from_spans

FOUND = f"{GATE}\n\n{MILL}"


def agent(
    trace: str = "a", returned: str = FOUND, **further: Any
) -> list[dict[str, Any]]:
    """An agent whose search tool returns text, by the conventions of OpenTelemetry."""
    asked = {"role": "user", "parts": [{"type": "text", "content": QUESTION}]}
    call = {"type": "tool_call", "id": "c1", "name": "search_knowledge"}
    result = {"type": "tool_call_response", "id": "c1", "response": FOUND}
    answered = {"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}
    prompt = [asked, {"role": "assistant", "parts": [call]}]
    prompt += [{"role": "tool", "parts": [result]}]

    def one(name: str, parent: str, start: int, end: int, **attributes: Any) -> Any:
        return span(name, parent, start, end, trace, **attributes, **further)

    return [
        one(
            *("agent", "", 1, 20),
            gen_ai__operation__name="invoke_agent",
            gen_ai__input__messages=json.dumps([asked]),
            gen_ai__output__messages=json.dumps([answered]),
        ),
        one(
            *("tool", "agent", 4, 5),
            gen_ai__operation__name="execute_tool",
            gen_ai__tool__name="search_knowledge",
            gen_ai__tool__call__arguments='{"query": "gate built"}',
            gen_ai__tool__call__result=returned,
        ),
        one(
            *("chat", "agent", 6, 9),
            gen_ai__operation__name="chat",
            gen_ai__input__messages=json.dumps(prompt),
            gen_ai__output__messages=json.dumps([answered]),
        ),
    ]


def retrieval_of_ids(trace: str) -> list[dict[str, Any]]:
    """A retrieval by the conventions of OpenTelemetry, which record no texts."""
    documents = json.dumps([{"id": "gate", "score": 0.9}])
    return [
        span(
            *("search", "", 1, 2, trace),
            gen_ai__operation__name="retrieval",
            gen_ai__retrieval__query__text=QUESTION,
            gen_ai__retrieval__documents=documents,
        )
    ]


def test_a_tools_result_may_be_a_message_that_names_its_call():
    """LangChain's tools return one; the ledger then knows which call it answers."""
    spans = agent()
    fields = {"content": FOUND, "tool_call_id": "call 7", "name": "search_knowledge"}
    message = json.dumps({"type": "tool", "data": {"type": "tool", **fields}})
    for told in spans:
        if told["name"] == "tool":
            for one in told["attributes"]:
                if one["key"] == "gen_ai.tool.call.result":
                    one["value"] = {"stringValue": message}
    read = samples_from_spans([otlp(*spans)], context_tools={"search_knowledge"})
    (sample,) = read
    assert [context.text for context in sample.known_contexts] == [FOUND]
    assert read.notes.without_sample == []


def test_a_name_that_no_tool_of_the_run_has_is_said():
    read = samples_from_spans([otlp(*agent())], context_tools={"nope"})
    (sample,) = read
    assert sample.contexts is None
    assert sample.capture.doubts == {}
    (sentence,) = read.notes.sentences
    assert "no context: search_knowledge (1). Keep those that search:" in sentence


def test_a_tool_that_is_named_gives_contexts_as_under_capture():
    read = samples_from_spans([otlp(*agent())], context_tools={"search_knowledge"})
    (sample,) = read
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    assert [context.text for context in sample.known_contexts] == [FOUND]
    assert sample.capture.evidence_from == "prompt"
    assert list(sample.capture.doubts) == ["undivided"]
    assert [call.kind for call in sample.ledger.calls] == ["retrieval"]
    assert read.notes.without_sample == []
    with pytest.raises(SettingError, match="context_tools must be a set of names"):
        list(samples_from_spans([], context_tools="search_knowledge"))


@pytest.mark.parametrize(
    ("context_tools", "contexts", "kind"),
    [(None, [], "tool"), ({"search_knowledge"}, [FOUND], "retrieval")],
    ids=["no tool named", "the tool named"],
)
def test_an_agent_whose_own_span_says_what_its_model_answered_is_a_sample(
    context_tools, contexts, kind
):
    run, tool, _ = agent()
    read = samples_from_spans([otlp(run, tool)], context_tools=context_tools)
    (sample,) = read
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    assert [context.text for context in sample.known_contexts] == contexts
    # no prompt tells what the model was shown
    assert sample.capture.grade == "inferred"
    assert [call.kind for call in sample.ledger.calls] == [kind]
    assert read.notes.without_sample == []


@pytest.mark.parametrize(
    ("context_tools", "grade"), [(None, "inferred"), (set(), "exact"), ([], "exact")]
)
def test_an_empty_set_says_that_no_tool_searches(context_tools, grade):
    read = samples_from_spans([otlp(*agent())], context_tools=context_tools)
    (sample,) = read
    assert bool(read.notes.tools) == (context_tools is None)
    assert sample.capture.grade == grade
    assert bool(sample.capture.warnings) == (context_tools is None)
    assert sample.contexts is None
    assert [call.kind for call in sample.ledger.calls] == ["tool"]


def test_an_agent_without_a_tool_a_model_or_an_answer_is_no_sample():
    run, tool, _ = agent()
    name = "gen_ai.output.messages"
    inputs = [one for one in run["attributes"] if one["key"] != name]
    for spans in ([run], [tool], [{**run, "attributes": inputs}, tool]):
        read = samples_from_spans([otlp(*spans)])
        assert list(read) == []
        assert read.notes.without_sample == [("a" * 32, "no_retrieval")]


def test_the_processor_knows_the_tools_that_are_named():
    processor = SampleProcessor([], linger_s=0, context_tools={"search_knowledge"})
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("app")
    root, *inner = agent()
    with tracer.start_as_current_span("agent", attributes=_attributes(root)):
        for one in inner:
            name = one["name"]
            with tracer.start_as_current_span(name, attributes=_attributes(one)):
                pass
    assert processor.stop()
    assert [sample.question for sample in processor.samples] == [QUESTION]


def _attributes(recorded: dict[str, Any]) -> dict[str, str]:
    return {
        attribute["key"]: attribute["value"]["stringValue"]
        for attribute in recorded["attributes"]
    }


@pytest.mark.parametrize("name", ["gen_ai.conversation.id", "session.id"])
def test_a_trace_of_a_conversation_that_gives_no_sample_is_named(name):
    conversation = {name.replace(".", "__"): "thread 1"}
    run = agent(**conversation)[0]
    read = samples_from_spans([otlp(run), otlp(*openinference("b"))])
    assert [sample.id for sample in read] == ["b" * 32]
    assert read.notes.without_sample == [("a" * 32, "no_retrieval")]


def test_a_model_alone_that_was_handed_the_result_of_a_tool_answers_from_it():
    chat = {**agent()[-1], "parentSpanId": ""}
    (sample,) = samples_from_spans([otlp(chat)])
    assert [call.kind for call in sample.ledger.calls] == ["tool"]
    assert [*sample.capture.doubts] == ["undivided"]


def test_documents_on_a_span_of_an_unknown_kind_are_told_with_the_kind():
    told = json.dumps(otlp(*openinference()[:2]))
    read = samples_from_spans([json.loads(told.replace("RETRIEVER", "SEARCH"))])
    assert list(read) == []
    assert read.notes.without_sample == [("a" * 32, "no_retrieval")]
    assert read.notes.kinds == {"SEARCH": 1}
    assert any("as a search: SEARCH (1)" in line for line in read.notes.sentences)


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        (FOUND, FOUND),
        (json.dumps({"result": FOUND}), FOUND),
        ('{"page": 2}', '{"page": 2}'),
    ],
)
def test_an_agent_that_called_a_tool_is_a_sample_and_the_tool_is_named(returned, text):
    read = samples_from_spans([otlp(*agent(returned=returned))])
    (sample,) = read
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    assert sample.contexts is None
    (call,) = sample.ledger.calls
    assert (call.kind, [item.text for item in call.items]) == ("tool", [text])
    assert read.notes.tools == {"search_knowledge": 1}
    (sentence,) = read.notes.sentences
    assert "--context-tools search_knowledge" in sentence


def test_what_an_agent_is_instructed_is_no_question():
    """An agent's span may record its instructions and nothing of what was asked."""
    root, *inner = agent()
    instructions = [{"type": "text", "content": "Answer from what you find."}]
    kept = [
        attribute
        for attribute in root["attributes"]
        if attribute["key"] != "gen_ai.input.messages"
    ]
    told = {"stringValue": json.dumps(instructions)}
    kept.append({"key": "gen_ai.system_instructions", "value": told})
    (sample,) = samples_from_spans([otlp({**root, "attributes": kept}, *inner)])
    assert sample.question == QUESTION  # of the prompt
    assert "question_guessed" in sample.capture.doubts


def test_of_two_events_that_tell_the_prompt_the_first_one_counts():
    """Strands tells in a later event of a run what a tool returned to the model."""
    root, *inner = agent()
    by_name = {one["key"]: one for one in root["attributes"]}
    asked = by_name.pop("gen_ai.input.messages")
    result = {"type": "tool_call_response", "id": "c1", "response": FOUND}
    later = json.dumps([{"role": "user", "parts": [result]}])
    events = [
        {"name": "gen_ai.client.inference.operation.details", "attributes": [told]}
        for told in (asked, {**asked, "value": {"stringValue": later}})
    ]
    told_in_events = {**root, "attributes": list(by_name.values()), "events": events}
    (sample,) = samples_from_spans([otlp(told_in_events, *inner)])
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)


def test_the_command_says_why_samples_are_incomplete_and_what_mends_that(
    tmp_path, capsys
):
    path = tmp_path / "spans.jsonl"
    ids_alone = [retrieval_of_ids("a"), retrieval_of_ids("d")]
    silent = span("chat", trace="c", gen_ai__operation__name="chat")
    lines = [*ids_alone, agent("b"), [silent], openinference("e")]
    path.write_text(
        "\n".join(json.dumps(otlp(*spans)) for spans in lines), encoding="utf-8"
    )
    options = ["evaluate", "--traces", str(path), "--judge", "lexical", "--quiet"]
    options.append("--explain")
    assert command.main([*options, "--metrics", "adherence"]) == 0
    said = capsys.readouterr().out
    assert (
        "incomplete samples: 2 ids_only: documents are recorded by their ids alone"
        in said
    )
    assert "--resolve module:name" in said
    assert "traces that gave no sample: 1 no_content" in said
    assert "search_knowledge (1)" in said
    assert "--context-tools search_knowledge" in said
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY" in said
    tools = ["--context-tools", "search_knowledge"]
    assert command.main([*options, "--metrics", "adherence", *tools]) == 0
    said = capsys.readouterr().out
    assert "incomplete samples: 2" in said
    assert "--context-tools" not in said


def test_each_gap_of_a_sample_is_counted_with_what_mends_it():
    chain, search, model = openinference()
    broken = {"code": 2, "message": "gone"}
    failed = [{**chain, "status": broken}, search, {**model, "status": broken}]
    cut = {**search, "droppedAttributesCount": 3}
    lost = {**model, "parentSpanId": "9" * 16}
    cases = [
        ("not_recorded", "spans of the trace are missing", [chain, search, lost]),
        ("not_recorded", "attributes or events were dropped", [chain, cut, model]),
        ("no_answer", "no whole answer was found", failed),
        ("no_answer", "no answer was recorded", [search]),
    ]
    for gap, mend, spans in cases:
        read = samples_from_spans([otlp(*spans)])
        (sample,) = read
        assert sample.capture.grade == "incomplete"
        assert read.notes.incomplete == {gap: 1}
        sentence = read.notes.sentences[0]
        assert sentence.startswith(f"incomplete samples: 1 {gap}: ")
        assert mend in sentence
        assert why_texts_are_unread(sample)
        may_be_missing = gap == "not_recorded"
        assert bool(sample.capture.unread_texts) == may_be_missing


@pytest.mark.parametrize("tells_messages", [True, False])
def test_events_that_the_sdk_dropped_count_where_events_tell_messages(tells_messages):
    """A span with an event for each token loses nothing that is read."""
    root, *inner = agent()
    name = "gen_ai.user.message" if tells_messages else "first token"
    content = {"key": "content", "value": {"stringValue": QUESTION}}
    events = [{"name": name, "attributes": [content]}]
    cut = {**root, "events": events, "droppedEventsCount": 2}
    read = samples_from_spans([otlp(cut, *inner)], context_tools={"search_knowledge"})
    (sample,) = read
    assert (sample.capture.grade == "incomplete") == tells_messages
    assert read.notes.incomplete == ({"not_recorded": 1} if tells_messages else {})
    is_mended = any(
        "OTEL_SPAN_EVENT_COUNT_LIMIT" in one for one in read.notes.sentences
    )
    assert is_mended == tells_messages


@pytest.mark.parametrize("n_spans", [3, 5])
def test_a_trace_of_mlflow_with_fewer_spans_than_it_says_is_incomplete(n_spans):
    spans = [
        {
            "span_id": one["spanId"],
            "parent_span_id": one["parentSpanId"] or None,
            "name": one["name"],
            "start_time_unix_nano": int(one["startTimeUnixNano"]),
            "end_time_unix_nano": int(one["endTimeUnixNano"]),
            "attributes": {
                attribute["key"]: next(iter(attribute["value"].values()))
                for attribute in one["attributes"]
            },
        }
        for one in openinference()
    ]
    sizes = json.dumps({"num_spans": n_spans})
    info = {"trace_id": "a", "trace_metadata": {"mlflow.trace.sizeStats": sizes}}
    read = samples_from_spans([{"info": info, "data": {"spans": spans}}])
    (sample,) = read
    assert (sample.capture.grade == "incomplete") == (n_spans > len(spans))
    assert read.notes.incomplete == (
        {"not_recorded": 1} if n_spans > len(spans) else {}
    )


def test_what_cannot_be_read_is_counted_with_what_mends_it():
    chain, *inner = openinference()
    circle = [{**chain, "parentSpanId": inner[0]["spanId"]}, *inner]
    cut = {"traceId": "c" * 32, "name": "without an id"}
    read = samples_from_spans([otlp(*circle), otlp(*openinference("b")), otlp(cut)])
    assert [sample.id for sample in read] == ["b" * 32]
    codes = {trace[0]: code for trace, code in read.notes.without_sample}
    assert codes["a"] == "unreadable"
    text = "\n".join(read.notes.sentences)
    assert "documents stand on" not in text
    assert "unreadable: its spans stand inside each other in a circle" in text
    assert "unreadable lines or spans: 1; the file may have been cut off" in text


def test_nothing_is_said_where_all_was_read():
    read = samples_from_spans([otlp(*openinference())])
    assert len(list(read)) == 1
    assert read.notes.sentences == Notes().sentences == []
