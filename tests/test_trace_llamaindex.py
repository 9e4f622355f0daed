"""Runs of LlamaIndex as OpenInference records them: agents with a memory, structured answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from spans_by_hand import ANSWER, GATE, MILL, QUESTION, Told, otlp, span

from ragmetrics_core import Sample
from ragmetrics_core.traces import samples_from_spans

EARLIER = [("user", "Who wrote the chronicle?"), ("assistant", "A monk of Marburg.")]
REASONED = "Thought: I know it by heart.\nAnswer: A monk of Marburg."
FOUND = {
    "retrieval.documents.0.document.id": "gate",
    "retrieval.documents.0.document.content": GATE,
    "retrieval.documents.1.document.id": "mill",
    "retrieval.documents.1.document.content": MILL,
}


def call(
    name: str, parent: str, began: int, ended: int, kind: str = "CHAIN", **values: Any
) -> Told:
    """A span whose id is its method: ``search`` of ``Retriever.search``."""
    made = span(
        name.rpartition(".")[2],
        parent,
        began,
        ended,
        openinference__span__kind=kind,
        **values,
    )
    return {**made, "name": name}


def written(messages: list[tuple[str, str]]) -> str:
    """The messages as Python writes those of LlamaIndex."""
    texts = []
    for role, text in messages:
        block = f"TextBlock(block_type='text', text={text!r})"
        shown_role = f"<MessageRole.{role.upper()}: {role!r}>"
        texts.append(
            f"ChatMessage(role={shown_role}, additional_kwargs={{}}, blocks=[{block}])"
        )
    return f"[{', '.join(texts)}]"


def prompt(messages: list[tuple[str, str]]) -> dict[str, str]:
    attributes = {}
    for place, (role, text) in enumerate(messages):
        attributes[f"llm.input_messages.{place}.message.role"] = role
        attributes[f"llm.input_messages.{place}.message.content"] = text
    return attributes


def agent_with_memory(
    memory: list[tuple[str, str]], examples: list[tuple[str, str]]
) -> list[Told]:
    """The spans of an agent that searched by itself before its only step.

    Args:
        memory: The messages that its first step was given, but for the question.
        examples: Messages that stand only in the prompt of the model.
    """
    asked = [*memory, ("user", QUESTION)]
    told = [
        *examples,
        *memory,
        ("user", f"Answer from this:\n{GATE}\n{MILL}\nQuestion: {QUESTION}"),
    ]
    event = {"ev": f"AgentInput(input={written(asked)}, current_agent_name='Agent')"}
    answer = written([("assistant", ANSWER)])[1:-1]
    output = f"AgentOutput(response={answer}, structured_response=None, tool_calls=[])"
    reply = {
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": ANSWER,
    }
    start = json.dumps({"init_state": {"is_running": False}})
    return [
        call("FunctionAgent.run", "", 1, 90, input__value=start),
        call(
            *("BaseWorkflowAgent.setup_agent", "run", 2, 3),
            input__value=json.dumps(event),
        ),
        call(
            *("BaseWorkflowAgent.run_agent_step", "run", 4, 80),
            input__value=json.dumps({"ev": "AgentSetup()"}),
            output__value=output,
        ),
        call(
            *("Retriever.retrieve", "run_agent_step", 5, 6, "RETRIEVER"),
            input__value=QUESTION,
            **FOUND,
        ),
        call(
            *("Model.astream_chat", "run_agent_step", 10, 20, "LLM"),
            output__value=f"assistant: {ANSWER}",
            **prompt(told),
            **reply,
        ),
    ]


def read(spans: list[Told]) -> Sample:
    scope = "openinference.instrumentation.llama_index"
    (sample,) = samples_from_spans([otlp(*spans, scope=scope)])
    return sample


def said(sample: Sample) -> list[tuple[str, str]]:
    return [(turn.role, turn.content) for turn in sample.history]


def grade(sample: Sample) -> str:
    assert sample.capture is not None
    return sample.capture.grade


def test_what_stands_in_an_agents_memory_as_python_wrote_it_is_in_doubt() -> None:
    sample = read(agent_with_memory(EARLIER, examples=[]))
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    assert [context.text for context in sample.known_contexts] == [GATE, MILL]
    assert grade(sample) == "inferred"


def test_what_stands_in_an_agents_prompt_alone_stays_in_doubt() -> None:
    sample = read(agent_with_memory([], examples=EARLIER))
    assert said(sample) == EARLIER
    assert grade(sample) == "inferred"
    assert "may be examples" in str(sample.capture)


def test_thoughts_in_an_agents_memory_are_no_words_of_a_turn() -> None:
    """A ReAct agent keeps its thoughts and its answer as one text."""
    sample = read(agent_with_memory([EARLIER[0], ("assistant", REASONED)], examples=[]))
    assert grade(sample) == "inferred"


def structured_query(reply: str) -> list[Told]:
    """The spans of an engine whose model fills in a form: ``predict`` calls ``chat``."""
    form = json.dumps({"year": "1632"})
    shown = f"Answer from this:\n{GATE}\n{MILL}\nQuestion: {QUESTION}"
    replied = {
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": reply,
    }
    return [
        call(
            *("RetrieverQueryEngine.query", "", 1, 90),
            input__value=QUESTION,
            output__value=form,
        ),
        call(
            *("Retriever.retrieve", "query", 2, 3, "RETRIEVER"),
            input__value=QUESTION,
            **FOUND,
        ),
        call(
            *("StructuredLLM.complete", "query", 10, 20, "LLM"),
            output__value=form,
            llm__prompts=json.dumps([shown]),
        ),
        call(
            *("StructuredLLM.chat", "complete", 11, 19, "LLM"),
            output__value=f"assistant: {reply}",
            **prompt([("user", shown)]),
            **replied,
        ),
    ]


def test_a_structured_answer_is_the_reply_of_the_model_inside() -> None:
    sample = read(structured_query('{"year": "1632"}'))
    assert json.loads(sample.answer or "") == {"year": "1632"}
    assert grade(sample) in ("exact", "inferred")  # no field is called an answer


@pytest.mark.parametrize("reply", ['{"year": "1532"}', "In 1632, I think."])
def test_a_structured_answer_that_no_model_wrote_is_in_doubt(reply: str) -> None:
    assert grade(read(structured_query(reply))) == "inferred"


@pytest.mark.parametrize(
    ("texts", "question"),
    [
        ({"topic": "the gate", "tone": "kind"}, "the gate"),
        ({"query": QUESTION, "tone": "kind"}, QUESTION),
        ({"town": QUESTION}, QUESTION),
    ],
)
def test_of_a_workflows_texts_the_one_handed_on_or_named_so_is_the_question(
    texts: dict[str, str], question: str
) -> None:
    """It searches for its topic; where it has none, it makes one itself."""
    shown = f"Answer from this:\n{GATE}\n{MILL}\nQuestion: {QUESTION}"
    replied = {
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": ANSWER,
    }
    spans = [
        call(
            *("Rag.run", "", 1, 90),
            input__value=json.dumps(texts),
            output__value=ANSWER,
        ),
        call(
            *("Retriever.retrieve", "run", 2, 3, "RETRIEVER"),
            input__value="the gate",
            **FOUND,
        ),
        call(
            *("Model.chat", "run", 10, 20, "LLM"),
            **prompt([("user", shown)]),
            **replied,
        ),
    ]
    sample = read(spans)
    assert sample.answer == ANSWER
    assert (sample.question, grade(sample)) == (question, "exact") or (
        grade(sample) == "inferred"
    )
