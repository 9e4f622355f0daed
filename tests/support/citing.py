"""Answers that cite, made of atoms, and an oracle of what supports what.

A text is a set of atoms such as ``AA``. Texts support a statement if together they hold
all of its atoms, so the oracle never errs.
"""

import re
from collections.abc import Collection, Sequence
from typing import Any

from ragmetrics_core import Sample, ScriptedJudge
from ragmetrics_core.data.citations import citations_of_marks
from ragmetrics_core.metrics.citation_support import MakesClaim, Supports

_ATOM = re.compile(r"\b[A-Z]{2}\b")


def atoms(*texts: str) -> set[str]:
    return {atom for text in texts for atom in _ATOM.findall(text)}


def support(question: Any) -> dict[str, Any]:
    return {
        "supported": int(atoms(question["statement"]) <= atoms(*question["passages"]))
    }


def claims(question: Any) -> dict[str, Any]:
    """A sentence claims something if it holds an atom."""
    part = question.parts["sentences"]
    return {
        "sentences": [
            {"label": label, "claims": int(bool(atoms(text)))}
            for label, text in zip(part.labels, part.texts, strict=True)
        ]
    }


ORACLE: dict[type, Any] = {Supports: support, MakesClaim: claims}


def oracle() -> ScriptedJudge:
    return ScriptedJudge(ORACLE)


def numbered(n_contexts: int) -> dict[str, int]:
    """The numbering of contexts from 1."""
    return {str(place + 1): place for place in range(n_contexts)}


def citing_sample(answer: str, contexts: Sequence[str], **fields: Any) -> Sample:
    return Sample(
        contexts=contexts,
        answer=answer,
        citations=citations_of_marks(answer, numbered(len(contexts))),
        **fields,
    )


def sentence(held: Collection[str], cited: Collection[int]) -> str:
    """A sentence of atoms that cites contexts by their places from 0."""
    marks = "".join(f"[{place + 1}]" for place in cited)
    return f"It holds {' and '.join(sorted(held))} {marks}."


def cited_in(sample: Sample) -> list[tuple[str, tuple[int, ...], tuple[str, ...]]]:
    """Each statement that an answer cites for, with its contexts and the marks of none."""
    answer = sample.answer or ""
    return [
        (answer[one.start : one.end], one.contexts, one.dangling)
        for one in sample.citations or ()
    ]
