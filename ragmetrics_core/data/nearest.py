"""Names that people write.

A clear name is found. Any other is refused, with the nearest name there is.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.frozen import is_blank

SHIPPED_METRICS = (
    "context_utilization",
    "context_adherence",
    "context_recall",
    "retrieval_accuracy",
)
"""The metrics whose last word alone means them, in the order in which they are listed.
"""

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


def find_repeated_names(names: Iterable[str]) -> list[str]:
    """The names that occur more than once, each once, in their order, for a message.

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
    """Names of columns or keys for a message, which must hold no texts of samples.

    In a table without a header the texts of the first row stand as names. So names that
    may be texts are counted and not shown. Where there is such a name, names of several
    words are not shown either. Where half of the names or more are not shown, none is.

    Args:
        names: The names.
        most: How many names are shown at most.

    Examples:
        >>> names_in_words(["user.id", "Ground truth"], most=12)
        'user.id, Ground truth'
        >>> names_in_words(["user.id", "lang", "Who lit it?"], most=12)
        'user.id, lang and 1 that may be a text'
        >>> names_in_words(["Who lit it?", "Anna"], most=12)
        '2 whose names may be texts (a table without a header?)'
    """
    all_names = list(names)
    shown_names = [name for name in all_names if not _may_be_text(name)]
    has_text = len(shown_names) < len(all_names)
    if has_text:  # then a name of several words is likely a text, too
        shown_names = [name for name in shown_names if len(name.split()) < 2]
    n_texts = len(all_names) - len(shown_names)
    if n_texts and n_texts >= len(shown_names):
        count = len(all_names)
        return f"{count} whose names may be texts (a table without a header?)"
    words = ", ".join(shown_names[:most])
    if len(shown_names) > most:
        words += ", …"
    if n_texts == 1:
        words += " and 1 that may be a text"
    elif n_texts > 1:
        words += f" and {n_texts} that may be texts"
    return words


def _may_be_text(name: str) -> bool:
    """Whether a name is long, or has signs of a sentence: a sample's text may be one."""
    is_long = len(name) > _LONGEST_NAME or len(name.split()) > _MOST_WORDS
    return is_long or _SENTENCE.search(name) is not None


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that is written most like this one; None if none is near.

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


def find_metric(name: str, metrics: Sequence[str], *, place: str) -> str:
    """The full name of the metric that is meant, among those of a run.

    A full name comes first. The last word of a shipped metric means that metric and no
    other. The last word of another metric is enough where no second one ends in it.

    Args:
        name: The name as it was written; case, spaces, hyphens and underscores do not
            matter.
        metrics: Full names of the metrics of the run.
        place: Where the metric was looked for, for the message, e.g. ``in this
            report``.

    Raises:
        SettingError: If no metric is meant, or more than one; the message names the
            nearest, or both.

    Examples:
        >>> find_metric("recall", ["mine_recall", "context_recall"], place="in this report")
        'context_recall'
    """
    if name in metrics:
        return name
    plain = plain_name(name)
    shipped = _metric_of_word(plain)
    if shipped is not None and shipped in metrics:
        return shipped
    candidates = [metric for metric in metrics if plain_name(metric) == plain]
    # The last word of a shipped metric means no other, also where that is not here.
    if not candidates and shipped is None:
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
    full_names = {_last_word(metric): metric for metric in metrics}
    full_names |= {metric: metric for metric in metrics}
    hint = did_you_mean(name, full_names, stands_for=full_names)
    metrics_in_words = ", ".join(metrics) or "none"
    raise SettingError(
        f"no metric {name!r} {place}{hint}; there are: {metrics_in_words}"
    )


def _last_word(metric: str) -> str:
    return metric.rpartition("_")[2]


def _metric_of_word(plain_word: str) -> str | None:
    """The shipped metric that this word alone means; None for another word."""
    for metric in SHIPPED_METRICS:
        if plain_name(_last_word(metric)) == plain_word:
            return metric
    return None
