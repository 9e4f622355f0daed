"""Scoring a table: a pure function from rows to rows, which engines carry out."""

from collections import Counter
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any, Unpack

from ragmetrics_core.data import (
    AmbiguousColumns,
    Columns,
    RowError,
    Sample,
    SampleResult,
    SettingError,
    columns_by_field,
    import_extra,
)
from ragmetrics_core.data.csv_and_arrow import arrow_rows
from ragmetrics_core.engine.resolve import JudgeLike
from ragmetrics_core.engine.run import Metrics, Run, stream
from ragmetrics_core.metrics.registry import choose_metrics
from ragmetrics_core.models.limits import Budget, Limits
from ragmetrics_core.models.reply_store import StoreLike
from ragmetrics_core.scale.parquet_report import columns_of_results

_SAMPLE_COLUMN = "sample"  # as ``columns_of_results`` names it
# A run takes one table after the other, whichever thread of an engine brings it.
_one_table_at_a_time = Lock()


class Scorer:
    """Scores the rows of Arrow tables.

    It pickles, and opens nothing before its first table.

    Args:
        metrics: Metrics or their names; None for the usual ones.
        judge: A judge, a chat model or a model's name, as in ``evaluate``; it must
            pickle.
        store: Where replies are kept, as in ``evaluate``.
        limits: What each process may spend, or what the binding of an engine makes of
            it for the whole job.
        concurrency: Most model calls of one process in flight.
        **columns: Where a field of the sample is, as in ``evaluate``.

    Raises:
        SettingError: If a setting is invalid, a metric is named ``sample`` as the
            column of samples is, or a metric takes something from other samples: which
            those are would depend on how an engine divides the rows.

    Examples:
        >>> import pyarrow
        >>> table = pyarrow.table({"question": ["Capital?"], "contexts": [["Paris."]], "answer": ["Paris"]})
        >>> Scorer("utilization")(table)["context_utilization"][0]["value"].as_py()
        1.0
    """

    def __init__(
        self,
        metrics: Metrics = None,
        judge: JudgeLike = None,
        *,
        store: StoreLike = None,
        limits: Limits | None = None,
        concurrency: int = 32,
        **columns: Unpack[Columns],  # typed, so that editors complete the names
    ) -> None:
        """Check the settings; nothing is opened before the first table.

        Example: ``Scorer("context_adherence", judge, question="frage")``.
        """
        self.metrics = tuple(choose_metrics(metrics))
        # A metric must not have the name of the column in which samples are returned.
        if any(metric.name == _SAMPLE_COLUMN for metric in self.metrics):
            raise SettingError(
                f"a metric is named {_SAMPLE_COLUMN!r}, which is the column of the samples"
                " in the scored table; give it another name="
            )
        self.limits = limits
        # Opens the budget that all processes of a job share; an engine such as Ray sets
        # it. None: each process has ``limits`` of its own.
        self.open_job_budget: Callable[[], Budget] | None = None
        # argument names, to suggest one for a misspelt column, such as "concurency"
        other_arguments = Scorer.__init__.__annotations__
        self._columns = columns_by_field(columns, beside=other_arguments)
        self._settings = (self.metrics, judge, concurrency, store)
        self._run: Run | None = None  # begun with the first table

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_run": None}

    def added_schema(self, names: Iterable[str]) -> Any:
        """Return the Arrow schema of the columns that scoring adds to a table.

        Example: ``sample`` and ``context_adherence``, both structs.

        Args:
            names: Names of the table's columns.

        Raises:
            SettingError: If two columns would have the same name.
        """
        pa = import_extra("pyarrow", "parquet", "scoring a table")
        metrics = [metric.name for metric in self.metrics]
        added_columns = columns_of_results((), metrics)
        n_by_name = Counter([*names, *added_columns])
        clashing = [name for name, count in n_by_name.items() if count > 1]
        if clashing:
            raise SettingError(
                f"the table has columns {', '.join(sorted(clashing))} twice, or scoring"
                " adds them: rename them"
            )
        return pa.schema(
            [(name, column.type) for name, column in added_columns.items()]
        )

    def __call__(self, table: Any) -> Any:
        """Score every row of a table.

        Example: 3 rows of question and answer get ``sample`` and ``context_adherence``.

        Args:
            table: An Arrow table or record batch with one sample in each row, in
                columns of any usual names.

        Returns:
            An Arrow table with the columns of ``table``, the struct ``sample``, and a
            struct for each metric, null where the metric was not judged. No row is left
            out. In ``sample``, ``problem`` says why a row cannot be judged, and
            ``unfinished`` is the cost of metrics that a limit cut off.

        Raises:
            JudgeUnavailable: If the judge's first call shows that it will answer
                nothing, e.g. for a wrong key.
        """
        pa = import_extra("pyarrow", "parquet", "scoring a table")
        fields = [*table.schema, *self.added_schema(table.schema.names)]
        rows = [self._sample_or_error(row) for row in arrow_rows(table)]
        with _one_table_at_a_time:
            if self._run is None:
                limits: Limits | Budget | None = self.limits
                if self.open_job_budget is not None:
                    limits = self.open_job_budget()
                self._run = Run(*self._settings, limits)
            judged = list(stream(self._run, rows, progress=False, columns={}))
            if self._run.interrupted:
                raise KeyboardInterrupt
        # where a limit ended the run, the last rows have no result
        for index in range(len(judged), len(rows)):
            row = rows[index]
            sample = row if isinstance(row, Sample) else None
            problem = str(row) if isinstance(row, RowError) else ""
            judged.append(SampleResult(index=index, sample=sample, problem=problem))
        metrics = [metric.name for metric in self.metrics]
        added = columns_of_results(judged, metrics)
        return pa.Table.from_arrays(
            [*table.columns, *added.values()], schema=pa.schema(fields)
        )

    def _sample_or_error(self, row: Any) -> Sample | RowError:
        """The sample of a row, or the error why it has none."""
        if isinstance(row, RowError):
            return row
        try:
            return Sample.from_row(row, **self._columns)
        except AmbiguousColumns as error:
            # In the first row of a run it would end the run. Which row is the first
            # depends on how an engine divides them, so here none ends a job.
            return RowError(str(error))
        except RowError as error:
            return error
