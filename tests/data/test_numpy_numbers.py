"""Numbers and truth values of numpy count as Python's: returned by metrics, in rows, labels, replies and statistics."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from judge_replies import rating

from ragmetrics_core import (
    ContextRecall,
    ContextUtilization,
    Metric,
    Sample,
    ScriptedJudge,
    metric,
)
from ragmetrics_core.data.results import Scored
from ragmetrics_core.labelling.labels import votes_of
from ragmetrics_core.metrics.context_recall import RateRecall
from ragmetrics_core.metrics.context_utilization import (
    Useful,
    expected_average_precision,
)
from ragmetrics_core.metrics.retrieval_ranking import average_precision
from ragmetrics_core.statistics import (
    corrected_means,
    means,
    rater_agreement,
)

NUMBERS = [
    np.bool_(True),
    np.bool_(False),
    np.int64(1),
    np.float16(0.5),
    np.float32(0.5),
    np.float64(0.5),
    np.array(1),
]


@pytest.mark.parametrize("number", NUMBERS, ids=repr)
@pytest.mark.parametrize("plan", [False, True])
def test_an_own_metric_may_return_any_of_them(number, plan):
    def function(sample: Sample) -> Any:
        return number

    def generator(sample: Sample) -> Any:
        yield from ()
        return number

    class Own(Metric):
        name: str = "own"

        def plan(self, sample: Sample) -> Any:
            yield from ()
            return self.scored(number, "r")

    of_function = metric(name="own")(generator if plan else function).score(answer="a")
    for result in (
        of_function,
        Own().score(answer="a"),
        Scored(metric="own", reason="r", value=number),
    ):
        assert (result.status, result.value, type(result.value)) == (
            "scored",
            float(number),
            float,
        )
    assert of_function.reason == f"own of this sample is {number.tolist()}."


@pytest.mark.parametrize(
    "given_",
    [
        np.array([0.5]),
        np.array([0.2, 0.4]),
        np.float32(1.5),
        np.float32("nan"),
        np.str_("1"),
    ],
)
def test_what_is_no_number_in_the_range_still_fails(given_):
    result = metric(name="own")(lambda _: given_).score(answer="a")
    assert (result.status, result.value) == ("failed", None)
    assert result.reason.startswith("own ")


def test_in_rows():
    row = {
        "question": "q",
        "contexts": [{"text": "c", "score": np.float32(0.5)}],
        "id": np.int64(3),
        "answer": np.float32(0.1),
        "reference": np.float32(2.5),
        "error": np.bool_(False),
        "facts": [{"text": "f", "weight": np.float32(2)}],
    }
    sample = Sample.from_row(row)
    assert (sample.id, sample.reference, sample.error) == ("3", ("2.5",), None)
    assert sample.answer == "0.1"
    assert sample.contexts[0].score == 0.5
    assert sample.facts[0].weight == 2.0


@pytest.mark.parametrize(
    ("label", "votes"),
    [
        (np.bool_(True), (True,)),
        (np.float32(0.4), (False,)),
        (0.5, (False,)),
        ([np.bool_(True), np.float64(0.2), 1], (True, False, True)),
        (np.array([True, False]), (True, False)),
        (np.array([0.2, 0.9]), (False, True)),
    ],
)
def test_in_labels(label, votes):
    found = votes_of(label, "label")
    assert found == votes
    assert {type(vote) for vote in found} == {bool}


def test_in_replies():
    useful = ScriptedJudge({Useful: lambda _: {"useful": np.bool_(True)}})
    assert (
        ContextUtilization()
        .score(question="q", answer="a", contexts=["c"], judge=useful)
        .value
        == 1.0
    )
    rated = ScriptedJudge({RateRecall: lambda _: rating(np.float32(0.5))})
    assert ContextRecall().score(answer="a", reference="r", judge=rated).value == 0.5
    no_rating = ScriptedJudge({RateRecall: lambda _: {"score": np.bool_(True)}})
    # as Python's True
    assert (
        ContextRecall().score(answer="a", reference="r", judge=no_rating).status
        == "failed"
    )


def _ppi(labels: Any, scores: Any) -> Any:
    keys = [-1] * len(scores)
    return corrected_means.ppi(
        labels,
        corrected_means.Scores(scores, keys),
        corrected_means.Scores(scores, keys),
    )


STATISTICS: dict[str, Callable[[Any, Any], Any]] = {
    "mean": lambda scores, _: means.mean(scores),
    "median": lambda scores, _: means.median(scores),
    "sd": lambda scores, _: means.sd(scores),
    "mean interval": lambda scores, _: means.mean_interval(scores),
    "mean interval of verdicts": lambda _, labels: means.mean_interval(labels),
    "difference": lambda scores, _: means.difference_interval(scores),
    "permutation": lambda scores, _: means.permutation(scores, [-1] * len(scores)),
    "holm": lambda scores, _: means.holm(scores),
    "ppi": lambda scores, labels: _ppi(labels, scores),
    "calibration error": lambda scores, labels: rater_agreement.calibration_error(
        list(zip(scores, labels, strict=True)) * 100
    ),
    **{
        name: lambda scores, labels, of=of: of(list(zip(scores, labels, strict=True)))
        for name, of in (
            ("AUROC", rater_agreement.auroc),
            ("Brier", rater_agreement.brier),
            ("error", rater_agreement.mean_error),
        )
    },
    **{
        f"{of.__name__} of verdicts": lambda _, labels, of=of: of(
            list(zip(labels, labels[::-1], strict=True))
        )
        for of in (
            rater_agreement.accuracy,
            rater_agreement.balanced_accuracy,
            rater_agreement.f1,
            rater_agreement.matthews,
            rater_agreement.kappa,
            rater_agreement.brier,
            rater_agreement.mean_error,
            rater_agreement.spearman,
        )
    },
    "average precision": lambda _, labels: average_precision(labels),
    "expected average precision": lambda scores, _: expected_average_precision(scores),
}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", STATISTICS)
def test_statistics_are_the_same_and_are_pythons_numbers(name, seed):
    chance = random.Random(seed)
    scores = chance.choices([0.0, 0.25, 0.5, 1.0], k=13)
    labels = chance.choices([True, False], k=13)
    expected = STATISTICS[name](scores, labels)
    for kind in (np.float64, np.float32):
        arrays = np.array(scores, dtype=kind), np.array(labels)
        assert STATISTICS[name](list(arrays[0]), list(arrays[1])) == expected
        assert STATISTICS[name](*arrays) == expected
    assert "np." not in repr(STATISTICS[name](*arrays))
