"""Applications after public ones: agents and their tools.

Haystack 3.1 makes no schema of a function whose annotations are postponed.
"""

from typing import Annotated, Any

from haystack import Document, Pipeline, component
from haystack.components.agents import Agent
from haystack.components.builders import ChatPromptBuilder, PromptBuilder
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.tools import ComponentTool, PipelineTool, Tool, create_tool_from_function
from haystack_apps import (
    COOKBOOK,
    DOCS,
    SEARCH,
    TEXTS,
    TUTORIALS,
    A,
    Expected,
    FakeEmbedder,
    Q,
    app,
    calls,
    connected,
    found,
    says,
    search,
    user,
)
from haystack_apps_pipelines import (
    AND_WHY,
    FIRST,
    TURN,
    Fetcher,
    MessageRetriever,
    MessageWriter,
    WebSearch,
    rag,
)


def every(documents: list[Document]) -> str:
    return "".join(f"File content for {one.id}\n\n {one.content}" for one in documents)


def web_tool(handler: Any = None) -> ComponentTool:
    shown = (
        {"outputs_to_string": {"source": "documents", "handler": handler}}
        if handler
        else {}
    )
    return ComponentTool(
        component=WebSearch(),
        name="web_search",
        description="Searches the web.",
        **shown,
    )


def searching(shown: Any = None, top_k: int = 5) -> PipelineTool:
    return PipelineTool(
        pipeline=connected(*SEARCH, embedder=FakeEmbedder(), retriever=found(top_k)),
        input_mapping={"query": ["embedder.text"]},
        output_mapping={"retriever.documents": "documents"},
        name="search",
        description="Searches the chronicle.",
        **(
            {"outputs_to_string": {"source": "documents", "handler": shown}}
            if shown
            else {}
        ),
    )


def agent(tool: Any, *replies: str | ChatMessage, **settings: Any) -> Agent:
    return Agent(chat_generator=says(*replies), tools=[tool], **settings)


# What is an answer


# What a tool shows


@app(
    f"{COOKBOOK}/agent_powered_retrieval.ipynb",
    Expected(("gate",), retrieved=tuple(TEXTS)),
)
def a_tool_that_shows_one_of_five() -> None:
    agent(
        searching(lambda documents: f"Best: {documents[0].content}"),
        calls("search", query="gate"),
        A,
    ).run(messages=user())


PRINTED = (
    "Supporting documents:{% for doc in documents %}\nDocument [{{ loop.index }}]:\n{{"
    " doc.content }}\n{% endfor %}"
)


def printing_tool() -> PipelineTool:
    return PipelineTool(
        pipeline=connected(
            *SEARCH,
            ("retriever.documents", "builder.documents"),
            **search(builder=PromptBuilder(PRINTED)),
        ),
        name="retrieval_tool",
        description="Supporting documents.",
        input_mapping={"query": ["embedder.text"]},
        output_mapping={"builder.prompt": "retrieval_output"},
    )


@app(
    f"{TUTORIALS}/48_Conversational_RAG.ipynb",
    Expected(FIRST, "The tower had burned.", AND_WHY, FIRST, TURN),
)
def a_tool_that_prints_through_a_prompt_builder() -> None:
    store = [ChatMessage.from_user(Q), ChatMessage.from_assistant(A)]
    made = connected(
        ("memory.messages", "agent.messages"),
        ("agent.messages", "writer.messages"),
        memory=MessageRetriever(store),
        agent=agent(
            printing_tool(),
            calls("retrieval_tool", query="gate"),
            "The tower had burned.",
        ),
        writer=MessageWriter([]),
    )
    session = {"chat_history_id": "session"}
    made.run(
        {"memory": {"current_messages": user(AND_WHY), **session}, "writer": session}
    )


def rag_tool(made: Pipeline) -> Tool:
    def asked(query: Annotated[str, "the query"]) -> dict[str, str]:
        """Asks the chronicle."""
        result = made.run({"embedder": {"text": query}, "prompt": {"question": query}})
        return {"reply": result["llm"]["replies"][0].text}

    return create_tool_from_function(asked)


@app(
    f"{TUTORIALS}/40_Building_Chat_Application_with_Function_Calling.ipynb",
    Expected(FIRST, "The chronicle gives 1632.", retrieved=FIRST),
)
def a_pipeline_with_a_model_as_tool() -> None:
    inner = rag(llm=says("In 1632, masons walled it up."))
    agent(
        rag_tool(inner),
        calls("asked", query="When was the gate closed?"),
        "The chronicle gives 1632.",
    ).run(messages=user())


WEATHER = {"Marburg": {"weather": "mostly sunny", "temperature": 7, "unit": "celsius"}}


def get_weather(city: Annotated[str, "the city"]) -> dict[str, Any]:
    """Weather of a city."""
    return WEATHER[city]


def weather() -> None:
    reply = "Mostly sunny, 7 degrees."
    agent(
        create_tool_from_function(get_weather),
        calls("get_weather", city="Marburg"),
        reply,
    ).run(messages=user("How is the weather in Marburg?"))


@component
class Repository:
    @component.output_types(documents=list[Document])
    def run(self, repo: str, path: str) -> dict[str, Any]:
        return {"documents": [Document(id="gate", content=TEXTS["gate"])]}


COMMENT = "The masons took the blocks from the old mill; see the chronicle."


@app(
    f"{COOKBOOK}/github_issue_resolver_agent.ipynb",
    Expected(
        ("brother", "sister", "gate"),
        COMMENT,
        None,
        ("brother", "sister", "gate"),
        doubts=("question_guessed",),
    ),
)
def a_tool_whose_argument_is_the_answer() -> None:
    viewer = ComponentTool(
        component=Repository(),
        name="view",
        description="Views a file.",
        outputs_to_state={"documents": {"source": "documents"}},
        outputs_to_string={"source": "documents", "handler": every},
    )

    def comment(text: Annotated[str, "the comment"]) -> str:
        """Writes a comment."""
        return text

    connected(
        ("fetcher.articles", "builder.documents"),
        ("builder.prompt", "agent.messages"),
        fetcher=Fetcher(),
        builder=ChatPromptBuilder(
            user(
                "{% for one in documents %}<comment>{{ one.content }}</comment>\n{%"
                " endfor %}"
            )
        ),
        agent=Agent(
            chat_generator=says(
                calls("view", repo="r", path="p"), calls("comment", text=COMMENT)
            ),
            tools=[viewer, create_tool_from_function(comment)],
            exit_conditions=["comment"],
            state_schema={"documents": {"type": list[Document]}},
        ),
    ).run({"fetcher": {"last_k": 2}})


@app(
    f"{DOCS}/pipeline-components/agents-1/agent.mdx",
    Expected(
        ("brother", "sister"),
        None,
        Q,
        ("brother", "sister"),
        doubts=("by_data_flow", "no_answer"),
    ),
)
def an_agent_out_of_steps() -> None:
    again = ChatMessage.from_assistant(
        "Let me look that up.", tool_calls=[ToolCall("web_search", {"query": Q})]
    )
    agent(web_tool(every), again, again, A, max_agent_steps=2).run(messages=user())


# Several agents


@app(
    f"{TUTORIALS}/45_Creating_a_Multi_Agent_System.ipynb",
    Expected(
        ("brother", "sister"),
        "Sanna has sisters.",
        "Who has sisters?",
        ("brother", "sister"),
    ),
)
def an_agent_as_tool() -> None:
    researcher = agent(
        web_tool(every),
        calls("web_search", query="sisters"),
        "Sanna Stern has two older sisters.",
    )
    tool = ComponentTool(
        component=researcher,
        name="researcher",
        description="Researches.",
        outputs_to_string={"source": "last_message"},
    )
    ask = calls(
        "researcher", messages=[{"role": "user", "content": [{"text": "sisters?"}]}]
    )
    agent(tool, ask, "Sanna has sisters.").run(messages=user("Who has sisters?"))
