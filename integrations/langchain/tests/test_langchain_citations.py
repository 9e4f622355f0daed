"""What answers of LangChain applications cite: each has the shape of a public one that cites.

The scripted models are shown the prompts of these applications. What is expected stands
in each row: the part of the answer, the numbers of the texts that it cites, and what
dangles; or words of the reason why nothing can be known.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_classic.chains import (
    RetrievalQAWithSourcesChain,
    create_retrieval_chain,
)
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolCall
from langchain_core.output_parsers import (
    JsonOutputParser,
    StrOutputParser,
    XMLOutputParser,
)
from langchain_core.prompts import (
    ChatPromptTemplate,
    MessagesPlaceholder,
    PromptTemplate,
)
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import (
    Runnable,
    RunnableBranch,
    RunnableLambda,
    RunnablePassthrough,
)
from langchain_core.tools import tool
from langchain_ragmetrics import capture
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel, Field
from typing_extensions import TypedDict
from velm import ANSWER, MARKS, QUESTION, TEXTS, Expected, check, check_contexts

from ragmetrics_core import Sample

FILES = ("rivers.pdf", "bridges.pdf", "rivers.pdf")
PAGES = (4, 7, 9)


def chapters() -> list[Document]:
    """The texts, each as a chapter of a file."""
    return [
        Document(
            text,
            # numbers of the store's own, which no prompt shows
            id=str(3 - place),
            metadata={
                "source": FILES[place],
                "pdf_path": FILES[place],
                "page_number": PAGES[place],
                "title": f"Chapter {place + 10}",
            },
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


class Structured(GenericFakeChatModel):
    """A model that calls the tool of its structured output."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Runnable[Any, Any]:
        return self


def structured(schema: type[BaseModel], reply: dict[str, Any]) -> Runnable[Any, Any]:
    call = ToolCall(name=schema.__name__, args=reply, id="call")
    model = Structured(messages=iter([AIMessage("", tool_calls=[call])]))
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


def asked(model: Runnable[Any, Any], label: str) -> Runnable[Any, Any]:
    return (
        {
            "context": Found() | numbered(label),
            "question": RunnablePassthrough(),
        }
        | PROMPT
        | model
    )


def says(answer: str) -> Runnable[Any, Any]:
    return FakeListChatModel(responses=[answer]) | StrOutputParser()


def chain(label: str, answer: str) -> Callable[[], Any]:
    return lambda: asked(says(answer), label).invoke(QUESTION)


def cut_off(reply: str) -> Callable[[], Any]:
    """The application takes the answer out of an element of the reply."""

    def answer_in(text: str) -> str:
        return text.partition("<answer>")[2].partition("</answer>")[0]

    return lambda: (
        asked(says(reply), "Document {n}: {text}") | RunnableLambda(answer_in)
    ).invoke(QUESTION)


def with_sources(line: str) -> Callable[[], Any]:
    """langchain-ai/langchain: the chain divides the reply at the word "SOURCES"."""

    def run() -> Any:
        chain = RetrievalQAWithSourcesChain.from_chain_type(
            FakeListChatModel(responses=[f"{WHOLE}\n{line}"]), retriever=Found()
        )
        return chain.invoke({"question": QUESTION})

    return run


def with_a_passage_from_elsewhere() -> Any:
    """The application adds a passage that no recorded search found."""

    def join(documents: list[Document]) -> str:
        return numbered("[{n}] {text}")(documents) + "\n\n[4] It is red, says the web."

    shown = {"context": Found() | join, "question": RunnablePassthrough()}
    return (shown | PROMPT | says("It is red [4].")).invoke(QUESTION)


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


def branch(answer: str, *, asked_before: bool) -> Callable[[], Any]:
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
        label = "<doc id='{i}'>{text}</doc>"
        context = RunnablePassthrough.assign(docs=search).assign(
            context=lambda state: numbered(label)(state["docs"])
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


FROM_ZERO = "It was opened in 1874 [2]. It rises in the hills [0]. It is red [7]."
MARKS_FROM_ZERO: Expected = [
    ("It was opened in 1874 [2].", (2,), ()),
    ("It rises in the hills [0].", (0,), ()),
    ("It is red [7].", (), ("7",)),
]


ANSWERED = "It was opened in 1874 [3]."


class CitedAnswer(BaseModel):
    answer: str
    citations: list[int]


class Quote(BaseModel):
    source_id: int
    quote: str


class QuotedAnswer(BaseModel):
    answer: str
    citations: list[Quote]


class Page(BaseModel):
    pdf_path: str
    page_number: int


class AnswerOfPages(BaseModel):
    answer: str
    citations: list[Page]


class ExactQuotes(BaseModel):
    answer: str
    citations: list[str]
    is_refusal: bool = False


def json_chain(reply: dict[str, Any], label: str) -> Callable[[], Any]:
    """A model that replies in JSON, as its prompt asks."""

    def run() -> Any:
        model = FakeListChatModel(responses=[json.dumps(reply)])
        return (asked(model, label) | JsonOutputParser()).invoke(QUESTION)

    return run


def state_graph(model: Runnable[Any, Any], label: str) -> Callable[[], Any]:
    class State(TypedDict, total=False):
        question: str
        context: list[Document]
        answer: Any

    def retrieve(state: State) -> dict[str, Any]:
        return {"context": Found().invoke(state["question"])}

    def generate(state: State) -> dict[str, Any]:
        messages = PROMPT.invoke(
            {
                "context": numbered(label)(state["context"]),
                "question": state["question"],
            }
        )
        return {"answer": model.invoke(messages)}

    graph = StateGraph(State)
    graph.add_node("retrieve", retrieve)
    graph.add_node("generate", generate)
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "generate")
    graph.add_edge("generate", END)
    return lambda: graph.compile().invoke({"question": QUESTION})


def documents_chain(document_prompt: str, answer: str) -> Callable[[], Any]:
    """The classic chain, whose documents have a prompt of their own."""

    def run() -> Any:
        prompt = ChatPromptTemplate.from_template("Cite.\n{context}\n\nAsked: {input}")
        stuff = create_stuff_documents_chain(
            FakeListChatModel(responses=[answer]),
            prompt,
            document_prompt=PromptTemplate.from_template(document_prompt),
        )
        return create_retrieval_chain(Found(), stuff).invoke({"input": QUESTION})

    return run


def agent(label: str, answer: str) -> Callable[[], Any]:
    """An agent whose tool returns numbered texts."""

    def run() -> Any:
        agents = pytest.importorskip("langchain.agents")

        @tool
        def search_docs(query: str) -> str:
            """Search the knowledge base."""
            return numbered(label)(Found().invoke(query))

        call = ToolCall(name="search_docs", args={"query": "Velm bridge"}, id="call")
        replies = [AIMessage("", tool_calls=[call]), AIMessage(answer)]
        made = agents.create_agent(
            Structured(messages=iter(replies)), tools=[search_docs]
        )
        return made.invoke({"messages": [{"role": "user", "content": QUESTION}]})

    return run


def annotated(annotations: Any, label: str) -> Callable[[], Any]:
    """A first call answers, a second one is shown the answer and names its sources."""

    def run() -> Any:
        answering = asked(says("It was opened in 1874."), label)
        annotating = (
            RunnableLambda(
                lambda answer: (
                    f"Sources:\n\n{numbered(label)(Found().invoke(QUESTION))}\n\n"
                    f"Which of them support this answer?\n{answer}"
                )
            )
            | FakeListChatModel(responses=[json.dumps(annotations)])
            | JsonOutputParser()
        )
        with_sources = RunnablePassthrough.assign(
            annotations=lambda state: annotating.invoke(state["answer"])
        )
        return ({"answer": answering} | with_sources).invoke(QUESTION)

    return run


def renumbered() -> Any:
    """The application counts the sources anew, in the order in which they are cited."""
    answer = "It was opened in 1874 [3]. It rises in the hills [1]."
    counted = {"[3]": "[1]", "[1]": "[2]"}

    def count_anew(text: str) -> str:
        head, _, tail = text.partition("[3]")
        return head + counted["[3]"] + tail.replace("[1]", counted["[1]"])

    return (asked(says(answer), "[{n}] {text}") | RunnableLambda(count_anew)).invoke(
        QUESTION
    )


def listed_behind() -> Any:
    """The application writes a list of its sources behind the answer."""
    answer = "It was opened in 1874 [3]."
    listed = "\n\nSources:\n[1] rivers.pdf\n[2] bridges.pdf"
    return (
        asked(says(answer), "[{n}] {text}") | RunnableLambda(lambda text: text + listed)
    ).invoke(QUESTION)


def listed_behind_a_field() -> Any:
    """The same behind the answer of a structured reply, which is a tool's argument."""
    reply = {"answer": ANSWERED, "citations": [3]}
    listed = "\n\nSources:\n[1] rivers.pdf\n[2] bridges.pdf"
    return (
        asked(structured(CitedAnswer, reply), "[{n}] {text}")
        | RunnableLambda(lambda answered: answered.answer + listed)
    ).invoke(QUESTION)


XML = (
    "<cited_answer><answer>It was opened in 1874.</answer><citations><citation>"
    "<source_id>2</source_id><quote>opened at last in 1874</quote></citation>"
    "<citation><source_id>1</source_id><quote>of stone, of iron or of wood</quote>"
    "</citation></citations></cited_answer>"
)


def xml() -> Any:
    pytest.importorskip("defusedxml")
    label = (
        '<source id="{i}">\n<title>{title}</title>\n'
        "<article_snippet>{text}</article_snippet>\n</source>"
    )
    model = FakeListChatModel(responses=[XML])
    return (asked(model, label) | XMLOutputParser()).invoke(QUESTION)


WHOLE = "It was opened in 1874."
SOURCE_ID = "Source ID: {i}\nProject name: {title}\nInterview Snippet: {text}"
PDF = "Source: {n}\nContent: {text}\nYear: 2020\nCitation: (PDF: {pdf_path}, Page {page_number})"


def block(text: str, *, start: int | None = None, **cited: Any) -> dict[str, Any]:
    """A block of a provider's reply, whose text it says to cite."""
    key = "annotations" if "url" in cited or "file_id" in cited else "citations"
    if start is not None:
        cited |= {"start_index": start, "end_index": start + 11}
    return {"type": "text", "text": text, key: [cited] if cited else []}


def provided(*blocks: dict[str, Any], label: str = "{text}") -> Callable[[], Any]:
    """A model whose provider says what its reply cites; the application showed the texts."""
    return lambda: asked(
        Structured(messages=iter([AIMessage(list(blocks))])), label
    ).invoke(QUESTION)


_TWO_BLOCKS = AIMessage(
    [{"type": "text", "text": "It was."}, {"type": "text", "text": " It is."}]
)
# Earlier releases of LangChain keep a reply's first block alone. Then nobody knows where
# the second one stands in the answer, and its sources count for all of it.
SECOND_BLOCK = (
    " It is old." if StrOutputParser().invoke(_TWO_BLOCKS) == "It was. It is." else None
)


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


def found_by_the_provider(
    results: Any, text: str = "It was opened in 1874. It is old.", **cited: Any
) -> Callable[[], Any]:
    """OpenAI searched files while the model answered; nothing else was searched."""
    searched = {
        "type": "file_search_call",
        "id": "fs_1",
        "queries": ["Velm"],
        "results": results,
    }
    reply = AIMessage([searched, block(text, **cited)])
    return lambda: Structured(messages=iter([reply])).invoke(QUESTION)


RESULTS = [
    {"file_id": f"file-{place}", "filename": FILES[place], "score": 0.9, "text": text}
    for place, text in enumerate(TEXTS)
]


@dataclass(frozen=True)
class App:
    """How the shape of a public application is run, and what its answer cites."""

    run: Callable[[], Any]
    expected: Expected


NAMES_APART = "\n\nFiles:\n[1] hills.pdf\n[2] arches.pdf\n[3] opening-day.pdf"
RENUMBERED = "In 1874 [1].\n\n### References\n\n- [1] opening-day.pdf"


def with_names_apart() -> Any:
    """HKUDS/LightRAG: the passages have numbers alone, and a list names the numbers."""
    shown = Found() | numbered("[{n}] {text}") | (lambda text: text + NAMES_APART)
    question = {"context": shown, "question": RunnablePassthrough()}
    return (question | PROMPT | says(RENUMBERED)).invoke(QUESTION)


ARABIC = "In 1874 [المصدر ٣]."
LISTED = "It was opened in 1874.\n\n## References\n\n- bridges.pdf"
IDS = "In 1874 [c910e23]. It is red [9ab03fe]."
MADE_UP_ID: Expected = [
    ("In 1874 [c910e23].", (2,), ()),
    ("It is red [9ab03fe].", (), ("9ab03fe",)),
]

APPS: dict[str, App] = {
    "digits of another script": App(
        chain("[المصدر {n}] {text}", ARABIC), [("In 1874 [المصدر ٣].", (2,), ())]
    ),
    "a closing list below a heading": App(
        chain("File: {source}\n{text}", LISTED), [("It was opened in 1874.", (1,), ())]
    ),
    "an own list that renumbers the names of a list apart": App(
        with_names_apart, "another meaning"
    ),
    "a short id that nobody was shown": App(
        chain("[c910e2{n}] {text}", IDS), MADE_UP_ID
    ),
    "a key that nobody was shown": App(
        chain("[berg202{n}] {text}", "In 1874 [berg2023]. It is red [quinn2024]."),
        "a form that is not read",
    ),
    "notes, numbers in brackets": App(chain("[{n}] {text}", ANSWER), MARKS),
    "a branch without talk": App(
        branch(FROM_ZERO, asked_before=False), MARKS_FROM_ZERO
    ),
    "a branch with talk": App(branch(FROM_ZERO, asked_before=True), MARKS_FROM_ZERO),
    "a verdict with its clauses": App(
        lambda: (
            asked(
                FakeListChatModel(
                    responses=[
                        json.dumps(
                            {
                                "decision": "approved",
                                "justification": [
                                    {"clause_id": 3, "text": "opened at last in 1874"}
                                ],
                            }
                        )
                    ]
                ),
                "[{n}] {text}",
            )
            | JsonOutputParser()
        ).invoke(QUESTION),
        # no answer is found, so nothing is known of it
        "no answer of the run is known",
    ),
    "a graph with titled sources": App(
        state_graph(
            says("It was opened in 1874 [Source 3]. It is old (Source 1)."),
            "[Source {n}] {source}\n{text}",
        ),
        [
            ("It was opened in 1874 [Source 3].", (2,), ()),
            ("It is old (Source 1).", (0,), ()),
        ],
    ),
    "sources with file and page": App(
        chain(
            "[Source {n}] (file: {source}, page: {page_number})\n{text}",
            "It was opened in 1874 [Source 3][Source 4].",
        ),
        [
            ("It was opened in 1874 [Source 3][Source 4].", (2,), ()),
            ("It was opened in 1874 [Source 3][Source 4].", (), ("4",)),
        ],
    ),
    "quotes by number, in a graph": App(
        state_graph(
            structured(
                QuotedAnswer,
                {
                    "answer": WHOLE,
                    "citations": [
                        {"source_id": 2, "quote": "opened at last in 1874"},
                        {"source_id": 0, "quote": "a river of the north"},
                    ],
                },
            ),
            SOURCE_ID,
        ),
        [(WHOLE, (2,), ()), (WHOLE, (0,), ())],
    ),
    "numbers alone, and one that nobody was shown": App(
        lambda: asked(
            structured(CitedAnswer, {"answer": WHOLE, "citations": [2, 8]}), SOURCE_ID
        ).invoke(QUESTION),
        [(WHOLE, (2,), ()), (WHOLE, (), ("8",))],
    ),
    "files and pages": App(
        lambda: asked(
            structured(
                AnswerOfPages,
                {
                    "answer": WHOLE,
                    "citations": [{"pdf_path": "rivers.pdf", "page_number": 9}],
                },
            ),
            PDF,
        ).invoke(QUESTION),
        [(WHOLE, (2,), ())],
    ),
    "a page that no context has": App(
        lambda: asked(
            structured(
                AnswerOfPages,
                {
                    "answer": WHOLE,
                    "citations": [{"pdf_path": "rivers.pdf", "page_number": 5}],
                },
            ),
            PDF,
        ).invoke(QUESTION),
        "page 5",
    ),
    "another page of the only context of a file": App(
        json_chain(
            {"answer": WHOLE, "sources": [{"source": "bridges.pdf", "page": 12}]},
            "[{source}]\n{text}",
        ),
        "page 12",
    ),
    "the page of the only context of a file": App(
        json_chain(
            {"answer": WHOLE, "sources": [{"source": "bridges.pdf", "page": 7}]},
            "[{source}]\n{text}",
        ),
        [(WHOLE, (1,), ())],
    ),
    "numbers that stand in brackets": App(
        json_chain({"answer": WHOLE, "sources": ["3", "[1]"]}, "[{n}] {text}"),
        [(WHOLE, (2,), ()), (WHOLE, (0,), ())],
    ),
    "names of files": App(
        chain(
            "[{n}] Source: {source} (Section: {title})\n{text}",
            "Of iron [Source: bridges.pdf]. It is old [Source: rivers.pdf].",
        ),
        [
            ("Of iron [Source: bridges.pdf].", (1,), ()),
            ("It is old [Source: rivers.pdf].", (0, 2), ()),
        ],
    ),
    "an item that names another file than its number": App(
        chain("[{n}] {source}\n{text}", "- **bridges.pdf** [1]: of iron"),
        "another meaning",
    ),
    "an item that names the file of its number": App(
        chain("[{n}] {source}\n{text}", "- **rivers.pdf** [3]: in 1874"),
        [("- **rivers.pdf** [3]: in 1874", (2,), ())],
    ),
    "an agent's tool": App(agent("[{n}] {text}", ANSWER), MARKS),
    "labels behind the texts": App(
        documents_chain(
            "{page_content}\n[source: {source}#{page_number}]",
            "It was opened in 1874 [source: rivers.pdf#9].",
        ),
        [("It was opened in 1874 [source: rivers.pdf#9].", (2,), ())],
    ),
    "labels before and behind": App(
        chain(
            "Content: {text}\n[Source: {source}, Page: {page_number}]",
            "It was opened in 1874 [Source: rivers.pdf, Page: 9].",
        ),
        [("It was opened in 1874 [Source: rivers.pdf, Page: 9].", (2,), ())],
    ),
    "a file behind the text, another way of writing": App(
        chain(
            "Content: {text}\n[Source: {source}, Page: {page_number}]",
            "It was opened in 1874 [Source: rivers.pdf, p. 9].",
        ),
        [(None, (2,), ())],
    ),
    "a page that none of the file's texts has": App(
        chain(
            "Content: {text}\n[Source: {source}, Page: {page_number}]",
            "It was opened in 1874 [Source: rivers.pdf, p. 8].",
        ),
        "does not tell",
    ),
    "exact quotes": App(
        lambda: asked(
            structured(
                ExactQuotes,
                {
                    "answer": WHOLE,
                    "citations": [
                        "the Velm bridge was opened at last in 1874, by the mayor",
                        "the bridge was painted red by its second owner",
                    ],
                },
            ),
            "{text}",
        ).invoke(QUESTION),
        [
            (WHOLE, (2,), ()),
            (WHOLE, (), ("the bridge was painted red by its second owner",)),
        ],
    ),
    "a second call names the sources": App(
        annotated({"sources": [{"index": 3, "answer": WHOLE}]}, "[{n}] {text}"),
        [(WHOLE, (2,), ())],
    ),
    "xml": App(xml, [(None, (2,), ()), (None, (1,), ())]),
    "no numbers in the prompt": App(
        chain("{text}", "It was opened in 1874 [3]."), "does not tell"
    ),
    "numbers of a structure, and none in the prompt": App(
        lambda: asked(
            structured(CitedAnswer, {"answer": WHOLE, "citations": [2]}), "{text}"
        ).invoke(QUESTION),
        "does not tell",
    ),
    "marks counted anew": App(renumbered, "changed the marks"),
    "a list of sources behind the answer": App(
        listed_behind, [("It was opened in 1874 [3].", (2,), ())]
    ),
    "a list of sources behind the answer of a structured reply": App(
        listed_behind_a_field, [(ANSWERED, (2,), ())]
    ),
    "footnotes": App(chain("[{n}] {text}", "It was opened in 1874³."), "not read"),
    "prose": App(chain("[{n}] {text}", "As source 3 says, in 1874."), "not read"),
    "nothing cited": App(chain("[{n}] {text}", "It was opened in May."), []),
    "Anthropic, documents of the prompt": App(
        provided(
            quoted("It was opened in 1874.", 2, "opened at last in 1874"),
            quoted(" It is old.", 0, "it rises in the hills"),
        ),
        [("It was opened in 1874.", (2,), ()), (SECOND_BLOCK, (0,), ())],
    ),
    "OpenAI, files with texts": App(
        found_by_the_provider(
            RESULTS, type="file_citation", file_id="file-2", filename="rivers.pdf"
        ),
        [(None, (2,), ())],
    ),
    "OpenAI, files without texts": App(
        found_by_the_provider(
            None, type="file_citation", file_id="file-2", filename="rivers.pdf"
        ),
        "does not return",
    ),
    "OpenAI, empty annotations and marks": App(
        provided(block(ANSWER), label="[{n}] {text}"), MARKS
    ),
    "marks as elements of HTML": App(
        lambda: (
            asked(says("It was opened in 1874 [3]."), "[{n}] {text}")
            | RunnableLambda(lambda text: text.replace("[3]", "<sup>3</sup>"))
        ).invoke(QUESTION),
        "changed the marks",
    ),
    "a number of a passage from elsewhere": App(
        with_a_passage_from_elsewhere, "none of the contexts"
    ),
    "letters": App(
        chain("[S{n}] {text}", "It was opened in 1874 [S3]. It is red [S9]."),
        [
            ("It was opened in 1874 [S3].", (2,), ()),
            ("It is red [S9].", (), ("S9",)),
        ],
    ),
    "summaries that are numbered": App(summaries, "does not tell which context"),
    "an answer made nicer by a second call": App(
        rewritten, [("The bridge opened in 1874 [3], they say.", (2,), ())]
    ),
    "a file and a quote": App(
        json_chain(
            {
                "answer": WHOLE,
                "citations": [
                    {"source": "rivers.pdf", "quote": "opened at last in 1874"}
                ],
            },
            "[{source}]\n{text}",
        ),
        [(WHOLE, (2,), ())],
    ),
    "a number that nobody gave, and a quote": App(
        json_chain(
            {
                "answer": WHOLE,
                "citations": [{"id": 7, "quote": "opened at last in 1874"}],
            },
            "{text}",
        ),
        [(WHOLE, (2,), ())],
    ),
    "a list of unknown form": App(
        json_chain({"answer": WHOLE, "backing": [{"at": 3}]}, "[{n}] {text}"),
        "may name sources",
    ),
    "a list, and no numbers in the prompt": App(
        chain("{text}", "It was opened in May."), "does not show each passage under"
    ),
    "sources that the application cuts off": App(
        with_sources("SOURCES: bridges.pdf"), [(WHOLE, (1,), ())]
    ),
    "the sources cut off are two chunks of one file": App(
        with_sources("SOURCES: rivers.pdf"), [(WHOLE, (0, 2), ())]
    ),
    "a source cut off that nobody was shown": App(
        with_sources("SOURCES: lakes.pdf"), [(WHOLE, (), ("lakes.pdf",))]
    ),
    "marks and a list of the same": App(
        json_chain({"answer": ANSWERED, "citations": [3]}, "[{n}] {text}"),
        [(ANSWERED, (2,), ())],
    ),
    "marks that count the list beside them": App(
        json_chain(
            {
                "answer": "It was opened in 1874 [1]. It is old [2].",
                "cited_urls": ["bridges.pdf", "rivers.pdf"],
            },
            "[{source}]\n{text}",
        ),
        [
            ("It was opened in 1874 [1].", (1,), ()),
            ("It is old [2].", (0, 2), ()),
        ],
    ),
    "a mark beyond the list beside it": App(
        json_chain(
            {"answer": "It is old [1]. It cost 2 [2].", "cited_urls": ["bridges.pdf"]},
            "[{source}]\n{text}",
        ),
        "which context it means is not known",
    ),
    "marks and a list of another, parsed": App(
        json_chain({"answer": ANSWERED, "citations": [1]}, "[{n}] {text}"),
        "cite other sources than its own list",
    ),
    "marks and a list of the same, as text": App(
        chain("[{n}] {text}", json.dumps({"answer": ANSWERED, "citations": [3]})),
        [(ANSWERED, (2,), ())],
    ),
    "sources in an element that is cut off": App(
        cut_off(f"<answer>{WHOLE}</answer>\n<sources>2</sources>"),
        "what the application cut off may name sources",
    ),
    "a thought that is cut off": App(
        cut_off(f"I know it now.\n<answer>{WHOLE}</answer>"), []
    ),
    "facts with quotes": App(
        json_chain(
            {
                "answer": [
                    {"fact": WHOLE, "substring_quote": ["opened at last in 1874"]},
                ]
            },
            "{text}",
        ),
        [(WHOLE, (2,), ())],
    ),
    "marks and a list of another, as text": App(
        chain("[{n}] {text}", json.dumps({"answer": ANSWERED, "citations": [1]})),
        "cite other sources than its own list",
    ),
    "a quote under the number of another": App(
        lambda: asked(
            structured(
                QuotedAnswer,
                {
                    "answer": WHOLE,
                    "citations": [{"source_id": 1, "quote": "opened at last in 1874"}],
                },
            ),
            SOURCE_ID,
        ).invoke(QUESTION),
        "quotes a passage under the number or id of another",
    ),
    "an empty list": App(
        lambda: asked(
            structured(CitedAnswer, {"answer": WHOLE, "citations": []}), SOURCE_ID
        ).invoke(QUESTION),
        [],
    ),
}


def captured(run: Callable[[], Any]) -> Sample:
    with capture() as runs:
        run()
    (sample,) = runs.samples
    return sample


@pytest.mark.parametrize("name", APPS)
def test_every_citation_is_right_or_unknown_with_its_reason(name: str) -> None:
    app = APPS[name]
    sample = captured(app.run)
    check_contexts(sample)
    check(sample, app.expected)


def test_words_that_only_the_provider_was_shown_are_a_context_that_is_cited() -> None:
    words = "it was painted red by its second owner"
    sample = captured(provided(quoted("It is red.", 0, words)))
    assert sample.citations is not None, sample.citations_unknown
    (citation,) = sample.citations
    assert [sample.contexts[place].text for place in citation.contexts] == [words]


class FoundAt(Found):
    """Finds the texts at the places that it is asked for."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any
    ) -> list[Document]:
        found = super()._get_relevant_documents(query, run_manager=run_manager)
        return [found[int(place)] for place in query]


@tool
def search_places(places: str) -> str:
    """Search for some texts, numbered from 1 each time."""
    return numbered("[{n}] {text}")(FoundAt().invoke(places))


def searches(places: str) -> AIMessage:
    call = ToolCall(name="search_places", args={"places": places}, id=f"call-{places}")
    return AIMessage("", tool_calls=[call])


def turns(replies: list[AIMessage], questions: list[str]) -> list[Sample]:
    """Turns of one conversation with an agent that searches."""
    agents = pytest.importorskip("langchain.agents")
    memory = pytest.importorskip("langgraph.checkpoint.memory")
    made = agents.create_agent(
        Structured(messages=iter(replies)),
        tools=[search_places],
        checkpointer=memory.InMemorySaver(),
    )
    with capture() as runs:
        for question in questions:
            made.invoke(
                {"messages": [{"role": "user", "content": question}]},
                {"configurable": {"thread_id": "1"}},
            )
    return list(runs.samples)


@pytest.mark.parametrize("mark", ["[1]", "[2]"])
def test_numbers_of_two_searches_mean_no_single_text(mark: str) -> None:
    replies = [searches("01"), searches("2"), AIMessage(f"It was opened {mark}.")]
    (sample,) = turns(replies, [QUESTION])
    assert sample.citations is None
    assert "several texts" in sample.citations_unknown


def test_a_number_that_an_earlier_turn_used_means_no_single_text() -> None:
    replies = [searches("01"), AIMessage("Old [1].")]
    replies += [searches("2"), AIMessage("In 1874 [1].")]
    first, second = turns(replies, ["What is the Velm?", QUESTION])
    assert first.citations is not None
    assert [citation.contexts for citation in first.citations] == [(0,)]
    assert second.citations is None
    assert "several texts" in second.citations_unknown


def test_a_provider_says_which_of_two_equal_sentences_cites() -> None:
    run = found_by_the_provider(
        RESULTS,
        "It is iron. It is iron. So.",
        type="file_citation",
        file_id="file-1",
        start=12,
    )
    sample = captured(run)
    assert sample.citations is not None, sample.citations_unknown
    assert [(one.start, one.end) for one in sample.citations] == [(12, 23)]


def test_a_mark_of_the_prompt_stands_beside_what_the_provider_cites() -> None:
    found = "The ferry of Osta crosses the lake every hour."
    searched = {
        "type": "file_search_call",
        "id": "fs_1",
        "queries": ["ferry"],
        "results": [{"file_id": "file-9", "filename": "o.txt", "text": found}],
    }
    text = "It rises in the hills [1]."
    cited = block(text, type="file_citation", file_id="file-9", filename="o.txt")
    model = Structured(messages=iter([AIMessage([searched, cited])]))
    sample = captured(lambda: asked(model, "[{n}] {text}").invoke(QUESTION))
    cited_texts = {
        sample.contexts[place].text
        for citation in sample.citations or ()
        for place in citation.contexts
    }
    assert cited_texts == {TEXTS[0], found}


def pages_of_files(pages: tuple[tuple[str, int], ...]) -> list[Document]:
    """The texts as pages of files, with the metadata that ``PyPDFLoader`` gives them.

    Args:
        pages: For each text its file and its page, from 1.
    """
    return [
        Document(
            text,
            metadata={
                "source": file,
                "page": page - 1,
                "page_label": str(page),
                "total_pages": 21,
            },
        )
        for text, (file, page) in zip(TEXTS, pages, strict=True)
    ]


def cited_page(pages: tuple[tuple[str, int], ...], mark: str) -> Sample:
    """The sample of a chain whose prompt shows each text below its file and page."""

    def join(documents: list[Document]) -> str:
        return "\n\n".join(
            f"Source: {found.metadata['source']}\n"
            f"Page: {found.metadata['page_label']}\n{found.page_content}"
            for found in documents
        )

    shown = {
        "context": Found(documents=pages_of_files(pages)) | join,
        "question": RunnablePassthrough(),
    }
    with capture() as captured:
        (shown | PROMPT | says(f"It was opened in 1874 {mark}.")).invoke(QUESTION)
    (sample,) = captured.samples
    return sample


ONE_FILE = (("velm.pdf", 3), ("velm.pdf", 12), ("velm.pdf", 20))
NEIGHBOURS = (("velm.pdf", 3), ("velm.pdf", 4), ("velm.pdf", 5))
FILE_EACH = (("a.pdf", 3), ("b.pdf", 12), ("c.pdf", 20))


@pytest.mark.parametrize(
    ("pages", "mark", "expected"),
    [
        (ONE_FILE, "[velm.pdf, p. 20]", (2,)),
        (FILE_EACH, "[c.pdf, p. 20]", (2,)),
        # counted from 0
        (FILE_EACH, "[c.pdf, p. 19]", (2,)),
        # the file has 21 pages, and no text is of the last one
        (ONE_FILE, "[velm.pdf, p. 21]", None),
        # "page" and "page_label" name different texts
        (NEIGHBOURS, "[velm.pdf, p. 4]", None),
        # the only text of the file is of another page
        (FILE_EACH, "[c.pdf, p. 8]", None),
    ],
)
def test_a_mark_of_a_file_and_a_page_cites_no_other_page(
    pages: tuple[tuple[str, int], ...], mark: str, expected: tuple[int, ...] | None
) -> None:
    sample = cited_page(pages, mark)
    if expected is None:
        assert sample.citations is None
        assert "does not tell which context page" in sample.citations_unknown
    else:
        assert sample.citations is not None
        assert [one.contexts for one in sample.citations] == [expected]


@pytest.mark.parametrize("label", ["Source {}:\n", "[S{}] "])
def test_a_label_that_a_step_wrote_into_the_documents_means_them(label: str) -> None:
    texts = ("Everyone gets 25 days.", "The canteen opens at 11:30.", "See page 3: no.")
    mark = "[2]" if "Source" in label else "[S2]"

    def labelled(documents: list[Document]) -> list[Document]:
        return [
            Document(label.format(number) + document.page_content)
            for number, document in enumerate(documents, start=1)
        ]

    class FindsAll(BaseRetriever):
        def _get_relevant_documents(
            self, query: str, *, run_manager: Any
        ) -> list[Document]:
            return [Document(text) for text in texts]

    made = (
        {
            "context": FindsAll()
            | RunnableLambda(labelled)
            | (lambda found: "\n\n".join(document.page_content for document in found)),
            "question": RunnablePassthrough(),
        }
        | ChatPromptTemplate.from_template("Cite the sources.\n{context}\n{question}")
        | FakeListChatModel(responses=[f"It opens at 11:30 {mark}."])
    )
    with capture() as runs:
        made.invoke("When does the canteen open?")
    (sample,) = runs.samples
    assert sample.citations is not None, sample.citations_unknown
    (citation,) = sample.citations
    assert [texts[1] in sample.contexts[at].text for at in citation.contexts] == [True]
