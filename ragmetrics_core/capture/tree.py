"""The calls of one run of an application, free of any framework.

Adapters fill what the rules of the stages read. An adapter makes a ``Tree`` of what it
recorded: copies of texts, documents and messages, and what the framework itself says of
question, answer and data flow. What counts as answer, context and turn is decided once,
in ``stages``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ragmetrics_core.data import Context, EvidenceCall, Turn

SCORE_KEYS = ("relevance_score", "score", "similarity_score", "similarity", "_score")
DISTANCE_KEYS = ("distance", "_distance")

# a shorter text stands in metadata by chance
_SHORTEST_PIECE = 16

# names of roots that join several
FLOW, THREAD = JOINED = ("runs of plain functions", "runs of one thread")

# ``model``: a call of a model; ``retriever``, ``reranker`` (anything that takes and
# gives documents by profession), ``tool``; ``agent``: a sub-run with a question and an
# answer of its own (sub-agent, nested engine or pipeline); ``step``: anything else;
# ``ignored``: it and all below it is no part of the application's answering (selectors,
# evaluators, building of an index, shortening of memory).
Kind = Literal["model", "retriever", "reranker", "tool", "agent", "step", "ignored"]

DocumentKey = tuple[str, ...]  # what tells a document from others: ``Document.key``


@dataclass(frozen=True, slots=True)
class Document:
    """A document as it was at one moment of a run."""

    text: str = field(repr=False)
    id: str | None = None  # the store's own id; None if it gave none
    score: float | None = None  # the score that it had then
    metadata: Mapping[str, Any] = field(default_factory=dict, repr=False)
    # other texts that it may be shown as: window, original
    forms: tuple[str, ...] = field(default=(), repr=False)
    # The call of the run that wrote it, where the framework tells: a nested engine
    # whose answer it holds. It is no evidence; what that call was shown is.
    author: Node | None = field(default=None, repr=False, compare=False)
    # its id stands for other documents of the run as well (``shared_ids``)
    has_shared_id: bool = field(default=False, repr=False, compare=False)

    @property
    def key(self) -> DocumentKey:
        """What tells it from other documents: equal keys are one document.

        The key holds id and text. Without an id it holds text and metadata; scores do
        not count.
        """
        if self.id is not None:
            return ("id", self.id, self.text)
        metadata = []
        for name, value in self.metadata.items():
            if name not in SCORE_KEYS:
                metadata.append((name, repr(value)))
        return ("text", repr(sorted(metadata)), self.text)

    @property
    def identity(self) -> DocumentKey:
        """What tells it from other documents of one run, whatever became of its text.

        It is the id. Without an id of its own it is the key.
        """
        if self.own_id is None:
            return self.key
        return ("id", self.own_id)

    @property
    def own_id(self) -> str | None:
        """The id, if it names this document alone; else None."""
        return None if self.has_shared_id else self.id

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts that it may be shown as.

        They are its own text, its forms, and longer texts of its metadata that hold it.
        Example: a search found a sentence, and its metadata ``{"window": …}`` holds
        three sentences around it: the sentence, and these three.
        """
        texts = [self.text, *self.forms]
        if len(self.text) >= _SHORTEST_PIECE:
            for value in self.metadata.values():
                is_longer = isinstance(value, str) and len(value) > len(self.text)
                if is_longer and self.text in value:
                    texts.append(value)
        return tuple(dict.fromkeys(texts))

    def context(self, text: str | None = None) -> Context:
        """The document as a context, with the text that was shown of it."""
        shown = self.text if text is None else text
        return Context(
            text=shown, id=self.id, score=self.score, metadata=dict(self.metadata)
        )


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that a model called."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)
    id: str | None = None  # which the tool's message repeats


@dataclass(frozen=True, slots=True)
class CitedSource:
    """A source that an answer names beside its text.

    Args:
        id: The id of a context, or a name, address or number under which it was shown.
        names: What it is called beside its id: its address, file, title.
        quote: Words that stand in the source.
        statement: The part of the answer that it is named for; None for all of it.
        start: Where that part begins, where the framework or provider tells it.
        end: Where it ends.
        label: The number by which the answer's own marks name it, where the framework
            tells it.
        page: The page that it names beside the id; several contexts may have the id.
        is_cited: False for a source that the framework only counts, so that the numbers
            of the others have a meaning.
        text: The text of the source, or the text that holds it, where the provider says
            which one it means: several contexts may have its name, or hold its quote.
    """

    id: str | int | None = None
    quote: str | None = field(default=None, repr=False)
    statement: str | None = field(default=None, repr=False)
    start: int | None = None
    end: int | None = None
    label: str | None = None
    page: str | None = None
    is_cited: bool = True
    names: tuple[str, ...] = field(default=(), repr=False)
    text: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt or a conversation, or a model's reply."""

    # ``user``, ``assistant``, ``system``, ``tool``, ``other`` or ``summary``: of
    # earlier messages, which memory inserted, whatever its role there; nobody's turn.
    role: str
    # its text blocks, joined; of a tool the result as the model sees it
    text: str = field(default="", repr=False)
    tool_calls: tuple[ToolCall, ...] = ()  # the tools that it calls
    # what a reply cites, by the word of the model's provider; None if it says nothing
    cited_sources: tuple[CitedSource, ...] | None = field(
        default=None, kw_only=True, compare=False
    )


@dataclass(slots=True, eq=False)
class Node:
    """One call of a run: of a model, a retriever, a tool or any other step."""

    kind: Kind
    name: str = ""  # of a tool the tool's
    began: float = 0.0  # any number that rises over all calls of a process
    ended: float | None = None  # None if it never did
    children: list[Node] = field(default_factory=list, repr=False)
    # what it was asked; of a tool the one text argument, else JSON
    query: str | None = field(default=None, repr=False)
    # documents that it was given
    input_documents: tuple[Document, ...] = field(default=(), repr=False)
    # Documents that it returned, in their order: None if it returned none, () for an
    # empty list. Of a step only what it did not merely pass on.
    documents: tuple[Document, ...] | None = field(default=None, repr=False)
    # documents that stood among the inputs of a step, and the ones that it passed on
    documents_among_inputs: tuple[Document, ...] = field(default=(), repr=False)
    documents_passed_on: tuple[Document, ...] = field(default=(), repr=False)
    # what a tool or agent returned, as the model sees it
    text: str | None = field(default=None, repr=False)
    # what a model was shown, results of tools included
    prompt: tuple[Message, ...] = field(default=(), repr=False)
    # Whether the prompt is surely all that it was shown: texts without images or files,
    # and no documents beside the messages. False where that is not known.
    is_prompt_text_alone: bool = False
    # texts that a model was handed as documents, each in a block of its own
    documents_in_request: tuple[Document, ...] = field(default=(), repr=False)
    # type and text of each block of evidence in the request, as providers count them;
    # the text is empty where it is not known
    request_blocks: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    # Why evidence that the model was shown was not recorded, in words: it stands in a
    # file, or the provider keeps it. The sample is incomplete then.
    evidence_not_recorded: tuple[str, ...] = ()
    # None if it failed or has not replied
    reply: Message | None = field(default=None, repr=False)
    model: str | None = None  # the name of the model
    # what it ended with instead of returning
    error: str | None = field(default=None, repr=False)
    # id of the tool call that it answers; it tells which of the model's calls came first
    tool_call_id: str | None = None
    # A tool that steers the run and brings no evidence: a hand-off, a structured
    # answer, a call that a person rejected or that only waits for one.
    is_control: bool = False
    # the agent that it and what is inside it belongs to; None for the one around it
    agent: str | None = None
    # what orders it among calls beside each other, where no tool call does
    branch: str = ""
    # the provider of the model around it made it, while that model answered
    by_provider: bool = False
    # how many sources it named whose whole text was not recorded
    n_without_text: int = 0
    # of a model: whether its provider may have searched without telling what it found
    may_have_searched: bool = False
    # what is uncertain about it, in words: nothing is exact then
    remarks: tuple[str, ...] = ()

    def walk(self) -> Iterator[Node]:
        """This call and all below it that count, in the order in which they began."""
        return (path[-1] for path in self.paths())

    @property
    def called_a_tool(self) -> bool:
        """Whether a tool was called in it.

        A tool that only hands the run over, or hands the answer in, does not count.
        """
        return any(node.kind == "tool" and not node.is_control for node in self.walk())

    def paths(self, above: Path = ()) -> Iterator[Path]:
        """This call and all below it that count, each after the calls around it.

        The outermost call stands first in a path, and calls stand in the order in which
        they began.
        """
        if self.kind == "ignored":
            return
        path = (*above, self)
        yield path
        for child in sorted(self.children, key=lambda child: child.began):
            yield from child.paths(path)


Path = tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as the framework gives it."""

    text: str | None = field(repr=False)
    place: str = ""  # where it was found, in words
    # that it was built from, where the framework names them
    replies: tuple[str, ...] = field(default=(), repr=False)
    # the call that wrote it, where that is known by identity
    writing_call: Node | None = field(default=None, repr=False)
    is_extracted: bool = False  # cut out of a document: no model wrote it
    # that it carries; its data flow
    documents: tuple[Document, ...] | None = field(default=None, repr=False)
    question: str | None = field(default=None, repr=False)  # that it carries
    # what it cites, by the framework's own word; None if it says nothing
    cited_sources: tuple[CitedSource, ...] | None = None
    model: str | None = None  # that wrote it, as the framework names it
    # what is uncertain about it, in words; the rules say it
    doubts: tuple[str, ...] = ()


@dataclass(slots=True, eq=False, repr=False)
class Tree:
    """One run of an application, from its outermost call inwards.

    An adapter fills it. None, and an empty tuple, mean that the framework does not
    tell.
    """

    root: Node
    question: str | None = None  # the user's; None if the framework does not tell
    question_place: str = ""  # where it was found, in words
    # a rewrite of it, where the framework names one; else the rules look at the queries
    standalone_question: str | None = None
    # earlier turns of the conversation, oldest first, without the question
    history: tuple[Turn, ...] = ()
    # the history was read from a prompt, where typed messages may be examples as well
    is_history_of_prompt: bool = False
    # texts that stand in prompts for another reason: templates, examples
    instructions: tuple[str, ...] = ()
    # that the framework gives, a sample for each; () leaves it to the rules
    answers: tuple[Answer, ...] = ()
    # what the run returned, as ``plain_values`` makes it; its texts tell which call
    # answered
    output: Any = None
    # Documents that reached the generator by the framework's own data flow, for where
    # the prompt does not tell; None leaves it to the rules.
    flow_documents: tuple[Document, ...] | None = None
    flow_place: str = ""  # where these were found, in words
    is_always_a_sample: bool = False  # it is a sample even if it retrieved nothing
    gives_only_documents: bool = (
        False  # and nothing else: another run may answer from them
    )
    # a router kept it from the calls that search or answer: the application may have
    # answered by itself
    was_routed_away: bool = False
    error: str | None = None  # what the run ended with; by default the root's error
    is_complete: bool = True  # False if it was abandoned, interrupted or still goes on
    partial_answer: str | None = None  # what was read of an answer that broke off
    # the task or thread it ran in: runs of one task or thread may belong together
    task_or_thread: str = ""
    # what a run that waits for a person and the one that goes on with it share
    resumption_key: str | None = None
    # the framework's id of the conversation; None if it has none
    conversation_id: str | None = None
    # that id is only the identity of what keeps the messages: a name that the user gave
    # goes first
    is_id_of_memory: bool = False
    conversation_place: str = (
        ""  # how it was found where the framework has none, in words
    )
    # of the conversation, from 1; by default one more than the user's messages in the
    # history
    turn_number: int | None = None
    earlier_calls: tuple[EvidenceCall, ...] = ()  # the ledger's calls of earlier turns
    # it waits for a person: the next run of its thread that ``continues`` goes on with
    # it
    is_paused: bool = False
    # it goes on with an earlier run instead of asking something new
    continues: bool = False
    # fields of the sample that the call itself says
    given_fields: Mapping[str, Any] = field(default_factory=dict)
    documents_without_text: tuple[
        Document, ...
    ] = ()  # documents without text and the like, only noted
    # how many of the retrieved documents have a text that was not recorded
    n_without_text: int = 0
    warnings: tuple[str, ...] = ()  # what the adapter has to say
    # what is uncertain about which runs are this turn: nothing is exact then
    doubts: tuple[str, ...] = ()
    native_run: Any = None  # the framework's own, for callables of the user
    # Mappings of what the run was given. The user's keys and paths, such as
    # ``question_from="state.question"``, are looked up in them; the first hit counts.
    lookup_inputs: tuple[Any, ...] = ()
    # The same of what the run returned. The contexts and the answer are looked up in
    # these first, the question in ``lookup_inputs``.
    lookup_outputs: tuple[Any, ...] = ()
    # makes plain values of what is found there
    to_plain_value: Callable[[Any], Any] = field(default=lambda value: value)
