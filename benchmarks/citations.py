"""Whether wrong citations are found in real texts, where a judge knows what supports what.

    python benchmarks/citations.py DATA [--planted N]

DATA holds the labelled rows by family. An answer is made of sentences of a row's
contexts, each with a mark that names its context. In half of the answers one mark is
moved to a context that does not hold the sentence. The judge never errs: it looks
whether a context holds the words. So what is measured is whether marks, sentences and
citations keep together. The exit status is 1 if a wrong citation is missed, or a right
one is called wrong.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from goals import Rows, at_least, at_most
from labelled import Row, rows_by_source

from ragmetrics_core import CitationQuality, Sample, ScriptedJudge
from ragmetrics_core.data.marks import cites_otherwise, marks_in
from ragmetrics_core.data.sentences import split_sentences
from ragmetrics_core.metrics.citation_quality import CitationEvidence
from ragmetrics_core.metrics.citation_support import (
    MakesClaim,
    Supports,
    SupportsAlone,
)

FAMILIES = ("adherence", "relevance")
LEAD = "It is said that "
"""What half of the sentences begin with, so that they are no whole sentence of a context."""
MOST_SENTENCES = 5
FEWEST_WORDS = 5
_NO_WORD = re.compile(r"[\W_]+")


def words(text: str) -> str:
    """The words of a text, each between two spaces, without its marks."""
    plain = text
    for mark in reversed(marks_in(text)):
        plain = f"{plain[: mark.start]} {plain[mark.end :]}"
    return f" {_NO_WORD.sub(' ', plain).strip()} "


def holds(passage: str, statement: str) -> bool:
    """Whether a passage holds the words of a statement."""
    return words(statement.removeprefix(LEAD)) in words(passage)


def judge() -> ScriptedJudge:
    """A judge that never errs on these answers."""

    def by_each(question: Any) -> Mapping[str, Any]:
        part = question.parts["passages"]
        return {
            "passages": [
                {"label": label, "supported": int(holds(text, question["statement"]))}
                for label, text in zip(part.labels, part.texts, strict=True)
            ]
        }

    def together(question: Any) -> Mapping[str, Any]:
        held = [holds(text, question["statement"]) for text in question["passages"]]
        return {"supported": int(any(held))}

    def claims(question: Any) -> Mapping[str, Any]:
        part = question.parts["sentences"]
        # "rate" before a "<br>" is a cell of a table, and claims nothing
        return {
            "sentences": [
                {"label": label, "claims": int(len(text.split()) > 2)}
                for label, text in zip(part.labels, part.texts, strict=True)
            ]
        }

    return ScriptedJudge(
        {Supports: together, SupportsAlone: by_each, MakesClaim: claims}
    )


@dataclass(frozen=True)
class CitingAnswer:
    """An answer whose sentences cite their contexts.

    Args:
        sample: The sample.
        wrong_sentence: The sentence whose mark names another context; None if every
            mark is right.
    """

    sample: Sample
    wrong_sentence: str | None


def citing_answer(row: Row, chance: Random, *, is_planted: bool) -> CitingAnswer | None:
    """Make an answer of a row's contexts; None where they have too few sentences."""
    texts = [context["text"] for context in row["contexts"]]
    candidates = list(_sentences(texts))
    if len(texts) < 2 or len(candidates) < 2:
        return None
    chosen = chance.sample(candidates, min(MOST_SENTENCES, len(candidates)))
    wrong_place: int | None = None
    named_places = [place for _, place in chosen]
    if is_planted:
        wrong_place = chance.randrange(len(chosen))
        sentence, _ = chosen[wrong_place]
        others = [
            place for place, text in enumerate(texts) if not holds(text, sentence)
        ]
        if not others:
            return None
        named_places[wrong_place] = chance.choice(others)
    lines: list[str] = []
    for number, (sentence, _) in enumerate(chosen):
        # a number at the beginning is that of an item only there
        lead = LEAD if number % 2 and sentence[0].isalpha() else ""
        mark = f"[{named_places[number] + 1}]"
        lines.append(_with_mark(lead + sentence, mark, behind=number % 3 == 0))
    answer = "\n".join(lines)
    # pages of the web have marks of their own, such as "the end.3": nobody knows what
    # such an answer cites, so that it has no score
    if cites_otherwise(answer):
        return None
    sample = Sample(question=row["question"], contexts=texts, answer=answer)
    wrong = None if wrong_place is None else chosen[wrong_place][0]
    return CitingAnswer(sample, wrong)


def _sentences(texts: list[str]) -> Iterator[tuple[str, int]]:
    """The sentences that an answer can be made of, each with the place of its text."""
    for place, text in enumerate(texts):
        for sentence in split_sentences(text):
            is_long = len(sentence.split()) >= FEWEST_WORDS
            # a mark of the text's own is a citation as well
            if is_long and sentence[-1] in ".!?" and not marks_in(sentence):
                yield sentence, place


def _with_mark(sentence: str, mark: str, *, behind: bool) -> str:
    """A sentence with a mark behind its last sign, or before it."""
    if behind:
        return f"{sentence} {mark}"
    return f"{sentence[:-1]} {mark}{sentence[-1]}"


def citing_answers(
    data: Path, chance: Random, count: int, *, is_planted: bool
) -> list[CitingAnswer]:
    """So many answers, from all rows in turn."""
    rows = [
        row
        for family in FAMILIES
        for rows_of_source in rows_by_source(data, family).values()
        for row in rows_of_source
    ]
    chance.shuffle(rows)
    answers: list[CitingAnswer] = []
    for row in rows:
        answer = citing_answer(row, chance, is_planted=is_planted)
        if answer is not None:
            answers.append(answer)
        if len(answers) == count:
            return answers
    raise SystemExit(f"only {len(answers)} answers can be made of {data}")


def misattributed(sample: Sample) -> list[str]:
    """The sentences that are called misattributed or unsupported."""
    metric = CitationQuality(numbered_from=1)
    result = metric.score(sample, judge=judge())
    if not isinstance(result.evidence, CitationEvidence):
        raise SystemExit(f"{result.status}: {result.reason}")
    return [
        statement.text
        for statement in result.evidence.statements
        if statement.fault is not None
    ]


def is_part_of(statement: str, sentence: str | None) -> bool:
    """Whether a statement is a sentence of an answer, or a part of that."""
    return sentence is not None and holds(sentence, statement)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--planted", type=int, default=100)
    options = parser.parse_args(arguments)
    chance = Random(35)
    n_found = n_false = n_false_in_clean = 0
    for answer in citing_answers(
        options.data, chance, options.planted, is_planted=True
    ):
        named = misattributed(answer.sample)
        right = [text for text in named if is_part_of(text, answer.wrong_sentence)]
        n_found += bool(right)
        n_false += len(named) - len(right)
    for answer in citing_answers(
        options.data, chance, options.planted, is_planted=False
    ):
        n_false_in_clean += bool(misattributed(answer.sample))
    rows = Rows()
    rows.add(
        f"citations: {n_found} of {options.planted} wrong marks found",
        at_least(n_found, options.planted),
    )
    rows.add(
        f"citations: {n_false} right sentences beside them called wrong",
        at_most(n_false, 0),
    )
    rows.add(
        f"citations: {n_false_in_clean} of {options.planted} clean answers with a"
        " sentence called wrong",
        at_most(n_false_in_clean, 0),
    )
    return rows.code


if __name__ == "__main__":
    raise SystemExit(main())
