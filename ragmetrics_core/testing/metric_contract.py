"""The contract that every metric keeps.

Subclass it in a test module to check a metric of your own.
"""

import asyncio
from typing import ClassVar

from pydantic import TypeAdapter

from ragmetrics_core.data import Ledger, MetricResult, Sample
from ragmetrics_core.judging.judge import Judge, ScriptedJudge
from ragmetrics_core.metrics.metric import Metric, Outcome


class MetricContract:
    """Tests that hold for every metric.

    Subclass it as ``class TestMyMetric(MetricContract)`` and implement ``metric``,
    ``good`` and ``bad``. ``metric`` is the metric, e.g. ``metric = politeness``, or a
    method that returns it. ``reads`` names the fields of the sample that the metric may
    read beyond those it requires.
    """

    reads: ClassVar[frozenset[str]] = frozenset()

    def metric(self) -> Metric:
        """Return the metric."""
        raise AssertionError("implement metric()")

    def _the_metric(self) -> Metric:
        """The metric, which a subclass names as an attribute or returns by a method."""
        named: object = self.metric
        made: object = named if isinstance(named, Metric) else self.metric()
        assert isinstance(made, Metric), (
            "metric is the metric itself, or a method that returns it; got"
            f" {type(made).__name__}"
        )
        return made

    def good(self) -> tuple[Sample, Judge]:
        """Return a sample and a judge that lead to the best score."""
        raise AssertionError("implement good()")

    def bad(self) -> tuple[Sample, Judge]:
        """Return a sample and a judge that lead to the worst score."""
        raise AssertionError("implement bad()")

    def outcome(self, sample: Sample, judge: Judge) -> Outcome:
        """Score a sample."""
        return self._the_metric().score(sample, judge=judge)

    def test_range_and_direction(self) -> None:
        """The best score is 1, the worst 0, and each says why."""
        best = self.outcome(*self.good())
        worst = self.outcome(*self.bad())
        assert (best.status, best.value) == ("scored", 1.0), (
            f"good() must be scored 1.0: it is {best.status}, {best.reason}"
        )
        assert (worst.status, worst.value) == ("scored", 0.0), (
            f"bad() must be scored 0.0: it is {worst.status}, {worst.reason}"
        )
        assert best.reason, "give the best score a reason"
        assert worst.reason, "give the worst score a reason"
        assert best.evidence is not None, (
            "give Scored its evidence: the verdicts that the score was made of"
        )

    def test_each_missing_field_is_undefined_without_a_call(self) -> None:
        """Without what it requires the metric is undefined, and asks nothing.

        ``needs`` lists groups of fields, such as ``(("contexts", "retrieved"),)``. A
        sample must have at least one field of each group. So the test empties all
        fields of one group at a time.
        """
        sample, _ = self.good()
        needs = self._the_metric().needs
        assert needs, "say in requires= which fields the metric needs"
        for group in needs:
            silent_judge = ScriptedJudge({})
            empty_fields = {field: getattr(Sample(), field) for field in group}
            outcome = self.outcome(sample.model_copy(update=empty_fields), silent_judge)
            names = " and ".join(group)
            assert outcome.status == "undefined", (
                f"without {names} the score must be undefined, not {outcome.status}"
            )
            assert outcome.value is None, f"without {names} there must be no value"
            assert outcome.reason, f"without {names} there must be a reason"
            assert silent_judge.asked == [], f"ask nothing without {names}"
            assert outcome.usage.calls == 0, f"call nothing without {names}"

    def test_an_unanswered_question_fails(self) -> None:
        """A judge that does not answer leads to ``failed``, never to a number."""
        sample, _ = self.good()
        outcome = self.outcome(sample, ScriptedJudge({}))
        assert outcome.status == "failed", (
            "without an answer of the judge the score must be failed, not"
            f" {outcome.status}: read asked.reply, which raises the judge's error"
        )
        assert outcome.value is None, "without an answer there must be no value"
        assert outcome.error.type == "QuestionNotSupported", (
            f"hand on the judge's own error, got {outcome.error.type}"
        )

    def test_equal_replies_give_equal_results(self) -> None:
        """The same replies give the same result, in every field."""
        for make in (self.good, self.bad):
            assert self.outcome(*make()) == self.outcome(*make()), (
                "equal replies gave other results: use no clock, chance or memory"
            )

    def test_reads_nothing_else(self) -> None:
        """Fields that the metric does not declare to read do not change its result.

        ``good`` gives a sample that the metric scores, and a judge that can answer the
        metric's questions. ``needs`` and ``reads`` declare the fields that are read.
        """
        required_fields = set().union(*self._the_metric().needs)
        ledger = Ledger.model_validate(
            {"calls": [{"kind": "tool", "items": ["other"]}]}
        )
        other_values: dict[str, object] = {
            "question": "other?",
            "answer": "other",
            "generator": "x",
            "reference": ("other",),
            "metadata": {"a": 1},
            "ledger": ledger,
        }
        for field in sorted(other_values.keys() - required_fields - self.reads):
            sample, judge = self.good()
            _, equal_judge = self.good()  # a judge may remember what it was asked
            changed = sample.model_copy(update={field: other_values[field]})
            outcome = self.outcome(changed, equal_judge)
            assert outcome == self.outcome(sample, judge), (
                f"another {field} changed the result: name it in requires= of the"
                " metric, or in reads of this class"
            )

    def test_input_is_untouched(self) -> None:
        """Scoring changes neither the sample nor the metric."""
        sample, judge = self.good()
        metric = self._the_metric()
        before = (sample.model_dump_json(), metric.model_dump_json())
        metric.score(sample, judge=judge)
        assert (sample.model_dump_json(), metric.model_dump_json()) == before, (
            "scoring changed the sample or the metric: change neither"
        )

    def test_sync_equals_async(self) -> None:
        """``score`` and ``ascore`` give the same result."""
        sample, judge = self.good()
        _, equal_judge = self.good()
        outcome = asyncio.run(self._the_metric().ascore(sample, judge=judge))
        assert outcome == self.outcome(sample, equal_judge), (
            "ascore() and score() gave other results: override neither"
        )

    def test_result_survives_json(self) -> None:
        """A result read back from JSON is equal, evidence included."""
        adapter: TypeAdapter[MetricResult] = TypeAdapter(MetricResult)
        for make in (self.good, self.bad):
            outcome = self.outcome(*make())
            read_back = adapter.validate_json(adapter.dump_json(outcome))
            assert read_back == outcome, (
                "a result read back from JSON is another one: give the evidence fields"
                " of plain types"
            )

    def test_settings_survive_json(self) -> None:
        """The metric can be written down and read back with the same signature."""
        metric = self._the_metric()
        again = type(metric).model_validate_json(metric.model_dump_json())
        assert again == metric, "settings read back from JSON are others"
        assert again.signature == metric.signature, (
            "settings read back from JSON have another signature"
        )
