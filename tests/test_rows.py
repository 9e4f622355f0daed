"""Rows of tables as the field's tools write them."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core import Context, ContextUtilization, Fact, Sample, Turn
from ragmetrics_core.data.cells import data_in
from ragmetrics_core.data.columns import USUAL_NAMES
from ragmetrics_core.data.errors import RowError, SettingError
from ragmetrics_core.data.frozen import is_blank
from ragmetrics_core.data.sample import CaptureNotes

Q, A, R = "Who lit the lamp?", "Anna did.", "Anna Brandt lit it."
C = ("Anna lit the lamp.", "It was built in 1856.")

# What the tools of the field write; every row must give the same question, contexts,
# answer and reference.
EXPORTS: dict[str, dict[str, Any]] = {
    "canonical": {"question": Q, "contexts": list(C), "answer": A, "reference": R},
    "ragas 0.1": {"question": Q, "contexts": list(C), "answer": A, "ground_truth": R},
    "ragas ground_truths": {
        "question": Q,
        "contexts": list(C),
        "answer": A,
        "ground_truths": [R],
    },
    "ragas 0.2": {
        "user_input": Q,
        "retrieved_contexts": list(C),
        "response": A,
        "reference": R,
    }
    | {"reference_contexts": ["golden"]},
    "DeepEval": {
        "input": Q,
        "actual_output": A,
        "expected_output": R,
        "retrieval_context": list(C),
    }
    | {"context": ["the ideal context"]},
    "DeepEval camelCase": {
        "input": Q,
        "actualOutput": A,
        "expectedOutput": R,
        "retrievalContext": list(C),
    },
    "TruLens records": {
        "record_id": "r1",
        "input": Q,
        "output": A,
        "contexts": list(C),
        "ground_truth": R,
    },
    "Phoenix spans": {
        "attributes.input.value": Q,
        "attributes.output.value": A,
        "attributes.retrieval.documents": [
            {"document.content": text, "document.score": 0.5} for text in C
        ],
        "expected": R,
    },
    "LangSmith": {
        "inputs": {"question": Q},
        "outputs": {"answer": A, "contexts": list(C)},
        "reference_outputs": {"answer": R},
    },
    "LangSmith, other keys": {
        "inputs": {"input": Q},
        "outputs": {"output": A, "documents": [{"page_content": text} for text in C]},
        "reference_outputs": {"output": R},
    },
    "LangSmith as CSV": {
        "inputs": json.dumps({"question": Q}),
        "outputs": json.dumps({"answer": A, "context": list(C)}),
        "reference_outputs": json.dumps({"answer": R}),
    },
    "LangSmith test results": {
        "input.question": Q,
        "outputs.answer": A,
        "outputs.contexts": list(C),
    }
    | {"reference.answer": R, "error": None},
    "LangSmith, downloaded": {
        "inputs.question": Q,
        "outputs.answer": A,
        "outputs.contexts": json.dumps(C),
    }
    | {"reference_outputs.answer": R},
    "MLflow": {
        "inputs": {"question": Q},
        "outputs": {"response": A, "context": list(C)},
    }
    | {"expectations": {"expected_response": R}},
    "MLflow, flat": (
        {"inputs.question": Q, "outputs": A, "outputs.contexts": list(C)}
        | {"expectations.expected_response": R}
    ),
    "Langfuse": {
        "input": {"query": Q},
        "output": {"answer": A, "contexts": list(C)},
        "expectedOutput": R,
    },
    "LangChain": {
        "query": Q,
        "result": A,
        "source_documents": [{"page_content": text, "metadata": {}} for text in C],
        "reference": R,
    },
    "LangChain serialised": {
        "input": Q,
        "context": [
            {"lc": 1, "id": ["langchain", "Document"], "kwargs": {"page_content": text}}
            for text in C
        ],
        "answer": A,
        "expected_answer": R,
    },
    "Haystack pipeline": {
        "query": Q,
        "documents": [{"id": "1", "content": t, "meta": {}} for t in C],
    }
    | {"replies": [A], "ground_truth_answer": R},
    "Haystack GeneratedAnswer": {
        "type": "haystack.dataclasses.answer.GeneratedAnswer",
        "init_parameters": {
            "data": A,
            "query": Q,
            "documents": [{"content": text} for text in C],
            "reference": R,
        },
    },
    "Haystack evaluation": {
        "questions": Q,
        "contexts": list(C),
        "predicted_answers": A,
        "ground_truth_answers": R,
    },
    "LlamaIndex response": {
        "query": Q,
        "response": A,
        "source_nodes": [
            {"node": {"id_": "n", "text": text}, "score": 0.5} for text in C
        ],
        "reference_answer": R,
    },
    "LlamaIndex node with a resource": {
        "query": Q,
        "response": A,
        "source_nodes": [
            {"node": {"text_resource": {"text": text}}, "score": None} for text in C
        ],
        "reference_answer": R,
    },
    "RAGChecker": (
        {"query_id": "7", "query": Q, "gt_answer": R, "response": A}
        | {"retrieved_context": [{"doc_id": "d", "text": text} for text in C]}
    ),
    "Hugging Face list of objects": {
        "query": Q,
        "passages": {"passage_text": list(C), "is_selected": [1, 0]},
    }
    | {"response": A, "target": R},
    "SQuAD with answers": {
        "question": Q,
        "context": list(C),
        "answers": {"text": [R], "answer_start": [0]},
    }
    | {"prediction": A},
    "JSON reply in output": {
        "input": Q,
        "output": json.dumps({"answer": A, "context": list(C)}),
        "reference": R,
    },
    "JSON reply in response": {
        "query": Q,
        "response": json.dumps({"answer": A, "chunks": list(C)}),
        "reference": R,
    },
    "JSON request and response": {
        "request": json.dumps({"question": Q}),
        "response": json.dumps(
            {"result": A, "source_documents": [{"page_content": text} for text in C]}
        ),
        "expected": json.dumps({"answer": R}),
    },
    "JSON in JSON": {
        "inputs": json.dumps({"input": json.dumps({"query": Q})}),
        "outputs": json.dumps({"output": {"answer": A}, "documents": list(C)}),
        "reference_outputs": json.dumps({"output": {"answer": R}}),
    },
    "Python dicts": {
        "input": str({"question": Q}),
        "output": str({"answer": A, "contexts": list(C), "score": None}),
        "expected_output": str({"answer": R}),
    },
    "OpenAI chat": {
        "request": json.dumps(
            {
                "model": "m",
                "messages": [
                    {"role": "system", "content": "Answer."},
                    {"role": "user", "content": "Earlier?"},
                    {"role": "assistant", "content": "Yes."},
                    {"role": "user", "content": [{"type": "text", "text": Q}]},
                ],
            }
        ),
        "response": json.dumps(
            {"choices": [{"index": 0, "message": {"role": "assistant", "content": A}}]}
        ),
        "contexts": list(C),
        "reference": R,
    },
    "OpenAI chat with citations": {
        "input": {"messages": [{"role": "user", "content": Q}]},
        "response": {
            "choices": [
                {
                    "message": {
                        "role": "assistant",
                        "content": A,
                        "context": {"citations": [{"content": t} for t in C]},
                    }
                }
            ]
        },
        "reference": R,
    },
    "OpenAI responses": {
        "request": json.dumps({"input": Q}),
        "response": json.dumps(
            {
                "output": [
                    {"type": "file_search_call", "queries": ["?"]},
                    {
                        "type": "message",
                        "role": "assistant",
                        "content": [{"type": "output_text", "text": A}],
                    },
                ]
            }
        ),
        "documents": list(C),
        "reference": R,
    },
    "OpenAI completions": {
        "request": json.dumps({"prompt": Q}),
        "response": json.dumps({"choices": [{"text": A, "finish_reason": "stop"}]}),
        "docs": list(C),
        "reference": R,
    },
    "Anthropic": {
        "input": [{"role": "user", "content": Q}],
        "output": {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": A}],
        },
        "contexts": list(C),
        "target": json.dumps([{"role": "assistant", "content": R}]),
    },
    "Gemini": {
        "request": {"contents": [{"role": "user", "parts": [{"text": Q}]}]},
        "response": {
            "candidates": [{"content": {"role": "model", "parts": [{"text": A}]}}]
        },
        "contexts": list(C),
        "reference": R,
    },
    "LangGraph": {
        "inputs": {"messages": [{"type": "human", "content": Q}]},
        "outputs": {
            "messages": [
                {"type": "human", "content": Q},
                {"type": "tool", "content": "found"},
                {"type": "ai", "content": A},
            ],
            "documents": [{"page_content": text} for text in C],
        },
        "reference": R,
    },
    "LangChain messages": {
        "inputs": str(
            [{"lc": 1, "id": ["langchain", "HumanMessage"], "kwargs": {"content": Q}}]
        ),
        "outputs": {
            "answer": A,
            "messages": [{"role": "assistant", "content": "no"}],
            "context": list(C),
        },
        "reference": R,
    },
    "spaces and capitals": {
        "Question": Q,
        "Retrieved Contexts": list(C),
        "Response": A,
        "Ground-Truth": R,
    },
    "JSON in CSV": {
        "question": Q,
        "contexts": json.dumps(C),
        "answer": A,
        "ground_truths": json.dumps([R]),
    },
    "Python in CSV": {
        "question": Q,
        "contexts": str(list(C)),
        "answer": A,
        "ground_truths": str([R]),
    },
    "numpy in CSV": {
        "question": Q,
        "contexts": str(np.array(C)),
        "answer": A,
        "reference": R,
    },
    "dicts in CSV": {
        "question": Q,
        "contexts": str([{"text": t, "n": None} for t in C]),
        "answer": A,
        "reference": R,
    },
    "numpy arrays": {
        "question": Q,
        "contexts": np.array(C),
        "answer": A,
        "references": np.array([R]),
    },
    "only retrieved documents": {
        "query": Q,
        "retrieved_documents": list(C),
        "response": A,
        "gold_answer": R,
    },
    "nothing but NaN": (
        {
            "question": Q,
            "contexts": list(C),
            "answer": A,
            "reference": R,
            "facts": math.nan,
        }
        | {
            "history": pd.NA,
            "error": pd.NaT,
            "id": None,
            "metadata": np.float32("nan"),
            "generator": " ",
        }
    ),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_export(name: str) -> None:
    row = EXPORTS[name]
    before = repr(row)
    sample = Sample.from_row(row)
    assert (sample.question, sample.answer, sample.reference) == (Q, A, (R,))
    assert tuple(context.text for context in sample.known_contexts) == C
    assert sample.facts is None
    assert sample.error is None
    assert repr(row) == before


@pytest.mark.parametrize(
    ("field", "name"), [(f, n) for f in ("question", "answer") for n in USUAL_NAMES[f]]
)
def test_every_usual_name_of_a_text_is_found(field: str, name: str) -> None:
    assert getattr(Sample.from_row({name: "text"}), field) == "text"


@pytest.mark.parametrize(
    "name", [n for n in USUAL_NAMES["reference"] if n != "answers.text"]
)
def test_every_usual_name_of_the_reference_is_found(name: str) -> None:
    assert Sample.from_row({name: "text"}).reference == ("text",)


@pytest.mark.parametrize("name", USUAL_NAMES["contexts"])
def test_every_usual_name_of_contexts_is_found(name: str) -> None:
    assert Sample.from_row({name: ["text"]}).contexts[0].text == "text"


@pytest.mark.parametrize(
    "holder",
    [
        "input",
        "inputs",
        "output",
        "outputs",
        "request",
        "response",
        "result",
        "prediction",
    ],
)
@pytest.mark.parametrize(
    "name", [name for name in USUAL_NAMES["contexts"] if "." not in name]
)
@pytest.mark.parametrize("write", [json.dumps, str, dict])
def test_contexts_in_any_usual_column_leave_no_json_in_the_answer(
    holder: str, name: str, write: Any
) -> None:
    held = (
        {"answer": A, name: list(C)}
        if holder[0] in "or" and holder != "request"
        else {"question": Q, name: list(C)}
    )
    sample = Sample.from_row(
        {"answer": A, "question": Q} | {holder: write({**held})}
        if "question" in held
        else {"question": Q, holder: write({**held})}
    )
    assert (sample.question, sample.answer) == (Q, A)
    assert tuple(context.text for context in sample.known_contexts) == C


def test_a_named_column_that_holds_json_gives_its_text_too() -> None:
    row = {
        "mine": json.dumps({"question": Q}),
        "output": json.dumps({"answer": A, "context": list(C)}),
    }
    sample = Sample.from_row(row, question="mine", answer="output")
    assert (sample.question, sample.answer, len(sample.known_contexts)) == (Q, A, 2)
    row = {"answer": json.dumps({"answer": A})}
    assert Sample.from_row(row, answer="answer").answer == row["answer"]


@pytest.mark.parametrize(
    "text",
    [
        '{"lamp": "Anna"}',
        '{"a": {"b": [1]}}',
        "{'lamp'}",
        "{",
        "[1, 2]",
        '["a", "b"]',
        '"a"',
    ],
)
def test_json_that_holds_no_known_text_is_the_answer_itself(text: str) -> None:
    assert Sample.from_row({"output": text}).answer == text


def test_an_exact_name_wins() -> None:
    row = {
        "Question": "no",
        "query": "no",
        "question": Q,
        "a.b": "yes",
        "a": {"b": "no"},
    }
    sample = Sample.from_row(row, answer="a.b")
    assert (sample.question, sample.answer) == (Q, "yes")


def test_a_named_column_serves_no_other_field() -> None:
    row = {"question": Q, "response": "what people wrote", "output": A}
    sample = Sample.from_row(row, reference="response")
    assert (sample.answer, sample.reference) == (A, ("what people wrote",))


def test_paths_go_through_objects_json_and_lists() -> None:
    row = {
        "prediction": json.dumps({"contexts": list(C), "texts": [A]}),
        "q": {"text": Q},
    }
    sample = Sample.from_row(
        row,
        question="q.text",
        contexts="prediction.contexts",
        answer="prediction.texts.0",
    )
    assert (sample.question, sample.answer, len(sample.known_contexts)) == (Q, A, 2)


def test_callables_get_the_row() -> None:
    sample = Sample.from_row(
        {"a": Q, "b": "x|y"},
        question=lambda row: row["a"],
        contexts=lambda r: r["b"].split("|"),
    )
    assert sample.question == Q
    assert [context.text for context in sample.known_contexts] == ["x", "y"]


def test_a_callable_that_fails_makes_a_bad_row() -> None:
    with pytest.raises(RowError, match="function for answer raised KeyError"):
        Sample.from_row({"a": Q}, answer=lambda row: row["nothing"])


def test_documents_keep_id_score_and_metadata() -> None:
    row = {
        "documents": [
            {"id": 3, "content": "a", "meta": {"page": 1}, "score": np.float32(0.5)},
            {"node": {"id_": "n", "text": "b", "metadata": {"page": 2}}, "score": 0.25},
            {"text": "c", "score": "high", "metadata": '{"page": 3}'},
            {"text": "d", "score": math.nan, "metadata": {1: 2}},
            {"text": "e", "score": 10**400},
        ]
    }
    first, second, third, fourth, fifth = Sample.from_row(row).contexts
    assert (first.id, first.score, first.metadata) == ("3", 0.5, {"page": 1})
    assert (second.id, second.score, second.metadata) == ("n", 0.25, {"page": 2})
    assert (third.id, third.score, third.metadata) == (None, None, {"page": 3})
    assert (fourth.score, fourth.metadata) == (None, {"1": 2})
    assert fifth.score is None  # no float is as large


def test_our_own_objects_are_taken_as_they_are() -> None:
    context, fact, turn = (
        Context(text="a", id="1"),
        Fact(text="f"),
        Turn(role="user", content="hi"),
    )
    sample = Sample.from_row(
        {"contexts": [context], "facts": [fact], "history": [turn]}
    )
    assert (sample.contexts, sample.facts, sample.history) == (
        (context,),
        (fact,),
        (turn,),
    )


def test_a_sample_survives_the_way_through_a_row() -> None:
    sample = Sample(
        question=Q,
        contexts=(Context(text=C[0], id="1", score=0.5, metadata={"page": 1}),),
        answer=A,
        reference=(R, "Or so."),
        retrieved=C,
        facts=(Fact(text="f", weight=2.0),),
        history=(Turn(role="user", content="hi"),),
        id="7",
        generator="g",
        error="e",
        metadata={"lang": "en"},
        capture=CaptureNotes(
            grade="located",
            evidence_from="prompt",
            warnings=("context 1 was cut to 60%",),
        ),
    )
    assert Sample.from_row(json.loads(sample.model_dump_json())) == sample
    table = {
        name: json.dumps(value)
        for name, value in sample.model_dump(mode="json").items()
        if name == "capture"
    }
    assert Sample.from_row(table).capture == sample.capture


def test_a_column_named_capture_may_hold_anything_else() -> None:
    assert Sample.from_row({"question": Q, "capture": {"mark": "A+"}}).metadata == {
        "capture": {"mark": "A+"}
    }


@pytest.mark.parametrize(
    ("history", "roles"),
    [
        (["Hello"], ["user"]),
        (["Hello", "Hi"], ["user", "assistant"]),
        (
            [("Hello", "Hi"), ("And?", "So.")],
            ["user", "assistant", "user", "assistant"],
        ),
        (
            [{"type": "human", "content": "Hello"}, {"type": "ai", "content": "Hi"}],
            ["user", "assistant"],
        ),
        ('[{"role": "user", "content": "Hello"}]', ["user"]),
        ([{"type": "human", "data": {"content": "Hello"}}], ["user"]),
        ([("human", "Hello"), ("ai", "Hi")], ["user", "assistant"]),
        ([{"role": "Human", "content": "Hello"}], ["user"]),
        ([{"role": "model", "parts": "Hi", "content": "Hi"}], ["assistant"]),
        (
            [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
            ["user"],
        ),
    ],
)
def test_history(history: object, roles: list[str]) -> None:
    assert [
        turn.role for turn in Sample.from_row({"chat_history": history}).history
    ] == roles


@pytest.mark.parametrize("name", ["history", "chat_history", "conversation"])
@pytest.mark.parametrize(
    "value", ["c7", 7, UUID(int=7), "User: Who lit it?\nAssistant: Anna."]
)
def test_a_single_text_or_number_is_no_history_and_stays_in_the_metadata(
    name: str, value: object
) -> None:
    sample = Sample.from_row({"question": Q, name: value})
    assert (sample.history, sample.metadata) == ((), {name: value})


def test_a_named_history_that_is_a_text_is_a_bad_row() -> None:
    with pytest.raises(
        RowError,
        match=(
            "history: needs a list of texts or of messages with a content, found a"
            " single"
        ),
    ):
        Sample.from_row({"past": "SECRET"}, history="past")
    with pytest.raises(SettingError, match="history= takes a list"):
        ContextUtilization().score(
            question=Q, contexts=list(C), history="SECRET", judge="lexical"
        )


def test_an_id_of_the_conversation_does_not_hide_its_history() -> None:
    sample = Sample.from_row(
        {"conversation": "c7", "inputs": {"history": ["Hello"], "question": Q}}
    )
    assert ([turn.content for turn in sample.history], sample.metadata) == (
        ["Hello"],
        {"conversation": "c7"},
    )


SECRETS = st.text(min_size=3).filter(lambda text: any(map(str.isspace, text.strip())))


@given(SECRETS, st.booleans(), st.booleans(), st.sampled_from([0.9, "x", None]))
def test_an_object_without_a_text_never_shows_its_keys_where_they_may_be_texts(
    text: str, listed: bool, written: bool, value: object
) -> None:
    contexts: Any = {text: value, "source": "a"}
    contexts = [contexts] if listed else contexts
    contexts = json.dumps(contexts) if written else contexts
    with pytest.raises(RowError) as caught:
        Sample.from_row({"question": Q, "contexts": contexts, "answer": A})
    assert text not in str(caught.value)
    assert json.dumps(text)[1:-1] not in str(caught.value)


@pytest.mark.parametrize(
    ("contexts", "words"),
    [
        ({"SECRET": 0.9, "OTHER": 1}, "an object of texts and scores; write a list of"),
        ([{"SECRET of a patient": "x", "title": "t"}], ": title, 1 key that may be te"),
        ([{"S" * 41: "x", "a b": "y"}], ": 2 keys that may be texts"),
        ([{}], ": nothing"),
        ([{"title": "t", "source.url": "u"}], ": title, source.url"),
    ],
)
def test_an_object_without_a_text_says_what_it_has_instead(
    contexts: Any, words: str
) -> None:
    with pytest.raises(RowError, match="is an object without a text") as caught:
        Sample.from_row({"contexts": contexts, "answer": A})
    assert words in str(caught.value)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    "row",
    [
        {"input": Q, "actual_output": A, "expected_output": R, "context": ["ideal"]},
        {"input": Q, "actualOutput": A, "context": ["ideal"]},
        {"input": Q, "expected_output": R, "context": ["ideal"]},
    ],
)
def test_the_ideal_context_of_deepeval_is_never_what_was_retrieved(
    row: dict[str, Any],
) -> None:
    """Exports without null keys leave ``retrieval_context`` out of some rows."""
    sample = Sample.from_row(row)
    assert sample.contexts is None
    assert sample.metadata["context"] == ["ideal"]
    for name in ("retrieval_context", "retrievalContext"):
        (text,) = Sample.from_row({**row, name: ["found"]}).contexts
        assert text.text == "found"
        assert Sample.from_row({**row, name: None}).contexts is None
    (text,) = Sample.from_row(row, contexts="context").contexts
    assert text.text == "ideal"


@pytest.mark.parametrize("answers", [["a", "b"], '["a", "b"]', ["a", "b", "c"]])
def test_several_answers_make_a_bad_row_that_says_what_to_do(answers: Any) -> None:
    with pytest.raises(RowError, match="write a row for each"):
        Sample.from_row({"question": Q, "answers": answers})


def test_one_answer_of_a_list_is_the_answer() -> None:
    assert Sample.from_row({"answers": ["a"]}).answer == "a"
    assert Sample.from_row({"answers": []}).answer is None


def test_an_answer_that_is_json_stays_one() -> None:
    assert Sample.from_row({"answer": '["a", "b"]'}).answer == '["a", "b"]'
    assert Sample.from_row({"reference": "[1]"}).reference == ("[1]",)
    assert [
        c.text for c in Sample.from_row({"contexts": ['{"name": "x"}']}).contexts
    ] == ['{"name": "x"}']


@pytest.mark.parametrize("value", [1856, 1856.0, np.int64(1856), "1856"])
def test_a_number_is_an_answer(value: object) -> None:
    sample = Sample.from_row({"answer": value, "ground_truth": [value, 0.5]})
    assert (sample.answer, sample.reference) == ("1856", ("1856", "0.5"))


def test_what_is_missing_is_no_error() -> None:
    assert Sample.from_row({}) == Sample()
    assert (
        Sample.from_row(
            {"question": math.nan, "contexts": None, "answer": pd.NA, "reference": "  "}
        )
        == Sample()
    )
    assert Sample.from_row({"contexts": [], "retrieved": []}).retrieved == ()


def test_error_of_the_application() -> None:
    assert Sample.from_row({"error": False}).error is None
    assert Sample.from_row({"error": {"code": 500}}).error == '{"code": 500}'


@pytest.mark.parametrize(
    "written", ["False", "false", "None", "null", "nan", "0", " FALSE "]
)
def test_no_error_as_tables_write_it(written: str) -> None:
    assert Sample.from_row({"error": written}).error is None
    assert (
        Sample.from_row({"error": f"{written}: no such index"}).error
        == f"{written}: no such index"
    )


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (7, "7"),
        (7.0, "7"),
        (np.int64(7), "7"),
        (np.float64(7), "7"),
        (7.5, "7.5"),
        ("7.0", "7.0"),
    ],
)
def test_ids_that_are_numbers(given: Any, text: str) -> None:
    sample = Sample.from_row({"id": given, "contexts": [{"text": "t", "id": given}]})
    assert (sample.id, sample.contexts[0].id) == (text, text)


def test_ids_of_contexts_that_are_no_texts() -> None:
    name = UUID(int=5)
    ids = [name, float("nan"), pd.NA, ["a"], {"a": 1}]
    sample = Sample.from_row({"contexts": [{"text": "t", "id": one} for one in ids]})
    assert [context.id for context in sample.known_contexts] == [
        str(name),
        None,
        None,
        None,
        None,
    ]


@pytest.mark.parametrize(
    "text", ["\ufeff", "\u200b", "\u2060 \n", "\x00", "\xa0\u200e", "\xad"]
)
def test_a_text_that_shows_nothing_is_missing(text: str) -> None:
    sample = Sample.from_row(
        {
            "question": text,
            "answer": text,
            "reference": text,
            "contexts": [text, "seen"],
        }
    )
    assert (sample.question, sample.answer, sample.reference) == (None, None, ())
    assert [context.blank for context in sample.known_contexts] == [True, False]
    assert Sample(answer=text) == Sample()
    assert Sample.from_row({"answer": f"{text}a"}).answer == f"{text}a"


def test_what_no_field_uses_goes_to_metadata() -> None:
    row: dict[Any, Any] = {
        "question": Q,
        "lang": "en",
        7: "x",
        "none": None,
        "metadata": '{"page": 1}',
    }
    assert Sample.from_row(row).metadata == {"lang": "en", "7": "x", "page": 1}


BAD: list[tuple[Any, str]] = [
    ({"answer": True}, r"^answer: needs a text, found bool$"),
    ({"question": {"foo": "SECRET"}}, r"^question: needs a text, found dict$"),
    (
        {"user_input": [{"content": "SECRET"}]},
        r"^question \(column 'user_input'\): needs a text, found list$",
    ),
    (
        {"reference": ["SECRET", {}]},
        r"^reference number 2: needs a text or a list of texts, found dict$",
    ),
    ({"question": 4}, r"^question: needs a text, found int$"),
    (
        {"contexts": ["SECRET", 4]},
        r"^contexts: number 2 must be a text or an object with a text, found int$",
    ),
    ({"contexts": ["a", None]}, r"^contexts: number 2 .* found NoneType$"),
    ({"contexts": [["SECRET"]]}, r"^contexts: number 1 .* found list$"),
    (
        {"contexts": [{"foo": "SECRET", "bar": 1}]},
        r"^contexts: number 1 is an object without a text .*: foo, bar$",
    ),
    ({"facts": [3]}, r"^facts number 1: needs a list of texts, found int$"),
    (
        {"facts": [{"text": "SECRET", "weight": 0}]},
        r"^facts number 1: input should be greater than 0$",
    ),
    ({"history": [{"content": 3}]}, r"^history number 1: needs .* found int$"),
    ("SECRET", r"^a row must be an object with named fields, got str$"),
    (["SECRET"], r"^a row must be an object with named fields, got list$"),
]


@pytest.mark.parametrize(("row", "message"), BAD)
def test_wrong_types(row: Any, message: str) -> None:
    with pytest.raises(RowError, match=message) as caught:
        Sample.from_row(row)
    assert "SECRET" not in str(caught.value)


def test_an_unknown_column_lists_those_there_are() -> None:
    with pytest.raises(
        RowError, match=r"^no column 'reply' for answer; the row has: q, a$"
    ):
        Sample.from_row({"q": "SECRET", "a": "SECRET"}, answer="reply")
    with pytest.raises(RowError, match=r"no column 'a.b' for answer; the row has: a$"):
        Sample.from_row({"a": None}, answer="a.b")


def test_an_unknown_field_is_a_setting_error() -> None:
    with pytest.raises(
        SettingError,
        match="no such field of a sample: reply; known: question, contexts",
    ):
        Sample.from_row({"a": "b"}, reply="a")


names = st.sampled_from(
    [name for usual in USUAL_NAMES.values() for name in usual]
) | st.text(max_size=5)
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["[", "{}", "['a' 'b']"])
)
json_like = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)
    ),
)


@given(st.dictionaries(names, json_like, max_size=6))
def test_any_row_is_a_sample_or_a_row_error(row: dict[str, Any]) -> None:
    before = repr(row)
    with suppress(RowError):
        assert isinstance(Sample.from_row(row), Sample)
    assert repr(row) == before


texts = st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1).filter(
    lambda text: not is_blank(text)
)
fields = st.sampled_from(["question", "answer", "reference", "contexts"])
# what tables write where a list is missing
NO_LIST = {"none", "null", "n/a", "#n/a", "<na>"}


@given(
    st.dictionaries(fields, texts, min_size=1),
    st.dictionaries(st.text(max_size=5), json_like, max_size=2),
)
def test_no_text_under_a_canonical_name_is_lost(
    given_texts: dict[str, str], others: dict[str, Any]
) -> None:
    try:
        sample = Sample.from_row({**others, **given_texts})
    except RowError:  # something else in the row is wrong
        return
    for field in ("question", "answer"):
        assert (
            getattr(sample, field) == given_texts.get(field) or field not in given_texts
        )
    for field in ("reference", "contexts"):
        text = given_texts.get(field, "[")
        is_list = text.strip()[0] in "[{(\"'" or text.strip().lower() in NO_LIST
        if not is_list and len(text.strip()) > 3:
            (found,) = getattr(sample, field)
            assert (found.text if isinstance(found, Context) else found) == text


@pytest.mark.parametrize(
    "text",
    [
        (
            "[Document(metadata={'a': 1}, page_content='one'), Document(metadata={},"
            " page_content='two')]"
        ),
        "[Document(id=1, content: 'one'), Document(id=2, content: 'two')]",
        "[NodeWithScore(node=TextNode(id_='1', text='one'), score=0.5)]",
        "[<docs.Document object at 0x7f00>, <docs.Document object at 0x7f01>]",
        "array(['one', 'two'], dtype=object)",
        "[array(['one', 'two'], dtype=object)]",
        "['one' 'two' ... 'nine']",
    ],
)
def test_objects_that_were_written_as_one_text_are_no_context(text: str) -> None:
    with pytest.raises(
        RowError, match=r"contexts: Python objects that str\(\) wrote as one text"
    ):
        Sample.from_row({"contexts": text})


@pytest.mark.parametrize(
    "text",
    [
        "[1] Paris (France) is big.",
        "[Fe(CN)6]",
        "[Note] f(x=1)",
        "[Paris](a=b) is big",
        "array([1]) is code.",
    ],
)
def test_a_context_in_brackets_stays_one(text: str) -> None:
    assert [
        context.text for context in Sample.from_row({"contexts": text}).contexts
    ] == [text]


@pytest.mark.parametrize("field", ["contexts", "retrieved", "facts", "history"])
@pytest.mark.parametrize(
    "text",
    [
        '["The lamp was lit by An',
        '["one", "two',
        "['one', 'two",
        '[{"text": "one"}, {"te',
        '[\n  {"text": "one"},',
        '[ "one"',
        "[{'text': 'one'",
        '[{"text": "one", "text": "two"}]',
        "('one', 'two",
        '"[\\"one\\", \\"tw',
        '"[{\\"text\\": ',
        '{"one two","thr',
        '{"one two",NULL,three',
        "[“one”, “two",
        "[„one“, „two“] and more",
    ],
)
def test_a_list_that_was_cut_off_makes_a_bad_row(field: str, text: str) -> None:
    with pytest.raises(
        RowError, match=f"{field}: begins as a list and cannot be read as one"
    ):
        Sample.from_row({field: text})


BRACKETS = [
    "[1] Anna lit the lamp, Bert did not.",
    "[Anna], [Bert]",
    "[Anna lit the lamp.]",
    "(Anna, in 1903, lit it.)",
    "(1903)",
    "('Anna')",
    '"Anna lit it," he said.',
    '"[sic], he said"',
    "{Anna} lit {it}, too",
    "None of the lamps was lit.",
]


@pytest.mark.parametrize("field", ["contexts", "retrieved", "facts", "history"])
@pytest.mark.parametrize(
    "text",
    [
        "[Rain fell on Tuesday., Anna lit the lamp.]",
        "[“Rain fell”, “Anna lit it”]",
        '{"Rain fell",NULL}',
        "{Rain,Anna}",
        "  [one, [two], three]\n",
    ],
)
def test_a_list_without_its_quotes_makes_a_bad_row(field: str, text: str) -> None:
    with pytest.raises(
        RowError, match=f"^{field}: begins as a list .* or written without its quotes"
    ):
        Sample.from_row({field: text})


containers = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from(["a", "Anna lit it.", "[1]", "None", "", "it's"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["text", "content", "role", "id", "documents", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
).filter(lambda value: isinstance(value, (list, dict)))


def outcome(row: dict[str, Any]) -> object:
    try:
        return Sample.from_row(row)
    except RowError as error:
        return str(error)


@given(st.sampled_from(["contexts", "retrieved", "facts", "history"]), containers)
def test_a_list_or_object_in_a_text_is_what_it_is_as_data(
    field: str, value: Any
) -> None:
    as_data = outcome({"question": Q, field: value})
    texts = [
        json.dumps(value),
        repr(value),
        json.dumps(json.dumps(value)),
        repr(json.dumps(value)),
    ]
    texts += [repr(tuple(value))] if isinstance(value, list) else []
    for text in texts:
        assert outcome({"question": Q, field: text}) == as_data


WRITTEN_NOTHING = [
    "None",
    "NaN",
    "nan",
    "null",
    "NULL",
    "NA",
    "#N/A",
    r"\N",
    "<NA>",
    " None ",
]


@pytest.mark.parametrize("field", ["contexts", "retrieved", "facts", "history"])
@pytest.mark.parametrize("nothing", [*WRITTEN_NOTHING, None, math.nan, pd.NA])
def test_what_tables_write_for_nothing_is_missing(field: str, nothing: Any) -> None:
    cells = [nothing, [nothing]]
    if isinstance(nothing, str):
        cells += [f"[{nothing}]", json.dumps([nothing])]
    expected = {"contexts": None, "retrieved": None, "facts": None, "history": ()}[
        field
    ]
    for cell in cells:
        sample = Sample.from_row({"answer": "None", field: cell})
        assert (getattr(sample, field), sample.answer, sample.metadata) == (
            expected,
            "None",
            {},
        )


@pytest.mark.parametrize(
    "text",
    ["[sic] a text", "{", "[1] Paris", "[", '"a', "[['x']", "The list: ['a", *BRACKETS],
)
def test_a_text_that_begins_as_no_list_is_a_context(text: str) -> None:
    assert [
        context.text for context in Sample.from_row({"contexts": text}).contexts
    ] == [text]


@pytest.mark.parametrize(
    "text",
    ["['" + "\\'" * 300_000, '["' + '\\"' * 300_000, "['" + "\\'" * 300_000 + "\\"],
)
def test_a_string_without_an_end_takes_linear_time(text: str) -> None:
    assert data_in(text) == text


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("['a' 'b']", ["a", "b"]),
        ("""['a' "b"\n 'c']""", ["a", "b", "c"]),
        (r"['it\'s' 'b\\']", ["it's", "b\\"]),
        ("['a', 'b']", ["a", "b"]),
        ("""['say "no"' 'b']""", ['say "no"', "b"]),
    ],
)
def test_strings_without_commas_are_several(text: str, values: list[str]) -> None:
    assert data_in(text) == values
