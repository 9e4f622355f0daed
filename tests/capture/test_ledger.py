"""The evidence ledger on the neutral tree of calls: which calls brought what, in which order, and what was shown."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from runs_by_hand import (
    ANSWER,
    DOCS,
    EVORA,
    FARO,
    PORTO,
    QUESTION,
    Call,
    E,
    F,
    P,
    asked,
    call,
    found,
    later,
    reads,
    reranked,
    says,
    step,
    tool,
    tree,
)

from ragmetrics_core.capture import (
    Answer,
    Captured,
    Document,
    Message,
    ToolCall,
    Tree,
    samples_of,
)
from ragmetrics_core.capture.plain_values import Overrides
from ragmetrics_core.capture.turns import Turns
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.data.sample_parts import Context, EvidenceCall, Ledger, Turn
from ragmetrics_core.metrics.ledger_calls import (
    call_table,
    curve_by_call,
    groups_of_texts,
)

SQL = "region north: 412 orders; region south: 377 orders; region east: 12 orders"
REPORT = "Porto is the city in question, says the report."
TEXTS = (PORTO, FARO, EVORA)
TRIP = (
    "Summary of what was said before: the user plans a trip to the north of Portugal."
)
SHORT_NAMES = {
    PORTO: "porto",
    FARO: "faro",
    EVORA: "evora",
    SQL: "sql",
    REPORT: "report",
    TRIP: "trip",
    ANSWER: "answer",
}


def line_of(each: EvidenceCall) -> str:
    """A call in one line: kind, tool, query, items, which of them are shown, step, agent.

    "retrieval search(north) porto, faro; shown 1; step 2; by boss"
    """
    items = ", ".join(SHORT_NAMES.get(item.text, item.text) for item in each.items)
    query = SHORT_NAMES.get(each.query or "", each.query or "")
    query = "?" if query == QUESTION else query
    shown = "unknown" if each.shown is None else " ".join(map(str, each.shown))
    words = f"{each.kind} {each.name or ''}({query}) {items}; shown {shown}"
    words += f"; step {each.step}"
    words += f"; by {each.agent}" if each.agent else ""
    return words + (f"; failed: {each.error}" if each.error else "")


def wants(*calls: tuple[str, dict[str, Any]]) -> Message:
    tool_calls = [
        ToolCall(name, arguments, str(number))
        for number, (name, arguments) in enumerate(calls, start=1)
    ]
    return Message("assistant", "", tuple(tool_calls))


def results(*texts: str) -> list[Message]:
    return [Message("user", QUESTION), *(Message("tool", text) for text in texts)]


def asks(name: str = "search", **arguments: Any) -> Call:
    return reads(QUESTION, wants((name, arguments)))


def search(
    text: str, *documents: Document, query: str = "north", number: str = "1"
) -> Call:
    inner = found(*documents, query=query)
    return tool(text, inner, name="search", query=query, tool_call_id=number)


def looked_up(text: str, **fields: Any) -> Tree:
    """A tool of a database answered the model."""
    of_tool = {"name": "sql", "query": "SELECT", "tool_call_id": "1", **fields}
    calls = asks("sql"), tool(text, **of_tool), reads(results(text))
    return says(*calls)


def side_by_side() -> Tree:
    """The second tool of the model's list ends first, and began first."""
    both = wants(("search", {"query": "north"}), ("search", {"query": "south"}))
    return says(
        reads(QUESTION, both),
        search(FARO, F, query="south", number="2"),
        search(PORTO, P),
        reads(results(FARO, PORTO)),
    )


def sub_agent(reply: str) -> Tree:
    """A sub-agent inside a tool searches, and its caller is shown what it answers."""
    inner = step(
        inside=[asks(query="north"), search(PORTO, P), reads(results(PORTO), reply)],
        agent="researcher",
    )
    of_tool = {"name": "ask", "query": "Where?", "tool_call_id": "1"}
    return says(
        reads(QUESTION, wants(("ask", {"question": "Where?"})), agent="boss"),
        tool(reply, inner, agent="boss", **of_tool),
        reads(results(reply), agent="boss"),
    )


def echoed(text: str) -> Tree:
    """A tool is called with a text of the model's, and what it returns holds that."""
    return says(
        asks("think", thought=TRIP),
        tool(text, name="think", query=TRIP, tool_call_id="1"),
        reads(results(text)),
    )


def answered_inside(text: str, reply: str) -> Tree:
    """A model inside a tool replied, and the tool put words around it."""
    return says(
        asks("ask"),
        tool(text, reads("Why?", reply), name="ask", tool_call_id="1"),
        reads(results(text)),
    )


def rows_of(*texts: str, query: str = "north") -> Call:
    """A tool that searches the web, and returns rows."""
    rows = [
        {"url": f"https://w.example/{len(text)}", "content": text} for text in texts
    ]
    return tool(json.dumps(rows), name="web", query=query)


def made_of(*texts: str, inside: Sequence[Call] = ()) -> Call:
    return step(*map(Document, texts), inside=inside)


def nested(text: str) -> object:
    value: object = text
    for _ in range(10):
        value = {"inner": value}
    return value


ROWS: dict[str, tuple[Tree, Sequence[str]]] = {
    "plain": (
        says(found(P, F), reads(asked(PORTO, FARO))),
        ["retrieval (?) porto, faro; shown 0 1; step 0"],
    ),
    "a part is shown": (
        says(found(P, F, E), reads(asked(EVORA, PORTO))),
        ["retrieval (?) porto, faro, evora; shown 0 2; step 0"],
    ),
    "nothing found": (
        says(found(), reads(asked(""))),
        ["retrieval (?) ; shown ; step 0"],
    ),
    "failed, and answered all the same": (
        says(call("retriever", query=QUESTION, error="down"), reads(asked(""))),
        ["retrieval (?) ; shown ; step 0; failed: down"],
    ),
    "no answer: unknown what would have been shown": (
        tree(found(P), gives_only_documents=True),
        ["retrieval (?) porto; shown unknown; step 0"],
    ),
    "by data flow": (
        says(found(P, F), reads(asked("a digest")), flow_documents=(P,)),
        ["retrieval (?) porto, faro; shown unknown; step 0"],
    ),
    "no prompt, and documents beside those of the answer": (
        tree(found(P), found(F), answers=(Answer(ANSWER, documents=(P,)),)),
        [
            "retrieval (?) porto; shown unknown; step 0",
            "retrieval (?) faro; shown unknown; step 0",
        ],
    ),
    "a tool made of its documents is one call": (
        says(asks(), search(f"1. {PORTO}", P), reads(results(PORTO))),
        ["retrieval search(north) porto; shown 0; step 1"],
    ),
    "a tool around a search that found nothing is one call": (
        says(
            asks(),
            tool(
                "Nothing.",
                found(query="north"),
                name="search",
                query="north",
                documents=(),
            ),
            reads(results("Nothing.")),
        ),
        ["retrieval search(north) ; shown ; step 1"],
    ),
    "a tool with an artifact": (
        says(
            asks(),
            tool(PORTO, name="search", query="north", documents=(P, F)),
            reads(results(PORTO)),
        ),
        ["retrieval search(north) porto, faro; shown 0; step 1"],
    ),
    "a text that shows none of the documents is a call of its own": (
        says(asks(), search("There are 2.", P, F), reads(results("There are 2."))),
        [
            "tool search(north) There are 2.; shown 0; step 1",
            "retrieval search(north) porto, faro; shown unknown; step 1",
        ],
    ),
    **{
        f"a tool tells more than its documents, {way}": (
            says(asks(), search(text, P), reads(results(text))),
            [
                f"tool search(north) {text}; shown 0; step 1",
                "retrieval search(north) porto; shown 0; step 1",
            ],
        )
        for way, text in {
            "in a key": json.dumps({"documents": [PORTO], TRIP: True}),
            "deep": json.dumps({"documents": [PORTO], "a": nested(TRIP)}),
        }.items()
    },
    # documents that a step makes of what a tool returned
    **{
        f"documents made of a tool's rows, {way}": (
            says(*calls, reads(asked(*texts))),
            ["retrieval web(north) porto, faro; shown 0 1; step 0"],
        )
        for way, texts, calls in [
            (
                "in the same step",
                (PORTO, FARO),
                [made_of(PORTO, FARO, inside=[rows_of(PORTO, FARO)])],
            ),
            (
                "of three",
                (PORTO, FARO),
                [made_of(PORTO, FARO, inside=[rows_of(*TEXTS)])],
            ),
            (
                "in a later step, then handed on",
                (PORTO, FARO),
                [rows_of(PORTO, FARO), made_of(PORTO, FARO), made_of(PORTO, FARO)],
            ),
            (
                "by a tool inside it",
                (PORTO, FARO),
                [
                    made_of(
                        PORTO,
                        FARO,
                        inside=[
                            tool(
                                json.dumps(TEXTS[:2]),
                                tool(json.dumps(TEXTS[:2]), name="inner"),
                                name="web",
                                query="north",
                            )
                        ],
                    )
                ],
            ),
        ]
    },
    "a document made of all rows of a tool": (
        says(
            made_of(f"{PORTO}\n{FARO}", inside=[rows_of(PORTO, FARO)]),
            reads(asked(f"{PORTO}\n{FARO}")),
        ),
        [f"retrieval web(north) {PORTO}\n{FARO}; shown 0; step 0"],
    ),
    "a document made of a row behind its title": (
        says(
            made_of(f"Of cities: {PORTO}", inside=[rows_of(PORTO, FARO)]),
            reads(asked(f"Of cities: {PORTO}")),
        ),
        [f"retrieval web(north) Of cities: {PORTO}; shown 0; step 0"],
    ),
    "a short document made of a row": (
        says(
            made_of("In 1874.", inside=[rows_of("In 1874.")]), reads(asked("In 1874."))
        ),
        ["retrieval web(north) In 1874.; shown 0; step 0"],
    ),
    "a document that is a tool's whole text": (
        says(
            made_of(PORTO, inside=[tool(PORTO, name="web", query="north")]),
            reads(asked(PORTO)),
        ),
        ["retrieval web(north) porto; shown 0; step 0"],
    ),
    "documents made of the rows of two calls, and of two rounds": (
        says(
            made_of(
                PORTO,
                FARO,
                inside=[rows_of(PORTO), rows_of(PORTO, FARO, query="south")],
            ),
            reads("Enough?", "Search again."),
            made_of(FARO, inside=[rows_of(FARO, query="east")]),
            reads(asked(PORTO, FARO)),
        ),
        [
            "retrieval web(north) porto; shown 0; step 0",
            "retrieval web(south) porto, faro; shown 0 1; step 0",
            "retrieval web(east) faro; shown 0; step 1",
        ],
    ),
    "what a tool returned beside the documents of a retriever": (
        says(
            found(P),
            made_of(FARO, inside=[rows_of(PORTO, FARO)]),
            reads(asked(PORTO, FARO)),
        ),
        [
            "retrieval (?) porto; shown 0; step 0",
            "retrieval web(north) faro; shown 0; step 0",
        ],
    ),
    "a tool that tells what was found already": (
        says(
            step(P, inside=[found(P), tool(PORTO, name="format", query="?")]),
            reads(asked(PORTO)),
        ),
        [
            "retrieval (?) porto; shown 0; step 0",
            "tool format(?) porto; shown 0; step 0",
        ],
    ),
    "a tool inside a retriever is the retriever's own way": (
        says(
            call("retriever", rows_of(PORTO, FARO), query=QUESTION, documents=(P, F)),
            reads(asked(PORTO, FARO)),
        ),
        ["retrieval (?) porto, faro; shown 0 1; step 0"],
    ),
    "a model was shown all that a tool returned, and a step kept some of it": (
        says(
            asks("web"),
            tool(f"{PORTO}\n{FARO}", name="web", query="north"),
            reads(results(f"{PORTO}\n{FARO}")),
            made_of(PORTO),
        ),
        [
            f"tool web(north) {PORTO}\n{FARO}; shown 0; step 1",
            "retrieval web(north) porto; shown 0; step 1",
        ],
    ),
    "two steps, the second repeats": (
        says(
            asks(),
            search(f"{PORTO}\n{FARO}", P, F),
            reads(results(f"{PORTO}\n{FARO}"), wants(("search", {}))),
            search(f"{PORTO}\n{EVORA}", P, E, number="9", query="south"),
            reads(results(f"{PORTO}\n{FARO}", f"{PORTO}\n{EVORA}")),
        ),
        [
            "retrieval search(north) porto, faro; shown 0 1; step 1",
            "retrieval search(south) porto, evora; shown 0 1; step 2",
        ],
    ),
    "parallel: the model's own order": (
        side_by_side(),
        [
            "retrieval search(north) porto; shown 0; step 1",
            "retrieval search(south) faro; shown 0; step 1",
        ],
    ),
    "rows of a database": (looked_up(SQL), ["tool sql(SELECT) sql; shown 0; step 1"]),
    "a short number": (looked_up("412"), ["tool sql(SELECT) 412; shown 0; step 1"]),
    "a failed tool": (
        looked_up("", error="locked"),
        ["tool sql(SELECT) ; shown ; step 1; failed: locked"],
    ),
    "a hand-off brings nothing": (
        says(
            asks("transfer"),
            tool("Transferred to the expert.", name="transfer", is_control=True),
            found(P),
            reads(asked(PORTO)),
        ),
        ["retrieval (?) porto; shown 0; step 1"],
    ),
    "a sub-agent": (
        sub_agent(REPORT),
        [
            "written ask(Where?) report; shown 0; step 1; by boss",
            "retrieval search(north) porto; shown 0; step 1; by researcher",
        ],
    ),
    "a sub-agent whose words are repeated": (
        sub_agent(ANSWER),
        [
            "written ask(Where?) answer; shown 0; step 1; by boss",
            "retrieval search(north) porto; shown 0; step 1; by researcher",
        ],
    ),
    "the model's own words come back in a frame": (
        echoed(f"Reflection recorded: {TRIP}"),
        [f"written think(trip) Reflection recorded: {TRIP}; shown 0; step 1"],
    ),
    "a query that is echoed before what was found": (
        echoed(f"{TRIP}: no trip is booked"),
        ["tool think(trip) ….: no trip is booked; shown 0; step 1"],
    ),
    "a short answer of a model in a frame": (
        answered_inside("Blue, from Faro. (see 1)", "Blue, from Faro."),
        ["written ask() Blue, from Faro. (see 1); shown 0; step 1"],
    ),
    "a short answer that is most of a tool's text": (
        answered_inside("Answer: Yes, it is.", "Yes, it is."),
        ["written ask() Answer: Yes, it is.; shown 0; step 1"],
    ),
    "a short answer among other words": (
        answered_inside("Both reach the sea. Yes, it is. Boats go up.", "Yes, it is."),
        ["tool ask() Both reach the sea. Yes, it is. Boats go up.; shown 0; step 1"],
    ),
    "documents that came with the question": (
        says(reads(asked(PORTO)), taken=(P, F)),
        ["given () porto, faro; shown 0; step 0"],
    ),
    # they may be made of what was found: what became of that is unknown
    "texts that no call brought": (
        says(
            found(P),
            call(
                "step",
                reads(asked(f"Source 1: {FARO}")),
                input_documents=(Document(f"Source 1: {FARO}"),),
            ),
        ),
        [
            "retrieval (?) porto; shown unknown; step 0",
            f"given () Source 1: {FARO}; shown 0; step 0",
        ],
    ),
    "a summary of earlier messages": (
        says(
            call("ignored", reads("Summarize this", TRIP)),
            found(P),
            reads([Message("summary", TRIP), Message("user", asked(PORTO))]),
        ),
        ["retrieval (?) porto; shown 0; step 0", "written () trip; shown 0; step 0"],
    ),
    "queries of a retriever's own model are no steps": (
        says(
            call(
                "retriever",
                reads("rewrite", "Douro?"),
                found(P),
                query=QUESTION,
                documents=(P,),
            ),
            found(F),
            reads(asked(PORTO, FARO)),
        ),
        ["retrieval (?) porto; shown 0; step 0", "retrieval (?) faro; shown 0; step 0"],
    ),
    "a rewrite is a step": (
        tree(reads("rewrite", "Douro?"), found(P, query="Douro?"), reads(asked(PORTO))),
        ["retrieval (Douro?) porto; shown 0; step 1"],
    ),
    "documents that a step put beside those of a retriever": (
        says(
            found(P, E),
            reads("Rewrite", "Douro, Faro?"),
            step(P, F),
            reads(asked(PORTO, FARO)),
        ),
        [
            "retrieval (?) porto, evora; shown 0; step 0",
            "retrieval () faro; shown 0; step 1",
        ],
    ),
    "documents of a step that no retriever gave": (
        says(step(P, F), step(P), reads(asked(PORTO))),
        ["retrieval () porto, faro; shown 0; step 0"],
    ),
    "an engine inside: its answer is written, what stands behind it counts": (
        says(
            call(
                "agent",
                found(P),
                reads(asked(PORTO), REPORT),
                text=REPORT,
                query="Where?",
            ),
            reads(asked(REPORT)),
        ),
        [
            "written (Where?) report; shown 0; step 0",
            "retrieval (?) porto; shown 0; step 0",
        ],
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_ledger(name):
    run, expected = ROWS[name]
    (sample,) = samples_of(run)
    lines = [line_of(each) for each in sample.ledger.calls]
    assert lines == list(expected)
    assert {each.turn for each in sample.ledger.calls} <= {1}
    # law: every context is an item of some call
    items = [item for each in sample.ledger.calls for item in each.items]
    for context in sample.known_contexts:
        assert any(
            context.text == item.text or (context.id and context.id == item.id)
            for item in items
        )


NONE_FOUND = (
    "No documents matched. Try relaxing or removing the filters, or verify the filter"
    " values with the metadata tools."
)
SAID_OF_NOTHING = {
    "a word": "Nothing.",
    "a long sentence": NONE_FOUND,
    "a sentence of two lines": NONE_FOUND.replace(". ", ".\n", 1),
    "a field": json.dumps({"documents": [], "message": NONE_FOUND}),
}
NAMED_OR_NOT = [None, frozenset(), frozenset({"search"})]


@pytest.mark.parametrize("context_tools", NAMED_OR_NOT)
@pytest.mark.parametrize("way", SAID_OF_NOTHING)
def test_an_empty_search_is_one_call_whatever_its_tool_says(way, context_tools):
    text = SAID_OF_NOTHING[way]
    run = says(asks(), search(text), reads(results(text)))
    (sample,) = samples_of(run, Overrides(context_tools=context_tools))
    assert (sample.contexts, sample.retrieved) == ((), ())
    lines = [line_of(each) for each in sample.ledger.calls]
    assert lines == ["retrieval search(north) ; shown ; step 1"]
    is_said_to_be_a_context = bool(context_tools) and way != "a field"
    assert list(sample.capture.doubts) == ["undivided"] * is_said_to_be_a_context


@pytest.mark.parametrize("context_tools", NAMED_OR_NOT)
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("The lighthouse was built in 1856.", "It was built in 1856."),
        ("Order 4711 shipped on 3 May via Bremen.", "On 3 May."),
        ("City: Berlin", "Berlin"),
        ("The keeper of it was Jan Harms.", "The keeper of it was a man."),
    ],
)
def test_what_a_tool_says_instead_of_what_it_found_is_never_lost_as_sure(
    text, answer, context_tools
):
    calls = asks(), search(text), reads(results(text), answer)
    run = tree(*calls, answers=(Answer(answer),))
    (sample,) = samples_of(run, Overrides(context_tools=context_tools))
    lines = [line_of(each) for each in sample.ledger.calls]
    assert lines == ["retrieval search(north) ; shown ; step 1"]
    is_hedged = context_tools != frozenset()
    assert list(sample.capture.doubts) == ["undivided"] * is_hedged


@pytest.mark.parametrize("context_tools", NAMED_OR_NOT)
@pytest.mark.parametrize("text", [f"{SQL}\n{TRIP}", f"{NONE_FOUND} {SQL} {TRIP}"])
def test_what_a_tool_finds_elsewhere_stands_for_its_empty_search(text, context_tools):
    run = says(asks(), search(text), reads(results(text)))
    (sample,) = samples_of(run, Overrides(context_tools=context_tools))
    is_named = bool(context_tools)
    assert list(sample.context_texts) == ([text] if is_named else [])
    kind = "retrieval" if is_named else "tool"
    lines = [line_of(each) for each in sample.ledger.calls]
    assert lines == [f"{kind} search(north) {text}; shown 0; step 1"]
    is_hedged = context_tools != frozenset()
    assert list(sample.capture.doubts) == ["undivided"] * is_hedged


@pytest.mark.parametrize(
    ("parts", "shown"),
    [([PORTO, FARO], "0"), ([FARO], "0"), ([EVORA], ""), ([f"{PORTO}\n\n{FARO}"], "0")],
)
def test_an_item_is_shown_where_a_context_that_the_user_names_is_a_part_of_it(
    parts, shown
):
    text = f"{PORTO}\n\n{FARO}"
    run = says(asks(), tool(text, name="search", query="north"), reads(results(text)))
    settings = Overrides(lambda run: None, lambda run: parts, context_tools={"search"})
    (sample,) = samples_of(run, settings)
    assert list(sample.context_texts) == parts
    lines = [line_of(each) for each in sample.ledger.calls]
    assert lines == [f"retrieval search(north) {text}; shown {shown}; step 1"]


# what a step made of Porto and Faro, and the places of those that it shows then
MADE: dict[str, tuple[Sequence[str], tuple[int, ...]]] = {
    "pieces": ((PORTO[:50], PORTO[50:], FARO[:50]), (0, 1)),
    "a piece, and a short end": ((FARO[:-12], FARO[-12:]), (1,)),
    "numbered": ((f"Source 1:\n{PORTO}\n", f"[2] {FARO}"), (0, 1)),
    "numbered from 0, in German": (
        (f"0. {PORTO[:50]}", f"Quelle [1]: {FARO[50:]}"),
        (0, 1),
    ),
}


def cut(texts: Sequence[str], way: str, number: int | None) -> Tree:
    """A search found Porto, Faro and Évora, and a model was shown what was made of them."""
    made = tuple(
        Document(text, None if number is None else f"new{number + place}")
        for place, text in enumerate(texts)
    )
    answering = reads(asked(*texts))
    steps = {
        "handed to a call": [call("step", answering, input_documents=made)],
        "by a step": [step(*made, documents_among_inputs=DOCS), answering],
        "by a reranker": [reranked(DOCS, *made), answering],
    }
    return says(found(P, F, E), *steps[way])


@pytest.mark.parametrize("number", [None, 7], ids=["without ids", "new ids"])
@pytest.mark.parametrize("way", ["handed to a call", "by a step", "by a reranker"])
@pytest.mark.parametrize("name", MADE)
def test_what_was_cut_out_of_found_texts_is_no_further_call(
    name: str, way: str, number: int | None
) -> None:
    texts, places = MADE[name]
    (sample,) = samples_of(cut(texts, way, number))
    contexts = sample.known_contexts
    assert [context.text.strip() for context in contexts] == [
        text.strip() for text in texts
    ]
    # an id that a document has is never replaced
    ids = [None if number is None else f"new{number + at}" for at in range(len(texts))]
    assert [context.id for context in contexts] == ids
    assert sample.capture is not None
    assert sample.capture.grade == "exact"
    assert sample.ledger is not None
    (search,) = sample.ledger.calls
    assert (search.kind, search.shown) == ("retrieval", places)
    assert [item.text for item in search.items] == [PORTO, FARO, EVORA]
    # each context belongs to the search, so that none of it is wasted
    table = call_table(sample, contexts, [True] * len(texts))
    assert table is not None
    assert table.wasted == 0
    assert table.calls[0].ranks == tuple(range(1, len(texts) + 1))
    # what was found is no evidence beside the pieces of it
    assert list(groups_of_texts(sample).evidence) == [each.text for each in contexts]
    gains = curve_by_call(sample, contexts, lambda indices: len(indices) / len(texts))
    assert [gain.gain for gain in gains] == [1.0]
    notes = sample.capture.passages
    assert notes is not None
    assert [note.context is not None for note in notes] == [
        place in places for place in range(3)
    ]
    assert notes[2].share == 0.0


def handed(*documents: Document, texts: Sequence[str]) -> Tree:
    """A search found Porto and Faro, and a call was handed other documents."""
    answering = reads(asked(*texts))
    return says(found(P, F), call("step", answering, input_documents=documents))


# with whether it may be made of what was found
OTHERS: dict[str, tuple[tuple[Document, ...], bool]] = {
    # another index cuts its pages otherwise
    "a piece beside a passage": ((P, Document(FARO[:50], "o")), False),
    "another line": ((Document(f"{FARO}\nIt has two wells.", "o"),), True),
    "another number": ((Document(f"12 wells: {FARO}", "o"),), False),
    "another text before a piece": ((Document(f"Olhão: {FARO[:50]}", "o"),), False),
    "the number of another place": ((Document(f"Platz 7: {FARO[:50]}", "o"),), False),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_was_not_surely_cut_out_of_found_texts_keeps_its_call(name: str) -> None:
    documents, is_doubted = OTHERS[name]
    (sample,) = samples_of(handed(*documents, texts=[each.text for each in documents]))
    assert sample.ledger is not None
    assert [item.id for item in sample.ledger.calls[-1].items] == ["o"]
    assert sample.ledger.calls[-1].kind == "given"
    assert sample.capture is not None
    assert set(sample.capture.doubts) == ({"by_data_flow"} if is_doubted else set())


@pytest.mark.parametrize(("number", "is_piece"), [(3, True), (5, False), (1, False)])
@pytest.mark.parametrize("word", ["", "Article "])
def test_a_number_before_a_passage_is_no_label_of_another(word, number, is_piece):
    rule = Document(f"{word}3. {FARO}", "rule")
    other = Document(f"{word}{number}. {FARO}", "other")
    answering = reads(asked(other.text))
    run = says(found(rule, P), call("step", answering, input_documents=(other,)))
    (sample,) = samples_of(run)
    kinds = [each.kind for each in sample.ledger.calls]
    assert kinds == (["retrieval"] if is_piece else ["retrieval", "given"])


@pytest.mark.parametrize("way", ["handed to a call", "by a step"])
@pytest.mark.parametrize("label", ["", "Source 1: "])
def test_a_piece_of_one_of_two_found_texts_tells_the_place_of_neither(
    label: str, way: str
) -> None:
    wider = Document(f"{FARO} It was built in 1965.", "w")
    pieces = Document(f"{label}{FARO}", "f1"), Document("It was built in 1965.", "w1")
    answering = reads(asked(pieces[0].text))
    ways = {
        "handed to a call": [call("step", answering, input_documents=pieces)],
        "by a step": [step(*pieces, documents_among_inputs=(F, wider, E)), answering],
    }
    (sample,) = samples_of(says(found(F), found(wider, E), *ways[way]))
    assert sample.capture is not None
    assert set(sample.capture.doubts) == {"in_part"}
    assert sample.ledger is not None
    assert [each.shown for each in sample.ledger.calls] == [None, None]
    notes = sample.capture.passages
    assert notes is not None
    assert [(note.context, note.share) for note in notes] == [
        (None, None),
        (None, None),
        (None, 0.0),
    ]


def test_a_step_that_cuts_may_return_the_text_of_a_passage_that_it_was_not_given():
    wider = Document(f"{FARO} It was built in 1965.", "w")
    piece = Document(FARO, "w1")
    cutting = step(piece, documents_among_inputs=(wider, E))
    run = says(found(F), found(wider, E), cutting, reads(asked(FARO)))
    (sample,) = samples_of(run)
    assert set(sample.capture.doubts) == {"in_part"}
    assert [each.shown for each in sample.ledger.calls] == [None, None]
    assert [note.share for note in sample.capture.passages] == [None, None, 0.0]


def test_pieces_of_two_searches_belong_to_neither_for_sure() -> None:
    pieces = Document(PORTO[:50]), Document(FARO[:50])
    answering = reads(asked(*(piece.text for piece in pieces)))
    run = says(found(P), found(F), call("step", answering, input_documents=pieces))
    (sample,) = samples_of(run)
    assert sample.ledger is not None
    assert [each.shown for each in sample.ledger.calls] == [(0,), (0,)]
    assert call_table(sample, sample.known_contexts, [True, True]) is None
    assert len(groups_of_texts(sample).evidence) == len(pieces)


@pytest.mark.parametrize("is_shown_again", [False, True])
def test_what_a_state_keeps_of_an_earlier_turn_is_evidence_of_that_turn(
    *, is_shown_again
):
    """A middleware writes what it found into the user's message, and into the state."""
    first = EvidenceCall(kind="retrieval", turn=1, items=(P.context(), E.context()))
    texts = [PORTO, FARO] if is_shown_again else [FARO]
    prompt = [
        Message("user", asked(PORTO, EVORA)),
        Message("assistant", "It is the Douro."),
        Message("user", asked(*texts)),
    ]
    history = (
        Turn(role="user", content="Which river is it?"),
        Turn(role="assistant", content="It is the Douro."),
    )
    calls = found(F), step(F, documents_among_inputs=(P, E)), reads(prompt)
    run = says(*calls, history=history)
    run.earlier_calls, run.turn_number = (first,), 2
    (sample,) = samples_of(run)
    assert [context.text for context in sample.known_contexts] == texts
    assert sample.capture.grade == "exact"
    assert [(each.turn, each.shown) for each in sample.ledger.calls] == [
        (1, (0, 1)),
        (2, (0,)),
    ]


def test_what_one_is_shown_who_sums_an_earlier_turn_up_is_no_context():
    first = EvidenceCall(kind="retrieval", turn=1, items=(P.context(),))
    summary = "The user learned which river flows through the town of port wine."
    run = says(
        reads(f"Sum up: Which river is it?\n{PORTO}\nNow: {QUESTION}", summary),
        found(F),
        reads(f"{summary}\n{asked(FARO)}"),
    )
    run.earlier_calls, run.turn_number = (first,), 2
    (sample,) = samples_of(run)
    assert [context.text for context in sample.known_contexts] == [FARO]


def test_what_a_state_keeps_of_an_earlier_turn_and_nobody_is_shown_is_no_context():
    first = EvidenceCall(kind="retrieval", turn=1, items=(P.context(), E.context()))
    run = says(step(documents_among_inputs=(P, E)), reads("How is the weather?"))
    run.earlier_calls, run.turn_number = (first,), 2
    (sample,) = samples_of(run)
    assert (sample.contexts, sample.capture.grade) == (None, "incomplete")
    assert set(sample.capture.doubts) == {"no_search"}


@pytest.mark.parametrize(
    ("replies", "shown", "places"),
    [
        ([REPORT], [REPORT], (0,)),
        ([REPORT], [], ()),
        ([REPORT, TRIP], [REPORT], ()),  # either may have been written from it
        ([REPORT, TRIP], [REPORT, TRIP], (0,)),
    ],
)
def test_an_earlier_search_counts_where_what_its_tool_wrote_of_it_is_shown(
    replies, shown, places
):
    search = EvidenceCall(
        kind="retrieval", name="ask", items=(P.context(),), shown=(0,)
    )
    written = [
        EvidenceCall(kind="written", name="ask", items=(Context(text=text),))
        for text in replies
    ]
    run = says(reads("\n".join([*shown, "And when?"])), question="And when?")
    run.earlier_calls, run.turn_number = (*written, search), 2
    (sample,) = samples_of(run)
    assert sample.ledger.calls[-1].shown == places
    assert (sample.capture.grade == "exact") == bool(places)


@pytest.mark.parametrize("way", ["handed to a call", "by a reranker"])
def test_rows_under_the_heading_of_a_passage_are_not_its_own(way):
    heading = "the name of the town, and its number of wells"
    wells = Document(f"{heading}\nVelm: 12\nOsta: 7\nMarn: 3", "w")
    other = Document(f"{heading}\nTorl: 44\nPirn: 51\nLosk: 8", "o")
    answering = reads(asked(other.text))
    steps = {
        "handed to a call": [call("step", answering, input_documents=(other,))],
        "by a reranker": [reranked((wells,), other), answering],
    }
    (sample,) = samples_of(says(found(wells), *steps[way]))
    assert [item.id for each in sample.ledger.calls for item in each.items] == [
        "w",
        "o",
    ]


def test_a_tool_named_in_context_tools_is_a_retrieval():
    (sample,) = samples_of(looked_up(SQL), Overrides(context_tools={"sql"}))
    lines = [line_of(each) for each in sample.ledger.calls]
    assert lines == ["retrieval sql(SELECT) sql; shown 0; step 1"]


OUTER, INNER = ("tool", "outer"), ("tool", "inner")


@pytest.mark.parametrize(
    ("named", "text", "inside", "expected"),
    [
        (None, SQL, [], [OUTER]),
        (None, json.dumps({"rows": SQL}), [], [OUTER]),
        ({"outer"}, SQL, [], [("retrieval", "outer")]),
        ({"inner"}, SQL, [], [("retrieval", "inner")]),
        ({"outer", "inner"}, SQL, [], [("retrieval", "outer")]),
        # it says something else, or a sub-agent says what it read
        (None, "There is one row.", [], [OUTER, INNER]),
        (None, SQL, [reads(SQL, SQL)], [("written", "outer"), INNER]),
    ],
)
def test_what_a_tool_hands_on_of_a_tool_inside_it_arrived_once(
    named, text, inside, expected
):
    inner = tool(SQL, name="inner")
    run = says(
        asks("outer"), tool(text, inner, *inside, name="outer"), reads(results(text))
    )
    (sample,) = samples_of(run, Overrides(context_tools=named))
    assert [(each.kind, each.name) for each in sample.ledger.calls] == expected


def test_a_tool_that_fails_as_the_tool_inside_it_did_failed_once():
    inner = call("tool", name="inner", error="locked")
    run = says(
        asks("outer"), call("tool", inner, name="outer", error="locked"), reads("")
    )
    (sample,) = samples_of(run)
    assert [each.name for each in sample.ledger.calls] == ["outer"]


# Conversations


def test_earlier_turns_come_with_what_is_shown_of_them_now():
    """Items of earlier turns stand first; what was found once more is of this turn."""
    before = EvidenceCall(kind="retrieval", items=(FARO, EVORA), shown=(0, 1))
    run = says(
        found(P, E),
        reads(asked(EVORA, PORTO)),
        earlier_calls=(before,),
        turn_number=2,
        conversation_id="c",
    )
    (sample,) = samples_of(run)
    assert (sample.ledger.conversation, sample.ledger.turn) == ("c", 2)
    shown = [(each.turn, each.shown) for each in sample.ledger.calls]
    assert shown == [(1, (1,)), (2, (0, 1))]
    assert [context.text for context in sample.known_contexts] == [EVORA, PORTO]


def turn_of(question: str, *documents: Document, **fields: Any) -> Tree:
    shown = "\n".join(one.text for one in documents)
    run = says(
        found(*documents, query=question),
        reads(f"{shown}\n{question}"),
        question=question,
        **fields,
    )
    return later(run)


def played(*trees: Tree) -> list[Sample]:
    turns: Turns[Tree] = Turns(lambda one: [one], Overrides())
    return [sample for one in trees for sample in turns.add(one)]


def numbered(sample: Sample) -> tuple[str | None, int, list[int]]:
    turns_of_calls = [each.turn for each in sample.ledger.calls]
    return sample.ledger.conversation, sample.ledger.turn, turns_of_calls


def test_turns_of_one_thread_share_their_calls():
    one, other, two = played(
        turn_of("Where is Porto?", P, conversation_id="a"),
        turn_of("Where is Porto?", P, conversation_id="b"),
        turn_of("And Faro?", F, conversation_id="a"),
    )
    assert numbered(one) == ("a", 1, [1])
    assert numbered(other) == ("b", 1, [1])
    assert numbered(two) == ("a", 2, [1, 2])
    # the application keeps no messages; what was said in the thread was captured
    assert [turn.content for turn in two.history] == [one.question, one.answer]
    assert two.capture.grade == "exact"


def test_earlier_users_count_where_their_turns_were_not_seen():
    said = [("user", "Where?"), ("assistant", ANSWER), ("user", "Why?")]
    history = tuple(Turn(role=role, content=text) for role, text in said)
    (sample,) = played(turn_of("And Faro?", F, history=history))
    assert numbered(sample)[1:] == (3, [3])


def test_a_summary_is_no_turn_and_what_it_replaced_stays_in_the_history():
    questions = {"Porto?": P, "Faro?": F, "Évora?": E}
    runs = [turn_of(text, one, conversation_id="a") for text, one in questions.items()]
    for run in runs[1:]:
        answering = run.root.children[-1]
        answering.prompt = (Message("summary", TRIP), *answering.prompt)
    _, two, three = played(*runs)
    assert [turn.content for turn in two.history] == ["Porto?", ANSWER]
    said = [turn.content for turn in three.history]
    assert said == ["Porto?", ANSWER, "Faro?", ANSWER]
    written = [each for each in three.ledger.calls if each.kind == "written"]
    assert (2, (0,)) in [(each.turn, each.shown) for each in written]


def test_a_context_is_in_the_ledger_though_nobody_is_known_to_have_brought_it():
    handed = call("step", reads(asked(PORTO)), input_documents=(P, F))
    (sample,) = samples_of(says(handed))
    assert [context.text for context in sample.contexts or ()] == [PORTO]
    (given,) = sample.ledger.calls
    assert (given.kind, [item.text for item in given.items]) == (
        "given",
        [PORTO, F.text],
    )
    assert given.shown is None


@pytest.mark.parametrize(
    ("arguments", "query"),
    [
        ({"city": "Porto", "limit": 3}, "Porto"),
        ({"order": 7}, '{"order": 7}'),
        ({"sources": [None]}, None),  # such as streams of bytes, which are not kept
    ],
)
def test_a_call_was_asked_the_plain_values_that_it_was_given(arguments, query):
    run = says(
        found(P, query=None, arguments=arguments),
        reads(asked(PORTO)),
        question=QUESTION,
    )
    (sample,) = samples_of(run)
    assert [each.query for each in sample.ledger.calls] == [query]


def test_what_a_step_made_of_a_search_inside_it_stands_after_that_search():
    parent = Document(f"The old town. {PORTO} So say the people.")
    widened = step(parent, inside=[found(P, F)])
    (sample,) = samples_of(says(widened, reads(asked(parent.text))))
    kinds = [each.kind for each in sample.ledger.calls]
    assert kinds == ["retrieval", "given"]


def test_a_run_that_answers_from_a_retrieval_beside_it_is_one_turn_with_it():
    turns: Turns[Tree] = Turns(lambda one: [one], Overrides())
    search_alone = tree(found(P)).root.children[0]
    assert turns.add(Tree(search_alone, gives_only_documents=True)) == []
    answering = later(says(reads(asked(PORTO)), conversation_id="a"))
    assert turns.add(answering) == []
    (sample,) = turns.finish()
    assert numbered(sample) == ("a", 1, [1])


def test_what_is_kept_of_a_long_conversation_is_bounded(monkeypatch):
    monkeypatch.setattr("ragmetrics_core.capture.turns._MOST_CALLS", 20)
    runs = (turn_of(f"Question {n}?", P, conversation_id="a") for n in range(30))
    *_, last = played(*runs)
    assert numbered(last) == ("a", 30, [*range(10, 31)])


TWO_CALLS = Ledger(calls=(EvidenceCall(kind="tool"), EvidenceCall(kind="tool")))


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({"answer": "***"}, 0),
        ({"metadata": {"seen": True}}, 1),
        ({"answer": "***", "ledger": TWO_CALLS}, 2),
    ],
)
def test_texts_that_redact_changed_do_not_stay_in_the_ledger(changes, kept):
    def masked(sample: Sample) -> Sample:
        return sample.model_copy(update=changes)

    captured: Captured[Tree] = Captured(samples_of, redact=masked)
    captured.record(turn_of("Where is Porto?", P))
    (sample,) = captured.samples
    assert len(sample.ledger.calls) == kept


@pytest.mark.parametrize(
    ("changes", "names"),
    [({"answer": "***"}, None), ({"metadata": {"seen": True}}, ("owner",))],
)
def test_where_redact_changed_texts_no_judge_is_shown_metadata(changes, names):
    def masked(sample: Sample) -> Sample:
        return sample.model_copy(update=changes)

    run = turn_of("Where is Porto?", Document(PORTO, "p", metadata={"owner": "Ada"}))
    for node in run.root.walk():
        if node.kind == "model":
            node.prompt = (Message("user", f"By Ada:\n{PORTO}\nWhere is Porto?"),)
    captured: Captured[Tree] = Captured(samples_of, redact=masked)
    captured.record(run)
    (sample,) = captured.samples
    (context,) = sample.known_contexts
    assert context.shown_metadata == names
