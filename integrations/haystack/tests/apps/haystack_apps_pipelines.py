"""Applications after public ones: pipelines."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest
from haystack import Document, Pipeline, component, tracing
from haystack.components.builders import AnswerBuilder, ChatPromptBuilder, PromptBuilder
from haystack.components.converters import OutputAdapter
from haystack.components.joiners import BranchJoiner
from haystack.components.routers import ConditionalRouter
from haystack.core.errors import BreakpointException, PipelineRuntimeError
from haystack.dataclasses import ChatMessage
from haystack.dataclasses.breakpoints import Breakpoint, PipelineSnapshot
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
    Q,
    app,
    connected,
    found,
    says,
    search,
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


def rag(template: str = LIST, top_k: int = 3, **more: Any) -> Any:
    parts = search(top_k, prompt=ChatPromptBuilder(user(template)), llm=says(A))
    return connected(*RAG, **{**parts, **more})


def asked(question: str = Q, prompt: str = "question", **more: Any) -> dict[str, Any]:
    return {"embedder": {"text": question}, "prompt": {prompt: question}, **more}


# 13 of them


@component
class Wiki:
    """A source of texts alone: only ``contexts_from`` tells that they are evidence."""

    @component.output_types(passages=list[str])
    def run(self, query: str) -> dict[str, Any]:
        return {"passages": [TEXTS["gate"], TEXTS["mill"]]}


TEXTS_OF = "{% for one in texts %}- {{ one }}\n{% endfor %}Question: {{ question }}"


@app(
    f"{COOKBOOK}/hackernews-custom-component-rag.ipynb",
    Expected((), retrieved=None, doubts=("no_search",)),
)
def passages_without_documents() -> None:
    connected(
        ("wiki.passages", "prompt.texts"),
        ("prompt.prompt", "llm.messages"),
        wiki=Wiki(),
        prompt=ChatPromptBuilder(user(TEXTS_OF)),
        llm=says(A),
    ).run({"wiki": {"query": Q}, "prompt": {"question": Q}})


@component
class Fetcher:
    @component.output_types(articles=list[Document])
    def run(self, last_k: int) -> dict[str, Any]:
        return {
            "articles": [Document(id=name, content=SHORT[name]) for name in SHORT][
                :last_k
            ]
        }


# Answers


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
        ("brother", "sister"),
        "Jon has one more.",
        SIBLINGS,
        ("brother", "sister"),
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


PASSAGE = (
    "The east gate was closed for good in the year after the siege, because its tower"
    " was a ruin by then."
)


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


def fallback(*replies: str, template: str = LIST) -> None:
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
            prompt=ChatPromptBuilder(user(template)),
            joiner=BranchJoiner(list[ChatMessage]),
            llm=says(*replies),
            router=ConditionalRouter(routes),
            web=WebSearch(),
            web_prompt=ChatPromptBuilder(user(f"From the web.\n{template}")),
        ),
    ).run(asked(router={"query": Q}))


@app(
    f"{COOKBOOK}/llama32_agentic_rag.ipynb",
    Expected(("brother", "sister"), retrieved=(*FIRST, "brother", "sister")),
)
def a_fallback_taken() -> None:
    fallback("no_answer", A)


OR_ELSE = f"{LIST}\nIf the documents do not tell, say 'no_answer'."


@app(
    f"{TUTORIALS}/36_Building_Fallbacks_with_Conditional_Routing.ipynb",
    Expected(("brother", "sister"), retrieved=(*FIRST, "brother", "sister")),
)
def a_fallback_whose_prompt_repeats_an_instruction() -> None:
    fallback("no_answer", A, template=OR_ELSE)


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
