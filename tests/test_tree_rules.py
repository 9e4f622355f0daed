"""The rules on the neutral tree of calls: which call answered, what it was shown, how sure that is."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core.capture import (
    Answer,
    Document,
    Message,
    Node,
    ToolCall,
    Tree,
    samples_of,
)
from ragmetrics_core.capture.plain_values import Overrides
from ragmetrics_core.capture.turns import Turns
from ragmetrics_core.data import RowError
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.data.sample import Turn as Said

QUESTION = "Which city lies on the Douro?"
ANSWER = "It is Porto, in the north."
PORTO = (
    "Porto lies on the Douro, in the north of Portugal, and gave the country its name."
)
FARO = (
    "Faro is the southernmost city of Portugal; its airport serves the whole of the"
    " Algarve."
)
EVORA = (
    "Évora keeps a Roman temple and a chapel built of bones inside its medieval walls."
)
DOCS = tuple(
    Document(text, name) for text, name in ((PORTO, "p"), (FARO, "f"), (EVORA, "e"))
)


class Clock:
    """Nodes that begin and end one after the other."""

    def __init__(self) -> None:
        self.now = itertools.count(1)

    def node(self, kind: Any, *inside: Callable[[], Node], **fields: Any) -> Node:
        node = Node(kind, fields.pop("name", kind), next(self.now), **fields)
        node.children = [make() for make in inside]
        node.ended = next(self.now)
        return node


def retriever(
    clock: Clock, *docs: Document, query: str = QUESTION, **fields: Any
) -> Callable[[], Node]:
    return lambda: clock.node("retriever", query=query, documents=docs, **fields)


def model(
    clock: Clock,
    prompt: str | list[Message],
    reply: str | Message = ANSWER,
    **fields: Any,
) -> Callable[[], Node]:
    shown = (Message("user", prompt),) if isinstance(prompt, str) else tuple(prompt)
    said = Message("assistant", reply) if isinstance(reply, str) else reply
    return lambda: clock.node("model", prompt=shown, reply=said, model="m", **fields)


def tool(
    clock: Clock, text: str, *inside: Callable[[], Node], **fields: Any
) -> Callable[[], Node]:
    return lambda: clock.node("tool", *inside, text=text, **fields)


def step(clock: Clock, *docs: Document, **fields: Any) -> Callable[[], Node]:
    return lambda: clock.node("step", documents=docs, **fields)


def asked(context: str) -> str:
    return f"Use only this:\n{context}\n\nQuestion: {QUESTION}"


def tree(clock: Clock, *inside: Callable[[], Node], **fields: Any) -> Tree:
    root = clock.node(
        "step", *inside, name="chain", input_documents=fields.pop("input_documents", ())
    )
    return Tree(
        root,
        question=fields.pop("question", QUESTION),
        question_place="input",
        **fields,
    )


@dataclass(frozen=True)
class Row:
    """What a tree must give; ``retrieved`` in ids, ``contexts`` in texts.

    ``doubts`` are the codes of all that is uncertain, and ``hedged`` the fields that may
    be wrong for that reason.
    """

    made: Callable[[Clock], Tree]
    contexts: list[str]
    answer: str | None = ANSWER
    doubts: tuple[str, ...] = ()
    hedged: tuple[str, ...] = ()
    retrieved: list[str | None] | None = field(default_factory=lambda: ["p", "f", "e"])
    where: Overrides = field(default_factory=Overrides)


def _with_author(clock: Clock, said: str) -> Tree:
    """A nested engine whose short answer is handed on as a document."""
    inner = clock.node(
        "agent", retriever(clock, DOCS[0]), model(clock, asked(PORTO), said), text=said
    )
    handed = (Document(f"Question: Porto?\nAnswer: {said}", "x"),)
    outer = [
        lambda: inner,
        lambda: clock.node(
            "step",
            model(clock, f"{handed[0].text}\n{QUESTION}"),
            input_documents=handed,
        ),
    ]
    return tree(clock, *outer, answers=SAYS)


def _ranked(clock: Clock) -> Tree:
    """A step that asks of each document at once, and takes the answer of the best score."""
    found = (DOCS[1], DOCS[0])
    one = model(
        clock, asked(FARO), "This document does not answer the question.\nScore: 0"
    )()
    two = model(clock, asked(PORTO), f"{ANSWER}\nScore: 100")()
    one.ended, two.ended = 4.5, 5.5
    one.began, two.began = 4.1, 4.2
    host = Node("step", "map_rerank", 4, 6, [one, two], input_documents=found)
    return Tree(
        Node(
            "step",
            "chain",
            1,
            7,
            [
                Node("retriever", "retriever", 2, 3, query=QUESTION, documents=found),
                host,
            ],
        ),
        question=QUESTION,
        answers=SAYS,
    )


def _arrived_as_the_call_began(clock: Clock) -> Tree:
    """Two searches; the second ends at the moment, as coarse clocks tell it, at which the model is called."""
    first = Node("retriever", "retriever", 2, 3, query=QUESTION, documents=DOCS[:1])
    second = Node("retriever", "retriever", 3, 4, query=QUESTION, documents=DOCS[1:2])
    call = model(clock, asked(f"{PORTO}\n{FARO}"))()
    call.began, call.ended = 4, 5
    return Tree(
        Node("step", "chain", 1, 6, [first, second, call]),
        question=QUESTION,
        answers=SAYS,
    )


HALF = PORTO[:50]
LONGER = PORTO + " Its wine cellars stand across the river, in Gaia."
NOTE = "Porto is the city on the Douro; it lies in the north."
SAYS = (Answer(ANSWER, "output"),)
CALL = Message("assistant", "", (ToolCall("search", {"query": "Douro"}, "1"),))
GRADED = Message("assistant", '{"binary_score": "yes"}')
RATED = tuple(
    Document(one.text, one.id, score)
    for one, score in zip(reversed(DOCS), (0.9, 0.8, 0.7), strict=True)
)

SEVERAL = (
    "the outputs hold several texts of models; the last that was shown documents, else"
    " the question, is taken"
)
UNLIKE = (
    "no reply equals the answer; it is taken to rest on the last call that wrote a text"
)
UNNAMED = (
    "tool search returned text without documents; if that was searched for, make it"
    ' contexts by context_tools={"search"}; if not, name there the tools that do search,'
    " or context_tools=set() where none does"
)
BETTER = "Which of the Portuguese cities lies on the river Douro?"
BESIDE = (
    "1 of 2 retrieved documents were shown to calls beside the answering call, which"
    " were asked the same; they are not among the contexts"
)
DOUBTFUL_BESIDE = (
    "1 of 2 retrieved documents were shown to other calls alone, of which it is not"
    " known whether they answered; they are not among the contexts"
)
STATUS = (Answer("Generated response with context", "the last message"),)


def _reranked(
    clock: Clock, taken: tuple[Document, ...], documents: tuple[Document, ...]
) -> Callable[[], Node]:
    return lambda: clock.node("reranker", input_documents=taken, documents=documents)


ROWS: dict[str, Row] = {
    "rerankers beside each other, of another framework's model": Row(
        # monkey30440/agentic-rag-with-llama-index-workflows, workflow.py
        lambda c: tree(
            c,
            retriever(c, *DOCS[:2], query="Douro"),
            _reranked(c, DOCS[:2], DOCS[:1]),
            retriever(c, DOCS[2], query="Évora"),
            _reranked(c, DOCS[2:], DOCS[2:]),
            answers=SAYS,
        ),
        [PORTO, EVORA],
        doubts=("by_data_flow",),
    ),
    "rerankers beside each other, of searches that found the same": Row(
        # monkey30440/agentic-rag-with-llama-index-workflows, workflow.py
        lambda c: tree(
            c,
            retriever(c, *DOCS, query="Douro"),
            _reranked(c, DOCS, DOCS[:1]),
            retriever(c, *DOCS, query="Évora"),
            _reranked(c, DOCS, DOCS[1:]),
            answers=SAYS,
        ),
        [FARO, EVORA],  # the second one may have worked on what the first one gave
        doubts=("by_data_flow",),
    ),
    "a reranker behind another, with more than that gave": Row(
        # a search of the web is added between the two
        lambda c: tree(
            c,
            retriever(c, *DOCS[:2]),
            _reranked(c, DOCS[:2], DOCS[:1]),
            _reranked(c, (DOCS[0], DOCS[2]), DOCS[2:]),
            answers=SAYS,
        ),
        [EVORA],
        doubts=("by_data_flow",),
        hedged=("retrieved",),
    ),
    "a page whose only piece of a later step it holds": Row(
        lambda c: tree(
            c,
            retriever(c, DOCS[0]),
            _reranked(c, DOCS[:1], (Document(HALF, "half"),)),
            model(c, asked(PORTO)),
            answers=SAYS,
        ),
        [PORTO],
        retrieved=["p"],
        doubts=("in_part",),
        hedged=("contexts",),
    ),
    "a grader was shown what the prompt may hold": Row(
        # short texts without a space between them
        lambda c: tree(
            c,
            retriever(c, Document("Porto", "p"), Document("Faro", "f")),
            model(c, "Document:\nPorto\n\nRelevant?", "yes"),
            model(c, "PortoFaro"),
            answers=SAYS,
        ),
        ["Porto", "Faro"],
        retrieved=["p", "f"],
        doubts=("by_data_flow",),
    ),
    "rerankers one behind the other": Row(
        lambda c: tree(
            c,
            retriever(c, *DOCS),
            _reranked(c, DOCS, DOCS[:2]),
            _reranked(c, DOCS[:2], (Document(HALF),)),
            _reranked(c, (Document(HALF),), (Document(HALF),)),
            answers=SAYS,
        ),
        [HALF],
        doubts=("by_data_flow",),
    ),
    "a filter in plain code between two rerankers": Row(
        lambda c: tree(
            c,
            retriever(c, *DOCS),
            _reranked(c, DOCS, DOCS[:2]),
            _reranked(c, DOCS[:1], DOCS[:1]),
            answers=SAYS,
        ),
        [PORTO],
        doubts=("by_data_flow",),
    ),
    "plain": Row(
        lambda c: tree(
            c,
            retriever(c, *DOCS),
            model(c, asked(f"{PORTO}\n{FARO}\n{EVORA}")),
            answers=SAYS,
        ),
        [PORTO, FARO, EVORA],
    ),
    "repr of a list": Row(
        lambda c: tree(
            c,
            retriever(c, *DOCS),
            model(c, asked(repr([one.text for one in DOCS]))),
            answers=SAYS,
        ),
        [PORTO, FARO, EVORA],
    ),
    "order of the prompt": Row(
        lambda c: tree(
            c,
            retriever(c, *DOCS),
            model(c, asked(f"{EVORA}\n{PORTO}\n{FARO}")),
            answers=SAYS,
        ),
        [EVORA, PORTO, FARO],
    ),
    "one of three": Row(
        lambda c: tree(c, retriever(c, *DOCS), model(c, asked(FARO)), answers=SAYS),
        [FARO],
    ),
    "cut": Row(
        lambda c: tree(c, retriever(c, DOCS[0]), model(c, asked(HALF)), answers=SAYS),
        [HALF.rstrip(",")],
        retrieved=["p"],
    ),
    "by data flow": Row(
        lambda c: tree(
            c, retriever(c, *DOCS), model(c, asked("a summary")), answers=SAYS
        ),
        [PORTO, FARO, EVORA],
        doubts=("by_data_flow",),
    ),
    "data flow of the framework": Row(
        lambda c: tree(
            c,
            retriever(c, *DOCS),
            model(c, "?"),
            answers=SAYS,
            flow_documents=DOCS[:1],
        ),
        [PORTO],
        doubts=("by_data_flow",),
    ),
    "nothing found": Row(
        lambda c: tree(c, retriever(c), model(c, asked("")), answers=SAYS),
        [],
        retrieved=[],
    ),
    "no answer": Row(
        lambda c: tree(c, retriever(c, *DOCS), gives_only_documents=True),
        [PORTO, FARO, EVORA],
        answer=None,
        doubts=("by_data_flow", "no_answer"),
    ),
    "scored by the last step": Row(
        lambda c: tree(
            c,
            retriever(c, *DOCS),
            step(c, *RATED),
            model(c, asked(EVORA + PORTO)),
            answers=SAYS,
        ),
        [EVORA, PORTO],
    ),
    "the last list arrived as the call began": Row(
        _arrived_as_the_call_began, [PORTO, FARO], retrieved=["p", "f"]
    ),
    "version of a step": Row(
        lambda c: tree(
            c,
            retriever(c, DOCS[0]),
            step(c, Document(LONGER, "p")),
            model(c, asked(LONGER)),
            answers=SAYS,
        ),
        [LONGER],
        retrieved=["p"],
    ),
    "one of several texts of a node": Row(
        lambda c: tree(
            c,
            retriever(c, Document(PORTO, "p", forms=(LONGER, "title: Porto"))),
            model(c, asked(LONGER)),
            answers=SAYS,
        ),
        [LONGER],
        retrieved=["p"],
    ),
    # the other text is shorter, and no part of the one that is shown
    "the end of one of several texts of a node": Row(
        lambda c: tree(
            c,
            retriever(c, Document(PORTO, "p", forms=("A city in Portugal.",))),
            model(c, asked(PORTO[PORTO.index("in the north") :])),
            answers=SAYS,
        ),
        [PORTO[PORTO.index("in the north") :]],
        retrieved=["p"],
    ),
    "unknown between its neighbours": Row(
        lambda c: tree(
            c,
            retriever(c, DOCS[0], Document("Porto", "s"), DOCS[1]),
            model(c, asked(f"{PORTO} so Porto it is. {FARO}")),
            answers=SAYS,
        ),
        [PORTO, "Porto", FARO],
        doubts=("short_text",),
        retrieved=["p", "s", "f"],
    ),
    "refine": Row(
        lambda c: tree(
            c,
            retriever(c, *DOCS),
            model(c, asked(PORTO), NOTE),
            model(
                c,
                f"Given {NOTE} and\n{FARO}\nanswer {QUESTION}",
                NOTE + " Faro does not.",
            ),
            model(c, f"Given {NOTE} Faro does not. and\n{EVORA}\nanswer {QUESTION}"),
            answers=SAYS,
        ),
        [PORTO, FARO, EVORA],
    ),
    "map and reduce": Row(
        lambda c: tree(
            c,
            retriever(c, *DOCS[:2]),
            model(c, asked(FARO), "Faro does not, being in the Algarve."),
            model(c, asked(PORTO), NOTE),
            model(
                c, f"Notes:\nFaro does not, being in the Algarve.\n{NOTE}\n{QUESTION}"
            ),
            answers=SAYS,
        ),
        [FARO, PORTO],
        retrieved=["p", "f"],
    ),
    "an unrelated call feeds nothing": Row(
        lambda c: tree(
            c,
            retriever(c, *DOCS),
            model(c, f"Title for {EVORA}", "The bones of Évora and other tales"),
            model(c, asked(PORTO)),
            answers=SAYS,
        ),
        [PORTO],
        doubts=("further_call",),
    ),
    "grader after the answer": Row(
        lambda c: tree(
            c,
            retriever(c, DOCS[0]),
            model(c, asked(PORTO)),
            model(c, f"{PORTO} {ANSWER}", GRADED),
            output=None,
        ),
        [PORTO],
        retrieved=["p"],
    ),
    "a label is no answer where a text is": Row(
        lambda c: tree(
            c,
            retriever(c, DOCS[0]),
            model(c, asked(PORTO)),
            model(c, f"Grounded? {PORTO}", "yes"),
        ),
        [PORTO],
        retrieved=["p"],
    ),
    "a rewrite steers": Row(
        lambda c: tree(
            c,
            model(c, f"Rewrite: {QUESTION}", "Portuguese city on the river Douro"),
            retriever(c, DOCS[0], query="Portuguese city on the river Douro"),
        ),
        [PORTO],
        answer=None,
        doubts=("by_data_flow", "no_answer"),
        retrieved=["p"],
    ),
    "answers are equal, never inside": Row(
        lambda c: tree(
            c,
            retriever(c, *DOCS[:2]),
            model(
                c, asked(PORTO), "A text about Porto, in which the word north stands."
            ),
            model(c, asked(FARO), "north"),
            answers=(Answer("north", "output"),),
        ),
        [FARO],
        answer="north",
        retrieved=["p", "f"],
        doubts=("further_call",),
    ),
    "the same words twice in the output": Row(
        lambda c: tree(
            c,
            retriever(c, DOCS[0]),
            model(c, asked(PORTO)),
            retriever(c, DOCS[1]),
            model(c, asked(FARO)),
            output=[ANSWER, ANSWER],
        ),
        [FARO],
        doubts=("answer_guessed", "further_call"),
        retrieved=["p", "f"],
    ),
    "an answer and its title in the output": Row(
        lambda c: tree(
            c,
            retriever(c, DOCS[0]),
            model(c, asked(PORTO)),
            model(c, f"Title for: {ANSWER}", "The city on the Douro, in short"),
            output={"reply": ANSWER, "heading": "The city on the Douro, in short"},
        ),
        [PORTO],
        doubts=("answer_guessed",),
        retrieved=["p"],
    ),
    "structured answer": Row(
        lambda c: tree(
            c,
            retriever(c, DOCS[0]),
            model(
                c,
                asked(PORTO),
                Message(
                    "assistant",
                    "",
                    (ToolCall("Cited", {"answer": ANSWER, "pages": [1]}),),
                ),
            ),
        ),
        [PORTO],
        retrieved=["p"],
    ),
    "changed after the call": Row(
        lambda c: tree(
            c,
            retriever(c, DOCS[0]),
            model(c, asked(PORTO), ANSWER.upper()),
            answers=SAYS,
        ),
        [PORTO],
        retrieved=["p"],
    ),
    "cut as frameworks do": Row(
        lambda c: tree(
            c,
            retriever(c, DOCS[0]),
            model(
                c,
                asked(PORTO),
                f"I know it.\nFinal Answer: {ANSWER}\nSOURCES: porto.txt",
            ),
            answers=SAYS,
        ),
        [PORTO],
        retrieved=["p"],
    ),
    "a status line that no model wrote": Row(
        lambda c: tree(
            c,
            retriever(c, DOCS[0]),
            model(c, asked(PORTO)),
            answers=STATUS,
            output={
                "messages": [Message("assistant", STATUS[0].text or "")],
                "final_answer": ANSWER,
            },
        ),
        [PORTO],
        retrieved=["p"],
        doubts=("writer_guessed",),
        hedged=("answer",),
    ),
    "a message that a step changed, beside a rewrite": Row(
        lambda c: tree(
            c,
            model(c, f"Improve: {QUESTION}", BETTER),
            retriever(c, DOCS[0]),
            model(c, asked(PORTO)),
            answers=(Answer(ANSWER.upper()),),
            output={
                "better": BETTER,
                "messages": [Message("assistant", ANSWER.upper())],
            },
        ),
        [PORTO],
        answer=ANSWER.upper(),
        retrieved=["p"],
    ),
    "a rewrite and the answer among the messages": Row(
        lambda c: tree(
            c,
            model(c, f"Improve: {QUESTION}", BETTER),
            retriever(c, DOCS[0]),
            model(c, asked(PORTO), "Porto."),
            output={
                "messages": [
                    Message("user", QUESTION),
                    Message("assistant", BETTER),
                    Message("user", "Porto."),
                ]
            },
        ),
        [PORTO],
        answer="Porto.",
        retrieved=["p"],
        doubts=("answer_guessed",),
    ),
    "a title of the question in the output": Row(
        lambda c: tree(
            c,
            retriever(c, DOCS[0]),
            model(c, asked(PORTO)),
            model(c, f"Title for: {QUESTION}", "The city on the Douro, in short"),
            output={"draft": ANSWER, "title": "The city on the Douro, in short"},
        ),
        [PORTO],
        doubts=("answer_guessed", "by_data_flow"),
        hedged=("answer",),
        retrieved=["p"],
    ),
    "one answer for each document, the best of them": Row(
        lambda c: _ranked(c),
        [PORTO],
        retrieved=["f", "p"],
    ),
    "tool loop": Row(
        lambda c: tree(
            c,
            model(c, QUESTION, CALL),
            tool(c, PORTO, retriever(c, *DOCS[:2], query="Douro"), tool_call_id="1"),
            model(c, [Message("user", QUESTION), CALL, Message("tool", PORTO)]),
            answers=SAYS,
        ),
        [PORTO],
        retrieved=["p", "f"],
    ),
    "text of a tool": Row(
        lambda c: tree(
            c,
            model(c, QUESTION, CALL),
            tool(c, PORTO, name="search"),
            model(c, [Message("user", QUESTION), CALL, Message("tool", PORTO)]),
            answers=SAYS,
            is_always_a_sample=True,
        ),
        [],
        doubts=("tool_text",),
        retrieved=None,
    ),
    "text of a tool named as context": Row(
        lambda c: tree(
            c,
            model(c, QUESTION, CALL),
            tool(c, PORTO, name="search"),
            model(c, [Message("user", QUESTION), CALL, Message("tool", PORTO)]),
            answers=SAYS,
        ),
        [PORTO],
        retrieved=None,
        where=Overrides(context_tools={"search"}),
        doubts=("undivided",),
        hedged=("retrieved",),
    ),
    "sub-agent": Row(
        lambda c: tree(
            c,
            model(c, QUESTION, CALL),
            tool(
                c,
                "Porto",
                retriever(c, *DOCS[:2]),
                model(c, asked(FARO + PORTO), "Porto"),
                name="search",
            ),
            model(c, [Message("user", QUESTION), CALL, Message("tool", "Porto")]),
            answers=SAYS,
        ),
        [FARO, PORTO],
        retrieved=["p", "f"],
        doubts=("short_reply",),
    ),
    "answers to sub-questions are no documents": Row(
        lambda c: tree(
            c,
            lambda: c.node(
                "agent",
                retriever(c, DOCS[0]),
                model(c, asked(PORTO), NOTE),
                query="Douro?",
                text=NOTE,
                name="engine",
            ),
            step(c, Document(f"Sub question: Douro?\nResponse: {NOTE}", "x")),
            model(c, f"Context:\nSub question: Douro?\nResponse: {NOTE}\n{QUESTION}"),
            answers=SAYS,
        ),
        [PORTO],
        retrieved=["p"],
    ),
    "what a nested engine wrote, by the framework's word": Row(
        lambda c: _with_author(c, "Yes."),
        [PORTO],
        retrieved=["p"],
    ),
    "refine with short drafts": Row(
        lambda c: tree(
            c,
            retriever(c, *DOCS),
            lambda: c.node(
                "step",
                model(c, asked(PORTO), "Porto."),
                model(c, f"Existing answer: Porto. New context: {FARO}", "Porto!"),
                model(c, f"Existing answer: Porto! New context: {EVORA}"),
                input_documents=DOCS,
            ),
            answers=SAYS,
        ),
        [PORTO, FARO, EVORA],
    ),
    "one document in two packs that overlap": Row(
        lambda c: tree(
            c,
            retriever(c, DOCS[0]),
            lambda: c.node(
                "step",
                model(c, asked(PORTO[:60]), "Porto."),
                model(c, f"Existing answer: Porto. New context: {PORTO[40:]}"),
                input_documents=DOCS[:1],
            ),
            answers=SAYS,
        ),
        [PORTO],
        retrieved=["p"],
    ),
    "texts handed on without their ids": Row(
        lambda c: tree(
            c,
            retriever(c, *DOCS[:2]),
            lambda: c.node(
                "step",
                model(c, asked(f"{FARO}\n{PORTO}")),
                input_documents=(Document(FARO), Document(PORTO)),
            ),
            answers=SAYS,
        ),
        [FARO, PORTO],
        retrieved=["p", "f"],
    ),
    "inside of a shown one": Row(
        lambda c: tree(
            c,
            retriever(c, DOCS[0], DOCS[1]),
            retriever(
                c,
                Document(f"{PORTO}\nThe web knows nothing else about it.", "w"),
                query="web",
            ),
            model(c, asked(f"{PORTO}\nThe web knows nothing else about it.")),
            answers=SAYS,
        ),
        [f"{PORTO}\nThe web knows nothing else about it."],
        retrieved=["p", "f", "w"],
    ),
    "what is ignored gives no candidates": Row(
        lambda c: tree(
            c,
            lambda: c.node("ignored", retriever(c, DOCS[2]), model(c, EVORA, "tool 1")),
            retriever(c, DOCS[0]),
            model(c, asked(PORTO)),
            answers=SAYS,
        ),
        [PORTO],
        retrieved=["p"],
    ),
    "a tool that gives documents, and one that gives text": Row(
        lambda c: tree(
            c,
            tool(c, PORTO, documents=DOCS[:1], name="books", tool_call_id="1"),
            tool(c, NOTE, name="search", tool_call_id="2"),
            model(
                c,
                [
                    Message("user", QUESTION),
                    Message("tool", PORTO),
                    Message("tool", NOTE),
                ],
            ),
            answers=SAYS,
        ),
        [PORTO],
        retrieved=["p"],
        doubts=("tool_text",),
    ),
    "handed in": Row(
        lambda c: tree(
            c, model(c, asked(PORTO)), input_documents=DOCS[:2], answers=SAYS
        ),
        [PORTO],
        retrieved=None,
    ),
    "abandoned": Row(
        lambda c: tree(
            c,
            retriever(c, DOCS[0]),
            model(c, asked(PORTO)),
            is_complete=False,
            partial_answer="It is",
        ),
        [PORTO],
        answer=None,
        doubts=("broken",),
        retrieved=["p"],
    ),
    "question and history stand there for another reason": Row(
        lambda c: tree(
            c,
            retriever(c, Document(QUESTION, "q"), DOCS[0]),
            model(c, asked(PORTO)),
            answers=SAYS,
            history=(Said(role="user", content="Hello"),),
        ),
        [PORTO],
        retrieved=["q", "p"],
        doubts=("quoted",),
        hedged=("contexts",),
    ),
}


REWRITE = "Which of the Portuguese cities lies on the banks of the river Douro?"
WEB = (
    f"{REWRITE} Porto does, where the Douro meets the Atlantic, and so do its cellars,"
    " in Gaia."
)


def corrective(
    clock: Clock,
    *search: Callable[[], Node],
    page: str = WEB,
    reply: str | Message = REWRITE,
) -> Tree:
    """LangGraph's CRAG: what was retrieved is graded, the question rewritten, the web searched by a step."""
    return tree(
        clock,
        retriever(clock, DOCS[1]),
        model(clock, f"Relevant? {FARO}", GRADED),
        model(clock, f"Improve: {QUESTION}", reply),
        *search,
        step(clock, Document(page), name="web_search"),
        model(clock, f"{FARO}\n{page}\nQuestion: {REWRITE}"),
        answers=SAYS,
    )


QUOTING: dict[str, Callable[[Clock], Tree]] = {
    "a page of the web that quotes the rewritten question (LangGraph's CRAG)": (
        lambda c: corrective(c, tool(c, f"[{WEB!r}]", name="web", query=REWRITE))
    ),
    "the same, searched by a plain function": corrective,
    "a page that is little more than the rewritten question": lambda c: corrective(
        c, tool(c, REWRITE, name="web", query=REWRITE), page=f"{REWRITE} Porto."
    ),
    "a page that a tool returned and a model had written before": lambda c: corrective(
        c, tool(c, NOTE, name="web", query="Douro"), page=NOTE, reply=NOTE
    ),
    "a page that quotes a rewritten question in a structure": lambda c: corrective(
        c, page=WEB, reply=Message("assistant", f'{{"query": "{REWRITE}"}}')
    ),
}


WORDS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=2, max_size=9)


@given(
    st.lists(WORDS, min_size=8, max_size=14),
    st.lists(WORDS, min_size=2, max_size=30),
    st.integers(0, 30),
)
def test_a_page_is_a_context_wherever_it_quotes_a_query(
    query: list[str], page: list[str], place: int
) -> None:
    rewrite = " ".join(query)
    text = " ".join([*page[:place], rewrite, *page[place:]])
    clock = Clock()
    made = corrective(
        clock,
        tool(clock, "Nothing.", name="web", query=rewrite),
        page=text,
        reply=rewrite,
    )
    (sample,) = samples_of(made)
    assert [context.text for context in sample.known_contexts] == [FARO, text]


def test_what_a_tool_found_is_evidence_though_it_quotes_a_query_written_inside_of_it() -> (
    None
):
    clock = Clock()
    rewriting = model(clock, f"Improve: {QUESTION}", REWRITE)
    web = tool(
        clock,
        WEB,
        rewriting,
        tool(clock, WEB, name="web", query=REWRITE),
        name="search",
        tool_call_id="1",
    )
    answering = model(clock, [Message("user", QUESTION), CALL, Message("tool", WEB)])
    made = tree(
        clock,
        model(clock, QUESTION, CALL),
        web,
        answering,
        answers=SAYS,
        is_always_a_sample=True,
    )
    (sample,) = samples_of(made)
    assert sample.ledger is not None
    assert {(call.kind, call.name) for call in sample.ledger.calls} == {
        ("tool", "search"),
        ("tool", "web"),
    }


# What was retrieved, and what the ledger lists


def overlapping(count: int, seed: int = 0) -> tuple[Document, ...]:
    """Chunks of one page, each of which begins with the end of the one before."""
    rng = random.Random(seed)
    page = " ".join(
        "".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9)))
        for _ in range(40 * count)
    )
    return tuple(
        Document(page[start : start + 220], f"c{start // 150}")
        for start in range(0, 150 * count, 150)
    )


def test_documents_that_a_step_finds_beside_a_retriever_are_retrieved() -> None:
    """One retriever, and ``store.similarity_search`` inside a node of the graph."""
    clock = Clock()
    made = tree(
        clock,
        retriever(clock, DOCS[0]),
        step(clock, *DOCS[1:], name="search"),
        model(clock, f"{PORTO}\n{EVORA}"),
    )
    (sample,) = samples_of(made)
    assert [one.id for one in sample.known_contexts] == ["p", "e"]
    assert [one.id for one in sample.retrieved or ()] == ["p", "f", "e"]
    assert sample.capture is not None
    assert sample.capture.grade == "exact"
    assert sample.ledger is not None
    assert [[item.id for item in call.items] for call in sample.ledger.calls] == [
        ["p"],
        ["f", "e"],
    ]


@given(st.data())
def test_contexts_are_among_the_retrieved_and_the_ledger_lists_what_each_call_returned(
    data: st.DataObject,
) -> None:
    chunks = overlapping(9)
    count = data.draw(st.integers(1, 8))
    of_retriever, of_step = chunks[:count], chunks[count:]
    returned = data.draw(st.permutations(of_retriever))
    shown = data.draw(
        st.lists(st.sampled_from(chunks), min_size=1, unique_by=lambda one: one.id)
    )
    clock = Clock()
    prompt = "\n\n".join(one.text for one in shown)
    made = tree(
        clock,
        retriever(clock, *returned),
        step(clock, *of_step),
        model(clock, prompt),
        answers=SAYS,
    )
    (sample,) = samples_of(made)
    assert [one.id for one in sample.known_contexts] == [one.id for one in shown]
    assert sample.retrieved is not None
    assert {one.id for one in sample.known_contexts} <= {
        one.id for one in sample.retrieved
    }
    assert [one.id for one in sample.retrieved][:count] == [one.id for one in returned]
    assert sample.ledger is not None
    listed = sample.ledger.calls[0]
    assert [item.id for item in listed.items] == [one.id for one in returned]
    assert [returned[place].id for place in listed.shown or ()] == [
        one.id for one in returned if one in shown
    ]
    assert sample.capture is not None
    assert sample.capture.warnings == ()


def check(sample: Sample, row: Row) -> None:
    """The sample is right, and says by code what is uncertain."""
    notes = sample.capture
    assert notes is not None
    assert sorted(notes.doubts) == sorted(row.doubts)
    assert (notes.grade == "exact") == (not row.doubts)
    assert sample.question == QUESTION
    retrieved = sample.retrieved
    told = {
        "contexts": [context.text for context in sample.known_contexts],
        "answer": sample.answer,
        "retrieved": None if retrieved is None else [one.id for one in retrieved],
    }
    for name, value in told.items():
        if name not in row.hedged:
            assert value == getattr(row, name), name


@pytest.mark.parametrize("name", ROWS)
def test_one_run(name: str) -> None:
    row = ROWS[name]
    (sample,) = samples_of(row.made(Clock()), row.where)
    check(sample, row)


def test_scores_are_those_of_the_last_step() -> None:
    (sample,) = samples_of(ROWS["scored by the last step"].made(Clock()))
    assert [context.score for context in sample.known_contexts] == [0.9, 0.7]
    assert sample.retrieved is not None
    assert [context.score for context in sample.retrieved] == [None, None, None]


NONE: dict[str, Callable[[Clock], Tree]] = {
    "no retrieval": lambda c: tree(c, model(c, "Hello"), answers=SAYS),
    "ignored": lambda c: Tree(
        c.node("ignored", retriever(c, *DOCS), model(c, asked(PORTO)))
    ),
    "a grader of what is handed in": lambda c: tree(
        c, model(c, asked(PORTO), GRADED), input_documents=DOCS
    ),
}


@pytest.mark.parametrize("name", NONE)
def test_no_sample(name: str) -> None:
    assert samples_of(NONE[name](Clock())) == []


# Several runs of one question


def alone(made: Callable[[], Node], **fields: Any) -> Tree:
    node = made()
    return Tree(node, gives_only_documents=node.kind == "retriever", **fields)


REWRITTEN = "Portuguese city on the river Douro"
FLOWS: dict[
    str,
    tuple[
        Callable[[Clock], list[Tree]], list[tuple[str | None, list[str], str | None]]
    ],
] = {
    "retriever, grader, model": (
        lambda c: [
            alone(retriever(c, *DOCS)),
            alone(model(c, f"Relevant? {PORTO}", GRADED)),
            alone(model(c, asked(PORTO + EVORA))),
        ],
        [(QUESTION, [PORTO, EVORA], ANSWER)],
    ),
    "a word that may be a verdict": (  # said to be inferred, see below
        lambda c: [alone(retriever(c, DOCS[0])), alone(model(c, asked(PORTO), "Yes"))],
        [(QUESTION, [PORTO], "Yes")],
    ),
    "a rewrite comes first": (
        lambda c: [
            alone(model(c, f"Condense: {QUESTION}", REWRITTEN)),
            alone(retriever(c, DOCS[0], query=REWRITTEN)),
            alone(model(c, [Message("system", PORTO), Message("user", QUESTION)])),
        ],
        [(QUESTION, [PORTO], ANSWER)],
    ),
    "a rewrite comes first, after many calls of other work": (
        lambda c: [
            *(
                alone(
                    model(
                        c, f"Title of note {number}?", f"Note {number} of the harbour"
                    )
                )
                for number in range(12)
            ),
            alone(model(c, f"Condense: {QUESTION}", REWRITTEN)),
            alone(retriever(c, DOCS[0], query=REWRITTEN)),
            alone(model(c, [Message("system", PORTO), Message("user", QUESTION)])),
        ],
        [(QUESTION, [PORTO], ANSWER)],
    ),
    "several searches that a model wrote": (  # said to be inferred, see below
        lambda c: [
            alone(
                model(
                    c,
                    f"Searches for: {QUESTION}",
                    f'1. "{REWRITTEN}"\n2. Cities of the Algarve',
                )
            ),
            alone(retriever(c, DOCS[0], query=REWRITTEN)),
            alone(retriever(c, DOCS[1], query="Cities of the Algarve")),
            alone(model(c, asked(PORTO + FARO))),
        ],
        [(REWRITTEN, [PORTO, FARO], ANSWER)],
    ),
    "two questions that were translated, and searched for alone": (
        lambda c: [
            alone(model(c, "Translate: Welche Stadt liegt am Douro?", QUESTION)),
            alone(retriever(c, DOCS[0])),
            alone(model(c, "Translate: Und wo liegt Faro?", "And where is Faro?")),
            alone(retriever(c, DOCS[1], query="And where is Faro?")),
        ],
        [(QUESTION, [PORTO], None), ("And where is Faro?", [FARO], None)],
    ),
    "two questions, one after the other": (
        lambda c: [
            alone(retriever(c, DOCS[0])),
            alone(model(c, asked(PORTO))),
            alone(retriever(c, DOCS[1], query="And Faro?")),
            alone(model(c, f"{FARO} And Faro?", "In the south, by the sea.")),
        ],
        [
            (QUESTION, [PORTO], ANSWER),
            ("And Faro?", [FARO], "In the south, by the sea."),
        ],
    ),
    "the question of the chain that answers": (
        lambda c: [
            alone(retriever(c, DOCS[0], query="Douro")),
            tree(c, model(c, asked(PORTO)), answers=SAYS),
        ],
        [(QUESTION, [PORTO], ANSWER)],
    ),
    "a model that shows nothing retrieved is another matter": (
        lambda c: [
            alone(retriever(c, DOCS[0])),
            alone(model(c, "What time is it?", "Five, as far as I know.")),
        ],
        [(QUESTION, [PORTO], None)],
    ),
    "a title that reads the answer": (  # said to be inferred, see below
        lambda c: [
            alone(retriever(c, DOCS[0])),
            alone(model(c, asked(PORTO))),
            alone(
                model(
                    c, f"Title for: {ANSWER} {PORTO}", "The city on the Douro, in short"
                )
            ),
        ],
        [(QUESTION, [PORTO], ANSWER)],
    ),
    "notes on each document, an answer from the notes": (
        lambda c: [
            alone(retriever(c, *DOCS[:2])),
            alone(model(c, f"A note on: {PORTO}", NOTE)),
            alone(
                model(c, f"A note on: {FARO}", "Faro does not, being in the Algarve.")
            ),
            alone(
                model(c, f"{NOTE}\nFaro does not, being in the Algarve.\n{QUESTION}")
            ),
        ],
        [(QUESTION, [PORTO, FARO], ANSWER)],
    ),
    "the conversation goes on without a retrieval": (
        lambda c: [
            alone(retriever(c, DOCS[0])),
            alone(model(c, asked(PORTO))),
            alone(
                model(
                    c,
                    [
                        Message("user", asked(PORTO)),
                        Message("assistant", ANSWER),
                        Message("user", "Say more."),
                    ],
                    "There is more to be said of it.",
                )
            ),
        ],
        [(QUESTION, [PORTO], ANSWER)],
    ),
    "documents of two tasks in one prompt": (
        lambda c: [
            alone(retriever(c, DOCS[0]), task_or_thread="a"),
            alone(retriever(c, DOCS[2]), task_or_thread="b"),
            alone(model(c, asked(EVORA + PORTO)), task_or_thread="c"),
        ],
        [(QUESTION, [EVORA, PORTO], ANSWER)],
    ),
    "retriever, reranker": (
        lambda c: [
            alone(retriever(c, *DOCS)),
            replace(
                alone(
                    lambda: c.node("reranker", input_documents=DOCS, documents=DOCS[2:])
                ),
                gives_only_documents=True,
            ),
        ],
        [(QUESTION, [EVORA], None)],
    ),
    "paused and resumed": (
        lambda c: [
            tree(c, retriever(c, DOCS[0]), resumption_key="t", is_paused=True),
            tree(
                c,
                model(c, asked(PORTO)),
                resumption_key="t",
                continues=True,
                answers=SAYS,
                question=None,
            ),
        ],
        [(QUESTION, [PORTO], ANSWER)],
    ),
}


# the codes of all that is uncertain, for each sample
DOUBTS_OF_FLOWS: dict[str, list[list[str]]] = {
    "a word that may be a verdict": [["answer_guessed"]],
    "several searches that a model wrote": [["question_guessed"]],
    "two questions that were translated, and searched for alone": [
        ["by_data_flow", "no_answer", "question_guessed"],
        ["by_data_flow", "no_answer", "question_guessed"],
    ],
    "two questions, one after the other": [[], ["question_guessed"]],
    "a model that shows nothing retrieved is another matter": [
        ["by_data_flow", "no_answer"]
    ],
    "a title that reads the answer": [["answer_guessed", "which_turn"]],
    "notes on each document, an answer from the notes": [
        ["answer_guessed", "which_turn"]
    ],
    "documents of two tasks in one prompt": [["which_turn"]],
    "retriever, reranker": [["by_data_flow", "no_answer"]],
}


@pytest.mark.parametrize("name", FLOWS)
def test_several_runs(name: str) -> None:
    made, expected = FLOWS[name]
    turns: Turns[Tree] = Turns(lambda one: [one], Overrides())
    samples = [sample for one in made(Clock()) for sample in turns.add(one)]
    samples += turns.finish()
    assert turns.finish() == []
    codes = [sorted(one.capture.doubts) for one in samples if one.capture]
    assert codes == DOUBTS_OF_FLOWS.get(name, [[] for _ in expected])
    told = [
        (one.question, [context.text for context in one.known_contexts], one.answer)
        for one in samples
    ]
    if name != "a title that reads the answer":  # its answer may be wrong
        assert told == expected


# what an application does with an answer of a chain; the grade that is left
WORKED_ON: dict[str, tuple[str, str, str | Message, str]] = {
    "made friendlier": (
        ANSWER,
        f"Question: {QUESTION}\nDraft: {ANSWER}\nMake it friendlier.",
        "It is Porto, in the lovely north.",
        "inferred",
    ),
    "translated": (
        ANSWER,
        f"Welche Stadt liegt am Douro?\nTranslate:\n{ANSWER}",
        "Es ist Porto, im Norden.",
        "inferred",
    ),
    "made a structure that holds an answer": (
        ANSWER,
        f"As JSON, for {QUESTION}\n{ANSWER}",
        '{"answer": "Porto lies there, in the very north.", "tone": "kind"}',
        "inferred",
    ),
    "graded": (
        ANSWER,
        f"Question: {QUESTION}\nIs this right? {ANSWER}",
        '{"score": "yes"}',
        "exact",
    ),
    "told as an earlier turn": (
        ANSWER,
        f"User: {QUESTION}\nAssistant: {ANSWER}\nUser: Thank you!",
        "You are welcome, any time.",
        "exact",
    ),
    "of words that other prompts hold": (
        "Porto",
        "What does Porto cost by the bottle, and where is it made?",
        "Ask the merchant, as prices differ.",
        "exact",
    ),
}


def test_a_query_that_a_model_wrote_is_the_stand_alone_question() -> None:
    turns: Turns[Tree] = Turns(lambda one: [one], Overrides())
    made = FLOWS["a rewrite comes first"][0](Clock())
    (sample,) = [*(s for one in made for s in turns.add(one)), *turns.finish()]
    assert (sample.question, sample.standalone_question) == (QUESTION, REWRITTEN)
    assert sample.capture is not None
    assert (sample.capture.grade, sample.capture.warnings) == ("exact", ())


def test_a_search_of_a_tool_that_found_nothing_is_a_search() -> None:
    clock = Clock()
    nothing = tool(
        clock,
        "Nothing was found.",
        query="opening year",
        tool_call_id="1",
        documents=(),
    )
    made = tree(
        clock,
        model(clock, QUESTION, CALL),
        nothing,
        model(clock, QUESTION),
        answers=SAYS,
    )
    (sample,) = samples_of(made)
    assert (sample.contexts, sample.retrieved) == ((), ())
    assert sample.capture is not None
    assert (sample.capture.evidence_from, sample.capture.grade) == (
        "flow",
        "exact",
    )
    assert sample.ledger is not None
    assert [(call.kind, call.query, call.items) for call in sample.ledger.calls] == [
        ("retrieval", "opening year", ())
    ]


# The tables of rules


# What queries and arguments of tools do not mean


def test_an_argument_of_a_tool_is_no_question() -> None:
    c = Clock()
    (sample,) = samples_of(
        tree(
            c,
            retriever(c, DOCS[0], query=""),
            tool(c, "Added.", query="Jon"),
            model(c, PORTO),
            question=None,
        )
    )
    assert sample.question is None
    assert [context.text for context in sample.known_contexts] == [PORTO]
    reading = tool(c, PORTO, query='{"repo": "a", "path": "b"}', documents=DOCS[:1])
    (sample,) = samples_of(tree(c, reading, model(c, PORTO), question=None))
    assert sample.question is None


def _without_a_question(clock: Clock) -> Tree:
    """A chain over documents, of which neither inputs nor a query tell what was asked."""
    return tree(
        clock,
        retriever(clock, *DOCS, query=""),
        model(clock, PORTO),
        answers=SAYS,
        question=None,
    )


def _with_a_query_alone(clock: Clock) -> Tree:
    """A chain whose inputs hold no question, but whose retriever was asked something."""
    return tree(
        clock,
        retriever(clock, *DOCS, query="Douro"),
        model(clock, PORTO),
        answers=SAYS,
        question=None,
    )


DOUBTFUL = {
    "no question was found": _without_a_question,
    "the question was not found in the inputs; the retriever's query stands for it": (
        _with_a_query_alone
    ),
}


@pytest.mark.parametrize("doubt", DOUBTFUL)
def test_where_the_question_is_in_doubt_nothing_is_exact(doubt: str) -> None:
    (sample,) = samples_of(DOUBTFUL[doubt](Clock()))
    assert sample.capture is not None
    assert sample.capture.grade == "inferred"
    assert "question_guessed" in sample.capture.doubts
    (named,) = samples_of(
        DOUBTFUL[doubt](Clock()), Overrides(question_from=lambda run: QUESTION)
    )
    assert named.question == QUESTION
    assert named.capture is not None
    assert named.capture.grade == "exact"


def test_a_short_reply_that_a_tool_hands_on_feeds_the_answer() -> None:
    c = Clock()
    inner = tool(
        c,
        '{"reply": "Porto."}',
        retriever(c, *DOCS),
        model(c, asked(f"{PORTO}\n{FARO}"), "Porto."),
    )
    shown = [Message("user", QUESTION), CALL, Message("tool", '{"reply": "Porto."}')]
    (sample,) = samples_of(tree(c, inner, model(c, shown), answers=SAYS))
    assert [context.text for context in sample.known_contexts] == [PORTO, FARO]
    assert sample.capture is not None
    assert list(sample.capture.doubts) == ["short_reply"]


def test_the_conversation_that_a_plain_call_shows() -> None:
    c, said = (
        Clock(),
        (Said(role="user", content="Hello?"), Said(role="assistant", content="Hi.")),
    )
    turns: Turns[Tree] = Turns(lambda one: [one], Overrides())
    for one in (
        alone(retriever(c, DOCS[0])),
        alone(model(c, asked(PORTO)), history=said),
    ):
        turns.add(one)
    (sample,) = turns.finish()
    assert sample.history == said


def test_two_queries_are_no_rewrite_where_one_failed() -> None:
    c = Clock()
    failed = retriever(c, query="Which drink?", error="Down: the store")
    (sample,) = samples_of(
        tree(
            c,
            retriever(c, *DOCS, query="Which city?"),
            failed,
            model(c, PORTO),
            answers=SAYS,
        )
    )
    assert sample.standalone_question is None


def test_contexts_that_the_user_names_do_not_rest_on_a_call() -> None:
    c = Clock()
    one = tree(
        c,
        retriever(c, *DOCS),
        model(c, asked(PORTO)),
        answers=(Answer("Other words.", "output"),),
    )
    (sample,) = samples_of(one, Overrides(contexts_from=lambda run: [FARO]))
    assert sample.capture is not None
    assert (sample.capture.grade, sample.capture.warnings) == ("exact", ())
    assert [context.text for context in sample.known_contexts] == [FARO]


def test_named_contexts_and_answer_are_sought_in_what_the_run_returned_first() -> None:
    """A LangGraph state that starts with ``chunks: []`` is an input under the name of the output."""
    clock = Clock()
    given = {"question": QUESTION, "chunks": [], "reply": ""}
    returned = {
        "question": "another",
        "chunks": [{"text": PORTO, "source": "a.md"}],
        "reply": "Porto.",
    }
    made = tree(
        clock,
        model(clock, asked(PORTO)),
        lookup_inputs=(given,),
        lookup_outputs=(returned,),
    )
    (sample,) = samples_of(
        made,
        Overrides(
            question_from="question", contexts_from="chunks", answer_from="reply"
        ),
    )
    assert [one.text for one in sample.known_contexts] == [PORTO]
    assert (sample.question, sample.answer) == (QUESTION, "Porto.")


def test_named_contexts_without_a_text_are_refused() -> None:
    for value in (
        [{"body": PORTO, "source": "a.md"}],
        {"body": PORTO, "source": "a.md"},
    ):
        clock = Clock()
        made = tree(
            clock,
            model(clock, asked(PORTO)),
            answers=SAYS,
            lookup_outputs=({"chunks": value},),
        )
        with pytest.raises(
            RowError, match=r"without a text \(one of .*\): body, source"
        ):
            samples_of(made, Overrides(contexts_from="chunks"))


def test_where_no_context_is_named_nothing_is_exact() -> None:
    clock = Clock()
    made = tree(
        clock,
        model(clock, asked(PORTO)),
        answers=SAYS,
        lookup_outputs=({"chunks": []},),
    )
    (sample,) = samples_of(made, Overrides(contexts_from="chunks"))
    assert sample.capture is not None
    assert sample.capture.grade == "inferred"
    assert list(sample.capture.doubts) == ["no_contexts_named"]


def test_runs_without_a_sample_are_said_once() -> None:
    c = Clock()
    turns: Turns[Tree] = Turns(
        lambda one: [one], Overrides(context_tools={"search"}), hint="nothing retrieved"
    )
    assert turns.add(tree(c, tool(c, "", name="search"), model(c, QUESTION))) == []
    assert turns.samples_that_wait() == turns.samples_that_wait() == []
    assert turns.problems.counts == {"nothing retrieved": 1}


SECOND = "And where is the airport of the south?"
# forms in which applications write earlier turns into a prompt
TALKS = {
    "lines of user and assistant": f"user: {QUESTION}\nassistant: {ANSWER}",
    "lines of human and AI": f"Human: {QUESTION}\nAI: {ANSWER}",
    "messages as they are printed": (
        f"[HumanMessage(content='{QUESTION}'), AIMessage(content='{ANSWER}')]"
    ),
    "headings": f"### User\n{QUESTION}\n\n### Assistant\n{ANSWER}",
}
# runs of functions without a root, and a chain around them
SHAPES: dict[str, Callable[[str, list[Callable[[], Node]]], list[Tree]]] = {
    "loose": lambda asking, calls: [alone(call) for call in calls],
    "chain": lambda asking, calls: [tree(Clock(), *calls, answers=(), question=asking)],
}


def test_an_earlier_question_that_is_asked_again_inside_of_a_run_is_no_history() -> (
    None
):
    c = Clock()
    turns: Turns[Tree] = Turns(lambda one: [one], Overrides())
    turns.add(tree(c, retriever(c, DOCS[0]), model(c, asked(PORTO)), answers=SAYS))
    parts = f"Sub question: {QUESTION}\nResponse: {ANSWER}\n{PORTO}\n{SECOND}"
    (sample,) = turns.add(
        tree(c, retriever(c, DOCS[0]), model(c, parts), question=SECOND)
    )
    assert sample.history == ()
    assert sample.capture is not None
    assert (sample.capture.grade, sample.capture.warnings) == ("exact", ())


def test_a_question_that_is_asked_again_does_not_tell_who_said_the_words_behind_it() -> (
    None
):
    """Every question stands behind the user's name: so does the one that is asked again."""
    c = Clock()
    turns: Turns[Tree] = Turns(lambda one: [one], Overrides())
    turns.add(tree(c, retriever(c, DOCS[0]), model(c, asked(PORTO)), answers=SAYS))
    prompt = f"Anna: {QUESTION}\n{ANSWER}\n{PORTO}\nAnna: In one sentence, please."
    (sample,) = turns.add(
        tree(c, retriever(c, DOCS[0]), model(c, prompt, "It is Porto."))
    )
    assert sample.history == ()
    assert sample.capture is not None
    assert sample.capture.warnings == ()


def test_an_answer_that_its_own_instructions_held_is_no_memory_of_a_turn() -> None:
    c = Clock()
    turns: Turns[Tree] = Turns(lambda one: [one], Overrides())
    refusal = "I cannot tell from these pages, please ask at the office in the town."
    rule = f"If the pages do not tell, say: {refusal}"
    warnings = []
    for asking, document, reply in (
        (QUESTION, DOCS[0], refusal),
        (SECOND, DOCS[1], "It is at Faro."),
    ):
        (sample,) = turns.add(
            tree(
                c,
                retriever(c, document, query=asking),
                model(c, f"{rule}\n{document.text}\n{asking}", reply),
                answers=(Answer(reply, "output"),),
                question=asking,
            )
        )
        assert sample.capture is not None
        warnings.append(sample.capture.warnings)
    assert warnings == [(), ()]


# The ledger


def ledger_of(run: Tree) -> list[tuple[int, int, str | None, str | None]]:
    """Turn, step, query and agent of each call of the ledger."""
    (sample,) = samples_of(run)
    assert sample.ledger is not None
    return [
        (call.turn, call.step, call.query, call.agent) for call in sample.ledger.calls
    ]


def test_the_turn_is_one_more_than_the_users_messages_before() -> None:
    c = Clock()
    said = [("user", "Hello"), ("user", "Is somebody there?"), ("assistant", "Yes.")]
    history = tuple(Said(role=role, content=text) for role, text in said)
    run = tree(
        c, retriever(c, DOCS[0]), model(c, asked(PORTO)), answers=SAYS, history=history
    )
    assert [turn for turn, *_ in ledger_of(run)] == [3]


def test_documents_that_are_handed_in_answer_no_query() -> None:
    c = Clock()
    root = c.node(
        "step",
        model(c, asked(PORTO)),
        name="chain",
        input_documents=DOCS[:1],
        query="all input",
    )
    run = Tree(root, question=QUESTION, answers=SAYS, is_always_a_sample=True)
    assert [query for *_, query, _ in ledger_of(run)] == [None]


@pytest.mark.parametrize("second", ["one", "other"])
def test_agents_are_told_apart_only_where_there_are_several(second: str) -> None:
    c = Clock()
    run = tree(
        c,
        model(c, [Message("user", QUESTION)], CALL, agent="one"),
        retriever(c, DOCS[0], agent="one"),
        model(c, asked(PORTO), agent=second),
        answers=SAYS,
    )
    assert [agent for *_, agent in ledger_of(run)] == [
        "one" if second == "other" else None
    ]


@pytest.mark.parametrize("error", [None, "no connection"])
def test_a_call_of_a_model_that_failed_is_no_step(error: str | None) -> None:
    c = Clock()
    run = tree(
        c,
        model(c, [Message("user", QUESTION)], CALL, error=error),
        retriever(c, DOCS[0]),
        model(c, asked(PORTO)),
        answers=SAYS,
    )
    assert [step for _, step, *_ in ledger_of(run)] == [0 if error else 1]


# Edges of single rules


TOOL_CALL = Message("assistant", "", (ToolCall("search", {"query": "x"}, "1"),))
PLAIN_TEXT = "The tool says that a bridge was opened there in 1886."
OTHER_TEXT = "The tool says that a tram crosses the upper deck of it."


def loop_of_tools(clock: Clock, shown: Callable[[int], list[str]]) -> Sample:
    """Two tools in a loop; ``shown`` says which results the prompt of each call holds."""

    def call(number: int, reply: str | Message) -> Callable[[], Node]:
        results = [Message("tool", text) for text in shown(number)]
        prompt = [Message("user", QUESTION), *results]
        return model(clock, prompt, reply, name="the agent's model")

    run = tree(
        clock,
        call(0, TOOL_CALL),
        tool(clock, PLAIN_TEXT, name="search"),
        call(1, TOOL_CALL),
        tool(clock, OTHER_TEXT, name="search"),
        call(2, ANSWER),
        answers=SAYS,
        is_always_a_sample=True,
    )
    (sample,) = samples_of(run)
    return sample


def test_arguments_of_a_failed_tool_are_no_query() -> None:
    """Each query of a retriever was written by a model, so the user's words are sought in its prompt."""
    c = Clock()
    searched = "Porto and the river Douro in the north"
    call = Message("assistant", "", (ToolCall("search", {"query": searched}, "1"),))
    run = tree(
        c,
        model(c, [Message("user", QUESTION)], call, name="chooser"),
        tool(c, "", query="words of nobody's model", error="no connection"),
        retriever(c, *DOCS, query=searched),
        model(c, f"{PORTO}\n{FARO}\n{EVORA}"),
        answers=SAYS,
        question=None,
    )
    (sample,) = samples_of(run)
    assert sample.question == QUESTION


@pytest.mark.parametrize(
    ("part", "is_found"),
    [("Porto, in that north", True), ("Porto, in the north", False)],
)
def test_a_part_of_16_letters_is_found_in_the_reply_that_it_was_cut_out_of(
    part: str, is_found: bool
) -> None:
    c = Clock()
    run = tree(
        c,
        retriever(c, DOCS[0]),
        model(c, asked(PORTO), f"Action: finish[{part}] and done", name="first"),
        retriever(c, DOCS[1], query="an airport"),
        model(c, f"Which airport? {FARO}", "It is the one of Faro.", name="second"),
        answers=(Answer(part, "output"),),
    )
    (sample,) = samples_of(run)
    assert [context.text for context in sample.known_contexts] == [
        PORTO if is_found else FARO
    ]


@pytest.mark.parametrize("nested", [False, True])
def test_a_structure_inside_of_the_output_is_the_reply_that_holds_it(
    nested: bool,
) -> None:
    c = Clock()
    said = {"answer": "It is Porto.", "place": "in the north"}
    run = tree(
        c,
        retriever(c, DOCS[0]),
        model(c, asked(PORTO), '{"answer": "It is Porto.", "place": "in the north"}'),
        retriever(c, DOCS[1], query="an airport"),
        model(c, f"Which airport? {FARO}", "It is the one of Faro, in the south."),
        output={"result": {"first": said}} if nested else said,
    )
    (sample,) = samples_of(run)
    assert [context.text for context in sample.known_contexts] == [PORTO]


def kinds_and_texts(run: Tree) -> list[tuple[str, list[str]]]:
    """What arrived: the kind of each call of the ledger, and the texts of its items."""
    (sample,) = samples_of(run)
    assert sample.ledger is not None
    return [
        (call.kind, [item.text for item in call.items]) for call in sample.ledger.calls
    ]


def test_a_tool_brings_its_text_and_the_documents_beside_it() -> None:
    c = Clock()
    run = tree(
        c,
        tool(c, PLAIN_TEXT, documents=DOCS[:1]),
        model(c, asked(f"{PLAIN_TEXT}\n{PORTO}")),
        answers=SAYS,
    )
    assert kinds_and_texts(run) == [("tool", [PLAIN_TEXT]), ("retrieval", [PORTO])]


@pytest.mark.parametrize(
    "said", [NOTE, "A note of other words about the city and its river."]
)
def test_a_report_of_a_tool_is_written_where_a_model_inside_said_a_passage_of_it(
    said: str,
) -> None:
    """The passage stands there with other line breaks, in a text several times as long."""
    c = Clock()
    frame = "Pages that were read: 12. Pages that were left out: 3. Time: 14:30. " * 2
    report = f"{frame}\n{NOTE[:24]}\n{NOTE[24:]}\n{frame}"
    run = tree(
        c,
        tool(c, report, model(c, "Sum this up.", said)),
        model(c, asked(report)),
        answers=SAYS,
        is_always_a_sample=True,
    )
    ((kind, _),) = kinds_and_texts(run)
    assert kind == ("written" if said == NOTE else "tool")


# Where the framework gives no question


def test_the_first_query_is_that_of_the_retriever_and_not_of_what_is_around_it() -> (
    None
):
    c = Clock()
    run = tree(
        c,
        lambda: c.node(
            "agent",
            retriever(c, *DOCS, query="city on the Douro"),
            query="a sub-question",
        ),
        model(c, f"{PORTO}\n{FARO}\n{EVORA}"),
        answers=SAYS,
        question=None,
    )
    (sample,) = samples_of(run)
    assert sample.question == "city on the Douro"


# Which of several replies is the answer


def answer_and_warnings(made: Tree) -> tuple[str | None, tuple[str, ...]]:
    (sample,) = samples_of(made)
    assert sample.capture is not None
    return sample.answer, sample.capture.warnings


def test_what_a_tool_is_asked_is_no_answer_also_where_the_search_has_another_name() -> (
    None
):
    c = Clock()
    asks = Message("assistant", "", (ToolCall("lookup", {"input": "Douro"}, "1"),))
    made = tree(c, model(c, QUESTION, asks), retriever(c, DOCS[0], query="Douro"))
    _, warnings = answer_and_warnings(made)
    assert warnings  # the call of the tool is no sure answer


def test_a_draft_inside_a_synthesizer_is_not_the_answer_behind_a_verdict() -> None:
    """It refines "It is Porto, …" to the answer "Yes": no verdict on its own draft."""
    c = Clock()
    drafts = (
        model(c, asked(PORTO)),
        model(c, f"{asked(FARO)}\nExisting answer: {ANSWER}", "Yes"),
    )
    synthesizer = c.node("step", *drafts, name="refine", input_documents=DOCS[:2])
    made = tree(
        c, retriever(c, *DOCS[:2]), lambda: synthesizer, answers=(Answer("Yes"),)
    )
    said, _ = answer_and_warnings(made)
    assert said == "Yes"


@pytest.mark.parametrize(
    ("text", "n_to_name"),
    [
        ("42", 0),
        ("-3.5 %", 0),
        ("1,024", 0),
        ("ok", 0),
        ("Done.", 0),
        ("null", 0),
        ("[]", 0),
        ("Berlin", 1),
        ("北京", 1),
        ("Oslo", 1),
        ("12 °C", 1),
        ("2026-11-04", 1),
        ("Shipped on 4 May.", 1),
        (FARO, 1),
        (PORTO, 0),  # a text that is a context already
    ],
)
def test_a_tools_text_beside_contexts_is_to_be_named_at_any_length(
    text: str, n_to_name: int
) -> None:
    """Unless it says nothing, or is a bare number, as of a calculator."""
    c = Clock()
    looks_up = tool(c, text, name="lookup", query="6 * 7")
    prompt = [Message("user", asked(PORTO)), Message("tool", text)]
    answers = model(c, prompt)
    made = tree(c, retriever(c, DOCS[0]), looks_up, answers, answers=SAYS)
    _, warnings = answer_and_warnings(made)
    assert len(warnings) == n_to_name


def test_the_calls_inside_of_a_tool_are_counted_from_the_models_inside_of_it() -> None:
    """The tool "research" looks up one text by itself, and then one as its model asks."""
    c = Clock()
    wish = Message("assistant", "", tool_calls=(ToolCall("look", {}, "t1"),))
    research = tool(
        c,
        "",
        tool(c, FARO, name="first"),
        model(c, "Go on.", wish),
        tool(c, EVORA, name="look", tool_call_id="t1"),
        name="research",
    )
    made = tree(c, research, model(c, asked(FARO + EVORA)), answers=SAYS)
    (sample,) = samples_of(made)
    assert sample.ledger is not None
    names = [call.name for call in sample.ledger.calls if call.items]
    assert names == ["first", "look"]


def test_a_run_whose_texts_are_all_known_names_no_unread_ones() -> None:
    c = Clock()
    made = tree(c, retriever(c, DOCS[0]), model(c, asked(PORTO)), answers=SAYS)
    (sample,) = samples_of(made)
    assert sample.capture is not None
    assert sample.capture.unread_texts == ()


def test_a_run_that_may_be_resumed_gives_its_sample_at_once() -> None:
    """A graph with a memory answered: it waits for nobody."""
    c = Clock()
    turns: Turns[Tree] = Turns(lambda one: [one], Overrides())
    made = tree(
        c,
        retriever(c, DOCS[0]),
        model(c, asked(PORTO)),
        answers=SAYS,
        resumption_key="t",
    )
    (sample,) = turns.add(made)
    assert sample.answer == ANSWER
    assert turns.finish() == []


@pytest.mark.parametrize("has_failed", [True, False])
def test_a_run_without_an_answer_raises_no_doubt_about_the_earlier_answer(
    has_failed: bool,
) -> None:
    """The same question with the same history again: the user reads the first answer."""
    c = Clock()
    history = (
        Said(role="user", content="Which country?"),
        Said(role="assistant", content="Portugal it is."),
    )
    turns: Turns[Tree] = Turns(lambda one: [one], Overrides())
    first = tree(
        c,
        retriever(c, DOCS[0]),
        model(c, asked(PORTO)),
        answers=SAYS,
        history=history,
    )
    second = tree(c, retriever(c, DOCS[0]), history=history)
    second.root.error = "TimeoutError" if has_failed else None
    samples = [*turns.add(first), *turns.add(second), *turns.finish()]
    assert [sample.answer for sample in samples] == [ANSWER, None]
    assert samples[0].capture is not None
    assert samples[0].capture.grade == "exact"
    assert not turns.problems.counts


@pytest.mark.parametrize("n_runs", [0, 1, 2])
def test_runs_of_which_no_question_is_known_and_none_gives_a_sample_are_said(
    n_runs: int,
) -> None:
    turns: Turns[Tree] = Turns(lambda _: [], Overrides(), hint="nothing retrieved")
    for _ in range(n_runs):
        assert turns.add(tree(Clock())) == []
    assert turns.finish() == []
    assert turns.problems.counts == ({"nothing retrieved": 1} if n_runs else {})
