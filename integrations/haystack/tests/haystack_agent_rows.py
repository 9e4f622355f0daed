"""Shapes of Haystack applications: agents and tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

from haystack import Document, tracing
from haystack.components.agents import Agent
from haystack.components.builders import ChatPromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage, TextContent, ToolCall
from haystack.tools import (
    ComponentTool,
    PipelineTool,
    Tool,
    create_tool_from_function,
)
from haystack_rows import (
    DOCUMENTS,
    QUESTION,
    TEMPLATE,
    Build,
    Expected,
    Reversing,
    Row,
    adding_to,
    asked,
    bm25,
    connected,
    first_sentence,
    llm,
    retriever,
)

ROWS: dict[str, Build] = {}
row = adding_to(ROWS)


def tool_caller(
    tool: str, **arguments: Any
) -> Callable[[list[ChatMessage]], ChatMessage]:
    def reply(messages: list[ChatMessage]) -> ChatMessage:
        done = [result for message in messages for result in message.tool_call_results]
        if not done:
            return ChatMessage.from_assistant(tool_calls=[ToolCall(tool, arguments)])
        return ChatMessage.from_assistant(f"It was built in 1856, says {tool}.")

    return reply


def agent(tool: Any, **arguments: Any) -> Agent:
    return Agent(
        chat_generator=MockChatGenerator(
            response_fn=tool_caller(tool.name, **arguments)
        ),
        tools=[tool],
    )


def search_tool(top_k: int = 3) -> ComponentTool:
    return ComponentTool(
        component=retriever(top_k), name="search", description="Searches."
    )


USER = {"messages": [ChatMessage.from_user(QUESTION)]}


@row
def agent_with_component_tool() -> Row:
    app = connected(agent=agent(search_tool(), query=QUESTION))
    return Row(
        app,
        {"agent": USER},
        [Expected(bm25(), "It was built in 1856, says search.", retrieved=bm25())],
    )


@row
def bare_agent() -> Row:
    return Row(
        agent(search_tool(), query=QUESTION),
        USER,
        [Expected(bm25(), "It was built in 1856, says search.", retrieved=bm25())],
    )


@row
def named_by_a_socket_of_a_tool() -> Row:
    return Row(
        agent(search_tool(), query=QUESTION),
        USER,
        [Expected(bm25(), "It was built in 1856, says search.", retrieved=bm25())],
        capture={"contexts_from": "search.documents"},
    )


@row
def named_by_a_socket_of_a_component_that_has_a_tools_name() -> Row:
    tool = create_tool_from_function(look, name="search")
    app = connected(
        ("search.documents", "prompt.documents"),
        ("prompt.prompt", "agent.messages"),
        search=retriever(2),
        prompt=ChatPromptBuilder([ChatMessage.from_user(TEMPLATE)]),
        agent=agent(tool, query="Elsfleth"),
    )
    expected = Expected(
        bm25(top_k=2), "It was built in 1856, says search.", standalone="Elsfleth"
    )
    return Row(
        app,
        asked("search", "prompt"),
        [expected],
        capture={"contexts_from": "search.documents"},
    )


@row
def agent_with_pipeline_tool() -> Row:
    tool = PipelineTool(
        pipeline=connected(
            ("retriever.documents", "ranker.documents"),
            retriever=retriever(),
            ranker=Reversing(),
        ),
        input_mapping={"query": ["retriever.query"]},
        output_mapping={"ranker.documents": "documents"},
        name="search",
        description="Searches.",
    )
    kept = Reversing().run(documents=bm25())["documents"]
    return Row(
        connected(agent=agent(tool, query=QUESTION)),
        {"agent": USER},
        [Expected(kept, "It was built in 1856, says search.", retrieved=bm25())],
    )


def looked_up(topic: Annotated[str, "what to look up"]) -> str:
    return f"About {topic}: built in 1856."


@row
def agent_with_function_tool() -> Row:
    tool = Tool(
        "lookup",
        "Looks up.",
        {
            "type": "object",
            "properties": {"topic": {"type": "string"}},
            "required": ["topic"],
        },
        function=looked_up,
    )
    app = connected(agent=agent(tool, topic="the lighthouse"))
    found = [Document(content=looked_up("the lighthouse"))]
    expected = Expected(
        found,
        "It was built in 1856, says lookup.",
        standalone="the lighthouse",
    )
    return Row(
        app,
        {"agent": USER},
        [expected],
        capture={"context_tools": ["lookup"]},
    )


def from_a_server(query: str) -> str:
    """Returns what a tool of MCP does: JSON with a block for each text."""
    content = [{"type": "text", "text": each.content} for each in DOCUMENTS]
    return json.dumps({"meta": None, "content": content, "isError": False})


def of_blocks(tool: Tool) -> Row:
    found = [Document(content=document.content) for document in DOCUMENTS]
    app = connected(agent=agent(tool, query=QUESTION))
    answer = f"It was built in 1856, says {tool.name}."
    return Row(app, {"agent": USER}, [Expected(found, answer)])


@row
def agent_with_a_tool_of_a_server() -> Row:
    return of_blocks(create_tool_from_function(from_a_server, name="lookup"))


@row
def agent_with_a_tool_of_blocks() -> Row:
    """A message holds them as they are."""

    def lookup(query: str) -> list[TextContent]:
        """Looks something up."""
        return [TextContent(document.content or "") for document in DOCUMENTS]

    tool = create_tool_from_function(lookup)
    return of_blocks(replace(tool, outputs_to_string={"raw_result": True}))


def storing(topic: str) -> None:
    """Returns nothing."""


@row
def agent_with_a_tool_that_returns_nothing() -> Row:
    """It did not fail."""
    tool = Tool(
        "store",
        "Stores a topic.",
        {"type": "object", "properties": {"topic": {"type": "string"}}},
        function=storing,
    )
    app = connected(agent=agent(tool, topic="the lighthouse"))
    expected = Expected([], "It was built in 1856, says store.", doubts=("undivided",))
    return Row(app, {"agent": USER}, [expected])


def failing(topic: str) -> str:
    raise ValueError("no such topic")


@row
def agent_with_failed_tool() -> Row:
    tool = Tool(
        "lookup",
        "Looks up.",
        {
            "type": "object",
            "properties": {"topic": {"type": "string"}},
            "required": ["topic"],
        },
        function=failing,
    )
    return Row(
        connected(agent=agent(tool, topic="x")),
        {"agent": USER},
        [Expected([], "It was built in 1856, says lookup.", doubts=("no_search",))],
    )


@row
def agent_after_a_prompt() -> Row:
    app = connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt.prompt", "agent.messages"),
        retriever=retriever(),
        prompt=ChatPromptBuilder([ChatMessage.from_user(TEMPLATE)]),
        agent=Agent(chat_generator=llm()),
    )
    return Row(
        app,
        asked("retriever", "prompt"),
        [Expected(bm25(), first_sentence(bm25()), retrieved=bm25())],
    )


@row
def llm_component() -> Row:
    from haystack.components.generators.chat import LLM

    app = connected(
        ("retriever.documents", "llm.documents"),
        retriever=retriever(),
        llm=LLM(
            chat_generator=llm(),
            user_prompt="{% message role='user' %}" + TEMPLATE + "{% endmessage %}",
        ),
    )
    return Row(
        app,
        asked("retriever", "llm"),
        [Expected(bm25(), first_sentence(bm25()), retrieved=bm25())],
    )


def look(query: str) -> dict[str, list[Document]]:
    """Looks up old buildings of the island."""
    return {"documents": bm25(query)}


def add(first: int, second: int) -> int:
    """Adds two numbers."""
    return first + second


@row
def agent_that_searches_for_its_tools() -> Row:
    from haystack.tools import SearchableToolset

    def reply(messages: list[ChatMessage]) -> ChatMessage:
        n_done = sum(len(message.tool_call_results) for message in messages)
        calls = [
            ToolCall("search_tools", {"tool_keywords": "look old buildings"}),
            ToolCall("look", {"query": QUESTION}),
        ]
        if n_done < len(calls):
            return ChatMessage.from_assistant(tool_calls=[calls[n_done]])
        return ChatMessage.from_assistant("It was built in 1856, says look.")

    tools = SearchableToolset(
        catalog=[create_tool_from_function(each) for each in (look, add)],
        search_threshold=1,
    )
    return Row(
        Agent(chat_generator=MockChatGenerator(response_fn=reply), tools=tools),
        USER,
        [Expected(bm25(), "It was built in 1856, says look.", retrieved=bm25())],
    )


def ending_with(result: Any) -> Row:
    """An agent that searches, and hands its answer to the tool that ends it."""

    def final_answer(answer: str) -> Any:
        """Hands the answer to the user."""
        return result(answer) if callable(result) else result

    lines = [
        ChatMessage.from_assistant(
            tool_calls=[ToolCall("search", {"query": QUESTION})]
        ),
        ChatMessage.from_assistant(
            tool_calls=[ToolCall("final_answer", {"answer": "It was built in 1856."})]
        ),
    ]
    app = Agent(
        chat_generator=MockChatGenerator(lines),
        tools=[search_tool(), create_tool_from_function(final_answer)],
        exit_conditions=["final_answer"],
    )
    return Row(app, USER, [Expected(bm25(), "It was built in 1856.", retrieved=bm25())])


@row
def agent_whose_answer_ends_it() -> Row:
    return ending_with("ok")


@row
def agent_whose_answer_is_handed_on_in_a_mapping() -> Row:
    return ending_with(lambda answer: {"answer": answer, "is_final": True})


@row
def agent_that_a_tool_ends_in_other_words() -> Row:
    """It may have answered better."""
    made = ending_with("The light was lit in 1856, and it was rebuilt in 1903.")
    expected = replace(
        made.expected[0],
        answer="The light was lit in 1856, and it was rebuilt in 1903.",
        doubts=("by_data_flow",),
    )
    return replace(made, expected=[expected])


class BackupAnswer:
    """Asks a model once more at the end of an agent's run, as the framework's packs do."""

    allowed_hook_points = ("after_run",)
    answer = "As far as I know, it was built in 1856."

    def run(self, state: Any) -> None:
        generator = MockChatGenerator([self.answer])
        asked = {"messages": state.data["messages"]}
        with tracing.tracer.trace(
            "haystack.chat_generator.run",
            tags={"haystack.component.name": "chat_generator"},
            parent_span=tracing.tracer.current_span(),
        ) as span:
            span.set_content_tag("haystack.component.input", asked)
            result = generator.run(**asked)
            span.set_content_tag("haystack.component.output", result)
        state.set("messages", result["replies"])


@row
def agent_with_a_backup_answer() -> Row:
    tool = search_tool()
    generator = MockChatGenerator(response_fn=tool_caller(tool.name, query=QUESTION))
    app = Agent(
        chat_generator=generator,
        tools=[tool],
        max_agent_steps=1,
        hooks={"after_run": [BackupAnswer()]},
    )
    return Row(
        app,
        USER,
        [Expected(bm25(), BackupAnswer.answer, retrieved=bm25())],
    )
