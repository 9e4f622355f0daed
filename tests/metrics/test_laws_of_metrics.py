"""Laws of the metrics and of what runs write: permutation, monotonicity, range; one result however a run is divided."""

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judge_replies import rating
from lanes import examples

from ragmetrics_core import (
    Context,
    ContextAdherence,
    ContextRecall,
    ContextUtilization,
    Metric,
    Report,
    RetrievalAccuracy,
    Sample,
    ScriptedJudge,
)
from ragmetrics_core.data import Part
from ragmetrics_core.data.results import (
    ErrorInfo,
    Failed,
    SampleResult,
    Scored,
    Undefined,
)
from ragmetrics_core.judging.reading import read
from ragmetrics_core.judging.rendering import render
from ragmetrics_core.metrics.context_recall import BANDS, RateRecall, band_of
from ragmetrics_core.metrics.context_utilization import (
    Useful,
    expected_average_precision,
)
from ragmetrics_core.metrics.fact_matrix import (
    ExtractFacts,
    FactInContext,
    Facts,
    ReasonedFacts,
)
from ragmetrics_core.metrics.polls import Adherent
from ragmetrics_core.metrics.retrieval_ranking import average_precision
from ragmetrics_core.models.chat import Choice
from ragmetrics_core.reporting.run_facts import RunFacts

FEW_EXAMPLES = settings(max_examples=examples(15), deadline=None)
WORDS = st.text("abcdefg ", min_size=1, max_size=12).filter(str.strip)
VERDICTS = st.lists(st.booleans(), min_size=1, max_size=7)


def _weight(text: str) -> int:
    return sum(map(ord, text))


def replies() -> ScriptedJudge:
    """A judge whose every reply depends on the texts alone."""
    return ScriptedJudge(
        {
            Useful: lambda asked: {"useful": _weight(asked["chunk"]) % 2},
            Adherent: lambda asked: {
                "claims": 1,
                "unsupported": [] if _weight(asked["answer"]) % 3 else ["it"],
                "reason": "because",
            },
            RateRecall: lambda asked: rating(
                _weight(asked["reference"] + asked["answer"]) % 11 / 10
            ),
            ExtractFacts: lambda asked: {"facts": asked["reference"].split()},
            FactInContext: lambda asked: {
                "covered": _weight(asked["fact"] + asked["context"]) % 2
            },
        }
    )


METRICS: list[Metric] = [
    ContextUtilization(),
    ContextAdherence(cause=False),
    ContextRecall(),
    RetrievalAccuracy(),
]

SAMPLES = st.builds(
    lambda question, contexts, answer, reference, facts: Sample(
        question=question,
        contexts=contexts,
        answer=answer,
        reference=reference,
        facts=[{"text": own} for own in facts],
    ),
    st.none() | WORDS,
    st.lists(WORDS, max_size=4),
    st.none() | WORDS,
    st.lists(WORDS, max_size=2),
    st.lists(WORDS, max_size=3),
)


# Average precision.


@FEW_EXAMPLES
@given(VERDICTS)
def test_a_useful_chunk_that_moves_up_never_lowers_the_score(verdicts):
    for place in range(1, len(verdicts)):
        if verdicts[place] and not verdicts[place - 1]:
            better = [*verdicts[: place - 1], True, False, *verdicts[place + 1 :]]
            assert average_precision(better) > average_precision(verdicts)


@FEW_EXAMPLES
@given(VERDICTS)
def test_noise_behind_the_last_useful_chunk_changes_no_score(verdicts):
    longer = [*verdicts, False]
    assert average_precision(longer) == average_precision(verdicts)
    assert expected_average_precision(longer) == pytest.approx(
        average_precision(verdicts)
    )


# Metrics.


@FEW_EXAMPLES
@given(SAMPLES)
@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_every_outcome_is_a_score_in_range_or_says_why_not(metric, sample):
    result = metric.score(sample, judge=replies())
    assert (result.value is None) == (result.status != "scored")
    assert result.value is None or 0 <= result.value <= 1
    assert result.reason or result.status == "scored"
    assert result.status != "failed"


@FEW_EXAMPLES
@given(
    st.lists(WORDS, min_size=1, max_size=5, unique=True),
    st.randoms(use_true_random=False),
)
def test_permuting_the_contexts_permutes_the_verdicts(texts, chance):
    shuffled = chance.sample(texts, len(texts))
    by_text = []
    for contexts in (texts, shuffled):
        result = ContextUtilization().score(
            question="q", answer="a", contexts=contexts, judge=replies()
        )
        verdicts = [chunk.useful for chunk in result.evidence.chunks]  # type: ignore[union-attr]
        assert result.value == pytest.approx(
            average_precision([bool(own) for own in verdicts])
        )
        by_text.append(dict(zip(contexts, verdicts, strict=True)))
    assert by_text[0] == by_text[1]
    facts = ["one", "two", "four"]
    scores = {
        RetrievalAccuracy().score(contexts=own, facts=facts, judge=replies()).value
        for own in (texts, shuffled)
    }
    assert len(scores) == 1


@FEW_EXAMPLES
@given(st.lists(WORDS, min_size=1, max_size=4), WORDS)
def test_one_more_context_never_covers_fewer_facts(texts, more):
    metric, facts = RetrievalAccuracy(), ["one", "two", "four"]
    before, after = (
        metric.score(contexts=own, facts=facts, judge=replies()).value
        for own in (texts, [*texts, more])
    )
    assert before is not None
    assert after is not None
    assert after >= before


@FEW_EXAMPLES
@given(st.floats(0, 1))
def test_every_score_lies_in_one_band(score):
    holding = [name for name, low, high in BANDS if low <= score <= high]
    assert holding == [band_of(score)]


@FEW_EXAMPLES
@given(SAMPLES)
@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_equal_samples_lead_to_equal_prompts(metric, sample):
    prompts = []
    for own in (sample, Sample.model_validate_json(sample.model_dump_json())):
        judge = replies()
        metric.score(own, judge=judge)
        prompts.append([render(question) for question in judge.asked])
    assert prompts[0] == prompts[1]


@FEW_EXAMPLES
@given(SAMPLES)
@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_usual_reply_that_a_model_writes_is_read_as_itself(metric, sample):
    judge = replies()
    metric.score(sample, judge=judge)
    for question in judge.asked:
        reply = question.example_reply()
        if reply is not None:
            if isinstance(reply, (Facts, ReasonedFacts)):  # of a length, in no words
                told = Part("Reference answer", " ".join(reply.facts))
                question = replace(
                    question, parts={**question.parts, "reference": told}
                )
            fields = json.loads(reply.model_dump_json(exclude_none=True))
            for text in (
                json.dumps(fields),
                f"So:\n```json\n{json.dumps(fields, indent=1)}\n```\n",
            ):
                found = read(Choice(text), question)
                assert json.loads(text[found.start : found.end]) == fields
                assert (
                    found.value.model_dump()
                    == question.read(reply.model_dump()).model_dump()
                )


# Results files.


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
WEIRD = st.sampled_from(
    ["\u2028", "\x85\x0c", "\x00", '"\\n\n\r\n', "👩‍👩‍👧", "\ud800", "א‮b", "{", ""]
)
TEXT = st.text() | WEIRD | st.tuples(st.text(), WEIRD).map("".join)
CONTEXTS = st.lists(st.builds(Context, text=TEXT, id=st.none() | st.text()), max_size=2)
ERRORS = st.builds(ErrorInfo, type=st.just("UnusableReply"), message=st.text())
CODES = st.sampled_from(["missing", "declined", "other"])
RESULTS = st.one_of(
    st.builds(Scored, metric=st.just("m"), reason=TEXT, value=st.floats(0, 1)),
    st.builds(Undefined, metric=st.just("m"), reason=st.text(), code=CODES),
    st.builds(Failed, metric=st.just("m"), reason=st.text(), error=ERRORS),
)


@st.composite
def reports(draw: st.DrawFn) -> Report:
    """Reports with any texts, metadata and outcomes."""
    rows = []
    for index in range(draw(st.integers(0, 4))):
        sample = Sample(
            question=draw(st.none() | TEXT),
            answer=draw(st.none() | TEXT),
            contexts=draw(CONTEXTS),
            retrieved=draw(st.none() | CONTEXTS),
            reference=draw(st.lists(TEXT, max_size=2)),
            id=draw(st.none() | st.text()),
            metadata=draw(st.dictionaries(st.text(max_size=5), JSON, max_size=3)),
        )
        results = draw(st.dictionaries(st.just("m"), RESULTS))
        bad = draw(st.booleans()) and not results
        rows.append(
            SampleResult(index=index, sample=None, problem="no object")
            if bad
            else SampleResult(index=index, sample=sample, results=results)
        )
    return Report(rows, RunFacts(metrics={"m": "m|v1"}, judges=("scripted",)))


def _check_that_a_file_read_and_written_again_is_the_same(report: Report) -> None:
    with TemporaryDirectory() as folder:
        first, second = Path(folder, "first.jsonl"), Path(folder, "second.jsonl")
        report.to_jsonl(first)
        read = Report.from_jsonl(first)
        read.to_jsonl(second)
        assert first.read_bytes() == second.read_bytes()
        assert Report.from_jsonl(second) == read
        assert read.scores("m") == report.scores("m")
        assert read.summary() == report.summary()


@settings(max_examples=examples(12), deadline=None)
@given(reports())
def test_a_results_file_that_is_read_and_written_again_is_the_same(report):
    _check_that_a_file_read_and_written_again_is_the_same(report)


@pytest.mark.nightly
@settings(max_examples=examples(200), deadline=None)
@given(reports())
def test_many_results_files_that_are_read_and_written_again_are_the_same(report):
    _check_that_a_file_read_and_written_again_is_the_same(report)
