"""The evidence ledger on the neutral tree of calls: which calls brought what, in which order, and what was shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from test_tree_rules import (
    ANSWER,
    DOCS,
    EVORA,
    FARO,
    PORTO,
    QUESTION,
    SAYS,
    Clock,
    asked,
    model,
    retriever,
    step,
    tool,
)
from test_tree_rules import tree as made

from ragmetrics_core.capture import (
    Answer,
    Captured,
    Document,
    Message,
    Node,
    ToolCall,
    Tree,
    samples_of,
)
from ragmetrics_core.capture.plain_values import Overrides
from ragmetrics_core.capture.turns import Turns
from ragmetrics_core.data.sample import EvidenceCall, Ledger, Sample, Turn

P, F, E = DOCS
ROWS_OF_SQL = (
    "region north: 412 orders; region south: 377 orders; region east: 12 orders"
)
FOUND = {PORTO: "porto", FARO: "faro", EVORA: "evora", ROWS_OF_SQL: "sql"}


@dataclass(frozen=True)
class Call:
    """What an entry of the ledger must be; items by short names."""

    kind: str
    items: tuple[str, ...] = ()
    shown: tuple[int, ...] | None = ()
    step: int = 0
    name: str | None = None
    query: str | None = None
    agent: str | None = None
    error: str | None = None


def told(call: EvidenceCall) -> Call:
    items = tuple(FOUND.get(item.text, item.text) for item in call.items)
    return Call(
        call.kind,
        items,
        call.shown,
        call.step,
        call.name,
        call.query,
        call.agent,
        call.error,
    )


def wants(*calls: tuple[str, str, dict[str, Any]]) -> Message:
    return Message(
        "assistant", "", tuple(ToolCall(name, args, made) for name, made, args in calls)
    )


def results(*texts: str) -> list[Message]:
    return [Message("user", QUESTION), *(Message("tool", text) for text in texts)]


CALL = EvidenceCall(kind="tool")
TWO = wants(("search", "1", {"query": "north"}), ("search", "2", {"query": "south"}))
ONE = wants(("search", "1", {"query": "north"}))
ASK = wants(("ask", "1", {"question": "Where?"}))


def search(
    clock: Clock, text: str, *docs: Document, call: str = "1", query: str = "north"
) -> Callable[[], Node]:
    inner = retriever(clock, *docs, query=query)
    return tool(clock, text, inner, name="search", query=query, tool_call_id=call)


def _parallel(clock: Clock) -> Tree:
    """The second tool of the model's list ends first, and began first."""
    loop = made(clock, model(clock, QUESTION, TWO), answers=SAYS)
    later = search(clock, FARO, F, call="2", query="south")()
    first = search(clock, PORTO, P)()
    last = model(clock, results(FARO, PORTO))()
    loop.root.children += [later, first, last]
    return loop


def _handed_on(
    clock: Clock, says: str = "Porto is the city in question, says the report."
) -> Tree:
    """A sub-agent inside a tool searches, and what it answers is what its caller is shown."""
    inner = clock.node(
        "step",
        model(clock, QUESTION, ONE),
        search(clock, PORTO, P),
        model(clock, results(PORTO), says),
        agent="researcher",
    )
    outer = [lambda: inner]
    asks = model(clock, QUESTION, ASK, agent="boss")
    return made(
        clock,
        asks,
        tool(
            clock,
            says,
            *outer,
            name="ask",
            query="Where?",
            tool_call_id="1",
            agent="boss",
        ),
        model(clock, results(says), agent="boss"),
        answers=SAYS,
    )


def _echoed(clock: Clock, text: str, name: str = "think") -> Tree:
    """A tool is called with a text of the model's, and what it returns holds that."""
    return made(
        clock,
        model(clock, QUESTION, wants((name, "1", {"thought": NOTE}))),
        tool(clock, text, name="think", query=NOTE, tool_call_id="1"),
        model(clock, results(text)),
        answers=SAYS,
        is_always_a_sample=True,
    )


@dataclass(frozen=True)
class Row:
    """A tree and the ledger that it must give."""

    made: Callable[[Clock], Tree]
    calls: list[Call]
    where: Overrides = field(default_factory=Overrides)


NORTH = {"name": "search", "query": "north"}
SAID = "Porto is the city in question, says the report."
NOTE = (
    "Summary of what was said before: the user plans a trip to the north of Portugal."
)
ROWS: dict[str, Row] = {
    "plain": Row(
        lambda c: made(
            c, retriever(c, P, F), model(c, asked(f"{PORTO}\n{FARO}")), answers=SAYS
        ),
        [Call("retrieval", ("porto", "faro"), (0, 1), query=QUESTION)],
    ),
    "a part is shown": Row(
        lambda c: made(
            c, retriever(c, P, F, E), model(c, asked(f"{EVORA}\n{PORTO}")), answers=SAYS
        ),
        [Call("retrieval", ("porto", "faro", "evora"), (0, 2), query=QUESTION)],
    ),
    "nothing found": Row(
        lambda c: made(c, retriever(c), model(c, asked("")), answers=SAYS),
        [Call("retrieval", (), (), query=QUESTION)],
    ),
    "failed, and answered all the same": Row(
        lambda c: made(
            c,
            lambda: c.node(
                "retriever", query=QUESTION, error="ConnectionError('down')"
            ),
            model(c, asked("")),
            answers=SAYS,
        ),
        [Call("retrieval", (), (), query=QUESTION, error="ConnectionError('down')")],
    ),
    "no answer: unknown what would have been shown": Row(
        lambda c: made(c, retriever(c, P), gives_only_documents=True),
        [Call("retrieval", ("porto",), (0,), query=QUESTION)],
    ),
    "by data flow: what stands for the contexts": Row(
        lambda c: made(
            c,
            retriever(c, P, F),
            model(c, asked("a digest")),
            answers=SAYS,
            flow_documents=(P,),
        ),
        [Call("retrieval", ("porto", "faro"), (0,), query=QUESTION)],
    ),
    "a tool made of its documents is one call": Row(
        lambda c: made(
            c,
            model(c, QUESTION, ONE),
            search(c, f"1. {PORTO}", P),
            model(c, results(PORTO)),
            answers=SAYS,
        ),
        [Call("retrieval", ("porto",), (0,), 1, **NORTH)],
    ),
    "a tool with an artifact": Row(
        lambda c: made(
            c,
            model(c, QUESTION, ONE),
            tool(
                c,
                PORTO,
                name="search",
                query="north",
                tool_call_id="1",
                documents=(P, F),
            ),
            model(c, results(PORTO)),
            answers=SAYS,
        ),
        [Call("retrieval", ("porto", "faro"), (0,), 1, **NORTH)],
    ),
    "a text that shows none of the documents is a call of its own": Row(
        lambda c: made(
            c,
            model(c, QUESTION, ONE),
            search(c, "There are 2 documents.", P, F),
            model(c, results("There are 2 documents.")),
            answers=SAYS,
        ),
        [
            Call("tool", ("There are 2 documents.",), (0,), 1, **NORTH),
            Call("retrieval", ("porto", "faro"), (0, 1), 1, **NORTH),
        ],
    ),
    "two steps, the second repeats": Row(
        lambda c: made(
            c,
            model(c, QUESTION, ONE),
            search(c, f"{PORTO}\n{FARO}", P, F),
            model(
                c,
                results(f"{PORTO}\n{FARO}"),
                wants(("search", "9", {"query": "south"})),
            ),
            search(c, f"{PORTO}\n{EVORA}", P, E, call="9", query="south"),
            model(c, results(f"{PORTO}\n{FARO}", f"{PORTO}\n{EVORA}")),
            answers=SAYS,
        ),
        [
            Call("retrieval", ("porto", "faro"), (0, 1), 1, **NORTH),
            Call(
                "retrieval", ("porto", "evora"), (0, 1), 2, name="search", query="south"
            ),
        ],
    ),
    "parallel: the model's own order": Row(
        _parallel,
        [
            Call("retrieval", ("porto",), (0,), 1, **NORTH),
            Call("retrieval", ("faro",), (0,), 1, name="search", query="south"),
        ],
    ),
    "rows of a database": Row(
        lambda c: made(
            c,
            model(c, QUESTION, ONE),
            tool(c, ROWS_OF_SQL, name="sql", query="SELECT", tool_call_id="1"),
            model(c, results(ROWS_OF_SQL)),
            answers=SAYS,
            is_always_a_sample=True,
        ),
        [Call("tool", ("sql",), (0,), 1, "sql", "SELECT")],
    ),
    "a short number": Row(
        lambda c: made(
            c,
            model(c, QUESTION, ONE),
            tool(c, "412", name="sql", query="SELECT", tool_call_id="1"),
            model(c, results("412")),
            answers=SAYS,
            is_always_a_sample=True,
        ),
        [Call("tool", ("412",), (0,), 1, "sql", "SELECT")],
    ),
    "a tool named in context_tools": Row(
        lambda c: made(
            c,
            model(c, QUESTION, ONE),
            tool(c, ROWS_OF_SQL, name="sql", query="SELECT", tool_call_id="1"),
            model(c, results(ROWS_OF_SQL)),
            answers=SAYS,
        ),
        [Call("retrieval", ("sql",), (0,), 1, "sql", "SELECT")],
        Overrides(context_tools={"sql"}),
    ),
    "a failed tool": Row(
        lambda c: made(
            c,
            model(c, QUESTION, ONE),
            lambda: c.node(
                "tool",
                name="sql",
                query="SELECT",
                tool_call_id="1",
                error="OperationalError('locked')",
            ),
            model(c, results("Error: locked")),
            answers=SAYS,
            is_always_a_sample=True,
        ),
        [Call("tool", (), (), 1, "sql", "SELECT", error="OperationalError('locked')")],
    ),
    "a hand-off brings nothing": Row(
        lambda c: made(
            c,
            model(c, QUESTION, wants(("transfer_to_expert", "1", {}))),
            tool(
                c,
                "Transferred to the expert.",
                name="transfer_to_expert",
                tool_call_id="1",
                is_control=True,
            ),
            retriever(c, P),
            model(c, asked(PORTO)),
            answers=SAYS,
        ),
        [Call("retrieval", ("porto",), (0,), 1, query=QUESTION)],
    ),
    "a sub-agent": Row(
        _handed_on,
        [
            Call("written", (SAID,), (0,), 1, "ask", "Where?", "boss"),
            Call("retrieval", ("porto",), (0,), 1, "search", "north", "researcher"),
        ],
    ),
    "a sub-agent whose words are repeated": Row(
        lambda c: _handed_on(c, ANSWER),
        [
            Call("written", (ANSWER,), (0,), 1, "ask", "Where?", "boss"),
            Call("retrieval", ("porto",), (0,), 1, "search", "north", "researcher"),
        ],
    ),
    "the model's own words come back in a frame": Row(
        lambda c: _echoed(c, f"Reflection recorded: {NOTE}"),
        [Call("written", (f"Reflection recorded: {NOTE}",), (0,), 1, "think", NOTE)],
    ),
    "the model's own words come back from a file": Row(
        lambda c: _echoed(c, f"     1\t{NOTE}\n", "read"),
        [Call("written", (f"     1\t{NOTE}\n",), (0,), 1, "think", NOTE)],
    ),
    "a query that is echoed before what was found": Row(
        lambda c: _echoed(c, f"{NOTE}: no trip is booked"),
        [Call("tool", (f"{NOTE}: no trip is booked",), (0,), 1, "think", NOTE)],
    ),
    **{
        f"a short answer of a model, in the frame {frame!r}": Row(
            lambda c, frame=frame: made(  # type: ignore[misc]
                c,
                model(c, QUESTION, ASK),
                tool(
                    c,
                    f"Blue, from Faro.{frame}",
                    model(c, "Why?", "Blue, from Faro."),
                    name="ask",
                    tool_call_id="1",
                ),
                model(c, results(f"Blue, from Faro.{frame}")),
                answers=SAYS,
                is_always_a_sample=True,
            ),
            [Call("written", (f"Blue, from Faro.{frame}",), (0,), 1, "ask")],
        )
        for frame in (
            " (see 1)",
            "\n\n(Sources: 1)",
        )
    },
    "documents that came with the question": Row(
        lambda c: made(c, model(c, asked(PORTO)), input_documents=(P, F), answers=SAYS),
        [Call("given", ("porto", "faro"), (0,))],
    ),
    "a summary of earlier messages": Row(
        lambda c: made(
            c,
            lambda: c.node("ignored", model(c, "Summarize this", NOTE)),
            retriever(c, P),
            model(c, [Message("summary", NOTE), Message("user", asked(PORTO))]),
            answers=SAYS,
        ),
        [
            Call("retrieval", ("porto",), (0,), 0, query=QUESTION),
            Call("written", (NOTE,), (0,), 0),
        ],
    ),
    "queries of a retriever's own model are no steps": Row(
        lambda c: made(
            c,
            lambda: c.node(
                "retriever",
                model(c, "rewrite", "Douro?"),
                retriever(c, P),
                query=QUESTION,
                documents=(P,),
            ),
            retriever(c, F),
            model(c, asked(f"{PORTO}\n{FARO}")),
            answers=SAYS,
        ),
        [
            Call("retrieval", (name,), (0,), 0, query=QUESTION)
            for name in ("porto", "faro")
        ],
    ),
    "a rewrite is a step": Row(
        lambda c: made(
            c,
            model(c, "rewrite", "Douro?"),
            retriever(c, P, query="Douro?"),
            model(c, asked(PORTO)),
        ),
        [Call("retrieval", ("porto",), (0,), 1, query="Douro?")],
    ),
    "documents that a step put beside those of a retriever": Row(
        lambda c: made(
            c,
            retriever(c, P, E),
            model(c, "Rewrite", "Douro, Faro?"),
            step(c, P, F),
            model(c, asked(f"{PORTO}\n{FARO}")),
            answers=SAYS,
        ),
        [
            Call("retrieval", ("porto", "evora"), (0,), query=QUESTION),
            Call("retrieval", ("faro",), (0,), 1),
        ],
    ),
    "documents of a step that no retriever gave": Row(
        lambda c: made(
            c, step(c, P, F), step(c, P), model(c, asked(PORTO)), answers=SAYS
        ),
        [Call("retrieval", ("porto", "faro"), (0,))],
    ),
    "an engine inside: its answer is written, what stands behind it counts": Row(
        lambda c: made(
            c,
            lambda: c.node(
                "agent",
                retriever(c, P),
                model(c, asked(PORTO), SAID),
                text=SAID,
                query="Where?",
            ),
            model(c, asked(SAID)),
            answers=SAYS,
        ),
        [
            Call("written", (SAID,), (0,), 0, query="Where?"),
            Call("retrieval", ("porto",), (0,), 0, query=QUESTION),
        ],
    ),
}


def ledger(row: Row) -> Sample:
    (sample,) = samples_of(row.made(Clock()), row.where)
    return sample


@pytest.mark.parametrize("name", ROWS)
def test_ledger(name: str) -> None:
    row = ROWS[name]
    sample = ledger(row)
    assert sample.ledger is not None
    calls = [told(call) for call in sample.ledger.calls]
    for call, expected in zip(calls, row.calls, strict=True):
        known = expected if call.shown is not None else replace(expected, shown=None)
        assert call == known
    assert {call.turn for call in sample.ledger.calls} <= {1}
    assert sample.answer in (ANSWER, None)


@pytest.mark.parametrize("name", ROWS)
def test_each_context_is_shown_in_the_ledger(name: str) -> None:
    """Of one turn every context is an item of some call, and no item is shown that is none."""
    sample = ledger(ROWS[name])
    assert sample.ledger is not None
    items = [
        (item.id, item.text) for call in sample.ledger.calls for item in call.items
    ]
    ids = [item_id for item_id, _ in items if item_id]
    for context in sample.known_contexts:
        assert (context.id, context.text) in items or context.id in ids


def test_earlier_turns_come_with_what_is_shown_of_them_now() -> None:
    """Items of earlier turns stand first.

    The prompt of this turn says which of them are still there.
    """
    clock = Clock()
    before = EvidenceCall(
        kind="retrieval", items=(FARO, EVORA), shown=(0, 1), query="south"
    )
    tree = made(
        clock,
        retriever(clock, P),
        model(clock, asked(f"{EVORA}\n{PORTO}")),
        answers=SAYS,
    )
    (sample,) = samples_of(
        replace(tree, earlier_calls=(before,), turn_number=2, conversation_id="c")
    )
    assert sample.ledger is not None
    assert (sample.ledger.conversation, sample.ledger.turn) == ("c", 2)
    assert [(call.turn, call.shown) for call in sample.ledger.calls] == [
        (1, (1,)),
        (2, (0,)),
    ]
    assert [context.text for context in sample.known_contexts] == [PORTO]


def test_a_text_found_once_more_and_shown_once_is_a_context_of_this_turn() -> None:
    clock = Clock()
    tree = made(
        clock,
        retriever(clock, P, E),
        model(clock, asked(f"{PORTO}\n{EVORA}")),
        answers=SAYS,
        earlier_calls=(EvidenceCall(kind="retrieval", items=(P.context(),)),),
        turn_number=2,
        conversation_id="c",
    )
    (sample,) = samples_of(tree)
    assert [context.text for context in sample.known_contexts] == [PORTO, EVORA]


def turn_of(
    clock: Clock, question: str, *docs: Document, said: str = ANSWER, **fields: Any
) -> Tree:
    shown = "\n".join(one.text for one in docs)
    return made(
        clock,
        retriever(clock, *docs, query=question),
        model(clock, f"{shown}\n{question}", said),
        answers=(Answer(said, "output"),),
        question=question,
        **fields,
    )


def spoken(*texts: str) -> tuple[Turn, ...]:
    return tuple(
        Turn(role="user" if place % 2 == 0 else "assistant", content=text)
        for place, text in enumerate(texts)
    )


def played(*trees: Tree) -> list[Sample]:
    turns: Turns[Tree] = Turns(lambda one: [one], Overrides())
    return [sample for one in trees for sample in turns.add(one)]


def numbered(sample: Sample) -> tuple[str | None, int, list[int]]:
    assert sample.ledger is not None
    return (
        sample.ledger.conversation,
        sample.ledger.turn,
        [call.turn for call in sample.ledger.calls],
    )


def test_turns_of_one_thread_share_their_calls() -> None:
    clock = Clock()
    one, other, two = played(
        turn_of(clock, "Where is Porto?", P, conversation_id="a"),
        turn_of(clock, "Where is Porto?", P, conversation_id="b"),
        turn_of(clock, "And Faro?", F, conversation_id="a"),
    )
    assert [numbered(sample) for sample in (one, other, two)] == [
        ("a", 1, [1]),
        ("b", 1, [1]),
        ("a", 2, [1, 2]),
    ]
    assert two.history == ()
    assert two.capture is not None
    assert two.capture.grade == "exact"


def test_earlier_users_count_where_their_turns_were_not_seen() -> None:
    (sample,) = played(
        turn_of(
            Clock(),
            "And Faro?",
            F,
            history=spoken("Where is Porto?", ANSWER, "Why?", "So."),
        )
    )
    assert numbered(sample)[1:] == (3, [3])


def test_a_summary_is_no_turn_and_what_it_replaced_stays_in_the_history() -> None:
    clock = Clock()
    first, second = (
        turn_of(clock, text, doc, conversation_id="a")
        for text, doc in (("Porto?", P), ("Faro?", F))
    )
    second.root.children[-1].prompt = (
        Message("summary", NOTE),
        *second.root.children[-1].prompt,
    )
    third = turn_of(clock, "Évora?", E, conversation_id="a")
    third.root.children[-1].prompt = (
        Message("summary", NOTE),
        *third.root.children[-1].prompt,
    )
    _, two, three = played(first, second, third)
    assert [turn.content for turn in two.history] == ["Porto?", ANSWER]
    assert [turn.content for turn in three.history] == [
        "Porto?",
        ANSWER,
        "Faro?",
        ANSWER,
    ]
    assert three.ledger is not None
    written = [
        (call.turn, call.shown) for call in three.ledger.calls if call.kind == "written"
    ]
    assert (2, (0,)) in written


def test_a_run_that_answers_from_a_retrieval_beside_it_is_one_turn_with_it() -> None:
    clock = Clock()
    turns: Turns[Tree] = Turns(lambda one: [one], Overrides())
    assert turns.add(Tree(retriever(clock, P)(), gives_only_documents=True)) == []
    assert (
        turns.add(
            made(clock, model(clock, asked(PORTO)), answers=SAYS, conversation_id="a")
        )
        == []
    )
    (sample,) = turns.finish()
    assert numbered(sample) == ("a", 1, [1])


def test_what_is_kept_of_a_long_conversation_is_bounded() -> None:
    clock = Clock()
    samples = played(
        *(turn_of(clock, f"Question {n}?", P, conversation_id="a") for n in range(300))
    )
    last = samples[-1].ledger
    assert last is not None
    assert (last.turn, len(last.calls)) == (300, 201)
    assert [call.turn for call in last.calls] == [*range(100, 301)]


@pytest.mark.parametrize(
    ("masked", "kept"),
    [
        (lambda sample: sample.model_copy(update={"answer": "***"}), 0),
        (lambda sample: sample.model_copy(update={"metadata": {"seen": True}}), 1),
        (
            lambda sample: sample.model_copy(
                update={"answer": "***", "ledger": Ledger(calls=(CALL, CALL))}
            ),
            2,
        ),
    ],
)
def test_texts_that_redact_changed_do_not_stay_in_the_ledger(
    masked: Callable[[Sample], Sample], kept: int
) -> None:
    captured: Captured[Tree] = Captured(samples_of, redact=masked)
    captured.record(turn_of(Clock(), "Where is Porto?", P))
    (sample,) = captured.samples
    assert sample.ledger is not None
    assert len(sample.ledger.calls) == kept


def entries(tree: Tree) -> list[Call]:
    (sample,) = samples_of(tree)
    assert sample.ledger is not None
    return [told(call) for call in sample.ledger.calls]


def test_without_a_prompt_it_is_unknown_whether_a_document_beside_the_contexts_was_shown() -> (
    None
):
    """A framework lists the answer's documents, and no call of a model is recorded."""
    c = Clock()
    lists_porto = (Answer(ANSWER, "answer", documents=(P,)),)
    found = made(c, retriever(c, P), retriever(c, F), answers=lists_porto)
    assert entries(found) == [
        Call("retrieval", ("porto",), None, query=QUESTION),
        Call("retrieval", ("faro",), None, query=QUESTION),
    ]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Answer: Yes, it is.", "written"),
        (
            "Both rivers reach the sea in the north. Yes, it is. Boats go up to Spain.",
            "tool",
        ),
    ],
)
def test_a_short_reply_inside_a_tool_is_its_text_only_if_it_is_most_of_it(
    text: str, kind: str
) -> None:
    c = Clock()
    asks = tool(c, text, model(c, "Is it?", "Yes, it is."), name="ask")
    answers = model(c, f"{text}\n{QUESTION}")
    tree = made(c, asks, answers, answers=SAYS, is_always_a_sample=True)
    (entry,) = entries(tree)
    assert (entry.kind, entry.items) == (kind, (text,))
