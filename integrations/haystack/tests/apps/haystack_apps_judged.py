"""Applications after public ones: a model reads what another one answered, or what is read is part of a reply."""

from __future__ import annotations

import re
from typing import Any

from haystack import component
from haystack.components.builders import ChatPromptBuilder
from haystack.components.converters import OutputAdapter
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.joiners import BranchJoiner
from haystack.components.routers import ConditionalRouter
from haystack.dataclasses import ChatMessage
from haystack_apps import A, Expected, Q, app, connected, found, says, user

TEXTS_OF = "{% for one in documents %}{{ one.content }}\n{% endfor %}"
CRITIQUE = (
    f"Judge the answer.\n{TEXTS_OF}\n{{{{ question }}}}\n{{{{ answer[0].text }}}}"
)
FIRST = ("gate", "mill")
ISSUP = '{"issup": "fully", "isuse": 5}'
SELF_RAG = "Self-RAG lesson: aula 8, 02_self_rag.py with _componentes.py"


def criticised(verdict: str, *, both: bool = True) -> None:
    pipeline = connected(
        ("embedder.embedding", "retriever.query_embedding"),
        ("retriever.documents", "prompt.documents"),
        ("prompt.prompt", "llm.messages"),
        ("retriever.documents", "critique.documents"),
        ("llm.replies", "critique.answer"),
        ("critique.prompt", "critic.messages"),
        embedder=Embedder(),
        retriever=found(2),
        prompt=ChatPromptBuilder(user(f"{TEXTS_OF}Question: {{{{ question }}}}")),
        llm=says(A),
        critique=ChatPromptBuilder(user(CRITIQUE)),
        critic=says(verdict),
    )
    pipeline.run(
        {
            "embedder": {"text": Q},
            "prompt": {"question": Q},
            "critique": {"question": Q},
        },
        include_outputs_from={"llm", "critic"} if both else set(),
    )


@component
class Embedder:
    """Every query is the same to it."""

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, Any]:
        return {"embedding": [1.0, 0.0]}


@app(
    SELF_RAG,
    Expected(
        FIRST,
        retrieved=FIRST,
        doubts=("answer_guessed", "which_turn"),
        hedged=("answer",),
    ),
)
def a_critic_with_the_fields_of_self_rag() -> None:
    criticised(ISSUP)


@app(
    SELF_RAG,
    Expected(FIRST, retrieved=FIRST, answer="5", doubts=("answer_guessed",)),
)
def a_critic_with_a_number() -> None:
    criticised("5", both=False)


@app(
    SELF_RAG,
    Expected(
        FIRST,
        retrieved=FIRST,
        doubts=("answer_guessed", "which_turn"),
        hedged=("answer",),
    ),
)
def a_critic_with_a_word() -> None:
    criticised("Grounded.")


REMARK = "A resposta tem suporte."


@app(
    SELF_RAG,
    Expected(FIRST, retrieved=FIRST, answer=REMARK, doubts=("which_turn",)),
)
def a_critic_with_a_sentence_beside_the_answer() -> None:
    criticised(REMARK)


@app(SELF_RAG, Expected(FIRST, retrieved=FIRST, answer=REMARK))
def a_pipeline_that_gives_the_last_text_alone() -> None:
    """Nothing but that is its output: it may be a revision."""
    criticised(REMARK, both=False)


def last_action(messages: list[ChatMessage]) -> list[str]:
    return list(re.findall(r"Action: (\w+)\[(.*?)\]", messages[-1].text or "")[-1])


def told(last: ChatMessage, asked: list[ChatMessage], end: str) -> list[ChatMessage]:
    return [ChatMessage.from_user(f"{asked[-1].text}{last.text}{end}")]


def observed(messages: list[ChatMessage]) -> list[ChatMessage]:
    return [ChatMessage.from_assistant(f"Observation: {messages[-1].text}\n")]


def adapter(template: str, kind: Any, **filters: Any) -> OutputAdapter:
    return OutputAdapter(template, kind, custom_filters=filters, unsafe=True)


def route(name: str) -> dict[str, Any]:
    return {
        "condition": "{{ action[0] == '" + name + "' }}",
        "output": "{{ action[1] }}",
        "output_name": name,
        "output_type": str,
    }


def reacting(*steps: str, top_k: int) -> None:
    messages = list[ChatMessage]
    texts = {} if top_k == 0 else None
    connected(
        ("loop", "llm.messages"),
        ("llm.replies", "after.replies"),
        ("loop", "after.asked"),
        ("after", "act.messages"),
        ("act", "router.action"),
        ("router.search", "embedder.text"),
        ("embedder.embedding", "retriever.query_embedding"),
        ("retriever.documents", "ask.documents"),
        ("router.search", "ask.query"),
        ("ask", "observer.messages"),
        ("router.finish", "final.answer"),
        ("observer.replies", "seen.replies"),
        ("seen", "again.replies"),
        ("after", "again.asked"),
        ("again", "loop"),
        loop=BranchJoiner(messages),
        llm=MockChatGenerator([*steps]),
        after=adapter("{{ replies[-1] | told(asked, '') }}", messages, told=told),
        act=adapter("{{ messages | act }}", list[str], act=last_action),
        router=ConditionalRouter([route("search"), route("finish")]),
        embedder=Embedder(),
        retriever=found(max(top_k, 1), texts),
        ask=ChatPromptBuilder(
            user(f"Given these results:{TEXTS_OF}\nAnswer: {{{{ query }}}}")
        ),
        observer=says("No results."),
        seen=adapter("{{ replies | observed }}", messages, observed=observed),
        again=adapter(
            "{{ replies[-1] | told(asked, 'Thought:') }}", messages, told=told
        ),
        final=adapter("{{ answer }}", str),
    ).run({"loop": {"value": user(Q)}})


NOT_FOUND = "I could not find it in the town's records"


@app(
    "ray_haystack: ReAct pipeline",
    Expected(
        (),
        retrieved=(),
        answer=NOT_FOUND,
        doubts=("answer_guessed",),
        hedged=("answer",),
    ),
)
def a_loop_that_parses_the_last_reply() -> None:
    reacting(
        "Thought: I search.\nAction: search[gate of Marburg]\n",
        f"Thought: nothing.\nAction: finish[{NOT_FOUND}]",
        top_k=0,
    )


@component
class Kept:
    """haystack-experimental's retriever of chat messages."""

    def __init__(self, kept: list[ChatMessage]) -> None:
        self.kept = kept

    @component.output_types(messages=list[ChatMessage])
    def run(self, current_messages: list[ChatMessage]) -> dict[str, Any]:
        return {"messages": [*self.kept, *current_messages]}


@component
class Keeping:
    """haystack-experimental's writer of chat messages."""

    def __init__(self, kept: list[ChatMessage]) -> None:
        self.kept = kept

    @component.output_types(messages_written=int)
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        self.kept.extend(messages)
        return {"messages_written": len(messages)}


SAID = ["It was walled up in 1632.", "A flood did.", "In 1632, as I said."]
ASKED = [Q, "What broke the wheel of the mill?", Q]


def turns(count: int) -> list[tuple[str, str]]:
    """What was said so far: the question in the user's words, though its prompt is kept."""
    said = zip(ASKED[:count], SAID[:count], strict=True)
    return [
        turn
        for question, answer in said
        for turn in (("user", question), ("assistant", answer))
    ]


@app(
    "admission chat of the Financial University: a store of chat messages",
    *(
        Expected(
            ("gate",),
            SAID[n],
            ASKED[n],
            retrieved=("gate",),
            history=turns(n),
            doubts=((), ("history_unread",), ("quoted", "history_unread"))[n],
            hedged=("history",) if n else (),
        )
        for n in range(3)
    ),
)
def a_question_that_is_asked_again() -> None:
    kept: list[ChatMessage] = []
    pipeline = connected(
        ("embedder.embedding", "retriever.query_embedding"),
        ("retriever.documents", "prompt.documents"),
        ("prompt", "before.current_messages"),
        ("prompt", "join.prompt"),
        ("before", "llm.messages"),
        ("llm.replies", "join.replies"),
        ("join", "writer"),
        embedder=Embedder(),
        retriever=found(1),
        prompt=ChatPromptBuilder(user(f"{TEXTS_OF}Question: {{{{ question }}}}")),
        before=Kept(kept),
        llm=says(*SAID),
        join=adapter("{{ prompt + replies }}", list[ChatMessage]),
        writer=Keeping(kept),
    )
    for question in ASKED:
        pipeline.run(
            {"embedder": {"text": question}, "prompt": {"question": question}},
            include_outputs_from={"llm"},
        )
