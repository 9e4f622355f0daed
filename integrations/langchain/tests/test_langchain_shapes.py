"""The table of shapes: each kind of application stands here once, with what must be found in it."""

from __future__ import annotations

import asyncio
import operator
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    ModelRequest,
    before_model,
    dynamic_prompt,
)
from langchain.tools import tool
from langchain_classic.chains import (
    RetrievalQA,
    create_history_aware_retriever,
    create_retrieval_chain,
)
from langchain_classic.chains.base import Chain
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_classic.retrievers import (
    ContextualCompressionRetriever,
    MultiQueryRetriever,
    MultiVectorRetriever,
)
from langchain_classic.retrievers.document_compressors import LLMChainExtractor
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.output_parsers import (
    JsonOutputParser,
    StrOutputParser,
)
from langchain_core.prompts import (
    ChatPromptTemplate,
    MessagesPlaceholder,
    PromptTemplate,
)
from langchain_core.runnables import (
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
    chain,
)
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.stores import InMemoryStore
from langchain_core.tools import create_retriever_tool
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_fakes import (
    ANSWER,
    FOUND,
    LYON,
    PARIS,
    PROMPT,
    QUESTION,
    ROME,
    Letters,
    Shelf,
    Speaker,
    calls,
    document,
    documents,
    drained,
    joined,
    offline_client,
    rag,
    store,
)
from langchain_ragmetrics import add_documents, capture, observe
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt
from langsmith import traceable, tracing_context
from pydantic import BaseModel

from ragmetrics_core.data.sample import Sample

# message_history and conversational_retrieval use what LangChain deprecates and
# applications still hold.
pytestmark = pytest.mark.filterwarnings(
    "ignore::langchain_core._api.deprecation.LangChainDeprecationWarning"
)

Triple = tuple[str, str | None, float | None]


@dataclass(frozen=True)
class Turn:
    """What must be found, and the codes of what is hedged.

    ``retrieved`` is None where it equals ``contexts``.
    """

    question: str | None = QUESTION
    contexts: list[Triple] = field(default_factory=lambda: list(FOUND))
    answer: str | None = ANSWER
    retrieved: list[Triple] | None = None
    error: str | None = None
    standalone: str | None = None
    history: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


Play = Callable[[], Any]
SHAPES: dict[str, tuple[Play, list[Turn], dict[str, Any]]] = {}


def shape(*expected: Turn, **options: Any) -> Callable[[Play], Play]:
    def add(play: Play) -> Play:
        name = play.__name__
        assert name not in SHAPES
        SHAPES[name] = (play, list(expected), options)
        return play

    return add


def triples(contexts: Any) -> list[Triple]:
    return [(context.text, context.id, context.score) for context in contexts]


def seen(sample: Sample) -> Turn:
    contexts = triples(sample.contexts or ())
    retrieved = contexts if sample.retrieved is None else triples(sample.retrieved)
    return Turn(
        question=sample.question,
        contexts=contexts,
        answer=sample.answer,
        retrieved=None if retrieved == contexts else retrieved,
        error=sample.error,
        standalone=sample.standalone_question,
        history=[turn.content for turn in sample.history],
        doubts=sorted((sample.capture and sample.capture.doubts) or ()),
    )


# LCEL


@shape(Turn())
def lcel_text_in_text_out() -> None:
    assert rag().invoke(QUESTION) == ANSWER


def from_dict(model: Any = None) -> Any:
    context = RunnableLambda(operator.itemgetter("question")) | Shelf() | joined
    return (
        {"context": context, "question": operator.itemgetter("question")}
        | PROMPT
        | (model or Speaker())
    )


@shape(Turn(contexts=[(LYON, None, None), (PARIS, None, None)]))
def lcel_over_a_store_of_bare_texts() -> None:
    """As in the cookbooks on tables and pictures, whose summaries alone are searched."""
    texts = InMemoryStore()
    texts.mset([("p", PARIS), ("l", LYON)])
    summaries = InMemoryVectorStore(Letters())
    summaries.add_documents(
        [Document(f"On {name}", metadata={"doc_id": name}) for name in ("p", "l")]
    )
    found = MultiVectorRetriever(vectorstore=summaries, docstore=texts)
    prompt = {"context": found, "question": RunnablePassthrough()} | PROMPT
    (prompt | Speaker() | StrOutputParser()).invoke(QUESTION)


@shape(Turn())
def lcel_dict_in() -> None:
    (from_dict() | StrOutputParser()).invoke({"question": QUESTION, "language": "en"})


@shape(Turn(history=["Hello", "Hi"]))
def lcel_messages_in() -> None:
    messages = [
        ("user", "Hello"),
        AIMessage("Hi"),
        HumanMessage([{"type": "text", "text": QUESTION}]),
    ]
    ((lambda said: said[-1].content[0]["text"]) | rag()).invoke(messages)


@dataclass
class Asked:
    user_question: str
    limit: int = 4


@shape(Turn())
def lcel_dataclass_in() -> None:
    ((lambda asked: asked.user_question) | rag()).invoke(Asked(QUESTION))


class AskedModel(BaseModel):
    query: str
    tenant: str = "a"


@shape(Turn())
def lcel_pydantic_in() -> None:
    ((lambda asked: asked.query) | rag()).invoke(AskedModel(query=QUESTION))


@shape(Turn())
def lcel_message_out() -> None:
    from_dict().invoke({"question": QUESTION})


@shape(Turn(answer='{"capital": "Paris", "sure": true}'))
def lcel_json_out() -> None:
    (
        from_dict(Speaker(lines='{"capital": "Paris",\n "sure": true}'))
        | JsonOutputParser()
    ).invoke({"question": QUESTION})


class Written(BaseModel):
    answer: str
    citations: list[int] = []


@shape(Turn())
def assign() -> None:
    answer = (
        (lambda state: {**state, "context": joined(state["context"])})
        | PROMPT
        | Speaker()
        | StrOutputParser()
    )
    found = RunnableLambda(operator.itemgetter("question")) | Shelf()
    RunnablePassthrough.assign(context=found).assign(answer=answer).invoke(
        {"question": QUESTION}
    )


@shape(Turn(contexts=[(LYON, "lyon", 0.25), (PARIS, "paris", 0.75)]))
def documents_of_a_lambda_with_scores_in_metadata() -> None:
    @chain
    def find(query: str) -> list[Document]:
        return [
            document(LYON, "lyon", score=0.25),
            document(PARIS, "paris", score=0.75),
        ]

    rag(find).invoke(QUESTION)


@shape(
    Turn(
        contexts=[
            (PARIS, "Pari", pytest.approx(1.0)),
            (LYON, "Lyon", pytest.approx(0.54, abs=0.01)),
        ],
    )
)
def documents_with_scores_as_tuples() -> None:
    search = RunnableLambda(
        lambda question: store().similarity_search_with_score(PARIS)
    )
    rag(search | (lambda found: [one for one, _ in found])).invoke(QUESTION)


# Chains of langchain_classic and message history


def stuff(model: Any = None) -> Any:
    prompt = ChatPromptTemplate.from_messages(
        [("system", "Use: {context}"), ("human", "{input}")]
    )
    return create_stuff_documents_chain(model or Speaker(), prompt)


@shape(Turn())
def retrieval_chain() -> None:
    create_retrieval_chain(Shelf(), stuff()).invoke({"input": QUESTION})


@shape(
    Turn(
        question="And its capital?",
        standalone=QUESTION,
        history=["Where is France?", "In Europe."],
    )
)
def history_aware_retriever() -> None:
    rewrite = ChatPromptTemplate.from_messages(
        [MessagesPlaceholder("chat_history"), ("human", "{input}")]
    )
    found = create_history_aware_retriever(Speaker(lines=QUESTION), Shelf(), rewrite)
    create_retrieval_chain(found, stuff()).invoke(
        {
            "input": "And its capital?",
            "chat_history": [HumanMessage("Where is France?"), AIMessage("In Europe.")],
        }
    )


CITY = "the big city there pls"


def rewritten() -> str:
    prompt = ChatPromptTemplate.from_template("Improve: {question}")
    made = prompt | Speaker(lines=QUESTION) | StrOutputParser()
    return made.invoke({"question": CITY})


@shape(Turn(question=CITY, standalone=QUESTION))
def rewriting_said_as_the_last_message_of_a_chain() -> None:
    query = rewritten()
    prompt = ChatPromptTemplate.from_messages(
        [("system", "Use {context}"), ("human", "{question}")]
    )
    given = {"context": joined(Shelf().invoke(query)), "question": query}
    (prompt | Speaker()).invoke(given)


@shape(Turn(question=QUESTION.rstrip("?"), doubts=["which_turn"]))
def rewriting_changed_by_code() -> None:
    rag().invoke(rewritten().rstrip("?"))


@shape(Turn(question=CITY, standalone=QUESTION))
def rewriting_searched_for_twice() -> None:
    query = rewritten()
    Shelf().invoke(query)
    rag().invoke(query)


@shape(Turn())
def retrieval_qa() -> None:
    RetrievalQA.from_chain_type(
        Speaker(), retriever=Shelf(), return_source_documents=True
    ).invoke({"query": QUESTION})


# the model says twice the same
@shape(Turn(), Turn(question="Again?", history=[QUESTION, ANSWER]))
def message_history() -> None:
    kept = InMemoryChatMessageHistory()
    prompt = ChatPromptTemplate.from_messages(
        [("system", "{context}"), MessagesPlaceholder("past"), ("human", "{input}")]
    )
    inner = RunnablePassthrough.assign(
        context=RunnableLambda(operator.itemgetter("input")) | Shelf() | joined
    )
    made = RunnableWithMessageHistory(
        inner | prompt | Speaker(),
        lambda session: kept,
        input_messages_key="input",
        history_messages_key="past",
    )
    for question in (QUESTION, "Again?"):
        made.invoke({"input": question}, config={"configurable": {"session_id": "s"}})


# Agents


def agent(tools: list[Any], *lines: Any, **settings: Any) -> Any:
    return create_agent(
        Speaker(
            lines=list(lines) or [calls(tools[0].name, query="capital France"), ANSWER]
        ),
        tools,
        **settings,
    )


def ask(made: Any, question: str = QUESTION, **config: Any) -> Any:
    return made.invoke(
        {"messages": [{"role": "user", "content": question}]}, config=config or None
    )


@shape(Turn(standalone="capital France"))
def agent_retriever_tool() -> None:
    ask(agent([create_retriever_tool(Shelf(), "search", "Searches.")]))


@tool(response_format="content_and_artifact")
def look_up(query: str) -> tuple[str, list[Document]]:
    """Looks up."""
    found = store().similarity_search(query, k=1)
    return joined(found), found


@shape(Turn(contexts=[(PARIS, "Pari", None)], standalone="capital France"))
def agent_tool_with_artifact_only() -> None:
    ask(agent([look_up]))


@tool
def commanding(query: str) -> Command:
    """Looks up and updates the state."""
    message = ToolMessage(
        PARIS, tool_call_id="call_commanding", artifact=[document(PARIS, "paris")]
    )
    return Command(update={"messages": [message]})


@shape(Turn(contexts=[(PARIS, "paris", None)], standalone="capital France"))
def agent_tool_that_returns_a_command() -> None:
    ask(agent([commanding]))


@tool
def web_search(query: str) -> str:
    """Searches the web."""
    return PARIS


@shape(Turn(contexts=[], doubts=["undivided"]))
def agent_text_tool() -> None:
    ask(agent([web_search]))


@shape(
    Turn(
        contexts=[(PARIS, None, None)],
        standalone="capital France",
    ),
    context_tools={"web_search"},
)
def agent_text_tool_named() -> None:
    ask(agent([web_search]))


@shape(Turn(contexts=[(PARIS, "paris", None), (LYON, "lyon", None)]))
def agent_two_tools_at_once() -> None:
    barrier = threading.Barrier(2)

    @tool(response_format="content_and_artifact")
    def first(query: str) -> tuple[str, list[Document]]:
        """First."""
        barrier.wait(60)
        return PARIS, [document(PARIS, "paris")]

    @tool(response_format="content_and_artifact")
    def second(query: str) -> tuple[str, list[Document]]:
        """Second."""
        barrier.wait(60)
        return LYON, [document(LYON, "lyon")]

    both = AIMessage(
        "",
        tool_calls=[
            *calls("first", query="a").tool_calls,
            *calls("second", query="b").tool_calls,
        ],
    )
    ask(agent([second, first], both, ANSWER))


@shape(
    Turn(
        answer=PARIS,
        contexts=[(PARIS, "paris", None)],
        standalone="x",
        doubts=["by_data_flow"],
    )
)
def agent_direct_tool() -> None:
    @tool(return_direct=True, response_format="content_and_artifact")
    def direct(query: str) -> tuple[str, list[Document]]:
        """Answers itself."""
        return PARIS, [document(PARIS, "paris")]

    ask(agent([direct], calls("direct", query="x"), "never said"))


@shape()
def agent_that_needs_no_tool() -> None:
    ask(agent([look_up], "Hello!"), "Hi")


class WithContext(AgentState[Any]):
    context: list[Document]


@shape(Turn(contexts=[(PARIS, "Pari", None)]))
def agent_middleware_with_context() -> None:
    @before_model(state_schema=WithContext)
    def paste(state: Any, runtime: Any) -> dict[str, Any]:
        found = store().similarity_search(PARIS, k=1)
        last = state["messages"][-1]
        return {
            "context": found,
            "messages": [HumanMessage(f"{joined(found)}\n{last.text}", id=last.id)],
        }

    ask(agent([], ANSWER, middleware=[paste]))


@shape(Turn(contexts=[(PARIS, "Pari", None)]))
def agent_middleware_observed() -> None:
    seen_store = observe(store())

    @dynamic_prompt
    def prompt(request: ModelRequest) -> str:
        return joined(seen_store.similarity_search(PARIS, k=1))

    ask(agent([], ANSWER, middleware=[prompt]))


@shape(Turn(contexts=[(PARIS, "Pari", None)]))
def agent_middleware_named_by_hand() -> None:
    @dynamic_prompt
    def prompt(request: ModelRequest) -> str:
        found = store().similarity_search(PARIS, k=1)
        add_documents(found)
        return joined(found)

    ask(agent([], ANSWER, middleware=[prompt]))


@shape(Turn(contexts=[(PARIS, "Pari", None)], standalone="x"))
def agent_structured_answer() -> None:
    lines = [
        calls("look_up", query="x"),
        calls("Written", answer=ANSWER, citations=[1]),
    ]
    ask(agent([look_up], *lines, response_format=Written))


@shape(Turn(contexts=[(PARIS, "Pari", None)], standalone="x"))
def agent_of_agents() -> None:
    inner = agent(
        [look_up],
        calls("look_up", query="x"),
        "The capital is Paris, says the inner one.",
    )

    @tool
    def delegate(task: str) -> str:
        """Delegates."""
        return str(ask(inner, task)["messages"][-1].text)

    ask(agent([delegate], calls("delegate", task="find the capital"), ANSWER))


@shape(Turn(contexts=[(PARIS, "Pari", None)], standalone=PARIS, doubts=["short_text"]))
def agent_approved_by_a_person() -> None:
    approve = HumanInTheLoopMiddleware(interrupt_on={"look_up": True})
    made = agent(
        [look_up],
        calls("look_up", query=PARIS),
        ANSWER,
        middleware=[approve],
        checkpointer=InMemorySaver(),
    )
    config: Any = {"configurable": {"thread_id": "t"}}
    made.invoke({"messages": [("user", QUESTION)]}, config=config)
    made.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config=config)


# Graphs


class State(TypedDict, total=False):
    question: str
    docs: list[Document]
    answer: str
    parts: Annotated[list[str], operator.add]
    grade: str


def write(state: State) -> State:
    said = (PROMPT | Speaker()).invoke(
        {"context": joined(state.get("docs", [])), "question": state["question"]}
    )
    return {"answer": str(said.text)}


def graph(*nodes: Any, state: Any = State, **settings: Any) -> Any:
    built = StateGraph(state)
    built.add_sequence(list(nodes))
    built.add_edge(START, nodes[0].__name__)
    return built.compile(**settings)


def fetch(state: State) -> State:
    return {"docs": Shelf().invoke(state["question"])}


def fetch_directly(state: State) -> State:
    return {"docs": store().similarity_search(PARIS, k=1)}


@shape(Turn())
def graph_nodes() -> None:
    graph(fetch, write).invoke({"question": QUESTION})


@shape(Turn(contexts=[(PARIS, "Pari", None)]))
def graph_node_without_retriever() -> None:
    graph(fetch_directly, write).invoke({"question": QUESTION})


@shape(Turn(contexts=[(PARIS, "p", None), (ROME, "r", None)]))
def graph_fan_out() -> None:
    class Fan(TypedDict, total=False):
        question: str
        city: str
        docs: Annotated[list[Document], operator.add]
        answer: str

    barrier = threading.Barrier(2)

    def one(state: Fan) -> Fan:
        barrier.wait(60)
        text = {"p": PARIS, "r": ROME}[state["city"]]
        return {
            "docs": Shelf(books=[document(text, state["city"])]).invoke(state["city"])
        }

    built = StateGraph(Fan)
    built.add_node(one)
    built.add_node("write", write)  # type: ignore[arg-type]
    built.add_conditional_edges(
        START,
        lambda state: [Send("one", {"city": city}) for city in ("p", "r")],
        ["one"],
    )
    built.add_edge("one", "write")
    built.compile().invoke({"question": QUESTION})


def approve(state: State) -> State:
    return {"grade": interrupt("go on?")}


@shape(Turn())
def graph_interrupted() -> None:
    made = graph(fetch, approve, write, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    made.invoke({"question": QUESTION}, config=config)
    made.invoke(Command(resume="yes"), config=config)


@shape()
def graph_never_resumed() -> None:
    made = graph(fetch, approve, write, checkpointer=InMemorySaver())
    made.invoke({"question": QUESTION}, config={"configurable": {"thread_id": "t"}})


# Retrievers of retrievers


@shape(Turn(contexts=[(PARIS, "p", None), (LYON, "l", None)]))
def multi_query() -> None:
    def find(query: str) -> list[Document]:
        return (
            [document(PARIS, "p")]
            if "one" in query
            else [document(PARIS, "p"), document(LYON, "l")]
        )

    rag(
        MultiQueryRetriever.from_llm(
            Shelf(books=find), Speaker(lines="variant one\nvariant two")
        )
    ).invoke(QUESTION)


@shape(Turn(contexts=[("the capital of France", None, 0.9)], retrieved=FOUND))
def compression_by_model() -> None:
    lines = ["the capital of France", "NO_OUTPUT", "NO_OUTPUT"]
    extractor = LLMChainExtractor.from_llm(
        Speaker(lines=lambda said: lines[0] if PARIS in said[-1].text else lines[1])
    )
    rag(
        ContextualCompressionRetriever(
            base_compressor=extractor, base_retriever=Shelf()
        )
    ).invoke(QUESTION)


class Reranker(BaseDocumentCompressor):
    def compress_documents(
        self, documents: Any, query: str, callbacks: Any = None
    ) -> list[Document]:
        ordered = sorted(documents, key=lambda one: one.page_content, reverse=True)[:2]
        return [
            one.model_copy(
                update={"metadata": {**one.metadata, "relevance_score": 1.0 - place}}
            )
            for place, one in enumerate(ordered)
        ]


@shape(Turn(contexts=[(ROME, None, 1.0), (PARIS, "paris", 0.0)], retrieved=FOUND))
def compression_by_reranker() -> None:
    rag(
        ContextualCompressionRetriever(
            base_compressor=Reranker(), base_retriever=Shelf()
        )
    ).invoke(QUESTION)


@shape(Turn(contexts=FOUND[:1], retrieved=FOUND))
def custom_retriever() -> None:
    class First(Shelf):
        def _get_relevant_documents(
            self, query: str, *, run_manager: Any
        ) -> list[Document]:
            return Shelf().invoke(
                f"rewritten {query}", config={"callbacks": run_manager.get_child()}
            )[:1]

    rag(First()).invoke(QUESTION)


QUERY = "MATCH (city) RETURN city.name"


class Last(Shelf):
    """Keeps the last two documents of a retriever that it names no callbacks to."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any
    ) -> list[Document]:
        return Shelf().invoke(query)[1:]


@shape(Turn(contexts=FOUND[1:], retrieved=FOUND))
def retriever_that_filters_another() -> None:
    rag(Last()).invoke(QUESTION)


class Database(Chain):
    """A chain of before LCEL, which tells its models nothing of itself."""

    @property
    def input_keys(self) -> list[str]:
        return ["query"]

    @property
    def output_keys(self) -> list[str]:
        return ["result"]

    def _call(self, inputs: Any, run_manager: Any = None) -> dict[str, Any]:
        query = (
            PromptTemplate.from_template("Ask: {q}") | Speaker(lines=QUERY)
        ).invoke({"q": inputs["query"]})
        add_documents([Document("[3]")], query=query.text)
        said = (PROMPT | Speaker()).invoke(
            {"question": inputs["query"], "context": "[3]"}
        )
        return {"result": said.text}


@shape(Turn(contexts=[("[3]", None, None)], standalone=QUERY))
def chain_of_before_lcel() -> None:
    Database().invoke({"query": QUESTION})


@shape(Turn(contexts=[(PARIS, "a", None), (LYON, "b", None)]))
def retriever_map() -> None:
    """Several queries at once: each finds something else, a step puts them together."""
    is_one_begun = threading.Event()

    def books(query: str) -> list[Document]:
        is_one_begun.set()
        return [document(PARIS, "a")] if query == "one" else [document(LYON, "b")]

    shelf = Shelf(books=books)

    def search(query: str) -> list[Document]:
        """The order of threads is not told: the second begins behind the first."""
        assert query == "one" or is_one_begun.wait(60)
        return shelf.invoke(query)

    find = (
        RunnableLambda(lambda question: ["one", "two"])
        | RunnableLambda(search).map()
        | (lambda lists: [*lists[0], *lists[1]])
    )
    rag(find).invoke(QUESTION)


@shape(Turn(contexts=[(PARIS, "a", None), (LYON, "b", None)]))
def summaries_of_a_map() -> None:
    """A model sums up what each of two queries finds; the first is summed up last."""
    is_one_begun, is_two_summed_up = threading.Event(), threading.Event()

    def books(query: str) -> list[Document]:
        return [document(PARIS, "a")] if query == "one" else [document(LYON, "b")]

    shelf = Shelf(books=books)

    def search(query: str) -> list[Document]:
        is_one_begun.set() if query == "one" else is_one_begun.wait(60)
        assert query == "two" or is_two_summed_up.wait(60)
        return shelf.invoke(query)

    def line(messages: Any) -> str:
        text = messages[-1].text
        if LYON in text:
            is_two_summed_up.set()
            return "The other city lies where two rivers meet."
        return "The one city has a tower of iron." if PARIS in text else ANSWER

    model = Speaker(lines=line) | StrOutputParser()
    sum_up = RunnableLambda(search) | joined | model
    (
        {
            "context": RunnableLambda(lambda question: ["one", "two"])
            | RunnableLambda(lambda query: sum_up.invoke(query)).map()
            | "\n".join,
            "question": RunnablePassthrough(),
        }
        | PROMPT
        | model
    ).invoke(QUESTION)


# Many at once, streams, retries, fallbacks


def by_question() -> Any:
    shelf = Shelf(books=lambda query: [document(f"About {query}", query)])
    return rag(
        shelf, Speaker(lines=lambda said: f"Answer to {said[-1].text.split()[-1]}")
    )


def turn_about(name: str) -> Turn:
    return Turn(
        question=name,
        contexts=[(f"About {name}", name, None)],
        answer=f"Answer to {name}",
    )


@shape(turn_about("a"), turn_about("b"))
def batch() -> None:
    by_question().batch(["a", "b"], config={"max_concurrency": 1})


@shape(turn_about("a"), turn_about("b"))
def map_() -> None:
    by_question().map().invoke(["a", "b"], config={"max_concurrency": 1})


@shape(
    Turn(
        answer=None,
        error="the stream was abandoned before its end",
        doubts=["no_answer"],
    )
)
def stream_abandoned() -> None:
    for _ in rag().stream(QUESTION):
        break


@shape(Turn())
async def stream_events() -> None:
    await drained(rag().astream_events(QUESTION, version="v2"))


@shape(Turn())
def retry_of_chain() -> None:
    shelf = iter([[document("from the first attempt", "x")], documents()])
    made = rag(
        Shelf(books=lambda query: next(shelf)),
        Speaker(lines=[ValueError("busy"), ANSWER]),
    )
    made.with_retry(wait_exponential_jitter=False).invoke(QUESTION)


@shape(Turn())
def fallback_of_model() -> None:
    rag(model=Speaker(lines=ValueError("down")).with_fallbacks([Speaker()])).invoke(
        QUESTION
    )  # type: ignore[arg-type]


@shape(Turn())
def fallback_of_a_model_alone() -> None:
    found = Shelf().invoke(QUESTION)
    broken = Speaker(lines=ValueError("down"))
    broken.with_fallbacks([Speaker()]).invoke(f"Use {joined(found)} for {QUESTION}")


@shape(Turn())
def fallback_of_chain() -> None:
    rag(model=Speaker(lines=ValueError("down"))).with_fallbacks([rag()]).invoke(
        QUESTION
    )


@shape(Turn(answer=None, error="ValueError('down')", doubts=["no_answer"]))
def fallback_of_chain_all_fail() -> None:
    broken = rag(model=Speaker(lines=ValueError("down")))
    with suppress(ValueError):
        broken.with_fallbacks([broken]).invoke(QUESTION)


# Errors


@shape(
    Turn(
        contexts=[],
        answer=None,
        error="OSError('index is gone')",
        doubts=["no_answer", "no_search"],
    )
)
def error_in_retriever() -> None:
    with suppress(OSError):
        rag(Shelf(books=OSError("index is gone"))).invoke(QUESTION)


@shape(Turn(answer=None, error="KeyError('log')", doubts=["no_answer"]))
def error_after_answer() -> None:
    with suppress(KeyError):
        (rag() | (lambda answer: {}["log"])).invoke(QUESTION)


@shape()
def error_before_retrieval() -> None:
    with suppress(KeyError):
        ((lambda asked: asked["missing"]) | rag()).invoke({"question": QUESTION})


# What the model saw


# No chain, other runs, explicit hooks


@shape()
def unrelated_runs() -> None:
    (
        ChatPromptTemplate.from_template("Translate {text}")
        | Speaker(lines="Bonjour")
        | StrOutputParser()
    ).invoke("Hi")
    Speaker().invoke("Hello")
    RunnableLambda(str.upper).invoke("x")
    stuff_all = ChatPromptTemplate.from_template("Summarise {context}")
    create_stuff_documents_chain(Speaker(lines="Summary"), stuff_all).invoke(
        {"context": documents()}
    )


@shape(Turn())
def retriever_then_model() -> None:
    found = Shelf().invoke(QUESTION)
    Speaker(lines="unrelated").invoke("What time is it?")
    Speaker().invoke(f"Use {joined(found)} for {QUESTION}")


EXAMPLES = [("human", "What is the capital of Chad?"), ("ai", "N'Djamena is it.")]


@shape(Turn())
def examples_in_the_template() -> None:
    template = [("system", "Use {context}"), *EXAMPLES, ("human", "{question}")]
    prompt = ChatPromptTemplate.from_messages(template)
    given = {"context": Shelf() | joined, "question": RunnablePassthrough()}
    (given | prompt | Speaker() | StrOutputParser()).invoke(QUESTION)


@shape(Turn(history=[text for _, text in EXAMPLES], doubts=["history_unread"]))
def earlier_turns_under_another_name() -> None:
    """They may be examples, or a talk: nobody says."""
    template = [("system", "Use {context}"), ("placeholder", "{before}")]
    prompt = ChatPromptTemplate.from_messages([*template, ("human", "{question}")])
    given = {
        "context": Shelf() | joined,
        "question": RunnablePassthrough(),
        "before": lambda _: EXAMPLES,
    }
    (given | prompt | Speaker() | StrOutputParser()).invoke(QUESTION)


@shape(Turn())
def an_answer_beside_what_other_models_wrote() -> None:
    found = RunnablePassthrough.assign(context=lambda _: joined(documents()))
    notes = RunnablePassthrough.assign(notes=from_dict(Speaker(lines=[LYON, PARIS])))
    answer = PROMPT | Speaker() | StrOutputParser()
    (found | notes | RunnablePassthrough.assign(final_answer=answer)).invoke(
        {"question": QUESTION}
    )


@shape(Turn(answer="Yes"))
def a_word_under_the_name_of_the_answer() -> None:
    draft = RunnablePassthrough.assign(draft=from_dict() | StrOutputParser())
    short = ChatPromptTemplate.from_template("In a word: {draft}") | Speaker(
        lines="Yes"
    )
    draft.assign(answer=short | StrOutputParser()).invoke({"question": QUESTION})


@shape(Turn(answer="\n\n".join((PARIS, LYON, ROME))))
def whole_documents_are_the_answer() -> None:
    (Shelf() | joined).invoke(QUESTION)


@shape(Turn(answer="Paris is the capital", doubts=["by_data_flow"]))
def words_of_a_document_may_be_those_of_an_unseen_model() -> None:
    (Shelf() | (lambda found: found[0].page_content[:20])).invoke(QUESTION)


@shape(Turn(contexts=[(f"{LYON}\n{ROME}", None, None)]))
def a_document_of_what_a_tool_returned() -> None:
    @tool
    def web(query: str) -> list[dict[str, str]]:
        """Searches the web."""
        return [{"content": text, "url": "https://a.example"} for text in (LYON, ROME)]

    def search(question: str) -> list[Document]:
        pages = web.invoke({"query": question})
        return [document("\n".join(page["content"] for page in pages))]

    given = {"context": chain(search) | joined, "question": RunnablePassthrough()}
    (given | PROMPT | Speaker() | StrOutputParser()).invoke(QUESTION)


@shape(Turn(answer=None, doubts=["no_answer"]))
def retriever_alone() -> None:
    Shelf().invoke(QUESTION)


@shape(Turn(contexts=[(PARIS, "Pari", None)]))
def documents_handed_in() -> None:
    stuff().invoke(
        {"context": store().similarity_search(PARIS, k=1), "input": QUESTION}
    )


@shape(Turn(contexts=[(PARIS, "Pari", pytest.approx(1.0))]))
def observed_store() -> None:
    seen_store = observe(store())

    def answer(question: str) -> str:
        found = [one for one, _ in seen_store.similarity_search_with_score(PARIS, k=1)]
        return str(Speaker().invoke(joined(found) + question).text)

    RunnableLambda(answer).invoke(QUESTION)


@shape(Turn(contexts=[(PARIS, "Pari", None)]))
def observed_store_as_retriever() -> None:
    rag(observe(store()).as_retriever(search_kwargs={"k": 1})).invoke(QUESTION)


@shape(Turn())
def handler_twice() -> None:
    from langchain_ragmetrics.capturing import RECORDER

    rag().with_config(callbacks=[RECORDER]).invoke(
        QUESTION, config={"callbacks": [RECORDER]}
    )


# Overrides


@shape(Turn(question="As the user said it"))
def question_per_call() -> None:
    rag().invoke(
        "rewritten",
        config={"metadata": {"ragmetrics": {"question": "As the user said it"}}},
    )


@shape(Turn())
def everything_per_call() -> None:
    said = {
        "reference": "Paris",
        "id": 7,
        "metadata": {"tenant": "a"},
    }
    with capture() as inner:
        rag().invoke(QUESTION, config={"metadata": {"ragmetrics": said}})
    (sample,) = inner.samples
    assert (sample.reference, sample.id) == (("Paris",), "7")
    assert sample.metadata == {"tenant": "a"}


@shape(Turn(), question_from="case.text")
def question_from() -> None:
    ((lambda asked: QUESTION) | rag()).invoke(
        {"case": {"text": QUESTION}, "query": "other"}
    )


@shape(Turn(), answer_from=lambda run: run.outputs["blob"][0])
def answer_from() -> None:
    (rag() | (lambda answer: {"blob": (answer, 1), "text": "other"})).invoke(QUESTION)


@shape(Turn(contexts=[(LYON, None, None)], retrieved=FOUND), contexts_from="used")
def contexts_from() -> None:
    (
        RunnableParallel(answer=rag())
        | RunnablePassthrough.assign(used=lambda state: [LYON])
    ).invoke(QUESTION)


@shape(Turn(contexts=[(LYON, None, None)], retrieved=FOUND), contexts_from="parents")
def contexts_from_a_step() -> None:
    """What it made of what was found: the doubt names the step."""

    def parents(question: str) -> list[Document]:
        return [Document(LYON) for _ in Shelf().invoke(question)[:1]]

    rag(RunnableLambda(parents)).invoke(QUESTION)


@shape(
    Turn(contexts=[(LYON, None, None)], retrieved=FOUND),
    contexts_from=lambda run: [one.page_content for one in run.outputs["used"]],
    answer_from=lambda run: run.outputs["said"].content,
)
def read_as_langchain_has_it() -> None:
    def also_used(answer: str) -> dict[str, Any]:
        return {"used": [document(LYON, "lyon")], "said": AIMessage(answer)}

    (rag() | also_used).invoke(QUESTION)


@shape(Turn())
def langsmith_target() -> None:
    """The wrapper that LangSmith puts around a target."""

    @chain
    def target(inputs: dict[str, Any]) -> dict[str, Any]:
        return {"output": rag().invoke(inputs["x"]["question"])}

    target.invoke({"x": {"question": QUESTION}})


@shape(Turn())
def traceable_parent() -> None:
    """A parent that LangSmith traces and that LangChain's handlers never saw."""

    @traceable
    def endpoint(question: str) -> str:
        return str(rag().invoke(question))

    with tracing_context(enabled=True, client=offline_client()):
        endpoint(QUESTION)


@shape(Turn())
def text_model() -> None:
    """A model of texts, not of messages."""
    rag(model=FakeListLLM(responses=[ANSWER])).invoke(QUESTION)  # type: ignore[arg-type]


MET_BEFORE = [(PARIS, None, None), (LYON, None, None)]


@shape(
    Turn(contexts=MET_BEFORE[:1]),
    Turn("And Lyon?", contexts=MET_BEFORE, retrieved=MET_BEFORE[1:]),
)
def what_was_found_is_kept_in_a_list_of_the_application() -> None:
    kept: list[Document] = []
    shelf = Shelf(books=lambda query: [document(LYON if "Lyon" in query else PARIS)])

    def keep(query: str) -> str:
        kept.extend(shelf.invoke(query))
        return joined(kept)

    for question in (QUESTION, "And Lyon?"):
        prompt = {"context": RunnableLambda(keep), "question": RunnablePassthrough()}
        (prompt | PROMPT | Speaker() | StrOutputParser()).invoke(question)


@pytest.mark.parametrize("name", SHAPES)
def test_shape(name: str) -> None:
    play, expected, options = SHAPES[name]
    with capture(**options) as captured:
        asyncio.run(play()) if asyncio.iscoroutinefunction(play) else play()
    assert [seen(sample) for sample in captured.samples] == expected
    said = [
        one
        for one in captured.problems.counts
        if "runs were seen" not in one and "person" not in one
    ]
    assert not said or (not expected and "none of them retrieved" in said[0])


def test_an_input_that_names_the_question_alone_is_no_sure_question() -> None:
    """The names of an input are read; recorded traces do not tell them."""
    asked = {"8f3a": QUESTION}
    app = (lambda request: asked[request["request_id"]]) | rag()
    with capture() as captured:
        app.invoke({"request_id": "8f3a"})
    (sample,) = captured.samples
    assert seen(sample) == Turn(doubts=["question_guessed"])


def test_a_step_after_a_retriever_that_was_given_up_finds_for_itself() -> None:
    """What a step searches after it is not what it found; recorded traces do not tell."""

    class Stuck(Shelf):
        def _get_relevant_documents(
            self, query: str, *, run_manager: Any
        ) -> list[Document]:
            raise KeyboardInterrupt

    def search(question: str) -> list[Document]:
        with suppress(KeyboardInterrupt):
            Stuck().invoke(question)
        return Shelf().invoke(question)

    with capture() as captured:
        rag(RunnableLambda(search)).invoke(QUESTION)
    (sample,) = captured.samples
    assert seen(sample) == Turn(contexts=FOUND, doubts=["not_recorded"])
