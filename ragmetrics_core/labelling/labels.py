"""Labels of people for the samples of a run: drawn, read, matched with its scores, and what follows from them."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragmetrics_core.data import (
    Sample,
    follow,
    json_lines,
    metric_among,
    number_as_text,
    open_text,
)
from ragmetrics_core.data.cells import plain_data
from ragmetrics_core.data.errors import InputError, RowError, SettingError
from ragmetrics_core.data.frozen import clean
from ragmetrics_core.reporting.pairing import (
    GroupBy,
    KeysSought,
    group_pairs,
    numbering,
)
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.statistics.certification import Certified, certify
from ragmetrics_core.statistics.corrected_means import (
    CorrectedMean,
    Scores,
    ppi,
)
from ragmetrics_core.statistics.rater_agreement import Labelled

_NAMED = 5
_NEITHER = 0.5
# what a person is shown who labels
_SHOWN = ("question", "answer", "contexts", "reference")


@dataclass(frozen=True, slots=True)
class Label:
    """What people said of one sample.

    Args:
        id: The sample's id.
        votes: One vote per annotator; a graded label above 0.5 is a yes. Empty if it
            was drawn and not labelled.
        source: Where the sample comes from.
        probability: Probability with which it was drawn; None if no draw recorded one.
        metric: The metric that it was drawn for; None if that was not recorded.
        shown: What the person was shown, by field of the sample, as far as it was
            recorded.
    """

    id: str
    votes: tuple[bool, ...]
    source: str = "all"
    probability: float | None = None
    metric: str | None = None
    shown: Mapping[str, Any] = field(default_factory=dict, hash=False)


def read_labels(path: Path, *, column: str = "label") -> list[Label]:
    """Read labels, one JSON object per line: ``{"id": "s1", "label": 1, "source": "faq"}``; ``source`` is optional.

    ``column`` is the name or dotted path of the label: 0/1, true/false, a number from 0
    to 1 but not 0.5, or a list of these, one per annotator. A tie of annotators is a no.
    ``InputError`` if the file cannot be read or has no label; ``RowError`` names a
    broken line.
    """
    with open_text(path) as file:
        labels = [_label(row, place, column) for place, row in json_lines(path, file)]
    if not labels:
        raise InputError(f"{path} has no labels")
    return labels


def _label(row: Any, place: str, column: str) -> Label:
    """The label on one line; ``RowError`` names the place and what is wrong."""
    name = _id_of(row, place)
    _, votes_value = follow(row, column.split("."))
    probability = _probability_of(row, place)
    votes: tuple[bool, ...] = ()
    is_unlabelled_draw = votes_value is None and probability is not None
    if not is_unlabelled_draw:
        votes = votes_of(votes_value, f"{place}: {column!r}")
    if any(plain_data(vote) == _NEITHER for vote in _as_list(votes_value)):
        raise RowError(
            f"{place}: {column!r} is 0.5, which says neither yes nor no; write 0 or 1, or"
            " leave the line out"
        )
    metric = row.get("metric")
    return Label(
        id=name,
        votes=votes,
        source=str(row.get("source") or "all"),
        probability=probability,
        metric=metric if isinstance(metric, str) else None,
        shown={name: row[name] for name in _SHOWN if name in row},
    )


def _id_of(row: Any, place: str) -> str:
    name = number_as_text(row.get("id")) if isinstance(row, Mapping) else None
    if isinstance(name, str) and name not in ("nan", "inf", "-inf"):
        return name
    if isinstance(row, RowError):
        raise RowError(f"{place}: {row}")
    raise RowError(
        f'{place}: needs an object with "id", a text or a number, and the label'
    )


def _probability_of(row: Mapping[str, Any], place: str) -> float | None:
    """The probability with which a sample was drawn; None if no draw recorded one."""
    value = row.get("probability")
    if value is None:
        return None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 < value <= 1:
        raise RowError(
            f"{place}: 'probability' must be a number above 0 up to 1, or left out if"
            " no draw recorded one"
        )
    probability: float = value
    return probability


def _as_list(value: Any) -> Sequence[Any]:
    value = plain_data(value)
    return value if isinstance(value, (list, tuple)) else [value]


def votes_of(value: Any, name: str) -> tuple[bool, ...]:
    """A vote, or a list with one per annotator; a number from 0.5 on is a yes.

    ``RowError`` names what is none.
    """
    votes = [plain_data(vote) for vote in _as_list(value)]
    if not votes or not all(
        isinstance(vote, (bool, int, float)) and 0 <= vote <= 1 for vote in votes
    ):
        raise RowError(
            f"{name} must be a number from 0 to 1, true or false, or a list of these"
        )
    return tuple(float(vote) >= 0.5 for vote in votes)


def matched(
    report: Report, metric: str, labels: Sequence[Label], rival: Report | None = None
) -> list[Labelled]:
    """Scores with their labels, matched by id; samples without a score are left out.

    ``InputError`` if nothing matches, an id stands for several samples or labels, or
    labels were given for another metric or for other texts than those of their samples,
    as are those of a rival's.
    """
    scored = _scored(report, metric)
    scored_by_rival = _scored(rival, metric) if rival is not None else {}
    _refuse_labels_of_others(report, metric, labels)
    _refuse_other_texts(scored, scored_by_rival)
    rows = []
    for name, label in _voted(labels).items():
        if name not in scored or (rival is not None and name not in scored_by_rival):
            continue
        _, score = scored[name]
        rival_score = None
        if rival is not None:
            _, rival_score = scored_by_rival[name]
        rows.append(Labelled(score, label.votes, label.source, rival_score, name))
    if not rows:
        raise InputError(
            f"no scored sample of {metric} has a label; labels and samples are matched"
            f" by id, and there are labels for: {_listed([label.id for label in labels])}"
        )
    return rows


def in_clusters(
    rows: Sequence[Labelled],
    report: Report,
    rival: Report | None = None,
    *,
    cluster: GroupBy = "auto",
) -> list[list[Labelled]]:
    """Labelled rows in groups of those that belong together in either run.

    A group holds rows of one source. A row that stands alone is a group.

    Args:
        rows: What ``matched`` gave for the same runs.
        report: The run.
        rival: That of another judge, if there is one.
        cluster: Which samples belong together, as in ``Report.summary``.

    Raises:
        SettingError: If no sample has the key of the clusters.
    """
    samples = _samples_by_id(report)
    rival_samples = _samples_by_id(rival) if rival is not None else {}
    keys = KeysSought(cluster=cluster)
    for sample in samples.values():
        keys.look(sample)
    keys.check()
    pairs = [(samples.get(row.id), rival_samples.get(row.id)) for row in rows]
    groups: dict[tuple[str, str | int], list[Labelled]] = {}
    for place, (row, name) in enumerate(
        zip(rows, group_pairs(pairs, cluster), strict=True)
    ):
        key = (row.source, place if name is None else name)
        groups.setdefault(key, []).append(row)
    return list(groups.values())


def _samples_by_id(report: Report) -> dict[str | None, Sample]:
    return {
        row.sample.id: row.sample for row in report.results if row.sample is not None
    }


def _refuse_labels_of_others(
    report: Report, metric: str, labels: Sequence[Label]
) -> None:
    """Raise ``InputError`` for labels that, by their own record, speak of another metric, or of other texts."""
    recorded = {label.metric for label in labels if label.metric is not None}
    others = sorted(
        name for name in recorded if not _names_metric(name, metric, report)
    )
    if others:
        raise InputError(
            f"these labels were given for {', '.join(others)}, not for {metric}; draw"
            f" labels for {metric}, or, if they answer its question too, take"
            ' "metric" out of their lines'
        )
    samples = _samples_by_id(report)
    wrong = [
        label.id
        for label in labels
        if label.id in samples and _shows_other_texts(label, samples[label.id])
    ]
    if wrong:
        raise InputError(
            f"{len(wrong)} of {len(labels)} labels were given for another question,"
            " answer, contexts or reference than the sample of their id has now:"
            f" {_listed(wrong)}; label the samples of this run"
        )


def _names_metric(name: str, metric: str, report: Report) -> bool:
    """Whether a name, also a short one, is that of the metric."""
    try:
        return (
            metric_among(name, [metric, *report.metrics], place="in this run") == metric
        )
    except SettingError:
        return False


def _shows_other_texts(label: Label, sample: Sample) -> bool:
    """Whether a label recorded other texts than the sample has.

    What was not recorded in our own form says nothing.
    """
    now = _texts_shown(sample)
    return any(
        _is_as_drawn(text) and _plain(text) != _plain(now[name])
        for name, text in label.shown.items()
    )


def _texts_shown(sample: Sample) -> dict[str, Any]:
    return {
        "question": sample.question,
        "answer": sample.answer,
        "contexts": [context.text for context in sample.contexts],
        "reference": list(sample.reference),
    }


def _is_as_drawn(value: Any) -> bool:
    is_list_of_texts = isinstance(value, list) and all(
        isinstance(text, str) for text in value
    )
    return value is None or isinstance(value, str) or is_list_of_texts


def _plain(value: Any) -> list[str]:
    """A text, or several, without what an editor may change.

    Nothing and empty texts are one.
    """
    texts = [value] if value is None or isinstance(value, str) else value
    return [" ".join(str(clean(text)).split()) for text in texts if text]


def _refuse_other_texts(
    own: Mapping[str, tuple[Sample, float]], rivals: Mapping[str, tuple[Sample, float]]
) -> None:
    """Raise ``InputError`` if two judges' runs hold other samples under one id."""
    wrong = [
        name
        for name in own
        if name in rivals and _texts_differ(own[name][0], rivals[name][0])
    ]
    if wrong:
        raise InputError(
            "the other run has another question, answer, contexts or reference for"
            f" {len(wrong)} samples of one id: {_listed(wrong)}; two judges are compared"
            " on the same samples"
        )


def _texts_differ(first: Sample, second: Sample) -> bool:
    shown = _texts_shown(second)
    return any(
        _plain(text) != _plain(shown[name])
        for name, text in _texts_shown(first).items()
    )


def left_over(report: Report, metric: str, labels: Sequence[Label]) -> list[str]:
    """Which labels enter no number, in words: their id is that of no sample, or the sample has no score."""
    samples = _samples_by_id(report)
    scored = _scored(report, metric)
    strangers = [label.id for label in labels if label.id not in samples]
    without_score = [
        label.id
        for label in labels
        if label.votes and label.id in samples and label.id not in scored
    ]
    sentences = []
    if strangers:
        count = len(strangers)
        sentences.append(f"labels that match no sample ({count}): {_listed(strangers)}")
    if without_score:
        count = len(without_score)
        sentences.append(
            f"labelled samples without a score ({count}): {_listed(without_score)}"
        )
    return sentences


def _voted(labels: Sequence[Label]) -> dict[str, Label]:
    """The labels that hold votes, by id."""
    repeated_ids = _repeated([label.id for label in labels])
    if repeated_ids:
        raise InputError(
            "one line per sample is needed, with a list for several votes; labelled"
            f" more than once: {repeated_ids}"
        )
    return {label.id: label for label in labels if label.votes}


def _scored(report: Report, metric: str) -> dict[str, tuple[Sample, float]]:
    """The scored samples of a run with their scores, by id."""
    pairs: list[tuple[Sample, float]] = []
    ids: list[str] = []  # of all samples, scored or not
    scores = report.scores(metric)
    for row, score in zip(report.results, scores, strict=True):
        if row.sample is None:
            continue
        if row.sample.id is not None:
            ids.append(row.sample.id)
        if score is not None:
            pairs.append((row.sample, score))
    rule = "every sample needs an id of its own to be labelled"
    n_nameless = sum(sample.id is None for sample, _ in pairs)
    if n_nameless:
        raise InputError(f"{rule}; {n_nameless} have none")
    repeated_ids = _repeated(ids)
    if repeated_ids:
        raise InputError(f"{rule}; more than one has: {repeated_ids}")
    return {str(sample.id): (sample, score) for sample, score in pairs}


def _repeated(names: Sequence[str]) -> str:
    return _listed([name for name, count in Counter(names).items() if count > 1])


def _listed(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def draw(
    report: Report, metric: str, count: int, *, seed: int, by_score: bool = False
) -> list[dict[str, Any]]:
    """Draw scored samples for people to label, at random, each with the same known probability.

    Args:
        report: A run; its samples need ids of their own.
        metric: Name of the metric whose mean is to be calibrated.
        count: How many to draw.
        seed: Of the draw.
        by_score: Draw evenly over the range of scores: systematically from the samples
            in order of their score, ties in random order. Every sample keeps the same
            probability.

    Returns:
        One row per drawn sample, in random order: id, empty ``label``, probability and
        seed, and what a person needs to judge it; no score, which would sway the
        person.

    Raises:
        InputError: If a scored sample has no id, or several samples share one.
        SettingError: If fewer samples are scored than are to be drawn, or none is to be
            drawn.
    """
    if report.decisions:
        raise InputError(
            "a run until decided cannot be labelled for calibration: judge all of its"
            " rows"
        )
    order = list(_scored(report, metric).values())
    if not 1 <= count <= len(order):
        raise SettingError(
            f"{len(order)} samples are scored, so 1 to {len(order)} can be drawn; asked"
            f" for {count}"
        )
    draw_number = random.Random(seed)  # noqa: S311  # sampling is no cryptography
    probability = count / len(order)
    draw_number.shuffle(order)
    if by_score:
        order.sort(key=_score_of)  # stable: ties stay in random order
        step = len(order) / count
        start = draw_number.random()
        order = [order[int((start + place) * step)] for place in range(count)]
        draw_number.shuffle(order)
    return [
        {
            "id": sample.id,
            "label": None,
            "probability": probability,
            "seed": seed,
            **_texts_shown(sample),
            "metric": metric,
        }
        for sample, _ in order[:count]
    ]


def _score_of(pair: tuple[Sample, float]) -> float:
    return pair[1]


def calibrate(
    report: Report,
    metric: str,
    labels: Sequence[Label],
    *,
    cluster: GroupBy = "auto",
    assume_random: bool = False,
) -> CorrectedMean:
    """The mean label over all scored samples of a run, from labels that were drawn at random.

    Args:
        report: The run.
        metric: Name of the metric.
        labels: Labels, as ``draw`` drew them and people filled them in.
        cluster: Which samples belong together.
        assume_random: Take labels that no draw recorded, or that were filled in partly,
            for a random sample.

    Raises:
        InputError: If the labels are no random sample by their own record, or none
            belongs to a scored sample.

    Source:
        PPI++: Angelopoulos, Duchi & Zrnic (2023), arXiv:2311.01453.
    """
    if report.decisions:
        raise InputError(
            "a run until decided cannot be calibrated: it stopped for what it saw;"
            " judge all of its rows"
        )
    label_by_id = _drawn(report, metric, labels, assume_random)
    scored = _scored(report, metric)
    keys = KeysSought(cluster=cluster)
    for sample, _ in scored.values():
        keys.look(sample)
    keys.check()
    number_of = numbering(cluster)
    numbered = {
        name: (score, number_of(sample)) for name, (sample, score) in scored.items()
    }
    labelled = [name for name in numbered if name in label_by_id]
    unlabelled = [name for name in numbered if name not in label_by_id]
    return ppi(
        [label_by_id[name] for name in labelled],
        _scores_of(labelled, numbered),
        _scores_of(unlabelled, numbered),
    )


def _scores_of(
    names: Sequence[str], numbered: Mapping[str, tuple[float, int]]
) -> Scores:
    """Scores of these samples, with the numbers of their clusters."""
    values = [numbered[name][0] for name in names]
    return Scores(values, [numbered[name][1] for name in names])


def certify_precision(
    report: Report,
    metric: str,
    labels: Sequence[Label],
    target: float,
    *,
    assume_random: bool = False,
) -> Certified:
    """Certify a threshold of a run's scores for a precision.

    Arguments and errors are those of ``calibrate``.
    """
    label_by_id = _drawn(report, metric, labels, assume_random)
    scored = _scored(report, metric)
    labelled = [
        (score, label_by_id[name])
        for name, (_, score) in scored.items()
        if name in label_by_id
    ]
    return certify(labelled, [score for _, score in scored.values()], target)


def _drawn(
    report: Report, metric: str, labels: Sequence[Label], assume_random: bool
) -> dict[str, bool]:
    """The majority's votes by id.

    Refused unless the labels are, by their own record, all that one draw drew.
    """
    _refuse_labels_of_others(report, metric, labels)
    voted = _voted(labels)
    if not assume_random:
        _refuse_other_than_a_draw(
            labels, empty=len(labels) - len(voted), scored=len(_scored(report, metric))
        )
    return {name: Labelled(0.0, label.votes).yes for name, label in voted.items()}


def _refuse_other_than_a_draw(
    labels: Sequence[Label], *, empty: int, scored: int
) -> None:
    """Raise ``InputError`` unless labels are, by their own record, all that one draw drew from all scored samples.

    Fewer samples may be scored now than when the labels were drawn: those that are left
    are still a random sample.
    """
    if empty:
        raise InputError(
            f"{empty} of {len(labels)} drawn samples have no label, and those may be"
            " the hard ones"
        )
    chances = {label.probability for label in labels}
    chance = next(iter(chances), None)
    if len(chances) != 1 or chance is None:
        raise InputError(
            "a calibrated mean needs labels drawn at random: draw them with `ragmetrics"
            " label draw`, or say that they are a random sample (assume_random=True,"
            " --assume-random)"
        )
    expected = chance * scored
    if len(labels) < expected - 0.5:
        raise InputError(
            f"{len(labels)} labels with a probability of {chance:g} are no draw from"
            f" the {scored} scored samples, of which it takes {expected:.0f}: labels"
            " are missing, or were drawn from another run; draw them from this run, or"
            " say that they are a random sample of it (assume_random=True,"
            " --assume-random)"
        )
