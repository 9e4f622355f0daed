"""What answers of Haystack applications cite: each has the shape of a public one that cites.

The scripted models are shown the prompts of these applications. What is expected stands
in each row: the part of the answer, the numbers of the texts that it cites, and what
dangles; or words of the reason why nothing can be known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from haystack import Document, Pipeline, component
from haystack.components.builders import AnswerBuilder, ChatPromptBuilder, PromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.rankers import LostInTheMiddleRanker
from haystack.dataclasses import ChatMessage
from haystack_integrations.components.evaluators.ragmetrics import capture
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples
from velm import ANSWER, MARKS, QUESTION, TEXTS, Expected, check, check_contexts

from ragmetrics_core import Sample

FILES = ("rivers.pdf", "bridges.pdf", "opening.pdf")


@component
class Finds:
    """A retriever of some of the texts."""

    def __init__(self, places: tuple[int, ...] = (0, 1, 2)) -> None:
        self.places = places

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        documents = [
            Document(
                id=f"d{place}",
                content=TEXTS[place],
                score=0.9 - place / 10,
                meta={
                    "source": FILES[place],
                    "file_name": FILES[place],
                    "url": f"https://velm.test/{FILES[place]}",
                    "titulo": f"Chapter of {FILES[place]}",
                    "page": place + 4,
                    "marker": str(place + 1),
                    "doctype": "guide",
                },
            )
            for place in self.places
        ]
        return {"documents": documents}


def loop(label: str) -> str:
    return "{% for doc in documents %}" + label + "\n{% endfor %}"


def run(
    label: str,
    answer: str | ChatMessage,
    *,
    builder: AnswerBuilder | None = None,
    chat: bool = False,
    between: Any = None,
) -> Callable[[], Any]:
    """A pipeline: a retriever, a prompt of labelled documents, a model, an answer builder."""

    def made() -> Any:
        template = "Cite your sources.\n\n" + loop(label) + "\nQuestion: {{ query }}"
        pipeline = Pipeline()
        pipeline.add_component("retriever", Finds())
        required = ["documents", "query"]
        prompt: Any = PromptBuilder(template, required_variables=required)
        if chat:
            messages = [ChatMessage.from_user(template)]
            prompt = ChatPromptBuilder(messages, required_variables=required)
        pipeline.add_component("prompt", prompt)
        pipeline.add_component("llm", MockChatGenerator(answer))
        documents = "retriever.documents"
        if between is not None:
            pipeline.add_component("between", between())
            pipeline.connect(documents, "between.documents")
            documents = "between.documents"
        pipeline.connect(documents, "prompt.documents")
        pipeline.connect("prompt", "llm")
        asked = {"retriever": {"query": QUESTION}, "prompt": {"query": QUESTION}}
        if builder is not None:
            pipeline.add_component("answers", builder)
            pipeline.connect("llm.replies", "answers.replies")
            pipeline.connect("retriever.documents", "answers.documents")
            asked["answers"] = {"query": QUESTION}
        return pipeline.run(asked)

    return made


def referenced(**options: Any) -> AnswerBuilder:
    return AnswerBuilder(reference_pattern=r"\[(\d+)\]", **options)


JSON_ANSWER = json.dumps(
    {
        "answer": "It was opened in 1874.",
        "citations": [{"source": "opening.pdf", "page": 6}],
    }
)
MARKS_AND_SOURCES = "[{{ loop.index }}] {{ doc.content }}"


def parsed(reply: dict[str, Any], label: str = MARKS_AND_SOURCES) -> Callable[[], Any]:
    """The application takes the answer out of the reply, by a pattern of the builder."""
    pattern = r'"answer": "([^"]*)"'
    return run(label, json.dumps(reply), builder=AnswerBuilder(pattern=pattern))


IN_JSON = (
    "=== DOC {{ loop.index }} ===\n"
    "SOURCE: {{ doc.meta.source }} | PAGE: {{ doc.meta.page }}\n"
    "CONTENT:\n{{ doc.content }}"
)


def component_of(change: Callable[[str], str]) -> Any:
    """A component that changes the text of a model's reply."""

    @component
    class Changes:
        @component.output_types(replies=list[str])
        def run(self, replies: list[ChatMessage]) -> dict[str, Any]:
            return {"replies": [change(reply.text or "") for reply in replies]}

    return Changes()


def changed(
    change: Callable[[str], str],
    *,
    label: str = "[{{ loop.index }}]",
    answer: str = ANSWER,
    builder: AnswerBuilder | None = None,
    places: tuple[int, ...] = (0, 1, 2),
) -> Callable[[], Any]:
    """A pipeline whose answer builder is handed a reply that a component changed.

    Args:
        change: What becomes of the reply's text.
        label: What the prompt shows before each text.
        answer: The model's reply.
        builder: The answer builder; one without options if None.
        places: The texts that the answer builder is given, in this order.
    """

    def made() -> Any:
        pipeline = Pipeline()
        pipeline.add_component("retriever", Finds())
        template = loop(label + " {{ doc.content }}") + "\nQuestion: {{ query }}"
        required = ["documents", "query"]
        pipeline.add_component(
            "prompt", PromptBuilder(template, required_variables=required)
        )
        pipeline.add_component("llm", MockChatGenerator(answer))
        pipeline.add_component("change", component_of(change))
        pipeline.add_component("shown", Finds(places))
        pipeline.add_component("answers", builder or AnswerBuilder())
        pipeline.connect("retriever.documents", "prompt.documents")
        pipeline.connect("prompt", "llm")
        pipeline.connect("llm.replies", "change.replies")
        pipeline.connect("change.replies", "answers.replies")
        pipeline.connect("shown.documents", "answers.documents")
        names = ("retriever", "prompt", "shown", "answers")
        return pipeline.run({name: {"query": QUESTION} for name in names})

    return made


def by_first_use(text: str) -> str:
    """Number the marks as they come, as search front ends do: [3] … [1] to [1] … [2]."""
    numbers = list(dict.fromkeys(re.findall(r"(?<=[\[<])\d+", text)))
    return re.sub(r"(?<=[\[<])\d+", lambda m: str(numbers.index(m[0]) + 1), text)


def one_more(text: str) -> str:
    return re.sub(r"\d+(?=\])", lambda number: str(int(number[0]) + 1), text)


TWO_MARKS = "It was opened in 1874 [3]. It is old [1]."


def provided(words: str, **location: Any) -> Callable[[], Any]:
    """Anthropic says what the reply cites; the application showed the texts."""
    cited = {"type": "char_location", "cited_text": words, **location}
    text = "It was opened in 1874."
    block = {"type": "text", "text": text, "citations": [cited]}
    meta = {"raw_content_for_server_tools": [block], "citations": [cited]}
    reply = ChatMessage.from_assistant(text, meta=meta)
    return run("{{ doc.content }}", reply)


@dataclass(frozen=True)
class App:
    """How the shape of a public application is run, and what its answer cites."""

    run: Callable[[], Any]
    expected: Expected


UNNUMBERED = "does not number each context"
OTHER = "in another notation"
CONTRADICTING = "fits several contexts, or none"
CHANGED = "was changed after the model"
LISTS_NAMES = "In 1874 [1].\n\n### References\n\n- [1] opening-day.pdf"

APPS: dict[str, App] = {
    # HKUDS/LightRAG: the passages have numbers alone, and a list names the numbers
    "an own list that says what the numbers mean": App(
        run("[{{ loop.index }}] {{ doc.content }}", LISTS_NAMES),
        OTHER,
    ),
    "an answer builder": App(
        run(
            "Document[{{ loop.index }}]:\n{{ doc.content }}",
            ANSWER,
            builder=AnswerBuilder(),
        ),
        MARKS,
    ),
    "a reference pattern": App(
        run(
            "Document[{{ loop.index }}]:\n{{ doc.content }}",
            ANSWER,
            builder=referenced(),
        ),
        MARKS,
    ),
    "a reference pattern, all documents kept": App(
        run(
            "Document[{{ loop.index }}]:\n{{ doc.content }}",
            ANSWER,
            builder=referenced(return_only_referenced_documents=False),
        ),
        MARKS,
    ),
    "numbers of a line of its own": App(
        run("Document[{{ loop.index }}]\n{{ doc.content }}", "In 1874 [3].", chat=True),
        [("In 1874 [3].", (2,), ())],
    ),
    "sources behind numbered texts": App(
        run(
            "[{{ loop.index }}] {{ doc.content }}\n(Source: {{ doc.meta.source }}, Page: {{ doc.meta.page }})\n",
            ANSWER,
        ),
        MARKS,
    ),
    "rules between the texts": App(
        run("[{{ loop.index }}] {{ doc.content }}\n---", "Seit 1874 [3][2]."),
        [("Seit 1874 [3][2].", (2,), ()), ("Seit 1874 [3][2].", (1,), ())],
    ),
    "numbers from 0": App(
        run("[{{ loop.index0 }}] {{ doc.content }}", "In 1874 [2]. Old [0]."),
        [("In 1874 [2].", (2,), ()), ("Old [0].", (0,), ())],
    ),
    "numbers from 0, read from 1 by the builder": App(
        run(
            "[{{ loop.index0 }}] {{ doc.content }}",
            "In 1874 [2]. Red [3].",
            builder=referenced(),
        ),
        [("In 1874 [2].", (2,), ()), ("Red [3].", (), ("3",))],
    ),
    "addresses": App(
        run(
            "URL: {{ doc.meta.url }}\nCollection: web\n{{ doc.content }}",
            "In 1874 [https://velm.test/opening.pdf].",
        ),
        OTHER,
    ),
    "an object with files and pages": App(run(IN_JSON, JSON_ANSWER), OTHER),
    "marks and a list of the same, parsed": App(
        parsed({"answer": "In 1874 [3].", "sources": [3]}),
        [("In 1874 [3].", (2,), ())],
    ),
    "marks and a list of another, parsed": App(
        parsed({"answer": "In 1874 [3].", "sources": [1]}),
        CONTRADICTING,
    ),
    "marks and a list of the same, as text": App(
        run(MARKS_AND_SOURCES, json.dumps({"answer": "In 1874 [3].", "sources": [3]})),
        OTHER,
    ),
    "marks and a list of another, as text": App(
        run(MARKS_AND_SOURCES, json.dumps({"answer": "In 1874 [3].", "sources": [1]})),
        OTHER,
    ),
    "put at both ends": App(
        run(
            "[{{ loop.index }}] {{ doc.content }}",
            "In 1874 [2].",
            between=LostInTheMiddleRanker,
            builder=referenced(),
        ),
        [("In 1874 [2].", (2,), ())],
    ),
    "no numbers, counted by the builder": App(
        run("{{ doc.content }}", "In 1874 [3]. Old [7].", builder=referenced()),
        UNNUMBERED,
    ),
    "marks of the application's own": App(
        run(
            "<{{ loop.index }}> {{ doc.content }}",
            "In 1874 <3>.",
            builder=AnswerBuilder(reference_pattern=r"<(\d+)>"),
        ),
        OTHER,
    ),
    "Anthropic, documents of the prompt": App(
        provided("opened at last in 1874", document_index=2), [(None, (2,), ())]
    ),
    "marks counted by first use before the builder": App(
        changed(by_first_use, answer=TWO_MARKS), CHANGED
    ),
    "marks counted anew, read by a pattern": App(
        changed(by_first_use, answer=TWO_MARKS, builder=referenced()),
        CHANGED,
    ),
    "marks from 0 become marks from 1": App(
        changed(
            one_more,
            label="[{{ loop.index0 }}]",
            answer="It was opened in 1874 [2]. It is old [0].",
        ),
        CHANGED,
    ),
}


def captured(made: Callable[[], Any]) -> Sample:
    with capture() as runs:
        made()
    (sample,) = runs.samples
    return sample


@pytest.mark.parametrize("name", APPS)
def test_every_citation_is_right_or_unknown_with_its_reason(name: str) -> None:
    app = APPS[name]
    sample = captured(app.run)
    check_contexts(sample)
    check(sample, app.expected)


@settings(max_examples=examples(20), deadline=None)
@given(new_numbers=st.permutations([1, 2, 3]), marks=st.permutations([1, 2, 3]))
def test_marks_are_read_only_as_the_model_wrote_them(
    new_numbers: list[int], marks: list[int]
) -> None:
    """Whatever numbers a component gives the marks, none of them is read wrongly."""
    answer = f"It is old [{marks[0]}]. It was opened in 1874 [{marks[1]}]."

    def renumbered(text: str) -> str:
        return re.sub(
            r"\[(\d)\]", lambda mark: f"[{new_numbers[int(mark[1]) - 1]}]", text
        )

    sample = captured(changed(renumbered, answer=answer))
    if renumbered(answer) != answer:
        assert sample.citations is None
        assert CHANGED in sample.citations_unknown
        return
    assert sample.citations is not None, sample.citations_unknown
    cited = [citation.contexts for citation in sample.citations]
    assert cited == [(marks[0] - 1,), (marks[1] - 1,)]


@settings(max_examples=examples(20), deadline=None)
@given(
    words=st.lists(
        st.sampled_from(["The lamp", "was lit", " in 1882.", "Yes.", "It fell.\n"]),
        min_size=1,
        max_size=5,
    ),
    data=st.data(),
)
def test_a_citation_of_a_block_is_for_its_words_however_blocks_are_joined(
    words: list[str], data: st.DataObject
) -> None:
    """Anthropic's reply is a list of blocks; Haystack joins their texts by a blank."""
    cited_index = data.draw(st.integers(0, len(words) - 1))
    cited = {
        "type": "char_location",
        "cited_text": TEXTS[0],
        "document_index": 0,
        "start_char_index": 0,
        "end_char_index": len(TEXTS[0]),
    }
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text} for text in words]
    blocks[cited_index]["citations"] = [cited]
    joint = data.draw(st.sampled_from([" ", "", "\n\n"]))
    meta = {"raw_content_for_server_tools": blocks}
    reply = ChatMessage.from_assistant(joint.join(words), meta=meta)
    with capture() as captured:
        run("{{ doc.content }}", reply)()
    (sample,) = captured.samples
    (citation,) = sample.citations or ()
    assert citation.contexts == (0,)
    before = joint.join(words[:cited_index]) + (joint if cited_index else "")
    assert sample.answer is not None
    start = len(before)
    end = start + len(words[cited_index])
    assert sample.answer[citation.start : citation.end].strip() == (
        joint.join(words)[start:end].strip()
    )
    assert abs(citation.start - start) <= 1
