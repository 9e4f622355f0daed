"""Results as columns of a table.

Jobs on many machines write the columns. A report reads them a batch at a time.

Beside the columns of the input stand the structs ``sample`` and one per metric, the
same whatever the rows hold. Of evidence those fields are columns that reports
understand; ``rest`` holds the others as JSON.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from ragmetrics_core.data import (
    FactMatrix,
    InputError,
    JudgedChunks,
    Polled,
    RowError,
    Usage,
    import_extra,
)
from ragmetrics_core.data.arrow import arrow_rows
from ragmetrics_core.data.metric_evidence import Evidence
from ragmetrics_core.data.results import (
    ErrorInfo,
    MetricResult,
    SampleResult,
    Signature,
)
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.reporting.jsonl import plain, validate_data
from ragmetrics_core.reporting.report import Report, lowest
from ragmetrics_core.reporting.run_facts import RunFacts

# The shapes of evidence that reports understand.
_SHAPES = (JudgedChunks, Polled, FactMatrix)
_MOST_ROWS_SHOWN = 1000  # on a page
# What is read ahead stands in memory at the same time.
_SMALL_READAHEAD = {"batch_readahead": 4, "fragment_readahead": 1}
# What was noted of a row when it was judged: the struct "sample".
_SAMPLE_COLUMNS: dict[str, Any] = {
    "problem": str,  # why the row is no sample; null for a sample
    "unfinished": Usage,  # what was paid for metrics that a limit cut off
}
_FIELDS_LEFT_OUT = ("kind", "ledger")


def columns_of_results(
    results: Sequence[SampleResult], metrics: Sequence[str]
) -> dict[str, Any]:
    """Return the columns that are added to those of the input.

    They are Arrow arrays by name, with one entry per result.
    """
    pa = import_extra("pyarrow", "parquet", "a table of results")
    facts = [_facts_of_sample(row) for row in results]
    columns = {"sample": pa.array(facts, _arrow_type(_SAMPLE_COLUMNS))}
    for name in metrics:
        cells = [_cell_of_result(row.results.get(name)) for row in results]
        columns[name] = pa.array(cells, result_type())
    return columns


@cache
def result_type() -> Any:
    """The Arrow type of one metric's result.

    Of the evidence it has the fields of all shapes that reports understand.
    """
    evidence: dict[str, Any] = {"kind": str}
    for shape in _SHAPES:
        for name, field in _evidence_fields(shape).items():
            evidence[name] = field.annotation
    evidence["rest"] = str  # all other fields, as JSON
    fields = {
        "status": str,
        "value": float,
        "reason": str,
        "code": str,
        "error": ErrorInfo,
        "evidence": evidence,
        "judge": str,
        "signature": str,
        "usage": Usage,
    }
    return _arrow_type(fields)


def _arrow_type(kind: Any) -> Any:
    """Return the type of an Arrow column for the values of a Python type.

    Numbers and truth values have types of their own, a tuple is a list, and a class
    with fields is a struct. ``X | None`` and ``Annotated[X, …]`` have the type of X.
    All else is a text. Example: ``float | None`` is a double, ``tuple[str, ...]`` a
    list.
    """
    pa = import_extra("pyarrow", "parquet", "a table of results")
    origin = get_origin(kind)
    arguments = [argument for argument in get_args(kind) if argument is not NoneType]
    if origin in (Annotated, Union, UnionType):
        return _arrow_type(arguments[0])
    if origin is tuple:
        return pa.list_(_arrow_type(arguments[0]))
    fields = _fields_of_struct(kind)
    if fields is not None:
        return pa.struct(
            [(name, _arrow_type(field_kind)) for name, field_kind in fields.items()]
        )
    numbers = {float: pa.float64(), int: pa.int64(), bool: pa.bool_()}
    return numbers.get(kind, pa.string())


def _fields_of_struct(kind: Any) -> dict[str, Any] | None:
    """The types of a struct's fields, by name; None for a type without fields.

    ``kind`` is a pydantic model, ``Usage``, or a mapping of field names to types.
    """
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {name: field.annotation for name, field in kind.model_fields.items()}
    if kind is Usage:
        return get_type_hints(Usage)
    return kind if isinstance(kind, dict) else None


def _evidence_fields(shape: type[BaseModel]) -> dict[str, Any]:
    return {
        name: field
        for name, field in shape.model_fields.items()
        if name not in _FIELDS_LEFT_OUT
    }


def _facts_of_sample(row: SampleResult) -> dict[str, Any]:
    """Return what was noted of a row when it was judged: ``_SAMPLE_COLUMNS``."""
    return {"problem": row.problem or None, "unfinished": plain(row.unfinished)}


def _cell_of_result(result: MetricResult | None) -> dict[str, Any] | None:
    """Make the value of a result's column: a mapping of its fields.

    None for a metric that was not judged.
    """
    if result is None:
        return None
    cell: Any = plain(result.model_copy(update={"signature": str(result.signature)}))
    if result.evidence is not None:
        cell["evidence"] = _cell_of_evidence(result.evidence, cell["evidence"])
    return dict(cell)


def _cell_of_evidence(evidence: Evidence, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Make the struct of a result's evidence.

    The fields of ``_SHAPES``, which reports understand, are fields of the struct. All
    others stand in its field ``rest`` as JSON.
    """
    other_fields = dict(fields)
    struct = {"kind": other_fields.pop("kind")}
    for shape in _SHAPES:
        if isinstance(evidence, shape):
            for name in _evidence_fields(shape):
                struct[name] = other_fields.pop(name)
    if isinstance(evidence, JudgedChunks):
        struct["useful"] = evidence.useful_known  # how many, which a summary counts
    return {**struct, "rest": json.dumps(other_fields)}


def _fields_of_result(
    metric: str, cell: Mapping[str, Any], sample: Sample | None
) -> dict[str, Any]:
    """Read the fields of a metric's result back from the value of its column.

    Args:
        metric: The metric's name.
        cell: The value, as ``_cell_of_result`` made it.
        sample: The sample that was judged; None for a row that is no sample.
    """
    fields = {name: value for name, value in cell.items() if value is not None}
    if "evidence" in fields:
        fields["evidence"] = _fields_of_evidence(fields["evidence"])
    sample_id = None if sample is None else sample.id
    return {"metric": metric, "sample_id": sample_id, **fields}


def _fields_of_evidence(struct: Mapping[str, Any]) -> dict[str, Any]:
    """Read the fields of a result's evidence back; see ``_cell_of_evidence``."""
    fields = {name: value for name, value in struct.items() if value is not None}
    is_of_polls = "asked" in fields
    if is_of_polls:  # by this field polls are recognised, even where it is None
        fields.setdefault("repeatability", None)
    other_fields = json.loads(fields.pop("rest"))
    return {**fields, **other_fields}


class ParquetRows(Sequence[SampleResult]):
    """The rows of a Parquet file or folder that a ``Scorer`` made.

    Each row is read when it is asked for.

    Arguments and errors are those of ``Report.from_parquet``.

    Attributes:
        metrics: Names of the metrics.
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
            schema = _schema_of_results(data)
            self.metrics = _metrics_in(schema)
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

    def values(self, metric: str, *field: str) -> Iterator[Any]:
        """One field of a metric's results, e.g. ``value``, in the order of the rows.

        Nothing else is read.
        """
        for column in self.columns(metric, *field):
            yield from column.to_pylist()

    def columns(self, metric: str, *field: str) -> Iterator[Any]:
        """One field of a metric's results as Arrow arrays, in the order of the rows."""
        projection = {"field": self._field(metric, *field)}
        batches = self._data.to_batches(
            columns=projection, batch_size=100_000, **_SMALL_READAHEAD
        )
        for batch in batches:
            yield batch["field"]

    def _result_of_row(
        self, index: int, row: dict[str, Any] | RowError
    ) -> SampleResult:
        """Make the result of a row of the file, with its sample.

        A row that was no sample has a result without a sample, whose ``problem`` says
        why. Example: a row with question, answer and {"value": .9, …} of a metric gives
        the sample and its result of .9.

        Raises:
            InputError: If the sample cannot be read with the columns that the caller
                names, or the result's fields are not ours.
        """
        if isinstance(row, RowError):
            return SampleResult(index=index, sample=None, problem=str(row))
        # The column "sample" does not hold the texts. It holds what was noted when the
        # row was judged, such as its problem and its cost.
        state_when_judged = row["sample"]
        problem = state_when_judged["problem"] or ""
        sample = None if problem else self._sample_of_row(index, row)
        results = {
            name: _fields_of_result(name, row[name], sample)
            for name in self.metrics
            if row[name] is not None
        }
        fields = {
            "index": index,
            "sample": sample,
            "results": results,
            "unfinished": state_when_judged["unfinished"],
            "problem": problem,
        }
        return validate_data(SampleResult, fields, f"{self._path}, row {index}")

    def _sample_of_row(self, index: int, row: Mapping[str, Any]) -> Sample:
        """Read the sample of a row from the columns of the input.

        Raises:
            InputError: If the row is no sample with the columns that the caller names.
        """
        inputs = {name: row[name] for name in self._inputs}
        try:
            return Sample.from_row(inputs, **self._columns)
        except RowError as error:
            raise InputError(
                f"{self._path}, row {index}: {error}; give the columns that the Scorer"
                " was given"
            ) from error


def _schema_of_results(data: Any) -> Any:
    """The common schema of all files of a data set.

    Raises:
        ValueError: If a file holds no results, or none holds samples.
    """
    arrow = import_extra("pyarrow", "parquet", "a report from Parquet")
    schemas = {part.path: part.physical_schema for part in data.get_fragments()}
    schema = arrow.unify_schemas(schemas.values(), promote_options="permissive")
    metrics = _metrics_in(schema)
    for file, file_schema in schemas.items():
        if set(metrics).isdisjoint(file_schema.names):
            raise ValueError(f"{file} holds no results")
    if "sample" not in schema.names:
        raise ValueError("it has no column named sample")
    return schema


def _metrics_in(schema: Any) -> tuple[str, ...]:
    """The columns that hold results of a metric, known by their fields."""
    names_of_result = {field.name for field in result_type()}
    metrics: list[str] = []
    for column in schema:
        fields = getattr(column.type, "fields", ())  # only a struct has some
        if names_of_result <= {field.name for field in fields}:
            metrics.append(column.name)
    return tuple(metrics)


class ParquetReport(Report):
    """A report over the rows of a Parquet file or folder.

    The rows are read when they are needed, a batch at a time.

    Arguments and errors are those of ``Report.from_parquet``.
    """

    results: ParquetRows

    def __init__(self, path: str | Path, columns: Mapping[str, Any]) -> None:
        """Open the rows, and make the facts of the run from their signatures.

        A **signature** says with which settings, judge and prompt a score was made.
        Example: if rows have two signatures of a metric, the alphabetically first
        counts, and a note says "context_adherence: rows of 2 signatures".
        """
        self.results = ParquetRows(path, columns)
        signature_by_metric: dict[str, Signature] = {}
        notes: list[str] = []
        for metric in self.results.metrics:
            texts = self._texts_of_signatures(metric)
            if len(texts) > 1:
                notes.append(f"{metric}: rows of {len(texts)} signatures")
            # Without any signature, one is made of the metric's name alone.
            first_text = min(texts, default=metric)
            signature_by_metric[metric] = Signature.model_validate(first_text)
        signatures = signature_by_metric.values()
        # by judge its settings, such as the temperature: the same for all its metrics
        details_by_judge = {
            signature.judge: signature.details for signature in signatures
        }
        self.run = RunFacts(
            metrics={
                metric: signature.without_judge()
                for metric, signature in signature_by_metric.items()
            },
            # The judge is "" for a metric that asks none.
            judges=tuple(sorted(judge for judge in details_by_judge if judge)),
            details=details_by_judge,
            notes=tuple(notes),
        )

    def _texts_of_signatures(self, metric: str) -> set[str]:
        """The different signatures of a metric's results, as texts."""
        texts: set[str] = set()
        for column in self.results.columns(metric, "signature"):
            texts.update(column.drop_null().unique().to_pylist())
        return texts

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics."""
        return self.results.metrics

    def scores(self, metric: str) -> list[float | None]:
        """Scores of one metric, aligned with ``results``."""
        return list(self.results.values(self._full_name(metric), "value"))

    def worst(self, metric: str, count: int = 10) -> list[SampleResult]:
        """The rows with the lowest scores of a metric, the lowest first."""
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
