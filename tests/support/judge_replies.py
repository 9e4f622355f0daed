"""What judges say in tests, in few words."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ragmetrics_core import Metric, Question, Sample, ScriptedJudge
from ragmetrics_core.data.asking import Instructions
from ragmetrics_core.data.errors import JudgeError, QuestionNotSupported
from ragmetrics_core.data.replies import Asked, Weight
from ragmetrics_core.judging.decision_judge import convert_question
from ragmetrics_core.judging.rendering import render
from ragmetrics_core.metrics.answer_relevance import Addresses
from ragmetrics_core.metrics.citation_support import MakesClaim, Supports
from ragmetrics_core.metrics.context_recall import RateRecall, Rating
from ragmetrics_core.metrics.context_sufficiency import SufficientContexts
from ragmetrics_core.metrics.context_utilization import Useful, Usefulness
from ragmetrics_core.metrics.declined import Declined, DeclinedJudgement
from ragmetrics_core.metrics.fact_matrix import (
    Covered,
    CoveredList,
    ExtractFacts,
    FactInContext,
)
from ragmetrics_core.metrics.polls import AdherenceReply, Adherent, RestsOn


def useful(verdict: bool, p: float | None = None, reason: str = "") -> Asked[Any]:
    """A verdict on one chunk, with a probability where one is given."""
    reply = Usefulness(useful=verdict, reason=reason)
    return Asked((reply,), weights=() if p is None else (Weight(p, "lexical"),))


def useful_list(question: Question[Any], verdicts: Sequence[dict[str, Any]]) -> Any:
    """Verdicts on the chunks of a listwise question."""
    labels = question.parts["chunks"].labels
    chunks = [
        {"label": label, **verdict}
        for label, verdict in zip(labels, verdicts, strict=True)
    ]
    return question.read({"chunks": chunks})


def poll(
    verdict: str, reason: str = "", unsupported: Sequence[str] = ()
) -> AdherenceReply:
    """One poll; of a "no" without a claim some claim is not supported."""
    claims = ["it"] if verdict == "no" and not unsupported else unsupported
    is_claim = verdict != "abstains"
    return AdherenceReply(reason=reason, unsupported=claims, claims=is_claim)


def polls(
    answers: Sequence[AdherenceReply],
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


def rating(score: float, reason: str = "") -> Rating:
    """A rating against one reference."""
    return Rating(score=score, reason=reason)


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
    """The questions that a metric asks first about a sample whose answer declines not."""
    plan = metric.plan(Sample.from_row(fields))
    batch = next(plan)
    if isinstance(batch[0], Declined) and len(batch) == 1:
        batch = plan.send((Asked((DeclinedJudgement(declined=False),)),))
    return batch


def listener() -> ScriptedJudge:
    """A judge that notes what it is asked, and answers nothing but that none declines."""
    unknown = QuestionNotSupported("it only listens")
    kinds = (
        Adherent, Addresses, ExtractFacts, FactInContext, MakesClaim, RateRecall,
        RestsOn, SufficientContexts, Supports, Useful,
    )  # fmt: skip
    return ScriptedJudge(dict.fromkeys(kinds, unknown))


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


def requests_of(question: Any) -> str:
    """All that any judge is sent for a question: as a chat, and as typed questions."""
    typed = convert_question(question)
    chat = [message.content for message in render(question)]
    return "\n".join([*chat, typed.state, *typed.typed_by_json])
