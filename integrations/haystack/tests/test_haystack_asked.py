"""The question, its history and the answer of pipelines that rewrite, check and write on; nothing exact without one."""

from __future__ import annotations

from typing import Any

import pytest
from haystack import Document, Pipeline, component
from haystack.components.builders import AnswerBuilder, ChatPromptBuilder
from haystack.components.converters import OutputAdapter
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack_integrations.components.evaluators.ragmetrics import capture
from haystack_rows import connected

from ragmetrics_core.data.sample import Sample

BRIDGE = "The Velm bridge was opened in 1874 by the mayor of the town."
FERRY = "The Osta ferry crosses the lake every hour in summer."
QUESTION = "And how often does it go?"
REWRITTEN = "How often does the Osta ferry go?"
BEFORE = [("user", "Is there a ferry at Osta?"), ("assistant", "Yes, there is one.")]
ASKING = (
    "Use only this:\n{% for one in documents %}{{ one.content }}\n{% endfor"
    " %}\nQuestion: {{ query }}"
)
TALK = "{% for one in memories %}{{ one.role.value }}: {{ one.text }}\n{% endfor %}"

STORE = InMemoryDocumentStore()
STORE.write_documents(
    [Document(id="bridge", content=BRIDGE), Document(id="ferry", content=FERRY)]
)


def speaking(text: str) -> MockChatGenerator:
    return MockChatGenerator(response_fn=lambda messages: text)


def prompt(text: str) -> ChatPromptBuilder:
    return ChatPromptBuilder([ChatMessage.from_user(text)], required_variables="*")


def messages() -> list[ChatMessage]:
    made = {"user": ChatMessage.from_user, "assistant": ChatMessage.from_assistant}
    return [made[role](text) for role, text in BEFORE]


@component
class Memory:
    """The messages of a store, oldest first."""

    @component.output_types(messages=list[ChatMessage])
    def run(self, last: int) -> dict[str, Any]:
        return {"messages": messages()[-last:]}


def text_of_replies() -> OutputAdapter:
    return OutputAdapter("{{ replies[0].text }}", str)


REWRITING = [
    ("rewriting.prompt", "rewriter.messages"),
    ("rewriter.replies", "text.replies"),
    ("text.output", "retriever.query"),
    ("retriever.documents", "prompt.documents"),
    ("prompt.prompt", "llm.messages"),
]


def rewriting(
    asking: str = ASKING, *wires: tuple[str, str], **components: Any
) -> Pipeline:
    """Haystack's cookbook on conversations: the question is rewritten with the history, then searched for."""
    return connected(
        *REWRITING,
        *wires,
        rewriting=prompt(f"Rewrite the question.\n{TALK}Question: {{{{ query }}}}"),
        rewriter=speaking(REWRITTEN),
        text=text_of_replies(),
        retriever=InMemoryBM25Retriever(STORE, top_k=1),
        prompt=prompt(asking),
        llm=speaking("Every hour."),
        **components,
    )


def history_handed_in() -> None:
    rewriting().run(
        {
            "rewriting": {"query": QUESTION, "memories": messages()},
            "prompt": {"query": QUESTION},
        }
    )


def history_in_both_prompts() -> None:
    given = {"query": QUESTION, "memories": messages()}
    rewriting(TALK + ASKING).run({"rewriting": given, "prompt": given})


def history_of_a_memory() -> None:
    made = rewriting(
        TALK + ASKING,
        ("memory.messages", "rewriting.memories"),
        ("memory.messages", "prompt.memories"),
        memory=Memory(),
    )
    made.run(
        {
            "rewriting": {"query": QUESTION},
            "prompt": {"query": QUESTION},
            "memory": {"last": 10},
        }
    )


def history_of_a_memory_for_the_rewriting_alone() -> None:
    made = rewriting(ASKING, ("memory.messages", "rewriting.memories"), memory=Memory())
    made.run(
        {
            "rewriting": {"query": QUESTION},
            "prompt": {"query": QUESTION},
            "memory": {"last": 10},
        }
    )


def history_as_messages_of_the_rewriter() -> None:
    made = connected(
        *REWRITING[1:],
        rewriter=speaking(REWRITTEN),
        text=text_of_replies(),
        retriever=InMemoryBM25Retriever(STORE, top_k=1),
        prompt=prompt(ASKING),
        llm=speaking("Every hour."),
    )
    asked = [
        ChatMessage.from_system("Rewrite the question."),
        *messages(),
        ChatMessage.from_user(QUESTION),
    ]
    made.run({"rewriter": {"messages": asked}, "prompt": {"query": QUESTION}})


CONVERSATIONS = [
    history_handed_in,
    history_in_both_prompts,
    history_of_a_memory,
    history_of_a_memory_for_the_rewriting_alone,
    history_as_messages_of_the_rewriter,
]


def only_sample(application: Any, **settings: Any) -> Sample:
    with capture(**settings) as captured:
        application()
    (sample,) = captured.samples
    return sample


@pytest.mark.parametrize("application", CONVERSATIONS)
def test_a_pipeline_that_rewrites_the_question_keeps_the_question_and_its_history(
    application: Any,
) -> None:
    sample = only_sample(application)
    assert (sample.question, sample.standalone_question) == (QUESTION, REWRITTEN)
    assert [(turn.role, turn.content) for turn in sample.history] == BEFORE
    assert [context.text for context in sample.known_contexts] == [FERRY]
    assert sample.answer == "Every hour."
    assert sample.ledger is not None
    assert sample.ledger.turn == 2


@component
class Pages:
    @component.output_types(documents=list[Document])
    def run(self, limit: int) -> dict[str, Any]:
        return {"documents": [Document(id="bridge", content=BRIDGE)][:limit]}


def summarising() -> None:
    made = connected(
        ("pages.documents", "prompt.documents"),
        ("prompt.prompt", "llm.messages"),
        pages=Pages(),
        prompt=prompt(
            "Summarise:\n{% for one in documents %}{{ one.content }}{% endfor %}"
        ),
        llm=speaking("A summary."),
    )
    made.run({"pages": {"limit": 3}})


def test_without_a_question_nothing_is_exact() -> None:
    sample = only_sample(summarising)
    assert sample.question is None
    assert sample.capture is not None
    assert sample.capture.grade in ("inferred", "incomplete")


def test_a_question_that_the_caller_says_is_one() -> None:
    sample = only_sample(summarising, question="What does the page say?")
    assert sample.question == "What does the page say?"
    assert sample.capture is not None
    assert (sample.capture.grade, sample.capture.warnings) == ("exact", ())


@pytest.mark.parametrize("verdict", ["yes", "grounded", '{"grounded": true}'])
@pytest.mark.parametrize("checked", [False, True])
def test_a_verdict_on_the_answer_is_no_sure_answer(verdict: str, checked: bool) -> None:
    """A pipeline that checks itself.

    The answer is a leaf of it only where an ``AnswerBuilder`` makes one.
    """
    wires = [
        ("retriever.documents", "prompt.documents"),
        ("prompt.prompt", "llm.messages"),
        ("llm.replies", "text.replies"),
        ("text.output", "checking.answer"),
        ("retriever.documents", "checking.documents"),
        ("checking.prompt", "checker.messages"),
    ]
    more = {}
    if checked:
        wires += [
            ("llm.replies", "answers.replies"),
            ("retriever.documents", "answers.documents"),
        ]
        more["answers"] = AnswerBuilder()
    made = connected(
        *wires,
        retriever=InMemoryBM25Retriever(STORE, top_k=1),
        prompt=prompt(ASKING),
        llm=speaking("The ferry goes every hour."),
        text=text_of_replies(),
        checking=prompt(
            "Is it grounded? {{ answer }}\n{% for one in documents %}{{ one.content"
            " }}{% endfor %}"
        ),
        checker=speaking(verdict),
        **more,
    )
    given: dict[str, Any] = {
        "retriever": {"query": REWRITTEN},
        "prompt": {"query": REWRITTEN},
    }
    if checked:
        given["answers"] = {"query": REWRITTEN}
    sample = only_sample(lambda: made.run(given))
    assert sample.capture is not None
    is_right = sample.answer == "The ferry goes every hour."
    assert is_right or "answer_guessed" in sample.capture.doubts
    assert is_right or not checked
    assert [context.text for context in sample.known_contexts] == [FERRY]


@component
class Keeping:
    """Takes answers, and returns nothing of them."""

    @component.output_types(n_kept=int)
    def run(self, answers: list[Any]) -> dict[str, Any]:
        return {"n_kept": len(answers)}


def with_answer_kept(*wires: tuple[str, str], **more: Any) -> Pipeline:
    """A pipeline that keeps its answer, about the ferry, as an answer object.

    Args:
        wires: Further connections, such as of ``made.answers``.
        more: The components that they connect.
    """
    return connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt.prompt", "llm.messages"),
        ("llm.replies", "made.replies"),
        ("made.answers", "keeping.answers"),
        *wires,
        retriever=InMemoryBM25Retriever(STORE, top_k=1),
        prompt=prompt(ASKING),
        llm=speaking(FERRY),
        made=AnswerBuilder(),
        keeping=Keeping(),
        **more,
    )


@pytest.mark.parametrize(
    "verdict",
    [
        "yes",
        "7",
        "passed",
        "Safe.",
        "valid",
        '{"ok": true}',
        '{"score": 1}',
        "Is it old?\nWho built it?",
    ],
)
def test_a_verdict_on_an_answer_object_is_not_the_answer(verdict: str) -> None:
    made = with_answer_kept(
        ("made.answers", "asking.about"),
        ("asking.prompt", "judge.messages"),
        asking=prompt("Grade this answer: {{ about[0].data }}"),
        judge=speaking(verdict),
    )
    given = {"retriever": {"query": REWRITTEN}, "prompt": {"query": REWRITTEN}}
    given["made"] = {"query": REWRITTEN}
    assert only_sample(lambda: made.run(given)).answer == FERRY
