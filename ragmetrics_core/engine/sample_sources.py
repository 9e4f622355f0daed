"""Reads samples from lists, data frames, Arrow tables, traces and Hugging Face datasets.

It says which field no row has.
"""

import logging
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from ragmetrics_core.data import (
    USUAL_NAMES,
    AmbiguousColumns,
    NoSuchColumn,
    RowError,
    Sample,
    SampleResult,
    SettingError,
    find_repeated_names,
    plain_name,
    sample_from_row,
)
from ragmetrics_core.data.cells import data_in, holds_prose
from ragmetrics_core.data.columns import (
    column_of,
    columns_with_usual_names,
    may_be_of_application,
    may_hold_answers,
)
from ragmetrics_core.data.csv_and_arrow import arrow_rows
from ragmetrics_core.data.display import count_in_words
from ragmetrics_core.data.name_matching import names_in_words
from ragmetrics_core.data.sample import fields_of_row
from ragmetrics_core.data.scalars import plain_data
from ragmetrics_core.engine.reasoning import leave_out_reasoning
from ragmetrics_core.statistics.means import n_repeats

# The fields that the shipped metrics need, each with the field that may take its place;
# nothing takes the place of the question and of the answer.
_SUBSTITUTE_BY_NEEDED_FIELD = {
    "question": "question",
    "contexts": "retrieved",
    "answer": "answer",
    "reference": "facts",
}
# Any two of the others are enough for one of the shipped metrics without the question.
_FIELDS_PER_METRIC = 2
# Most columns that a sentence names, and that are noted.
_MOST_NAMES = 12
_MOST_COLUMNS = 1000
_SAME_ID = (
    "the id of an earlier one; labels and comparisons need an id of its own for each,"
    " or none at all"
)
_SAME_CONTENT = "the question, contexts and answer of an earlier one"

logger = logging.getLogger("ragmetrics_core")

Samples = Iterable[Sample | Mapping[str, Any]] | Any
"""What holds samples.

That is samples, mappings, a pandas-like data frame, or a dataset that iterates over
mappings.
"""


def iterate_samples(
    samples: Samples, columns: Mapping[str, Any], notes: list[str] | None = None
) -> Iterator[Sample | RowError]:
    """Iterate over samples, lazily; a row that is no sample comes as its error.

    At the end it logs what is odd about the columns.

    Args:
        samples: Samples, mappings, a report, a data frame (pandas, Polars), an Arrow
            table, or any iterable of rows.
        columns: Per field of the sample where rows have it. Fields that are not named
            are found by the usual names of columns.
        notes: Gets what is logged, a sentence each.

    Raises:
        SettingError: If ``samples`` is one sample, one mapping, a text, or cannot be
            iterated, columns share a name, no row has a column that was named, or two
            columns of the first row may hold one field.
    """
    columns_read = ColumnsRead(columns)
    rows = table_rows(samples)
    yield from refuse_wrong_columns(map(columns_read.read_sample, rows))
    for sentence in columns_read.sentences:
        logger.warning("%s", sentence)
        if notes is not None:
            notes.append(sentence)


def refuse_wrong_columns(
    rows: Iterable[Sample | RowError],
) -> Iterator[Sample | RowError]:
    """Yield the samples of a table, and refuse a table whose columns are wrong.

    A column that the user named may be missing, or two columns may hold one field. If
    only some rows have such a fault, they stay bad rows: what was paid for the other
    rows is not lost. Example: the named column "out" is missing in 2 of 9 rows: 7
    samples and 2 errors are yielded. It is missing in all 9: an error is raised.

    Raises:
        SettingError: At the end, if the named column is missing in every row. Before
            the first sample, if two columns may hold one field.
    """
    first_error: NoSuchColumn | None = None
    is_missing_everywhere = True
    has_yielded_sample = False
    for row in rows:
        if isinstance(row, AmbiguousColumns) and not has_yielded_sample:
            raise SettingError(str(row))
        if isinstance(row, Sample):
            has_yielded_sample = True
        if not isinstance(row, NoSuchColumn):
            is_missing_everywhere = False
        elif first_error is None:
            first_error = row
        yield row
    if first_error is not None and is_missing_everywhere:
        raise SettingError(f"{first_error}; no other row has it either")


def warn_of_oddities(rows: Iterable[Sample | RowError]) -> Iterator[Sample | RowError]:
    """Yield samples, and log once at the end what was odd about them.

    That is that there are none, a model's reasoning in them, and doubles. A sample is a
    double if an earlier one has the same id; without an id, if an earlier one has the
    same question, contexts and answer. Example: of 10 samples two have the id "a", and
    the others have none and differ: all 10 are yielded, and one double is logged.
    """
    # Hashes take eight bytes each: memory stays small over a million samples.
    hashes_of_ids = array("q")
    hashes_of_contents = array("q")
    n_with_reasoning = n_rows = 0
    for row in rows:
        n_rows += 1
        if isinstance(row, Sample):
            n_with_reasoning += leave_out_reasoning(row) is not row
            contexts = tuple(context.text for context in row.known_contexts)
            content = (row.question, contexts, row.answer)
            if row.id is not None:
                hashes_of_ids.append(hash(row.id))
            elif any(content):  # samples without any text are not called doubles
                hashes_of_contents.append(hash(content))
        yield row
    if not n_rows:
        logger.warning("There is no row: nothing is evaluated.")
    if n_with_reasoning:
        logger.warning(
            "%s held tags of a model's reasoning (<think>…</think>): it was left out,"
            " unless it stands within a line; let the server parse it",
            count_in_words(n_with_reasoning, "sample"),
        )
    _log_doubles(n_repeats(hashes_of_ids), _SAME_ID)
    _log_doubles(n_repeats(hashes_of_contents), _SAME_CONTENT)


def _log_doubles(n_doubles: int, shared: str) -> None:
    """Log how many samples have something that an earlier one has; nothing for none."""
    if n_doubles == 1:
        logger.warning("1 sample has %s", shared)
    elif n_doubles > 1:
        logger.warning("%s samples have %s", n_doubles, shared)


# A single row has a text there, so a list is the column of a table.
_NAMES_OF_TEXTS = {
    plain_name(name) for name in (*USUAL_NAMES["question"], *USUAL_NAMES["answer"])
}


def table_rows(samples: Any) -> Iterator[Any]:
    """Iterate over the rows of a table, list or stream, lazily.

    Tables are recognised by their methods, so that no library of tables is imported.
    Example: a pandas frame of 3 rows yields 3 mappings of column and value; a list
    yields its elements as they are.

    Raises:
        SettingError: If it is one row, or nothing that holds rows.
    """
    if hasattr(samples, "with_format") and hasattr(samples, "column_names"):
        samples = _with_rows_as_mappings(samples)
        features = getattr(samples, "features", None) or {}
        classes = {
            name: feature
            for name, feature in features.items()
            if hasattr(feature, "int2str")
        }
        if classes:
            return (_with_names_of_classes(row, classes) for row in samples)
    if isinstance(samples, Mapping):
        rows = rows_of_columns(samples)
        if rows is not None:
            return iter(rows)
    if hasattr(samples, "samples_and_bad_rows"):  # recorded traces
        return iter(samples.samples_and_bad_rows())
    if hasattr(samples, "itertuples") and hasattr(samples, "columns"):  # pandas
        # Phoenix exports the ids of its spans as the named levels of an index.
        index_names = getattr(getattr(samples, "index", None), "names", ())
        levels = [
            name
            for name in index_names
            if name is not None and name not in samples.columns
        ]
        if levels:
            samples = samples.reset_index(level=levels)
        # names of several levels are joined by dots, as flattened tables write them
        columns = [name if isinstance(name, tuple) else (name,) for name in samples]
        names = [".".join(filter(None, map(str, column))) for column in columns]
        _refuse_repeated_columns(names, "data frame")
        # Numbers of single precision are the ones that they are written as: 0.1, not
        # 0.10000000149011612.
        singles = [name for name, kind in samples.dtypes.items() if kind == "float32"]
        if singles:
            as_written = samples.astype(dict.fromkeys(singles, str))
            samples = as_written.astype(dict.fromkeys(singles, float))
        rows_of_pandas = samples.itertuples(index=False, name=None)
        return (dict(zip(names, values, strict=True)) for values in rows_of_pandas)
    if hasattr(samples, "iter_slices"):  # Polars
        return iter(samples.iter_rows(named=True))
    if hasattr(samples, "to_dicts"):  # a relation of DuckDB
        return iter(samples.to_dicts())
    # an Arrow table or record batch
    if hasattr(samples, "to_pylist") and hasattr(samples, "column_names"):
        _refuse_repeated_columns(samples.column_names, "Arrow table")
        return arrow_rows(samples)
    if hasattr(samples, "to_pylist"):  # an Arrow array of structs
        return iter(samples.to_pylist())
    # A sample, a mapping or a text can be iterated over too, but holds no rows.
    is_one_row = isinstance(samples, (Sample, Mapping, str, bytes))
    if isinstance(samples, Iterable) and not is_one_row:
        return iter(samples)
    hint = ""
    if isinstance(samples, (str, PurePath)):
        hint = "; read the file first, or use the command: ragmetrics evaluate FILE"
    elif isinstance(samples, Mapping) and all(map(_is_table, samples.values())):
        hint = f"; choose one of its tables: {', '.join(map(str, samples))}"
    raise SettingError(
        "samples must be several: a list of Sample or rows, got one"
        f" {type(samples).__name__}{hint}"
    )


def _with_rows_as_mappings(dataset: Any) -> Any:
    """Return a data set of Hugging Face without the format of its rows.

    What it yields stays: the columns that its user chose, and the user's own function.
    A stream and a group of data sets tell no format.
    """
    row_format = getattr(dataset, "format", None)
    if not isinstance(row_format, Mapping):
        return dataset.with_format(None)
    if row_format["type"] == "custom":  # the user's function
        return dataset
    return dataset.with_format(
        None,
        columns=row_format["columns"],
        output_all_columns=row_format["output_all_columns"],
    )


def _with_names_of_classes(row: Any, classes: Mapping[str, Any]) -> Any:
    """Return a row of Hugging Face with names in place of its classes' numbers."""
    if not isinstance(row, Mapping):
        return row
    named = {
        column: kind.int2str(row[column])
        for column, kind in classes.items()
        if type(row.get(column)) is int and row[column] >= 0
    }
    return {**row, **named}


def _is_table(split: Any) -> bool:
    """Whether a part of a data set, such as "train", is a table or a list of rows."""
    if isinstance(split, list):
        return all(isinstance(row, Mapping) for row in split)
    return hasattr(split, "columns") or hasattr(split, "column_names")


def rows_of_columns(table: Mapping[Any, Any]) -> list[dict[Any, Any]] | None:
    """Return the rows of a table that is written by its columns; None for anything else.

    pandas and Hugging Face write ``{"question": ["a", "b"], …}``, ``{"question": {"0":
    "a", "1": "b"}, …}``, ``{"0": {"question": "a"}, …}`` and ``{"columns": ["question"],
    "data": [["a"], ["b"]]}``. A single row, whose question is a text, is none.

    Raises:
        SettingError: If its columns are lists of different lengths.
    """
    columns = {name: plain_data(cells) for name, cells in table.items()}
    names, lines = columns.get("columns"), columns.get("data")
    if isinstance(names, list) and isinstance(lines, list):
        lengths = {len(line) if isinstance(line, list) else -1 for line in lines}
        if lengths <= {len(names)}:
            return [dict(zip(names, line, strict=True)) for line in lines]
        return None
    if columns and all(isinstance(cells, Mapping) for cells in columns.values()):
        if _number_rows(columns):
            return list(columns.values())
        indices = {tuple(cells) for cells in columns.values()}
        if len(indices) > 1 or not _number_rows(*indices):
            return None
        columns = {name: list(cells.values()) for name, cells in columns.items()}
    if not all(isinstance(cells, list) for cells in columns.values()):
        return None
    has_texts = any(
        plain_name(str(name)) in _NAMES_OF_TEXTS
        and any(isinstance(cell, str) for cell in cells)
        for name, cells in columns.items()
    )
    if not has_texts:
        return None
    n_cells = {str(name): len(cells) for name, cells in columns.items()}
    if len(set(n_cells.values())) > 1:
        if any(
            isinstance(cell, Mapping) for cells in columns.values() for cell in cells
        ):
            return None  # a list of rows or of messages is no column
        counts = ", ".join(f"{name} {count}" for name, count in n_cells.items())
        raise SettingError(
            f"it is a table by columns, which differ in their number of cells ({counts}):"
            " give each as many, null for none"
        )
    return [
        dict(zip(columns, row, strict=True))
        for row in zip(*columns.values(), strict=True)
    ]


def _number_rows(index: Iterable[Any]) -> bool:
    """Whether the keys of an object number rows: "0", "1" and so on."""
    return all(str(key).isdecimal() for key in index)


def _refuse_repeated_columns(names: Iterable[str], table: str) -> None:
    """Raise ``SettingError`` if columns of a ``table``, e.g. Arrow's, share a name."""
    repeats = find_repeated_names(names)
    if repeats:
        raise SettingError(
            f"several columns of the {table} are named {', '.join(repeats)};"
            " rename all but one"
        )


def _refuse_rows_inside(row: Mapping[str, Any], sample: Sample) -> None:
    """Refuse a row of which nothing was read, and which holds rows itself.

    They stand in a list, or each under its name. Each has a question and an answer by
    their usual names.

    Raises ``RowError``.
    """
    holders = []
    for name, cell in row.items():
        first = next(iter(cell), None) if isinstance(cell, list) else cell
        keys = map(str, first) if isinstance(first, Mapping) else ()
        if len(_NAMES_OF_TEXTS.intersection(map(plain_name, keys))) > 1:
            holders.append(str(name))
    fields = (*_SUBSTITUTE_BY_NEEDED_FIELD, "retrieved", "facts")
    if holders and all(map(sample.missing, fields)):
        names = names_in_words(holders, most=_MOST_NAMES)
        raise RowError(f"the rows stand under {names}; write these alone, as a list")


# the doubts about rows that are said of the whole table
_DOUBTS_OF_TABLE = {"blank", "joined", "names", "other_column", "history_unread"}


class ColumnsRead:
    """Makes samples of the rows of one table, and notes which columns it has.

    Args:
        columns: The columns that the user names, by field of the sample. The other
            fields are read from the columns with their usual names.

    Attributes:
        columns: The names of the table's columns, in order, as the keys.
        unread: Those of them that no field was made of, and in how many rows each holds
            prose; 0 for a usual name, whose column yielded to another.
    """

    def __init__(self, columns: Mapping[str, Any] | None = None) -> None:
        self._columns = columns or {}
        self.columns: dict[str, None] = {}
        self.unread: Counter[str] = Counter()
        # needed fields that at least one sample has, such as {"contexts", "answer"}
        self._fields_of_any_sample: set[str] = set()
        # whether one sample has all fields that a shipped metric needs
        self._a_metric_may_apply = False
        self._n_samples = 0
        # By the code of a doubt how many rows have it, and the first one's words. That
        # contexts are one text is said of a named column, too: it may have been named
        # for its name alone.
        self._doubts: dict[str, tuple[int, str]] = {}
        # question, answer and text of each row with one context, eight bytes each
        self._hashes_of_chunks = array("q")
        self._n_contexts_alone = 0  # rows

    def read_sample(self, row: Any) -> Sample | RowError:
        """Return the sample of one row, or the error that says why there is none.

        Args:
            row: A row of a table; a sample or an error, which is returned as it is; or
                a result of a report, whose sample is to be judged again.
        """
        if isinstance(row, SampleResult):
            row = row.sample or RowError(row.problem)
        if isinstance(row, (Sample, RowError)):
            return row
        try:
            fields = fields_of_row(row)
            sample = sample_from_row(fields, self._columns)
            _refuse_rows_inside(fields, sample)
        except RowError as error:
            return error

        # which columns the row has, and which needed fields its sample has
        self._n_samples += 1
        columns = dict.fromkeys(map(str, fields))
        for column in columns:
            if len(self.columns) <= _MOST_NAMES:
                self.columns[column] = None
        # What no field was read from has become metadata of the sample.
        usual = columns_with_usual_names(tuple(columns))
        for name, value in sample.metadata.items():
            column = column_of(columns, name)
            is_noted = name in self.unread or len(self.unread) < _MOST_COLUMNS
            if column in columns and is_noted:
                # what holds it is read
                key = name if name == column else name.rpartition(".")[2]
                is_usual = name in usual or key in USUAL_NAMES["question"]
                self.unread[name] += not is_usual and may_be_of_application(
                    key, value, sample.answer
                )
        doubts = {} if sample.capture is None else sample.capture.doubts
        words_by_code = {
            code: doubts[code] for code in _DOUBTS_OF_TABLE & doubts.keys()
        }
        named = self._columns.get("contexts")
        if isinstance(named, str) and isinstance(data_in(fields.get(named)), str):
            words_by_code["joined"] = (
                f"each text in {named} is one context (several: write a list)"
            )
        for code, words in words_by_code.items():
            n_rows, first_words = self._doubts.get(code, (0, words))
            self._doubts[code] = (n_rows + 1, first_words)
        self._n_contexts_alone += bool(sample.context_texts) and not (
            sample.question or sample.answer
        )
        is_told_apart = sample.question or holds_prose(sample.answer)
        if is_told_apart and len(sample.context_texts) == 1:
            (text,) = sample.context_texts
            answer = hash(sample.answer) if sample.answer else 0
            self._hashes_of_chunks.extend((hash(sample.question), answer, hash(text)))
        fields_held = {
            field
            for field, substitute in _SUBSTITUTE_BY_NEEDED_FIELD.items()
            if not (sample.missing(field) and sample.missing(substitute))
        }
        self._fields_of_any_sample.update(fields_held)
        if len(fields_held - {"question"}) >= _FIELDS_PER_METRIC:
            self._a_metric_may_apply = True
        return sample

    @property
    def sentences(self) -> list[str]:
        """What people should know of the table, a sentence each; [] for nothing."""
        sentences = []
        # A column that was not recognised may hold a field that all rows lack. A missing
        # question or reference is told only where no shipped metric can apply, since many
        # tables have none.
        absent_fields = [
            field
            for field in _SUBSTITUTE_BY_NEEDED_FIELD  # its keys: the needed fields
            if field not in self._fields_of_any_sample
        ]
        are_dispensable = {"question", "reference"}.issuperset(absent_fields)
        is_told = not (are_dispensable and self._a_metric_may_apply)
        # The texts of an application may stand in a column that no field takes, beside
        # those that are expected. Who names both columns has chosen, and which columns
        # a function reads nobody knows.
        is_chosen = {"answer", "contexts"} <= self._columns.keys()
        is_chosen = is_chosen or any(map(callable, self._columns.values()))
        prose = [
            column
            for column, n_rows in self.unread.items()
            if 2 * n_rows > self._n_samples or (n_rows and may_hold_answers(column))
        ]
        if absent_fields and self.unread and is_told:
            columns = names_in_words(self.unread, most=_MOST_NAMES)
            options = ", ".join(f"--{field}-column" for field in absent_fields)
            arguments = ", ".join(f"{field}_column=" for field in absent_fields)
            sentences.append(
                f"no row has {' or '.join(absent_fields)}; name the column by"
                f" {options} (in Python {arguments}); not recognised: {columns}"
            )
        elif prose and not is_chosen:
            fields = [*absent_fields, "answer", "contexts", "history"]
            options = " or ".join(f"--{field}-column" for field in fields)
            sentences.append(
                f"no field takes the texts in {names_in_words(prose, most=_MOST_NAMES)}"
                f" (if one should: {options}, in Python {fields[0]}_column=)"
            )
        if 0 < self._n_contexts_alone < self._n_samples:
            sentences.append(
                f"{count_in_words(self._n_contexts_alone, 'row')} of contexts alone: if"
                " they belong to the row above, as in merged cells, group them into it"
            )
        n_chunk_rows = _count_chunk_rows(self._hashes_of_chunks)
        if n_chunk_rows:
            sentences.append(
                "the same question and answer stand in"
                f" {count_in_words(n_chunk_rows, 'row')} with other contexts: if these"
                " are chunks of one answer, group them into one row"
            )
        for code, (n_rows, words) in sorted(self._doubts.items()):
            # where rows stand for chunks, the one text is a chunk
            if code != "joined" or n_rows > n_chunk_rows:
                sentences.append(f"{count_in_words(n_rows, 'row')}: {words}")
        return sentences


def _count_chunk_rows(hashes: Sequence[int]) -> int:
    """Count the rows with the question and answer of another one, and another context.

    A join gives a row for each chunk, perhaps with the answer in one of them alone.

    Args:
        hashes: Of each row those of the question, the answer, 0 for none, and the text.
    """
    rows = list(zip(hashes[::3], hashes[1::3], hashes[2::3], strict=True))
    answers: dict[int, set[int]] = {}
    for question, answer, _ in rows:
        answers.setdefault(question, set()).add(answer)
    texts: dict[tuple[int, int], list[int]] = {}
    for question, answer, text in rows:
        said = answers[question] - {0}
        if answer or len(said) == 1:
            texts.setdefault((question, answer or min(said)), []).append(text)
    return sum(len(each) for each in texts.values() if len(set(each)) > 1)
