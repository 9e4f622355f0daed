"""Blocks of one conversation give the same samples in whichever order they are read."""

from __future__ import annotations

import gc
import itertools
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_ragmetrics import capture

TEXTS = (
    "Harlow Bridge was opened on 4 May 1874 by the engineer Ruth Calder.",
    "The repair of the piers cost the county 41,000 pounds in all.",
    "Electric lamps replaced the gas lamps of the bridge in October 1931.",
)
QUESTIONS = ("When was it opened?", "And the repair?", "And the lamps?")
ANSWERS = ("On 4 May 1874.", "41,000 pounds.", "In October 1931.")
Said = tuple[str, str]  # a question and its answer


class Finds(BaseRetriever):
    text: str

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any
    ) -> list[Document]:
        return [Document(self.text)]


def ask(turn: int, said: tuple[Said, ...]) -> None:
    model = FakeListChatModel(responses=[ANSWERS[turn]])
    history: list[Any] = []
    for question, answer in said:
        history += [HumanMessage(question), AIMessage(answer)]

    def answer_it(inputs: dict[str, Any]) -> str:
        (found,) = Finds(text=TEXTS[turn]).invoke(inputs["question"])
        prompt = f"{found.page_content}\nQuestion: {inputs['question']}"
        return str(model.invoke([*inputs["history"], HumanMessage(prompt)]).content)

    RunnableLambda(answer_it).invoke({"question": QUESTIONS[turn], "history": history})


_numbers = itertools.count()


def conversation_in_blocks() -> list[Any]:
    """Three turns of a new conversation, each in a block of its own."""
    name = f"blocks read later, {next(_numbers)}"
    blocks = []
    for turn in range(len(QUESTIONS)):
        said = tuple(zip(QUESTIONS[:turn], ANSWERS[:turn], strict=True))
        with capture(conversation=name) as captured:
            ask(turn, said)
        blocks.append(captured)
    return blocks


def evidence_of(block: Any) -> tuple[int, list[tuple[int, tuple[str, ...]]]]:
    """The number of a block's turn, and the texts of each call of its ledger."""
    (sample,) = block.samples
    calls = [
        (call.turn, tuple(item.text for item in call.items))
        for call in sample.ledger.calls
    ]
    return sample.ledger.turn, calls


EXPECTED = [
    (turn + 1, [(number + 1, (TEXTS[number],)) for number in range(turn + 1)])
    for turn in range(len(TEXTS))
]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_blocks_of_one_conversation_may_be_read_in_any_order(order):
    blocks = conversation_in_blocks()
    for index in order:
        assert evidence_of(blocks[index]) == EXPECTED[index]


def test_a_block_that_is_read_before_it_ends_goes_on_from_the_earlier_ones():
    name = "a block that goes on"
    with capture(conversation=name) as first:
        ask(0, ())
    with capture(conversation=name) as second:
        ask(1, ((QUESTIONS[0], ANSWERS[0]),))
        assert evidence_of(second) == EXPECTED[1]
    assert evidence_of(first) == EXPECTED[0]


def test_a_block_that_nobody_holds_is_read_for_later_ones():
    blocks = conversation_in_blocks()
    last = blocks.pop()
    blocks.clear()
    gc.collect()
    assert evidence_of(last) == EXPECTED[-1]
