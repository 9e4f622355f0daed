"""A long conversation with compaction over a checkpointer on disk: the ledger stays exact, and nothing grows."""

from __future__ import annotations

import gc
import random
import re
import statistics
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import create_retriever_tool
from langchain_fakes import Shelf, Speaker, document
from langchain_ragmetrics import capture
from langchain_ragmetrics.capturing import RECORDER
from langgraph.checkpoint.sqlite import SqliteSaver
from langsmith.run_trees import RunTree

from ragmetrics_core.data.sample import EvidenceCall, Sample

TURNS = 30


def words(seed: str, count: int = 12) -> str:
    """A sentence that no other one is like."""
    letters = random.Random(seed)
    return (
        " ".join(
            "".join(letters.choices("abcdefghilmnoprstuv", k=7)) for _ in range(count)
        )
        + "."
    )


def searches(turn: int) -> list[str]:
    """What a turn searches for: nothing, what is not there, two things at once, or one."""
    if turn % 7 == 0:
        return []
    return (
        ["void"]
        if turn % 11 == 0
        else [f"{turn} a", f"{turn} b"]
        if turn % 5 == 0
        else [f"{turn} a"]
    )


def asked(messages: Any) -> int:
    """The number of the turn that the user asks in."""
    said = [
        one
        for one in messages
        if isinstance(one, HumanMessage) and not one.additional_kwargs.get("lc_source")
    ]
    return int(re.sub(r"\D", "", said[-1].text))


def says(messages: Any) -> AIMessage | str:
    turn = asked(messages)
    if isinstance(messages[-1], HumanMessage) and searches(turn):
        calls = [
            {"name": "look_up", "args": {"query": query}, "id": query}
            for query in searches(turn)
        ]
        return AIMessage("", tool_calls=calls)
    return f"Answer {turn}: {words(f'answer {turn}', 5)}"


def shown(call: EvidenceCall, prompt: str) -> tuple[int, ...]:
    return tuple(place for place, item in enumerate(call.items) if item.text in prompt)


def expected(
    turn: int, prompts: list[str], written: list[str]
) -> list[tuple[Any, ...]]:
    """Kind, step and texts of the calls of a turn: its summaries, where its prompts first show them, its searches."""
    first = [
        next(at for at, prompt in enumerate(prompts) if text in prompt)
        for text in written
    ]
    made = [
        ("written", step, (text,)) for step, text in zip(first, written, strict=True)
    ]
    found = [
        ("retrieval", 1, () if query == "void" else (words(query),))
        for query in searches(turn)
    ]
    return [
        *(one for one in made if one[1] == 0),
        *found,
        *(one for one in made if one[1]),
    ]


@pytest.mark.nightly
@pytest.mark.skipif(
    version("langchain").startswith("1.0."),
    reason="its summaries are asked for in another way",
)
def test_thirty_turns_with_compaction(tmp_path: Path) -> None:
    shelf = Shelf(
        books=lambda query: [] if query == "void" else [document(words(query), query)]
    )
    tool = create_retriever_tool(shelf, "look_up", "Looks a thing up.")
    notes = Speaker(lines=lambda messages: words(f"note {notes.spoken}"))
    samples: list[Sample] = []
    wanted: list[tuple[Any, ...]] = []
    seconds, kept = [], []
    with capture(every_turn=True) as captured:
        for turn in range(1, TURNS + 1):
            model = Speaker(lines=says)
            before = notes.spoken
            # opened anew, as by a server
            with SqliteSaver.from_conn_string(
                str(tmp_path / "threads.sqlite")
            ) as saver:
                shorten = SummarizationMiddleware(
                    notes, trigger=("messages", 12), keep=("messages", 4)
                )
                agent = create_agent(
                    model, [tool], middleware=[shorten], checkpointer=saver
                )
                config: Any = {"configurable": {"thread_id": "long"}}
                began = time.process_time()
                agent.invoke(
                    {"messages": [("user", f"Question {turn}?")]}, config=config
                )
                samples = list(captured.samples)
                seconds.append(time.process_time() - began)
            gc.collect()
            kept.append(sum(isinstance(one, RunTree) for one in gc.get_objects()))
            assert not RECORDER.open
            assert "(0 open runs," in repr(RECORDER)
            made = [
                words(f"note {count}") for count in range(before + 1, notes.spoken + 1)
            ]
            made = [
                f"Here is a summary of the conversation to date:\n\n{text}"
                for text in made
            ]
            wanted += [(turn, *one) for one in expected(turn, model.prompts, made)]
            _check(samples, wanted, model.prompts[-1], turn)
    assert notes.spoken >= 5  # it was compacted again and again
    assert not captured.problems
    assert kept[-1] == kept[9]
    assert statistics.median(seconds[-10:]) < 4 * statistics.median(seconds[:10]) + 0.05


def _check(
    samples: list[Sample], wanted: list[tuple[Any, ...]], prompt: str, turn: int
) -> None:
    assert len(samples) == turn
    ledger = samples[-1].ledger
    assert ledger is not None
    assert (ledger.conversation, ledger.turn) == ("long", turn)
    found = [
        (call.turn, call.kind, call.step, tuple(item.text for item in call.items))
        for call in ledger.calls
    ]
    assert found == wanted
    assert [call.shown for call in ledger.calls] == [
        shown(call, prompt) for call in ledger.calls
    ]
    said = [one.content for one in samples[-1].history]
    pairs = [
        (f"Question {n}?", f"Answer {n}: {words(f'answer {n}', 5)}")
        for n in range(1, turn)
    ]
    assert said == [text for pair in pairs for text in pair]
