"""Every metric keeps the contract, and every metric says what it lacks for every missing field."""

import inspect
import re
from itertools import product

import pytest
from judge_replies import (
    chunks,
    covered,
    facts,
    listener,
    poll,
    polls,
    rating,
    useful,
    useful_list,
)

from ragmetrics_core import (
    ContextAdherence,
    ContextRecall,
    ContextUtilization,
    LexicalJudge,
    RetrievalAccuracy,
    Sample,
    ScriptedJudge,
    evaluate,
)
from ragmetrics_core.data.citations import citations_of_marks
from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.sample_parts import Context, EvidenceCall, Ledger
from ragmetrics_core.metrics.answer_relevance import (
    Addresses,
    AnswerRelevance,
    RelevanceEvidence,
)
from ragmetrics_core.metrics.citation_quality import (
    CitationEvidence,
    CitationQuality,
    JudgedCitation,
    JudgedStatement,
)
from ragmetrics_core.metrics.citation_support import Supports
from ragmetrics_core.metrics.context_adherence import AdherenceEvidence
from ragmetrics_core.metrics.context_recall import RateRecall, RecallEvidence
from ragmetrics_core.metrics.context_sufficiency import (
    ContextSufficiency,
    SufficiencyEvidence,
    SufficientContexts,
)
from ragmetrics_core.metrics.context_utilization import Useful, UtilizationEvidence
from ragmetrics_core.metrics.declined import Declined
from ragmetrics_core.metrics.fact_matrix import (
    AccuracyEvidence,
    ExtractFacts,
    FactInContext,
)
from ragmetrics_core.metrics.metric import digest_of_prompt
from ragmetrics_core.metrics.polls import Adherent, RestsOn, SentenceSupport
from ragmetrics_core.metrics.registry import (
    METRICS,
    NAMED_METRICS,
    metric_named,
    metrics_with_settings,
)
from ragmetrics_core.statistics.corrected_means import CorrectedMean
from ragmetrics_core.testing.metric_contract import MetricContract

FULL = Sample(
    id="s",
    question="q",
    contexts=["c0", "c1"],
    answer="a",
    reference="r",
    metadata={"own": [1]},
)

LEDGER = Ledger(
    calls=(
        EvidenceCall(kind="retrieval", items=["c1"]),
        EvidenceCall(kind="retrieval", items=["c0"]),
    )
)


def listed(question, verdict):
    return useful_list(question, [{"useful": verdict}] * len(chunks(question)))


class TestContextUtilization(MetricContract):
    reads = frozenset({"ledger"})

    def metric(self):
        return ContextUtilization()

    def good(self):
        return FULL, ScriptedJudge({Useful: useful(True, reason="holds it")})

    def bad(self):
        return FULL, ScriptedJudge({Useful: useful(False, reason="off topic")})


class TestListwiseUtilization(TestContextUtilization):
    def metric(self):
        return ContextUtilization(
            name="listed", judging="listwise", relevance="probability"
        )

    def good(self):
        return FULL, ScriptedJudge({Useful: lambda q: listed(q, True)})

    def bad(self):
        return FULL, ScriptedJudge({Useful: lambda q: listed(q, False)})


class TestContextAdherence(MetricContract):
    reads = frozenset({"question"})

    def metric(self):
        return ContextAdherence()

    def good(self):
        return FULL, ScriptedJudge(
            {Adherent: polls((poll("yes", "all claims found"),) * 5)}
        )

    def bad(self):
        return FULL, ScriptedJudge(
            {Adherent: polls((poll("no", "nothing found", ("a",)),) * 5)}
        )


WITH_LEDGER = Sample(
    **{**dict(FULL), "contexts": (), "history": [{"role": "user", "content": "hi"}]}
).model_copy(
    update={
        "ledger": Ledger(
            conversation="c",
            turn=2,
            calls=(
                EvidenceCall(kind="retrieval", items=["c0"], shown=[]),
                EvidenceCall(kind="tool", name="sql", items=["rows"], turn=2, step=1),
            ),
        )
    }
)


class TestLabelledAdherence(TestContextAdherence):
    """The same over a ledger: evidence of two turns, and no context."""

    def good(self):
        return WITH_LEDGER, ScriptedJudge(
            {RestsOn: {"reason": "r", "claims": [{"claim": "c", "needs": "earlier"}]}}
        )

    def bad(self):
        return WITH_LEDGER, ScriptedJudge(
            {RestsOn: {"reason": "r", "claims": [{"claim": "c", "needs": "own"}]}}
        )


class TestUtilizationWithLedger(TestContextUtilization):
    def good(self):
        sample, judge = super().good()
        return sample.model_copy(update={"ledger": LEDGER}), judge

    def bad(self):
        sample, judge = super().bad()
        return sample.model_copy(update={"ledger": LEDGER}), judge


class TestContextRecall(MetricContract):
    reads = frozenset({"question", "contexts"})

    def metric(self):
        return ContextRecall()

    def good(self):
        return FULL, ScriptedJudge({RateRecall: rating(1.0, "same")})

    def bad(self):
        return FULL, ScriptedJudge({RateRecall: rating(0.0, "unrelated")})


class TestRetrievalAccuracy(MetricContract):
    reads = frozenset({"question", "ledger"})
    sample = FULL

    def metric(self):
        return RetrievalAccuracy()

    def good(self):
        return self.sample, ScriptedJudge(
            {ExtractFacts: facts("f"), FactInContext: covered(1.0)}
        )

    def bad(self):
        return self.sample, ScriptedJudge(
            {ExtractFacts: facts("f"), FactInContext: covered(0.0)}
        )


class TestAccuracyWithLedger(TestRetrievalAccuracy):
    sample = FULL.model_copy(update={"ledger": LEDGER})


class TestContextSufficiency(MetricContract):
    # contexts may be none; with an answer it is asked whether that declines
    reads = frozenset({"contexts", "answer"})

    def metric(self):
        return ContextSufficiency()

    def good(self):
        return FULL, ScriptedJudge(
            {SufficientContexts: {"missing": []}, Declined: {"declined": 0}}
        )

    def bad(self):
        return FULL, ScriptedJudge(
            {SufficientContexts: {"missing": ["the year"]}, Declined: {"declined": 1}}
        )


class TestAnswerRelevance(MetricContract):
    def metric(self):
        return AnswerRelevance()

    def good(self):
        return FULL, ScriptedJudge(
            {Addresses: {"grade": 3, "reason": "all of it"}, Declined: {"declined": 0}}
        )

    def bad(self):
        return FULL, ScriptedJudge({Addresses: {"grade": 0}, Declined: {"declined": 0}})


CITING = FULL.model_copy(
    update={
        "answer": "Anna did [1].",
        "citations": citations_of_marks("Anna did [1].", {"1": 0}),
    }
)


class TestCitationQuality(MetricContract):
    reads = frozenset({"question", "contexts", "citations"})

    def metric(self):
        return CitationQuality()

    def good(self):
        return CITING, ScriptedJudge({Supports: {"supported": 1}})

    def bad(self):
        return CITING, ScriptedJudge({Supports: {"supported": 0}})


NEEDS = {
    "context_utilization": {"question", "contexts", "answer"},
    "context_adherence": {"contexts", "answer"},
    "context_recall": {"answer", "reference"},
    "retrieval_accuracy": {"reference", "contexts"},
}


@pytest.mark.parametrize(
    ("name", "field"),
    list(product(METRICS, ["question", "contexts", "answer", "reference"])),
)
@pytest.mark.parametrize("blank", ["missing", "blank", "whitespace"])
def test_every_metric_times_every_missing_field(name, field, blank):
    nothing = {"missing": None, "blank": "", "whitespace": " \n"}[blank]
    values = {
        "question": "Who?",
        "contexts": ["Ada did."],
        "answer": "Ada did.",
        "reference": "Ada did.",
    }
    sample = Sample(
        **values
        | {field: [nothing] if field == "contexts" and nothing is not None else nothing}
    )
    result = metric_named(name).score(sample, judge=LexicalJudge())
    is_known_to_be_empty = field == "contexts" and nothing is not None
    if field in NEEDS[name] and is_known_to_be_empty:
        assert (result.status, result.value) == ("scored", 0.0)
    elif field in NEEDS[name]:
        assert (result.status, result.value, result.usage.calls) == (
            "undefined",
            None,
            0,
        )
        assert result.reason.startswith(f"no {field}")
    else:
        assert result.status == "scored"
        assert 0 <= result.value <= 1


@pytest.mark.parametrize("name", NAMED_METRICS)
def test_a_failed_application_run_is_never_scored(name):
    result = metric_named(name).score(
        FULL.model_copy(update={"error": "boom"}), judge=listener()
    )
    assert (result.status, result.code) == ("undefined", "other")
    assert "error" in result.reason


@pytest.mark.parametrize("name", NAMED_METRICS)
def test_settings_are_checked_and_frozen(name):
    with pytest.raises(SettingError, match="sense"):
        metric_named(name, {"sense": 1})
    metric = metric_named(name)
    with pytest.raises(ValueError, match="frozen"):
        metric.name = "other"


@pytest.mark.parametrize("name", NAMED_METRICS)
def test_language_reaches_the_judge_and_the_signature(name):
    metric = metric_named(name, {"language": "German"})
    if not metric.asks_judge:
        return
    judge = listener()
    metric.score(CITING, judge=judge)
    assert judge.asked[0].instructions.language == "German"
    assert metric.signature != metric_named(name).signature


@pytest.mark.parametrize("name", NAMED_METRICS)
def test_model_is_not_part_of_the_signature(name):
    assert (
        metric_named(name, {"model": "gpt-4o-mini"}).signature
        == metric_named(name).signature
    )


SHOWN = {
    Useful: lambda question: chunks(question),
    Adherent: lambda question: question["contexts"],
    RateRecall: lambda question: question["contexts"],
    FactInContext: lambda question: (question["context"],),
}


@pytest.mark.parametrize(
    "metric",
    [
        *map(metric_named, METRICS),
        ContextUtilization(judging="listwise"),
        RetrievalAccuracy(calls="per_context"),
    ],
    ids=lambda metric: metric.signature,
)
def test_contexts_are_not_copied_on_their_way_to_the_judge(metric):
    row = {"question": "q", "answer": "a", "reference": "r", "facts": ["f", "g"]}
    sample = Sample(**row, contexts=[f"Context {number} " * 50 for number in range(3)])
    judge = listener()
    report = evaluate([sample], [metric], judge=judge)
    assert report.results[0].sample is sample
    shown = [
        text for question in judge.asked for text in SHOWN[type(question)](question)
    ]
    assert len(shown) >= 3
    assert {id(text) for text in shown} == {
        id(context.text) for context in sample.known_contexts
    }


def test_a_setting_may_be_called_name():
    (metric,) = metrics_with_settings(["adherence"], ["adherence.name=grounded"])
    assert metric.name == "grounded"


@pytest.mark.parametrize("name", ["utilization", "adherence", "recall", "sufficiency"])
def test_the_judge_is_shown_the_metadata_that_the_model_was_shown(name):
    shirts = [
        Context(
            text="A light shirt.",
            metadata={"price": price, "stock": 7},
            shown_metadata=("price",),
        )
        for price in (120, 80)
    ]
    judge = listener()
    metric_named(name).score(Sample(**dict(FULL) | {"contexts": shirts}), judge=judge)
    shown = [
        text
        for question in judge.asked
        for part in question.parts.values()
        for text in part.texts
    ]
    assert {f"price: {price}\nA light shirt." for price in (120, 80)} <= {*shown}


def test_each_context_with_metadata_has_its_verdict():
    shirts = [
        Context(
            text="A cotton shirt.", metadata={"price": n}, shown_metadata=("price",)
        )
        for n in (120, 80)
    ]
    asked = {"question": "Which shirt is light?", "answer": "The cotton shirt is."}
    sample = Sample(**asked, contexts=shirts)
    result = ContextUtilization().score(sample, judge=LexicalJudge())
    assert [chunk.useful is None for chunk in result.evidence.chunks] == [False, False]
    assert [chunk.duplicate_of for chunk in result.evidence.chunks] == [None, None]


@pytest.mark.parametrize("name", METRICS)
def test_history_and_rewrite_are_shown_to_the_judge(name):
    sample = Sample(
        **dict(FULL)
        | {
            "standalone_question": "Which q?",
            "history": [{"role": "user", "content": "hi"}],
        }
    )
    judge = listener()
    metric_named(name).score(sample, judge=judge)
    asked = judge.asked[0]
    part = asked.parts["question"]
    assert part.text == "q"
    if not isinstance(asked, ExtractFacts):
        assert part.rewrite == "Which q?"
        assert part.history[0].content == "hi"


@pytest.mark.parametrize(
    ("metric", "settings"),
    [
        (
            ContextUtilization(),
            {"against": "answer", "judging": "pointwise", "relevance": "binary"},
        ),
        (
            ContextUtilization(k=3, against="reference", judging="listwise"),
            {
                "against": "reference",
                "judging": "listwise",
                "relevance": "binary",
                "k": "3",
            },
        ),
        (
            ContextUtilization(relevance="probability", polls=7),
            {
                "against": "answer",
                "judging": "pointwise",
                "relevance": "probability",
                "fallback": "7",
            },
        ),
        (
            ContextUtilization(relevance="probability"),
            {
                "against": "answer",
                "judging": "pointwise",
                "relevance": "probability",
                "fallback": "5",
            },
        ),
        (ContextAdherence(), {"polls": "5", "T": "1.0"}),
        (
            ContextAdherence(polls=3, temperature=0.5, early_stop=True),
            {"polls": "3", "T": "0.5", "early_stop": "yes"},
        ),
        (
            RetrievalAccuracy(),
            {"extraction": "io", "calls": "per_fact", "fallback": "3"},
        ),
        (
            RetrievalAccuracy(extraction="cot", calls="per_context", polls=2),
            {"extraction": "cot", "calls": "per_context", "fallback": "2"},
        ),
        (CitationQuality(), {"fallback": "3"}),
        (
            CitationQuality(required=True, polls=5, numbered_from=0),
            {"fallback": "5", "required": "yes", "numbered_from": "0"},
        ),
    ],
)
def test_the_signature_names_the_settings_that_change_scores(metric, settings):
    assert metric.signature.settings == settings


def test_each_answer_of_a_script_counts_as_one_call_also_one_that_fails():
    judge = ScriptedJudge(
        {Useful: lambda question: {"useful": 1 if question["chunk"] == "c0" else "?"}}
    )
    judged = ContextUtilization().score(
        question="q", answer="a", contexts=["c0"], judge=judge
    )
    assert (judged.judge, judged.usage.calls, len(judge.asked)) == ("scripted", 1, 1)
    failed = ContextUtilization().score(
        question="q", answer="a", contexts=["c1"], judge=judge
    )
    assert (failed.status, failed.usage.calls) == ("failed", 1)


EVIDENCE = [
    AdherenceEvidence,
    UtilizationEvidence,
    RecallEvidence,
    AccuracyEvidence,
    SufficiencyEvidence,
    RelevanceEvidence,
    CitationEvidence,
    JudgedCitation,
    JudgedStatement,
    SentenceSupport,
]


@pytest.mark.parametrize("model", [*EVIDENCE, CorrectedMean, *NAMED_METRICS.values()])
def test_help_explains_every_field(model):
    docstrings = "\n".join(
        inspect.cleandoc(kind.__doc__ or "") for kind in model.__mro__
    )
    explained = re.findall(r"^    (\w+): \S", docstrings, re.MULTILINE)
    assert set(model.model_fields) - {"kind", "name"} <= set(explained)


def test_prompts_that_are_divided_elsewhere_have_another_digest():
    assert digest_of_prompt("a", "b") != digest_of_prompt("ab", "")
    assert len(digest_of_prompt("a", "b")) == 6
