"""An earlier talk among the fields of a workflow's start event."""

from __future__ import annotations

import asyncio
from types import ModuleType
from typing import Any

import pytest
from llama_index.core.llms import ChatMessage
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from llama_index.evaluation.ragmetrics import capture

from ragmetrics_core.data.sample import Sample

FERRY = "The Osta ferry crosses the lake every hour in summer."
QUESTION = "How often does the ferry go?"
SAID = [
    ("user", "When was the bridge opened?"),
    ("assistant", "In 1874, by the mayor."),
]
TEXTS = [text for _, text in SAID]


def of_a_start_event(kit: ModuleType, **fields: Any) -> Sample:
    """What a workflow makes of a question, whose prompt prints the fields."""
    retriever = kit.FixedRetriever([kit.node("f", FERRY)])
    model = kit.ScriptedLLM(script={"ferry": "Every hour, in summer."})

    class Asking(Workflow):
        @step
        async def answer(self, event: StartEvent) -> StopEvent:
            found = await retriever.aretrieve(QUESTION)
            before = "\n".join(str(value) for value in fields.values())
            text = f"{before}\n{found[0].node.text}\nQuestion: {QUESTION}"
            return StopEvent(result=(await model.acomplete(text)).text)

    async def run() -> None:
        await Asking(timeout=20).run(**fields)

    with capture() as captured:
        asyncio.run(run())
    (sample,) = captured.samples
    return sample


TYPED = [ChatMessage(role=role, content=text) for role, text in SAID]
NAMED = [{"role": role, "content": text} for role, text in SAID]
LABELLED = f"User: {TEXTS[0]}\nAssistant: {TEXTS[1]}"


@pytest.mark.parametrize("name", ["history", "chat_history"])
@pytest.mark.parametrize("talk", [TYPED, NAMED, LABELLED, [LABELLED], TEXTS])
def test_a_talk_in_a_start_event_is_the_history(
    kit: ModuleType, name: str, talk: Any
) -> None:
    sample = of_a_start_event(kit, query=QUESTION, **{name: talk})
    assert sample.question == QUESTION
    assert sample.ledger is not None
    assert sample.capture is not None
    has_roles = talk in (TYPED, NAMED)
    turns = [(turn.role, turn.content) for turn in sample.history]
    assert turns == (SAID if has_roles else [])
    assert sample.ledger.turn == (2 if has_roles else 1)
    assert sample.capture.grade == ("exact" if has_roles else "inferred")
    assert has_roles != any("history" in words for words in sample.capture.warnings)


def test_a_list_of_texts_that_ends_with_the_question_is_told(kit: ModuleType) -> None:
    sample = of_a_start_event(kit, history=[*TEXTS, QUESTION])
    assert sample.question == QUESTION
    assert sample.capture is not None
    assert sample.capture.grade == "inferred"


@pytest.mark.parametrize("name", ["memory_notes", "transcript"])
def test_a_talk_that_does_not_say_who_speaks_is_told(
    kit: ModuleType, name: str
) -> None:
    sample = of_a_start_event(kit, query=QUESTION, **{name: "\n".join(TEXTS)})
    assert sample.question == QUESTION
    assert sample.history == ()
    assert sample.capture is not None
    assert sample.capture.grade == "inferred"
    assert any(name in words for words in sample.capture.warnings)


@pytest.mark.parametrize("value", ["c-17", "", [], None])
def test_an_id_or_an_empty_talk_is_no_talk(kit: ModuleType, value: Any) -> None:
    sample = of_a_start_event(kit, query=QUESTION, conversation=value, history=value)
    assert sample.history == ()
    assert sample.capture is not None
    assert sample.capture.grade == "exact"


def test_an_answer_in_the_history_of_a_later_run_without_a_search_is_not_in_doubt(
    kit: ModuleType,
) -> None:
    """The later run rewrites its question with the history, and is turned away."""
    retriever = kit.FixedRetriever([kit.node("f", FERRY)])
    answer = "It crosses the lake every hour, in the summer months."
    model = kit.ScriptedLLM(script={"Rewrite": "Which rules are there?", "": answer})

    class Asking(Workflow):
        @step
        async def answer(self, event: StartEvent) -> StopEvent:
            if event.chat_history:
                asked = f"Rewrite with {event.chat_history}\nNew: {event.query}"
                return StopEvent(result=(await model.acomplete(asked)).text)
            found = await retriever.aretrieve(event.query)
            text = f"{found[0].node.text}\nQuestion: {event.query}"
            return StopEvent(result=(await model.acomplete(text)).text)

    async def run() -> None:
        await Asking(timeout=20).run(query=QUESTION, chat_history="")
        talk = f"User: {QUESTION}\nBot: {answer}"
        await Asking(timeout=20).run(query="List all rules.", chat_history=talk)

    with capture() as captured:
        asyncio.run(run())
    first = captured.samples[0]
    assert first.answer == answer
    assert first.capture is not None
    assert (first.capture.grade, first.capture.warnings) == ("exact", ())
