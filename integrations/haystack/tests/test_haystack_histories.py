"""Earlier turns: read where messages or pairs say who spoke, else in doubt, whoever is shown them."""

from __future__ import annotations

from typing import Any

import pytest
from haystack import component
from haystack.components.builders import ChatPromptBuilder, PromptBuilder
from haystack.components.converters import OutputAdapter
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.joiners import ListJoiner
from haystack.dataclasses import ChatMessage
from haystack_integrations.components.evaluators.ragmetrics import capture
from haystack_rows import QUESTION, TEMPLATE, connected, retriever

from ragmetrics_core.data.sample import Sample

EARLIER, REPLY = "Who kept the lamp?", "Anna Brandt kept it until 1903."
REWRITTEN = "When was the lighthouse of Weser Island built?"
TALK = [ChatMessage.from_user(EARLIER), ChatMessage.from_assistant(REPLY)]
TURNS = (("user", EARLIER), ("assistant", REPLY))
MEMORIES = "{% for memory in memories %}{{ memory.text or memory }}\n{% endfor %}"


@component
class Memory:
    """Puts what a store keeps between the instructions and the user's message."""

    def __init__(self, kept: list[ChatMessage]) -> None:
        self.kept = kept

    @component.output_types(messages=list[ChatMessage])
    def run(self, current_messages: list[ChatMessage]) -> dict[str, Any]:
        first, *others = current_messages
        return {"messages": [first, *self.kept, *others]}


@component
class Notes:
    """Remembers what was said, as bare texts."""

    @component.output_types(memories=list[str])
    def run(self) -> dict[str, Any]:
        return {"memories": [EARLIER, REPLY]}


def only(captured: Any) -> Sample:
    (sample,) = captured.samples
    return sample


def grade(sample: Sample) -> str | None:
    return sample.capture.grade if sample.capture else None


def turns(sample: Sample) -> tuple[tuple[str, str], ...]:
    return tuple((turn.role, turn.content) for turn in sample.history or ())


def answering(**more: Any) -> Any:
    return {
        "retriever": retriever(),
        "prompt": PromptBuilder(TEMPLATE, required_variables="*"),
        "llm": MockChatGenerator("In 1856."),
        **more,
    }


SEARCH = (("retriever.documents", "prompt.documents"), ("prompt", "llm"))
ASKED = {"retriever": {"query": QUESTION}, "prompt": {"query": QUESTION}}


@pytest.mark.parametrize("kept", [TALK, TALK[1:]])
def test_a_memory_that_lost_the_first_question_still_tells_what_was_said(
    kept: list[ChatMessage],
) -> None:
    messages = [ChatMessage.from_system("Be brief."), ChatMessage.from_user(TEMPLATE)]
    made = connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt.prompt", "memory.current_messages"),
        ("memory.messages", "llm.messages"),
        **answering(
            prompt=ChatPromptBuilder(messages, required_variables="*"),
            memory=Memory(kept),
        ),
    )
    with capture() as captured:
        made.run(ASKED)
    sample = only(captured)
    assert turns(sample) == TURNS[-len(kept) :]
    assert grade(sample) == "exact"


@pytest.mark.parametrize("memories", [TALK, [list(turn) for turn in TURNS]])
def test_memories_that_are_handed_to_a_prompt_builder_are_read(memories: Any) -> None:
    prompt = PromptBuilder(MEMORIES + TEMPLATE, required_variables="*")
    made = connected(*SEARCH, **answering(prompt=prompt))
    with capture() as captured:
        made.run({**ASKED, "prompt": {"query": QUESTION, "memories": memories}})
    sample = only(captured)
    assert turns(sample) == TURNS
    assert grade(sample) == "exact"


def test_memories_without_speakers_are_in_doubt() -> None:
    prompt = PromptBuilder(MEMORIES + TEMPLATE, required_variables="*")
    made = connected(
        *SEARCH,
        ("notes.memories", "prompt.memories"),
        **answering(prompt=prompt, notes=Notes()),
    )
    with capture() as captured:
        made.run(ASKED)
    sample = only(captured)
    assert sample.history == ()
    assert sample.capture is not None
    assert set(sample.capture.doubts) == {"history_unread"}


LOOP = "Rewrite.\n{% for turn in said %}{{ turn }}\n{% endfor %}{{ query }}"


@pytest.mark.parametrize(
    "given",
    [
        {"template": [*TALK, ChatMessage.from_user("Rewrite: {{ query }}")]},
        {"said": TALK},
        {"said": [(EARLIER, REPLY)]},
        {"said": [{"role": role, "content": text} for role, text in TURNS]},
        {
            "template": [
                ChatMessage.from_user(f"{EARLIER} {REPLY}\nRewrite: {{{{ query }}}}")
            ]
        },
        {"said": [f"Benutzer: {EARLIER}\nAssistent: {REPLY}"]},
        {"said": [f"Benutzer: {EARLIER}", f"Assistent: {REPLY}"]},
        {"said": [f"उपयोगकर्ता: {EARLIER}", f"सहायक: {REPLY}"]},
        {"said": [f"Anna Berg: {EARLIER}", f"The bot: {REPLY}"]},
    ],
)
def test_earlier_turns_that_only_the_rewriter_is_shown_are_in_doubt(given: Any) -> None:
    made = connected(
        ("rewrite.prompt", "rewriter.messages"),
        ("rewriter.replies", "as_text.replies"),
        ("as_text", "retriever.query"),
        *SEARCH,
        **answering(
            rewrite=ChatPromptBuilder(
                [ChatMessage.from_user(LOOP)], required_variables=["query"]
            ),
            rewriter=MockChatGenerator(REWRITTEN),
            as_text=OutputAdapter("{{ replies[0].text }}", str),
        ),
    )
    with capture() as captured:
        made.run(
            {"rewrite": {"query": QUESTION, **given}, "prompt": {"query": QUESTION}}
        )
    sample = only(captured)
    assert sample.question == QUESTION
    assert sample.standalone_question == REWRITTEN
    has_messages = given.get("template", [])[:1] == TALK[:1]
    assert turns(sample) == (TURNS if has_messages else ())
    assert sample.capture is not None
    assert set(sample.capture.doubts) == {"history_unread"}


def test_a_reply_of_the_run_that_a_joiner_hands_on_was_not_said_before() -> None:
    made = connected(
        ("draft", "drafter"),
        ("drafter.replies", "joiner.values"),
        ("joiner.values", "prompt.drafts"),
        *SEARCH,
        **answering(
            draft=PromptBuilder("Answer: {{ query }}", required_variables="*"),
            drafter=MockChatGenerator("The lighthouse may have been built in 1850."),
            joiner=ListJoiner(list[ChatMessage]),
            prompt=PromptBuilder(
                "{{ drafts[0].text }}\n" + TEMPLATE, required_variables="*"
            ),
        ),
    )
    with capture() as captured:
        made.run({**ASKED, "draft": {"query": QUESTION}})
    sample = only(captured)
    assert sample.history == ()
    assert grade(sample) == "exact"
