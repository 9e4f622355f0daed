"""A step's span with documents in and out is a step that dropped the others, as under an adapter."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from losses import losses
from spans_by_hand import QUESTION, Told, otlp, span

from ragmetrics_core import Sample, evaluate
from ragmetrics_core.traces import samples_from_spans

FACT = "The gate was built in 1632 by order of the count of Nassau."
TEXTS = (
    FACT,
    "The mill lies by the river Lahn, below the second weir of the town.",
    "The bridge has nine arches of red stone, and a chapel in its middle.",
    "The well in the market square is older than the town's first wall.",
)
ANSWER = "I do not know."


def documents(places: Sequence[int]) -> list[Told]:
    return [
        {"page_content": TEXTS[place], "metadata": {}, "id": f"d{place}"}
        for place in places
    ]


def written_by_langchain(places: Sequence[int]) -> list[Told]:
    """Documents as LangChain's ``dumpd`` writes them."""
    path = ["langchain", "schema", "document", "Document"]
    return [
        {"lc": 1, "type": "constructor", "id": path, "kwargs": fields}
        for fields in documents(places)
    ]


def openinference(places: Sequence[int], prompt: str) -> list[Told]:
    """A graph that retrieves all texts, and whose node passes some of them on."""

    def one(name: str, begin: int, kind: str, taken: object, returned: object) -> Told:
        parent = "" if name == "graph" else "graph"
        end = 99 if name == "graph" else begin + 8
        attributes = {
            "input.value": json.dumps(taken),
            "output.value": json.dumps(returned),
        }
        return span(
            name, parent, begin, end, openinference__span__kind=kind, **attributes
        )

    everything = range(len(TEXTS))
    search = span(
        *("search", "graph", 10, 15),
        openinference__span__kind="RETRIEVER",
        input__value=QUESTION,
        **{
            f"retrieval.documents.{place}.document.content": TEXTS[place]
            for place in everything
        },
        **{
            f"retrieval.documents.{place}.document.id": f"d{place}"
            for place in everything
        },
    )
    model = span(
        *("model", "generate", 30, 36),
        openinference__span__kind="LLM",
        **{
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": prompt,
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": ANSWER,
        },
    )
    graph = one("graph", 1, "CHAIN", {"question": QUESTION}, {"answer": ANSWER})
    state = {"question": QUESTION, "documents": documents(everything)}
    step = one("grade", 20, "CHAIN", state, {"documents": documents(places)})
    passed_on = {"question": QUESTION, "documents": documents(places)}
    generate = one("generate", 29, "CHAIN", passed_on, {"answer": ANSWER})
    return [graph, search, step, generate, model]


def traceloop(places: Sequence[int], prompt: str) -> list[Told]:
    def one(name: str, begin: int, kind: str, taken: object, returned: object) -> Told:
        return span(
            *(name, "" if name == "graph" else "graph", begin),
            end=99 if name == "graph" else begin + 8,
            traceloop__span__kind=kind,
            traceloop__entity__name=name,
            traceloop__entity__input=json.dumps({"inputs": taken}),
            traceloop__entity__output=json.dumps({"outputs": returned}),
        )

    everything = range(len(TEXTS))
    found = written_by_langchain(everything)
    search = one("VectorStoreRetriever", 10, "task", {"query": QUESTION}, found)
    model = span(
        *("chat", "generate", 30, 36),
        gen_ai__operation__name="chat",
        traceloop__workflow__name="graph",
        **{
            "gen_ai.prompt.0.role": "user",
            "gen_ai.prompt.0.content": prompt,
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.content": ANSWER,
        },
    )
    graph = one("graph", 1, "workflow", {"question": QUESTION}, {"answer": ANSWER})
    state = {"question": QUESTION, "documents": found}
    returned = {"documents": written_by_langchain(places)}
    step = one("grade", 20, "task", state, returned)
    passed_on = {"question": QUESTION, **returned}
    generate = one("generate", 29, "task", passed_on, {"answer": ANSWER})
    return [graph, search, step, generate, model]


def read(
    recorded: Callable[[Sequence[int], str], list[Told]],
    places: Sequence[int],
    shown: Sequence[int],
) -> Sample:
    prompt = "\n".join([*(TEXTS[place] for place in shown), QUESTION])
    (sample,) = samples_from_spans([otlp(*recorded(places, prompt))])
    return sample


some_places = st.lists(
    st.sampled_from(range(len(TEXTS))), min_size=1, max_size=len(TEXTS) - 1, unique=True
)


@pytest.mark.parametrize("recorded", [openinference, traceloop])
@settings(max_examples=25, deadline=None)
@given(some_places)
def test_a_step_drops_what_it_does_not_pass_on(
    recorded: Callable[[Sequence[int], str], list[Told]], places: list[int]
) -> None:
    """Whatever it keeps, and in whatever order."""
    sample = read(recorded, places, shown=places)
    assert sample.capture is not None
    assert sample.capture.grade == "exact", sample.capture.warnings
    notes = sample.capture.passages or ()
    assert [note.kept for note in notes] == [n in places for n in range(len(TEXTS))]
    droppers = {note.dropped_by for note in notes if not note.kept}
    assert droppers == {"grade"}
    assert [context.text for context in sample.known_contexts] == [
        TEXTS[n] for n in places
    ]


@pytest.mark.parametrize("recorded", [openinference, traceloop])
def test_a_fact_in_a_dropped_passage_was_not_shown(
    recorded: Callable[[Sequence[int], str], list[Told]],
) -> None:
    for places in ([1, 2, 3], [0, 1, 2]):
        shown = [place for place in places if place != 0]
        sample = read(recorded, places, shown)
        sample = sample.model_copy(update={"reference": (FACT,)})
        journey = evaluate([sample], metrics=["accuracy"], judge="lexical").journey()
        assert losses(journey) == {"not_shown"}


@pytest.mark.parametrize("recorded", [openinference, traceloop])
def test_a_step_that_returns_an_empty_list_dropped_all_documents(
    recorded: Callable[[Sequence[int], str], list[Told]],
) -> None:
    """The model answers alone; no prompt shows a passage."""
    sample = read(recorded, (), shown=())
    assert sample.capture is not None
    notes = sample.capture.passages or ()
    assert [note.kept for note in notes] == [False] * len(TEXTS)
    assert {note.dropped_by for note in notes} == {"grade"}
    sample = sample.model_copy(update={"reference": (FACT,)})
    journey = evaluate([sample], metrics=["accuracy"], judge="lexical").journey()
    assert losses(journey) == {"not_shown"}
