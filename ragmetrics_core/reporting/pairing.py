"""Which samples of a run, and of two runs, belong together.

The module also tells which of two runs are the same, and whether both were measured
alike.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Literal, NamedTuple

from pydantic import BaseModel, Field

from ragmetrics_core.data import (
    Context,
    Failed,
    Frozen,
    InputError,
    MetricResult,
    Sample,
    SampleResult,
    SettingError,
    Undefined,
    did_you_mean,
    follow_path,
    names_in_words,
    plain_name,
)
from ragmetrics_core.data.cells import is_present, number_as_text
from ragmetrics_core.data.conversation_names import conversation_in
from ragmetrics_core.data.metric_evidence import FactMatrix, JudgedChunks
from ragmetrics_core.reporting.run_facts import texts_of

GroupBy = str | Callable[[Sample], object] | None
"""What tells which samples belong together.

It is a name or dotted path of the sample or its metadata, a callable that gets the
sample, ``"auto"``, or None for samples that are independent.
"""

_LEDGER = "ledger.conversation"
_ROW = "row"
_DOCUMENTS = {"documentid": "document_id", "sourcedocument": "source_document"}

Pair = tuple[SampleResult, SampleResult]

_TEXTS = frozenset(  # fields of a sample that hold texts
    (
        "question",
        "standalone_question",
        "answer",
        "contexts",
        "reference",
        "retrieved",
        "facts",
        "history",
        "error",
    )
)
# of metadata, kept and listed while a key is looked for
_MOST_NAMES, _SHOWN_NAMES = 1000, 20
_NAMES = {"T": "temperature", "prompt": "prompt version", "early_stop": "early stop"}


def group_of(sample: Sample | None, by: GroupBy) -> str | None:
    """The key that a sample is grouped by, as a text.

    None for a sample without one, which then stands alone.

    Two samples are in one group exactly if their texts are equal. A number and the text
    that writes it are one key, as tables hold the one or the other; 1 and True are two.
    What is missing or shows nothing is no key.

    Args:
        sample: The sample; None for a row that is none.
        by: A name or dotted path (``"conversation_id"``, ``"metadata.user.id"``), a
            callable, ``"auto"`` for the conversation that the metadata or else the
            ledger name, else the source document of the metadata, else the row with
            several answers that the sample comes from, or None.

    Raises:
        SettingError: If ``by`` is empty, or a callable gives an object that has no text
            of its own.
    """
    if by is None or sample is None:
        return None
    conversation = sample.ledger.conversation if sample.ledger else None
    if callable(by):
        return _key(by(sample))
    if by == "auto":
        return _automatic_group(sample.metadata, conversation, sample.row_key)
    if not by:
        raise SettingError(
            'cluster= takes a name, a path, a callable, "auto" or None; got ""'
        )
    value = _value_in_metadata(sample.metadata, by)
    if value is None and by == "conversation":
        value = conversation
    if value is None and by in Sample.model_fields:
        value = getattr(sample, by)
    return _key(value)


def _value_in_metadata(metadata: Mapping[str, object], name: str) -> object:
    """What the metadata hold under a name or dotted path.

    The path may begin at the metadata's own name, or at a flattened column of it.
    """
    is_there, value = follow_path(metadata, name.split("."))
    if not is_there:
        _, value = follow_path(metadata, name.removeprefix("metadata.").split("."))
    return value


def _automatic_group(
    metadata: Mapping[str, object], conversation: str | None, row_key: str | None
) -> str | None:
    """The first usual name that has a key, and the key.

    A conversation that the caller named comes first, then that of the ledger, then the
    document, then the row that several answers stand in. Names are compared as those of
    columns are.
    """
    named_conversation = conversation_in(metadata)
    if named_conversation is not None:
        return f"{named_conversation.name}={_key(named_conversation.value)}"
    conversation_key = _key(conversation)
    if conversation_key is not None:
        return f"{_LEDGER}={conversation_key}"
    keys_of_documents: dict[str, str] = {}
    for name, value in metadata.items():
        document = _DOCUMENTS.get(plain_name(name.removeprefix("metadata.")))
        document_key = None if document is None else _key(value)
        if document is not None and document_key is not None:
            keys_of_documents.setdefault(document, document_key)
    for document in _DOCUMENTS.values():
        if document in keys_of_documents:
            return f"{document}={keys_of_documents[document]}"
    return None if row_key is None else f"{_ROW}={row_key}"


def _key(value: object) -> str | None:
    """Return the text of a key.

    Neither hashes nor ``==`` tell keys apart: -1 and -2 share a hash in CPython, and
    True == 1.
    """
    if not is_present(value):
        return None
    value = number_as_text(value)
    return value if isinstance(value, str) else _text_of_value(value)


def _text_of_value(value: object) -> str:
    """Return a value as a text that only equal values have.

    The order of what has no order does not matter.
    """
    value = number_as_text(value) if isinstance(value, (int, float)) else value
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if isinstance(value, Mapping):
        return (
            "{"
            + ", ".join(
                sorted(
                    f"{_quote(name)}: {_quote(part)}" for name, part in value.items()
                )
            )
            + "}"
        )
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(map(_quote, value))) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_quote, value)) + "]"
    if (
        type(value).__str__ is object.__str__
        and type(value).__repr__ is object.__repr__
    ):
        kind = type(value).__name__
        raise SettingError(
            f"cluster= and slices= take keys that can be written; got a {kind}: give"
            " its name or number"
        )
    return str(value)


def _quote(value: object) -> str:
    """A value as text; a text in quotation marks, so that "1" is not 1."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return _text_of_value(value)


class KeysSought:
    """Whether any sample has the keys by which slices or clusters are asked for.

    So a slip in a key is not passed over.

    Args:
        slices: Keys of the metadata that make slices.
        cluster: What makes clusters; only a name or path is looked for.

    Raises:
        SettingError: If slices are asked for by texts of samples.
    """

    def __init__(self, slices: Iterable[str] = (), cluster: GroupBy = None) -> None:
        self._unseen = dict.fromkeys(slices, "slices")
        for key in self._unseen:
            if key in _TEXTS:
                raise SettingError(
                    f"slices by {key!r} would have texts of samples for names, which"
                    " summaries of a run must not hold; slices are made by a key of"
                    " the metadata, or a callable"
                )
        if isinstance(cluster, str) and cluster not in ("", "auto"):
            self._unseen.setdefault(cluster, "clusters")
        # what samples have instead, as long as something is looked for
        self._names: dict[str, None] = {}
        self._looked = False

    def look(self, sample: Sample) -> None:
        """Look for the keys in one more sample."""
        self._looked = True
        if not self._unseen:
            return
        for key in [key for key in self._unseen if group_of(sample, key) is not None]:
            del self._unseen[key]
        if len(self._names) < _MOST_NAMES:
            self._names.update(dict.fromkeys(_names_of(sample.metadata)))

    def check(self) -> None:
        """Raise ``SettingError`` if there were samples and none has one of the keys."""
        if not self._looked:
            return
        for key, what in self._unseen.items():
            near = did_you_mean(key.removeprefix("metadata."), self._names)
            listed = names_in_words(self._names, most=_SHOWN_NAMES) or "nothing"
            raise SettingError(
                f"no sample has {key!r}, so it makes no {what}{near}; the metadata"
                f" holds: {listed}"
            )


def _names_of(metadata: Mapping[str, object]) -> Iterator[str]:
    """The names in metadata, those of an object inside with their path."""
    for name, value in metadata.items():
        yield name
        if isinstance(value, Mapping):
            yield from (f"{name}.{inner}" for inner in value)


def numbering(by: GroupBy) -> Callable[[Sample | None], int]:
    """A function that numbers the groups of samples in order of appearance; −1 for a sample that stands alone."""
    number_by_digest: dict[
        bytes, int
    ] = {}  # by digest: there may be millions, with long keys

    def number_of(sample: Sample | None) -> int:
        key = group_of(sample, by)
        if key is None:
            return -1
        digest = blake2b(key.encode(errors="surrogatepass"), digest_size=16).digest()
        return number_by_digest.setdefault(digest, len(number_by_digest))

    return number_of


def group_pairs(
    pairs: Iterable[tuple[Sample | None, Sample | None]], by: GroupBy
) -> list[str | None]:
    """The name of each pair's group, which is one of its keys.

    None for a pair that stands alone.

    Pairs hang together if their samples do in either run: what two runs know of
    conversations need not be the same, and one may name them anew. A pair that the
    first run gives no key is grouped by that of the second.
    """
    groups = _JoinedKeys()
    keys_of_pairs: list[_RunKey | None] = []
    for before, after in pairs:
        first_key, second_key = group_of(before, by), group_of(after, by)
        main_key = first_key if first_key is not None else second_key
        keys_of_pairs.append(None if main_key is None else ("first", main_key))
        if main_key is not None and second_key is not None:
            groups.join(("first", main_key), ("second", second_key))
    names: dict[_RunKey, str] = {}  # of whole groups, whatever the order of the pairs
    for key in keys_of_pairs:
        if key is not None:
            group = groups.representative(key)
            names[group] = min(names.get(group, key[1]), key[1])
    return [
        None if key is None else names[groups.representative(key)]
        for key in keys_of_pairs
    ]


_RunKey = tuple[Literal["first", "second"], str]
"""A key, and the run whose samples have it: two runs may use one key for two things."""


class _JoinedKeys:
    """Sets of keys that are joined (union-find).

    A key that was never joined is a set of its own.
    """

    def __init__(self) -> None:
        self._parent: dict[_RunKey, _RunKey] = {}

    def representative(self, key: _RunKey) -> _RunKey:
        """The same key for all keys of one set."""
        path = []
        while (parent := self._parent.get(key, key)) != key:
            path.append(key)
            key = parent
        for passed in path:
            self._parent[passed] = key
        return key

    def join(self, key: _RunKey, joined_key: _RunKey) -> None:
        """Make one set of the sets of two keys."""
        self._parent[self.representative(key)] = self.representative(joined_key)


class Part(NamedTuple):
    """The matched rows of both runs, all or those of one slice.

    ``slice`` is None for all. ``n_rows`` counts the rows of either run, those without a
    partner too.
    """

    slice: str | None
    pairs: Sequence[Pair]
    n_rows: int


class Matched(Frozen):
    """The rows of two runs side by side."""

    by: Literal["id", "question"] = Field(
        description="what the samples were matched by"
    )
    pairs: tuple[Pair, ...] = Field(repr=False, description="rows of the same sample")
    first_only: tuple[SampleResult, ...] = Field(
        repr=False, description="those without a partner in the second run"
    )
    second_only: tuple[SampleResult, ...] = Field(
        repr=False, description="those without a partner in the first run"
    )

    def __str__(self) -> str:
        alone = (
            f"{len(self.first_only)} only in the first, {len(self.second_only)} only in"
            " the second"
        )
        return (
            f"{len(self.pairs)} rows matched by {self.by}; {alone}. Differences:"
            " second − first."
        )

    def parts(self, by: GroupBy) -> Iterator[Part]:
        """All pairs, then those of each slice by its value as text.

        A pair belongs to the slice that the first run names, else to that of the
        second. Samples without the key are a slice of their own, as in a summary. A
        slice whose rows all lack a partner has no pairs.
        """
        rows_alone = [*self.first_only, *self.second_only]
        yield Part(None, self.pairs, len(self.pairs) + len(rows_alone))
        if by is None:
            return
        nameless = f"without {by if isinstance(by, str) else 'a key'}"
        n_alone_by_slice = Counter(
            group_of(row.sample, by) or nameless
            for row in rows_alone
            if row.sample is not None
        )
        pairs_by_slice: dict[str, list[Pair]] = {name: [] for name in n_alone_by_slice}
        for pair in self.pairs:
            first_key, second_key = _keys_of(pair, by)
            name = first_key or second_key or nameless
            pairs_by_slice.setdefault(name, []).append(pair)
        for name in sorted(pairs_by_slice):
            pairs = pairs_by_slice[name]
            yield Part(name, pairs, len(pairs) + n_alone_by_slice[name])


def _keys_of(pair: Pair, by: GroupBy) -> tuple[str | None, str | None]:
    """The slice that each run names for a sample; None where it names none."""
    before, after = pair
    return group_of(before.sample, by), group_of(after.sample, by)


def count_other_slices(pairs: Iterable[Pair], by: GroupBy) -> int:
    """Count the pairs that the two runs put in different slices."""
    keys = (_keys_of(pair, by) for pair in pairs)
    return sum(
        None not in (before, after) and before != after for before, after in keys
    )


def match(before: Sequence[SampleResult], after: Sequence[SampleResult]) -> Matched:
    """Match the samples of two runs.

    They are matched by id where every sample has its own, else by question in order of
    occurrence.

    ``InputError`` if nothing matches.
    """
    # what is read anew each time would not know its own rows again
    before, after = tuple(before), tuple(after)
    have_ids = _have_ids_of_their_own(before) and _have_ids_of_their_own(after)
    by: Literal["id", "question"] = "id" if have_ids else "question"
    first_rows, second_rows = _rows_by_key(before, by), _rows_by_key(after, by)
    pairs = tuple(
        (row, second_rows[key]) for key, row in first_rows.items() if key in second_rows
    )
    if not pairs:
        raise InputError(
            f"the two runs have no sample in common (matched by {by}); compare runs"
            " over the same samples"
        )
    matched = {id(row) for pair in pairs for row in pair}
    return Matched(
        by=by,
        pairs=pairs,
        first_only=tuple(row for row in before if id(row) not in matched),
        second_only=tuple(row for row in after if id(row) not in matched),
    )


def _have_ids_of_their_own(rows: Sequence[SampleResult]) -> bool:
    """True if every sample has an id that no other has."""
    ids = [row.sample.id for row in rows if row.sample is not None]
    return None not in ids and len(set(ids)) == len(ids)


def count_other_questions(pairs: Iterable[Pair]) -> int:
    """Count the pairs of one id that hold another question or another reference.

    A text counts only where both runs hold one at all.

    Line numbers make equal ids of any two data sets; such pairs are no samples measured
    twice.
    """
    return sum(_is_another(before.sample, after.sample) for before, after in pairs)


def _is_another(before: Sample | None, after: Sample | None) -> bool:
    """Whether two samples of one id ask or expect something else."""
    if before is None or after is None:
        return False
    other_question = (
        bool(before.question and after.question) and before.question != after.question
    )
    other_reference = (
        bool(before.reference and after.reference)
        and before.reference != after.reference
    )
    return other_question or other_reference


def are_identical(
    before: Iterable[SampleResult],
    after: Iterable[SampleResult],
    metrics: Sequence[str],
) -> bool:
    """Tell whether two runs hold the same rows with the same known outcomes.

    Rows are compared by content, in any order. Outcomes are those of the metrics.

    Outcomes are scores, and being undefined for the same reason. What failed, was not
    judged or is a bad row is not known, so that a run with such a row is identical to
    none.
    """
    counts = [
        Counter(_content_and_outcomes(row, metrics) for row in rows)
        for rows in (before, after)
    ]
    return bool(counts[0]) and None not in counts[0] and counts[0] == counts[1]


def _content_and_outcomes(
    row: SampleResult, metrics: Sequence[str]
) -> tuple[object, ...] | None:
    """Everything of a row that metrics read, and what they made of it.

    None where an outcome is not known.
    """
    outcomes: list[object] = []
    for metric in metrics:
        result = row.results.get(metric)
        if result is None or isinstance(result, Failed):
            return None
        outcomes.append(result.code if isinstance(result, Undefined) else result.value)
    if row.sample is None or row.problem:
        return None
    return (_content(row.sample), *outcomes)


def _content(sample: Sample) -> tuple[object, ...]:
    """The texts of a sample that metrics read.

    Ids, scores of retrievers and metadata are none of them.
    """
    calls = sample.ledger.calls if sample.ledger is not None else ()
    return (
        sample.question,
        sample.standalone_question,
        tuple((turn.role, turn.content) for turn in sample.history),
        _texts_of(sample.contexts),
        None if sample.retrieved is None else _texts_of(sample.retrieved),
        sample.answer,
        sample.reference,
        tuple((fact.text, fact.weight) for fact in sample.facts or ()),
        tuple(
            (call.kind, call.turn, call.name, call.shown, _texts_of(call.items))
            for call in calls
        ),
        sample.error,
    )


def _texts_of(contexts: Iterable[Context]) -> tuple[str, ...]:
    """The texts of contexts, without ids and scores."""
    return tuple(context.text for context in contexts)


def _rows_by_key(
    rows: Sequence[SampleResult], by: Literal["id", "question"]
) -> dict[tuple[str, int], SampleResult]:
    """The rows by id or question, of rows without a question by all their texts.

    And how often that was seen before.
    """
    keyed: dict[tuple[str, int], SampleResult] = {}
    occurrences: Counter[str] = Counter()
    for row in rows:
        if row.sample is None:
            continue
        text = getattr(row.sample, by) or texts_of(row.sample)
        if text:
            keyed[text, occurrences[text]] = row
            occurrences[text] += 1
    return keyed


def differences(pairs: Sequence[Pair], metric: str) -> tuple[str, ...]:
    """In what the two runs differ for one metric, one phrase each.

    Empty if their numbers may be compared.
    """
    before, after = (
        _settings(
            [
                pair[side].results[metric]
                for pair in pairs
                if metric in pair[side].results
            ]
        )
        for side in (0, 1)
    )
    phrases = [
        f"{metric}: {_NAMES.get(name, name)} {_words(before.get(name))} against"
        f" {_words(after.get(name))}"
        for name in dict.fromkeys([*before, *after])
        if _contradict(name, before, after)
    ]
    n_differing = sum(_have_other_facts(pair, metric) for pair in pairs)
    if n_differing:
        phrases.append(
            f"{metric}: other facts in {n_differing} of {len(pairs)} samples; give the"
            " samples their facts"
        )
    return tuple(phrases)


def _contradict(
    name: str, before: Mapping[str, set[str]], after: Mapping[str, set[str]]
) -> bool:
    """Whether two runs hold different values of a setting."""
    if name == "model" and (name not in before or name not in after):
        return False  # a side without a single call contradicts nothing
    return before.get(name) != after.get(name)


def _have_other_facts(pair: Pair, metric: str) -> bool:
    """Whether a metric was asked about different facts in the two runs."""
    texts = []
    for row in pair:
        result = row.results.get(metric)
        if result is not None and isinstance(result.evidence, FactMatrix):
            texts.append([fact.text for fact in result.evidence.facts])
    return len(texts) == 2 and texts[0] != texts[1]


def judges_elsewhere(
    before: Mapping[str, Sequence[str]], after: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """Return the judges of one name that two runs asked at different addresses.

    With each comes what to say of it.

    Behind one name another address may serve another model. An address that is not
    known contradicts nothing.

    Args:
        before: By judge, the addresses that the first run asked.
        after: Those of the second run.
    """
    sentence_by_judge = {}
    for name, addresses in before.items():
        addresses_after = after.get(name, ())
        if addresses and addresses_after and set(addresses) != set(addresses_after):
            sentence_by_judge[name] = (
                f"judge {name} at {', '.join(addresses)} against {', '.join(addresses_after)}"
            )
    return sentence_by_judge


def _settings(results: Sequence[MetricResult]) -> dict[str, set[str]]:
    """Every setting that must be the same, with the values that occur."""
    settings: dict[str, set[str]] = {}
    for signature in {result.signature for result in results}:
        for name, value in signature.parts():
            settings.setdefault(name, set()).add(value)
    models = {model for result in results for model in result.usage.models}
    if models:
        settings["model"] = models
    modes: Counter[str] = Counter()
    for result in results:
        if isinstance(result.evidence, FactMatrix):
            modes.update(cell.mode for row in result.evidence.cells for cell in row)
        elif isinstance(result.evidence, JudgedChunks):
            modes.update(chunk.mode for chunk in result.evidence.chunks)
    if modes:
        # falling back in some cells only is no other mode
        most_common = modes.most_common(1)[0][0]
        settings["score mode"] = {most_common}
    return settings


def _words(values: set[str] | None) -> str:
    """The values of a setting in words; None and an empty set are "not set"."""
    return " and ".join(sorted(values or ())) or "not set"
