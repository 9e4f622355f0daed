"""Rows with what people say of them, to measure judges with.

They are read in our own form. Published sets whose rows hold the same under other names
are read by a map of their columns.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

from ragmetrics_core.data import InputError, MetricResult, RowError, Sample, Usage
from ragmetrics_core.data.cells import data_in
from ragmetrics_core.data.citations import Citation
from ragmetrics_core.data.columns import Row
from ragmetrics_core.data.scalars import is_present
from ragmetrics_core.engine.row_files import READERS, read_objects
from ragmetrics_core.labelling.labels import votes_of
from ragmetrics_core.reporting.run_facts import Input
from ragmetrics_core.statistics.rater_agreement import Labelled

_FIELD_MAPS: tuple[Mapping[str, str], ...] = (
    # LLM-AggreFact (arXiv 2404.10774)
    {"doc": "contexts", "claim": "answer", "label": "adherent", "dataset": "source"},
    # AttributionBench (arXiv 2402.15089)
    {
        "references": "contexts",
        "claim": "answer",
        "attribution_label": "supported",
        "src_dataset": "source",
    },
)
"""Of each published set its columns, and what our form calls them.

A row with all of these columns is of that set; its other columns stay as they are.
"""
_VOTES_IN_WORDS = {"attributable": 1, "not attributable": 0}
_QUESTIONS_ABOUT_ANSWERS = ("adherent", "supported")

# columns of our form that are no fields of a sample
_COLUMNS_ABOUT_LABELS = frozenset(("answers", "label", "labels", "meta", "source"))
_GOOD_FAITHFULNESS = 3
"""Annotators of MT-RAG grade from 1 to 4: from this grade on an answer is adherent."""


@dataclass(frozen=True, slots=True)
class LabelledSample:
    """A sample with what people answered to one question about it.

    Attributes:
        question: What people were asked: is the answer ``adherent``, is each context
            ``relevant``, is each fact ``present`` in the contexts, is the answer
            ``supported`` by all contexts that it cites, or is the ``other`` answer
            better.
        source: The data set that the sample comes from.
        sample: The sample.
        labels: What people say, one label for the answer, or one per context or fact.
        other_sample: The sample with the other answer, where two answers are compared.
        people_votes: Votes of single annotators on the answer, where they are known.
        result: The judge's result, once it was asked.
        usage: What the judge's answers cost, that on the other answer included.
        verdicts: The judge's score of each label.
    """

    question: str
    source: str
    sample: Sample
    labels: tuple[bool, ...]
    other_sample: Sample | None = None
    people_votes: tuple[bool, ...] = ()
    result: MetricResult | None = None
    usage: Usage = field(default_factory=Usage)
    verdicts: tuple[Labelled, ...] = ()

    @property
    def bool_verdicts(self) -> tuple[bool, ...]:
        """The verdicts as yes and no."""
        return tuple(verdict.is_judged_yes() for verdict in self.verdicts)


def find_labelled_files(path: Path) -> list[Path]:
    """Return a file, or all files in a folder that may hold labelled rows."""
    if not path.is_dir():
        return [path]
    files = [file for file in path.rglob("*") if file.suffix.casefold() in READERS]
    return sorted(files)


def inputs_of(path: Path) -> tuple[Input, ...]:
    """Return the files of labelled rows as facts of a run name them."""
    return tuple(
        Input(name=file.name, sha256=sha256(file.read_bytes()).hexdigest())
        for file in find_labelled_files(path)
    )


def read_labelled(path: Path, limit: int | None = None) -> list[LabelledSample]:
    """Read the labelled samples of a file, or of all files in a folder.

    Args:
        path: The file or folder; ``docs/card.md`` describes the forms of rows.
        limit: At most this many samples of each group, drawn at random. A group has one
            source and one question to people, such as MS MARCO and "relevant". With 100
            its 300 samples become 100. None returns all.

    Raises:
        InputError: If a file cannot be read, if a row has none of the forms or has a
            label that cannot be understood, or if no row is labelled.
    """
    # a file that cannot be read is told before a row of another one
    rows_of_files = [list(read_objects(file)) for file in find_labelled_files(path)]
    samples: list[LabelledSample] = []
    for place, row in chain.from_iterable(rows_of_files):
        try:
            # in Parquet a column that only other rows have is None
            present = {name: value for name, value in row.items() if is_present(value)}
            samples += list(_samples_of_row(_in_our_form(present)))
        except (RowError, KeyError, TypeError, ValueError, AttributeError) as error:
            reason = f"a form that is not known ({type(error).__name__})"
            if isinstance(error, RowError):
                reason = str(error)
            raise InputError(
                f"{place}: no labelled row as in docs/card.md: {reason}"
            ) from error
    if not samples:
        raise InputError(
            f"{path} holds no labelled rows: a row needs labels, as"
            ' {"adherent": 1}, or facts; labels by id go with --results (docs/card.md)'
        )

    # A group comes from one data set, and people were asked the same about it.
    samples_by_group: dict[tuple[str, str], list[LabelledSample]] = {}
    for sample in samples:
        group = (sample.question, sample.source)
        samples_by_group.setdefault(group, []).append(sample)
    random_source = Random(0)  # noqa: S311 - sampling is no cryptography
    drawn_samples: list[LabelledSample] = []
    for samples_of_group in samples_by_group.values():
        n_samples = len(samples_of_group)
        count = min(limit or n_samples, n_samples)
        drawn_samples.extend(random_source.sample(samples_of_group, count))
    return drawn_samples


def _in_our_form(row: Row) -> Row:
    """Give the columns of a published set our names; any other row stays as it is."""
    for our_name_by_column in _FIELD_MAPS:
        if our_name_by_column.keys() <= row.keys():
            break
    else:
        return row
    our_row: dict[str, Any] = {"labels": {}}
    for column, value in row.items():
        name = our_name_by_column.get(column, column)
        if name in _QUESTIONS_ABOUT_ANSWERS:
            our_row["labels"][name] = _VOTES_IN_WORDS.get(value, value)
        else:
            our_row[name] = value
    return our_row


def sample_of(
    row: Row, *, answer: str | None = None, facts: Sequence[object] | None = None
) -> Sample:
    """Make a sample of a row in our form, with this answer or these facts if they are given.

    Columns about the labels are left out: ``{"question": "Who?", "answer": "Anna",
    "label": "yes"}`` becomes a sample with question and answer. Earlier messages in the
    row's ``meta`` become the sample's history. Contexts in one text are one context.

    Raises:
        RowError: If the row holds no sample.
    """
    fields: dict[str, Any] = {}
    meta = data_in(row.get("meta")) or {}
    history = []
    for message in meta.get("history") or ():  # each is written "role: content"
        role, _, content = message.partition(": ")
        if content:
            history.append({"role": role, "content": content})
    if history:
        fields["history"] = history
    fields |= {
        name: value for name, value in row.items() if name not in _COLUMNS_ABOUT_LABELS
    }
    if answer is not None:
        fields["answer"] = answer
    if facts is not None:
        fields["facts"] = facts
    contexts_in_one_text = isinstance(data_in(fields.get("contexts")), str)
    return Sample.from_row(
        fields, contexts="contexts" if contexts_in_one_text else None
    )


def _samples_of_row(row: Row) -> Iterator[LabelledSample]:
    """Yield a labelled sample for each question that people answered about a row.

    ``{"labels": {"adherent": 1, "relevant": [1, 0]}, …}`` yields two: is the answer
    based on the contexts, and which contexts are relevant?
    """
    labels = data_in(row.get("labels")) or {}
    source = str(row.get("source") or "all")
    preference = labels.get("overall") or 0  # > 0: the second answer is better
    if abs(preference) > 0:  # 0, and NaN: neither answer is better
        answer, other_answer = row["answers"]
        other = sample_of(row, answer=other_answer)
        sample = sample_of(row, answer=answer)
        yield LabelledSample("other", source, sample, (preference > 0,), other)
    for question in _QUESTIONS_ABOUT_ANSWERS:
        if labels.get(question) is not None:
            yield _about_answer(question, row, source, labels[question])
    if labels.get("relevant"):
        sample = sample_of(row)
        useful = votes_of(labels["relevant"], "relevant")  # of each context
        if len(useful) != len(sample.known_contexts):
            raise RowError(
                f"{len(useful)} labels.relevant of {len(sample.known_contexts)}"
                " contexts; each needs one"
            )
        yield LabelledSample("relevant", source, sample, useful)
    facts = [  # those that people compared with the contexts
        fact
        for fact in data_in(row.get("facts")) or ()
        if isinstance(fact, Mapping) and fact.get("present") is not None
    ]
    if facts:
        are_present = votes_of([fact["present"] for fact in facts], "present")
        sample = sample_of(row, facts=facts)
        yield LabelledSample("present", source, sample, are_present)


def _about_answer(question: str, row: Row, source: str, label: Any) -> LabelledSample:
    """Label the answer of a row, as most of the votes say; a tie is a no."""
    votes = votes_of(label, question)
    sample = sample_of(row)
    if question == "supported" and sample.citations is None:
        n_contexts = len(sample.known_contexts)
        all_for_whole_answer = Citation(
            start=0, end=len(sample.answer or ""), contexts=tuple(range(n_contexts))
        )
        sample = sample.model_copy(update={"citations": (all_for_whole_answer,)})
    # the rule of ``Labelled``, which also needs a score: any will do
    is_yes = Labelled(score=0.0, votes=votes).is_labelled_yes
    people_votes = votes
    if len(votes) == 1:  # MT-RAG has those of single annotators in ``meta``
        meta = data_in(row.get("meta")) or {}
        grades = meta.get("faithfulness_votes") or ()
        people_votes = tuple(grade >= _GOOD_FAITHFULNESS for grade in grades)
    return LabelledSample(
        question, source, sample, (is_yes,), people_votes=people_votes
    )
