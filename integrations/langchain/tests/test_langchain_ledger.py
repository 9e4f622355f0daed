"""The evidence ledger of LangChain and LangGraph: each shape of agent and conversation stands here once."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    HumanInTheLoopMiddleware,
    SummarizationMiddleware,
    ToolCallLimitMiddleware,
    ToolRetryMiddleware,
    before_model,
    wrap_tool_call,
)
from langchain.agents.structured_output import ToolStrategy
from langchain.tools import InjectedToolCallId, ToolRuntime, tool
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import (
    RunnableLambda,
    RunnablePassthrough,
)
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
from langchain_ragmetrics import RagMetricsCallback, capture
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import ToolNode
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, Send, interrupt
from pydantic import BaseModel

from ragmetrics_core.data.sample import EvidenceCall, Sample

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


@shape([found(PARIS, LYON, ROME)])
def a_chain() -> None:
    rag().invoke(QUESTION)


@shape([found(PARIS, query="capital", step=1)])
def a_rewritten_question() -> None:
    rewrite = (
        RunnableLambda(lambda question: f"Rewrite: {question}")
        | Speaker(lines="capital")
        | StrOutputParser()
    )
    chain = (
        RunnablePassthrough.assign(
            context=(lambda x: x["question"]) | rewrite | SHELF | joined
        )
        | PROMPT
        | Speaker()
    )
    chain.invoke({"question": QUESTION})


@shape([found(PARIS, query="capital")])
def a_step_before_the_model() -> None:
    @before_model
    def fetch(state: AgentState, runtime: Any) -> dict[str, Any]:
        return {"messages": [HumanMessage(joined(SHELF.invoke("capital")))]}

    ask(agent(tools=(), middleware=[fetch]))


@shape([Call("given", (PARIS, LYON))])
def documents_given_with_the_question() -> None:
    prompt = ChatPromptTemplate.from_template("{context}\n{question}")
    made = create_stuff_documents_chain(Speaker(), prompt)
    made.invoke({"context": [document(PARIS), document(LYON)], "question": QUESTION})


@shape([looked(PARIS, LYON, query="both")])
def one_search() -> None:
    ask(agent(wants(look("both"))))


@shape([looked(PARIS), looked(LYON, query="Rhône", step=2)])
def one_search_after_the_other() -> None:
    ask(agent(wants(look()), wants(look("Rhône"))))


@shape([looked(PARIS), looked(LYON, query="Rhône")])
def searches_beside_each_other_end_in_any_order() -> None:
    over = threading.Event()

    def slow(query: str) -> list[Any]:
        _ = over.wait(5) if query == "capital" else over.set()
        return [document(BOOKS[query][0])]

    ask(
        agent(
            wants(look(), look("Rhône")),
            tools=[create_retriever_tool(Shelf(books=slow), "look_up", "Looks.")],
        )
    )


@shape([looked(PARIS), looked(PARIS)])
def the_same_search_twice_in_one_step() -> None:
    ask(agent(wants(look(), look())))


@shape([looked(query="nothing")])
def a_search_that_finds_nothing() -> None:
    ask(agent(wants(look("nothing"))))


class _Broken(Exception):
    """The index is down."""


@wrap_tool_call
def caught(request: Any, handler: Any) -> Any:
    try:
        return handler(request)
    except _Broken:
        return ToolMessage(
            "the index is down", tool_call_id=request.tool_call["id"], status="error"
        )


@shape([looked(error="_Broken"), looked(LYON, query="Rhône", step=2)])
def a_search_that_fails_and_another() -> None:
    books = Shelf(
        books=lambda query: (
            [document(LYON)] if query == "Rhône" else (_ for _ in ()).throw(_Broken())
        )
    )
    ask(
        agent(
            wants(look()),
            wants(look("Rhône")),
            tools=[create_retriever_tool(books, "look_up", "L")],
            middleware=[caught],
        )
    )


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


@shape([looked(PARIS)])
def a_search_that_is_tried_again() -> None:
    times = itertools.count()
    books = Shelf(
        books=lambda query: (
            [document(PARIS)] if next(times) else (_ for _ in ()).throw(_Broken())
        )
    )
    again = ToolRetryMiddleware(max_retries=1, initial_delay=0, jitter=False)
    ask(
        agent(
            wants(look()),
            tools=[create_retriever_tool(books, "look_up", "L")],
            middleware=[again],
        )
    )


@shape([looked(PARIS), Call("tool", (ROWS,), 2, "count", QUESTION)])
def a_search_and_rows_of_a_database() -> None:
    ask(
        agent(
            wants(look()),
            wants(("count", {"question": QUESTION})),
            tools=[look_up, count],
        )
    )


@shape([Call("tool", (ROWS,), 1, "count", QUESTION)])
def only_rows_of_a_database() -> None:
    ask(agent(wants(("count", {"question": QUESTION})), tools=[count]))


@shape([Call("retrieval", (ROWS,), 1, "count", QUESTION)], context_tools={"count"})
def a_tool_that_is_named_as_evidence() -> None:
    ask(agent(wants(("count", {"question": QUESTION})), tools=[count]))


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


@shape([looked(PARIS)])
def a_tool_that_also_writes_into_the_state() -> None:
    @tool("look_up")
    def stating(
        query: str, tool_call_id: Annotated[str, InjectedToolCallId]
    ) -> Command[Any]:
        """Looks a thing up."""
        message = ToolMessage(joined(SHELF.invoke(query)), tool_call_id=tool_call_id)
        return Command(update={"messages": [message]})

    ask(agent(wants(look()), tools=[stating]))


@shape([looked(PARIS, step=2)])
def a_tool_that_does_not_exist() -> None:
    ask(
        agent(
            wants(("no_such_tool", {"query": "x"})), wants(look()), tools=[look_up]
        ).with_config(recursion_limit=20)
    )


@shape([looked(PARIS)])
def a_call_that_a_limit_blocks() -> None:
    limit = ToolCallLimitMiddleware(run_limit=1, exit_behavior="continue")
    ask(agent(wants(look()), wants(look("Rhône")), middleware=[limit]))


class Said(BaseModel):
    """An answer."""

    answer: str


@shape([looked(PARIS)])
def a_structured_answer() -> None:
    ask(
        agent(
            wants(look()),
            wants(("Said", {"answer": ANSWER})),
            response_format=ToolStrategy(Said),
        )
    )


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


@shape([looked(PARIS, shown=None), Call("tool", (ROWS,), 2, "count", QUESTION, ())])
def all_results_cleared() -> None:
    edit = ClearToolUsesEdit(trigger=70, keep=0)
    ask(
        agent(
            wants(look()),
            wants(("count", {"question": QUESTION})),
            tools=[look_up, count],
            middleware=[ContextEditingMiddleware(edits=[edit])],
        )
    )


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
        Call("written", (REPORT,), 1, "research", "Which?", agent="boss"),
        looked(PARIS, agent="researcher"),
        looked(LYON, query="Rhône", agent="researcher"),
    ]
)
def a_sub_agent() -> None:
    inner = researcher(wants(look()), wants(look("Rhône")))
    ask(
        agent(
            wants(("research", {"question": "Which?"})),
            tools=[asking(inner)],
            name="boss",
        )
    )


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
        over.wait(5)
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


@shape(
    [
        Call("written", (REPORT,), 1, "know", "capital"),
        Call("retrieval", (PARIS,), 1, "know", "capital"),
    ],
)
def a_chain_in_a_tool() -> None:
    inner = (
        {"context": SHELF | joined, "question": RunnablePassthrough()}
        | PROMPT
        | Speaker(lines=REPORT)
    )

    @tool
    def know(question: str) -> str:
        """Answers."""
        return str(inner.invoke(question).text)

    ask(agent(wants(("know", {"question": "capital"})), tools=[know]))


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


@shape(
    [
        looked(PARIS, agent="desk", shown=()),
        looked(LYON, query="Rhône", step=3, agent="expert"),
    ]
)
def a_hand_off_that_drops_what_was_found() -> None:
    over = transfer("expert", keep=False)
    desk = agent(
        wants(look()),
        wants(("transfer_to_expert", {})),
        tools=[look_up, over],
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


def waiting(*lines: Any, tools: Any = (look_up,)) -> Any:
    approve = HumanInTheLoopMiddleware(interrupt_on={"look_up": True})
    return agent(
        *lines, tools=tools, middleware=[approve], checkpointer=InMemorySaver()
    )


@shape([looked(PARIS)])
def a_person_approves() -> None:
    made = waiting(wants(look()))
    ask(made, thread="t")
    go_on(made, {"decisions": [{"type": "approve"}]})


@shape([looked(LYON, query="Rhône")])
def a_person_edits_the_call() -> None:
    made = waiting(wants(look()))
    ask(made, thread="t")
    go_on(
        made,
        {
            "decisions": [
                {
                    "type": "edit",
                    "edited_action": {"name": "look_up", "args": {"query": "Rhône"}},
                }
            ]
        },
    )


@shape([looked(LYON, query="Rhône", step=2)])
def a_person_rejects_a_call() -> None:
    made = waiting(wants(look()), wants(look("Rhône")))
    ask(made, thread="t")
    go_on(made, {"decisions": [{"type": "reject", "message": "not that"}]})
    go_on(made, {"decisions": [{"type": "approve"}]})


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


@shape(
    [
        looked(PARIS),
        Call("tool", ("Ask for the one in France.",), 2, "person", "Which one?"),
    ]
)
def a_person_replies_inside_a_tool() -> None:
    @tool
    def person(question: str) -> str:
        """Asks the user."""
        return str(interrupt(question))

    lines = [wants(look()), wants(("person", {"question": "Which one?"}))]
    made = agent(*lines, tools=[look_up, person], checkpointer=InMemorySaver())
    ask(made, thread="t")
    go_on(made, "Ask for the one in France.")


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


# Conversations


@shape([looked(PARIS)], [looked(PARIS), looked(LYON, query="Rhône", turn=2)])
def memory_of_a_thread() -> None:
    made = agent(
        wants(look()), ANSWER, wants(look("Rhône")), checkpointer=InMemorySaver()
    )
    for question in (QUESTION, SECOND):
        ask(made, question, "t")


@shape([looked(PARIS)], [looked(PARIS)], context_tools={"look_up"})
def a_turn_that_rests_on_an_earlier_one() -> None:
    made = agent(wants(look()), ANSWER, ANSWER, checkpointer=InMemorySaver())
    for question in (QUESTION, "Are you sure?"):
        ask(made, question, "t")


@shape([looked(PARIS)], [looked(PARIS, shown=()), looked(LYON, query="Rhône", turn=2)])
def a_thread_that_is_trimmed() -> None:
    @before_model
    def trim(state: AgentState, runtime: Any) -> dict[str, Any] | None:
        asked = max(
            place
            for place, one in enumerate(state["messages"])
            if isinstance(one, HumanMessage)
        )
        return {
            "messages": [
                RemoveMessage(id=REMOVE_ALL_MESSAGES),
                *state["messages"][asked:],
            ]
        }

    made = agent(
        wants(look()),
        ANSWER,
        wants(look("Rhône")),
        middleware=[trim],
        checkpointer=InMemorySaver(),
    )
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


@shape(
    [found(PARIS, query="capital")],
    [found(LYON, query="Rhône", turn=2)],
)
def messages_that_the_application_keeps_itself() -> None:
    prompt = ChatPromptTemplate.from_messages(
        [("placeholder", "{chat_history}"), ("human", "{context}\n{input}")]
    )
    chain = (
        RunnablePassthrough.assign(context=(lambda x: x["input"]) | SHELF | joined)
        | prompt
        | Speaker()
    )
    chain.invoke({"input": "capital", "chat_history": []})
    chain.invoke(
        {"input": "Rhône", "chat_history": [HumanMessage("capital"), AIMessage(ANSWER)]}
    )


@shape(
    [
        Call("tool", ("The user lives in Lyon.",), 1, "recall", "home"),
        looked(PARIS, step=2),
    ]
)
def a_memory_over_conversations() -> None:
    @tool
    def recall(topic: str, runtime: ToolRuntime) -> str:
        """Recalls what is known of the user."""
        item = (
            runtime.store.get(("user",), topic) if runtime.store is not None else None
        )
        return str(item.value["text"]) if item is not None else ""

    memory = InMemoryStore()
    memory.put(("user",), "home", {"text": "The user lives in Lyon."})
    ask(
        agent(
            wants(("recall", {"topic": "home"})),
            wants(look()),
            tools=[recall, look_up],
            store=memory,
        )
    )


@shape([looked(PARIS), looked(LYON, query="Rhône")])
def an_agent_that_runs_async() -> None:
    made = agent(wants(look(), look("Rhône")))
    asyncio.run(made.ainvoke({"messages": [("user", QUESTION)]}))


@shape([looked(PARIS), looked(LYON, query="Rhône", step=2)])
def an_agent_that_streams() -> None:
    made = agent(wants(look()), wants(look("Rhône")))
    assert list(
        made.stream(
            {"messages": [("user", QUESTION)]}, stream_mode=["updates", "messages"]
        )
    )


@shape([found(PARIS, query="capital")], [found(LYON, query="Rhône")])
def two_conversations() -> None:
    built = StateGraph(Fan)
    built.add_node(
        "fetch", lambda state: {"texts": [joined(SHELF.invoke(state["question"]))]}
    )
    built.add_node(
        "write",
        lambda state: {"answer": Speaker().invoke("\n".join(state["texts"])).text},
    )
    built.add_edge(START, "fetch")
    built.add_edge("fetch", "write")
    made = built.compile(checkpointer=InMemorySaver())
    for thread, question in (("a", "capital"), ("b", "Rhône")):
        made.invoke(
            {"question": question}, config={"configurable": {"thread_id": thread}}
        )


def played(name: str) -> tuple[Sample, ...]:
    play, _, options = SHAPES[name]
    with capture(**options) as captured:
        play()
    assert not captured.problems, captured.problems
    return captured.samples


# LangChain 1.0 does not tell names of agents, which call of a tool failed, or a
# person's reply in a tool's place, and its summaries are asked for in another way.
SINCE_1_1 = {
    "a_search_that_fails_beside_another_in_one_node",
    "a_sub_agent",
    "two_sub_agents_beside_each_other",
    "a_hand_off",
    "a_hand_off_that_drops_what_was_found",
    "a_person_replies_instead_of_a_tool",
    "a_thread_that_is_summarized",
}


# Their calls begin in threads of the framework, in any order.
BEGUN_TOGETHER = {"branches_of_a_graph"}


def test_a_persons_reply_in_a_tools_place_is_no_call_and_hedges_the_sample() -> None:
    if version("langchain").startswith("1.0."):
        pytest.skip("LangChain 1.0 does not record it")
    (sample,) = played("a_person_replies_instead_of_a_tool")
    assert sample.capture is not None
    assert sample.capture.grade == "inferred"
    assert "provider" in sample.capture.doubts


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


def _masked(sample: Sample) -> Sample:
    return sample


@pytest.mark.parametrize(
    ("thread", "anew", "redacts", "kept"),
    [
        ("over_blocks", False, (None, None), [1]),
        ("over_callbacks", False, (None, None), [1]),
        ("over_callbacks_two_redactions", False, (_masked, None), []),
        ("one_redaction", False, (_masked, _masked), [1]),
        # what one block hides does not reach another
        ("two_redactions", False, (_masked, None), []),
        # an application of its own, with the same id of its thread
        ("two_tenants", True, (None, None), []),
    ],
)
def test_a_thread_goes_on_over_several_blocks(
    thread: str, anew: bool, redacts: Any, kept: list[int]
) -> None:
    def made() -> Any:
        model = Speaker(lines=[wants(look()), "Paris.", "It is Paris, as I said."])
        tools = [
            create_retriever_tool(
                SHELF,
                "look_up",
                "Looks a thing up.",
                response_format="content_and_artifact",
            )
        ]
        return create_agent(model, tools, checkpointer=InMemorySaver())

    agent, samples = made(), list[Sample]()
    for at, question in enumerate((QUESTION, "Is that so?")):
        config: Any = {"configurable": {"thread_id": thread}}
        asked = {"messages": [("user", question)]}
        agent = made() if at and anew else agent
        if thread.startswith("over_callbacks"):
            callback = RagMetricsCallback(
                metrics=[],
                judge="lexical",
                context_tools={"look_up"},
                redact=redacts[at],
            )
            agent.invoke(asked, {**config, "callbacks": [callback]})
            samples += callback.samples
        else:
            with capture(context_tools={"look_up"}, redact=redacts[at]) as captured:
                agent.invoke(asked, config)
            samples += captured.samples
    ledger = samples[1].ledger
    assert ledger is not None
    assert ledger.conversation == thread
    assert [
        call.turn for call in ledger.calls if call.turn == 1 and ledger.turn == 2
    ] == kept
