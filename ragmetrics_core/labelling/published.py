"""Rows with what people say of them, to measure judges with: our own form, LLM-AggreFact and RAGTruth."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from ragmetrics_core.data import InputError, MetricResult, RowError, Sample, Usage
from ragmetrics_core.data.cells import structured
from ragmetrics_core.labelling.labels import votes_of
from ragmetrics_core.labelling.row_files import READERS, read_objects
from ragmetrics_core.reporting.run_facts import Input
from ragmetrics_core.statistics.rater_agreement import Labelled

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LabelledSample:
    """A sample from a source with what people say of it, ``labels``, as they were asked a ``question``.

    Is the answer ``adherent``, is each context ``relevant``, is each fact ``present``
    in the contexts, is the ``other`` answer better? ``people`` are votes of single
    annotators on the answer, where they are known. Of a judge that was asked there are
    the ``result``, what it cost, with that on the other answer, and per label a
    verdict: its score, and as the rival's minus the length of the text.
    """

    question: str
    source: str
    sample: Sample
    labels: tuple[bool, ...]
    other: Sample | None = None
    people: tuple[bool, ...] = ()
    result: MetricResult | None = None
    usage: Usage = field(default_factory=Usage)
    verdicts: tuple[Labelled, ...] = ()

    @property
    def says(self) -> tuple[bool, ...]:
        """The verdicts as yes and no."""
        return tuple(one.says() for one in self.verdicts)


def labelled_files(path: Path) -> list[Path]:
    """A file, or all files in a folder that may hold labelled rows."""
    return (
        sorted(file for file in path.rglob("*") if file.suffix.casefold() in READERS)
        if path.is_dir()
        else [path]
    )


def inputs_of(path: Path) -> tuple[Input, ...]:
    """The files of labelled rows as facts of a run name them."""
    return tuple(
        Input(name=file.name, sha256=sha256(file.read_bytes()).hexdigest())
        for file in labelled_files(path)
    )


def read_labelled(path: Path, limit: int | None = None) -> list[LabelledSample]:
    """The labelled samples of a file, or of all files in a folder; ``docs/judges.md`` describes the forms.

    ``limit`` is the most of each question and source, drawn at random with seed 0.
    ``InputError`` if a file cannot be read, a row has none of the forms or a label that
    is none, or nothing is labelled; it names the place.
    """
    rows = [located for file in labelled_files(path) for located in read_objects(file)]
    origins = {
        row["source_id"]: row
        for _, row in rows
        if "source_info" in row and "source_id" in row
    }
    found: dict[tuple[str, str], list[LabelledSample]] = {}
    for place, row in rows:
        try:
            # Parquet fills what is missing
            row = {name: value for name, value in row.items() if value is not None}
            for item in _labelled(_in_our_form(row, origins)):
                found.setdefault((item.question, item.source), []).append(item)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            why = (
                error
                if isinstance(error, RowError)
                else f"a form that is not known ({type(error).__name__})"
            )
            raise InputError(
                f"{place}: no labelled row as in docs/judges.md: {why}"
            ) from None
    if not found:
        raise InputError(
            f"{path} holds no labelled rows; docs/judges.md says which forms are read"
        )
    draw = Random(0)  # noqa: S311 - sampling is no cryptography
    return [
        item
        for own in found.values()
        for item in draw.sample(own, min(limit or len(own), len(own)))
    ]


def _in_our_form(row: Row, origins: Mapping[str, Row]) -> Row:
    """A row of a published file in the form of ours; {} for one that is left out."""
    if "claim" in row and "doc" in row:  # of LLM-AggreFact
        made = {
            "contexts": [{"text": row["doc"]}],
            "answer": row["claim"],
            "labels": {"adherent": int(row["label"])},
        }
        return {
            **made,
            "id": row.get("contamination_identifier"),
            "source": row["dataset"],
        }
    if "response" not in row or "source_id" not in row:
        return {} if "source_info" in row else row
    if row["source_id"] not in origins:
        raise RowError("the row of source_info.jsonl with its source_id is missing")
    origin = origins[row["source_id"]]  # of RAGTruth
    given = origin["source_info"]
    made = {"id": row["id"], "answer": row["response"], "generator": row["model"]}
    texts = [given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)]
    if origin["task_type"] == "QA":
        made["question"], texts = (
            given["question"],
            re.split(r"(?m)^passage \d+:", given["passages"]),
        )
    made["contexts"] = [{"text": text.strip()} for text in texts if text.strip()]
    made |= {
        "source": f"RAGTruth {origin['task_type']}",
        "labels": {"adherent": int(not row["labels"])},
    }
    # else cut off, or wrongly refused
    return made if row.get("quality", "good") == "good" else {}


def sample_of(row: Row, **changes: Any) -> Sample:
    """The sample in a row of our form, with fields to replace; ``RowError`` if there is none."""
    said = [
        turn.partition(": ")
        for turn in (structured(row.get("meta")) or {}).get("history") or ()
    ]
    history = [
        {"role": role, "content": content} for role, _, content in said if content
    ]
    kept = {
        name: value
        for name, value in row.items()
        if name not in ("answers", "label", "labels", "meta", "source")
    }
    return Sample.from_row(
        {**({"history": history} if history else {}), **kept, **changes}
    )


def _labelled(row: Row) -> Iterator[LabelledSample]:
    labels, meta = (
        structured(row.get("labels")) or {},
        structured(row.get("meta")) or {},
    )
    source = str(row.get("source") or "all")
    # drawn by ``ragmetrics label draw``
    if row.get("metric") == "context_adherence" and row.get("label") is not None:
        labels = {"adherent": row["label"]}
    if abs(labels.get("overall") or 0) > 0:
        one, other = (sample_of(row, answer=answer) for answer in row["answers"])
        yield LabelledSample("other", source, one, (labels["overall"] > 0,), other)
    if labels.get("adherent") is not None:
        votes = votes_of(labels["adherent"], "adherent")
        # MT-RAG's, from 1 to 4
        graded = tuple(vote >= 3 for vote in meta.get("faithfulness_votes") or ())
        people = votes if len(votes) > 1 else graded
        yield LabelledSample(
            "adherent", source, sample_of(row), (Labelled(0, votes).yes,), None, people
        )
    if labels.get("relevant"):
        sample, useful = sample_of(row), votes_of(labels["relevant"], "relevant")
        if len(useful) != len(sample.contexts):
            raise RowError(
                f"{len(useful)} labels.relevant of {len(sample.contexts)} contexts;"
                " each needs one"
            )
        yield LabelledSample("relevant", source, sample, useful)
    given = structured(row.get("facts")) or ()
    if facts := [
        fact
        for fact in given
        if isinstance(fact, Mapping) and fact.get("present") is not None
    ]:
        present = votes_of([fact["present"] for fact in facts], "present")
        yield LabelledSample("present", source, sample_of(row, facts=facts), present)
