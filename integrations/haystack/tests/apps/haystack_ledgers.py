"""Agents and pipelines, each with the ledger that is expected of it, worked out by hand.

What a framework is made of is real; only the models are fakes that say one thing after
the other. Evidence is told in this order: step, the model's own order of its calls,
start.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from haystack import Document, Pipeline, SuperComponent, component
from haystack.components.agents import Agent
from haystack.components.builders import AnswerBuilder, ChatPromptBuilder, PromptBuilder
from haystack.components.converters import OutputAdapter
from haystack.components.joiners import BranchJoiner, DocumentJoiner, ListJoiner
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.core.errors import BreakpointException
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.dataclasses.breakpoints import Breakpoint
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.hooks import compaction
from haystack.hooks.compaction import (
    CompactionHook,
)
from haystack.hooks.human_in_the_loop import (
    AlwaysAskPolicy,
    BlockingConfirmationStrategy,
    ConfirmationHook,
    ConfirmationUIResult,
)
from haystack.tools import (
    AgentTool,
    ComponentTool,
    PipelineTool,
    SearchableToolset,
    create_tool_from_function,
)
from haystack_apps import (
    SEARCH,
    TEXTS,
    A,
    Q,
    calls,
    connected,
    says,
    search,
    user,
)
from haystack_apps_agents import (
    agent,
    every,
    searching,
    web_tool,
)
from haystack_apps_pipelines import (
    AND_WHY,
    FIRST,
    SEEN,
    MessageRetriever,
    asked,
    rag,
)

UNKNOWN = (-1,)  # nothing tells what of the items was shown


@dataclass(frozen=True)
class Call:
    """What is expected of a call of the ledger: items by id, or by their text; ``shown`` by place, all if None."""

    kind: str
    step: int
    items: tuple[str, ...] = ()
    name: str | None = None
    query: str | None = None
    shown: tuple[int, ...] | None = None
    agent: str | None = None
    error: str = ""
    turn: int = 1


def retrieval(step: int, *items: str, **more: Any) -> Call:
    return Call("retrieval", step, items, **more)


def tool(step: int, *items: str, **more: Any) -> Call:
    return Call("tool", step, items, **more)


def written(step: int, text: str, **more: Any) -> Call:
    return Call("written", step, (text,), **more)


def given(*items: str, **more: Any) -> Call:
    return Call("given", 0, items, **more)


@dataclass(frozen=True)
class Row:
    play: Callable[[], object]
    calls: tuple[Call, ...]
    contexts: tuple[str, ...]
    answer: str | None = A
    capture: dict[str, Any] = field(default_factory=dict)
    turns: int = 1
    doubts: tuple[str, ...] = ()


ROWS: dict[str, Row] = {}


def row(
    *expected: Call,
    contexts: tuple[str, ...] = FIRST,
    answer: str | None = A,
    turns: int = 1,
    doubts: tuple[str, ...] = (),
    **capture: Any,
) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Put an application into the table, by its name.

    Of several turns the last one counts. ``doubts``: the codes of all that is uncertain.
    """

    def added(play: Callable[[], object]) -> Callable[[], object]:
        assert play.__name__ not in ROWS
        ROWS[play.__name__] = Row(
            play, expected, contexts, answer, capture, turns, doubts
        )
        return play

    return added


# Pipelines


EACH = "{% for one in documents %}{{ one.content }}\n{% endfor %}{{ question }}"


def kept(*names: str) -> list[Document]:
    return [Document(id=name, content=TEXTS[name]) for name in names]


def pausing(*stops: str) -> None:
    stores = {}
    for name in ("gate", "bell"):
        stores[name] = InMemoryDocumentStore()
        stores[name].write_documents(kept(name))
    made = connected(
        ("first.documents", "joined.documents"),
        ("second.documents", "joined.documents"),
        ("joined.documents", "prompt.documents"),
        ("prompt.prompt", "llm.messages"),
        first=InMemoryBM25Retriever(stores["gate"]),
        second=InMemoryBM25Retriever(stores["bell"]),
        joined=DocumentJoiner(sort_by_score=False),
        prompt=ChatPromptBuilder(user(EACH)),
        llm=says(A),
    )
    given: dict[str, Any] = {
        "first": {"query": "gate"},
        "second": {"query": "bell"},
        "prompt": {"question": Q},
    }
    snapshot = None
    for name in stops:
        with pytest.raises(BreakpointException) as stopped:
            made.run(given, break_point=Breakpoint(name), pipeline_snapshot=snapshot)
        given, snapshot = {}, stopped.value.pipeline_snapshot
    made.run({}, pipeline_snapshot=snapshot)


TWO_SEARCHES = (
    retrieval(0, "gate", query="gate"),
    retrieval(0, "bell", query="bell"),
)


@row(*TWO_SEARCHES, contexts=("gate", "bell"))
def a_run_that_pauses_between_two_searches() -> None:
    pausing("second")


@row(*TWO_SEARCHES, contexts=("gate", "bell"))
def a_run_that_pauses_before_and_after_each_search() -> None:
    pausing("first", "second", "joined")


STATEMENT = "SELECT stone FROM walls WHERE year = 1874"
TABLE = "| stone |\n|---|\n| The wall is of granite, which came by ship in 1874. |"


@component
class Tables:
    """Runs a statement, and returns rows as a text."""

    @component.output_types(table=str)
    def run(self, sql: str, limit: int = 10) -> dict[str, Any]:
        return {"table": TABLE}


def asks_a_table() -> None:
    """A model writes the statement, and another answers from the rows."""
    made = connected(
        ("asking.prompt", "writer.messages"),
        ("writer.replies", "statement.replies"),
        ("statement.output", "tables.sql"),
        ("tables.table", "prompt.table"),
        ("prompt.prompt", "llm.messages"),
        asking=ChatPromptBuilder(user("Write SQL for: {{ question }}")),
        writer=says(STATEMENT),
        statement=OutputAdapter("{{ replies[0].text }}", str),
        tables=Tables(),
        prompt=ChatPromptBuilder(user("{{ table }}\n{{ question }}")),
        llm=says(A),
    )
    made.run({"asking": {"question": Q}, "prompt": {"question": Q}})


@row(
    retrieval(1, TABLE, query=STATEMENT),
    contexts=(TABLE,),
    contexts_from="tables.table",
)
def rows_at_a_place_that_the_user_names() -> None:
    asks_a_table()


@row(retrieval(0, TABLE), contexts=(TABLE,), contexts_from="prompt.table")
def rows_that_the_user_names_where_they_were_handed_on() -> None:
    """Nothing tells who found them."""
    asks_a_table()


@component
class Shelves:
    """Searches by a field that has a name of its own."""

    @component.output_types(documents=list[Document])
    def run(
        self, shelf: str | None = None, filters: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        return {"documents": kept("gate")}


def shelves(**given: Any) -> None:
    made = connected(
        ("shelves.documents", "prompt.documents"),
        ("prompt.prompt", "llm.messages"),
        shelves=Shelves(),
        prompt=ChatPromptBuilder(user(EACH)),
        llm=says(A),
    )
    made.run({"shelves": given, "prompt": {"question": Q}})


@row(retrieval(0, "gate", query="stone"), contexts=("gate",))
def a_search_by_a_text_with_a_name_of_its_own() -> None:
    shelves(shelf="stone")


@row(
    retrieval(0, "gate", query='{"filters": {"field": "meta.year"}}'),
    contexts=("gate",),
)
def a_search_by_filters_alone() -> None:
    shelves(filters={"field": "meta.year"})


def nothing_through(joiner: Any, inputs: str, joined: str) -> None:
    """A search that finds nothing, and a component that hands its empty list on."""
    connected(
        ("retriever.documents", f"joiner.{inputs}"),
        (f"joiner.{joined}", "prompt.documents"),
        ("prompt", "llm"),
        retriever=InMemoryBM25Retriever(InMemoryDocumentStore()),
        joiner=joiner,
        prompt=PromptBuilder(EACH),
        llm=says(A),
    ).run({"retriever": {"query": Q}, "prompt": {"question": Q}})


@row(retrieval(0, query=Q), contexts=())
def nothing_through_a_branch() -> None:
    nothing_through(BranchJoiner(list[Document]), "value", "value")


@row(retrieval(0, query=Q), contexts=())
def nothing_through_a_joiner_of_any_lists() -> None:
    nothing_through(ListJoiner(list[Document]), "values", "values")


# Agents and their tools


@row(retrieval(1, *FIRST, name="search", query="gate", shown=(0,)), contexts=("gate",))
def a_tool_that_shows_one_of_three() -> None:
    agent(
        searching(lambda documents: documents[0].content, 3),
        calls("search", query="gate"),
        A,
    ).run(messages=user())


@row(
    retrieval(0, "mill", name="archive", query="mill"),
    retrieval(1, "gate", name="archive", query="gate"),
    contexts=("mill", "gate"),
)
def an_agent_that_goes_on_with_what_another_one_found() -> None:
    """Its messages were kept, and its run is none of the block's."""
    request = calls("archive", query="mill")
    documents = [one.to_dict() for one in kept("mill")]
    result = ChatMessage.from_tool(
        json.dumps({"documents": documents}), origin=request.tool_calls[0]
    )
    agent(create_tool_from_function(archive), calls("archive", query="gate"), A).run(
        messages=[*user(), request, result]
    )


def keeper(year: Annotated[int, "the year"], month: Annotated[int, "the month"]) -> str:
    """Asks the keeper of the archive."""
    return "The keeper says: the wall was built in spring."


def archive(query: Annotated[str, "the query"]) -> list[Document]:
    """Searches the archive."""
    return _found_in("archive" if query == "gate" else "", query)


def _found_in(place: str, query: str) -> list[Document]:
    """Documents of a store, which is empty but for the archive."""
    store = InMemoryDocumentStore()
    store.write_documents(kept("gate") if place else [])
    retriever = InMemoryBM25Retriever(store)
    documents: list[Document] = retriever.run(query)["documents"]
    return documents


@component
class Archived:
    """Searches the archive by a retriever inside."""

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        return {"documents": archive(query)}


ARCHIVE = {"name": "archive", "description": "Searches the archive."}
NOTHING_THEN_GATE = (
    retrieval(1, name="archive", query="nothing"),
    retrieval(2, "gate", name="archive", query="gate"),
)


def asks_twice(tool: Any) -> None:
    lines = [calls("archive", query=query) for query in ("nothing", "gate")]
    agent(tool, *lines, A).run(messages=user())


@row(*NOTHING_THEN_GATE, contexts=("gate",))
def a_function_around_a_search_that_finds_nothing() -> None:
    asks_twice(create_tool_from_function(archive))


@row(*NOTHING_THEN_GATE, contexts=("gate",))
def a_component_around_a_search_that_finds_nothing() -> None:
    asks_twice(ComponentTool(component=Archived(), **ARCHIVE))


@row(*NOTHING_THEN_GATE, contexts=("gate",))
def a_pipeline_around_a_search_that_finds_nothing() -> None:
    made = connected(archived=Archived())
    mapped = {"query": ["archived.query"]}
    asks_twice(PipelineTool(pipeline=made, input_mapping=mapped, **ARCHIVE))


class Archive:
    """A source that is closed at first."""

    def __init__(self) -> None:
        self.calls = 0

    def open(self, query: Annotated[str, "the query"]) -> dict[str, Any]:
        """Searches the archive."""
        self.calls += 1
        if self.calls == 1:
            raise ConnectionError("the archive is closed")
        return {"documents": kept("gate")}


@row(
    tool(1, name="open", query="gate", error="the archive is closed"),
    retrieval(2, "gate", name="open", query="gate"),
    contexts=("gate",),
)
def a_tool_that_fails_and_is_tried_again() -> None:
    agent(
        create_tool_from_function(Archive().open),
        calls("open", query="gate"),
        calls("open", query="gate"),
        A,
    ).run(messages=user())


NOTE = "Masons write in the note, web_search finds the rest: the wall is of granite."


@row(
    tool(1, NOTE, name="note", query="masons"),
    retrieval(2, *SEEN, name="web_search", query="gate"),
    contexts=SEEN,
    doubts=("undivided",),
)
def a_tool_whose_text_names_the_tool_that_is_found_beside_it() -> None:
    def note(query: Annotated[str, "the query"]) -> str:
        """Looks into the note."""
        return NOTE

    found = SearchableToolset(catalog=[web_tool(every)], search_threshold=1)
    first = ChatMessage.from_assistant(
        tool_calls=[
            ToolCall("search_tools", {"tool_keywords": "web search"}),
            ToolCall("note", {"query": "masons"}),
        ]
    )
    Agent(
        chat_generator=says(first, calls("web_search", query="gate"), A),
        tools=[found, create_tool_from_function(note)],
    ).run(messages=user())


@row(
    given("bell"),
    retrieval(1, *SEEN, name="web_search", query="bell"),
    contexts=("bell", *SEEN),
)
def an_agent_that_is_handed_documents() -> None:
    made = Agent(
        chat_generator=says(calls("web_search", query="bell"), A),
        tools=[web_tool(every)],
        user_prompt=(
            "{% message role='user' %}{{ documents[0].content }}\n{{ question }}{%"
            " endmessage %}"
        ),
    )
    made.run(messages=[], documents=kept("bell"), question=Q)


# Agents as tools


SISTERS = "Sanna Stern has two older sisters, but no brother."


def researcher(
    name: str = "researcher", *, answer: str = SISTERS, shown: Any = None, **more: Any
) -> ComponentTool:
    made = agent(web_tool(every), calls("web_search", query="sisters"), answer, **more)
    return ComponentTool(
        component=made,
        name=name,
        description="Researches.",
        outputs_to_string=shown or {"source": "last_message"},
    )


def ask(name: str = "researcher") -> ToolCall:
    return ToolCall(
        name, {"messages": [{"role": "user", "content": [{"text": "sisters?"}]}]}
    )


ASKED = '{"messages": [{"role": "user", "content": [{"text": "sisters?"}]}]}'


def from_researcher(
    name: str = "researcher", answer: str = SISTERS, step: int = 1, **more: Any
) -> tuple[Call, ...]:
    return (
        written(step, answer, name=name, query=ASKED),
        retrieval(step, *SEEN, name="web_search", query="sisters", agent=name, **more),
    )


@row(*from_researcher(), contexts=SEEN, answer="Sanna has sisters.")
def an_agent_as_tool() -> None:
    agent(
        researcher(),
        ChatMessage.from_assistant(tool_calls=[ask()]),
        "Sanna has sisters.",
    ).run(messages=user())


@row(
    written(
        1,
        SISTERS,
        name="researcher",
        query='{"messages": [{"role": "user", "content": "sisters?"}]}',
    ),
    retrieval(1, *SEEN, name="web_search", query="sisters", agent="researcher"),
    contexts=SEEN,
    answer="Sanna has sisters.",
)
def an_agent_tool() -> None:
    inner = agent(web_tool(every), calls("web_search", query="sisters"), SISTERS)
    tool = AgentTool(agent=inner, name="researcher", description="Researches.")
    asked = calls("researcher", messages=[{"role": "user", "content": "sisters?"}])
    agent(tool, asked, "Sanna has sisters.").run(messages=user())


ABOUT_GATE, ABOUT_MILL = (
    "The chronicle gives the year: 1632.",
    "A flood broke the wheel of the mill.",
)
BUILT = {
    "input_mapping": {"query": ["embedder.text", "prompt.question", "answers.query"]},
    "output_mapping": {"answers.answers": "answers"},
}


def building(*replies: str) -> Pipeline:
    """A pipeline that makes answer objects."""
    made = rag(llm=says(*replies), answers=AnswerBuilder())
    made.connect("llm.replies", "answers.replies")
    made.connect("retriever.documents", "answers.documents")
    return made


def from_builder(step: int, text: str, query: str) -> tuple[Call, ...]:
    return written(step, text, name="qa", query=query), retrieval(
        step, *FIRST, name="qa", query=query
    )


@row(*from_builder(1, ABOUT_GATE, "gate?"), answer="In 1632.")
def an_answer_builder_whose_answers_are_shown_as_json() -> None:
    inner = SuperComponent(building(ABOUT_GATE), **BUILT)
    tool = ComponentTool(component=inner, name="qa", description="Answers.")
    connected(agent=agent(tool, calls("qa", query="gate?"), "In 1632.")).run(
        {"agent": {"messages": user()}}
    )


@row(
    retrieval(1, *SEEN, name="web_search", query="sisters"),
    contexts=SEEN,
    answer=SISTERS,
)
def answers_built_of_all_messages_of_an_agent() -> None:
    """The builder makes one of each message, the user's and the tool's too."""
    connected(
        ("agent.messages", "answers.replies"),
        agent=agent(web_tool(every), calls("web_search", query="sisters"), SISTERS),
        answers=AnswerBuilder(),
    ).run({"agent": {"messages": user()}, "answers": {"query": Q}})


LEAD = "The register names two older sisters of Sanna Stern."


@row(
    written(1, LEAD, name="lead", query=ASKED),
    written(1, SISTERS, name="researcher", query=ASKED, agent="lead"),
    retrieval(1, *SEEN, name="web_search", query="sisters", agent="researcher"),
    contexts=SEEN,
    answer="Sanna has sisters.",
)
def an_agent_of_an_agent() -> None:
    lead = ComponentTool(
        component=agent(
            researcher(), ChatMessage.from_assistant(tool_calls=[ask()]), LEAD
        ),
        name="lead",
        description="Leads.",
        outputs_to_string={"source": "last_message"},
    )
    agent(
        lead, ChatMessage.from_assistant(tool_calls=[ask("lead")]), "Sanna has sisters."
    ).run(messages=user())


# A person in the loop


class Person:
    """Says what was decided beforehand."""

    def __init__(self, *decisions: ConfirmationUIResult) -> None:
        self.decisions = list(decisions)

    def get_user_confirmation(
        self, tool_name: str, tool_description: str, tool_params: Any
    ) -> ConfirmationUIResult:
        return self.decisions.pop(0)


def asking(*decisions: ConfirmationUIResult) -> ConfirmationHook:
    person: Any = Person(*decisions)
    strategy = BlockingConfirmationStrategy(
        confirmation_policy=AlwaysAskPolicy(), confirmation_ui=person
    )
    return ConfirmationHook(confirmation_strategies={"web_search": strategy})


@row(retrieval(1, *SEEN, name="web_search", query="sisters"), contexts=SEEN)
def a_call_that_a_person_edits() -> None:
    edits = asking(ConfirmationUIResult("modify", new_tool_params={"query": "sisters"}))
    agent(
        web_tool(every),
        calls("web_search", query="gate"),
        A,
        hooks={"before_tool": [edits]},
    ).run(messages=user())


# Memory


TURN = [ChatMessage.from_user(Q), ChatMessage.from_assistant(A)]


@row(retrieval(0, *FIRST, query=AND_WHY, turn=2), answer="The tower had burned.")
def a_message_store() -> None:
    template = """{% for one in messages %}{{ one.text }}\n{% endfor %}""" + EACH
    connected(
        ("memory.messages", "prompt.messages"),
        *SEARCH,
        ("retriever.documents", "prompt.documents"),
        ("prompt", "llm"),
        **search(
            memory=MessageRetriever(TURN),
            prompt=PromptBuilder(template),
            llm=says("The tower had burned."),
        ),
    ).run(asked(AND_WHY, memory={"current_messages": [], "chat_history_id": "session"}))


WHY = "The tower had burned down in the siege, says the chronicle."
NEXT = retrieval(1, *SEEN, name="web_search", query="why", turn=2)


@row(
    retrieval(1, *SEEN, name="web_search", query="sisters"),
    NEXT,
    contexts=SEEN,
    answer=WHY,
    turns=2,
    conversation="a_second_turn_after_a_call_that_a_person_edited",
)
def a_second_turn_after_a_call_that_a_person_edited() -> None:
    """What the framework says of the edit, in a message of the user's role, is nobody's turn."""
    edits = asking(ConfirmationUIResult("modify", new_tool_params={"query": "sisters"}))
    first = agent(
        web_tool(every),
        calls("web_search", query="gate"),
        A,
        hooks={"before_tool": [edits]},
    )
    messages = [*first.run(messages=user())["messages"], ChatMessage.from_user(AND_WHY)]
    agent(web_tool(every), calls("web_search", query="why"), WHY).run(messages=messages)


TWICE = (calls("search", query="gate"), calls("web_search", query="siblings"), A)


def forgetful(compactor: Any, replies: Any = TWICE, tools: Any = ()) -> Agent:
    shorten = CompactionHook(
        compactor=compactor, context_window=40, compact_at=0.4, compact_to=0.3
    )
    tools = tools or [searching(top_k=3), web_tool(every)]
    return Agent(
        chat_generator=says(*replies), tools=tools, hooks={"before_llm": [shorten]}
    )


SUMMARY = (
    "Asked about the east gate; the chronicle speaks of masons, a mill and a siege."
)


@row(
    retrieval(1, *FIRST, name="search", query="gate"),
    retrieval(2, *SEEN, name="web_search", query="siblings"),
    written(3, f"<conversation_summary>\n{SUMMARY}\n</conversation_summary>"),
    contexts=(*FIRST, *SEEN),
)
def messages_that_are_summed_up() -> None:
    if not hasattr(compaction, "SummarizationCompactor"):
        pytest.skip("Haystack 3.1 has no such compactor")
    forgetful(
        compaction.SummarizationCompactor(says(SUMMARY), approximate_summary_tokens=20)
    ).run(messages=user())


@component
class RowsToDocuments:
    """Makes documents of the rows that an agent's tool returned."""

    @component.output_types(documents=list[Document])
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        results = [each.result for one in messages for each in one.tool_call_results]
        rows = [row for result in results for row in json.loads(str(result))]
        return {"documents": [Document(content=row["content"]) for row in rows]}


def _rows(query: Annotated[str, "What to look up."]) -> list[dict[str, str]]:
    return [{"url": name, "content": TEXTS[name]} for name in FIRST]


@row(
    retrieval(1, *(TEXTS[name] for name in FIRST), name="web", query="gate"),
    contexts=tuple(TEXTS[name] for name in FIRST),
)
def documents_that_a_component_makes_of_the_rows_of_a_tool() -> None:
    web = create_tool_from_function(_rows, name="web", description="Searches the web.")
    connected(
        ("agent.messages", "rows.messages"),
        ("rows.documents", "prompt.documents"),
        ("prompt", "llm"),
        agent=agent(web, calls("web", query="gate"), "Found."),
        rows=RowsToDocuments(),
        prompt=PromptBuilder(
            "{% for document in documents %}{{ document.content }}\n{% endfor %}{{ query }}",
            required_variables="*",
        ),
        llm=says(A),
    ).run({"agent": {"messages": user()}, "prompt": {"query": Q}})


# Runs that do not end
