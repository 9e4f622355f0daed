"""The calls of one run of an application, free of any framework: what adapters fill and the rules read.

An adapter makes a ``Tree`` of what it recorded: copies of texts, documents and messages, and what the framework itself
says of question, answer and data flow. What counts as answer, context and turn is decided once, in ``rules``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ragmetrics_core.data.sample import Context, EvidenceCall, Turn

SCORE_KEYS = ("relevance_score", "score", "similarity_score", "similarity", "_score")
DISTANCE_KEYS = ("distance", "_distance")

FLOW, THREAD = JOINED = ("runs of plain functions", "runs of one thread")  # names of roots that join several

Kind = Literal["model", "retriever", "reranker", "tool", "agent", "step", "ignored"]


@dataclass(frozen=True, slots=True)
class Document:
    """A document as it was at one moment.

    Args:
        text: Its text.
        id: The store's own id; None if it gave none.
        score: The score that it had then.
        metadata: Its metadata.
        forms: Other texts that it may be shown as: with its metadata, its window, its original.
        author: The call of the run that wrote it, where the framework tells: a nested engine whose answer it holds. It
            is no evidence; what that call was shown is.
    """

    text: str = field(repr=False)
    id: str | None = None
    score: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, repr=False)
    forms: tuple[str, ...] = field(default=(), repr=False)
    author: Node | None = field(default=None, repr=False, compare=False)

    @property
    def key(self) -> tuple[str, ...]:
        """What makes it the same document: id and text, else text and metadata without scores."""
        if self.id is not None:
            return ("id", self.id, self.text)
        rest = sorted((name, repr(value)) for name, value in self.metadata.items() if name not in SCORE_KEYS)
        return ("text", repr(rest), self.text)

    def context(self, text: str | None = None) -> Context:
        """The document as a context, with the text that was shown of it."""
        shown = self.text if text is None else text
        return Context(text=shown, id=self.id, score=self.score, metadata=dict(self.metadata))


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that a model called.

    Args:
        name: The tool.
        arguments: What it was called with.
        id: Id of the call, which the tool's message repeats.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt or a conversation, or a model's reply.

    Args:
        role: ``user``, ``assistant``, ``system``, ``tool``, ``summary`` (of earlier messages, which memory inserted
            whatever its role there: nobody's turn) or ``other``.
        text: Its text blocks, joined; of a tool's message the result as the model sees it.
        calls: The tools that it calls.
    """

    role: str
    text: str = field(default="", repr=False)
    calls: tuple[ToolCall, ...] = ()


@dataclass(slots=True, eq=False)
class Node:
    """One call of a run.

    Args:
        kind: ``model``: a call of a model; ``retriever``, ``reranker`` (anything that takes and gives documents by
            profession), ``tool``; ``agent``: a sub-run with a question and an answer of its own (sub-agent, nested
            engine or pipeline); ``step``: anything else; ``ignored``: it and all below it is no part of the
            application's answering (selectors, evaluators, building of an index, shortening of memory).
        name: Its name; of a tool the tool's.
        began: When it began: any number that rises over all calls of a process.
        ended: When it ended; None if it never did.
        children: The calls inside it.
        query: What it was asked: a retriever's query, a tool's or agent's text argument.
        taken: Documents that it was given.
        documents: Documents that it returned, in their order; None if it returned none, ``()`` for an empty list of
            documents. Of a step only what it did not merely pass on.
        text: The text that a tool or agent returned, as the model sees it.
        prompt: The messages that a model was shown, results of tools included.
        reply: What the model said; None if it failed or has not replied.
        model: The name of the model.
        error: What it ended with instead of returning.
        call: Id of the tool call that it answers; the order of the model's calls is told by it.
        control: A tool that steers the run and brings no evidence: a hand-off, a structured answer, a call that a
            person rejected or that only waits for one.
        agent: The agent that it, and what is inside it, belongs to; None for the one around it.
        branch: What orders it among calls that run beside each other, where no tool call does.
    """

    kind: Kind
    name: str = ""
    began: float = 0.0
    ended: float | None = None
    children: list[Node] = field(default_factory=list, repr=False)
    query: str | None = field(default=None, repr=False)
    taken: tuple[Document, ...] = field(default=(), repr=False)
    documents: tuple[Document, ...] | None = field(default=None, repr=False)
    text: str | None = field(default=None, repr=False)
    prompt: tuple[Message, ...] = field(default=(), repr=False)
    reply: Message | None = field(default=None, repr=False)
    model: str | None = None
    error: str | None = field(default=None, repr=False)
    call: str | None = None
    control: bool = False
    agent: str | None = None
    branch: str = ""

    def walk(self) -> Iterator[Node]:
        """This call and all below it that count, in the order in which they began."""
        if self.kind != "ignored":
            yield self
            for child in sorted(self.children, key=lambda one: one.began):
                yield from child.walk()


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as the framework gives it.

    Args:
        text: The answer.
        place: Where it was found, in words.
        replies: Texts of the replies that it was built from, where the framework names them.
        call: The call that wrote it, where that is known by identity.
        extracted: True if it was cut out of a document and no model wrote it.
        documents: Documents that it carries; its data flow.
        question: The question that it carries.
        model: The model that wrote it, as the framework names it.
    """

    text: str | None = field(repr=False)
    place: str = ""
    replies: tuple[str, ...] = field(default=(), repr=False)
    call: Node | None = field(default=None, repr=False)
    extracted: bool = False
    documents: tuple[Document, ...] | None = field(default=None, repr=False)
    question: str | None = field(default=None, repr=False)
    model: str | None = None


def _same(value: Any) -> Any:
    return value


@dataclass(slots=True, eq=False, repr=False)
class Tree:
    """One run of an application, from its outermost call inwards.

    Args:
        root: The outermost call.
        question: The user's question; None if the framework does not tell.
        asked_at: Where it was found, in words.
        standalone: A rewrite of it, where the framework names one; else the rules look at the queries.
        history: Earlier turns of the conversation, oldest first, without the question.
        instructions: Texts that stand in prompts for another reason: templates, examples.
        answers: The answers that the framework gives, a sample for each; () leaves it to the rules.
        output: What the run returned, as plain values (see ``reading``); texts in it tell which call answered.
        flow: The documents that reached the generator by the framework's own data flow, for where the prompt does not
            tell; None leaves it to the rules.
        flow_at: Where these were found, in words.
        is_query: It is a sample even if it retrieved nothing.
        gives_documents: It returned documents and nothing else: another run may answer from them.
        error: What the run ended with; by default the root's error.
        complete: False if it was abandoned, interrupted or still goes on.
        partial: What was read of an answer that broke off.
        strand: The task or thread it ran in: runs of one strand may belong together.
        thread: What a run that waits for a person and the one that goes on with it share.
        conversation: The framework's id of the conversation; None if it has none.
        conversation_at: How it was found where the framework has none, in words.
        turn: Which turn of it this is, from 1; by default one more than the user's messages in the history.
        earlier: The ledger's calls of earlier turns.
        paused: It waits for a person: the next run of its thread that ``continues`` goes on with it.
        continues: It goes on with an earlier run instead of asking something new.
        given: Fields of the sample that the call itself says, such as ``reference``, ``id`` and ``metadata``.
        other: Documents without text and the like, only noted.
        warnings: What the adapter has to say.
        run: The framework's own run, for callables of the user.
        places: Where the user's keys and paths lead: mappings, the first hit wins.
        plain: Makes plain values of what such a key or callable gives.
    """

    root: Node
    question: str | None = None
    asked_at: str = ""
    standalone: str | None = None
    history: tuple[Turn, ...] = ()
    instructions: tuple[str, ...] = ()
    answers: tuple[Answer, ...] = ()
    output: Any = None
    flow: tuple[Document, ...] | None = None
    flow_at: str = ""
    is_query: bool = False
    gives_documents: bool = False
    error: str | None = None
    complete: bool = True
    partial: str | None = None
    strand: str = ""
    thread: str | None = None
    conversation: str | None = None
    conversation_at: str = ""
    turn: int | None = None
    earlier: tuple[EvidenceCall, ...] = ()
    paused: bool = False
    continues: bool = False
    given: Mapping[str, Any] = field(default_factory=dict)
    other: tuple[Document, ...] = ()
    warnings: tuple[str, ...] = ()
    run: Any = None
    places: tuple[Any, ...] = ()
    plain: Callable[[Any], Any] = _same
