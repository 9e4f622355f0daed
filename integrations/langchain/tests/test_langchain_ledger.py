"""The evidence ledger of LangChain and LangGraph: each shape of agent and conversation stands here once."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    ContextEditingMiddleware,
    HumanInTheLoopMiddleware,
    SummarizationMiddleware,
)
from langchain.tools import ToolRuntime, tool
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig, RunnableLambda, RunnablePassthrough
from langchain_core.tools import ToolException, create_retriever_tool
from langchain_fakes import (
    ANSWER,
    LYON,
    PARIS,
    PROMPT,
    QUESTION,
    ROME,
    Shelf,
    Speaker,
    document,
    joined,
    rag,
)
from langchain_ragmetrics import capture
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send, interrupt

from ragmetrics_core.data.sample import Sample
from ragmetrics_core.data.sample_parts import EvidenceCall

REPORT = (
    "The researcher read that Paris is the capital of France, and nothing else of use."
)
ROWS = "city Paris: 2,103,000 people; city Lyon: 520,000 people"
NOTE = "The user asked for the capital of France and was told that it is Paris."
LATER = "Two cities were spoken of, one of them on a river; Italy comes next."
SUMMARY = f"Here is a summary of the conversation to date:\n\n{NOTE}"
SECOND = "And which city lies on the Rhône?"


@dataclass(frozen=True)
class Call:
    """What an entry must be; ``shown`` is "all" where every item stands in the answering prompt."""

    kind: str
    items: tuple[str, ...] = ()
    step: int = 0
    name: str | None = None
    query: str | None = None
    shown: tuple[int, ...] | str | None = "all"
    agent: str | None = None
    error: str | None = None
    turn: int = 1


def found(*items: str, query: str | None = QUESTION, **fields: Any) -> Call:
    return Call("retrieval", items, query=query, **fields)


def looked(*items: str, query: str = "capital", step: int = 1, **fields: Any) -> Call:
    return Call(
        "retrieval", items, step, fields.pop("name", "look_up"), query, **fields
    )


def told(call: EvidenceCall) -> Call:
    items = tuple(item.text for item in call.items)
    shown = "all" if call.shown == tuple(range(len(items))) else call.shown
    error = call.error.partition("(")[0] if call.error else None
    return Call(
        call.kind,
        items,
        call.step,
        call.name,
        call.query,
        shown,
        call.agent,
        error,
        call.turn,
    )


Play = Callable[[], Any]
SHAPES: dict[str, tuple[Play, list[list[Call]], dict[str, Any]]] = {}


def shape(*expected: list[Call], **options: Any) -> Callable[[Play], Play]:
    def add(play: Play) -> Play:
        assert play.__name__ not in SHAPES
        SHAPES[play.__name__] = (play, list(expected), options)
        return play

    return add


IDS = itertools.count()


def wants(*called: tuple[str, dict[str, Any]]) -> AIMessage:
    """A message that calls tools, each call with an id of its own."""
    made = [
        {"name": name, "args": args, "id": f"call{next(IDS)}", "type": "tool_call"}
        for name, args in called
    ]
    return AIMessage("", tool_calls=made)


def look(query: str = "capital") -> tuple[str, dict[str, Any]]:
    return "look_up", {"query": query}


BOOKS = {
    "capital": [PARIS],
    "Rhône": [LYON],
    "both": [PARIS, LYON],
    "Italy": [ROME],
    "nothing": [],
}
SHELF = Shelf(books=lambda query: [document(text, text[:4]) for text in BOOKS[query]])
look_up = create_retriever_tool(SHELF, "look_up", "Looks a thing up.")


@tool
def count(question: str) -> str:
    """Asks the database."""
    return ROWS


def ask(agent: Any, question: str = QUESTION, thread: str | None = None) -> Any:
    config: Any = {} if thread is None else {"configurable": {"thread_id": thread}}
    return agent.invoke({"messages": [("user", question)]}, config=config)


def go_on(agent: Any, value: Any) -> Any:
    return agent.invoke(
        Command(resume=value), config={"configurable": {"thread_id": "t"}}
    )


def agent(*lines: Any, tools: Any = (look_up,), **settings: Any) -> Any:
    return create_agent(Speaker(lines=[*lines, ANSWER]), list(tools), **settings)


# One turn


class Halves(BaseDocumentCompressor):
    """Keeps the second half of the last document."""

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> list[Document]:
        last = documents[-1].page_content
        return [Document(last[len(last) // 3 :])]


@shape([found(PARIS, ROME, shown=(1,))])
def pieces_of_a_compressor() -> None:
    """No id, and a part of the text: as of a splitter or an extractor of LangChain's."""
    retriever = ContextualCompressionRetriever(
        base_compressor=Halves(),
        base_retriever=Shelf(books=[document(PARIS, "p"), document(ROME, "r")]),
    )
    chain = (
        {"context": retriever | joined, "question": RunnablePassthrough()}
        | PROMPT
        | Speaker(lines=[ANSWER])
    )
    chain.invoke(QUESTION)


@shape(
    [
        Call("tool", (ROWS,), 0, "count", "How many?"),
        looked(PARIS),
    ]
)
def an_agent_that_goes_on_with_kept_messages() -> None:
    """The result that it was handed behind the question is evidence as its own are."""
    request = wants(("count", {"question": "How many?"}))
    result = ToolMessage(ROWS, tool_call_id=request.tool_calls[0]["id"])
    agent(wants(look())).invoke({"messages": [("user", QUESTION), request, result]})


@tool
def counted(config: RunnableConfig, question: str) -> str:
    """Asks the database through another tool, with the config that it was handed."""
    return str(count.invoke({"question": question}, config))


@shape([Call("tool", (ROWS,), 1, "counted", "How many?")])
def tool_that_calls_a_tool() -> None:
    ask(agent(wants(("counted", {"question": "How many?"})), tools=[counted]))


@tool
def fetch(query: str) -> list[Document]:
    """Fetches documents."""
    return [document(PARIS, "p"), document(ROME, "r")]


class Fetched(TypedDict, total=False):
    question: str
    documents: list[Document]
    answer: str


@shape([found(PARIS, ROME, name="fetch")])
def documents_of_a_tool_that_a_node_calls() -> None:
    """Nobody wrote its result as a text."""
    built = StateGraph(Fetched)
    built.add_node("fetch", lambda s: {"documents": fetch.invoke(s["question"])})
    built.add_node(
        "answer",
        lambda s: {
            "answer": (PROMPT | Speaker(lines=[ANSWER]))
            .invoke({"context": joined(s["documents"]), "question": s["question"]})
            .text
        },
    )
    built.add_edge(START, "fetch")
    built.add_edge("fetch", "answer")
    built.add_edge("answer", END)
    built.compile().invoke({"question": QUESTION})


class _Broken(Exception):
    """The index is down."""


@shape([looked(error="_Broken"), looked(LYON, query="Rhône")])
def a_search_that_fails_beside_another_in_one_node() -> None:
    books = Shelf(
        books=lambda query: (
            [document(LYON)] if query == "Rhône" else (_ for _ in ()).throw(_Broken())
        )
    )
    node = ToolNode(
        [create_retriever_tool(books, "look_up", "L")], handle_tool_errors=True
    )
    ask(loop(Speaker(lines=[wants(look(), look("Rhône")), ANSWER]), node))


def loop(model: Any, node: Any, **settings: Any) -> Any:
    """An agent drawn by hand: a model and a node of tools."""
    built = StateGraph(MessagesState)
    built.add_node(
        "model", lambda state: {"messages": [model.invoke(state["messages"])]}
    )
    built.add_node("tools", node)
    built.add_edge(START, "model")
    built.add_conditional_edges(
        "model", lambda state: "tools" if state["messages"][-1].tool_calls else END
    )
    built.add_edge("tools", "model")
    return built.compile(**settings)


@shape([Call("tool", (), 1, "count", QUESTION, error="no rows"), looked(PARIS, step=2)])
def a_tool_that_says_that_it_failed() -> None:
    @tool("count")
    def failing(question: str) -> str:
        """Asks the database."""
        raise ToolException("no rows")

    failing.handle_tool_error = True
    ask(
        agent(
            wants(("count", {"question": QUESTION})),
            wants(look()),
            tools=[failing, look_up],
        )
    )


@shape(
    [
        Call(
            "retrieval",
            (PARIS, LYON),
            1,
            "fetch",
            '{"topic": "capital", "country": "France"}',
        )
    ]
)
def a_tool_with_an_artifact_and_two_arguments() -> None:
    @tool(response_format="content_and_artifact")
    def fetch(topic: str, country: str) -> Any:
        """Fetches."""
        return f"{PARIS}\n{LYON}", [document(PARIS), document(LYON)]

    ask(
        agent(
            wants(("fetch", {"topic": "capital", "country": "France"})), tools=[fetch]
        )
    )


@shape(
    [
        Call("tool", ("2 documents were found.",), 1, "fetch", "both"),
        Call("retrieval", (PARIS, LYON), 1, "fetch", "both", None),
    ]
)
def a_tool_whose_text_shows_none_of_its_documents() -> None:
    @tool(response_format="content_and_artifact")
    def fetch(topic: str) -> Any:
        """Fetches."""
        return "2 documents were found.", [document(PARIS), document(LYON)]

    ask(agent(wants(("fetch", {"topic": "both"})), tools=[fetch]))


@shape(
    [
        looked(PARIS),
        looked(LYON, query="Rhône", step=2, shown=()),
        looked(ROME, query="Italy", step=3),
    ]
)
def results_cleared_while_the_loop_goes_on() -> None:
    class Clears:
        def apply(self, messages: list[Any], *, count_tokens: Any) -> None:
            results = [
                place
                for place, one in enumerate(messages)
                if isinstance(one, ToolMessage)
            ]
            if len(results) > 2:
                messages[results[1]] = messages[results[1]].model_copy(
                    update={"content": "[cleared]"}
                )

    lines = [wants(look()), wants(look("Rhône")), wants(look("Italy"))]
    ask(agent(*lines, middleware=[ContextEditingMiddleware(edits=[Clears()])]))


# Agents in agents


def researcher(*lines: Any) -> Any:
    return create_agent(
        Speaker(lines=[*(lines or [wants(look())]), REPORT]),
        [look_up],
        name="researcher",
    )


def asking(made: Any, name: str = "research") -> Any:
    @tool(name)
    def research(question: str) -> str:
        """Asks an agent."""
        return str(ask(made, question)["messages"][-1].text)

    return research


@shape(
    [
        Call("written", (f"{REPORT} A",), 1, "first", "A?"),
        looked(PARIS, agent="researcher"),
        Call("written", (f"{REPORT} B",), 1, "second", "B?"),
        looked(LYON, query="Rhône", agent="researcher"),
    ]
)
def two_sub_agents_beside_each_other() -> None:
    over = threading.Event()

    def wait(messages: Any) -> Any:
        over.wait(60)
        return wants(look())

    def last(messages: Any) -> str:
        over.set()
        return f"{REPORT} B"

    one = create_agent(
        Speaker(lines=[wait, f"{REPORT} A"]), [look_up], name="researcher"
    )
    two = create_agent(
        Speaker(lines=[wants(look("Rhône")), last]), [look_up], name="researcher"
    )
    called = wants(("first", {"question": "A?"}), ("second", {"question": "B?"}))
    ask(agent(called, tools=[asking(one, "first"), asking(two, "second")]))


def transfer(to: str, keep: bool = True) -> Any:
    @tool(f"transfer_to_{to}")
    def hand_over(runtime: ToolRuntime) -> Command[Any]:
        """Hands the question over."""
        note = ToolMessage(f"Transferred to {to}.", tool_call_id=runtime.tool_call_id)
        messages = (
            [*runtime.state["messages"], note]
            if keep
            else [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage(QUESTION)]
        )
        return Command(goto=to, graph=Command.PARENT, update={"messages": messages})

    return hand_over


def team(first: Any, second: Any) -> Any:
    built = StateGraph(MessagesState)
    built.add_node("desk", first)
    built.add_node("expert", second)
    built.add_edge(START, "desk")
    return built.compile()


@shape(
    [looked(PARIS, agent="desk"), looked(LYON, query="Rhône", step=3, agent="expert")]
)
def a_hand_off() -> None:
    desk = agent(
        wants(look()),
        wants(("transfer_to_expert", {})),
        tools=[look_up, transfer("expert")],
        name="desk",
    )
    ask(team(desk, agent(wants(look("Rhône")), name="expert")))


class Fan(TypedDict, total=False):
    question: str
    query: str
    texts: Annotated[list[str], lambda one, two: one + two]
    answer: str


@shape([found(PARIS, query="capital"), found(LYON, query="Rhône")])
def branches_of_a_graph() -> None:
    def fetch(state: Fan) -> Fan:
        return {"texts": [joined(SHELF.invoke(state["query"]))]}

    def write(state: Fan) -> Fan:
        shown = {"context": "\n".join(state["texts"]), "question": state["question"]}
        return {"answer": str((PROMPT | Speaker()).invoke(shown).text)}

    built = StateGraph(Fan)
    built.add_node("fetch", fetch)
    built.add_node("write", write)
    built.add_conditional_edges(
        START,
        lambda _: [Send("fetch", {"query": query}) for query in ("capital", "Rhône")],
    )
    built.add_edge("fetch", "write")
    built.compile().invoke({"question": QUESTION})


# A person in the loop


@shape(
    [
        looked(LYON, query="Rhône", step=2),
    ]
)
def a_person_replies_instead_of_a_tool() -> None:
    approve = HumanInTheLoopMiddleware(
        interrupt_on={"look_up": {"allowed_decisions": ["approve", "respond"]}}
    )
    made = agent(
        wants(look()),
        wants(look("Rhône")),
        middleware=[approve],
        checkpointer=InMemorySaver(),
    )
    ask(made, thread="t")
    go_on(
        made,
        {
            "decisions": [
                {"type": "respond", "message": "It is Paris, no need to search."}
            ]
        },
    )
    go_on(made, {"decisions": [{"type": "approve"}]})


@shape([looked(PARIS), looked(PARIS), Call("tool", ("yes",), 1, "person", "Sure?")])
def a_node_of_tools_runs_again_when_it_is_resumed() -> None:
    @tool
    def person(question: str) -> str:
        """Asks the user."""
        return str(interrupt(question))

    called = wants(look(), ("person", {"question": "Sure?"}))
    made = loop(
        Speaker(lines=[called, ANSWER]),
        ToolNode([look_up, person]),
        checkpointer=InMemorySaver(),
    )
    ask(made, thread="t")
    go_on(made, "yes")


@shape([looked(query="nothing"), looked(PARIS, step=2)])
def a_tool_with_an_artifact_around_a_search_that_finds_nothing() -> None:
    @tool("look_up", response_format="content_and_artifact")
    def look_through(query: str) -> tuple[str, list[Any]]:
        """Looks a thing up."""
        documents = SHELF.invoke(query)
        return joined(documents) or "Nothing was found.", documents

    ask(agent(wants(look("nothing")), wants(look()), tools=[look_through]))


# Conversations


class Remembering(MessagesState):
    """A state that keeps what was found."""

    documents: list[Any]


@shape(
    [found(PARIS, query="capital")],
    [
        found(PARIS, query="capital", shown=()),
        found(LYON, query="Rhône", turn=2),
    ],
)
def a_state_that_keeps_the_documents_of_a_turn() -> None:
    model = Speaker(lines=[ANSWER, "Lyon lies on it."])

    def search(state: Remembering) -> dict[str, Any]:
        return {"documents": SHELF.invoke(str(state["messages"][-1].text))}

    def write(state: Remembering) -> dict[str, Any]:
        told = ("system", joined(state["documents"]))
        return {"messages": [model.invoke([told, *state["messages"]])]}

    built = StateGraph(Remembering)
    built.add_sequence([("search", search), ("write", write)])
    built.add_edge(START, "search")
    made = built.compile(checkpointer=InMemorySaver())
    for question in ("capital", "Rhône"):
        ask(made, question, "t")


@shape([looked(PARIS)], [looked(PARIS), looked(LYON, query="Rhône", turn=2)])
def memory_of_a_thread() -> None:
    made = agent(
        wants(look()), ANSWER, wants(look("Rhône")), checkpointer=InMemorySaver()
    )
    for question in (QUESTION, SECOND):
        ask(made, question, "t")


@tool(response_format="content_and_artifact")
def find(query: str) -> tuple[str, list[Any]]:
    """Finds a thing."""
    return PARIS, [document(PARIS, "p")]


@tool
def note(runtime: ToolRuntime) -> Command[Any]:
    """Hands all messages of the state on, as tools that hand over do."""
    said = ToolMessage("Noted.", tool_call_id=runtime.tool_call_id)
    return Command(update={"messages": [*runtime.state["messages"], said]})


@shape(
    [looked(PARIS, name="find")],
    [
        looked(PARIS, name="find"),
        Call("tool", ("Noted.",), 1, "note", "{}", turn=2),
        looked(PARIS, name="find", step=2, turn=2),
    ],
)
def an_update_that_repeats_an_earlier_turn() -> None:
    search = ("find", {"query": "capital"})
    lines = [wants(search), ANSWER, wants(("note", {})), wants(search)]
    made = agent(*lines, tools=[find, note], checkpointer=InMemorySaver())
    for question in (QUESTION, SECOND):
        ask(made, question, "t")


@shape(
    [looked(PARIS)],
    [
        looked(PARIS, shown=()),
        Call("written", (SUMMARY,), turn=2),
        looked(LYON, query="Rhône", turn=2),
    ],
    [
        looked(PARIS, shown=()),
        Call("written", (SUMMARY,), turn=2, shown=()),
        looked(LYON, query="Rhône", turn=2, shown=()),
        Call("written", (SUMMARY.replace(NOTE, LATER),), turn=3),
        looked(ROME, query="Italy", turn=3),
    ],
)
def a_thread_that_is_summarized() -> None:
    lines = [wants(look()), ANSWER, wants(look("Rhône")), "Lyon.", wants(look("Italy"))]
    notes = Speaker(lines=[NOTE, LATER])
    shorten = SummarizationMiddleware(
        notes, trigger=("messages", 5), keep=("messages", 1)
    )
    made = agent(*lines, middleware=[shorten], checkpointer=InMemorySaver())
    for question in (QUESTION, SECOND, "And Rome?"):
        ask(made, question, "t")


@tool
def web(query: str) -> list[dict[str, str]]:
    """Searches the web."""
    return [{"url": text[:4], "content": text} for text in BOOKS[query]]


def graph_of(search: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    class State(TypedDict):
        question: str
        documents: list[Document]
        answer: str

    def answer(state: State) -> dict[str, str]:
        context = joined(state["documents"])
        chain = PROMPT | Speaker(lines=[ANSWER])
        reply = chain.invoke({"context": context, "question": state["question"]})
        return {"answer": reply.content}

    made = StateGraph(State).add_sequence([("search", search), ("answer", answer)])
    return made.add_edge(START, "search").compile()


def found_on_the_web(*items: str) -> list[Call]:
    return [looked(*items, query="both", step=0, name="web")]


@shape(found_on_the_web(PARIS, LYON))
def documents_that_a_node_makes_of_the_rows_of_a_tool() -> None:
    def search(state: dict[str, Any]) -> dict[str, Any]:
        rows = web.invoke({"query": "both"})
        return {"documents": [Document(row["content"]) for row in rows]}

    graph_of(search).invoke({"question": QUESTION})


@shape(found_on_the_web(f"{PARIS}\n{LYON}"))
def one_document_that_a_node_makes_of_all_rows_of_a_tool() -> None:
    def search(state: dict[str, Any]) -> dict[str, Any]:
        rows = web.invoke({"query": "both"})
        return {"documents": [Document("\n".join(row["content"] for row in rows))]}

    graph_of(search).invoke({"question": QUESTION})


@shape([found(PARIS, LYON)])
def a_retriever_that_calls_a_tool() -> None:
    class Web(BaseRetriever):
        def _get_relevant_documents(
            self, query: str, *, run_manager: Any
        ) -> list[Document]:
            config = {"callbacks": run_manager.get_child()}
            rows = web.invoke({"query": "both"}, config)
            return [Document(row["content"]) for row in rows]

    def search(state: dict[str, Any]) -> dict[str, Any]:
        return {"documents": Web().invoke(state["question"])}

    graph_of(search).invoke({"question": QUESTION})


def played(name: str) -> tuple[Sample, ...]:
    play, _, options = SHAPES[name]
    with capture(**options) as captured:
        play()
    assert not captured.problems, captured.problems
    return captured.samples


# LangChain 1.0 does not tell names of agents, which call of a tool failed, or a
# person's reply in a tool's place, its summaries are asked for in another way, and
# a tool's arguments hold what it injects.
SINCE_1_1 = {
    "a_search_that_fails_beside_another_in_one_node",
    "a_sub_agent",
    "two_sub_agents_beside_each_other",
    "a_hand_off",
    "a_hand_off_that_drops_what_was_found",
    "a_person_replies_instead_of_a_tool",
    "a_thread_that_is_summarized",
    "an_update_that_repeats_an_earlier_turn",
}


# Their calls begin in threads of the framework, in any order.
BEGUN_TOGETHER = {"branches_of_a_graph"}


@pytest.mark.parametrize(
    ("step", "place", "contexts"),
    [
        (lambda found: [], None, []),  # all graded out
        (
            lambda found: [Document("A tower stands there.")],
            "remade",
            ["A tower stands"],
        ),
    ],
)
def test_what_a_step_dropped_is_no_evidence_of_the_answer(
    step: Callable[[Any], Any], place: str | None, contexts: list[str]
) -> None:
    remade = RunnableLambda(step, name="remade")
    with capture(contexts_from=place) as captured:
        rag(Shelf() | remade).invoke(QUESTION)
    (sample,) = captured.samples
    assert [context.text[:14] for context in sample.contexts or ()] == contexts
    assert [call.shown for call in sample.ledger.calls if call.kind == "retrieval"] == [
        ()
    ]
    (result,) = captured.evaluate(["adherence"], judge="lexical").results
    assert result.results["context_adherence"].value < 0.5


@pytest.mark.parametrize(
    ("shown", "grade"), [(True, "exact"), (False, "inferred")], ids=["shown", "not"]
)
def test_a_state_that_the_user_names_may_hold_what_an_earlier_turn_found(
    shown: bool, grade: str
) -> None:
    model = Speaker(lines=[ANSWER, "You are welcome to come by train."])

    def search(state: Remembering) -> dict[str, Any]:
        question = str(state["messages"][-1].text)
        return {"documents": SHELF.invoke(question)} if question == "capital" else {}

    def write(state: Remembering) -> dict[str, Any]:
        is_read = shown or len(state["messages"]) == 1
        told = joined(state["documents"]) if is_read else "Be brief."
        return {"messages": [model.invoke([("system", told), *state["messages"]])]}

    built = StateGraph(Remembering)
    built.add_sequence([("search", search), ("write", write)])
    built.add_edge(START, "search")
    made = built.compile(checkpointer=InMemorySaver())
    with capture(contexts_from="documents") as captured:
        ask(made, "capital", "t")
        ask(made, "How do I get there?", "t")
    first, second = captured.samples
    assert first.capture is not None
    assert second.capture is not None
    assert (first.capture.grade, second.capture.grade) == ("exact", grade)
    assert ("which_turn" in second.capture.doubts) == (not shown)


def test_a_persons_reply_in_a_tools_place_is_no_call_and_hedges_the_sample() -> None:
    if version("langchain").startswith("1.0."):
        pytest.skip("LangChain 1.0 does not record it")
    (sample,) = played("a_person_replies_instead_of_a_tool")
    assert sample.capture is not None
    assert sample.capture.grade == "inferred"
    assert "by_data_flow" in sample.capture.doubts


@pytest.mark.parametrize("name", SHAPES)
def test_ledger(name: str) -> None:
    if name in SINCE_1_1 and version("langchain").startswith("1.0."):
        pytest.skip("LangChain 1.0 does not record it")
    samples = played(name)
    ledgers = [
        [told(call) for call in sample.ledger.calls]
        for sample in samples
        if sample.ledger
    ]
    expected = SHAPES[name][1]
    if name in BEGUN_TOGETHER:
        ledgers = [sorted(calls, key=str) for calls in ledgers]
        expected = [sorted(calls, key=str) for calls in expected]
    assert ledgers == expected
    assert all(sample.answer for sample in samples)
