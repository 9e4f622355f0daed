"""One turn of a RAG application, and how it is read from the row of a table.

A sample holds the question, what was retrieved, the answer, and what was expected. In
rows the field's usual column names are found, so none needs to be configured.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Unpack, cast

from pydantic import (
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from ragmetrics_core.data import cells
from ragmetrics_core.data.cells import data_in, is_filled
from ragmetrics_core.data.citations import (
    NOT_JOINED,
    Citation,
    is_citations,
    may_cite,
    numbering_in,
    numbering_of_column,
    numbering_of_texts,
    read_citations,
    why_unknown,
)
from ragmetrics_core.data.columns import (
    KEY_IN_OWN_RESULTS,
    KNOWN_NAMES,
    Columns,
    Fields,
    FoundValue,
    Row,
    column_of,
    find_fields,
    read_turns,
    unread_parts,
)
from ragmetrics_core.data.display import one_line, table
from ragmetrics_core.data.errors import AmbiguousColumns, RowError, SettingError
from ragmetrics_core.data.frozen import Frozen, OptionalText, Text, none_if_blank
from ragmetrics_core.data.messages import several_in_one_row, with_written_messages
from ragmetrics_core.data.name_matching import (
    HEADER_REPEATED,
    did_you_mean,
    is_of_trace,
    names_in_words,
    plain_name,
    repeats_header,
)
from ragmetrics_core.data.sample_parts import (
    CaptureNotes,
    Context,
    Facts,
    Ledger,
    MeasuredUse,
    OptionalContexts,
    Turn,
    before_this_turn,
    distinct_texts,
    texts_as_shown,
)
from ragmetrics_core.data.scalars import (
    FormattedNumber,
    composed_text,
    is_blank,
    is_placeholder,
    is_present,
    is_word_for_nothing,
    number_as_text,
    plain_data,
)


class Sample(Frozen):
    """One turn of a RAG application, independent of any framework.

    None and blank texts are the same.

    Attributes:
        question: What the user asked, in the user's words.
        contexts: What reached the generator, best first; plain strings are accepted.
            None: unknown, (): nothing was found. Captured passages of equal text are
            one context, and each its own in ``retrieved``.
        answer: What the application answered.
        reference: The expected answer, one or several; the best match counts.
        retrieved: From the retriever, before reranking, filtering or cutting; None:
            unknown, (): nothing found.
        facts: Facts of the reference, if they were extracted before.
        expected_ids: Ids of the passages that the retriever should find.
        expected_contexts: The passages that the retriever should find, by their texts.
        standalone_question: The application's rewrite for retrieval.
        generator: The model that wrote the answer.
        error: What went wrong in the run: reported, never scored.
        id: The caller's id of the sample.
        metadata: The caller's own data, untouched.
        capture: What capturing noted; None if it was not captured.
        history: Earlier turns of the conversation, oldest first. Of a whole one, which
            this question and this answer are part of, the turns before these.
        ledger: Calls that brought evidence, also earlier; None if unrecorded.
        citations: What the answer cites; None: not known, or nobody looked; ():
            nothing.
        use: What each context did to the answer; None: nobody measured it.

    Raises:
        pydantic.ValidationError: If a field has a wrong type or is unknown.

    Examples:
        >>> sample = Sample(question="Capital of France?", contexts=["Paris is the capital."], answer="Paris")
        >>> sample.contexts[0].text
        'Paris is the capital.'
    """

    question: OptionalText = Field(default=None, repr=False)
    contexts: OptionalContexts = None
    answer: OptionalText = Field(default=None, repr=False)
    reference: tuple[Text, ...] = Field(default=(), repr=False)
    retrieved: OptionalContexts = None
    facts: Facts = None
    expected_ids: tuple[Text, ...] | None = None
    expected_contexts: OptionalContexts = None
    standalone_question: OptionalText = Field(default=None, repr=False)
    generator: Text | None = None
    error: Text | None = Field(default=None, repr=False)
    id: Text | None = None
    metadata: dict[str, Any] = Field(default_factory=dict, repr=False)
    capture: CaptureNotes | None = None
    history: tuple[Turn, ...] = ()
    ledger: Ledger | None = None
    citations: tuple[Citation, ...] | None = None
    use: MeasuredUse | None = None

    @field_validator("reference", mode="before")
    @classmethod
    def _references_without_blanks(cls, value: object) -> object:
        """Accept one text for a tuple of texts; drop blank ones."""
        if value is None or isinstance(value, str):
            value = [value]
        if isinstance(value, (list, tuple)):
            return tuple(text for text in map(none_if_blank, value) if text is not None)
        return value

    @field_validator("expected_ids", mode="before")
    @classmethod
    def _ids_as_texts(cls, value: object) -> object:
        """Accept one id for a tuple of ids, and ids that are numbers."""
        if isinstance(value, (str, int)):
            value = [value]
        if isinstance(value, (list, tuple)):
            return tuple(str(each) if isinstance(each, int) else each for each in value)
        return value

    @field_validator("history")
    @classmethod
    def _history_ends_before_this_turn(
        cls, history: tuple[Turn, ...], fields: ValidationInfo
    ) -> tuple[Turn, ...]:
        """Leave out this turn, and what follows it in a whole conversation."""
        capture = fields.data.get("capture")
        is_captured = capture is not None and capture.grade is not None
        questions = [
            fields.data.get("question") or "",
            fields.data.get("standalone_question") or "",
        ]
        answer = fields.data.get("answer") or ""
        return before_this_turn(history, questions, answer, is_captured=is_captured)

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
        return distinct_texts(self.known_contexts)

    @property
    def texts_as_shown(self) -> tuple[str, ...]:
        """The texts of the contexts, each with the metadata that were shown beside it."""
        return texts_as_shown(self.known_contexts)

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
        if field in ("answer", "reference"):  # "-" and "..." say nothing
            texts = [value or ""] if field == "answer" else value or ()
            return all(map(is_placeholder, texts))
        return not value

    def __str__(self) -> str:
        """The question and the answer, a line each; ``repr``, as in logs, shows no text."""
        return f"{one_line(self.question or '-')}\n{one_line(self.answer or '-')}"

    def _repr_html_(self) -> str:
        """Return what metrics read as HTML, for a notebook; ``repr`` shows no texts.

        Example: a table with the rows "question", "contexts" and "answer". Empty fields
        have no row.
        """
        values: dict[str, str | Sequence[str] | None] = {
            "question": self.question,
            "contexts": [context.text for context in self.known_contexts],
            "retrieved": [context.text for context in self.retrieved or ()],
            "answer": self.answer,
            "reference": self.reference,
            "facts": [fact.text for fact in self.facts or ()],
        }
        return table([(field, value) for field, value in values.items() if value])

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
        return sample_from_row(row, dict(columns))


def has_answer_without_context(sample: Sample) -> bool:
    """Whether there is an answer, and it is known that no text reached the generator."""
    return not sample.missing("answer") and lacks_context(sample)


def lacks_context(sample: Sample) -> bool:
    """Tell whether it is known that no text reached the generator.

    Contexts that were never recorded are not known: a table without their column, a
    trace that holds ids alone.
    """
    notes = sample.capture
    is_captured = notes is not None and notes.grade is not None
    # the calls of a row of a table are all that there is to tell
    is_told_by_ledger = sample.ledger is not None and not is_captured
    is_known = sample.contexts is not None or is_told_by_ledger
    return is_known and not sample.context_texts and sample.missing("ledger")


def why_contexts_are_unknown(sample: Sample) -> str:
    """Say why it is not known what the model was shown; "" where that is known.

    It is not known where the capture is incomplete, where contexts were not recorded,
    and where evidence stands in the ledger alone.
    """
    if is_captured_in_part(sample):
        return "the capture is incomplete, so what was shown is not known"
    if sample.context_texts or lacks_context(sample):
        return ""
    if not sample.missing("ledger"):
        return "no contexts, but other evidence that calls brought"
    return "no contexts were recorded"


def why_undivided(sample: Sample, field: str = "contexts") -> str:
    """Say why nobody knows how many texts a field has; "" where it is known."""
    doubts = {} if sample.capture is None else sample.capture.doubts
    return doubts.get(UNDIVIDED_CODES[field], "")


def is_captured_in_part(sample: Sample) -> bool:
    """Tell whether a sample was captured, and its run broke or told only a part."""
    notes = sample.capture
    return notes is not None and (notes.grade == "incomplete" or not notes.complete)


UNDIVIDED_CODES = {
    "contexts": "joined",
    "retrieved": "joined_retrieved",
    "expected_contexts": "joined_expected_contexts",
}
"""By field the code of the doubt whether a row's one text of it is several."""
_TEXTS_SAID = ("question", "standalone_question", "history", "answer")
_WEB_ADDRESS = re.compile(r"\s*\w+://\S+\s*")
# Words with a digit or with a sign that words of a language lack: "d1", "b/7.txt; 5f0c".
_IDS = re.compile(
    r"\s*+(?:(?=[a-zA-Z-]*+[\d_./:#@\\])[\w./:#@\\-]*[\w/\\](?:[\s,;|]++|\Z))++",
    re.ASCII,
)
_LONGEST_CELL_OF_EXCEL = 32_767
_PYTHON_DICTIONARY = re.compile(r"\s*\{'.*\}\s*", re.DOTALL)
_VERDICT = re.compile(r"[01](\.0+)?|true|false|yes|no", re.IGNORECASE)
_ONE_VALUE = re.compile(r"\s*[\d.,:/-]+\s*")
# "Employee Handbook.pdf", "a.pdf (p. 3)"
_NAME_OF_FILE = re.compile(r"[^.!?\n]{1,80}\.[A-Za-z]\w{1,4}\b[^!?\n]{0,12}")
_NEEDED = {
    **dict.fromkeys(
        ("contexts", "retrieved", "expected_contexts"),
        "a text, or a list of texts or of objects with a text",
    ),
    "reference": "a text or a list of texts",
    "expected_ids": "an id or a list of ids",
    "history": "a list of texts or of messages with a content",
}
# as models write it, where the server reads none
_TOOL_CALL = re.compile(
    r"\s*(?:<tool_call>|<function=|\[TOOL_CALLS\]|<\|python_tag\|>|<\uff5ctool).*",
    re.DOTALL,
)
_FENCE = re.compile(r"\A\s*```(?:json)?\s(.*)```\s*\Z", re.DOTALL)
_CITATIONS = ("citations", "annotations")  # of an answer, or of a part of it
_UNREAD_CITATIONS = (
    "citations stand beside the answer in a form that is not read; write them as objects"
    " with start, end and contexts"
)
_DEEPEST = 6  # objects and lists in each other
_MOST_TEXTS_SHOWN = 3  # of an object, in a message
_Found = Mapping[str, FoundValue]
_NO_VALUE = FoundValue(None, "")


def sample_from_row(row: Row, columns: Mapping[str, Any]) -> Sample:
    """Return the sample of a row.

    Args:
        row: The row.
        columns: For a field, the column that the caller named for it, if any.

    Raises:
        RowError: If the row is no object, is a header, holds several answers, or cannot be
            read as a sample.
    """
    row = fields_of_row(row)
    if repeats_header(row):
        raise RowError(HEADER_REPEATED)
    if is_of_trace(row):
        raise AmbiguousColumns(
            "a call inside a trace, not a question and its answer; recorded traces are"
            " read by --traces, in Python by samples_from_spans of ragmetrics_core.traces"
        )
    if None in row:  # where csv.DictReader puts them
        raise RowError(
            "more cells than the header has columns; quote those that hold a comma"
        )
    found_by_field = find_fields(row, columns)

    values = _read_cells(found_by_field, columns)
    # The cell ``citations`` is a list of citations, or a numbering such as
    # {"1": "doc-a"}, which says what marks such as [1] in the answer mean.
    numbering_cell = None
    if isinstance(values.get("citations"), Mapping):
        numbering_cell = values.pop("citations")
    metadata = _metadata(row, found_by_field, values.get("metadata", {}))

    try:
        sample = Sample(**{**values, "metadata": metadata})
    except ValidationError as error:
        raise RowError(_explain(error, found_by_field)) from None
    _refuse_ids_in_one_text(sample, found_by_field)
    doubt_about_texts = _check_texts(sample, found_by_field, columns)
    notes = sample.capture or CaptureNotes()
    for field in UNDIVIDED_CODES:
        texts = _texts_of(sample, field)
        # as empty texts: what was shown is not known, and only ids may be compared
        if not (is_filled(texts, field) or sample.expected_ids or notes.grade):
            sample = sample.model_copy(update={field: None})
    doubts = _doubts_of_row(row, sample, notes, values, found_by_field, columns)
    if doubt_about_texts:
        doubts["names"] = doubt_about_texts
    if doubts != notes.doubts:
        notes = notes.model_copy(update={"doubts": doubts})
        sample = sample.model_copy(update={"capture": notes})
    if sample.citations or (sample.citations is not None and notes.grade):
        return sample
    if sample.citations is not None:
        # that the prompt numbered its sources is known of captured rows alone
        sample = sample.model_copy(update={"citations": None})
    column_of_answer = column_of(row, found_by_field.get("answer", _NO_VALUE).column)
    may_hold_citations = {
        column: cell
        for column, cell in row.items()
        if column == column_of_answer or plain_name(str(column)) in _CITATIONS
    }
    has_others = numbering_cell is None and _names_citations(may_hold_citations)
    return _with_citations_of_marks(sample, numbering_cell, has_others=has_others)


def _read_cells(found_by_field: _Found, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that a sample takes, read from the cells of a row.

    Example: '["a", "b"]' of the field "contexts" becomes two contexts. Fields with an
    empty cell are left out.

    Raises:
        RowError: If a cell cannot be read.
    """
    values: dict[str, Any] = {}
    for field, found_value in found_by_field.items():
        if is_filled(found_value.value, field):
            cell = plain_data(found_value.value)
            if isinstance(cell, FormattedNumber):
                raise RowError(
                    f"{field}: column {found_value.column!r} shows a number in a format"
                    ' such as 0.0 "kg", or by a formula; write it as a text, or save the'
                    " sheet as CSV"
                )
            data = data_in(cell)
            if isinstance(data, str):  # a JSON string is its text
                cell = data
            # who names the column says that each text is one
            is_named = field in UNDIVIDED_CODES and columns.get(field) is not None
            if is_named and isinstance(cell, str) and cells.is_record(data):
                cell = [cell]
            read_cell = _READERS.get(field)
            if field in UNDIVIDED_CODES:
                read_cell = partial(cells.read_contexts, column=found_value.column)
            try:
                values[field] = read_cell(cell, field) if read_cell else cell
            except AmbiguousColumns as error:
                column = f"{field} (column {found_value.column!r})"
                message = str(error).removeprefix(field)
                raise AmbiguousColumns(f"{column}{message}") from None
    return values


def _doubts_of_row(
    row: Row,
    sample: Sample,
    notes: CaptureNotes,
    values: Mapping[str, Any],
    found_by_field: _Found,
    columns: Mapping[str, Any],
) -> dict[str, str]:
    """Return what nobody can know of a row: its doubts by their codes."""
    doubts = dict(notes.doubts)
    named = {field for field, column in columns.items() if column is not None}
    # What one text holds is one context or several; nobody knows which until the caller
    # says, by naming its column, that each cell is one. A row of results tells of its own.
    # So it is with texts that are written lists themselves; one of several may begin so.
    for field, code in UNDIVIDED_CODES.items():
        found_value = found_by_field.get(field, _NO_VALUE)
        is_one_text = field in values and isinstance(data_in(found_value.value), str)
        texts = _texts_of(sample, field)
        is_of_table = bool(texts) and notes.grade is None
        are_lists = is_of_table and all(map(cells.is_written_list, texts))
        # where all are empty, ids alone are compared; what is expected has no ranks
        has_ranks = field != "expected_contexts" and is_filled(texts, field)
        if is_of_table and has_ranks and any(map(is_blank, texts)):
            doubts["blank"] = (
                f"an empty element of {field} counts at its rank and shows nothing;"
                " write its text, or leave it out if nothing was found there"
            )
        if field in named:
            doubts.pop(code, None)
        elif is_one_text or are_lists or code in doubts:
            option = cells.option_of_column(field, found_value.column)
            doubts[code] = f"{field} in one text: write a list (if it is one: {option})"
    taken = [
        f"{field} from {found.column!r}, {words}"
        for field, found in found_by_field.items()
        for words in found.beside
    ]
    if taken:
        doubts["other_column"] = "; ".join(taken)
    if notes.grade is not None:  # captured: the rest is told by its run
        return doubts
    twice = [
        key
        for key, value in values.get("metadata", {}).items()
        if is_present(value) and is_present(row.get(key))
        if str(row[key]) != str(value)
    ]
    if twice:
        names = names_in_words(twice, most=_MOST_TEXTS_SHOWN)
        taken.append(f"{names} of the metadata, which the column of that name denies")
    if sample.retrieved == () and sample.contexts:
        taken.append("contexts are filled, while nothing was retrieved")
    if sample.history and sample.question is None and sample.answer is None:
        column = found_by_field["history"].column
        taken.append(
            f"history from {column!r}, while nothing holds question and answer (if it"
            f" does: --question-column {column} --answer-column {column})"
        )
    # The application's answer may stand in its memory, beside the one that is expected;
    # or a whole conversation, beside a new answer. Messages around the question hold no
    # turn but earlier ones.
    column, *columns_of_messages = [
        found_by_field.get(field, _NO_VALUE).column
        for field in ("history", "question", "answer")
    ]
    is_of_messages = column in columns_of_messages
    asked_now = composed_text(sample.question or "").casefold()
    is_asked_before = bool(asked_now) and any(
        turn.role == "user" and composed_text(turn.content).casefold() == asked_now
        for turn in sample.history
    )
    if is_asked_before and not is_of_messages and "history" not in named:
        taken.append(
            f"{column!r} holds another answer to the question, as an earlier turn"
        )
    if taken:
        doubts["other_column"] = "; ".join(taken)
    # A whole conversation ends before this turn, where it stands first in it. It may be a
    # later one that asked and answered the same.
    turns = [Turn.model_validate(turn) for turn in values.get("history", ())]
    left_out = turns[len(sample.history) :]
    if left_out:
        later = tuple(left_out[1:])
        asked = [sample.question or "", sample.standalone_question or ""]
        answer = sample.answer or ""
        before_next = before_this_turn(later, asked, answer, is_captured=False)
        if (is_of_messages and "history" not in named) or before_next != later:
            doubts["history_unread"] = (
                "this question and answer stand in the conversation more than once; the"
                " turns before the first are its history"
            )
    return doubts


def fields_of_row(row: object) -> Row:
    """Return what a row holds by name: a mapping as it is, of an object its attributes.

    A mapping is also what ``dict`` takes for one, with ``keys()`` and ``[key]``: a row of
    sqlite3, a Series of pandas. Another object is a test case of another library. Message
    objects become mappings.

    Raises ``RowError`` for what is no mapping and has no attributes of its own.
    """
    is_class = isinstance(row, type)
    has_keys = callable(getattr(row, "keys", None)) and hasattr(row, "__getitem__")
    if has_keys and not is_class:
        fields = dict(cast("Mapping[str, Any]", row))
    else:
        attributes = {} if is_class else getattr(row, "__dict__", {})
        fields = {name: value for name, value in attributes.items() if name[:1] != "_"}
        if not fields:
            raise RowError(
                "a row must be an object with named fields, got"
                f" {type(row).__name__}; write it as {{name: value}}"
            )
    return cast("Row", with_written_messages(fields))


def columns_by_field(
    arguments: Mapping[str, Any], beside: Iterable[str] = ()
) -> dict[str, Any]:
    """Return what arguments such as ``question_column=`` say, by field of the sample.

    Example: ``question_column="query"`` gives ``{"question": "query"}``.

    Args:
        arguments: The arguments. An argument that is None is left out.
        beside: Other arguments that the function takes, which a wrong name may mean.

    Raises:
        SettingError: If an argument names no column; the message has the nearest name.
    """
    for name in arguments:
        if name not in Columns.__annotations__:
            known = {*beside, *Columns.__annotations__} - {"columns", "return"}
            near = did_you_mean(name, sorted(known))
            raise SettingError(
                f"unknown argument {name!r}{near}; columns are named like"
                " question_column="
            )
    column_by_field: dict[str, Any] = {}
    for name, column in arguments.items():
        if column is None:
            continue
        field = name.removesuffix("_column")
        if field == "ground_truth":  # another name of the reference
            field = "reference"
        column_by_field[field] = column
    return column_by_field


def _question(value: Any, field: str) -> Any:
    """Return the question of a row; ``RowError`` for messages that nobody reads."""
    data = data_in(value)
    is_list = isinstance(data, (list, tuple)) and len(data) > 0
    if is_list and all(isinstance(each, Mapping) for each in data):
        raise RowError(
            f"{field}: objects that are no messages; write them as"
            ' [{"role": "user", "content": "…"}, …]'
        )
    if isinstance(value, str) and isinstance(data, Mapping):
        raise RowError(
            f"{field}: an object in JSON that names no {field}; name the place in it, as"
            f" by --{field}-column inputs.text"
        )
    cells.refuse_what_was_cut(value, field)
    return value


def _answer(value: Any, field: str) -> Any:
    """Return the answer of a row, also where it is the only one of a list.

    Raises ``RowError`` for several answers.
    """
    cells.refuse_what_was_cut(value, field)
    answers = value if isinstance(value, (list, tuple)) else [value]
    if len(answers) > 1:
        raise RowError(several_in_one_row(field, len(answers)))
    return number_as_text(answers[0]) if answers else None


def _refuse_ids_in_one_text(sample: Sample, found_by_field: _Found) -> None:
    """Refuse a text taken for one id whose pieces are ids of what was retrieved.

    Nobody can say of "k7 k9" alone whether it is one id.

    Raises ``RowError``.
    """
    cell = data_in(found_by_field.get("expected_ids", _NO_VALUE).value)
    retrieved = sample.known_contexts if sample.retrieved is None else sample.retrieved
    ids = {composed_text(each.id) for each in retrieved if each.id is not None}
    if not isinstance(cell, str):
        return
    cell = composed_text(cell)
    pieces = [piece for piece in _BETWEEN_IDS.split(cell) if piece]
    if cell not in ids and len(pieces) > 1 and ids.intersection(pieces):
        raise RowError(
            "expected_ids: a text that is no id of what was retrieved, and its pieces"
            ' are; write ids as a JSON list (["one", "two"]; a single one as ["one"])'
        )


def _check_texts(
    sample: Sample, found_by_field: _Found, columns: Mapping[str, Any]
) -> str:
    """Refuse written objects of Python, ids of passages, web addresses, and what was cut.

    As texts they would score 0. Who names their column says that they are the texts, but
    for what the row itself calls an id: they are told. A captured sample is what its run
    was. An answer may be an id or an address, and a short reference, such as "1903", is
    no id.

    Returns:
        What may be no text, such as the names of files; "" for nothing.

    Raises:
        AmbiguousColumns: If a text of a field is an id of a passage, or if all its texts
            are web addresses.
        RowError: If all its texts look like ids or written objects, or if Excel cut one
            off: texts of another row need not be so.
    """
    if sample.capture is not None and sample.capture.grade is not None:
        return ""
    doubts: list[str] = []
    passages = [*sample.known_contexts, *(sample.retrieved or ())]
    texts_with_id = {passage.text for passage in passages if passage.id is not None}
    ids = {passage.id for passage in passages}.union(sample.expected_ids or ())
    ids -= texts_with_id
    for field in (*UNDIVIDED_CODES, "reference", *_TEXTS_SAID):
        texts = _texts_of(sample, field)
        filled = [text for text in texts if not is_blank(text)]
        if not filled or field not in found_by_field:
            continue
        column = found_by_field[field].column
        option = cells.option_of_column(field, column)
        is_of_passages = field in UNDIVIDED_CODES
        are_several = field not in _TEXTS_SAID
        are_addresses = are_several and all(map(_WEB_ADDRESS.fullmatch, filled))
        are_known_ids = is_of_passages and not ids.isdisjoint(filled)
        is_named = columns.get(field) is not None
        are_written = list(map(cells.is_object_written, filled))
        has_ids = are_known_ids or (
            is_of_passages and not are_addresses and _look_like_ids(filled)
        )
        what = remedy = ""
        if any(len(text) == _LONGEST_CELL_OF_EXCEL for text in filled):
            what = "texts cut off at 32,767 characters"
            remedy = ", the most that Excel keeps of a cell"
        elif has_ids and field == "expected_contexts":
            what, remedy = (
                "ids in place of texts",
                ", which --expected-ids-column names",
            )
        elif has_ids:
            what = "ids in place of texts"
            remedy = ', which are written {"id": …, "text": …}'
        elif all(are_written):
            what = "texts written by str() of Python objects"
            remedy = "; write their texts"
        elif are_addresses:
            what = "web addresses in place of texts"
        if what and (are_known_ids or not is_named):
            advice = "" if is_named else f"; if these are the texts: {option}"
            is_sure = are_addresses or are_known_ids
            raise (AmbiguousColumns if is_sure else RowError)(
                f"{field} (column {column!r}): {what}{remedy}{advice}"
            )
        # a column of another name has to be named
        if not (is_named and plain_name(column) in KNOWN_NAMES):
            what = what or _what_else(field, texts, sample.answer, are_written)
        if what:
            advice = "" if is_named else f" (if they are: {option})"
            doubts.append(f"{field} like {what} are judged as texts{advice}")
    return "; ".join(doubts)


def _what_else(
    field: str, texts: Sequence[str], answer: str | None, are_written: Collection[bool]
) -> str:
    """Return what the texts of a field may be beside texts; "" for nothing else."""
    if any(map(cells.breaks_off, texts)):
        return "objects that break off"
    if any(are_written):  # not all: the row would be refused
        return "objects that str() of Python wrote"
    if field not in ("contexts", "retrieved", "reference", "answer"):
        return ""
    if all(map(_PYTHON_DICTIONARY.fullmatch, texts)):
        return "dictionaries of Python"
    if all(map(_TOOL_CALL.fullmatch, texts)):
        return "calls of tools"
    bare_text = _FENCE.sub(r"\1", texts[0])
    if field not in UNDIVIDED_CODES and not isinstance(data_in(bare_text), str):
        return "objects or lists of JSON"
    if field == "answer":  # it may be the name of a file, a path or an id
        return ""
    # what stands beside their texts is no evidence; a record is a text
    if any(cells.are_documents([data_in(text)]) for text in texts):
        return "documents in JSON"
    if all(_NAME_OF_FILE.fullmatch(text) or _look_like_ids([text]) for text in texts):
        return "names of files or ids"
    # people's verdicts on an answer that is none itself
    are_verdicts = all(map(_VERDICT.fullmatch, texts))
    if are_verdicts and not _VERDICT.fullmatch(answer or ""):
        return "verdicts (0 or 1, yes or no)"
    return ""


def _texts_of(sample: Sample, field: str) -> list[str]:
    """Return the texts of a field: its one text, several, of its passages or turns."""
    value = getattr(sample, field) or ()
    if field == "history":
        return [turn.content for turn in sample.history]
    texts_or_passages = [value] if isinstance(value, str) else value
    return [getattr(each, "text", each) for each in texts_or_passages]


def _look_like_ids(texts: Sequence[str]) -> bool:
    """Tell whether texts are ids by their look. One number or date may be a text."""
    joined = "\n".join(texts)
    return not _ONE_VALUE.fullmatch(joined) and _IDS.fullmatch(joined) is not None


def _metadata(
    row: Row, found_by_field: _Found, metadata_cell: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the metadata of a row.

    It holds all columns from which no field was read, such as ``{"lang": "en"}`` beside
    question and answer, what is left of objects of which a part was read, and what the
    metadata column holds.
    """
    used_columns = {
        column_of(row, found_value.column) for found_value in found_by_field.values()
    }
    metadata: dict[str, Any] = {}
    for column, value in row.items():
        if column not in used_columns and is_present(value):
            metadata[str(column)] = value
    metadata |= unread_parts(row, found_by_field)
    for key, value in metadata_cell.items():
        if key not in metadata or is_present(value):
            metadata[key] = value
    return metadata


def _names_citations(data: Any, depth: int = _DEEPEST) -> bool:
    """Whether data has a list of citations, as providers write it beside a text."""
    data = plain_data(data_in(data))
    if not isinstance(data, (Mapping, list, tuple)) or depth == 0:
        return False
    fields = data if isinstance(data, Mapping) else {}
    for name, value in fields.items():
        cited = plain_data(data_in(value))
        is_list = isinstance(cited, (list, tuple)) and len(cited) > 0
        if is_list and plain_name(str(name)) in _CITATIONS:
            return True
    inside = fields.values() if fields else data
    return any(_names_citations(each, depth - 1) for each in inside)


def _with_citations_of_marks(
    sample: Sample, numbering_cell: Mapping[str, str] | None, *, has_others: bool
) -> Sample:
    """Fill a sample's citations from the marks in its answer, or note why it has none.

    "Blue [1]." with the numbering ``{"1": "doc-a"}`` cites "doc-a". Without a numbering
    in the row, the contexts' own numbers count ("[1] The sky is blue."). If a numbering
    or the marks cannot be read, the reason is noted.

    Args:
        sample: The sample, whose citations are not known.
        numbering_cell: The numbering in the column ``citations``, such as
            ``{"1": "doc-a"}``; None if there is none.
        has_others: Whether the row has citations of another form, which are not read.
    """
    if sample.answer is None:
        return sample
    contexts = sample.known_contexts
    texts = [context.text for context in contexts]
    reason = ""
    if numbering_cell is None:
        numbering = numbering_of_texts(texts)
    else:
        numbering = numbering_of_column(
            numbering_cell, [context.id for context in contexts]
        )
        if numbering is None:
            reason = NOT_JOINED
        if sample.contexts is None:
            reason = "no contexts were recorded"
    undivided = why_undivided(sample)
    if undivided:
        reason = undivided
    elif numbering is not None:
        citations_read = read_citations(sample.answer, numbering, texts)
        has_read = bool(citations_read.citations) or not has_others
        if citations_read.citations is not None and has_read:
            return sample.model_copy(update={"citations": citations_read.citations})
        reason = citations_read.why_unknown
    if has_others and not may_cite(sample.answer):
        reason = _UNREAD_CITATIONS
    elif not reason or not may_cite(sample.answer):
        return sample
    notes = sample.capture or CaptureNotes()
    if notes.citations_unknown is None:
        notes = notes.model_copy(update={"citations_unknown": reason})
    return sample.model_copy(update={"capture": notes})


def _texts(value: Any, field: str) -> list[Any]:
    """Reference texts, or ids; a text that holds a list of texts is that list.

    Raises ``RowError`` for an object that was cut off, or written by ``str()``.
    """
    data = data_in(value)
    # a reference that looks like a list is one only where it holds texts
    is_text = isinstance(value, str) and field == "reference"
    is_list = isinstance(data, (list, tuple, set))
    if is_text and is_list:
        is_list = all(isinstance(text, str) for text in data)
    may_be_cut = data is value and is_text and value.lstrip().startswith("{")
    is_read = is_list or may_be_cut or not is_text
    cells.refuse_what_was_cut(value, field)
    texts = cells.read_list(value, field) if is_read else [value]
    return [number_as_text(text) for text in texts if is_present(text)]


def _problem(value: Any, _: str) -> str | None:
    """Return the application's error as a text.

    False and zero, also as tables write them, nothing and empty objects say that there
    was none.
    """
    value = data_in(value)
    if isinstance(value, str):
        is_nothing = is_placeholder(value) or is_word_for_nothing(value)
        is_zero = not value.strip().strip("0.")
        is_false = value.strip().casefold() in ("false", "no")
        return None if is_nothing or is_zero or is_false else value
    return json.dumps(value, default=str, ensure_ascii=False) if value else None


def _citations_or_numbering(value: Any, field: str) -> Any:
    """Return a list of citations as data, or the id of a context for each number.

    Raises ``RowError`` for anything else.
    """
    data = data_in(value)
    if is_citations(data):
        return data
    numbering = numbering_in(data)
    if numbering is not None:
        return numbering
    raise RowError(
        f"{field}: needs {{number: id of the context}}, or a list of objects with start,"
        f" end and contexts; found {type(data).__name__}"
    )


# Signs other than those are part of an id: "doc-7", "a.b:c#3".
_BETWEEN_IDS = re.compile(r"[^\w.:#@-]+")
# How fields are read from what a column holds; the others are taken as they are.
_READERS: dict[str, Callable[[Any, str], Any]] = {
    **dict.fromkeys(KEY_IN_OWN_RESULTS, lambda value, _: data_in(value)),
    "facts": cells.read_facts,
    "expected_ids": _texts,
    "history": read_turns,
    "reference": _texts,
    "question": _question,
    "answer": _answer,
    "id": lambda value, _: str(number_as_text(value)),
    "error": _problem,
    "metadata": cells.read_metadata,
    "citations": _citations_or_numbering,
}


def _explain(error: ValidationError, found_by_field: _Found) -> str:
    """Describe the first problem: which field needs what, and the type that it has.

    Example: "question (column 'q'): needs a text, found int". The text of a value is
    never shown.
    """
    problem = error.errors(include_url=False)[0]
    location = problem["loc"]  # the field, then keys and indices within it
    field = str(location[0]) if location else "row"
    place = field
    indices = [part for part in location[1:] if isinstance(part, int)]
    if indices:
        place += f" number {indices[0] + 1}"
    column = found_by_field.get(field, _NO_VALUE).column
    if column and column != field:
        place += f" (column {column!r})"
    if field == "facts":
        needed = "a number above 0 as weight" if "weight" in location else "a text"
        return (
            f"{place}: needs {needed}; write each fact as a text, or as"
            ' {"text": "…", "weight": 2}'
        )
    is_of_wrong_type = problem["type"].endswith("_type")
    if not is_of_wrong_type:
        message = problem["msg"]
        return f"{place}: {message[:1].lower()}{message[1:]}"
    needed = _NEEDED.get(field, "a text")
    found = problem["input"]
    # an object, whose text stands in a field, as the name of a framework's class may
    names_of_class = ("", type(found).__name__)
    fields = found if isinstance(found, Mapping) else getattr(found, "__dict__", {})
    texts = [
        f".{name}"
        for name, value in fields.items()
        if isinstance(value, str)
        and value not in names_of_class
        and re.fullmatch(r"[^\W_]\w*", str(name))  # another may be a text
    ]
    inner = [value for value in fields.values() if isinstance(value, (Mapping, list))]
    if isinstance(found, Mapping) and any(inner):
        # its text may stand deeper, beside an id or a status
        texts = [f".{path}" for path in cells.prose_by_path(found)]
    hint = f": write its {' or '.join(texts[:_MOST_TEXTS_SHOWN])}" if texts else ""
    cell = data_in(found_by_field.get(field, _NO_VALUE).value)
    if not isinstance(found, Mapping) and not fields:  # a date, True, a list
        hint = "; write it as a text"
    elif "role" in fields:  # a message of another speaker
        hint = ""
    elif is_present(fields.get("error")):  # the outputs of a run that failed
        hint = "; write what went wrong in a column error"
    elif texts and isinstance(cell, Mapping):
        name = texts[0] if len(texts) == 1 else ".NAME"  # which, nobody knows
        hint += f", e.g. by {cells.option_of_column(field, f'{column}{name}')}"
    return f"{place}: needs {needed}, found {type(found).__name__}{hint}"
