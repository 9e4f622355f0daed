"""Rows with what people say of them, to measure judges with.

They are read in our own form and in those of published sets: LLM-AggreFact, RAGTruth,
AttributionBench, and the human evaluation of ALCE.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from ragmetrics_core.data import InputError, MetricResult, RowError, Sample, Usage
from ragmetrics_core.data.cells import data_in
from ragmetrics_core.data.citations import Citation, cited_statements
from ragmetrics_core.labelling.labels import votes_of
from ragmetrics_core.labelling.row_files import READERS, read_objects
from ragmetrics_core.reporting.run_facts import Input
from ragmetrics_core.statistics.rater_agreement import Labelled

Row = Mapping[str, Any]

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
        verdicts: The judge's score of each label. The rival's score of a verdict is
            minus the length of the text, as if a rival judge liked short texts.
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
    inputs = []
    for file in find_labelled_files(path):
        digest = sha256(file.read_bytes()).hexdigest()
        inputs.append(Input(name=file.name, sha256=digest))
    return tuple(inputs)


def read_labelled(path: Path, limit: int | None = None) -> list[LabelledSample]:
    """Read the labelled samples of a file, or of all files in a folder.

    Args:
        path: The file or folder; ``docs/agreement.md`` describes the forms of rows.
        limit: At most this many samples of each group, drawn at random. A group has one
            source and one question to people, such as MS MARCO and "relevant". With 100
            its 300 samples become 100. None returns all.

    Raises:
        InputError: If a file cannot be read, if a row has none of the forms or has a
            label that cannot be understood, or if no row is labelled.
    """
    rows_with_places: list[tuple[str, Row]] = []
    for file in find_labelled_files(path):
        rows_with_places.extend(read_objects(file))
    # RAGTruth keeps the contexts of its answers in rows of another file
    ragtruth_origins = _ragtruth_origins(row for _, row in rows_with_places)
    samples: list[LabelledSample] = []
    for place, row in rows_with_places:
        samples += _read_at(place, row, ragtruth_origins)
    if not samples:
        raise InputError(
            f"{path} holds no labelled rows; docs/agreement.md says which forms are read"
        )
    return _draw_of_each_group(samples, limit)


def _draw_of_each_group(
    samples: Iterable[LabelledSample], limit: int | None
) -> list[LabelledSample]:
    """Draw at most ``limit`` samples of each group at random; all if it is None.

    The samples of a group come from one data set (``source``), and people were asked
    the same about them (``question``), such as whether a context is relevant.
    """
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


def _ragtruth_origins(rows: Iterable[Row]) -> dict[str, Row]:
    """Return the rows with the contexts of RAGTruth's responses, by their id."""
    return {
        row["source_id"]: row
        for row in rows
        if "source_info" in row and "source_id" in row
    }


def _read_at(
    place: str, row: Row, ragtruth_origins: Mapping[str, Row]
) -> list[LabelledSample]:
    """Read the labelled samples of one row, which is in our form or a published one.

    ``ragtruth_origins`` has the rows with the texts of RAGTruth's responses, by their
    id.

    Raises:
        InputError: If the row has no form that is known, or a value that cannot be read.
    """
    try:
        samples: list[LabelledSample] = []
        for our_row in _in_our_form(_without_missing(row), ragtruth_origins):
            samples += _samples_of_row(our_row)
        return samples
    except RowError as error:
        reason = str(error)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"a form that is not known ({type(error).__name__})"
    raise InputError(f"{place}: no labelled row as in docs/agreement.md: {reason}")


def _without_missing(row: Row) -> Row:
    """Drop the columns that are None: in Parquet only other rows have these columns."""
    return {name: value for name, value in row.items() if value is not None}


def _in_our_form(row: Row, ragtruth_origins: Mapping[str, Row]) -> list[Row]:
    """Rewrite a row of a published data set into rows of our form; any other row stays.

    The data set is known by the row's columns: "claim" and "doc" are AggreFact's.
    ``ragtruth_origins`` has the texts that RAGTruth's responses were written from.
    """
    if "attribution_label" in row and "references" in row:
        return [_from_attribution_bench(row)]
    if "claim" in row and "doc" in row:
        return [_from_aggrefact(row)]
    if "response" in row and "source_id" in row:
        return [_from_ragtruth(row, ragtruth_origins)]
    if "source_info" in row:  # the texts behind a response of RAGTruth
        return []
    answers_of_alce = list(_answers_of_alce(row))
    if answers_of_alce:
        return _from_alce(answers_of_alce)
    return [row]


def _from_attribution_bench(row: Row) -> Row:
    """Return a claim of AttributionBench, which cites all of its references."""
    label = row["attribution_label"]
    if label not in _ATTRIBUTION_LABELS:
        raise RowError(f"attribution_label must be {' or '.join(_ATTRIBUTION_LABELS)}")
    return {
        "id": row.get("id"),
        "source": f"AttributionBench {row.get('src_dataset', '')}".strip(),
        "question": row.get("question"),
        "contexts": [{"text": text} for text in row["references"]],
        "answer": row["claim"],
        "labels": {"supported": int(label == "attributable")},
    }


def _answers_of_alce(row: Row) -> Iterator[tuple[str, Row]]:
    """The answers in a file of ALCE's human evaluation of citations, with their set.

    The file is one object: answers by question, by system, by data set. Beside the
    answers stands "overall_results". Nothing in an object of another form.
    """
    for data_set, answers_by_system in row.items():
        if not isinstance(answers_by_system, Mapping):
            continue
        for answer_by_question in answers_by_system.values():
            if not isinstance(answer_by_question, Mapping):
                continue
            for answer in answer_by_question.values():
                if isinstance(answer, Mapping) and "sentences" in answer:
                    yield data_set, answer


def _from_alce(answers: Sequence[tuple[str, Row]]) -> list[Row]:
    """Make a row of each sentence that cites, of answers that people judged for ALCE.

    The label says whether all that the sentence cites supports it: "It is old [1][2]."
    is the answer "It is old." with two contexts. Sentences that cite nothing, or hold
    nothing but citation marks, are left out: nobody judges what supports them.

    Args:
        answers: Pairs of the data set's name and an answer with its ``sentences``.
    """
    rows: list[Row] = []
    for answer_number, (data_set, answer) in enumerate(answers, start=1):
        for sentence_number, sentence in enumerate(answer["sentences"], start=1):
            text = _without_marks(sentence["text"])
            has_words = any(map(str.isalnum, text))
            if not sentence["citations"] or not has_words:
                continue
            contexts = [
                {"text": f"{cited.get('title', '')}\n{cited['text']}".strip()}
                for cited in sentence["citations"]
            ]
            rows.append(
                {
                    "id": f"{data_set} {answer_number}.{sentence_number}",
                    "source": f"ALCE {data_set}",
                    "question": answer.get("question"),
                    "contexts": contexts,
                    "answer": text,
                    "labels": {"supported": int(sentence["sentence_recall_score"])},
                }
            )
    return rows


def _without_marks(text: str) -> str:
    """Return a text without its citation marks, such as "[1]"."""
    statements = cited_statements(text, ())
    return " ".join(statement.text for statement in statements)


def _from_aggrefact(row: Row) -> Row:
    """Return a row of LLM-AggreFact."""
    return {
        "id": row.get("contamination_identifier"),
        "source": row["dataset"],
        "contexts": [{"text": row["doc"]}],
        "answer": row["claim"],
        "labels": {"adherent": int(row["label"])},
    }


def _from_ragtruth(row: Row, origins: Mapping[str, Row]) -> Row:
    """Rewrite a response of RAGTruth, with its source texts, into a row of our form.

    A response with no marked span becomes ``{"answer": …, "labels": {"adherent": 1}}``,
    one with spans 0. An empty row if the data set says that the response was cut off or
    wrongly refused. ``origins`` has the rows with the source texts, by their id.

    Raises:
        RowError: If the row with the source texts is missing.
    """
    if row["source_id"] not in origins:
        raise RowError("the row of source_info.jsonl with its source_id is missing")
    origin = origins[row["source_id"]]
    texts = _texts_of_ragtruth(origin)
    has_unsupported_spans = bool(row["labels"])
    our_row: dict[str, Any] = {
        "id": row["id"],
        "source": f"RAGTruth {origin['task_type']}",
        "contexts": [{"text": text.strip()} for text in texts if text.strip()],
        "answer": row["response"],
        "generator": row["model"],
        "labels": {"adherent": 0 if has_unsupported_spans else 1},
    }
    if origin["task_type"] == "QA":
        our_row["question"] = origin["source_info"]["question"]
    is_whole_response = row.get("quality", "good") == "good"
    return our_row if is_whole_response else {}


def _texts_of_ragtruth(origin: Row) -> list[str]:
    """Return a response's sources: passages, an article, or a record."""
    source_info = origin["source_info"]
    if origin["task_type"] == "QA":
        return re.split(r"(?m)^passage \d+:", source_info["passages"])
    if isinstance(source_info, str):
        return [source_info]
    return [json.dumps(source_info, ensure_ascii=False)]


_ATTRIBUTION_LABELS = ("attributable", "not attributable")


def sample_of(
    row: Row, *, answer: str | None = None, facts: Sequence[object] | None = None
) -> Sample:
    """Make a sample of a row in our form, with this answer or these facts if they are given.

    Columns about the labels are left out: ``{"question": "Who?", "answer": "Anna",
    "label": "yes"}`` becomes a sample with question and answer. Earlier messages in the
    row's ``meta`` become the sample's history.

    Raises:
        RowError: If the row holds no sample.
    """
    fields: dict[str, Any] = {}
    history = _history_of(row)
    if history:
        fields["history"] = history
    for name, value in row.items():
        if name not in _COLUMNS_ABOUT_LABELS:
            fields[name] = value
    if answer is not None:
        fields["answer"] = answer
    if facts is not None:
        fields["facts"] = facts
    return Sample.from_row(fields)


def _history_of(row: Row) -> list[dict[str, str]]:
    """Earlier messages from a row's ``meta``, where each is written "role: content"."""
    meta = data_in(row.get("meta")) or {}
    history = []
    for message in meta.get("history") or ():
        role, _, content = message.partition(": ")
        if content:
            history.append({"role": role, "content": content})
    return history


def _samples_of_row(row: Row) -> Iterator[LabelledSample]:
    """Yield a labelled sample for each question that people answered about a row.

    ``{"labels": {"adherent": 1, "relevant": [1, 0]}, …}`` yields two: is the answer
    based on the contexts, and which contexts are relevant?
    """
    labels = _labels_of_row(row)
    source = str(row.get("source") or "all")
    preference = labels.get("overall") or 0  # > 0: the second answer is better
    if abs(preference) > 0:  # 0, and NaN: neither answer is better
        yield _preference(row, source, preference)
    if labels.get("adherent") is not None:
        yield _adherence(row, source, labels["adherent"])
    if labels.get("supported") is not None:
        yield _support(row, source, labels["supported"])
    if labels.get("relevant"):
        yield _relevance(row, source, labels["relevant"])
    facts = _facts_of_row(row)
    if facts:
        are_present = votes_of([fact["present"] for fact in facts], "present")
        sample = sample_of(row, facts=facts)
        yield LabelledSample("present", source, sample, are_present)


def _labels_of_row(row: Row) -> Any:
    """Return the labels of a row, by question.

    Rows that ``ragmetrics agreement draw`` wrote have one label, that of their metric.
    """
    if row.get("metric") == "context_adherence" and row.get("label") is not None:
        return {"adherent": row["label"]}
    return data_in(row.get("labels")) or {}


def _facts_of_row(row: Row) -> list[Mapping[str, Any]]:
    """Return the facts of a row that people compared with the contexts."""
    facts = []
    for fact in data_in(row.get("facts")) or ():
        if isinstance(fact, Mapping) and fact.get("present") is not None:
            facts.append(fact)
    return facts


def _preference(row: Row, source: str, overall: float) -> LabelledSample:
    """Is the second answer better? People say so where ``overall`` is above 0."""
    answer, other_answer = row["answers"]
    sample = sample_of(row, answer=answer)
    other = sample_of(row, answer=other_answer)
    is_other_better = overall > 0
    return LabelledSample("other", source, sample, (is_other_better,), other)


def _adherence(row: Row, source: str, label: Any) -> LabelledSample:
    """Is the answer adherent? The majority of the votes says so."""
    votes = votes_of(label, "adherent")
    people_votes = votes
    if len(votes) == 1:  # single annotators are known from MT-RAG's grades alone
        meta = data_in(row.get("meta")) or {}
        grades = meta.get("faithfulness_votes") or ()
        people_votes = tuple(grade >= _GOOD_FAITHFULNESS for grade in grades)
    is_adherent = _do_most_say_yes(votes)
    return LabelledSample(
        "adherent", source, sample_of(row), (is_adherent,), None, people_votes
    )


def _do_most_say_yes(votes: tuple[bool, ...]) -> bool:
    """Tell whether most votes say yes; a tie is a no."""
    # the rule of ``Labelled``, which also needs a score: any will do
    return Labelled(score=0.0, votes=votes).is_labelled_yes


def _support(row: Row, source: str, label: Any) -> LabelledSample:
    """Label a sample by people: do the cited contexts support the whole answer?

    Args:
        row: The row.
        source: Where the row comes from.
        label: One vote or several; the majority becomes the label.
    """
    votes = votes_of(label, "supported")
    sample = sample_of(row)
    if sample.citations is None:
        sample = sample.model_copy(update={"citations": (_citation_of_all(sample),)})
    is_supported = _do_most_say_yes(votes)
    is_majority_alone = len(votes) == 1  # how each person voted is not known
    return LabelledSample(
        "supported",
        source,
        sample,
        (is_supported,),
        people_votes=() if is_majority_alone else votes,
    )


def _citation_of_all(sample: Sample) -> Citation:
    """Return a citation of every context for the whole answer."""
    return Citation(
        start=0,
        end=len(sample.answer or ""),
        contexts=tuple(range(len(sample.known_contexts))),
    )


def _relevance(row: Row, source: str, labels: Any) -> LabelledSample:
    """Is each context relevant?"""
    sample = sample_of(row)
    useful = votes_of(labels, "relevant")
    if len(useful) != len(sample.known_contexts):
        raise RowError(
            f"{len(useful)} labels.relevant of {len(sample.known_contexts)} contexts;"
            " each needs one"
        )
    return LabelledSample("relevant", source, sample, useful)
