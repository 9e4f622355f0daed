"""The report: everything a run measured, row by row, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.reporting.comparison import MARGIN, Comparison
from ragmetrics_core.reporting.figures import box_plot, histogram
from ragmetrics_core.reporting.jsonl import JsonlWriter, read_report, write_report
from ragmetrics_core.reporting.methods import paragraphs
from ragmetrics_core.reporting.run_facts import RunFacts
from ragmetrics_core.reporting.summary import RiskThresholds, Summary, summarise, total_usage
from ragmetrics_core.reporting.tables import data_frame, html_table, text_table, write_parquet
from ragmetrics_core.statistics.clusters import ClusterBy

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["JsonlWriter", "Report", "RunFacts"]


class Report:
    """Everything a run measured. Reports with equal results and facts are equal.

    Args:
        results: One result per row of the input; they are put in input order.
        run: Facts of the run as a whole.

    Example:
        >>> from ragmetrics_core.data.results import Scored
        >>> from ragmetrics_core.data.sample import Sample
        >>> scored = Scored(metric="context_recall", reason="", value=0.25)
        >>> Report([SampleResult(index=0, sample=Sample(), results={"context_recall": scored})])
        Report(1 row, 1 judged: context_recall)
    """

    def __init__(self, results: Iterable[SampleResult], run: RunFacts | None = None) -> None:
        self._results = tuple(sorted(results, key=lambda row: row.index))
        self._run = run or RunFacts()

    @property
    def results(self) -> tuple[SampleResult, ...]:
        """One result per row, in input order."""
        return self._results

    @property
    def run(self) -> RunFacts:
        """Facts of the run as a whole."""
        return self._run

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics: those of the run's facts, then others that the results hold."""
        held = (name for row in self._results for name in row.results)
        return tuple(dict.fromkeys([*self._run.metrics, *held]))

    @property
    def usage(self) -> Usage:
        """What all results cost together; the cost is None if any part of it is unknown."""
        return total_usage(self._results)

    def summary(self, thresholds: RiskThresholds | None = None, *, cluster: ClusterBy = "auto") -> Summary:
        """The run in numbers, with the signs of high risk.

        Args:
            thresholds: When a number counts as a sign; None for the defaults.
            cluster: Which samples belong together: a name or dotted path in a sample's metadata, a callable that
                gets the sample, or None. ``"auto"`` takes the conversation or source document where the metadata
                name one.
        """
        return summarise(
            self._results,
            self.metrics,
            thresholds=thresholds or RiskThresholds(),
            cluster=cluster,
            stopped=self._run.ended_early,
        )

    def scores(self, metric: str) -> list[float | None]:
        """Scores of one metric, aligned with ``results``.

        Args:
            metric: Name of the metric.

        Returns:
            A score in [0, 1] per row; None where there is none: undefined, failed, not judged, bad row.

        Raises:
            SettingError: If the report has no such metric.
        """
        if metric not in self.metrics:
            raise SettingError(f"no metric {metric!r} in this report; it has: {', '.join(self.metrics) or 'none'}")
        found = (row.results.get(metric) for row in self._results)
        return [result.value if result else None for result in found]

    def to_jsonl(self, path: str | Path) -> None:
        """Write the report as JSON lines; texts of the samples are in it.

        Args:
            path: The file to write; an existing one is replaced. Metadata that JSON cannot hold is written as
                text, NaN as null.

        Raises:
            InputError: If the file cannot be written.
        """
        write_report(path, self._run, self._results)

    @classmethod
    def from_jsonl(cls, path: str | Path) -> Report:
        """Read a report that ``to_jsonl`` or ``JsonlWriter`` wrote.

        Args:
            path: The file. Fields that a newer version added are ignored; a last line that a crash cut off
                is left out and named in ``run.notes``.

        Raises:
            InputError: If the file is no report or a line is broken; the message names the line.
        """
        run, results = read_report(path)
        return cls(results, run)

    def to_pandas(self) -> pd.DataFrame:
        """One row per row of the input, a score, status and reason per metric, calls and cost.

        Raises:
            MissingDependency: If pandas is not installed.
        """
        return data_frame(self._results, self.metrics)

    def to_html(self, path: str | Path, *, cluster: ClusterBy = "auto") -> None:
        """Write the report as one HTML page that opens offline; texts of the samples are in it.

        Args:
            path: The file to write; an existing one is replaced. Texts over 20 kB are cut with a note.
            cluster: Which samples belong together, as in ``summary``.

        Raises:
            MissingDependency: If Jinja2 or matplotlib is not installed.
            InputError: If the file cannot be written.
        """
        from ragmetrics_core.page.render import write_page  # only where a page is written

        write_page(path, self._results, self.summary(cluster=cluster), self._run)

    def to_parquet(self, path: str | Path) -> None:
        """Write the table of ``to_pandas`` as Parquet.

        Raises:
            MissingDependency: If pandas or pyarrow is not installed.
            InputError: If the file cannot be written.
        """
        write_parquet(path, self.to_pandas())

    def plot_histogram(self, metric: str) -> Figure:
        """A histogram of one metric's scores with ten bins on [0, 1], as a matplotlib figure.

        Raises:
            SettingError: If the report has no such metric.
            MissingDependency: If matplotlib is not installed.
        """
        return histogram(metric, self._scored(metric))

    def plot_box(self) -> Figure:
        """A box plot per metric, as one matplotlib figure.

        Raises:
            MissingDependency: If matplotlib is not installed.
        """
        return box_plot({metric: self._scored(metric) for metric in self.metrics})

    def methods(self) -> str:
        """The methods paragraph: what was measured, how, by which judge, with references."""
        return "\n\n".join(paragraphs(self.summary(), self._run))

    def compare(
        self,
        other: Report,
        *,
        metrics: Sequence[str] | None = None,
        cluster: ClusterBy = "auto",
        slices: ClusterBy = None,
        margin: float = MARGIN,
        anyway: bool = False,
    ) -> Comparison:
        """Compare another run over the same samples with this one; see ``compare.compare``.

        Args:
            other: The run in question; differences are ``other`` − ``self``.
            metrics: Names of metrics; None for all that both runs have.
            cluster: Which samples belong together, as in ``summary``.
            slices: What splits the samples into slices that are tested, too.
            margin: Differences up to this do not matter.
            anyway: Compare runs that were not measured in the same way.

        Raises:
            InputError: If no sample is in both runs, or the runs are not comparable.
            SettingError: If a metric is not in both runs.
        """
        from ragmetrics_core.reporting.compare import compare  # only where runs are compared

        return compare(
            self, other, metrics=metrics, cluster=cluster, slices=slices, margin=margin, anyway=anyway
        )  # fmt: skip

    def _scored(self, metric: str) -> list[float]:
        return [value for value in self.scores(metric) if value is not None]

    def table(self) -> str:
        """The metrics as a plain-text table of at most 80 columns."""
        return text_table(self.summary(), self._run)

    def _repr_html_(self) -> str:
        return html_table(self.summary(), self._run)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Report):
            return NotImplemented
        return (self._results, self._run) == (other._results, other._run)

    def __repr__(self) -> str:
        judged = sum(bool(row.results) for row in self._results)
        rows = "1 row" if len(self._results) == 1 else f"{len(self._results)} rows"
        return f"Report({rows}, {judged} judged: {', '.join(self.metrics) or 'no metric'})"
