"""What all applications here share: a corpus, how an application is named, and what is compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

from langchain_core.documents import Document
from langchain_core.messages import AnyMessage
from langchain_core.output_parsers import JsonOutputParser, StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_fakes import Speaker, document, joined
from langchain_ragmetrics import capture
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

from ragmetrics_core.data.sample import Sample

QUESTION = "How do agents plan their work?"
ANSWER = "They break a task into smaller steps and reflect on each of them."
PLAN = document(
    "Task decomposition: an agent breaks a large task into smaller, manageable"
    " subgoals.\nIt's done by prompting.",
    "plan",
)
MEMORY = document(
    'Memory: short-term memory is what is "in context"; long-term memory is an external'
    " store.",
    "memory",
)
TOOLS = document(
    "Tool use: the agent learns to call external APIs for what is missing from the"
    " weights.",
    "tools",
)
REFLECT = document(
    "Self-reflection: the agent looks back on past actions & corrects its earlier"
    " mistakes.",
    "reflect",
)
ALL = [PLAN, MEMORY, TOOLS]
RAG = ChatPromptTemplate.from_template(
    "Answer from the context only:\n{context}\n\nQuestion: {question}"
)


@dataclass(frozen=True)
class Expected:
    """What an application must give, as a reader of its code says.

    Contexts and retrieved as ids and scores, or texts where they are cut. ``doubts`` are
    the codes of what is hedged. Where an application ``is_hedged``, these say that a
    field differs from what is expected.
    """

    contexts: list[Any]
    retrieved: list[Any] | None = None
    answer: str | None = ANSWER
    question: str | None = QUESTION
    history: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
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
        assert all(
            one.id is None or KNOWN.get(one.text, one.id) == one.id for one in contexts
        )
        return [name if score is None else (name, score) for name, score in named]

    contexts = short(sample.contexts)
    retrieved = None if sample.retrieved is None else short(sample.retrieved)
    return Expected(
        contexts,
        None if retrieved == contexts else retrieved,
        sample.answer,
        sample.question,
        [turn.content for turn in sample.history],
        sorted(sample.capture.doubts or ()),
        sample.error,
        sample.standalone_question,
    )


def everything() -> list[Document]:
    return [one.model_copy(deep=True) for one in ALL]


def rag(context: Any, *lines: Any) -> Any:
    inputs = {"context": context, "question": RunnablePassthrough()}
    return inputs | RAG | Speaker(lines=list(lines) or ANSWER) | StrOutputParser()


GRADE = ChatPromptTemplate.from_template("Is this relevant to {question}? {document}")


def grader(*verdicts: str) -> Any:
    return (
        GRADE
        | Speaker(lines=[f'{{"binary_score": "{one}"}}' for one in verdicts])
        | JsonOutputParser()
    )


class State(TypedDict, total=False):
    question: str
    documents: list[Document]
    generation: str


def generate(state: State) -> State:
    made = RAG | Speaker(lines=ANSWER) | StrOutputParser()
    return {
        "generation": made.invoke(
            {"context": joined(state["documents"]), "question": state["question"]}
        )
    }


def graph(*nodes: Any, state: Any = State) -> Any:
    built = StateGraph(state)
    built.add_sequence(list(nodes))
    built.add_edge(START, nodes[0].__name__)
    return built.compile()


class Chat(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]


def names(module: str) -> list[str]:
    """The applications that a file defines."""
    return [name for name, (play, _, _) in APPS.items() if play.__module__ == module]


def check(name: str) -> None:
    """Run an application under capture, and compare."""
    play, expected, options = APPS[name]
    is_hedged = options.get("is_hedged", False)
    settings = {key: options[key] for key in options if key != "is_hedged"}
    with capture(**settings) as captured:
        play()
    samples = [seen(sample) for sample in captured.samples]
    if is_hedged:
        assert [one.doubts for one in samples] == [one.doubts for one in expected]
        assert all(one in expected or one.doubts for one in samples)
    else:
        assert samples == expected
