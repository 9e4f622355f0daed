"""One half is a no, for every judge, metric, card and page."""

from typing import Any

import pytest
from judge_replies import poll

from ragmetrics_core import (
    ContextAdherence,
    ContextSufficiency,
    ContextUtilization,
    RetrievalAccuracy,
    ScriptedJudge,
    evaluate,
)
from ragmetrics_core.data.metric_evidence import Cell
from ragmetrics_core.data.replies import Asked, Weight
from ragmetrics_core.data.scalars import is_yes
from ragmetrics_core.metrics.answer_relevance import Addresses
from ragmetrics_core.metrics.context_sufficiency import (
    SufficientContexts,
    SufficientReply,
)
from ragmetrics_core.metrics.context_utilization import Useful, UsefulnessAlone
from ragmetrics_core.metrics.fact_matrix import Covered, FactInContext
from ragmetrics_core.metrics.polls import Adherent
from ragmetrics_core.statistics.rater_agreement import Labelled

ROW = {"question": "q", "contexts": ["c"], "answer": "a", "facts": ["f"]}


def torn(reply: Any) -> Asked[Any]:
    """A reply that says yes, with a probability of one half."""
    return Asked((reply,), weights=(Weight(0.5),))


def test_one_half_is_no_yes():
    assert [is_yes(p) for p in (0, 0.5, 0.5000001, 1)] == [False, False, True, True]


def test_a_torn_judge_finds_no_chunk_useful_and_no_fact_covered():
    judge = ScriptedJudge(
        {
            Useful: torn(UsefulnessAlone(useful=True)),
            FactInContext: torn(Covered(covered=True)),
        }
    )
    chunks = ContextUtilization(relevance="probability").score(**ROW, judge=judge)
    assert chunks.evidence.useful == 0
    facts = RetrievalAccuracy().score(**ROW, judge=judge)
    assert (facts.value, facts.evidence.cells[0][0].covered) == (0.0, False)
    assert not Cell(probability=0.5).covered


def test_contexts_of_one_half_are_not_sufficient():
    reply = SufficientReply(missing=())
    judge = ScriptedJudge({SufficientContexts: torn(reply)})
    result = ContextSufficiency(declining=False).score(**ROW, judge=judge)
    assert (result.value, result.evidence.sufficient) == (0.5, False)


def test_of_tied_polls_a_cause_is_looked_for():
    tied = [poll("yes"), poll("no")]
    cause = {SufficientContexts: {"missing": []}, Addresses: {"grade": 3}}
    judge = ScriptedJudge({Adherent: tied, **cause})
    result = ContextAdherence(polls=2).score(**ROW, judge=judge)
    assert (result.value, result.evidence.cause) == (0.5, "reasoning_error")


def test_a_card_reads_a_score_of_one_half_as_a_no():
    row = Labelled(score=0.5, votes=(True,))
    assert not row.is_judged_yes()


@pytest.mark.parametrize("name", ["context_utilization", "context_adherence"])
def test_rows_whose_search_found_nothing_never_leave_a_perfect_mean(name):
    good = {"question": "Who?", "answer": "Ada did.", "contexts": ["Ada did."]}
    dead = {"question": "Who?", "answer": "Ada did.", "retrieved": []}
    report = evaluate([good, dead] * 10, [name], judge="lexical")
    summary = next(it for it in report.summary().metrics if it.metric == name)
    assert summary.count == 20
    assert 0.4 < summary.mean <= 0.5
