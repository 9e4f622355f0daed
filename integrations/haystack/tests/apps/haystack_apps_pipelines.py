"""Applications after public ones: pipelines."""

from __future__ import annotations

import contextlib
import math
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest
from haystack import Document, Pipeline, component, tracing
from haystack.components.builders import AnswerBuilder, ChatPromptBuilder, PromptBuilder
from haystack.components.converters import OutputAdapter
from haystack.components.joiners import BranchJoiner
from haystack.components.preprocessors import DocumentSplitter
from haystack.components.rankers import MetaFieldRanker
from haystack.components.retrievers import SentenceWindowRetriever
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.components.routers import ConditionalRouter
from haystack.core.errors import BreakpointException, PipelineRuntimeError
from haystack.dataclasses import ChatMessage
from haystack.dataclasses.breakpoints import Breakpoint, PipelineSnapshot
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.tracing.tracer import NullTracer
from haystack_apps import (
    COOKBOOK,
    DOCS,
    SEARCH,
    SHORT,
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
    upto,
    user,
)

LIST = (
    "{% for document in documents %}{{ document.content }}\n{% endfor %}Question: {{"
    " question }}"
)
RAG = (
    *SEARCH,
    ("retriever.documents", "prompt.documents"),
    ("prompt.prompt", "llm.messages"),
)
FIRST = ("gate", "mill", "siege")
SEEN = ("brother", "sister")
CUT = (upto("gate", 100), upto("mill", 100))


def rag(template: str = LIST, top_k: int = 3, **more: Any) -> Any:
    parts = search(top_k, prompt=ChatPromptBuilder(user(template)), llm=says(A))
    return connected(*RAG, **{**parts, **more})


def asked(question: str = Q, prompt: str = "question", **more: Any) -> dict[str, Any]:
    return {"embedder": {"text": question}, "prompt": {prompt: question}, **more}


@app(f"{TUTORIALS}/27_First_RAG_Pipeline.ipynb", Expected(FIRST, retrieved=FIRST))
def first_pipeline() -> None:
    rag().run(asked())


@app(
    f"{COOKBOOK}/agentic_itinerary_planning_openstreetmap.ipynb",
    Expected(("gate", "mill"), retrieved=(*FIRST, "bridge")),
)
def a_template_that_slices() -> None:
    rag(
        "{% for one in documents[:2] %}- {{ one.content }}\n{% endfor %}{{ question }}",
        4,
    ).run(asked())


@app(
    f"{COOKBOOK}/agentic_itinerary_planning_openstreetmap.ipynb",
    Expected(FIRST, retrieved=FIRST, doubts=("by_data_flow",)),
)
def a_template_of_metadata() -> None:
    rag(
        "{% for one in documents %}- {{ one.meta.title }}\n{% endfor %}{{ question }}"
    ).run(asked())


@app(
    "deepset-ai/haystack-core-integrations:"
    " integrations/anthropic/example/prompt_caching.py",
    Expected((upto("gate", 100), upto("mill", 100)), retrieved=("gate", "mill")),
)
def documents_without_a_loop() -> None:
    rag("Here are the documents: {{ documents }} \n Answer: {{ question }}", 2).run(
        asked()
    )


# 13 of them
SENTENCES = [
    f"{one.strip()} " for one in re.split(r"(?<=[.;,]) ", " ".join(TEXTS.values()))
]
WINDOWS = (
    ("s1", "".join(SENTENCES[:3])),
    ("s8", "".join(SENTENCES[7:10])),
    ("s4", "".join(SENTENCES[3:6])),
)


def windows(socket: str, template: str) -> None:
    """Three sentences are found, and printed with those around them."""
    store, angles = InMemoryDocumentStore(), {1: 0.1, 8: 0.2, 4: 0.3}
    for n, text in enumerate(SENTENCES):
        lies = [math.cos(angles.get(n, 3.0)), math.sin(angles.get(n, 3.0))]
        meta = {"source_id": "book", "split_id": n}
        store.write_documents(
            [Document(id=f"s{n}", content=text, meta=meta, embedding=lies)]
        )
    connected(
        *SEARCH,
        ("retriever.documents", "window.retrieved_documents"),
        (f"window.{socket}", "prompt.found"),
        ("prompt.prompt", "llm.messages"),
        embedder=FakeEmbedder(),
        retriever=InMemoryEmbeddingRetriever(store, top_k=3),
        window=SentenceWindowRetriever(store, window_size=1),
        prompt=ChatPromptBuilder(user(template)),
        llm=says(A),
    ).run(asked())


@app(
    f"{DOCS}/pipeline-components/retrievers/sentencewindowretriever.mdx",
    Expected(WINDOWS, retrieved=("s1", "s8", "s4"), doubts=("inside_another",)),
)
def windows_around_sentences() -> None:
    windows(
        "context_windows",
        "{% for one in found %}- {{ one }}\n{% endfor %}Question: {{ question }}",
    )


@app(
    f"{DOCS}/pipeline-components/retrievers/sentencewindowretriever.mdx",
    Expected(WINDOWS, retrieved=("s1", "s8", "s4"), doubts=("inside_another",)),
)
def windows_as_a_list() -> None:
    windows("context_windows", "{{ found }} Question: {{ question }}")


AROUND = tuple((f"s{n}", SENTENCES[n]) for n in (0, 1, 2, 7, 8, 9, 3, 4, 5))


@app(
    f"{DOCS}/pipeline-components/retrievers/sentencewindowretriever.mdx",
    Expected(
        AROUND,
        retrieved=("s1", "s8", "s4"),
    ),
)
def documents_around_sentences() -> None:
    windows(
        "context_documents",
        "{% for one in found %}- {{ one.content }}\n{% endfor %}Question: {{"
        " question }}",
    )


@component
class Wiki:
    """A source of texts alone."""

    @component.output_types(passages=list[str])
    def run(self, query: str) -> dict[str, Any]:
        return {"passages": [TEXTS["gate"], TEXTS["mill"]]}


@component
class Contents:
    @component.output_types(texts=list[str])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        return {"texts": [one.content for one in documents]}


TEXTS_OF = "{% for one in texts %}- {{ one }}\n{% endfor %}Question: {{ question }}"


@app(
    "explodinggradients/ragas: docs/howtos/integrations/haystack.md",
    Expected(FIRST, retrieved=FIRST),
)
def texts_of_documents() -> None:
    connected(
        *SEARCH,
        ("retriever.documents", "contents.documents"),
        ("contents.texts", "prompt.texts"),
        ("prompt.prompt", "llm.messages"),
        **search(
            contents=Contents(), prompt=ChatPromptBuilder(user(TEXTS_OF)), llm=says(A)
        ),
    ).run(asked())


@app(
    f"{COOKBOOK}/hackernews-custom-component-rag.ipynb",
    Expected(
        ((None, TEXTS["gate"]), (None, TEXTS["mill"])),
        retrieved=(None, None),
    ),
)
def passages_without_documents() -> None:
    connected(
        ("wiki.passages", "prompt.texts"),
        ("prompt.prompt", "llm.messages"),
        wiki=Wiki(),
        prompt=ChatPromptBuilder(user(TEXTS_OF)),
        llm=says(A),
    ).run({"wiki": {"query": Q}, "prompt": {"question": Q}})


@app(
    f"{COOKBOOK}/agent-breakpoints.ipynb",
    Expected(
        (upto("gate", 50), upto("mill", 50)),
        retrieved=("gate", "mill"),
        doubts=("in_part",),
    ),
)
def a_template_that_truncates() -> None:
    rag(
        "{% for one in documents %}{{ one.content[:50] }} […]\n{% endfor %}{{"
        " question }}",
        2,
    ).run(asked())


@app("deepset-ai/haystack: issues/7481", Expected(FIRST, retrieved=FIRST))
def documents_as_json() -> None:
    rag(
        "{% for one in documents %}{{ one.content | tojson }},\n{% endfor %}{{"
        " question }}"
    ).run(asked())


@component
class Fetcher:
    @component.output_types(articles=list[Document])
    def run(self, last_k: int) -> dict[str, Any]:
        return {
            "articles": [Document(id=name, content=SHORT[name]) for name in SHORT][
                :last_k
            ]
        }


@app(
    f"{COOKBOOK}/hackernews-custom-component-rag.ipynb",
    Expected(
        ("brother", "sister"),
        "Two people have siblings.",
        None,
        ("brother", "sister"),
        doubts=("question_guessed",),
    ),
)
def a_summary_nobody_asked_for() -> None:
    connected(
        ("fetcher.articles", "prompt.articles"),
        ("prompt.prompt", "llm.messages"),
        fetcher=Fetcher(),
        prompt=ChatPromptBuilder(
            user("Sum up.\n{% for one in articles %}  {{ one.content }}\n{% endfor %}")
        ),
        llm=says("Two people have siblings."),
    ).run({"fetcher": {"last_k": 2}})


@component
class Page:
    @component.output_types(documents=list[Document])
    def run(self, urls: list[str]) -> dict[str, Any]:
        return {"documents": [Document(id="page", content=PAGE)]}


@component
class AsHtml:
    @component.output_types(html=str)
    def run(self, replies: list[ChatMessage]) -> dict[str, Any]:
        return {"html": f"<p>{replies[0].text}</p>"}


PAGE = "\n".join(TEXTS.values())
CALL = "Call: save_data(about_mills=True, places=['Marburg', 'Kassel'])"
FUNCTION = (
    'def save_data(about_mills: bool, places: list[str]):\n    """\n    Saves data from'
    ' a text.\n    """'
)


@app(
    f"{COOKBOOK}/information_extraction_raven.ipynb",
    Expected((("page", PAGE),), CALL, None, ("page",), doubts=("question_guessed",)),
)
def an_extraction_nobody_asked_for() -> None:
    connected(
        ("fetcher.documents", "prompt.docs"),
        ("prompt", "llm"),
        ("llm.replies", "parser.replies"),
        fetcher=Page(),
        prompt=PromptBuilder(
            "{{ function }}\nText: {{ docs[0].content|replace('\n', '"
            " ')|truncate(10000) }} END"
        ),
        llm=says(CALL),
        parser=AsHtml(),
    ).run(
        {
            "fetcher": {"urls": ["https://page.example"]},
            "prompt": {"function": FUNCTION},
        }
    )


WORDS = PAGE.split(" ")
CHUNKS = tuple((None, " ".join(WORDS[start : start + 16]) + " ") for start in (0, 16))


@app(f"{COOKBOOK}/mixtral-8x7b-for-web-qa.ipynb", Expected(CHUNKS, retrieved=("page",)))
def chunks_of_a_page_made_on_the_way() -> None:
    made = connected(
        ("fetcher.documents", "splitter.documents"),
        ("splitter.documents", "ranker.documents"),
        ("ranker.documents", "prompt.documents"),
        ("prompt.prompt", "llm.messages"),
        fetcher=Page(),
        splitter=DocumentSplitter(split_by="word", split_length=16),
        ranker=MetaFieldRanker(meta_field="split_id", sort_order="ascending", top_k=2),
        prompt=ChatPromptBuilder(user(LIST)),
        llm=says(A),
    )
    made.run({"fetcher": {"urls": ["https://page.example"]}, "prompt": {"question": Q}})


# Answers


@component
class Language:
    @component.output_types(lang=str, query=str)
    def run(self, text: str) -> dict[str, Any]:
        return {"lang": "en", "query": text}


@app(
    f"{TUTORIALS}/32_Classifying_Documents_and_Queries_by_Language.ipynb",
    Expected(FIRST, "It has been a wall since 1632.", retrieved=FIRST),
)
def a_language_is_no_answer() -> None:
    made = rag(language=Language(), llm=says("It has been a wall since 1632."))
    made.connect("language.query", "embedder.text")
    made.run({"language": {"text": Q}, "prompt": {"question": Q}})


@component
class StructuredGenerator:
    """A model whose reply has two sockets."""

    def __init__(self, text: str) -> None:
        self.text = text

    @component.output_types(replies=list[str], structured_reply=dict[str, Any])
    def run(self, prompt: str) -> dict[str, Any]:
        return {
            "replies": [self.text],
            "structured_reply": {"questions": [{"question": self.text}]},
        }


@component
class EachQuestion:
    def __init__(self) -> None:
        self.retriever = found(1, SHORT)

    @component.output_types(pairs=list[dict[str, Any]])
    def run(self, queries: dict[str, Any]) -> dict[str, Any]:
        pairs = []
        for number, one in enumerate(("How many siblings has Jon?", "And Sanna?"), 1):
            documents = self.retriever.run([1.0, 0.0], top_k=number)["documents"]
            pairs.append({"question": one, "documents": documents[number - 1 :]})
        return {"pairs": pairs}


SIBLINGS = "Who has more siblings, Jon or Sanna?"


@app(
    f"{COOKBOOK}/query_decomposition.ipynb",
    Expected(
        ("brother", "sister"), "Jon has one more.", SIBLINGS, ("brother", "sister")
    ),
)
def a_query_taken_apart() -> None:
    connected(
        ("split_prompt", "splitter"),
        ("splitter.structured_reply", "retriever.queries"),
        ("retriever.pairs", "pairs_prompt.pairs"),
        ("pairs_prompt", "resolver"),
        ("resolver.structured_reply", "reasoning_prompt.pairs"),
        ("reasoning_prompt", "reasoner"),
        split_prompt=PromptBuilder("Take apart: {{ question }}"),
        splitter=StructuredGenerator("How many siblings has Jon? And Sanna?"),
        retriever=EachQuestion(),
        pairs_prompt=PromptBuilder(
            "{{ question }}\n{% for pair in pairs %}Question: {{ pair.question }}\n"
            "Context: {{ pair.documents }}\n{% endfor %}"
        ),
        resolver=StructuredGenerator("Jon has three brothers; Sanna has two sisters."),
        reasoning_prompt=PromptBuilder(
            "{{ question }}\n{{ pairs }}\nReason about the final answer."
        ),
        reasoner=says("Jon has one more."),
    ).run(
        {
            name: {"question": SIBLINGS}
            for name in ("split_prompt", "pairs_prompt", "reasoning_prompt")
        }
    )


LONG = (
    "It was walled up in the year 1632, when the tower had burned, says the chronicle."
)


@app(
    f"{COOKBOOK}/prometheus2_evaluation.ipynb",
    Expected(
        FIRST, LONG, retrieved=FIRST, doubts=("answer_guessed",), hedged=("answer",)
    ),
)
def a_verdict_is_no_answer() -> None:
    made = rag(
        llm=says(LONG),
        check=PromptBuilder("Is this grounded? {{ replies[0].text }}"),
        judge=says("yes"),
    )
    made.connect("llm.replies", "check.replies")
    made.connect("check", "judge")
    made.run(asked())


@app(
    f"{COOKBOOK}/ai_sales_research_assistant.ipynb",
    Expected(FIRST, retrieved=FIRST, doubts=("answer_guessed",), hedged=("answer",)),
)
def further_questions_are_no_answer() -> None:
    made = rag(
        more=PromptBuilder("Ask further: {{ replies[0].text }}"),
        asking=says("1. Who did it?\n2. And why then?"),
    )
    made.connect("llm.replies", "more.replies")
    made.connect("more", "asking")
    made.run(asked())


PASSAGE = (
    "The east gate was closed for good in the year after the siege, because its tower"
    " was a ruin by then."
)


@app(
    f"{TUTORIALS}/27_First_RAG_Pipeline.ipynb",
    Expected(FIRST, TEXTS["mill"], retrieved=FIRST),
)
def a_model_that_quotes_a_whole_document() -> None:
    rag(llm=says(TEXTS["mill"])).run(asked())


@component
class Hypothetical:
    """Documents that a model writes only to be embedded."""

    def __init__(self) -> None:
        self.inner = connected(
            ("prompt", "generator"),
            ("generator.replies", "adapter.replies"),
            prompt=PromptBuilder("Write a paragraph that answers: {{ question }}"),
            generator=says(PASSAGE),
            adapter=OutputAdapter(
                "{{ replies | documents }}",
                list[Document],
                custom_filters={
                    "documents": lambda replies: [
                        Document(content=one.text) for one in replies
                    ]
                },
                unsafe=True,
            ),
        )

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, Any]:
        self.inner.run({"prompt": {"question": text}})
        return {"embedding": [1.0, 0.0]}


@app(
    f"{COOKBOOK}/using_hyde_for_improved_retrieval.ipynb",
    Expected(FIRST, retrieved=FIRST),
)
def hypothetical_documents_are_not_retrieved() -> None:
    rag(embedder=Hypothetical()).run(asked())


@component
class WebSearch:
    @component.output_types(documents=list[Document], links=list[str])
    def run(self, query: str) -> dict[str, Any]:
        documents = [Document(id=name, content=SHORT[name]) for name in SHORT]
        return {
            "documents": documents,
            "links": [f"https://{name}.example" for name in SHORT],
        }


def fallback(*replies: str) -> None:
    routes: Any = [
        {
            "condition": "{{ 'no_answer' in replies[0].text }}",
            "output": "{{ query }}",
            "output_name": "go_to_web",
            "output_type": str,
        },
        {
            "condition": "{{ 'no_answer' not in replies[0].text }}",
            "output": "{{ replies[0].text }}",
            "output_name": "answer",
            "output_type": str,
        },
    ]
    connected(
        *SEARCH,
        ("retriever.documents", "prompt.documents"),
        ("prompt.prompt", "joiner.value"),
        ("joiner.value", "llm.messages"),
        ("llm.replies", "router.replies"),
        ("router.go_to_web", "web.query"),
        ("router.go_to_web", "web_prompt.question"),
        ("web.documents", "web_prompt.documents"),
        ("web_prompt.prompt", "joiner.value"),
        **search(
            prompt=ChatPromptBuilder(user(LIST)),
            joiner=BranchJoiner(list[ChatMessage]),
            llm=says(*replies),
            router=ConditionalRouter(routes),
            web=WebSearch(),
            web_prompt=ChatPromptBuilder(user(f"From the web.\n{LIST}")),
        ),
    ).run(asked(router={"query": Q}))


@app(f"{COOKBOOK}/llama32_agentic_rag.ipynb", Expected(FIRST, retrieved=FIRST))
def a_fallback_not_taken() -> None:
    fallback(A)


@app(
    f"{COOKBOOK}/llama32_agentic_rag.ipynb",
    Expected(("brother", "sister"), retrieved=(*FIRST, "brother", "sister")),
)
def a_fallback_taken() -> None:
    fallback("no_answer", A)


@component
class CitingGenerator:
    """A generator with its own socket for documents."""

    @component.output_types(replies=list[str])
    def run(self, query: str, documents: list[Document]) -> dict[str, Any]:
        return {"replies": [A]}


@app(
    "deepset-ai/haystack-core-integrations: integrations/cohere",
    Expected(FIRST, retrieved=FIRST, doubts=("by_data_flow",)),
)
def a_generator_that_takes_documents() -> None:
    connected(
        *SEARCH,
        ("retriever.documents", "llm.documents"),
        **search(llm=CitingGenerator()),
    ).run({"embedder": {"text": Q}, "llm": {"query": Q}})


# Questions


@app(
    f"{DOCS}/pipeline-components/builders/promptbuilder.mdx",
    Expected(FIRST, retrieved=FIRST),
)
def a_template_at_run_time() -> None:
    made = connected(
        *SEARCH,
        ("retriever.documents", "prompt.documents"),
        ("prompt.prompt", "llm.messages"),
        **search(
            prompt=PromptBuilder("{{ documents }}", variables=["documents"]),
            llm=says(A),
        ),
    )
    template = (
        "Answer in one line.\n{% for one in documents %}{{ one.content }}\n{% endfor"
        " %}Query: {{ query }}"
    )
    made.run(
        {
            "embedder": {"text": Q},
            "prompt": {"template": template, "template_variables": {"query": Q}},
        }
    )


@app(
    f"{DOCS}/pipeline-components/builders/chatpromptbuilder.mdx",
    Expected(
        (),
        "It is on the Spree.",
        "What is the capital of Germany known for?",
        doubts=("no_search", "question_guessed"),
    ),
)
def a_question_that_is_the_template() -> None:
    connected(
        ("prompt.prompt", "llm.messages"),
        prompt=ChatPromptBuilder(variables=[]),
        llm=says("It is on the Spree."),
    ).run(
        {
            "prompt": {
                "template": [
                    ChatMessage.from_system("Answer in {{ language }}."),
                    ChatMessage.from_user(
                        "What is the capital of {{ country }} known for?"
                    ),
                ],
                "template_variables": {"language": "English", "country": "Germany"},
            }
        }
    )


@app(
    f"{TUTORIALS}/27_First_RAG_Pipeline.ipynb",
    Expected(FIRST, question="Gate", retrieved=FIRST),
)
def a_question_of_one_word() -> None:
    style = {"style": "plain words"}
    made = rag(
        "Answer in {{ style }}.\n" + LIST, other=PromptBuilder("Use {{ style }}.")
    )
    made.run(
        {
            "embedder": {"text": "Gate"},
            "prompt": {"question": "Gate", **style},
            "other": style,
        }
    )


@app(
    f"{COOKBOOK}/query_decomposition.ipynb",
    Expected(FIRST, "Yes", "Is the east gate walled up?", FIRST),
)
def a_question_that_only_the_rewriter_saw() -> None:
    made = rag(
        llm=says("Yes"),
        rewrite=PromptBuilder("Rewrite: {{ q }}"),
        rewriter=says("Is the east gate of Marburg walled up today?"),
        as_text=OutputAdapter("{{ replies[0].text }}", str),
    )
    for sender, receiver in (
        ("rewrite", "rewriter"),
        ("rewriter.replies", "as_text.replies"),
    ):
        made.connect(sender, receiver)
    for receiver in ("embedder.text", "prompt.question"):
        made.connect("as_text.output", receiver)
    made.run({"rewrite": {"q": "Is the east gate walled up?"}})


JAPANESE = "マールブルクの東門はいつ塞がれましたか"


@app(
    f"{COOKBOOK}/cohere-v3-for-multilingual-qa.ipynb",
    Expected(FIRST, question=JAPANESE, retrieved=FIRST),
)
def a_question_without_spaces() -> None:
    template = (
        "Be {{ tone }}.\n{% for one in documents %}{{ one.content }}\n{% endfor %}{{"
        " user_question }}"
    )
    made = rag(template, filled=OutputAdapter("query: {{ value_of_it }}", str))
    made.connect("filled.output", "embedder.text")
    made.run(
        {
            "filled": {"value_of_it": JAPANESE},
            "prompt": {"user_question": JAPANESE, "tone": "kind and short"},
        }
    )


# Earlier turns


@component
class MessageRetriever:
    """Puts the messages of a store before those of now."""

    def __init__(self, store: list[ChatMessage]) -> None:
        self.store = store

    @component.output_types(messages=list[ChatMessage])
    def run(
        self, current_messages: list[ChatMessage], chat_history_id: str
    ) -> dict[str, Any]:
        return {"messages": [*self.store, *current_messages]}


@component
class MessageWriter:
    def __init__(self, store: list[ChatMessage]) -> None:
        self.store = store

    @component.output_types(messages_written=int)
    def run(self, messages: list[ChatMessage], chat_history_id: str) -> dict[str, Any]:
        self.store.extend(messages)
        return {"messages_written": len(messages)}


AND_WHY = "And why was that done?"
TURN = (("user", Q), ("assistant", A))


@app(
    f"{TUTORIALS}/48_Conversational_RAG.ipynb",
    Expected(FIRST, "The tower had burned.", AND_WHY, FIRST, TURN),
)
def earlier_turns_from_a_store() -> None:
    store = [ChatMessage.from_user(Q), ChatMessage.from_assistant(A)]
    made = connected(
        *SEARCH,
        ("retriever.documents", "prompt.documents"),
        ("prompt.prompt", "memory.current_messages"),
        ("memory.messages", "llm.messages"),
        ("llm.replies", "writer.messages"),
        **search(
            prompt=ChatPromptBuilder(
                [ChatMessage.from_system("Be brief."), ChatMessage.from_user(LIST)]
            ),
            memory=MessageRetriever(store),
            llm=says("The tower had burned."),
            writer=MessageWriter(store),
        ),
    )
    session = {"chat_history_id": "session"}
    made.run(
        asked(AND_WHY, memory=session, writer=session),
        include_outputs_from={"retriever"},
    )


@app(
    f"{TUTORIALS}/48_Conversational_RAG.ipynb",
    Expected(FIRST, "The tower had burned.", AND_WHY, FIRST, TURN),
)
def earlier_turns_as_a_variable() -> None:
    template = (
        "{% for one in memories %}{{ one.role.value }}: {{ one.text }}\n{% endfor %}"
        + LIST
    )
    made = connected(
        *RAG,
        ("memory.messages", "prompt.memories"),
        ("rewriter.replies", "as_text.replies"),
        ("as_text.output", "embedder.text"),
        ("rewrite_prompt", "rewriter"),
        **search(
            memory=MessageRetriever(
                [ChatMessage.from_user(Q), ChatMessage.from_assistant(A)]
            ),
            rewrite_prompt=PromptBuilder("Rewrite: {{ question }}"),
            rewriter=says("Why was the east gate of Marburg walled up?"),
            as_text=OutputAdapter("{{ replies[0].text }}", str),
            prompt=PromptBuilder(template),
            llm=says("The tower had burned."),
        ),
    )
    memory = {"current_messages": [], "chat_history_id": "session"}
    made.run(
        {
            "rewrite_prompt": {"question": AND_WHY},
            "prompt": {"question": AND_WHY},
            "memory": memory,
        }
    )


INSERTED = """{% insert earlier %}{% message role="user" %}{% for one in documents %}{{ one.content }}
{% endfor %}Question: {{ question }}{% endmessage %}"""


@app(
    f"{DOCS}/pipeline-components/builders/chatpromptbuilder.mdx",
    Expected(FIRST, "The tower had burned.", AND_WHY, FIRST, TURN),
)
def earlier_turns_that_the_application_keeps() -> None:
    earlier = [ChatMessage.from_user(Q), ChatMessage.from_assistant(A)]
    made = rag(prompt=ChatPromptBuilder(INSERTED), llm=says("The tower had burned."))
    made.run(
        {
            "embedder": {"text": AND_WHY},
            "prompt": {"question": AND_WHY, "earlier": earlier},
        }
    )


# Several runs for one question


@app(
    f"{COOKBOOK}/feedback-analysis-agent-with-AzureAISearch.ipynb",
    Expected(FIRST, retrieved=FIRST),
)
def retrieval_and_answer_in_two_runs() -> None:
    retrieved = connected(*SEARCH, **search()).run({"embedder": {"text": Q}})[
        "retriever"
    ]["documents"]
    answering = connected(
        ("prompt.prompt", "llm.messages"),
        prompt=ChatPromptBuilder(user(LIST)),
        llm=says(A),
    )
    answering.run({"prompt": {"documents": retrieved, "question": Q}})


@app(
    f"{COOKBOOK}/improve-retrieval-by-embedding-metadata.ipynb",
    Expected(FIRST, None, Q, FIRST, doubts=("by_data_flow", "no_answer")),
    Expected(
        FIRST, None, "Who was the mason?", FIRST, doubts=("by_data_flow", "no_answer")
    ),
)
def retrieval_alone() -> None:
    made = connected(*SEARCH, **search())
    for question in (Q, "Who was the mason?"):
        made.run({"embedder": {"text": question}})


# Runs that pause, other tracers, bare threads


@app(
    f"{COOKBOOK}/hybrid_rag_pipeline_with_breakpoints.ipynb",
    Expected(FIRST, retrieved=FIRST),
)
def a_run_that_pauses() -> None:
    made = rag(answers=AnswerBuilder())
    made.connect("llm.replies", "answers.replies")
    snapshots = []
    for stop in (Breakpoint("prompt"), Breakpoint("answers")):
        with contextlib.suppress(BreakpointException):
            given = {} if snapshots else asked(answers={"query": Q})
            last = snapshots[-1] if snapshots else None
            made.run(
                given,
                break_point=stop,
                pipeline_snapshot=last,
                snapshot_callback=snapshots.append,
            )
    made.run({}, pipeline_snapshot=snapshots[-1])


@app(f"{COOKBOOK}/hybrid_rag_pipeline_with_breakpoints.ipynb", problem="waits")
def a_run_that_stays_paused() -> None:
    with contextlib.suppress(BreakpointException):
        rag().run(
            asked(),
            break_point=Breakpoint("llm"),
            snapshot_callback=lambda snapshot: None,
        )


@component
class Flaky:
    """A model that is down at first."""

    def __init__(self) -> None:
        self.calls = 0

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        self.calls += 1
        if self.calls == 1:
            raise ConnectionError("down")
        return {"replies": [ChatMessage.from_assistant(A)]}


def failing(resumed: Callable[[Pipeline, PipelineSnapshot], object]) -> None:
    made = rag(llm=Flaky())
    with pytest.raises(PipelineRuntimeError) as caught:
        made.run(asked())
    assert caught.value.pipeline_snapshot is not None
    resumed(made, caught.value.pipeline_snapshot)


@app(
    f"{DOCS}/concepts/pipelines/pipeline-breakpoints.mdx",
    Expected(FIRST, retrieved=FIRST),
)
def a_run_that_fails_and_is_resumed() -> None:
    failing(lambda made, snapshot: made.run({}, pipeline_snapshot=snapshot))


FAILED = Expected(FIRST, None, Q, FIRST, doubts=("broken",))


@app(f"{DOCS}/concepts/pipelines/pipeline-breakpoints.mdx", FAILED)
def a_run_that_fails() -> None:
    failing(lambda made, snapshot: None)


@app(
    f"{DOCS}/concepts/pipelines/pipeline-breakpoints.mdx",
    Expected(FIRST, retrieved=FIRST),
    FAILED,
)
def a_run_that_fails_and_is_tried_anew() -> None:
    failing(lambda made, snapshot: made.run(asked()))


HISTORY = (
    """{% insert earlier %}{% message role="user" %}{{ question }}{% endmessage %}"""
)


@app(
    f"{COOKBOOK}/agent-breakpoints.ipynb",
    Expected(("brother", "sister"), "Two.", AND_WHY, SEEN, TURN),
)
def an_agent_behind_a_breakpoint() -> None:
    """Earlier turns stay what they were; the answer is no part of them."""
    from haystack_apps_agents import agent, every, web_tool

    made = connected(
        ("prompt.prompt", "agent.messages"),
        ("agent.last_message", "answers.replies"),
        prompt=ChatPromptBuilder(HISTORY),
        agent=agent(web_tool(every), calls("web_search", query=Q), "Two."),
        answers=AnswerBuilder(),
    )
    snapshots: list[PipelineSnapshot] = []
    with contextlib.suppress(BreakpointException):
        given = {
            "prompt": {
                "question": AND_WHY,
                "earlier": [ChatMessage.from_user(Q), ChatMessage.from_assistant(A)],
            },
            "answers": {"query": AND_WHY},
        }
        made.run(
            given, break_point=Breakpoint("answers"), snapshot_callback=snapshots.append
        )
    made.run({}, pipeline_snapshot=snapshots[-1])


@app(
    f"{DOCS}/optimization/../development/tracing.mdx: enable_tracing",
    problem="another tracer",
)
def a_tracer_enabled_inside() -> None:
    tracing.enable_tracing(NullTracer())
    rag().run(asked())
    tracing.disable_tracing()


@app(
    "deepset-ai/haystack: issues/9203",
    Expected(FIRST, retrieved=FIRST),
    problem="threads",
)
def a_bare_thread() -> None:
    rag().run(asked())
    thread = threading.Thread(target=rag().run, args=(asked("Who was the mason?"),))
    thread.start()
    thread.join()


@app(
    "deepset-ai/haystack: issues/9203",
    Expected(FIRST, retrieved=FIRST),
    problem="runs began in threads",
)
def a_component_with_threads() -> None:
    """A pipeline that a component runs in a bare thread is left out, and said to be."""
    made = connected(
        ("many.documents", "prompt.documents"),
        ("prompt.prompt", "llm.messages"),
        many=Threaded(),
        prompt=ChatPromptBuilder(user(LIST)),
        llm=says(A),
    )
    made.run({"many": {"query": Q}, "prompt": {"question": Q}})


@component
class Threaded:
    def __init__(self) -> None:
        self.inner = connected(*SEARCH, embedder=FakeEmbedder(), retriever=found())

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        results: list[Document] = []

        def work() -> None:
            results.extend(
                self.inner.run({"embedder": {"text": query}})["retriever"]["documents"]
            )

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return {"documents": results}
