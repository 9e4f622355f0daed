"""One turn of a RAG application.

A sample holds the question, what was retrieved, the answer, and what was expected.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Unpack

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from ragmetrics_core.data.blank import is_blank
from ragmetrics_core.data.citations import Citation, why_unknown
from ragmetrics_core.data.column_arguments import Fields
from ragmetrics_core.data.display import one_line, table
from ragmetrics_core.data.documents import fields_of_document
from ragmetrics_core.data.earlier_turns import before_this_turn
from ragmetrics_core.data.frozen import Frozen, OptionalText, Share, Text, none_if_blank
from ragmetrics_core.data.measured_use import MeasuredUse, PromptMessage


class Context(Frozen):
    """One retrieved chunk."""

    text: Text = Field(repr=False, description="The text as the generator saw it.")
    id: Text | None = Field(
        default=None,
        description="The store's own id; None if it gave none. Never invented.",
    )
    score: float | None = Field(
        default=None,
        description=(
            "Its retriever's or reranker's; None if it gave none; in no prompt."
        ),
    )
    metadata: dict[str, Any] = Field(
        default_factory=dict, repr=False, description="The chunk's metadata, untouched."
    )

    @property
    def blank(self) -> bool:
        """True if the text shows nothing.

        It is then empty, or only white space and signs without a shape.
        """
        return is_blank(self.text)


class Fact(Frozen):
    """One atomic, self-contained statement of a golden response."""

    text: Annotated[Text, Field(pattern=r"\S")] = Field(
        repr=False, description="The statement."
    )
    weight: float = Field(
        default=1.0,
        gt=0,
        allow_inf_nan=False,
        description="Its weight in the mean over facts, > 0.",
    )


class Turn(Frozen):
    """An earlier turn of the conversation."""

    role: str = Field(description="Who spoke, e.g. ``user`` or ``assistant``.")
    content: Text = Field(repr=False, description="What was said.")


Grade = Literal["exact", "inferred", "incomplete"]
EvidenceFrom = Literal["prompt", "flow", "named"]

# words of older results files
_OLDER_WORDS = {
    "located": "exact",
    "resolved": "prompt",
    "undivided": None,
    "ids_only": None,
    "listed": "flow",
    "retrieved_only": "flow",
    "none_found": "flow",
}


def _word_of_now(value: object) -> object:
    """Read a word of an older results file as the word that is written now."""
    return _OLDER_WORDS.get(value, value) if isinstance(value, str) else value


class PassageNote(Frozen):
    """What became of one retrieved passage, as far as the run recorded it."""

    retriever: str | None = Field(
        default=None, repr=False, description="The call that found it first."
    )
    rank: int | None = Field(
        default=None, ge=1, description="Its rank there, from 1; None: unknown."
    )
    kept: bool | None = Field(
        default=None,
        description=(
            "Whether rerankers and filters handed it on; None: none is known that was"
            " given it."
        ),
    )
    rank_kept: int | None = Field(
        default=None,
        ge=1,
        description="Its rank behind the last of them; None: unknown.",
    )
    dropped_by: str | None = Field(
        default=None, repr=False, description="The name of the one that did not."
    )
    context: int | None = Field(
        default=None, ge=0, description="Place of the context that shows it, from 0."
    )
    share: Share | None = Field(
        default=None,
        description=(
            "Share of its letters that the model was shown; 0: none; None: unknown."
        ),
    )
    why_unknown: str | None = Field(
        default=None,
        repr=False,
        description=(
            "Why it is not known whether the model was shown it; None: it is known, or"
            " another field says why not."
        ),
    )


class CaptureNotes(Frozen):
    """What capturing knows about a sample, beyond the sample itself."""

    grade: Annotated[Grade | None, BeforeValidator(_word_of_now)] = Field(
        default=None,
        description=(
            "How sure the sample is: ``exact``; ``inferred``, something is uncertain;"
            " ``incomplete``, there is no answer or no evidence, or the run broke. None"
            " for samples that no rules made."
        ),
    )
    evidence_from: Annotated[EvidenceFrom | None, BeforeValidator(_word_of_now)] = (
        Field(
            default=None,
            description=(
                "How the contexts are known: from the ``prompt``; from the ``flow`` of"
                " documents; ``named`` by the user. None: they are not known."
            ),
        )
    )
    doubts: dict[str, str] = Field(
        default_factory=dict,
        description="What is uncertain: by code what it is and what to do, in words.",
    )
    warnings: tuple[str, ...] = Field(
        default=(), description="What was ambiguous, in words; they hold no texts."
    )
    intermediate: tuple[Context, ...] = Field(
        default=(), description="Answers of intermediate steps: no retrieved evidence."
    )
    other: tuple[Context, ...] = Field(
        default=(),
        description="Nodes of the run that are neither contexts nor retrieved.",
    )
    complete: bool = Field(
        default=True,
        description="False if the run was abandoned, interrupted or still going on.",
    )
    passages: tuple[PassageNote, ...] | None = Field(
        default=None,
        repr=False,
        description="One for each retrieved passage; None if nothing was recorded.",
    )
    citations_unknown: str | None = Field(
        default=None,
        repr=False,
        description="Why it is not known what the answer cites; None if it is.",
    )
    unread_texts: tuple[str, ...] | None = Field(
        default=None,
        repr=False,
        description=(
            "Why the run may have found texts that the sample lacks, and what returns"
            " them, in words; (): no such texts are known; None: nobody noted it."
        ),
    )
    prompt: tuple[PromptMessage, ...] | None = Field(
        default=None,
        repr=False,
        description="The prompt of the answer, where ``keep_prompts=True`` asked for it.",
    )


def _with_texts(value: object) -> object:
    """Accept plain strings and documents of frameworks as objects with a text."""
    if isinstance(value, (str, Context)) or fields_of_document(value) is not None:
        value = [value]
    if isinstance(value, (list, tuple)):
        return tuple(map(_with_text, value))
    return value


def _with_text(element: object) -> object:
    """Accept a plain string or a document of a framework as an object with a text."""
    if isinstance(element, str):
        return {"text": element}
    if isinstance(element, (Context, Mapping)):
        return element
    return fields_of_document(element) or element


def _as_texts(value: object) -> object:
    """Accept one text for a tuple of texts; drop blank ones."""
    if value is None or isinstance(value, str):
        value = [value]
    if isinstance(value, (list, tuple)):
        return tuple(text for text in map(none_if_blank, value) if text is not None)
    return value


def _as_ids(value: object) -> object:
    """Accept one id for a tuple of ids, and ids that are numbers."""
    if isinstance(value, (str, int)):
        value = [value]
    if isinstance(value, (list, tuple)):
        return tuple(str(each) if isinstance(each, int) else each for each in value)
    return value


Facts = Annotated[
    tuple[Fact, ...] | None,
    BeforeValidator(_with_texts),
    AfterValidator(lambda facts: facts or None),
]
Contexts = Annotated[
    tuple[Context, ...],
    BeforeValidator(lambda value: () if value is None else _with_texts(value)),
]


class EvidenceCall(Frozen):
    """One time that evidence arrived.

    It is a retrieval, the result of a tool, documents handed in, or a model's own text.
    """

    kind: Literal["retrieval", "tool", "given", "written"] = Field(
        description=(
            "written: by a model of the application, never evidence; tool: any other"
            " result without documents"
        )
    )
    turn: int = Field(
        default=1, ge=1, description="The turn of the conversation, from 1."
    )
    step: int = Field(
        default=0,
        ge=0,
        description="Calls of models of the turn that began before it; plain RAG: 0.",
    )
    name: str | None = Field(
        default=None, description="The tool's name; None without a tool."
    )
    query: OptionalText = Field(
        default=None, repr=False, description="Its one text argument, else all as JSON."
    )
    items: Contexts = Field(
        default=(), description="What it brought, in its own order; () for nothing."
    )
    shown: tuple[int, ...] | None = Field(
        default=None,
        description=(
            "Places of the items that the answering call was shown; None if that is"
            " unknown."
        ),
    )
    agent: str | None = Field(
        default=None, description="The agent that made the call; None for the only one."
    )
    error: str | None = Field(
        default=None,
        repr=False,
        description="What it failed with; it has no items then.",
    )


class Ledger(Frozen):
    """Every call that brought evidence, of this turn and of the turns before it.

    The calls are ordered by turn, step and call.
    """

    conversation: str | None = Field(
        default=None, description="Id that the turns of one conversation share."
    )
    turn: int = Field(default=1, ge=1, description="The turn of this sample, from 1.")
    calls: tuple[EvidenceCall, ...] = ()


class Sample(Frozen):
    """One turn of a RAG application, independent of any framework.

    None and blank texts are the same.

    Raises:
        pydantic.ValidationError: If a field has a wrong type or is unknown.

    Examples:
        >>> sample = Sample(question="Capital of France?", contexts=["Paris is the capital."], answer="Paris")
        >>> sample.contexts[0].text
        'Paris is the capital.'
    """

    question: OptionalText = Field(
        default=None,
        repr=False,
        description="What the user asked, in the user's words.",
    )
    contexts: Annotated[tuple[Context, ...] | None, BeforeValidator(_with_texts)] = (
        Field(
            default=None,
            description=(
                "What reached the generator, best first; plain strings are accepted."
                " None: unknown, (): nothing was found."
            ),
        )
    )
    answer: OptionalText = Field(
        default=None, repr=False, description="What the application answered."
    )
    reference: Annotated[tuple[Text, ...], BeforeValidator(_as_texts)] = Field(
        default=(),
        repr=False,
        description="The expected answer, one or several; the best match counts.",
    )
    retrieved: Annotated[tuple[Context, ...] | None, BeforeValidator(_with_texts)] = (
        Field(
            default=None,
            description=(
                "From the retriever, before reranking, filtering or cutting; None:"
                " unknown, (): nothing found."
            ),
        )
    )
    facts: Facts = Field(
        default=None,
        description="Facts of the reference, if they were extracted before.",
    )
    expected_ids: Annotated[tuple[Text, ...] | None, BeforeValidator(_as_ids)] = Field(
        default=None, description="Ids of the passages that the retriever should find."
    )
    expected_contexts: Annotated[
        tuple[Context, ...] | None, BeforeValidator(_with_texts)
    ] = Field(
        default=None,
        description="The passages that the retriever should find, by their texts.",
    )
    standalone_question: OptionalText = Field(
        default=None, repr=False, description="The application's rewrite for retrieval."
    )
    history: tuple[Turn, ...] = Field(
        default=(),
        description=(
            "Earlier turns of the conversation, oldest first. Where it ends in this"
            " question and this answer, or in this question, these are left out."
        ),
    )
    generator: Text | None = Field(
        default=None, description="The model that wrote the answer."
    )
    error: Text | None = Field(
        default=None,
        repr=False,
        description="What went wrong in the run: reported, never scored.",
    )
    id: Text | None = Field(default=None, description="The caller's id of the sample.")
    metadata: dict[str, Any] = Field(
        default_factory=dict,
        repr=False,
        description="The caller's own data, untouched.",
    )
    capture: CaptureNotes | None = Field(
        default=None, description="What capturing noted; None if it was not captured."
    )
    ledger: Ledger | None = Field(
        default=None,
        description="Calls that brought evidence, also earlier; None if unrecorded.",
    )
    citations: tuple[Citation, ...] | None = Field(
        default=None,
        description=(
            "What the answer cites; None: not known, or nobody looked; (): nothing."
        ),
    )
    use: MeasuredUse | None = Field(
        default=None,
        description="What each context did to the answer; None: nobody measured it.",
    )

    @field_validator("history")
    @classmethod
    def _history_ends_before_this_turn(
        cls, history: tuple[Turn, ...], fields: ValidationInfo
    ) -> tuple[Turn, ...]:
        """Leave out this turn, which a memory holds that was read after it."""
        questions = [
            fields.data.get("question") or "",
            fields.data.get("standalone_question") or "",
        ]
        answer = fields.data.get("answer") or ""
        return before_this_turn(history, questions, answer)

    @field_validator("citations")
    @classmethod
    def _citations_point_into_the_sample(
        cls, citations: tuple[Citation, ...] | None, fields: ValidationInfo
    ) -> tuple[Citation, ...] | None:
        """Refuse citations that lie outside the answer, or name no context.

        With an answer of 10 characters and 3 contexts, an end of 11 is refused, and so
        is the context 3, counted from 0.
        """
        n_characters = len(fields.data.get("answer") or "")
        n_contexts = len(fields.data.get("contexts") or ())
        for citation in citations or ():
            end = citation.end
            if citation.mark is not None:  # the span of "[1]" itself
                _, end_of_mark = citation.mark
                end = max(end, end_of_mark)
            if end > n_characters:
                raise ValueError(
                    f"a citation ends at {end}, the answer at {n_characters}"
                )
            if max(citation.contexts, default=-1) >= n_contexts:
                raise ValueError(
                    f"a citation names place {max(citation.contexts)}, counted from 0,"
                    f" of {n_contexts} contexts"
                )
        return citations

    @property
    def citations_unknown(self) -> str:
        """Why it is not known what the answer cites, in words; "" if it is known."""
        if self.citations is not None:
            return ""
        recorded = None if self.capture is None else self.capture.citations_unknown
        is_captured = self.capture is not None and self.capture.grade is not None
        return recorded or why_unknown(self.answer, is_captured=is_captured)

    @model_validator(mode="before")
    @classmethod
    def _nothing_retrieved_is_no_context(cls, values: Any) -> Any:
        """Take contexts that nobody gave as () where the retriever returned nothing."""
        if not isinstance(values, Mapping) or values.get("contexts") is not None:
            return values
        retrieved = values.get("retrieved")
        if isinstance(retrieved, (list, tuple)) and not retrieved:
            return {**values, "contexts": ()}
        return values

    @property
    def known_contexts(self) -> tuple[Context, ...]:
        """The contexts; () also where it is unknown what reached the generator."""
        return self.contexts or ()

    @property
    def context_texts(self) -> tuple[str, ...]:
        """The texts of the contexts that show something, each once, at its first rank."""
        texts = [context.text for context in self.known_contexts if not context.blank]
        return tuple(dict.fromkeys(texts))

    def missing(self, field: str) -> bool:
        """Tell whether a field holds nothing that a metric could read.

        Contexts and retrieved texts that are known to be empty are not missing.
        Fields are ``question``, ``contexts``, ``answer``, ``reference``, ``facts``,
        ``retrieved`` and ``ledger``.
        """
        value = getattr(self, field)
        if field in ("contexts", "retrieved"):
            return value is None
        if field == "ledger":
            calls = value.calls if value else ()
            value = []
            for call in calls:
                if call.kind != "written":  # what a model wrote is no evidence
                    value += call.items
            return all(item.blank for item in value)
        return not value

    def __str__(self) -> str:
        """The question and the answer, a line each; ``repr``, as in logs, shows no text."""
        return f"{one_line(self.question or '-')}\n{one_line(self.answer or '-')}"

    def _repr_html_(self) -> str:
        """Return what metrics read as HTML, for a notebook; ``repr`` shows no texts.

        Example: a table with the rows "question", "contexts" and "answer". Empty fields
        have no row.
        """
        contexts_by_field: dict[str, Sequence[Context]] = {
            "contexts": self.known_contexts,
            "retrieved": self.retrieved or (),
        }
        rows: list[tuple[str, str | Sequence[str]]] = [
            ("question", self.question or "")
        ]
        for field, contexts in contexts_by_field.items():
            rows.append((field, [context.text for context in contexts]))
        rows.append(("answer", self.answer or ""))
        rows.append(("reference", self.reference))
        rows.append(("facts", [fact.text for fact in self.facts or ()]))
        filled_rows = [(field, value) for field, value in rows if value]
        return table(filled_rows)

    @classmethod
    def from_row(cls, row: Mapping[str, Any], **columns: Unpack[Fields]) -> "Sample":
        """Make a sample of a table's row, finding the field's usual column names.

        Args:
            row: A mapping of column names to values.
            **columns: For a field of the sample, where to find it: a column name (an
                exact name wins), a dotted path through dicts and JSON strings
                (``"prediction.contexts"``), or a callable that gets the row. Columns
                that no field uses go to ``metadata``.

        Returns:
            The sample. A missing field is not an error.

        Raises:
            RowError: If the row is no mapping, a value has a wrong type, or a named
                column is not there.
            SettingError: If ``columns`` names a field that samples do not have.

        Examples:
            >>> Sample.from_row({"query": "Who?", "retrieved_contexts": ["a"], "response": "b"}).question
            'Who?'
        """
        from ragmetrics_core.data.rows import sample_from_row  # rows knows Sample

        return sample_from_row(row, dict(columns))
