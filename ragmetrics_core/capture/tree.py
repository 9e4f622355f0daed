"""The calls of one run of an application, free of any framework.

Adapters fill what the rules of the stages read. An adapter makes a ``Tree`` of what it
recorded: copies of texts, documents and messages, and what the framework itself says of
question, answer and data flow. What counts as answer, context and turn is decided once,
in ``stages``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from numbers import Real
from types import NoneType
from typing import Any, Literal, Self, get_args

from ragmetrics_core.capture.doubts import Doubt
from ragmetrics_core.data import Context, EvidenceCall, SettingError, Turn
from ragmetrics_core.data.scalars import is_prose

SCORE_KEYS = ("relevance_score", "score", "similarity_score", "similarity", "_score")

# a shorter text stands in metadata by chance
_SHORTEST_PIECE = 16
_SHORTEST_PASSAGE = 40  # characters; a title has less

# names of roots that join several
FLOW, THREAD = JOINED = ("runs of plain functions", "runs of one thread")

# what each word means stands with ``Node.kind``
Kind = Literal["model", "retriever", "reranker", "tool", "agent", "step", "ignored"]

DocumentKey = tuple[str, ...]  # what tells a document from others: ``Document.key``


@dataclass(frozen=True, slots=True)
class Document:
    """A document as it was at one moment of a run.

    Attributes:
        text: Its text.
        id: The store's own id; None if it gave none.
        score: The score that it had then; None if it had none.
        metadata: What the framework says of it beside these.
        forms: Other texts that it may be shown as: window, original.
    """

    text: str = field(repr=False)
    id: str | None = None
    score: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, repr=False)
    forms: tuple[str, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return self.text

    @classmethod
    def scored_by_metadata(
        cls,
        text: str,
        name: str | None,
        metadata: Mapping[str, Any],
        score: object = None,
    ) -> Self:
        """Make a document with its score, or the first number under a usual name in its metadata."""
        numbers = [
            value
            for value in (score, *map(metadata.get, SCORE_KEYS))
            if isinstance(value, Real) and not isinstance(value, bool)
        ]
        return cls(text, name, float(numbers[0]) if numbers else None, metadata)

    @property
    def key(self) -> DocumentKey:
        """What tells it from other documents: equal keys are one document.

        The key holds id and text. Without an id it holds text and metadata; scores do
        not count.
        """
        if self.id is not None:
            return ("id", self.id, self.text)
        names = self.metadata.keys() - set(SCORE_KEYS)
        metadata = [(name, repr(self.metadata[name])) for name in names]
        return ("text", repr(sorted(metadata)), self.text)

    @property
    def own_texts(self) -> tuple[str, ...]:
        """Its text and its forms. Each of them is the whole document.

        Example: "file_name: a.md, It fell." and "It fell.", without the heading.
        """
        return (self.text, *self.forms)

    @property
    def text_without_metadata(self) -> str:
        r"""The text, without the metadata that a framework wrote above or below it.

        Example: "file_name: a.md\n\nIt is old." has the form "It is old.", which it is.
        """
        forms_inside = [form for form in self.forms if form.strip() in self.text]
        return max(forms_inside, key=len, default=self.text)

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts that it may be shown as.

        They are its own texts, and longer texts of its metadata that hold it, or that
        are a passage. Example: a search found a sentence, and its metadata ``{"window":
        …}`` holds three sentences around it: the sentence, and these three. Another one
        found a summary, and its metadata hold the whole.
        """
        texts = [*self.own_texts]
        own = self.text_without_metadata
        for value in self.metadata.values():
            if not isinstance(value, str) or len(value) <= len(own):
                continue
            is_around = len(own) >= _SHORTEST_PIECE and own in value
            if is_around or (len(value) >= _SHORTEST_PASSAGE and is_prose(value)):
                texts.append(value)
        return tuple(dict.fromkeys(texts))

    def context(
        self, text: str | None = None, shown_metadata: tuple[str, ...] | None = None
    ) -> Context:
        """The document as a context, with the text, and metadata, that were shown of it."""
        return Context(
            text=self.text if text is None else text,
            id=self.id,
            score=self.score,
            metadata=dict(self.metadata),
            shown_metadata=shown_metadata,
        )


_MOST_RECENT = 1_000
_recent_documents: dict[Hashable, Document] = {}


def kept_once(key: Hashable, make_copy: Callable[[], Document]) -> Document:
    """Return the copy that a recent run made under a key, else a new one.

    Runs tell of equal documents again and again. They are copied once, and take memory
    once.

    Args:
        key: All that the copy is made of.
        make_copy: Makes it.
    """
    document = _recent_documents.get(key)
    if document is None:
        if len(_recent_documents) >= _MOST_RECENT:
            _recent_documents.clear()
        document = _recent_documents[key] = make_copy()
    return document


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that a model called.

    Attributes:
        name: The tool's name.
        arguments: What the model gave it, by parameter: ``{"query": "ferry"}``.
        id: The id of the call, which the tool's message repeats; None if it has none.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)
    id: str | None = None


@dataclass(frozen=True, slots=True)
class CitedSource:
    """A source that a model's provider names beside the text of a reply.

    Attributes:
        names: What it may be called: the id of a context, its address, file, title.
        quote: Words that stand in the source.
        part: The part of the reply that it is named for; None for all of the reply.
    """

    names: tuple[str, ...] = field(default=(), repr=False)
    quote: str | None = field(default=None, repr=False)
    part: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt or a conversation, or a model's reply.

    Attributes:
        role: ``user``, ``assistant``, ``system``, ``tool``, ``other`` or ``summary``: a
            summary of earlier messages, which memory inserted, whatever its role there.
            It is nobody's turn.
        text: Its text blocks, joined; of a tool the result as the model sees it.
        tool_calls: The tools that it calls.
        cited_sources: What a reply cites, by the word of the model's provider. None if
            the provider says nothing.
    """

    role: str
    text: str = field(default="", repr=False)
    tool_calls: tuple[ToolCall, ...] = ()
    cited_sources: tuple[CitedSource, ...] | None = field(
        default=None, kw_only=True, compare=False
    )

    def __str__(self) -> str:
        """Its text."""
        return self.text

    @property
    def content(self) -> str:
        """Its text, by the name that most frameworks give it."""
        return self.text


def last_words_of_user(messages: Sequence[Message]) -> str | None:
    """Return the last message of the user that is not blank; None without one."""
    for message in reversed(messages):
        if message.role == "user" and message.text.strip():
            return message.text
    return None


@dataclass(slots=True, eq=False)
class Node:
    """One call of a run: of a model, a retriever, a tool or any other step.

    An adapter gives ``kind``, ``name``, ``began`` and ``ended``, and the fields that
    apply to the kind. Every other field can stay as it is.

    Attributes:
        kind: ``model``, ``retriever``, ``reranker`` (anything that takes and gives
            documents by profession), ``tool``, ``agent`` (a run inside, with a question
            and an answer of its own), ``step`` (anything else) or ``ignored`` (it and
            all below it is no part of the answering, e.g. an evaluator).
        name: What the framework calls it; of a tool the tool's name.
        began: When it began: any number that rises over all calls of a process.
        ended: When it ended; None if it never did, so that it returned nothing.
        children: The calls inside it.
        query: What it was asked; of a tool the one text argument, else its arguments as
            JSON.
        arguments: What a tool or search was given, by parameter, as plain values: its
            query is made of them where none is told.
        input_documents: Documents that it was given.
        documents: Documents that it returned, in their order: None if it returned none,
            () for an empty list. Of a step only those that it did not merely pass on.
        documents_among_inputs: Documents that stood among the inputs of a step.
        documents_passed_on: Those of them that the step passed on.
        sorts_documents: Whether it returned documents under several names, such as
            those it kept and those it rejected.
        text: What a tool or agent returned, as the model sees it.
        result: What a tool returned, as plain values: texts, numbers, mappings, and
            tuples of these. It tells how the text divides into passages, and is itself
            the text, as JSON, where none is given; None if the text is all that it
            returned. Of a retriever all that it returned, if it is more than documents.
        prompt: What a model was shown, results of tools included.
        texts_handed_in: Texts that stand in a model's request as documents, in blocks of
            their own.
        evidence_not_recorded: Why evidence that the model was shown was not recorded,
            in words: it stands in a file, or the provider keeps it. The sample is
            incomplete then.
        reply: What a model replied; None if it failed or has not replied.
        other_replies: What it replied beside that, where it was asked for several.
        model: The name of the model, e.g. gpt-4o-mini.
        offered_tools: The names of the tools that a model was told it may call.
        error: What it ended with instead of returning, e.g. TimeoutError.
        tool_call_id: The id of the tool call that it answers. It tells which of the
            model's calls came first.
        is_control: Whether it is a tool that steers the run and brings no evidence: a
            hand-off, a structured answer, a call that a person rejected or that only
            waits for one.
        agent: The agent that it and what is inside it belongs to; None for the agent of
            the call around it.
        by_provider: Whether the provider of the model around it made it, while that
            model answered: a web search of the provider.
        may_have_searched: Of a model: whether its provider may have searched without
            telling what it found.
        remarks: What is uncertain about it, in words. With a remark nothing is exact.
        given: All that it was given, where ``Listener.names_looked_up`` has its name, or
            one of the keys in it.
        returned: All that it returned, in the same way.
    """

    kind: Kind
    name: str = ""
    began: float = 0.0
    ended: float | None = None
    children: list[Node] = field(default_factory=list, repr=False)
    query: str | None = field(default=None, repr=False)
    arguments: Mapping[Any, Any] | None = field(default=None, repr=False)
    input_documents: tuple[Document, ...] = field(default=(), repr=False)
    documents: tuple[Document, ...] | None = field(default=None, repr=False)
    documents_among_inputs: tuple[Document, ...] = field(default=(), repr=False)
    documents_passed_on: tuple[Document, ...] = field(default=(), repr=False)
    sorts_documents: bool = False
    text: str | None = field(default=None, repr=False)
    result: Any = field(default=None, repr=False)
    prompt: tuple[Message, ...] = field(default=(), repr=False)
    texts_handed_in: tuple[str, ...] = field(default=(), repr=False)
    evidence_not_recorded: tuple[str, ...] = ()
    reply: Message | None = field(default=None, repr=False)
    other_replies: tuple[Message, ...] = field(default=(), repr=False)
    model: str | None = None
    offered_tools: tuple[str, ...] = ()
    error: str | None = field(default=None, repr=False)
    tool_call_id: str | None = None
    is_control: bool = False
    agent: str | None = None
    by_provider: bool = False
    may_have_searched: bool = False
    remarks: tuple[str, ...] = ()
    given: Any = field(default=None, repr=False)
    returned: Any = field(default=None, repr=False)

    def walk(self) -> Iterator[Node]:
        """This call and all below it that count, in the order in which they began."""
        return (path[-1] for path in self.paths())

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
    """An answer as the framework gives it.

    Attributes:
        text: Its text; None if the framework gives an answer without one.
        replies: The replies that it was built from, where the framework names them.
        writing_call: The call that wrote it, where the framework tells; None leaves it
            to the rules.
        is_extracted: Whether it was cut out of a document, or says by itself that there
            is none, so that no model wrote it.
        documents: The documents that it carries: its data flow. None if it carries
            none.
        question: The question that it carries.
        model: The model that wrote it, as the framework names it.
    """

    text: str | None = field(repr=False)
    _: KW_ONLY
    replies: tuple[str, ...] = field(default=(), repr=False)
    writing_call: Node | None = field(default=None, repr=False)
    is_extracted: bool = False
    documents: tuple[Document, ...] | None = field(default=None, repr=False)
    question: str | None = field(default=None, repr=False)
    model: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class Tree:
    """One run of an application, from its outermost call inwards.

    An adapter fills it. None, and an empty tuple, mean that the framework does not
    tell. An adapter gives ``root``, and what of ``question``, ``answers``, ``error``
    and ``history`` the framework tells. Every other field can stay as it is.

    Attributes:
        root: The outermost call.
        question: The user's question.
        history: Earlier turns of the conversation, oldest first, without the question.
        is_history_of_prompt: Whether the history was read from a prompt, where typed
            messages may be examples as well.
        instructions: Texts that stand in prompts for another reason than evidence:
            templates, examples.
        answers: The answers that the framework gives, a sample for each; () leaves it
            to the rules.
        output: What the run returned, as plain values: its texts tell which call
            answered.
        flow_documents: Documents that reached the generator by the framework's own data
            flow, for where the prompt does not tell; None leaves it to the rules.
        gives_only_documents: Whether it gives documents and nothing else: another run
            may answer from them.
        is_by_hand: Whether it is a search that the framework does not report: it counts
            where a model is shown what it found, and is no sample by itself.
        error: What the run ended with; by default the root's error.
        is_complete: False if it was abandoned, interrupted or still goes on.
        partial_answer: What was read of an answer that broke off.
        task_or_thread: The task or thread it ran in: runs of one task or thread may
            belong together.
        resumption_key: What a run that waits for a person and the one that goes on with
            it share.
        conversation_id: The framework's id of the conversation; None if it has none.
        turn_number: The turn's number in the conversation, from 1; by default one more
            than the user's messages in the history.
        earlier_calls: The ledger's calls of earlier turns.
        is_paused: Whether it waits for a person: the next run of its thread that
            ``continues`` goes on with it.
        continues: Whether it goes on with an earlier run instead of asking something
            new.
        given_fields: Fields of the sample that the call itself says.
        documents_without_text: Documents without text, as of images; only noted.
        n_without_text: How many of the retrieved documents have a text that was not
            recorded.
        doubts: What is uncertain about the run. With a doubt nothing is exact.
        native_run: The framework's own run, for callables of the user.
        further_native_runs: Those of other runs of the turn, which such a callable gets
            where it returns None for this one.
        lookup_inputs: Mappings of what the run was given. The user's keys and paths,
            such as ``question_from="state.question"``, are looked up in them; the first
            hit counts.
        lookup_outputs: The same of what the run returned. The contexts and the answer
            are looked up in these first, the question in ``lookup_inputs``.
        to_plain_value: Makes plain values of what is found there.
        call_by_place: Of places in the outputs that the user may name, the call that
            returned what stands there, where the framework tells.
    """

    root: Node
    question: str | None = None
    history: tuple[Turn, ...] = ()
    is_history_of_prompt: bool = False
    instructions: tuple[str, ...] = ()
    answers: tuple[Answer, ...] = ()
    output: Any = None
    flow_documents: tuple[Document, ...] | None = None
    gives_only_documents: bool = False
    is_by_hand: bool = False
    error: str | None = None
    is_complete: bool = True
    partial_answer: str | None = None
    task_or_thread: str = ""
    resumption_key: str | None = None
    conversation_id: str | None = None
    turn_number: int | None = None
    earlier_calls: tuple[EvidenceCall, ...] = ()
    is_paused: bool = False
    continues: bool = False
    given_fields: Mapping[str, Any] = field(default_factory=dict)
    documents_without_text: tuple[Document, ...] = ()
    n_without_text: int = 0
    doubts: tuple[Doubt, ...] = ()
    native_run: Any = None
    further_native_runs: tuple[Any, ...] = ()
    lookup_inputs: tuple[Any, ...] = ()
    lookup_outputs: tuple[Any, ...] = ()
    to_plain_value: Callable[[Any], Any] = field(default=lambda value: value)
    call_by_place: Mapping[str, Node] = field(default_factory=dict)

    @property
    def only_searches(self) -> bool:
        """Whether it answers nobody: a search, or a tool that asked no model, by itself."""
        if self.root.kind == "tool":
            return all(call.kind != "model" for call in self.root.walk())
        return self.gives_only_documents or self.root.kind == "retriever"


_KINDS = get_args(Kind)
# fields of a tree or a call that hold several objects: of which class, and how one is made
_LISTS: tuple[tuple[str, type, str], ...] = (
    ("answers", Answer, "Answer(text) objects"),
    ("documents", Document, "Document(text) objects"),
    ("input_documents", Document, "Document(text) objects"),
    ("prompt", Message, "Message('user', text)"),
)


def check_tree(tree: Tree) -> None:
    """Check that the calls of a tree are of known kinds and hold objects of our types.

    Raises:
        SettingError: A call has an unknown kind, a text stands in place of a
            ``Document``, ``Message`` or ``Answer``, one of these in place of a tuple,
            an exception in place of its words, or a call returned something and did
            not end. The error names the call.
    """
    problem = _problem_of_fields(tree)
    if problem:
        raise SettingError(f"the tree {problem}")
    calls = [tree.root]
    for call in calls:  # the list grows while the loop runs
        problem = _problem_of_call(call)
        if problem:
            raise SettingError(f"the call {call.name!r} of the tree {problem}")
        calls += call.children


def _problem_of_call(call: Node) -> str:
    """Say which field of a recorded call has a wrong value; "" if none has."""
    if call.kind not in _KINDS:  # "llm" in place of "model"
        return f"has the kind {call.kind!r}: give one of {', '.join(_KINDS)}"
    problem = _problem_of_fields(call)
    if problem:
        return problem
    if not isinstance(call.reply, (Message, NoneType)):
        kind = type(call.reply).__name__
        return f"has a reply that is a {kind}: give Message('assistant', text)"
    returned = (call.documents, call.reply, call.text)
    if call.ended is None and returned != (None, None, None):
        return "returned something and has no end: give ended, a number above began"
    return ""


def _problem_of_fields(holder: Tree | Node) -> str:
    """Say which error or list of a tree or a call has a wrong value; "" if none has.

    Example: "has input_documents that hold a str: give Document(text) objects".
    """
    if not isinstance(holder.error, (str, NoneType)):
        return f"has an error that is a {type(holder.error).__name__}: give its words"
    for name, kind, example in _LISTS:
        values = getattr(holder, name, ())
        if values is None and kind is Document:  # it returned none
            continue
        are, hold = f"{name} that are", f"{name} that hold"
        if name == "prompt":
            are, hold = "a prompt that is", "a prompt that holds"
        if not isinstance(values, Iterable):
            return f"has {are} one {type(values).__name__}: give a tuple"
        for value in values:
            if not isinstance(value, kind):
                return f"has {hold} a {type(value).__name__}: give {example}"
    return ""
