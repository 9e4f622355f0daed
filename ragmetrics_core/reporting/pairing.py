"""Which rows of two runs are the same sample, and whether both were measured alike."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from pydantic import Field

from ragmetrics_core.data import Frozen, InputError, MetricResult, SampleResult
from ragmetrics_core.data.display import count_in_words
from ragmetrics_core.data.metric_evidence import FactMatrix, JudgedChunks
from ragmetrics_core.data.results import models_of
from ragmetrics_core.data.scalars import composed_text
from ragmetrics_core.reporting.groups import GroupBy, group_of

Pair = tuple[SampleResult, SampleResult]

_NAMES = {"T": "temperature", "prompt": "prompt version", "early_stop": "early stop"}


class Part(NamedTuple):
    """The matched rows of both runs, all or those of one slice.

    ``slice`` is None for all. ``n_rows`` counts the rows of either run, those without a
    partner too.
    """

    slice: str | None
    pairs: Sequence[Pair]
    n_rows: int


class Matched(Frozen):
    """The rows of two runs side by side.

    Attributes:
        by: What the samples were matched by.
        pairs: Rows of the same sample.
        first_only: Those without a partner in the second run.
        second_only: Those without a partner in the first run.
        n_repeated: Questions that stand several times in a run; their rows have no
            partner.
        has_new_ids: Whether each sample has an id of its own that the other run lacks.
    """

    by: Literal["id", "question"]
    pairs: tuple[Pair, ...] = Field(repr=False)
    first_only: tuple[SampleResult, ...] = Field(repr=False)
    second_only: tuple[SampleResult, ...] = Field(repr=False)
    n_repeated: int
    has_new_ids: bool = False

    def __str__(self) -> str:
        alone = (
            f"{len(self.first_only)} only in the first, {len(self.second_only)} only in"
            " the second"
        )
        repeated = (
            " Not matched, for standing several times in a run:"
            f" {count_in_words(self.n_repeated, 'question')} (give each row an id)."
            if self.n_repeated
            else ""
        )
        by = f"{self.by}, as no id is in both" if self.has_new_ids else self.by
        return (
            f"{count_in_words(len(self.pairs), 'row')} matched by {by}; {alone}.{repeated}"
            " Differences: second − first."
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
        slice_without_key = f"without {by}"
        n_alone_by_slice: Counter[str] = Counter()
        for row in rows_alone:
            if row.sample is not None:
                n_alone_by_slice[group_of(row.sample, by) or slice_without_key] += 1
        pairs_by_slice: defaultdict[str, list[Pair]] = defaultdict(list)
        for pair in self.pairs:  # the first run names the slice, else the second
            of_runs = (group_of(row.sample, by) for row in pair)
            slice_name = next(filter(None, of_runs), slice_without_key)
            pairs_by_slice[slice_name].append(pair)
        for slice_name in sorted({*n_alone_by_slice, *pairs_by_slice}):
            pairs = pairs_by_slice[slice_name]
            n_rows = len(pairs) + n_alone_by_slice[slice_name]
            yield Part(slice=slice_name, pairs=pairs, n_rows=n_rows)


def match(before: Sequence[SampleResult], after: Sequence[SampleResult]) -> Matched:
    """Find the rows of two runs that are about the same sample.

    Samples are matched by their ids if each has an id of its own and one is in both
    runs, else by the texts of their questions, never by their places. So ids that are
    new in each run, as those of traces, hinder nothing. Example: ids 1, 2 and ids 2, 3:
    one pair of 2; 1 and 3 stand alone. So do rows of a question that stands several
    times: nothing tells which belong together.

    Raises:
        InputError: If no rows can be matched.
    """
    # a sequence that reads its rows from a file makes new objects at each pass
    before = tuple(before)
    after = tuple(after)
    have_ids = _have_ids_of_their_own(before) and _have_ids_of_their_own(after)
    ids_in_both = _rows_by_key(before, "id").keys() & _rows_by_key(after, "id").keys()
    by: Literal["id", "question"] = "id" if have_ids and ids_in_both else "question"
    rows_after = _rows_by_key(after, by)
    pairs: list[Pair] = []
    n_repeated = 0
    for key, first_rows in _rows_by_key(before, by).items():
        second_rows = rows_after.get(key, [])
        if len(first_rows) == len(second_rows) == 1:
            pairs.append((first_rows[0], second_rows[0]))
        elif second_rows:
            n_repeated += 1
    if not pairs:
        if n_repeated:
            raise InputError(
                "questions stand several times in a run, and nothing tells their rows"
                f" apart: {n_repeated:,}; give each row an id, in both runs the same"
            )
        raise InputError(
            "the two runs have no sample in common, by id or by question; compare runs"
            " over the same samples"
        )
    matched_object_ids = {id(row) for pair in pairs for row in pair}
    return Matched(
        by=by,
        pairs=tuple(pairs),
        first_only=tuple(row for row in before if id(row) not in matched_object_ids),
        second_only=tuple(row for row in after if id(row) not in matched_object_ids),
        n_repeated=n_repeated,
        has_new_ids=have_ids and not ids_in_both,
    )


def _have_ids_of_their_own(rows: Sequence[SampleResult]) -> bool:
    """True if every sample has an id that no other has."""
    n_samples = sum(row.sample is not None for row in rows)
    return len(_rows_by_key(rows, "id")) == n_samples


def count_other_questions(pairs: Iterable[Pair]) -> int:
    """Count the pairs of one id that hold another question or another reference.

    A text counts only where both runs hold one at all.

    Line numbers make equal ids of any two data sets; such pairs are no samples measured
    twice.
    """
    n_others = 0
    for row_before, row_after in pairs:
        before, after = row_before.sample, row_after.sample
        if before is None or after is None:
            continue
        texts_of_both = [
            (before.question, after.question),
            ("\n".join(before.reference), "\n".join(after.reference)),
        ]
        n_others += any(
            text and other and composed_text(text) != composed_text(other)
            for text, other in texts_of_both
        )
    return n_others


def count_moved_questions(matched: Matched) -> int:
    """Count the pairs of one id whose question stands at another id in the second run.

    So it is where ids are the places of rows, and the rows were sorted anew.
    """
    rows_after = [*(after for _, after in matched.pairs), *matched.second_only]
    questions_after = _rows_by_key(rows_after, "question").keys()
    n_moved = 0
    for before, after in matched.pairs:
        asked = _rows_by_key([before], "question").keys()
        is_changed = asked != _rows_by_key([after], "question").keys()
        n_moved += is_changed and bool(asked & questions_after)
    return n_moved


def _rows_by_key(
    rows: Sequence[SampleResult], by: Literal["id", "question"]
) -> dict[str, list[SampleResult]]:
    """The rows of each id or question, in their order; those without it are left out."""
    rows_by_key: defaultdict[str, list[SampleResult]] = defaultdict(list)
    for row in rows:
        key = getattr(row.sample, by) if row.sample is not None else None
        if key:
            rows_by_key[composed_text(key)].append(row)
    return rows_by_key


def differences(pairs: Sequence[Pair], metric: str) -> tuple[str, ...]:
    """List how the measuring of a metric differs between two runs, a phrase for each.

    The settings may differ: "context_adherence: temperature 0 against 1". Or the judge
    listed other facts of the same reference, which it does where a sample comes without
    facts of its own: "context_recall: other facts in 3 of 20 samples; give the samples
    their facts". Or other passages were expected of a retrieval.

    Args:
        pairs: Each row as the first run has it, and as the second has it.
        metric: Name of the metric.
    """
    first_settings = _settings(_results([before for before, _ in pairs], metric))
    second_settings = _settings(_results([after for _, after in pairs], metric))
    phrases = []
    for name in dict.fromkeys([*first_settings, *second_settings]):
        first, second = first_settings.get(name), second_settings.get(name)
        is_observed = name in ("model", "score mode")
        if is_observed and (first is None or second is None):
            continue  # a side on which nothing was asked contradicts nothing
        is_mixed = len(first or ()) > 1
        if first != second or is_mixed:
            phrases.append(
                f"{metric}: {_NAMES.get(name, name)} {_words(first)} against"
                f" {_words(second)}"
            )
    n_with_other_facts = n_with_other_passages = 0
    for pair in pairs:
        expected = [
            {*(row.sample.expected_ids or ())} or row.sample.expected_contexts
            for row in pair
            for result in _results([row], metric)
            if row.sample is not None
            if getattr(result.evidence, "kind", "") == "retrieval_ranking"
        ]
        n_with_other_passages += len(expected) == 2 and expected[0] != expected[1]
        facts_of_runs = [
            [fact.text for fact in result.evidence.facts]
            for result in _results(pair, metric)
            if isinstance(result.evidence, FactMatrix)
        ]
        are_asked_in_both = len(facts_of_runs) == 2
        n_with_other_facts += are_asked_in_both and facts_of_runs[0] != facts_of_runs[1]
    if n_with_other_facts:
        phrases.append(
            f"{metric}: other facts in {n_with_other_facts} of {len(pairs)} samples;"
            " give the samples their facts"
        )
    if n_with_other_passages:
        phrases.append(
            f"{metric}: other expected passages in {n_with_other_passages} of"
            f" {len(pairs)} samples"
        )
    return tuple(phrases)


def _results(rows: Iterable[SampleResult], metric: str) -> list[MetricResult]:
    """The results of a metric, of the rows that have one."""
    return [row.results[metric] for row in rows if metric in row.results]


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
    models = set(map(models_of, results)) - {""}
    if models:
        values_by_setting["model"] = models
    # From what most scores were read, probabilities or polls: a judge may fall back to
    # polls now and then.
    n_by_mode: Counter[str] = Counter()
    for result in results:
        if isinstance(result.evidence, FactMatrix):
            for cells_of_fact in result.evidence.cells:
                n_by_mode.update(cell.mode for cell in cells_of_fact)
        elif isinstance(result.evidence, JudgedChunks):
            n_by_mode.update(chunk.mode for chunk in result.evidence.chunks)
        elif result.signature.settings.get("method") == "probability":
            is_of_polls = getattr(result.evidence, "repeatability", None) is not None
            n_by_mode["polls" if is_of_polls else "logprobs"] += 1
    if n_by_mode:
        most_common_mode = max(n_by_mode, key=n_by_mode.__getitem__)
        values_by_setting["score mode"] = {most_common_mode}
    return values_by_setting


def _words(values: set[str] | None) -> str:
    """The values of a setting in words; None and an empty set are "not set"."""
    return " and ".join(sorted(values or ())) or "not set"
