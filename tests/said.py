"""What judges say in tests, in few words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ragmetrics_core import Metric, Question, Sample
from ragmetrics_core.data.asking import Instructions
from ragmetrics_core.data.errors import JudgeError
from ragmetrics_core.data.replies import Asked, Weight
from ragmetrics_core.metrics.context_recall import Rating
from ragmetrics_core.metrics.context_utilization import UsefulGrade, Usefulness
from ragmetrics_core.metrics.fact_matrix import Covered, CoveredList
from ragmetrics_core.metrics.polls import Poll


def useful(
    verdict: bool, p: float | None = None, reason: str = "", *, grade: int | None = None
) -> Asked[Any]:
    """A verdict on one chunk, with a probability or a grade where one is given."""
    reply = (
        Usefulness(useful=verdict, reason=reason)
        if grade is None
        else UsefulGrade(grade=grade, reason=reason)
    )
    return Asked((reply,), weights=() if p is None else (Weight(p, "lexical"),))


def useful_list(question: Question[Any], verdicts: Sequence[dict[str, Any]]) -> Any:
    """Verdicts on the chunks of a listwise question."""
    labels = question.parts["chunks"].labels
    chunks = [
        {"label": label, **verdict}
        for label, verdict in zip(labels, verdicts, strict=True)
    ]
    return question.read({"chunks": chunks})


def poll(verdict: str, reason: str = "", unsupported: Sequence[str] = ()) -> Poll:
    """One poll."""
    return Poll(verdict=verdict, reason=reason, unsupported=unsupported)


def polls(
    answers: Sequence[Poll],
    failures: Sequence[JudgeError] = (),
    *,
    p: float | None = None,
    together: bool = False,
) -> Any:
    """Polls, or the error if none was answered."""
    weights = () if p is None else (Weight(p, "lexical"),)
    return (
        Asked(tuple(answers), tuple(failures), weights, (), together)
        if answers
        else failures[0]
    )


def covered(*p: float, mode: Any = "verdict", mass: float | None = None) -> Asked[Any]:
    """The probabilities of one or several facts."""
    items = [
        {"label": f"F{number}", "covered": one > 0.5} for number, one in enumerate(p, 1)
    ]
    reply = Covered(covered=p[0] > 0.5) if len(p) == 1 else CoveredList(facts=items)
    return Asked((reply,), weights=tuple(Weight(one, mode, mass) for one in p))


def rating(score: float, reason: str = "", band: str = "") -> Rating:
    """A rating against one reference."""
    return Rating(score=score, reason=reason, band=band)


def facts(*texts: str) -> dict[str, Any]:
    """The facts of a reference."""
    return {"facts": texts}


def chunks(question: Question[Any]) -> tuple[str, ...]:
    """The chunks that a question shows."""
    return (question.parts.get("chunks") or question.parts["chunk"]).texts


def asked_facts(question: Question[Any]) -> tuple[str, ...]:
    """The facts that a question shows."""
    return (question.parts.get("facts") or question.parts["fact"]).texts


def first_batch(metric: Metric, **fields: Any) -> tuple[Question[Any], ...]:
    """The questions that a metric asks first about a sample."""
    return next(metric.plan(Sample.from_row(fields)))


def of(metric: Metric, template: str | None = None, **fields: Any) -> Question[Any]:
    """The first question that a metric asks about a sample, with another template where one is given."""
    question = first_batch(metric, **fields)[0]
    return (
        question
        if template is None
        else replace(
            question,
            instructions=Instructions(template, optional=tuple(question.parts)),
        )
    )


def shown(asked: Question[Any], /, **texts: Any) -> Question[Any]:
    """A question with other texts in its parts, as they are."""
    changed = {
        name: replace(asked.parts[name], text=text) for name, text in texts.items()
    }
    return replace(asked, parts={**asked.parts, **changed})
