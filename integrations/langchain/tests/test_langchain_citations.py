"""What answers of LangChain applications cite: a table of shapes of public ones.

What is expected stands in each row: the part of the answer, the numbers of the texts
that it cites, and what dangles; or words of the reason why nothing can be known. A form
of citing that is not read is told as unknown, never as no citation.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolCall
from langchain_core.output_parsers import JsonOutputParser, StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import (
    Runnable,
    RunnableBranch,
    RunnableLambda,
    RunnablePassthrough,
)
from langchain_core.tools import tool
from langchain_ragmetrics import capture
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, Field
from velm import ANSWER, MARKS, QUESTION, TEXTS, Expected, check, check_contexts

from ragmetrics_core import Sample

FILES = ("rivers.pdf", "bridges.pdf", "rivers.pdf")
PAGES = (4, 7, 9)


def chapters() -> list[Document]:
    """The texts, each as a chapter of a file, with numbers that no prompt shows."""
    return [
        Document(
            text,
            id=str(3 - place),
            metadata={"source": FILES[place], "page_number": PAGES[place]},
        )
        for place, text in enumerate(TEXTS)
    ]


class Found(BaseRetriever):
    """Finds the same documents for every query."""

    documents: list[Document] = Field(default_factory=chapters)

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any
    ) -> list[Document]:
        return self.documents


class Scripted(GenericFakeChatModel):
    """Says its messages, calls of tools included."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Runnable[Any, Any]:
        return self


def structured(schema: type[BaseModel], reply: dict[str, Any]) -> Runnable[Any, Any]:
    call = ToolCall(name=schema.__name__, args=reply, id="call")
    model = Scripted(messages=iter([AIMessage("", tool_calls=[call])]))
    return model.with_structured_output(schema)


def numbered(label: str) -> Callable[[list[Document]], str]:
    """What an application writes before each text: {n} from 1, {i} from 0, values of the metadata."""

    def join(documents: list[Document]) -> str:
        return "\n\n".join(
            label.format(n=place + 1, i=place, text=one.page_content, **one.metadata)
            for place, one in enumerate(documents)
        )

    return join


PROMPT = ChatPromptTemplate.from_template(
    "Answer from the context and cite it.\n\nContext:\n{context}\n\nQuestion: {question}"
)


def asked(
    model: Runnable[Any, Any], label: str, behind: str = ""
) -> Runnable[Any, Any]:
    context = Found() | numbered(label) | (lambda text: text + behind)
    return {"context": context, "question": RunnablePassthrough()} | PROMPT | model


def says(answer: str) -> Runnable[Any, Any]:
    return FakeListChatModel(responses=[answer]) | StrOutputParser()


Run = Callable[[], Any]


def chain(label: str, answer: str, behind: str = "") -> Run:
    return lambda: asked(says(answer), label, behind).invoke(QUESTION)


def changed(label: str, answer: str, change: Callable[[str], str]) -> Run:
    """The application changes what the model wrote."""
    return lambda: (asked(says(answer), label) | RunnableLambda(change)).invoke(
        QUESTION
    )


def json_chain(reply: dict[str, Any], label: str) -> Run:
    """A model that replies in JSON, as its prompt asks."""
    model = FakeListChatModel(responses=[json.dumps(reply)])
    return lambda: (asked(model, label) | JsonOutputParser()).invoke(QUESTION)


class CitedAnswer(BaseModel):
    answer: str
    citations: list[int]


class Quote(BaseModel):
    source_id: int
    quote: str


class QuotedAnswer(BaseModel):
    answer: str
    citations: list[Quote]


def schema_chain(
    schema: type[BaseModel], answer: str, citations: list[Any], label: str
) -> Run:
    reply = {"answer": answer, "citations": citations}
    return lambda: asked(structured(schema, reply), label).invoke(QUESTION)


def branch(answer: str, *, asked_before: bool) -> Run:
    """langchain-ai/chat-langchain, backend/chain.py: where there was talk before, a branch rephrases the question.

    The documents stand in the system's message, as elements counted from 0.
    """

    def run() -> Any:
        lines = ["When was the bridge over the Velm opened?"] if asked_before else []
        model = FakeListChatModel(responses=[*lines, answer])
        rephrase = ChatPromptTemplate.from_template(
            "Talk: {chat_history}\nAsked: {question}\nAsk it in one question:"
        )
        with_talk = rephrase | model | StrOutputParser() | Found()
        without_talk = RunnableLambda(lambda state: state["question"]) | Found()
        search: Any = RunnableBranch(
            (lambda state: bool(state.get("chat_history")), with_talk), without_talk
        )
        context = RunnablePassthrough.assign(docs=search).assign(
            context=lambda state: numbered("<doc id='{i}'>{text}</doc>")(state["docs"])
        )
        prompt = ChatPromptTemplate.from_messages(
            [
                ("system", "Cite by [number].\n<context>\n{context}\n</context>"),
                MessagesPlaceholder("chat_history"),
                ("human", "{question}"),
            ]
        )
        talk = [HumanMessage("Which rivers are there?"), AIMessage("The Velm.")]
        state = {"question": QUESTION, "chat_history": talk if asked_before else []}
        return (context | prompt | model | StrOutputParser()).invoke(state)

    return run


def rewritten() -> Any:
    """A second call sees the answer of the first one alone."""
    nicer = RunnableLambda(lambda text: f"Say it nicer: {text}") | says(
        "The bridge opened in 1874 [3], they say."
    )
    first = says("It was opened in 1874, by the mayor of the town [3].")
    return (asked(first, "[{n}] {text}") | nicer).invoke(QUESTION)


def summaries() -> Any:
    """Each text is summed up alone, and the last prompt numbers the summaries."""
    texts = ["An old river of the north.", "Stone carries rails.", "It opened in 1874."]

    def answer(question: str) -> str:
        model = FakeListChatModel(responses=[*texts, "It was opened in 1874 [3]."])
        short = [
            str(model.invoke(f"Sum up:\n{one.page_content}").content)
            for one in Found().invoke(question)
        ]
        listed = "\n".join(f"[{n}] {text}" for n, text in enumerate(short, start=1))
        return str(model.invoke(f"Cite.\n{listed}\n\n{question}").content)

    return RunnableLambda(answer).invoke(QUESTION)


@tool
def search_places(places: str) -> str:
    """Search for some texts, numbered from 1 each time."""
    found = [chapters()[int(place)] for place in places]
    return numbered("[{n}] {text}")(Found(documents=found).invoke(places))


def agent(*replies: str) -> Run:
    """An agent that searches or says something; turns of one thread end with what it says."""

    def run() -> Any:
        messages = [
            AIMessage(
                "",
                tool_calls=[
                    ToolCall(name="search_places", args={"places": reply}, id=reply)
                ],
            )
            if reply.isdigit()
            else AIMessage(reply)
            for reply in replies
        ]
        made = create_agent(
            Scripted(messages=iter(messages)),
            tools=[search_places],
            checkpointer=InMemorySaver(),
        )
        for _ in (reply for reply in replies if not reply.isdigit()):
            made.invoke(
                {"messages": [{"role": "user", "content": QUESTION}]},
                {"configurable": {"thread_id": "1"}},
            )

    return run


def block(text: str, *, start: int | None = None, **cited: Any) -> dict[str, Any]:
    """A block of a provider's reply, whose text it says to cite."""
    key = "annotations" if "file_id" in cited else "citations"
    if start is not None:
        cited |= {"start_index": start, "end_index": start + 11}
    return {"type": "text", "text": text, key: [cited] if cited else []}


def quoted(text: str, place: int, words: str) -> dict[str, Any]:
    """A block as Anthropic gives it for documents in the prompt."""
    return block(
        text,
        type="char_location",
        cited_text=words,
        document_index=place,
        document_title="a document",
        start_char_index=0,
        end_char_index=9,
    )


def provided(*blocks: dict[str, Any], label: str = "{text}") -> Run:
    """A model whose provider says what its reply cites; the application showed the texts."""
    model = Scripted(messages=iter([AIMessage(list(blocks))]))
    return lambda: asked(model, label).invoke(QUESTION)


SECOND_BLOCK = " It is old."


def found_by_openai(text: str, results: Any = "all", **place: int) -> Run:
    """OpenAI searched files while the model answered; nothing else was searched."""
    found = [
        {
            "file_id": f"file-{at}",
            "filename": FILES[at],
            "score": 0.9,
            "text": TEXTS[at],
        }
        for at in range(len(TEXTS))
    ]
    searched = {
        "type": "file_search_call",
        "id": "fs_1",
        "queries": ["Velm"],
        "results": found if results == "all" else results,
    }
    cited = block(
        text, type="file_citation", file_id="file-2", filename=FILES[2], **place
    )
    reply = AIMessage([searched, cited])
    return lambda: Scripted(messages=iter([reply])).invoke(QUESTION)


WHOLE = "It was opened in 1874."
NUMBERS = "[{n}] {text}"
NO_NUMBERING = "does not number each context"
OTHER_NOTATION = "another notation"
SEVERAL = "several contexts, or none"
FROM_ZERO = "It was opened in 1874 [2]. It rises in the hills [0]. It is red [7]."
MARKS_FROM_ZERO: Expected = [
    ("It was opened in 1874 [2].", (2,), ()),
    ("It rises in the hills [0].", (0,), ()),
    ("It is red [7].", (), ("7",)),
]

ROWS: dict[str, tuple[Run, Expected]] = {
    # marks, by the numbering of the prompt
    "numbers in brackets": (chain(NUMBERS, ANSWER), MARKS),
    "a list of numbers": (
        chain("{n}. {text}", "It is old [1, 3]."),
        [(None, (0, 2), ())],
    ),
    "a branch without talk": (branch(FROM_ZERO, asked_before=False), MARKS_FROM_ZERO),
    "a branch with talk": (branch(FROM_ZERO, asked_before=True), MARKS_FROM_ZERO),
    "an agent's tool": (agent("012", ANSWER), MARKS),
    "two searches that number alike": (agent("01", "2", "Opened [1]."), NO_NUMBERING),
    "no numbers in the prompt": (chain("{text}", "In 1874 [3]."), NO_NUMBERING),
    "a passage from elsewhere": (
        chain(NUMBERS, "It is red [4].", behind="\n\n[4] It is red, says the web."),
        NO_NUMBERING,
    ),
    "numbered summaries": (summaries, NO_NUMBERING),
    "an answer made nicer by a second call": (rewritten, NO_NUMBERING),
    "an answer that lists its sources anew": (
        chain(NUMBERS, "In 1874 [1].\n\n### References\n\n- [1] opening-day.pdf"),
        OTHER_NOTATION,
    ),
    "marks counted anew": (
        changed(NUMBERS, "In 1874, at last [3].", lambda t: t.replace("[3]", "[1]")),
        "was changed",
    ),
    "a list of sources behind the answer": (
        changed(NUMBERS, "In 1874, at last [3].", lambda t: t + "\n\n[1] rivers.pdf"),
        "was changed",
    ),
    # other notations
    "letters": (chain("[S{n}] {text}", "It was opened [S3]."), OTHER_NOTATION),
    "names of files": (
        chain("[{source}] {text}", "Of iron [Source: bridges.pdf]."),
        OTHER_NOTATION,
    ),
    "footnotes": (chain(NUMBERS, "It was opened in 1874³."), OTHER_NOTATION),
    "prose": (chain(NUMBERS, "As source 3 says, in 1874."), OTHER_NOTATION),
    "nothing cited": (chain(NUMBERS, "It was opened in May."), "nothing in the answer"),
    # structured replies
    "numbers of a structure": (
        schema_chain(CitedAnswer, WHOLE, [3], NUMBERS),
        [(WHOLE, (2,), ())],
    ),
    "a number that nobody was shown": (
        schema_chain(CitedAnswer, WHOLE, [3, 8], NUMBERS),
        SEVERAL,
    ),
    "numbers of a structure, and none in the prompt": (
        schema_chain(CitedAnswer, WHOLE, [2], "{text}"),
        NO_NUMBERING,
    ),
    "quotes": (
        schema_chain(
            QuotedAnswer,
            WHOLE,
            [{"source_id": 1, "quote": "opened at last in 1874"}],
            NUMBERS,
        ),
        OTHER_NOTATION,
    ),
    "an empty list": (
        schema_chain(CitedAnswer, WHOLE, [], NUMBERS),
        "nothing in the answer",
    ),
    "names in a structure": (
        json_chain({"answer": WHOLE, "sources": ["bridges.pdf"]}, "[{source}]\n{text}"),
        OTHER_NOTATION,
    ),
    "marks and a list of the same": (
        json_chain({"answer": "It was opened [3].", "citations": [3]}, NUMBERS),
        [(None, (2,), ())],
    ),
    "marks and a list of another": (
        json_chain({"answer": "It was opened [3].", "citations": [1]}, NUMBERS),
        SEVERAL,
    ),
    # what a provider says
    "Anthropic, documents of the prompt": (
        provided(
            quoted(WHOLE, 2, "opened at last in 1874"),
            quoted(" It is old.", 0, "it rises in the hills"),
        ),
        [(WHOLE, (2,), ()), (SECOND_BLOCK, (0,), ())],
    ),
    "OpenAI, files with texts": (found_by_openai(WHOLE), [(None, (2,), ())]),
    "OpenAI, the second of two equal sentences": (
        found_by_openai("It is iron. It is iron. So.", start=12),
        [("It is iron.", (2,), ())],
    ),
    "OpenAI, files and a mark": (found_by_openai("It is old [1]."), OTHER_NOTATION),
    "OpenAI, files without texts": (found_by_openai(WHOLE, None), SEVERAL),
    "OpenAI, empty annotations and marks": (
        provided(block(ANSWER), label=NUMBERS),
        MARKS,
    ),
}


def samples_of(run: Run) -> tuple[Sample, ...]:
    with capture() as runs:
        run()
    return runs.samples


@pytest.mark.parametrize("name", ROWS)
def test_citations_are_right_or_unknown_with_their_reason(name: str) -> None:
    run, expected = ROWS[name]
    (sample,) = samples_of(run)
    check_contexts(sample)
    check(sample, expected)


def test_a_number_that_an_earlier_turn_used_means_no_single_text() -> None:
    first, second = samples_of(agent("01", "Old [1].", "2", "In 1874 [1]."))
    assert first.citations is not None
    assert [citation.contexts for citation in first.citations] == [(0,)]
    assert second.citations is None


def test_a_provider_says_which_of_two_equal_sentences_cites() -> None:
    (sample,) = samples_of(found_by_openai("It is iron. It is iron. So.", start=12))
    assert [(one.start, one.end) for one in sample.citations or ()] == [(12, 23)]
