"""Scoring a table, and the report of scored tables.

A ``Scorer`` is a pure function from rows to rows, which engines carry out. Jobs on many
machines write the columns that it adds. A report reads them a batch at a time.

Beside the columns of the input stand the structs ``sample`` and one per metric, the
same whatever the rows hold. Of a metric's result they hold what a query asks for, and
in ``result`` all of it as JSON.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Unpack

from ragmetrics_core.data import (
    AmbiguousColumns,
    Columns,
    InputError,
    RowError,
    Sample,
    SampleResult,
    SettingError,
    columns_by_field,
    import_extra,
    json_value,
)
from ragmetrics_core.data.csv_and_arrow import arrow_rows
from ragmetrics_core.data.display import count_in_words
from ragmetrics_core.data.results import Signature
from ragmetrics_core.engine.resolve import NOBODY, JudgeLike
from ragmetrics_core.engine.run import Metrics, Run, stream
from ragmetrics_core.metrics.registry import MetricLike, choose_metrics
from ragmetrics_core.models.limits import Budget, Limits
from ragmetrics_core.models.reply_store import StoreLike
from ragmetrics_core.reporting.jsonl import json_data, validate_data
from ragmetrics_core.reporting.report import Report, lowest
from ragmetrics_core.reporting.run_facts import RunFacts

_SAMPLE_COLUMN = "sample"  # as ``columns_of_results`` names it
# A run takes one table after the other, whichever thread of an engine brings it.
_one_table_at_a_time = Lock()
# The fields of a metric's struct; ``result`` holds the whole result as JSON.
_RESULT_FIELDS = ("status", "value", "reason", "judge", "signature", "result")
_MOST_ROWS_SHOWN = 1000  # on a page
# What is read ahead stands in memory at the same time.
_SMALL_READAHEAD = {"batch_readahead": 4, "fragment_readahead": 1}


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


def columns_of_results(
    results: Sequence[SampleResult], metrics: Sequence[str]
) -> dict[str, Any]:
    """Return the columns that are added to those of the input.

    They are Arrow arrays of structs by name, with one entry per row: a column for each
    metric, null where it was not judged, and ``sample``, which holds as ``problem`` why
    the row is no sample, and as ``unfinished`` in JSON what was paid for metrics that a
    limit cut off.
    """
    pa = import_extra("pyarrow", "parquet", "a table of results")
    sample_type = pa.struct([("problem", pa.string()), ("unfinished", pa.string())])
    metric_type = pa.struct(
        [
            (name, pa.float64() if name == "value" else pa.string())
            for name in _RESULT_FIELDS
        ]
    )
    states = [
        {
            "problem": row.problem or None,
            "unfinished": json.dumps(json_data(row.unfinished)),
        }
        for row in results
    ]
    columns = {"sample": pa.array(states, sample_type)}
    for name in metrics:
        cells: list[dict[str, Any] | None] = []
        for row in results:
            outcome = row.results.get(name)
            if outcome is None:  # the metric was not judged
                cells.append(None)
                continue
            signature = str(outcome.signature)
            fields: Any = json_data(outcome.model_copy(update={"signature": signature}))
            cell = {field: fields.get(field) for field in _RESULT_FIELDS}
            cells.append({**cell, "result": json.dumps(fields)})
        columns[name] = pa.array(cells, metric_type)
    return columns


class ParquetRows(Sequence[SampleResult]):
    """The rows of a Parquet file or folder that a ``Scorer`` made.

    Each row is read when it is asked for.

    Arguments and errors are those of ``Report.from_parquet``.

    Attributes:
        metrics: Names of the metrics.
        copies: Files of the folder that look like a copy of an earlier one: their
            paths, with that of the earlier one.
    """

    def __init__(self, path: str | Path, columns: Mapping[str, Any]) -> None:
        """Open the file or folder, and find its metrics; rows are counted, not read.

        Example: a file with the columns question, answer, sample and context_adherence
        has one metric, context_adherence.

        Args:
            path: The file or folder.
            columns: The user's names of columns, by field of the sample.

        Raises:
            InputError: If no ``Scorer`` wrote the file, or it cannot be read.
        """
        dataset = import_extra("pyarrow.dataset", "parquet", "a report from Parquet")
        self._path = path
        self._columns = columns  # {"question": "frage"}: its column is called "frage"
        self._field = dataset.field  # makes an expression that reads a column
        try:
            data = dataset.dataset(path, format="parquet")
            # the common schema of all files, each of which holds results
            arrow = import_extra("pyarrow", "parquet", "a report from Parquet")
            schemas = {}
            first_file_by_footer: dict[object, str] = {}
            self.copies: dict[str, str] = {}
            for part in data.get_fragments():
                schemas[part.path] = part.physical_schema
                # footers tell of each column its size, lowest and highest value
                first_file = first_file_by_footer.setdefault(part.metadata, part.path)
                if part.metadata.num_rows and first_file != part.path:
                    self.copies[part.path] = first_file
            schema = arrow.unify_schemas(schemas.values(), promote_options="permissive")
            # columns that hold results of a metric are known by their fields
            metrics = []
            for column in schema:
                fields = getattr(column.type, "fields", ())  # only a struct has some
                if {field.name for field in fields}.issuperset(_RESULT_FIELDS):
                    metrics.append(column.name)
            self.metrics = tuple(metrics)
            for file, file_schema in schemas.items():
                if set(self.metrics).isdisjoint(file_schema.names):
                    raise ValueError(f"{file} holds no results")
            if "sample" not in schema.names:
                raise ValueError("it has no column named sample")
            self._data = data.replace_schema(schema)
            self._count: int = self._data.count_rows()
        except (OSError, ValueError, TypeError) as error:
            # pyarrow's words name the file, or the column of unlike types
            why = f"{type(error).__name__}, {str(error)[:200]}"
            raise InputError(
                f"{path} is not what a Scorer wrote, or cannot be read as Parquet:"
                f" {why}. Report.to_parquet writes a table of scores, which is no"
                " report: keep reports by to_jsonl and read them by Report.from_jsonl"
            ) from error
        added_columns = {*self.metrics, "sample"}
        self._inputs = [name for name in schema.names if name not in added_columns]

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        chosen = range(self._count)[index]  # one index, or those of a slice
        if isinstance(chosen, int):
            return self.rows_at([chosen])[0]
        return self.rows_at(chosen)

    def __iter__(self) -> Iterator[SampleResult]:
        index = 0
        for batch in self._data.to_batches(batch_size=1000, **_SMALL_READAHEAD):
            for row in arrow_rows(batch, maps="lossy"):
                yield self._result_of_row(index, row)
                index += 1

    def rows_at(self, indices: Sequence[int]) -> list[SampleResult]:
        """The rows with these indices; the file is read on until all are there."""
        table = self._data.take(list(indices), batch_size=1000, **_SMALL_READAHEAD)
        rows = arrow_rows(table, maps="lossy")
        return [
            self._result_of_row(index, row)
            for index, row in zip(indices, rows, strict=True)
        ]

    def values(self, metric: str, field: str) -> Iterator[Any]:
        """One field of a metric's results, e.g. ``value``, in the order of the rows.

        Nothing else is read.
        """
        batches = self._data.to_batches(
            columns={"field": self._field(metric, field)},
            batch_size=100_000,
            **_SMALL_READAHEAD,
        )
        for batch in batches:
            yield from batch["field"].to_pylist()

    def _result_of_row(
        self, index: int, row: dict[str, Any] | RowError
    ) -> SampleResult:
        """Make the result of a row of the file, with its sample.

        A row that was no sample has a result without a sample, whose ``problem`` says
        why.

        Raises:
            InputError: If the sample cannot be read with the columns that the caller
                names, or the result's fields are not ours.
        """
        if isinstance(row, RowError):
            return SampleResult(index=index, sample=None, problem=str(row))
        # The column "sample" holds no texts, but what was noted when the row was judged.
        problem = row["sample"]["problem"] or ""
        sample = None
        if not problem:
            inputs = {name: row[name] for name in self._inputs}
            try:
                sample = Sample.from_row(inputs, **self._columns)
            except RowError as error:
                raise InputError(
                    f"{self._path}, row {index}: {error}; give the columns that the"
                    " Scorer was given"
                ) from error
        fields = {
            "index": index,
            "sample": sample,
            "results": {
                name: json_value(row[name]["result"])
                for name in self.metrics
                if row[name] is not None
            },
            "unfinished": json_value(row["sample"]["unfinished"]),
            "problem": problem,
        }
        return validate_data(SampleResult, fields, f"{self._path}, row {index}")


class ParquetReport(Report):
    """A report over the rows of a Parquet file or folder.

    The rows are read when they are needed, a batch at a time.

    Arguments and errors are those of ``Report.from_parquet``.
    """

    results: ParquetRows

    def __init__(self, path: str | Path, columns: Mapping[str, Any]) -> None:
        """Open the rows, and make the facts of the run from their signatures.

        A **signature** says with which settings, judge and prompt a score was made.
        If rows have two signatures of a metric, the alphabetically first counts here.
        """
        self.results = ParquetRows(path, columns)
        signature_by_metric: dict[str, Signature] = {}
        for metric in self.results.metrics:
            texts = set(self.results.values(metric, "signature")) - {None}
            # Without any signature, one is made of the metric's name alone.
            first_text = min(texts, default=metric)
            signature_by_metric[metric] = Signature.model_validate(first_text)
        signatures = signature_by_metric.values()
        # by judge its settings, such as the temperature: the same for all its metrics
        details_by_judge = {
            signature.judge: signature.details for signature in signatures
        }
        stopped = ""
        folder = Path(path)
        # neither is read; the second is of a job that overwrites partitions
        for left in (*folder.glob("_temporary/*"), *folder.glob(".spark-staging-*/")):
            stopped = (
                f"the folder {left} is not read, and rows may be missing: a job keeps"
                " them there until it ends well"
            )
        if self.results.copies:
            files = count_in_words(len(self.results.copies), "file")
            file, first_file = next(iter(self.results.copies.items()))
            stopped = stopped or (
                f"{files} too many may be there, as {file} looks like {first_file}, and"
                " rows count twice: remove the copy"
            )
        self.run = RunFacts(
            stopped=stopped,
            metrics={
                metric: signature.without_judge()
                for metric, signature in signature_by_metric.items()
            },
            # nobody is no judge: a metric that asks none has it, or "" in older files
            judges=tuple(sorted(details_by_judge.keys() - {"", NOBODY.name})),
            details=details_by_judge,
        )

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics."""
        return self.results.metrics

    def scores(self, metric: MetricLike) -> list[float | None]:
        """Scores of one metric, aligned with ``results``."""
        return list(self.results.values(self._full_name(metric), "value"))

    def worst(
        self, count: int = 10, metric: MetricLike | None = None
    ) -> list[SampleResult]:
        """The rows to look at first; of a metric only its scores are read."""
        if metric is None:
            return super().worst(count)
        return self.results.rows_at(
            lowest(self.results.values(self._full_name(metric), "value"), count)
        )

    def shown(self) -> Report:
        """Return a report of a thousand rows at most, for a page.

        If there are more rows, a thousand are drawn at random, the same ones each time.
        A note says that figures and diagnoses are of the drawn rows. Example: of 5,000
        rows: "The page shows 1,000 of 5,000 rows, drawn at random; …".
        """
        n_rows = len(self.results)
        generator = random.Random(0)  # noqa: S311  # no secret
        n_shown = min(n_rows, _MOST_ROWS_SHOWN)
        drawn_indices = sorted(generator.sample(range(n_rows), n_shown))
        notes = self.run.notes
        if n_shown < n_rows:
            note = (
                f"The page shows {n_shown:,} of {n_rows:,} rows, drawn at random;"
                " figures and diagnoses are of these."
            )
            notes = (*notes, note)
        facts = self.run.model_copy(update={"notes": notes})
        return Report(self.results.rows_at(drawn_indices), facts)

    def __repr__(self) -> str:
        return (
            f"Report({len(self.results):,} rows of a Parquet file or folder:"
            f" {', '.join(self.metrics)})"
        )
