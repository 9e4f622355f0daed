"""Small applications after public ones, written anew: each gives exactly the sample that a reader of its code expects.

The first line of each names the repository and file whose shape it has.
"""

from __future__ import annotations

import asyncio
import html
import operator
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.tools import tool
from langchain_classic.chains import ConversationalRetrievalChain, RetrievalQA
from langchain_core.documents import Document
from langchain_core.load import dumps
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.output_parsers import JsonOutputParser, StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tools import create_retriever_tool
from langchain_fakes import Shelf, Speaker, calls, document, joined
from langchain_ragmetrics import capture
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Send

from ragmetrics_core.data.sample import Sample

# What public applications still use.
pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.deprecation.LangChainDeprecationWarning")

QUESTION = "How do agents plan their work?"
ANSWER = "They break a task into smaller steps and reflect on each of them."
PLAN = document(
    "Task decomposition: an agent breaks a large task into smaller, manageable subgoals.\nIt's done by prompting.",
    "plan",
)
MEMORY = document('Memory: short-term memory is what is "in context"; long-term memory is an external store.', "memory")
TOOLS = document("Tool use: the agent learns to call external APIs for what is missing from the weights.", "tools")
REFLECT = document("Self-reflection: the agent looks back on past actions & corrects its earlier mistakes.", "reflect")
ALL = [PLAN, MEMORY, TOOLS]
RAG = ChatPromptTemplate.from_template("Answer from the context only:\n{context}\n\nQuestion: {question}")
HIDDEN = "{} of {} retrieved documents were not shown to the model"


@dataclass(frozen=True)
class Expected:
    """What an application must give; contexts and retrieved as ids and scores, or texts where they are cut."""

    contexts: list[Any]
    retrieved: list[Any] | None = None
    answer: str | None = ANSWER
    question: str | None = QUESTION
    history: list[str] = field(default_factory=list)
    grade: str = "exact"
    warnings: list[str] = field(default_factory=list)
    error: str | None = None
    standalone: str | None = None


Play = Callable[[], Any]
APPS: dict[str, tuple[Play, list[Expected], dict[str, Any]]] = {}


def app(*expected: Expected, **options: Any) -> Callable[[Play], Play]:
    def add(play: Play) -> Play:
        assert (play.__doc__ or "").count("/") > 1, "name the source of the shape"
        APPS[play.__name__] = (play, list(expected), options)
        return play

    return add


KNOWN = {one.page_content: one.id for one in (*ALL, REFLECT)}


def seen(sample: Sample) -> Expected:
    assert sample.capture is not None

    def short(contexts: Any) -> list[Any]:
        named = [(KNOWN.get(one.text, one.text), one.score) for one in contexts]
        assert all(one.id is None or KNOWN.get(one.text, one.id) == one.id for one in contexts)
        return [name if score is None else (name, score) for name, score in named]

    contexts = short(sample.contexts)
    retrieved = None if sample.retrieved is None else short(sample.retrieved)
    return Expected(
        contexts,
        None if retrieved == contexts else retrieved,
        sample.answer,
        sample.question,
        [turn.content for turn in sample.history],
        str(sample.capture.grade),
        list(sample.capture.warnings),
        sample.error,
        sample.standalone_question,
    )


def everything() -> list[Document]:
    return [one.model_copy(deep=True) for one in ALL]


def rag(context: Any, *lines: Any) -> Any:
    inputs = {"context": context, "question": RunnablePassthrough()}
    return inputs | RAG | Speaker(lines=list(lines) or ANSWER) | StrOutputParser()


# Chains


@app(Expected(["plan", "memory", "tools"]))
def documents_unformatted() -> None:
    """langchain-ai/rag-from-scratch/rag_from_scratch_1_to_4.ipynb: the retriever goes into the prompt as it is."""
    rag(Shelf(books=everything())).invoke(QUESTION)


@app(Expected(["plan", "memory", "tools"]))
def documents_as_text() -> None:
    """tzh21/VChart-QA/rag.py: documents joined by empty lines."""
    rag(Shelf(books=everything()) | joined).invoke(QUESTION)


@app(Expected(["memory", "plan", "tools"], retrieved=["plan", "memory", "tools"]))
def unique_union() -> None:
    """langchain-ai/rag-from-scratch/rag_from_scratch_5_to_9.ipynb, part 5: several queries, what they find once."""
    found = {"goals": [PLAN, MEMORY], "recall": [MEMORY, TOOLS]}
    shelf = Shelf(books=lambda query: [one.model_copy(deep=True) for one in found[query]])

    def union(lists: list[list[Document]]) -> list[Document]:
        once = {dumps(one): one for some in lists for one in some}
        return sorted(once.values(), key=lambda one: str(one.id))

    perspectives = ChatPromptTemplate.from_template("Two versions of {question}")
    queries = perspectives | Speaker(lines="goals\nrecall") | StrOutputParser() | (lambda text: text.split("\n"))
    union_chain = RunnableLambda(lambda question: {"question": question}) | queries | shelf.map() | union
    (rag(union_chain)).invoke(QUESTION)


@app(Expected([("memory", 0.5), ("plan", 0.25)], retrieved=["plan", "memory"]))
def fusion_with_scores() -> None:
    """langchain-ai/rag-from-scratch/rag_from_scratch_5_to_9.ipynb, part 6: (document, score) of fused ranks."""
    shelf = Shelf(books=lambda query: [PLAN, MEMORY] if query == "one" else [MEMORY])

    def fused(lists: list[list[Document]]) -> list[tuple[Document, float]]:
        return [(MEMORY.model_copy(), 0.5), (PLAN.model_copy(), 0.25)]

    rag(RunnableLambda(lambda question: ["one", "two"]) | shelf.map() | fused).invoke(QUESTION)


@app(Expected(["reflect"], retrieved=["plan", "memory", "tools", "reflect"], warnings=[HIDDEN.format(3, 4)]))
def second_retrieval() -> None:
    """lalashiwoya/Chatbot_Design_with_LangGraph/api/nodes/retrieve.py, with a second search after the first."""

    def twice(question: str) -> list[Document]:
        Shelf(books=everything()).invoke(question)
        return Shelf(books=[REFLECT.model_copy()]).invoke(question)

    rag(RunnableLambda(twice) | joined).invoke(QUESTION)


@app(Expected(["tools", "plan"], retrieved=["plan", "memory", "tools"], warnings=[HIDDEN.format(1, 3)]))
def sorted_by_hand() -> None:
    """Ababababana/LoRA_Finetune-RAPTOR-CRAG/rerank.py: a plain function ranks anew and keeps two."""
    rag(Shelf(books=everything()) | (lambda found: [found[2], found[0]]) | joined).invoke(QUESTION)


@app(Expected(["plan", "memory", "tools"]))
def escaped_in_tags() -> None:
    """langchain-ai/rag-research-agent-template/src/shared/utils.py: documents as XML, here escaped as well."""

    def tagged(found: list[Document]) -> str:
        return "\n".join(f"<document id={one.id!r}>\n{html.escape(one.page_content)}\n</document>" for one in found)

    rag(Shelf(books=everything()) | tagged).invoke(QUESTION)


@app(
    Expected(
        [PLAN.page_content[:60].rstrip(), MEMORY.page_content[:60].rstrip()],
        retrieved=["plan", "memory"],
        grade="located",
        warnings=["context 1 was cut to 57%", "context 2 was cut to 67%"],
    )
)
def truncated() -> None:
    """alirezasaberi20/Deep-Learning-Projects/RAG_Langchain/app.py, with only the beginning of each chunk shown."""
    short = RunnableLambda(lambda found: "\n---\n".join(one.page_content[:60] for one in found))
    rag(Shelf(books=everything()[:2]) | short).invoke(QUESTION)


@app(Expected(["plan", "memory", "tools"]))
def refine() -> None:
    """langchain-ai/langchain/docs/docs/versions/migrating_chains/refine_docs_chain.ipynb: one after the other."""
    lines = ["Agents plan by decomposing what they are to do.", "They decompose, and they remember.", ANSWER]
    RetrievalQA.from_chain_type(
        Speaker(lines=lines), chain_type="refine", retriever=Shelf(books=everything()), return_source_documents=True
    ).invoke({"query": QUESTION})


@app(Expected(["plan", "memory", "tools"]))
def map_and_reduce() -> None:
    """langchain-ai/langchain/docs/docs/versions/migrating_chains/map_reduce_chain.ipynb: notes, then an answer."""

    def said(messages: Sequence[Any]) -> str:
        shown = "\n".join(str(one.text) for one in messages)
        found = [one for one in ALL if one.page_content in shown]
        return f"A note on what the page says of {found[0].id}." if found else ANSWER

    RetrievalQA.from_chain_type(
        Speaker(lines=said), chain_type="map_reduce", retriever=Shelf(books=everything())
    ).invoke({"query": QUESTION})


@app(
    Expected(
        ["plan"],
        question="And how?",
        standalone=QUESTION,
        history=["What do agents do?", "They plan their work."],
    )
)
def history_as_pairs() -> None:
    """Prany25/Conversational-RAG-with-PDFuploads/app.py, its history kept as (human, ai) pairs."""
    made = ConversationalRetrievalChain.from_llm(Speaker(lines=[QUESTION, ANSWER]), Shelf(books=[PLAN]))
    made.invoke({"question": "And how?", "chat_history": [("What do agents do?", "They plan their work.")]})


@app(Expected(["plan", "memory"]))
def cited_by_a_tool_call() -> None:
    """langchain-ai/langchain/docs/docs/how_to/qa_citations.ipynb: the answer stands in the arguments of a call."""

    class Cited(TypedDict):
        """The answer and its sources."""

        answer: str
        citations: list[int]

    model = Speaker(lines=calls("Cited", answer=ANSWER, citations=[0])).bind_tools([Cited])
    ({"context": Shelf(books=everything()[:2]) | joined, "question": RunnablePassthrough()} | RAG | model).invoke(
        QUESTION
    )


@app(Expected(["plan"], answer=None, grade="incomplete", error="the stream was abandoned before its end"))
def left_while_streaming() -> None:
    """minhbtrc/langchain-chatbot/app.py: the reader closes the page before the answer is there."""
    for _ in rag(Shelf(books=[PLAN]) | joined).stream(QUESTION):
        break


@app(Expected(["plan", "memory"]))
def documents_as_content_blocks() -> None:
    """langchain-ai/langchain/docs/docs/how_to/qa_citations.ipynb: documents and answer are blocks of messages."""
    found = Shelf(books=everything()[:2]).invoke(QUESTION)
    blocks = [{"type": "document", "source": {"type": "text", "data": one.page_content}} for one in found]
    said = AIMessage([{"type": "text", "text": ANSWER, "citations": []}])
    Speaker(lines=said).invoke([HumanMessage([*blocks, {"type": "text", "text": QUESTION}])])


@app(Expected(["plan", "memory"]))
def answer_printed_not_returned() -> None:
    """thaiphanthanhIT/RAG-langchain/cgraph/generate.py, as a function that prints and returns nothing."""
    written: list[str] = []

    def reply(question: str) -> None:
        found = Shelf(books=everything()[:2]).invoke(question)
        written.append(str(Speaker(lines=ANSWER).invoke(f"{joined(found)}\n{question}").text))

    RunnableLambda(reply).invoke(QUESTION)


# Plain functions, no chain around them

GRADE = ChatPromptTemplate.from_template("Is this relevant to {question}? {document}")


def grader(*verdicts: str) -> Any:
    return GRADE | Speaker(lines=[f'{{"binary_score": "{one}"}}' for one in verdicts]) | JsonOutputParser()


@app(Expected(["plan", "memory"], retrieved=["plan", "memory", "tools"], warnings=[HIDDEN.format(1, 3)]))
def graded_by_hand() -> None:
    """thaiphanthanhIT/RAG-langchain/cgraph/generate.py: search, grade each document, answer from those that pass."""
    found = Shelf(books=everything()).invoke(QUESTION)
    made = grader("yes", "yes", "no")
    kept = [
        one
        for one in found
        if made.invoke({"question": QUESTION, "document": one.page_content})["binary_score"] == "yes"
    ]
    Speaker(lines=ANSWER).invoke(f"Context: {joined(kept)}\nQuestion: {QUESTION}")


@app(Expected(["reflect"], retrieved=["tools", "reflect"], warnings=[HIDDEN.format(1, 2)]))
def rewritten_by_hand() -> None:
    """bansal1600/Advanced_RAG/Types_of_RAG_implementation_using_LangGraph/corrective_RAG/generator.py, by hand."""
    first = Shelf(books=[TOOLS]).invoke(QUESTION)
    grader("no").invoke({"question": QUESTION, "document": first[0].page_content})
    better = str(Speaker(lines="reflection of autonomous agents").invoke(f"Write a better query for: {QUESTION}").text)
    second = Shelf(books=[REFLECT]).invoke(better)
    (RAG | Speaker(lines=ANSWER) | StrOutputParser()).invoke({"context": joined(second), "question": QUESTION})


@app(Expected(["plan", "memory"], standalone="A passage that could answer it, about plans."))
def hypothetical_document() -> None:
    """langchain-ai/rag-from-scratch/rag_from_scratch_5_to_9.ipynb, part 9: a model writes what is searched for."""
    passage = ChatPromptTemplate.from_template("Write a passage that answers {question}")
    writer = passage | Speaker(lines="A passage that could answer it, about plans.") | StrOutputParser()
    found = (writer | Shelf(books=everything()[:2])).invoke({"question": QUESTION})
    (RAG | Speaker(lines=ANSWER) | StrOutputParser()).invoke({"context": found, "question": QUESTION})


@app(Expected(["plan"]))
def checked_afterwards() -> None:
    """DanielPopoola/adaptive-rag/src/workflow/chains/hallucination_grader.py: documents and generation are graded."""
    found = Shelf(books=[PLAN]).invoke(QUESTION)
    answer = Speaker(lines=ANSWER).invoke(f"Context: {joined(found)}\nQuestion: {QUESTION}").text
    prompt = ChatPromptTemplate.from_template("Facts: {documents}\nGeneration: {generation}")
    (prompt | Speaker(lines='{"binary_score": "yes"}') | JsonOutputParser()).invoke(
        {"documents": found, "generation": answer}
    )


@app()
def grader_alone() -> None:
    """langchain-ai/langgraph/examples/rag/langgraph_self_rag.ipynb: the cell that tries the hallucination grader."""
    prompt = ChatPromptTemplate.from_template("Facts: {documents}\nGeneration: {generation}")
    (prompt | Speaker(lines=calls("GradeHallucinations", binary_score="yes"))).invoke(
        {"documents": everything(), "generation": ANSWER}
    )


@app(
    Expected(["plan"]),
    Expected(["memory"], question="What is memory?", answer="What an agent keeps, for now or for long."),
)
def two_questions() -> None:
    """DanielPopoola/adaptive-rag/src/cli/main.py: a loop over questions, here without a chain."""
    for question, one, answer in (
        (QUESTION, PLAN, ANSWER),
        ("What is memory?", MEMORY, "What an agent keeps, for now or for long."),
    ):
        found = Shelf(books=[one]).invoke(question)
        Speaker(lines=answer).invoke(f"Context: {joined(found)}\nQuestion: {question}")


@app(
    Expected(
        ["plan"],
        answer="A second summary of the same page, in other words.",
        grade="inferred",
        warnings=["several calls may have answered; the last one is taken"],
    )
)
def two_that_could_answer() -> None:
    """lalashiwoya/Chatbot_Design_with_LangGraph/api/nodes/retrieve.py: one generation after the other is kept."""
    found = Shelf(books=[PLAN]).invoke(QUESTION)
    for line in (ANSWER, "A second summary of the same page, in other words."):
        Speaker(lines=line).invoke(f"Context: {joined(found)}\nQuestion: {QUESTION}")


# Graphs


class State(TypedDict, total=False):
    question: str
    documents: list[Document]
    generation: str


def generate(state: State) -> State:
    made = RAG | Speaker(lines=ANSWER) | StrOutputParser()
    return {"generation": made.invoke({"context": joined(state["documents"]), "question": state["question"]})}


def graph(*nodes: Any, state: Any = State) -> Any:
    built = StateGraph(state)
    built.add_sequence(list(nodes))
    built.add_edge(START, nodes[0].__name__)
    return built.compile()


@app(Expected(["plan", "reflect"], retrieved=["plan", "memory", "tools"], warnings=[HIDDEN.format(2, 3)]))
def corrective_graph() -> None:
    """langchain-ai/langgraph/examples/rag/langgraph_crag.ipynb: filter, rewrite the question, add a page of the web."""

    def retrieve(state: State) -> State:
        return {"documents": Shelf(books=everything()).invoke(state["question"]), "question": state["question"]}

    def grade_documents(state: State) -> State:
        made = grader("yes", "no", "no")
        kept = [
            one
            for one in state["documents"]
            if made.invoke({"question": state["question"], "document": one.page_content})["binary_score"] == "yes"
        ]
        return {"documents": kept, "question": state["question"]}

    def transform_query(state: State) -> State:
        better = Speaker(lines="What are the ways in which agents plan?").invoke(f"Improve: {state['question']}").text
        return {"documents": state["documents"], "question": str(better)}

    def web_search(state: State) -> State:
        page = Document(page_content=REFLECT.page_content)
        return {"documents": [*state["documents"], page]}

    graph(retrieve, grade_documents, transform_query, web_search, generate).invoke({"question": QUESTION})


@app(Expected(["plan", "memory", "tools"]))
def self_reflective_graph() -> None:
    """langchain-ai/langgraph/examples/rag/langgraph_self_rag.ipynb: two graders after the answer."""

    def retrieve(state: State) -> State:
        return {"documents": Shelf(books=everything()).invoke(state["question"])}

    def check(state: State) -> State:
        prompt = ChatPromptTemplate.from_template("Facts: {documents}\nGeneration: {generation}")
        for _ in range(2):
            (prompt | Speaker(lines=calls("Grade", binary_score="yes"))).invoke(state)
        return {"question": state["question"]}

    graph(retrieve, generate, check).invoke({"question": QUESTION})


class Chat(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]


@app(Expected(["plan", "memory"], standalone="agent planning"))
def agentic_graph() -> None:
    """langchain-ai/langgraph/examples/rag/langgraph_agentic_rag.ipynb: tool call, rewrite as a message, answer."""
    search = create_retriever_tool(Shelf(books=everything()[:2]), "search", "Searches.")

    def agent(state: Chat) -> Chat:
        return {"messages": [Speaker(lines=calls("search", query="agent planning")).invoke(state["messages"])]}

    def retrieve(state: Chat) -> Chat:
        return {"messages": [search.invoke(state["messages"][-1].tool_calls[0])]}  # type: ignore[union-attr]

    def rewrite(state: Chat) -> Chat:
        better = Speaker(lines="In which ways do agents plan what they do?").invoke("Improve the question").text
        return {"messages": [HumanMessage(str(better))]}

    def answer(state: Chat) -> Chat:
        context = str(state["messages"][-2].text)
        made = RAG | Speaker(lines=ANSWER)
        return {"messages": [made.invoke({"context": context, "question": state["messages"][0].text})]}

    graph(agent, retrieve, rewrite, answer, state=Chat).invoke({"messages": [("user", QUESTION)]})


@app(Expected(["plan", "memory"]))
def answer_as_a_human_message() -> None:
    """langchain-ai/langgraph/examples/multi_agent/agent_supervisor.ipynb: a worker's text as a human message."""

    def worker(state: Chat) -> Chat:
        found = Shelf(books=everything()[:2]).invoke(str(state["messages"][0].text))
        said = Speaker(lines=ANSWER).invoke(f"{joined(found)}\n{state['messages'][0].text}").text
        return {"messages": [HumanMessage(str(said), name="worker")]}

    graph(worker, state=Chat).invoke({"messages": [("user", QUESTION)]})


class Research(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    steps: list[str]
    documents: Annotated[list[Document], operator.add]


class Task(TypedDict):
    query: str


@app(Expected(["plan", "memory"]))
def research_agent() -> None:
    """langchain-ai/rag-research-agent-template/src/retrieval_graph/graph.py: route, plan, a sub-graph that fans out."""
    found = {"goals": PLAN, "recall": MEMORY}

    async def one(state: Task) -> Any:
        return {"documents": await Shelf(books=[found[state["query"]]]).ainvoke(state["query"])}

    class Search(TypedDict, total=False):
        question: str
        queries: list[str]
        documents: Annotated[list[Document], operator.add]

    async def queries(state: Search) -> Search:
        await Speaker(lines=calls("Response", queries=["goals", "recall"])).ainvoke(state["question"])
        return {"queries": ["goals", "recall"]}

    inner = StateGraph(Search)
    inner.add_node(queries)
    inner.add_node("one", one)  # type: ignore[arg-type]
    inner.add_edge(START, "queries")
    inner.add_conditional_edges("queries", lambda state: [Send("one", {"query": q}) for q in state["queries"]], ["one"])
    researcher = inner.compile()

    async def plan(state: Research) -> Research:
        await Speaker(lines=calls("Plan", steps=["look it up"])).ainvoke(state["messages"])
        return {"steps": ["look it up"]}

    async def research(state: Research) -> Research:
        result = await researcher.ainvoke({"question": state["steps"][0]})
        return {"documents": result["documents"]}

    async def respond(state: Research) -> Research:
        context = "\n".join(f"<document>\n{one.page_content}\n</document>" for one in state["documents"])
        said = await Speaker(lines=ANSWER).ainvoke(
            [("system", f"<documents>\n{context}\n</documents>"), *state["messages"]]
        )
        return {"messages": [said]}

    asyncio.run(graph(plan, research, respond, state=Research).ainvoke({"messages": [("user", QUESTION)]}))


# Agents


@app(
    Expected(["memory"], retrieved=["plan", "memory", "tools"], standalone="memory", warnings=[HIDDEN.format(2, 3)]),
)
def tool_shows_one() -> None:
    """langchain-ai/langgraph/examples/rag/langgraph_agentic_rag.ipynb, its tool returning one of three pages."""

    @tool
    def search(query: str) -> str:
        """Searches."""
        return Shelf(books=everything()).invoke(query)[1].page_content

    create_agent(Speaker(lines=[calls("search", query="memory"), ANSWER]), [search]).invoke(
        {"messages": [("user", QUESTION)]}
    )


@app(Expected(["plan", "tools"], standalone=None))
def agents_of_an_agent() -> None:
    """langchain-ai/langgraph/examples/multi_agent/hierarchical_agent_teams.ipynb: agents as tools of an agent."""

    def worker(name: str, one: Document, said: str) -> Any:
        shelf = create_retriever_tool(Shelf(books=[one]), "search", "Searches.")
        inner = create_agent(Speaker(lines=[calls("search", query=name), said]), [shelf])

        @tool(name)
        def delegate(task: str) -> str:
            """Delegates."""
            return str(inner.invoke({"messages": [("user", task)]})["messages"][-1].text)

        return delegate

    workers = [
        worker("planner", PLAN, "The planner says that tasks are decomposed first."),
        worker("toolsmith", TOOLS, "The toolsmith says that tools are called then."),
    ]
    lines = [calls("planner", task="plans?"), calls("toolsmith", task="tools?"), ANSWER]
    create_agent(Speaker(lines=lines), workers).invoke({"messages": [("user", QUESTION)]})


@app(Expected(["plan"], standalone="plans"), context_tools={"web_search"})
def named_text_tool() -> None:
    """shauryakatna/RAGFlowBot/graph/nodes/web_search.py: a search of the web that returns text, named as context."""

    @tool
    def web_search(query: str) -> str:
        """Searches the web."""
        return PLAN.page_content

    create_agent(Speaker(lines=[calls("web_search", query="plans"), ANSWER]), [web_search]).invoke(
        {"messages": [("user", QUESTION)]}
    )


@pytest.mark.parametrize("name", APPS)
def test_app(name: str) -> None:
    play, expected, options = APPS[name]
    with capture(**options) as captured, suppress(GeneratorExit):
        play()
    assert [seen(sample) for sample in captured.samples] == expected


def test_the_hint_names_what_to_say() -> None:
    """No retrieval is seen: the hint says by which arguments to help, and nothing of prompts is claimed."""
    with capture() as captured:
        AIMessage("x")
        Speaker(lines=ANSWER).invoke(QUESTION)
    assert captured.samples == ()
    (said,) = captured.problems.counts
    assert "context_tools=" in said
    assert "contexts_from=" in said
