"""Labels that people give samples of a run, and what follows from them.

Samples are drawn, their labels are read and matched with the scores of the run.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ragmetrics_core.data import (
    Sample,
    find_metric,
    follow_path,
    json_lines,
    number_as_text,
    open_text,
)
from ragmetrics_core.data.errors import InputError, RowError, SettingError
from ragmetrics_core.data.frozen import replace_surrogates
from ragmetrics_core.data.number_values import is_number, plain_data
from ragmetrics_core.data.one_half import is_yes
from ragmetrics_core.reporting.groups import GroupBy, KeysSought, group_of, numbering
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.statistics.corrected_means import (
    CorrectedMean,
    Scores,
    ppi,
)
from ragmetrics_core.statistics.rater_agreement import Labelled

_MOST_IDS_LISTED = 5
# a label that says neither yes nor no
_UNDECIDED = 0.5
# the source of labels that name none
_NO_SOURCE = "all"
# the fields of a sample that a person who labels it is shown
_SHOWN_FIELDS = ("question", "answer", "contexts", "reference")


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
        shown: The texts that the person was shown, by field of the sample, as far as a
            draw recorded them.
    """

    id: str
    votes: tuple[bool, ...]
    source: str = _NO_SOURCE
    probability: float | None = None
    metric: str | None = None
    shown: Mapping[str, list[str]] = field(default_factory=dict, hash=False)


class _ScoredSample(NamedTuple):
    """A sample with its score, and the id under which it is labelled."""

    id: str
    sample: Sample
    score: float


class _ScoredRun:
    """The samples of a run by their ids, and those that a metric scored.

    Attributes:
        samples: All samples.
        scored: Those with a score.

    Raises:
        InputError: If two samples of the run, scored or not, have the same id.
    """

    def __init__(self, report: Report, metric: str) -> None:
        self.samples: dict[str, Sample] = {}
        self.scored: dict[str, _ScoredSample] = {}
        ids: list[str] = []
        for row, score in zip(report.results, report.scores(metric), strict=True):
            sample = row.sample
            sample_id = row.label_id
            if sample is None or sample_id is None:  # the row could not be read
                continue
            ids.append(sample_id)
            self.samples[sample_id] = sample
            if score is not None:
                self.scored[sample_id] = _ScoredSample(sample_id, sample, score)
        repeated_ids = _find_repeated(ids)
        if repeated_ids:
            raise InputError(
                "every sample needs an id of its own to be labelled; more than one has:"
                f" {_list_first(repeated_ids)}"
            )


def read_labels(path: Path, *, column: str = "label") -> list[Label]:
    """Read labels, one JSON object per line.

    Example of a line: ``{"id": "s1", "label": 1, "source": "faq"}``; ``source`` is
    optional. ``column`` is the name or dotted path of the label: 0/1, true/false, a
    number from 0 to 1 but not 0.5, or a list of these, one per annotator. A tie of
    annotators is a no. ``InputError`` if the file cannot be read or has no label;
    ``RowError`` names a broken line.
    """
    with open_text(path) as file:
        labels = [_label(row, place, column) for place, row in json_lines(path, file)]
    if not labels:
        raise InputError(f"{path} has no labels")
    return labels


def fill_in_draw(drawn: Iterable[Label], labels: Sequence[Label]) -> list[Label]:
    """Give drawn samples the votes that people gave in another place, as on the page.

    The source that stands beside the votes comes along. Votes on samples that were not
    drawn are left out: they are no random sample; see ``describe_not_drawn``.
    ``InputError`` if an id has several lines.
    """
    label_by_id = _labels_with_votes(labels)
    filled_in = []
    for drawn_label in drawn:
        label = label_by_id.get(drawn_label.id, drawn_label)
        source = drawn_label.source if label.source == _NO_SOURCE else label.source
        filled_in.append(replace(drawn_label, votes=label.votes, source=source))
    return filled_in


def describe_not_drawn(drawn: Iterable[Label], labels: Iterable[Label]) -> list[str]:
    """Say in a sentence which labels are left out, as their samples were not drawn."""
    drawn_ids = {label.id for label in drawn}
    ids = [label.id for label in labels if label.id not in drawn_ids]
    if not ids:
        return []
    return [
        f"labels left out, as their samples were not drawn ({len(ids)}):"
        f" {_list_first(ids)}"
    ]


def _label(row: Any, place: str, column: str) -> Label:
    """Read the label on one line of a file: the votes of people on a sample.

    Example: ``{"id": 7, "votes": [1, 0, 1]}`` with the column "votes" is yes, no, yes
    on sample "7". ``column`` may be a dotted path to the votes: "labels.adherent".

    Raises:
        RowError: If the line has no id, or a vote that says neither yes nor no, such as
            0.5; also if it has no vote, unless it has a probability: a line of a random
            draw may still wait for its votes.
    """
    sample_id = _id_of(row, place)
    probability = _probability_of(row, place)
    was_drawn = probability is not None  # .1: the sample was drawn with this chance
    metric = row.get("metric")
    return Label(
        id=sample_id,
        votes=_votes_on_line(row, place, column, may_be_unlabelled=was_drawn),
        source=str(row.get("source") or _NO_SOURCE),
        probability=probability,
        metric=metric if isinstance(metric, str) else None,
        shown={
            name: _plain_texts(row[name])
            for name in _SHOWN_FIELDS
            if name in row and _is_as_drawn(row[name])
        },
    )


def _votes_on_line(
    row: Any, place: str, column: str, *, may_be_unlabelled: bool
) -> tuple[bool, ...]:
    """Return the votes on a line; () if it may be unlabelled, and is.

    Raises ``RowError`` for a line without a vote, or with one that says nothing.
    """
    _, votes_value = follow_path(row, column.split("."))
    if votes_value is None and may_be_unlabelled:
        return ()
    votes = votes_of(votes_value, f"{place}: {column!r}")
    if any(plain_data(vote) == _UNDECIDED for vote in _as_list(votes_value)):
        raise RowError(
            f"{place}: {column!r} is 0.5, which says neither yes nor no; write 0 or 1, or"
            " leave the line out"
        )
    return votes


def _id_of(row: Any, place: str) -> str:
    """Return the id of a line, a number as text; ``RowError`` if it has none."""
    sample_id = number_as_text(row.get("id")) if isinstance(row, Mapping) else None
    if isinstance(sample_id, str) and sample_id not in ("nan", "inf", "-inf"):
        return sample_id
    if isinstance(row, RowError):
        raise RowError(f"{place}: {row}")
    raise RowError(
        f'{place}: needs an object with "id", a text or a number, and the label'
    )


def _probability_of(row: Mapping[str, Any], place: str) -> float | None:
    """Return the probability with which a sample was drawn.

    Returns None if no draw recorded one.
    """
    value = row.get("probability")
    if value is None:
        return None
    if not is_number(value) or not 0 < value <= 1:
        raise RowError(
            f"{place}: 'probability' must be a number above 0 up to 1, or left out if"
            " no draw recorded one"
        )
    return value


def _as_list(value: Any) -> Sequence[Any]:
    votes = plain_data(value)
    if isinstance(votes, (list, tuple)):
        return votes
    return [votes]


def votes_of(value: Any, name: str) -> tuple[bool, ...]:
    """Return a vote, or a list with one per annotator; a number above 0.5 is a yes.

    ``RowError`` names what is none.
    """
    votes = [plain_data(vote) for vote in _as_list(value)]
    if not votes or not all(_is_vote(vote) for vote in votes):
        raise RowError(
            f"{name} must be a number from 0 to 1, true or false, or a list of these"
        )
    return tuple(is_yes(float(vote)) for vote in votes)


def _is_vote(value: Any) -> bool:
    return isinstance(value, (bool, int, float)) and 0 <= value <= 1


def match_labels(
    report: Report, metric: str, labels: Sequence[Label]
) -> list[Labelled]:
    """Pair the scores of a judge with the labels of people, by the id of the sample.

    Sample "7" has the score .8, and two people voted yes and no: one row with both. A
    label is left out if its sample has no score.

    Args:
        report: The judge's run.
        metric: The metric whose scores are taken.
        labels: What people said of samples.

    Raises:
        InputError: If no label has a scored sample; if an id stands for several samples
            or labels; or if labels were given for another metric, or for other texts
            than their samples have.
    """
    run = _ScoredRun(report, metric)
    _refuse_labels_of_others(run, report, metric, labels)
    rows = []
    for sample_id, label in _labels_with_votes(labels).items():
        if sample_id in run.scored:
            score = run.scored[sample_id].score
            rows.append(Labelled(score, label.votes, label.source, id=sample_id))
    if not rows:
        ids = [label.id for label in labels if label.votes]
        if not ids:
            raise InputError(
                f"the labels are empty, all {len(labels)}; put 1 or 0 in the place of"
                " each null"
            )
        raise InputError(
            f"no scored sample of {metric} has a label; labels and samples are matched"
            f" by id, and there are labels for: {_list_first(ids)}"
        )
    return rows


def group_by_cluster(
    rows: Sequence[Labelled],
    report: Report,
    *,
    cluster: GroupBy = "auto",
) -> list[list[Labelled]]:
    """Put labelled rows into groups: rows that are not independent share a group.

    Example: rows on questions 1 and 2 about document A, and on 3 about B, are the
    groups [1, 2] and [3]. Rows of two sources never share a group.

    Args:
        rows: What ``match_labels`` gave for the same run.
        report: The judge's run.
        cluster: Which samples belong together, as in ``Report.summary``.

    Raises:
        SettingError: If no sample has the key of the clusters.
    """
    sample_by_id = _samples_by_id(report)
    _check_cluster_key(sample_by_id.values(), cluster)
    groups: dict[tuple[str, str | int], list[Labelled]] = {}
    for row_index, row in enumerate(rows):
        cluster_name = group_of(sample_by_id.get(row.id), cluster)
        # a row in no cluster stands alone, under its index
        group_name = row_index if cluster_name is None else cluster_name
        groups.setdefault((row.source, group_name), []).append(row)
    return list(groups.values())


def _check_cluster_key(samples: Iterable[Sample], cluster: GroupBy) -> None:
    """Raise ``SettingError`` if no sample has the key of the clusters."""
    keys = KeysSought(cluster=cluster)
    for sample in samples:
        keys.look_in(sample)
    keys.check()


def _samples_by_id(report: Report) -> dict[str | None, Sample]:
    return {
        row.label_id: row.sample for row in report.results if row.sample is not None
    }


def _refuse_labels_of_others(
    run: _ScoredRun, report: Report, metric: str, labels: Sequence[Label]
) -> None:
    """Raise ``InputError`` for labels that were given for something else.

    A label may record the metric that it was drawn for, and the texts that the person
    was shown. The metric must be ``metric``, and the sample of the label's id must
    still have these texts. Example: sample "7" got a new answer since it was
    labelled: its label is refused. What a label does not record is not checked.
    """
    recorded_metrics = {label.metric for label in labels if label.metric is not None}
    other_metrics = sorted(
        name for name in recorded_metrics if not _is_name_of(metric, name, report)
    )
    if other_metrics:
        raise InputError(
            f"these labels were given for {', '.join(other_metrics)}, not for {metric};"
            f" draw labels for {metric}, or, if they answer its question too, take"
            ' "metric" out of their lines'
        )
    ids_with_other_texts = []
    for label in labels:
        sample = run.samples.get(label.id)
        if sample is not None and not label.shown.items() <= _texts_of(sample).items():
            ids_with_other_texts.append(label.id)
    if ids_with_other_texts:
        raise InputError(
            f"{len(ids_with_other_texts)} of {len(labels)} labels were given for another"
            " question, answer, contexts or reference than the sample of their id has"
            f" now: {_list_first(ids_with_other_texts)}; label the samples of this run"
        )


def _is_name_of(metric: str, name: str, report: Report) -> bool:
    """Tell whether a name, in full or shortened, is that of a metric."""
    known_names = list(dict.fromkeys([metric, *report.metrics]))
    try:
        full_name = find_metric(name, known_names, place="in this run")
    except SettingError:
        return False
    return full_name == metric


def _texts_shown(sample: Sample) -> dict[str, Any]:
    """Return what a person who labels the sample is shown, by field."""
    return {
        "question": sample.question,
        "answer": sample.answer,
        "contexts": [context.text for context in sample.known_contexts],
        "reference": list(sample.reference),
    }


def _texts_of(sample: Sample) -> dict[str, list[str]]:
    """Return the texts that a person is shown, as they are compared."""
    return {name: _plain_texts(value) for name, value in _texts_shown(sample).items()}


def _is_as_drawn(value: Any) -> bool:
    """Tell whether a value looks like what ``draw`` writes for a person to see."""
    if isinstance(value, list):
        return all(isinstance(text, str) for text in value)
    return value is None or isinstance(value, str)


def _plain_texts(value: str | Sequence[str] | None) -> list[str]:
    """A text, or several, without what an editor may change: spaces and line ends.

    None and empty texts are left out.
    """
    texts = [value] if value is None or isinstance(value, str) else value
    return [" ".join(str(replace_surrogates(text)).split()) for text in texts if text]


def describe_left_over(
    report: Report, metric: str, labels: Sequence[Label]
) -> list[str]:
    """Say in sentences which labels cannot be compared with a score.

    No sample of the run has the label's id, or the label is empty, or the sample has no
    score: "labels that match no sample (2): a, b".

    Args:
        report: The run.
        metric: The metric whose scores are compared with the labels.
        labels: What people said of samples.
    """
    run = _ScoredRun(report, metric)
    ids_by_reason: dict[str, list[str]] = {
        "labels that match no sample": [],
        "drawn samples without a label": [],
        "labelled samples without a score": [],
    }
    unknown, empty, without_score = ids_by_reason.values()
    for label in labels:
        if label.id not in run.samples:
            unknown.append(label.id)
        elif not label.votes:
            empty.append(label.id)
        elif label.id not in run.scored:
            without_score.append(label.id)
    return [
        f"{reason} ({len(ids)}): {_list_first(ids)}"
        for reason, ids in ids_by_reason.items()
        if ids
    ]


def _labels_with_votes(labels: Sequence[Label]) -> dict[str, Label]:
    """Return the labels that hold votes, by id.

    Raises ``InputError`` if an id has several lines.
    """
    repeated_ids = _find_repeated([label.id for label in labels])
    if repeated_ids:
        raise InputError(
            "one line per sample is needed, with a list for several votes; labelled"
            f" more than once: {_list_first(repeated_ids)}"
        )
    return {label.id: label for label in labels if label.votes}


def _find_repeated(ids: Sequence[str]) -> list[str]:
    """Return the ids that stand there more than once."""
    return [sample_id for sample_id, count in Counter(ids).items() if count > 1]


def _list_first(ids: Sequence[str]) -> str:
    """Return the first few ids, and how many more there are."""
    listed = ", ".join(ids[:_MOST_IDS_LISTED])
    n_more = len(ids) - _MOST_IDS_LISTED
    if n_more > 0:
        listed += f" and {n_more} more"
    return listed


def draw(report: Report, metric: str, count: int, *, seed: int) -> list[dict[str, Any]]:
    """Draw scored samples at random, for people to label.

    Each row records the probability of the draw, so that ``calibrate`` can tell later
    that the labels are a random sample. Example: 30 of 300 have the probability .1.

    Args:
        report: A run. A sample without an id gets that of its row, such as "row 3".
        metric: Name of the metric whose mean is to be calibrated.
        count: How many to draw.
        seed: Seed of the draw.

    Returns:
        One row per drawn sample, in random order: its id, an empty ``label`` to fill
        in, the probability, the seed, and the texts that a person needs, but no score.

    Raises:
        InputError: If several samples share an id. Also for a run that stopped once
            its gates were decided: its rows are no random sample.
        SettingError: If fewer samples are scored than are to be drawn, or none is to be
            drawn.
    """
    scored_samples = list(_ScoredRun(report, metric).scored.values())
    n_scored = len(scored_samples)
    if not 1 <= count <= n_scored:
        raise SettingError(
            f"{n_scored} samples are scored, so 1 to {n_scored} can be drawn;"
            f" asked for {count}"
        )
    random_source = random.Random(seed)  # noqa: S311  # sampling is no cryptography
    random_source.shuffle(scored_samples)
    about_the_draw = {"probability": count / n_scored, "seed": seed}
    return [
        {
            "id": drawn.id,
            "label": None,
            **about_the_draw,
            **_texts_shown(drawn.sample),
            "metric": metric,
        }
        for drawn in scored_samples[:count]
    ]


def calibrate(
    report: Report,
    metric: str,
    labels: Sequence[Label],
    *,
    cluster: GroupBy = "auto",
    assume_random: bool = False,
) -> CorrectedMean:
    """Estimate the mean label of all scored samples from the labels of a random few.

    The scores of the samples that nobody labelled enter as well: of 300 scored samples
    30 have labels, and all 300 scores count. They are corrected by how scores and
    labels differ on the labelled samples (prediction-powered inference).

    Args:
        report: The run.
        metric: Name of the metric.
        labels: Labels, as ``draw`` drew them and people filled them in.
        cluster: Which samples belong together, and are not independent.
        assume_random: Take the labels for a random sample without asking for the record
            of a draw, and although some were not filled in.

    Raises:
        InputError: If the labels are no random sample by their own record, or none
            belongs to a scored sample.

    Source:
        PPI++: Angelopoulos, Duchi & Zrnic (2023), arXiv:2311.01453.
    """
    run = _ScoredRun(report, metric)
    _refuse_labels_of_others(run, report, metric, labels)
    label_by_id = _labels_with_votes(labels)
    if not assume_random:
        n_empty = len(labels) - len(label_by_id)
        _refuse_other_than_a_draw(labels, n_empty=n_empty, n_scored=len(run.scored))
    _check_cluster_key([scored.sample for scored in run.scored.values()], cluster)
    number_cluster_of = numbering(cluster)
    cluster_numbers = {
        sample_id: number_cluster_of(scored.sample)
        for sample_id, scored in run.scored.items()
    }

    def scores_of(ids: Sequence[str]) -> Scores:
        scores = [run.scored[sample_id].score for sample_id in ids]
        return Scores(scores, [cluster_numbers[sample_id] for sample_id in ids])

    labelled_ids = [each for each in run.scored if each in label_by_id]
    unlabelled_ids = [each for each in run.scored if each not in label_by_id]
    labels_of_people = [
        Labelled(0.0, label_by_id[sample_id].votes).is_labelled_yes
        for sample_id in labelled_ids
    ]
    return ppi(labels_of_people, scores_of(labelled_ids), scores_of(unlabelled_ids))


# By so much the expected number of labels was rounded.
_HALF_A_LABEL = 0.5


def _refuse_other_than_a_draw(
    labels: Sequence[Label], *, n_empty: int, n_scored: int
) -> None:
    """Raise ``InputError`` unless the labels are a random sample of the scored samples.

    Drawn with probability .1 from 300 scored samples: 30 labels are expected, and 29
    are refused. Labels with different probabilities, without one, or without a vote
    are refused as well.

    Args:
        labels: All labels, also labels that wait for votes.
        n_empty: How many of them have no vote yet.
        n_scored: How many samples of the run have a score.
    """
    if n_empty:
        raise InputError(
            f"{n_empty} of {len(labels)} drawn samples have no label, and those may be"
            " the hard ones"
        )
    probabilities = {label.probability for label in labels}
    probability = probabilities.pop() if len(probabilities) == 1 else None
    if probability is None:
        raise InputError(
            "a calibrated mean needs labels drawn at random: draw them with `ragmetrics"
            " agreement draw`, or say that they are a random sample (assume_random=True,"
            " --assume-random)"
        )
    n_expected = probability * n_scored
    is_label_missing = len(labels) < n_expected - _HALF_A_LABEL
    if is_label_missing:
        raise InputError(
            f"{len(labels)} labels with a probability of {probability:g} are no draw from"
            f" the {n_scored} scored samples, of which it takes {n_expected:.0f}: labels"
            " are missing, or were drawn from another run; draw them from this run, or"
            " say that they are a random sample of it (assume_random=True,"
            " --assume-random)"
        )
