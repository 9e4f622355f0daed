"""The report: everything a run measured, row by row, and what follows from it."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from heapq import nsmallest
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Unpack, cast, overload

from ragmetrics_core.data import (
    Columns,
    MetricResult,
    SampleResult,
    SettingError,
    Usage,
    as_input_error,
    columns_by_field,
    find_metric,
    import_deferred,
    import_extra,
    write_text,
)
from ragmetrics_core.data.display import count_in_words
from ragmetrics_core.data.files import whole_file
from ragmetrics_core.data.frozen import check_number
from ragmetrics_core.data.results import signature_part
from ragmetrics_core.reporting.answering import Answering, count_answering
from ragmetrics_core.reporting.comparison import compare
from ragmetrics_core.reporting.diagnosis import Diagnosis, diagnose
from ragmetrics_core.reporting.groups import GroupBy
from ragmetrics_core.reporting.jsonl import JsonlWriter, facts_of_rows, read_report
from ragmetrics_core.reporting.run_facts import Decision, RunFacts
from ragmetrics_core.reporting.summary import MetricSummary, Summary, Tally
from ragmetrics_core.reporting.tables import (
    csv_text,
    data_frame,
    html_screen,
    text_table,
)
from ragmetrics_core.reporting.what_if import WhatIf, what_if

if TYPE_CHECKING:
    import pandas as pd

    from ragmetrics_core.metrics.registry import MetricLike
    from ragmetrics_core.reporting.glance import Glance
    from ragmetrics_core.reporting.journey import Journey


class Sink(Protocol):
    """Where results go, one after another."""

    @abstractmethod
    def write(self, result: SampleResult) -> None:
        """Take one result."""

    def flush(self) -> None:
        """Return when all that was written has arrived; most keep nothing back."""


def check_sink(sink: object) -> None:
    """Raise ``SettingError`` for an object to which no result can be written."""
    methods = [getattr(sink, name, None) for name in ("write", "flush")]
    are_plain = all(
        callable(method) and not inspect.iscoroutinefunction(method)
        for method in methods
    )
    if isinstance(sink, type) or not are_plain:
        kind = "class" if isinstance(sink, type) else type(sink).__name__
        raise SettingError(
            "a sink is an object with plain methods write(result) and flush(), e.g."
            f" JsonlSink('scores.jsonl'); got a {kind}"
        )


@dataclass(init=False, repr=False)
class Report:
    """Everything a run measured. Reports with equal results and facts are equal.

    Args:
        results: One result per row of the input; they are put in input order.
        run: Facts of the run as a whole.

    Examples:
        >>> from ragmetrics_core.data import Sample, Scored
        >>> scored = Scored(metric="context_recall", reason="", value=0.25)
        >>> Report([SampleResult(index=0, sample=Sample(), results={"context_recall": scored})])
        Report(1 row, 1 judged: context_recall)
    """

    results: Sequence[SampleResult]
    run: RunFacts
    compare = compare

    def __init__(
        self, results: Iterable[SampleResult], run: RunFacts | None = None
    ) -> None:
        self.results = tuple(sorted(results, key=lambda row: row.index))
        self.run = run or RunFacts()

    @property
    def why_part(self) -> str:
        """Why its rows are no more than a part of its samples; "" if they are all.

        Gates on a run that judges them once more are then undecided.
        """
        return self.run.why_part

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics.

        Those of the run's facts come first, then others that the results hold.
        """
        of_rows = chain.from_iterable(row.results for row in self.results)
        return tuple(dict.fromkeys((*self.run.metrics, *of_rows)))

    @property
    def usage(self) -> Usage:
        """What all results cost together.

        The cost is None if any part of it is unknown.
        """
        return sum((row.usage for row in self.results), Usage())

    def summary(
        self,
        *,
        cluster: GroupBy = "auto",
        slices: Iterable[str] = (),
    ) -> Summary:
        """The run in numbers, with the signs of high risk: ``print(*summary.risks)``.

        Args:
            cluster: Which samples belong together: a name or dotted path in a sample's
                metadata, or None; ``"auto"``: the conversation, else the source
                document, where known, else the question.
            slices: Keys of the metadata. The rows with each value of such a key are
                summed up by themselves as well.
        """
        tally = Tally(self.metrics, cluster=cluster, slices=slices)
        for row in self.results:
            tally.add(row)
        return tally.summary(run=self.run)

    def journey(self) -> Journey:
        """Where passages and facts were lost on the way into the answers.

        No judge is asked: it is read from what was recorded and judged.

        Returns:
            What each stage lost, with intervals, and what is not known;
            ``journey_of(row)`` follows a single row.

        Examples:
            >>> from ragmetrics_core.data import Sample
            >>> sample = Sample(question="Who?", retrieved=["Anna.", "Bo."], contexts=["Anna."])
            >>> report = Report([SampleResult(index=0, sample=sample, results={})])
            >>> report.journey().of("not_shown").lost
            1
        """
        # few runs ask for it, and its modules would be a tenth of what a run loads
        from ragmetrics_core.reporting.journey import journey

        return journey(self.results)

    @property
    def faults(self) -> tuple[Diagnosis, ...]:
        """What became of each row, and at which stage it went wrong, in input order.

        See ``diagnose``: a rule names a stage only where the verdicts leave no other.
        """
        return tuple(map(diagnose, self.results))

    def answering(
        self, metric: MetricLike = "context_sufficiency", *, cluster: GroupBy = "auto"
    ) -> Answering:
        """Count what the application did where its contexts were enough and where not.

        Args:
            metric: Name of a ``ContextSufficiency`` of the run.
            cluster: Which samples belong together, as in ``summary``.

        Returns:
            The four cases, the uncertain beside them, and two shares with intervals;
            ``print`` shows them as a table.

        Raises:
            SettingError: If the metric was not measured, or says nothing of
                sufficiency.
        """
        return count_answering(self.results, self._full_name(metric), cluster)

    def what_if(self, metric: MetricLike = "context_utilization") -> WhatIf:
        """Work out what fewer chunks, or a perfect order, would have scored.

        It follows from the verdicts that are there: nobody is asked. ``print`` shows it
        as a table, a line for each number of chunks.

        Args:
            metric: Name of a ``ContextUtilization`` of the run.

        Raises:
            SettingError: If the metric was not measured, no row was scored by bare
                verdicts, or no chunk is useful.
        """
        return what_if(self.results, self._full_name(metric))

    def scores(self, metric: MetricLike) -> list[float | None]:
        """Scores of one metric, aligned with ``results``.

        None for undefined, failed, not judged and bad rows.
        """
        name = self._full_name(metric)
        return [row.score_of(name) for row in self.results]

    def _full_name(self, metric: MetricLike) -> str:
        """The full name of a metric; see ``find_metric``."""
        return find_metric(metric, self.metrics, place="in this report")

    def with_signature(self, part: str) -> Report:
        """Return the report over the rows that were measured in one way.

        A gate over rows of several judges or models, or of several versions of a
        metric, is undecided; over these it is not.

        Args:
            part: What the signature of results holds, as its line writes it, e.g.
                ``judge:gpt-4o-mini``, ``v2`` or ``prompt:21b7c5``; or the whole line;
                or the models that replied, e.g. ``model:qwen-7b``. Of a metric that has
                such results, rows with another one are left out.

        Raises:
            SettingError: If no result has such a signature.
        """

        def has_part(result: MetricResult) -> bool:
            model = signature_part("model", ", ".join(sorted(result.usage.models)))
            return f"|{part}|" in f"|{result.signature}|{model}|"

        lines: set[str] = set()
        measured_so: dict[str, set[str]] = {}
        for row in self.results:
            for name, result in row.results.items():
                lines.add(str(result.signature))
                if has_part(result):
                    measured_so.setdefault(name, set()).add(str(result.signature))
        if not measured_so:
            raise SettingError(
                f"no result has the signature {part!r}; there are:"
                f" {', '.join(sorted(lines)) or 'none'}"
            )

        def may_have_part(name: str, result: MetricResult) -> bool:
            # one that failed may name no model: that it failed is not to be forgotten
            named_none = not result.usage.models
            is_of_signature = str(result.signature) in measured_so[name]
            return has_part(result) or (named_none and is_of_signature)

        rows = [
            row
            for row in self.results
            if all(
                may_have_part(name, result)
                for name, result in row.results.items()
                if name in measured_so
            )
        ]
        of_rows = facts_of_rows(rows)
        left_out = self.run.left_out
        n_left_out = len(self.results) - len(rows)
        if n_left_out:
            count = f"{n_left_out:,} of {count_in_words(len(self.results), 'row')}"
            left_out += (f"{count} left out, not measured by {part}",)
        changes = {
            "judges": of_rows.judges,
            "models": of_rows.models,
            "metrics": {**self.run.metrics, **of_rows.metrics},
            "left_out": left_out,
        }
        return Report(rows, self.run.model_copy(update=changes))

    def worst(
        self, count: int = 10, metric: MetricLike | None = None
    ) -> list[SampleResult]:
        """The rows to look at first.

        Args:
            count: How many.
            metric: The rows with its lowest scores; None for the rows with a fault,
                then those of which nobody can say, each by their lowest score.

        Raises:
            SettingError: If the metric was not measured, or the count is no number.
        """
        check_number("worst(count=)", count, least=1)
        if metric is None:
            return nsmallest(count, self.results, key=_how_bad)
        return [self.results[place] for place in lowest(self.scores(metric), count)]

    def to_jsonl(self, path: str | Path) -> None:
        """Write the report as JSON lines, in place of an existing file.

        Texts of the samples are in it.

        Metadata that JSON cannot hold is written as text, NaN as null; ``InputError``
        if the file cannot be written.
        """
        with JsonlWriter(path, self.run) as writer:
            for row in self.results:
                writer.write(row)
            writer.close(self.run, whole=True)

    def write_to(self, target: Sink | str) -> None:
        """Write every result to a sink, or onto the traces of a target, and flush it.

        Args:
            target: A sink as ``watch(sinks=…)`` takes it, or the name of a target, e.g.
                ``mlflow``.

        Raises:
            SettingError: If it is no sink.
            Exception: What the sink raises ends the writing. The results before are
                flushed, and a note at the error says how many they are.
        """
        if isinstance(target, str):
            target_named = import_deferred(
                "traces.targets:target_named", "writing onto traces"
            )
            target = cast("Sink", target_named(target))
        check_sink(target)
        n_written = 0
        try:
            for result in self.results:
                target.write(result)
                n_written += 1
        except Exception as error:
            error.add_note(
                f"{n_written} of {len(self.results)} results were written to the sink"
                f" {type(target).__name__} before"
            )
            with suppress(Exception):  # the first error says what to mend
                target.flush()
            raise
        target.flush()

    @classmethod
    def from_jsonl(cls, path: str | Path) -> Report:
        """Read a report that ``to_jsonl``, ``JsonlWriter`` or a ``JsonlSink`` wrote.

        See ``jsonl.read_report``: of a file that lost rows, or has a broken line, no
        gate is decided.

        Raises:
            InputError: If the file cannot be read, or is no report.
            SettingError: If it is no path.
        """
        run, results = read_report(path)
        return cls(results, run)

    @classmethod
    def from_parquet(cls, path: str | Path, **columns: Unpack[Columns]) -> Report:
        """Read what a ``Scorer`` wrote on one machine or many.

        It is read a batch at a time, so that memory stays bounded.

        It does not read what ``to_parquet`` writes, a table of scores without results:
        keep reports by ``to_jsonl``.

        Args:
            path: The Parquet file, or the folder of such files.
            **columns: Where a field of the sample is, as they were given to the
                ``Scorer``.

        Returns:
            A report whose ``results`` are read when they are asked for; ``compare``,
            ``scores`` and ``to_pandas`` take all of them into memory.

        Raises:
            InputError: If it cannot be read, or holds no results of a ``Scorer``.
            MissingDependency: If the extra ``parquet`` is not installed.
        """
        parquet_report = import_deferred(
            "scale.scorer:ParquetReport", "reading results of a Scorer"
        )
        report: Report = parquet_report(path, columns_by_field(columns))
        return report

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with one row per row of the input.

        It has the columns of ``tables.columns``. It needs the extra ``pandas``.
        """
        return data_frame(self.results, self.metrics)

    def to_csv(self, path: str | Path) -> None:
        """Write the columns of ``to_pandas`` as CSV, in the encoding ``utf-8-sig``.

        Texts of the samples are in it, safe to open in a spreadsheet.
        """
        write_text(path, csv_text(self.results, self.metrics), "the table")

    def to_html(
        self,
        path: str | Path,
        *,
        cluster: GroupBy = "auto",
        decisions: Sequence[Decision] = (),
    ) -> None:
        """Write the report as one HTML page that opens offline.

        Texts of the samples are in it.

        Args:
            path: The file to write; an existing one is replaced. Texts over 20 kB are
                cut with a note.
            cluster: Which samples belong together, as in ``summary``.
            decisions: What gates decide of this report; the page begins with it.
        """
        from ragmetrics_core.reporting.glance import glance_of

        summary = self.summary(cluster=cluster)
        glance = glance_of(self.results, summary, self.run, decisions)
        shown = self.shown()
        write_page = import_deferred("page.render:write_page", "a page of results")
        write_page(path, shown.results, summary, shown.run, glance)

    def shown(self) -> Report:
        """The report over the rows that a page shows one by one: all of them."""
        return self

    def to_parquet(self, path: str | Path) -> None:
        """Write the table of ``to_pandas`` as Parquet, for other programs.

        It needs the extras ``pandas`` and ``parquet``.

        ``from_parquet`` does not read it back, because it holds scores and no results:
        keep reports by ``to_jsonl``.
        """
        frame = self.to_pandas()
        import_extra("pyarrow", "parquet", "a Parquet file")
        with (
            whole_file(path, "the table") as file,
            as_input_error(f"the table cannot be written to {path}"),
        ):
            frame.to_parquet(file.partial, engine="pyarrow", index=False)

    def glance(self, decisions: Sequence[Decision] = ()) -> Glance:
        """What people see first: the weakest stage, the metrics, the worst rows.

        Args:
            decisions: What gates decide of this report, see ``decide``.
        """
        # few runs ask for it, and an import of the core shall be cheap
        from ragmetrics_core.reporting.glance import glance_of

        return glance_of(self.results, self.summary(), self.run, decisions)

    def __str__(self) -> str:
        """The first screen, as the command line prints it."""
        from ragmetrics_core.reporting.screen import screen_lines

        return "\n".join(screen_lines(self.glance()))

    def table(self) -> str:
        """The metrics as a plain-text table of at most 80 columns."""
        return text_table(self.summary(), self.run)

    def _repr_html_(self) -> str:
        """The first screen with its rows, then the metrics."""
        return html_screen(self.glance(), self.summary(), self.run)

    def __iter__(self) -> Iterator[SampleResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    @overload
    def __getitem__(self, key: int) -> SampleResult: ...

    @overload
    def __getitem__(self, key: MetricLike) -> MetricSummary: ...

    def __getitem__(self, key: int | MetricLike) -> SampleResult | MetricSummary:
        """Return a row, by its place from 0, or the numbers of a metric, by its name.

        Examples: ``report[0].results``, ``report["context_adherence"].mean``.

        Raises:
            IndexError: If there is no such row.
            SettingError: If the metric was not measured.
        """
        if isinstance(key, int):
            return self.results[key]
        return self.summary()[self._full_name(key)]

    def __repr__(self) -> str:
        judged = sum(bool(row.results) for row in self.results)
        rows = "1 row" if len(self.results) == 1 else f"{len(self.results)} rows"
        return (
            f"Report({rows}, {judged} judged: {', '.join(self.metrics) or 'no metric'})"
        )


def _how_bad(row: SampleResult) -> tuple[int, float, int]:
    """Sort key: faults first, then what nobody can say, then the lowest score."""
    order = ("fault", "unjudged", "fine").index(diagnose(row).kind)
    scores = [
        result.value for result in row.results.values() if result.value is not None
    ]
    return order, min(scores, default=0.0), row.index


def lowest(scores: Iterable[float | None], count: int) -> list[int]:
    """Return the indices of the lowest scores, the lowest first."""
    scored = ((score, place) for place, score in enumerate(scores) if score is not None)
    return [place for _, place in nsmallest(count, scored)]
