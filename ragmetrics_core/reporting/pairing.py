"""Which samples of a run, and of two runs, belong together.

The module also tells which of two runs are the same, and whether both were measured
alike.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Literal, NamedTuple

from pydantic import BaseModel, Field

from ragmetrics_core.data import (
    Frozen,
    InputError,
    MetricResult,
    Sample,
    SampleResult,
    SettingError,
    did_you_mean,
    follow_path,
    names_in_words,
    plain_name,
)
from ragmetrics_core.data.blank import is_present
from ragmetrics_core.data.cells import number_as_text
from ragmetrics_core.data.conversation_names import conversation_in
from ragmetrics_core.data.metric_evidence import FactMatrix, JudgedChunks
from ragmetrics_core.reporting.run_facts import texts_of

GroupBy = str | Callable[[Sample], object] | None
"""What tells which samples belong together.

It is a name or dotted path of the sample or its metadata, a callable that gets the
sample, ``"auto"``, or None for samples that are independent.
"""

_LEDGER = "ledger.conversation"
_NAMES_OF_DOCUMENTS = {
    "documentid": "document_id",
    "sourcedocument": "source_document",
}

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
        "expected_contexts",
        "history",
        "error",
    )
)
# of metadata, kept and listed while a key is looked for
_MOST_NAMES, _SHOWN_NAMES = 1000, 20
_NAMES = {"T": "temperature", "prompt": "prompt version", "early_stop": "early stop"}


def group_of(sample: Sample | None, by: GroupBy) -> str | None:
    """Return the key of the group that a sample belongs to, as a text.

    Samples are in one group exactly if their keys are equal. None for a sample without
    a key, which stands alone. The number 1 and the text "1" are one key; 1 and True are
    two. Example: by "metadata.user.id", {"user": {"id": 7}} gives "7".

    Args:
        sample: The sample; None for a row that is none.
        by: A name or dotted path (``"conversation_id"``, ``"metadata.user.id"``); a
            callable that takes the sample; None for no groups; or ``"auto"`` for the
            conversation, the source document, or the row of a table with several
            answers. A name is looked up in the metadata first, then among the fields of
            the sample, or for ``"conversation"`` in its ledger.

    Raises:
        SettingError: If ``by`` is empty, or a callable gives an object that has no text
            of its own.
    """
    if by is None or sample is None:
        return None
    if callable(by):
        return _key(by(sample))
    if by == "auto":
        return _automatic_group(sample)
    if not by:
        raise SettingError(
            'cluster= takes a name, a path, a callable, "auto" or None; got ""'
        )
    return _key(_value_under(by, sample))


def _value_under(name: str, sample: Sample) -> object:
    """What a sample holds under a name or dotted path; None if it holds nothing there.

    The metadata come first. Example: "conversation" gives metadata["conversation"],
    else the conversation in the sample's ledger.
    """
    value = _value_in_metadata(sample.metadata, name)
    if value is not None:
        return value
    if name == "conversation":
        return _conversation_in_ledger(sample)
    return getattr(sample, name) if name in Sample.model_fields else None


def _conversation_in_ledger(sample: Sample) -> str | None:
    """The conversation that an adapter recorded; None if it recorded none."""
    return None if sample.ledger is None else sample.ledger.conversation


def _value_in_metadata(metadata: Mapping[str, object], name: str) -> object:
    """What the metadata hold under a name or dotted path.

    The path may begin at the metadata's own name, or at a flattened column of it.
    """
    is_there, value = follow_path(metadata, name.split("."))
    if not is_there:
        _, value = follow_path(metadata, name.removeprefix("metadata.").split("."))
    return value


def _automatic_group(sample: Sample) -> str | None:
    """Return the group of a sample by what usually groups samples, as "name=key".

    It is the conversation, else the source document; None if the sample has neither.
    """
    named_conversation = conversation_in(sample.metadata)
    if named_conversation is not None:
        return f"{named_conversation.name}={_key(named_conversation.value)}"
    conversation_key = _key(_conversation_in_ledger(sample))
    if conversation_key is not None:
        return f"{_LEDGER}={conversation_key}"
    return _document_group(sample.metadata)


def _document_group(metadata: Mapping[str, object]) -> str | None:
    """Return the document that metadata identify as "name=key", or None.

    Names in the metadata are compared without regard to case, hyphens and underscores:
    "Document-ID" is "document_id". A document's id counts before its source. Example:
    {"Document-ID": 7, "source": "a.pdf"} gives "document_id=7".
    """
    key_by_name: dict[str, str] = {}
    for metadata_name, value in metadata.items():
        plain_metadata_name = plain_name(metadata_name.removeprefix("metadata."))
        name = _NAMES_OF_DOCUMENTS.get(plain_metadata_name)
        if name is None:
            continue
        document_key = _key(value)
        if document_key is not None:
            key_by_name.setdefault(name, document_key)
    for name in _NAMES_OF_DOCUMENTS.values():
        if name in key_by_name:
            return f"{name}={key_by_name[name]}"
    return None


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
    """Write a value as a text that serves as a key: equal values have equal texts.

    Mappings and sets are sorted. Texts inside of them stand in quotation marks, so that
    the lists [1] and ["1"] differ. Example: {"b": 1, "a": "x"} and {"a": "x", "b": 1}
    give the same text.

    Raises:
        SettingError: If the value is an object without a text of its own.
    """
    if isinstance(value, (int, float)):
        value = number_as_text(value)
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if isinstance(value, Mapping):
        entries = [f"{_quote(name)}: {_quote(part)}" for name, part in value.items()]
        return f"{{{', '.join(sorted(entries))}}}"
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(map(_quote, value)))}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_quote, value))}]"
    _refuse_address_in_memory(value)
    return str(value)


def _refuse_address_in_memory(value: object) -> None:
    """Raise ``SettingError`` for an object whose text is only its address in memory."""
    value_class = type(value)
    has_text = (
        value_class.__str__ is not object.__str__
        or value_class.__repr__ is not object.__repr__
    )
    if not has_text:
        raise SettingError(
            "cluster= and slices= take keys that can be written; got a"
            f" {value_class.__name__}: give its name or number"
        )


def _quote(value: object) -> str:
    """A value as text; a text in quotation marks, so that "1" is not 1."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return _text_of_value(value)


class KeysSought:
    """Whether any sample has the metadata keys that make slices or clusters.

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

    def look_in(self, sample: Sample) -> None:
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
    """Make a function that gives a sample the number of its group.

    Groups are numbered from 0 in order of appearance. A sample that stands alone gets
    −1.
    """
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
    """Group pairs of samples by their keys, and return the name of each pair's group.

    A pair is the same sample in two runs. Two pairs are in one group if their keys are
    equal in the first run or in the second, or if a chain of such pairs joins them.
    Example: three pairs have the conversations (b, x), (a, x) and (c, y) in the first
    and second run. The first two pairs share x, so their group is "a", the lesser of a
    and b: the result is ["a", "a", "c"].

    Args:
        pairs: The samples in the first and in the second run.
        by: What tells the key of a sample, see ``group_of``.

    Returns:
        For each pair the least key of its group; None for a pair without a key, which
        stands alone.
    """
    groups = _JoinedKeys()
    key_of_pairs: list[_RunKey | None] = []
    for before, after in pairs:
        first_key = group_of(before, by)
        second_key = group_of(after, by)
        key = second_key if first_key is None else first_key
        if key is None:
            key_of_pairs.append(None)
            continue
        # Keys of the two runs are kept apart by "first" and "second", since runs may
        # name a conversation anew. A sample that only the second run has, with the key
        # "a", joins the first run's group "a".
        key_of_pairs.append(("first", key))
        if second_key is not None:
            groups.join(("first", key), ("second", second_key))
    return _names_of_groups(key_of_pairs, groups)


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


def _names_of_groups(
    key_of_pairs: Sequence[_RunKey | None], groups: _JoinedKeys
) -> list[str | None]:
    """Name each pair's group after its least key; None for a pair without a key.

    A pair is the same sample in two runs. Its key, such as a conversation's name, is
    the key in the first run: ``("first", "b")``. Example: pairs with the keys "b", "a"
    and None, where "a" and "b" were joined: "a", "a" and None.

    Args:
        key_of_pairs: For each pair its run, always "first", and its key.
        groups: Says which keys are in one group: keys of two pairs that have the same
            key in the second run. One key of each group is its representative.
    """
    representatives = [
        None if run_key is None else groups.representative(run_key)
        for run_key in key_of_pairs
    ]
    least_key_by_representative: dict[_RunKey | None, str] = {}
    for run_key, representative in zip(key_of_pairs, representatives, strict=True):
        if run_key is not None:
            _, key = run_key
            least_key = least_key_by_representative.get(representative, key)
            least_key_by_representative[representative] = min(least_key, key)
    return [
        least_key_by_representative.get(representative)
        for representative in representatives
    ]


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
        """Yield all pairs of rows, then the pairs of each slice.

        A slice is the samples with one value of a key, such as a language. Samples
        without the key are a slice of their own. Example: by "language" all pairs, then
        the slices "de" and "without language", each with its pairs and number of rows.

        Args:
            by: What tells the value of a sample, see ``group_of``; None for no slices.
        """
        rows_alone = [*self.first_only, *self.second_only]
        n_rows_of_all = len(self.pairs) + len(rows_alone)
        yield Part(slice=None, pairs=self.pairs, n_rows=n_rows_of_all)
        if by is None:
            return
        slice_without_key = f"without {by if isinstance(by, str) else 'a key'}"
        n_alone_by_slice: Counter[str] = Counter()
        for row in rows_alone:
            if row.sample is not None:
                n_alone_by_slice[group_of(row.sample, by) or slice_without_key] += 1
        pairs_by_slice: defaultdict[str, list[Pair]] = defaultdict(list)
        for pair in self.pairs:
            # such as "de"; if the value changed, the first run's value counts
            value_in_first_run, value_in_second_run = _keys_of(pair, by)
            slice_name = value_in_first_run or value_in_second_run or slice_without_key
            pairs_by_slice[slice_name].append(pair)
        for slice_name in sorted({*n_alone_by_slice, *pairs_by_slice}):
            pairs = pairs_by_slice[slice_name]
            n_rows = len(pairs) + n_alone_by_slice[slice_name]
            yield Part(slice=slice_name, pairs=pairs, n_rows=n_rows)


def _keys_of(pair: Pair, by: GroupBy) -> tuple[str | None, str | None]:
    """Return the slice that each run names for a sample; None where it names none."""
    before, after = pair
    return group_of(before.sample, by), group_of(after.sample, by)


def count_other_slices(pairs: Iterable[Pair], by: GroupBy) -> int:
    """Count the pairs that the two runs put in different slices."""
    keys = (_keys_of(pair, by) for pair in pairs)
    return sum(
        None not in (before, after) and before != after for before, after in keys
    )


def match(before: Sequence[SampleResult], after: Sequence[SampleResult]) -> Matched:
    """Find the rows of two runs that are about the same sample.

    Samples are matched by their ids if each has an id of its own, else by the texts of
    their questions, never by their places. Example: ids 1, 2 and ids 2, 3: one pair of
    2; 1 and 3 stand alone.

    Raises:
        InputError: If the runs have no sample in common, or nothing tells rows of one
            question apart.
    """
    # a sequence that reads its rows from a file makes new objects at each pass
    before = tuple(before)
    after = tuple(after)
    have_ids = _have_ids_of_their_own(before) and _have_ids_of_their_own(after)
    by: Literal["id", "question"] = "id" if have_ids else "question"
    rows_after = _rows_by_key(after, by)
    pairs: list[Pair] = []
    n_alike = 0
    for key, first_rows in _rows_by_key(before, by).items():
        second_rows = rows_after.get(key, [])
        if not second_rows:
            continue
        found = _pair_rows_of_one_key(first_rows, second_rows)
        n_alike += found is None
        pairs += found or ()
    if n_alike:
        raise InputError(
            f"{n_alike:,} questions stand several times in a run, and nothing tells"
            " their rows apart; give each row an id"
        )
    if not pairs:
        raise InputError(
            f"the two runs have no sample in common (matched by {by}); compare runs"
            " over the same samples, with ids or questions"
        )
    matched_object_ids = {id(row) for pair in pairs for row in pair}
    return Matched(
        by=by,
        pairs=tuple(pairs),
        first_only=tuple(row for row in before if id(row) not in matched_object_ids),
        second_only=tuple(row for row in after if id(row) not in matched_object_ids),
    )


def _pair_rows_of_one_key(
    first_rows: Sequence[SampleResult], second_rows: Sequence[SampleResult]
) -> list[Pair] | None:
    """Pair the rows of one id or question; None if nothing tells them apart.

    Several rows are told apart by all of their texts. Rows that are copies of each
    other in both runs need not be.
    """
    if len(first_rows) == len(second_rows) == 1:
        return [(first_rows[0], second_rows[0])]
    first_rows = sorted(first_rows, key=_texts_of_row)
    second_rows = sorted(second_rows, key=_texts_of_row)
    first_texts = list(map(_texts_of_row, first_rows))
    second_texts = list(map(_texts_of_row, second_rows))
    are_copies = len(set(first_texts)) == len(set(second_texts)) == 1
    if first_texts == second_texts or are_copies:
        return list(zip(first_rows, second_rows, strict=False))
    return None


def _texts_of_row(row: SampleResult) -> str:
    """All texts of a row's sample."""
    return texts_of(row.sample)


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


def _rows_by_key(
    rows: Sequence[SampleResult], by: Literal["id", "question"]
) -> dict[str, list[SampleResult]]:
    """The rows of each id or question, in their order; those without it are left out."""
    rows_by_key: defaultdict[str, list[SampleResult]] = defaultdict(list)
    for row in rows:
        key = getattr(row.sample, by) if row.sample is not None else None
        if key:
            rows_by_key[key].append(row)
    return rows_by_key


def differences(pairs: Sequence[Pair], metric: str) -> tuple[str, ...]:
    """List how the measuring of a metric differs between two runs, a phrase for each.

    The settings may differ: "context_adherence: temperature 0 against 1". Or the judge
    listed other facts of the same reference, which it does where a sample comes without
    facts of its own: "context_recall: other facts in 3 of 20 samples; give the samples
    their facts".

    Args:
        pairs: Each row as the first run has it, and as the second has it.
        metric: Name of the metric.
    """
    first_settings = _settings(_results([before for before, _ in pairs], metric))
    second_settings = _settings(_results([after for _, after in pairs], metric))
    phrases = []
    for name in dict.fromkeys([*first_settings, *second_settings]):
        if _contradict(name, first_settings, second_settings):
            phrases.append(
                f"{metric}: {_NAMES.get(name, name)}"
                f" {_words(first_settings.get(name))} against"
                f" {_words(second_settings.get(name))}"
            )
    n_with_other_facts = sum(_have_other_facts(pair, metric) for pair in pairs)
    if n_with_other_facts:
        phrases.append(
            f"{metric}: other facts in {n_with_other_facts} of {len(pairs)} samples;"
            " give the samples their facts"
        )
    return tuple(phrases)


def _results(rows: Iterable[SampleResult], metric: str) -> list[MetricResult]:
    """The results of a metric, of the rows that have one."""
    return [row.results[metric] for row in rows if metric in row.results]


def _contradict(
    name: str, before: Mapping[str, set[str]], after: Mapping[str, set[str]]
) -> bool:
    """Whether two runs hold different values of a setting."""
    is_observed = name in ("model", "score mode")
    if is_observed and (name not in before or name not in after):
        return False  # a side on which nothing was asked contradicts nothing
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
    """Find the judges that two runs asked under one name, but at different addresses.

    Example: {"gpt": "judge gpt at http://a against http://b"}.
    Another address may serve another model under the same name. An address that is not
    known contradicts nothing.

    Args:
        before: By judge, the addresses that the first run asked.
        after: By judge, the addresses that the second run asked.

    Returns:
        By judge, a phrase that says how the addresses differ.
    """
    phrase_by_judge = {}
    for judge, addresses_before in before.items():
        addresses_after = after.get(judge, ())
        are_known = bool(addresses_before) and bool(addresses_after)
        if are_known and set(addresses_before) != set(addresses_after):
            phrase_by_judge[judge] = (
                f"judge {judge} at {', '.join(addresses_before)} against"
                f" {', '.join(addresses_after)}"
            )
    return phrase_by_judge


def _settings(results: Sequence[MetricResult]) -> dict[str, set[str]]:
    """Collect the settings that results were measured with, each with its values.

    They are the parts of the metric's signature, the models that replied, and how the
    scores were read ("score mode"). Example: {"judge": {"gpt"}, "model":
    {"gpt-4o-2024-08-06"}}.
    """
    values_by_setting: dict[str, set[str]] = {}
    for signature in {result.signature for result in results}:
        for name, value in signature.parts():
            values_by_setting.setdefault(name, set()).add(value)
    models = {model for result in results for model in result.usage.models}
    if models:
        values_by_setting["model"] = models
    score_mode = _most_common_score_mode(results)
    if score_mode is not None:
        values_by_setting["score mode"] = {score_mode}
    return values_by_setting


def _most_common_score_mode(results: Iterable[MetricResult]) -> str | None:
    """From what most scores were read, probabilities or polls; None if that is unknown.

    A judge may fall back to polls now and then.
    """
    n_by_mode: Counter[str] = Counter()
    for result in results:
        n_by_mode.update(_score_modes(result))
    return max(n_by_mode, key=n_by_mode.__getitem__, default=None)


def _score_modes(result: MetricResult) -> Iterator[str]:
    """How the score of each fact in each context, or of each chunk, was read."""
    if isinstance(result.evidence, FactMatrix):
        for cells_of_fact in result.evidence.cells:
            for cell in cells_of_fact:
                yield cell.mode
    elif isinstance(result.evidence, JudgedChunks):
        for chunk in result.evidence.chunks:
            yield chunk.mode


def _words(values: set[str] | None) -> str:
    """The values of a setting in words; None and an empty set are "not set"."""
    return " and ".join(sorted(values or ())) or "not set"
