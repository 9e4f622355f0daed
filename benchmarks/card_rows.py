"""Labelled samples that judges are measured with: rows of our own form, and the files of LLM-AggreFact and RAGTruth."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragmetrics_core.data import Context, Fact, InputError, Sample, Turn
from ragmetrics_core.datasets.reading import read_objects

Row = Mapping[str, Any]
SUFFIXES = (".jsonl", ".json", ".csv", ".tsv", ".parquet")


@dataclass(frozen=True, slots=True)
class LabelledSample:
    """A sample with what people say of it.

    Args:
        question: What they were asked: is the answer ``adherent``, each context ``relevant``, each fact ``present`` in
            the contexts, the ``other`` answer better; ``labels`` are theirs.
        source: Where it comes from; each source is measured by itself.
        other: The same sample with the other answer.
        people: Votes of single annotators on the answer, where they are known.
    """

    question: str
    source: str
    sample: Sample
    labels: tuple[bool, ...]
    other: Sample | None = None
    people: tuple[bool, ...] = ()


def labelled_files(path: Path) -> list[Path]:
    """A file, or all files in a folder that may hold labelled rows."""
    return sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES) if path.is_dir() else [path]


def read_labelled(path: Path) -> list[LabelledSample]:
    """All labelled samples of a file, or of all files in a folder; ``docs/judges.md`` describes the forms.

    Raises:
        InputError: If a file cannot be read, a row has none of the forms, or nothing is labelled.
    """
    rows = [located for file in labelled_files(path) for located in read_objects(file)]
    origins = {row["source_id"]: row for _, row in rows if "source_info" in row}
    found: list[LabelledSample] = []
    for place, row in rows:
        try:
            found += _labelled(_in_our_form(row, origins))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{place}: no labelled row of a form in docs/judges.md ({type(error).__name__})") from None
    if not found:
        raise InputError(f"{path} holds no labelled rows; docs/judges.md says which forms are read")
    return found


def _in_our_form(row: Row, origins: Mapping[str, Row]) -> Row:
    """A row of a published file in the form of ours; {} for one that is left out."""
    if "claim" in row and "doc" in row:  # of LLM-AggreFact
        made = {"contexts": [{"text": row["doc"]}], "answer": row["claim"], "labels": {"adherent": row["label"]}}
        return {**made, "id": row.get("contamination_identifier"), "source": row["dataset"]}
    if "response" not in row or "source_id" not in row:
        return {} if "source_info" in row else row
    origin = origins[row["source_id"]]  # of RAGTruth
    given = origin["source_info"]
    made = {"id": row["id"], "answer": row["response"], "generator": row["model"]}
    texts = [given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)]
    if origin["task_type"] == "QA":
        made["question"], texts = given["question"], re.split(r"(?m)^passage \d+:", given["passages"])
    made["contexts"] = [{"text": text.strip()} for text in texts if text.strip()]
    made |= {"source": f"RAGTruth {origin['task_type']}", "labels": {"adherent": not row["labels"]}}
    return made if row.get("quality", "good") == "good" else {}  # else cut off, or wrongly refused


def sample_of(row: Row, **changes: Any) -> Sample:
    """The sample in a row of our form, with fields to replace."""
    turns = [turn.partition(": ") for turn in row.get("meta", {}).get("history", ())]
    fields = {
        **{name: row.get(name) for name in ("id", "question", "answer", "reference", "generator")},
        "contexts": [Context(text=context["text"]) for context in row.get("contexts", ())],
        "facts": tuple(Fact(text=fact["text"]) for fact in row.get("facts", ())) or None,
        "history": tuple(Turn(role=role, content=content) for role, _, content in turns if content),
    }
    return Sample(**{**fields, **changes})


def _labelled(row: Row) -> Iterator[LabelledSample]:
    labels, source, facts = row.get("labels", {}), row.get("source", "all"), row.get("facts", ())
    if labels.get("overall"):
        one, other = (sample_of(row, answer=answer) for answer in row["answers"])
        yield LabelledSample("other", source, one, (labels["overall"] > 0,), other)
    if "adherent" in labels:
        given = labels["adherent"]
        votes = given if isinstance(given, list) else [given]
        graded = [vote >= 3 for vote in row.get("meta", {}).get("faithfulness_votes", ())]  # of MT-RAG, from 1 to 4
        people = tuple(vote == 1 for vote in votes) if len(votes) > 1 else tuple(graded)
        yield LabelledSample("adherent", source, sample_of(row), (2 * sum(votes) > len(votes),), None, people)
    if "relevant" in labels:
        pairs = zip(row["contexts"], labels["relevant"], strict=True)
        yield LabelledSample("relevant", source, sample_of(row), tuple(label == 1 for _, label in pairs))
    if facts:
        yield LabelledSample("present", source, sample_of(row), tuple(fact["present"] == 1 for fact in facts))
