"""Names that people write.

A clear name is found. Any other is refused, with the nearest name there is.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib.resources import files
from numbers import Real
from typing import Any, Protocol

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.scalars import is_blank, is_present

# What no name of a column holds, and many a sentence does.
_SENTENCE = re.compile(r"[?!;,]|\.(?:\s|$)")
# Characters and words of a name; a longer one may be a text of a sample.
_LONGEST_NAME = 40
_MOST_WORDS = 4

# From this share of equal characters on, two names differ by a slip of the hand.
_LEAST_LIKENESS = 0.7


@lru_cache(maxsize=4096)
def plain_name(name: str) -> str:
    """Return a name without case, separators and invisible signs.

    Hyphens, underscores, white space of any kind and signs without a shape are left
    out.
    """
    return "".join(
        character
        for character in name.casefold()
        if character not in "_-" and not is_blank(character)
    )


def repeats_header(row: Mapping[Any, Any]) -> bool:
    """Tell whether each cell of a row is its column's name, as in a header.

    Files were joined, perhaps with their byte order marks. Numbers and empty cells, as
    of an index without a name, do not count.

    Examples:
        >>> repeats_header({"": 7, "id": "\ufeffid", "answer": "answer"})
        True
    """
    cells = {
        name: cell
        for name, cell in row.items()
        if is_present(cell) and not isinstance(cell, Real)
    }
    return bool(cells) and all(
        isinstance(cell, str) and _as_in_header(cell) == _as_in_header(str(name))
        for name, cell in cells.items()
    )


def _as_in_header(cell: str) -> str:
    return cell.strip('\ufeff" ').casefold()


TRACE_IDS = ("trace_id", "traceId", "context.trace_id")
PARENT_IDS = (
    "parent_id",
    "parentSpanId",
    "parent_span_id",
    "parentObservationId",
    "parent_observation_id",
    "parent_run_id",
)
OTLP_GROUPS = ("resourceSpans", "scopeSpans", "resourceLogs", "scopeLogs")


def is_of_trace(row: Mapping[Any, Any]) -> bool:
    """Tell whether a row is spans of a trace, or a call that another one made.

    Examples:
        >>> is_of_trace({"trace_id": "7", "parent_run_id": "8", "inputs": "Rewrite it."})
        True
    """
    context, data = row.get("context"), row.get("data")
    is_in_trace = any(map(row.get, TRACE_IDS)) or (
        isinstance(context, Mapping) and "trace_id" in context
    )
    holds_spans = isinstance(data, Mapping) and "spans" in data
    is_called = is_in_trace and any(map(row.get, PARENT_IDS))
    return is_called or holds_spans or any(name in row for name in OTLP_GROUPS)


HEADER_REPEATED = "it repeats the header: files were joined; take it out"
"""What is wrong with such a row."""


def find_repeated_names(names: Iterable[str]) -> list[str]:
    """List the names that occur more than once, for a message.

    A name that may be a text of a sample is not shown.

    Examples:
        >>> find_repeated_names(["id", "answer", "id", "Who lit it?", "Who lit it?"])
        ['id', 'a name that may be a text']
    """
    return [
        "a name that may be a text" if _may_be_text(name) else name
        for name, count in Counter(names).items()
        if count > 1
    ]


def names_in_words(names: Iterable[str], *, most: int) -> str:
    """Join names of columns or keys for a message, without showing texts of samples.

    In a table without a header the texts of the first row are taken for names. Where one
    name may be a text, they are counted instead of shown.

    Args:
        names: The names.
        most: How many names are shown at most.

    Examples:
        >>> names_in_words(["user.id", "Ground truth"], most=12)
        'user.id, Ground truth'
        >>> names_in_words(["Who lit it?", "Anna"], most=12)
        '2 whose names may be texts (a table without a header?)'
    """
    all_names = list(names)
    if any(map(_may_be_text, all_names)):
        return f"{len(all_names)} whose names may be texts (a table without a header?)"
    words = ", ".join(all_names[:most])
    return f"{words}, …" if len(all_names) > most else words


def _may_be_text(name: str) -> bool:
    """Tell whether a name may be a sample's text: it is long, or looks like a sentence."""
    is_long = len(name) > _LONGEST_NAME or len(name.split()) > _MOST_WORDS
    return is_long or _SENTENCE.search(name) is not None


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is spelt most like a name; None if none is near.

    Examples:
        >>> nearest_name("langauge", ["language", "topic"])
        'language'
    """
    by_plain_name = {plain_name(candidate): candidate for candidate in known}
    matches = get_close_matches(
        plain_name(name), by_plain_name, n=1, cutoff=_LEAST_LIKENESS
    )
    return by_plain_name[matches[0]] if matches else None


def did_you_mean(
    name: str, known: Iterable[str], *, stands_for: Mapping[str, str] | None = None
) -> str:
    """``" (did you mean 'language'?)"``, or nothing where no known name is near.

    ``stands_for`` says for short names and aliases among the known what they mean.
    """
    near = nearest_name(name, known)
    if near is None:
        return ""
    meant = near if stands_for is None else stands_for.get(near, near)
    return f" (did you mean {meant!r}?)"


class Named(Protocol):
    """A metric, as far as it is known here."""

    @property
    def name(self) -> str:
        """Key of its results."""


def find_metric(
    named: str | Named | type[Named], metrics: Sequence[str], *, place: str
) -> str:
    """Find the metric of a run by its full name or its last word; return the full name.

    With ``my_tone`` in the run, "tone" is enough. With ``my_tone`` and ``your_tone`` it
    means two metrics, and is an error. "mine:tone", as ``--metrics`` takes it, is "tone".

    Args:
        named: The written name; case, spaces, hyphens and underscores do not matter. Or
            the metric, or its class, which stands for it with the usual settings.
        metrics: Full names of the metrics of the run.
        place: Where the metric is looked for, for the message, e.g. ``in this report``.

    Raises:
        SettingError: If the name means no metric of the run, or more than one.

    Examples:
        >>> find_metric("recall", ["context_recall", "my_tone"], place="in this report")
        'context_recall'
    """
    name: object = named
    if isinstance(named, type):
        with suppress(TypeError):  # one that needs settings is refused below
            name = named()
    if not isinstance(name, str):
        name = getattr(name, "name", None)
    if not isinstance(name, str):
        kind = named if isinstance(named, type) else type(named)
        raise SettingError(
            "a metric is given by its name, as an object, or as a class that needs no"
            f" settings; got a {kind.__name__}"
        )
    if name in metrics:
        return name
    plain = plain_name(name.rpartition(":")[2])
    candidates = [metric for metric in metrics if plain_name(metric) == plain]
    if not candidates:
        candidates = [
            metric for metric in metrics if plain_name(_last_word(metric)) == plain
        ]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise SettingError(
            f"{name!r} means several metrics {place}: {', '.join(candidates)}; write"
            " the full name"
        )
    # "tome" is near the last word of "my_tone"; "faithfulness" is elsewhere the name of
    # context_adherence
    hint = ""
    meant = metric_meant_by(name, metrics)
    if meant in metrics:
        hint = f" (did you mean {meant!r}?)"
    elif meant is not None:
        hint = f" ({meant} was not asked for: add it to the metrics)"
    metrics_in_words = ", ".join(metrics) or "none"
    raise SettingError(
        f"no metric {name!r} {place}{hint}; there are: {metrics_in_words}"
    )


def metric_meant_by(name: str, own: Iterable[str] = ()) -> str | None:
    """Return the metric that a name may mean, by its usual names here and elsewhere.

    Args:
        name: The name, e.g. "FaithfulnessMetric" of another library.
        own: Full names of further metrics, which come before ours.

    Returns:
        The metric's full name; None if no name is near.
    """
    names = list(own)
    full_name_of = {
        **_full_names_by_alias(),
        **{_last_word(metric): metric for metric in names},
        **{metric: metric for metric in names},
    }
    plain = plain_name(name).removesuffix("metric").removesuffix("evaluator")
    near = nearest_name(plain, full_name_of)
    return None if near is None else full_name_of[near]


@cache
def _full_names_by_alias() -> dict[str, str]:
    """Return the full name of a metric of ours, by each name that people may write.

    Example: "faithfulness" (its name in another library) and the short "adherence" both
    mean "context_adherence".
    """
    import tomllib  # a run whose metrics are named in full reads no aliases

    resource = files("ragmetrics_core.data").joinpath("aliases.toml")
    aliases_by_name: dict[str, list[str]] = tomllib.loads(resource.read_text("utf-8"))
    full_name_by_alias: dict[str, str] = {}
    for full, aliases in aliases_by_name.items():
        for alias in (full, *aliases, _last_word(full)):
            full_name_by_alias.setdefault(alias, full)
    return full_name_by_alias


def _last_word(metric: str) -> str:
    return metric.rpartition("_")[2]
