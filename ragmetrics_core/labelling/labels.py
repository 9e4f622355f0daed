"""Labels that people give rows of a run, and what follows from them.

Rows are drawn, their labels are read and matched with the scores of the run.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragmetrics_core.data import SampleResult, find_metric, number_as_text
from ragmetrics_core.data.cells import data_in
from ragmetrics_core.data.display import first_in_words
from ragmetrics_core.data.errors import InputError, NotJson, RowError, SettingError
from ragmetrics_core.data.files import json_value
from ragmetrics_core.data.scalars import is_yes, plain_data
from ragmetrics_core.engine.row_files import read_rows
from ragmetrics_core.reporting.groups import Clusters, GroupBy
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.reporting.run_facts import digest_of_texts
from ragmetrics_core.statistics.corrected_means import CorrectedMean, Scores, ppi
from ragmetrics_core.statistics.rater_agreement import Labelled

# a label that says neither yes nor no
_UNDECIDED = 0.5


@dataclass(frozen=True, slots=True)
class Label:
    """What people said of one row.

    Args:
        id: The id of its sample.
        votes: One vote per annotator; a graded label above 0.5 is a yes. Empty if the
            row was drawn and not labelled.
        source: Where the sample comes from.
        metric: The metric whose question was answered; None if that was not recorded.
        drawn: How many rows were drawn with it, at random; None if no draw recorded
            that.
        of: From how many rows they were drawn.
        texts: Digest of the texts that the person was shown; None if not recorded.
    """

    id: str
    votes: tuple[bool, ...]
    source: str = "all"
    metric: str | None = None
    drawn: int | None = None
    of: int | None = None
    texts: str | None = None


def read_labels(path: Path) -> list[Label]:
    """Read the labels of a table, such as the lines that a page gives.

    Example of a row: ``{"id": "s1", "label": 1, "source": "faq"}``; ``source`` is
    optional. A label is 0/1, true/false, a number from 0 to 1 but not 0.5, or a list of
    these, one per annotator. A tie of annotators is a no.

    Raises:
        InputError: If the file cannot be read or has no label. ``RowError`` names a
            broken row.
    """
    labels = [_label(row, place) for place, row in read_rows(path)]
    if not labels:
        raise InputError(f"{path} has no labels")
    repeated_ids = [
        sample_id
        for sample_id, count in Counter(label.id for label in labels).items()
        if count > 1
    ]
    if repeated_ids:
        raise InputError(
            "one line per sample is needed, with a list for several votes; labelled"
            f" more than once: {first_in_words(repeated_ids)}"
        )
    return labels


def _label(row: Any, place: str) -> Label:
    """Read the label on one line of a file.

    Raises:
        RowError: If the line has no id, or a vote that says neither yes nor no, such as
            0.5; also if it has no vote, unless it was drawn: such a line may still wait
            for its votes.
    """
    if isinstance(row, RowError):
        raise RowError(f"{place}: {row}")
    sample_id = number_as_text(row.get("id")) if isinstance(row, Mapping) else None
    if not isinstance(sample_id, str) or sample_id in ("nan", "inf", "-inf"):
        raise RowError(
            f'{place}: needs an object with "id", a text or a number, and the label'
        )
    counts = row.get("drawn"), row.get("of")
    is_drawn = all(type(count) is int for count in counts)
    value = row.get("label")
    votes: tuple[bool, ...] = ()
    if value is not None or not is_drawn:
        votes = votes_of(value, f"{place}: 'label'")
    if any(plain_data(vote) == _UNDECIDED for vote in _as_list(value)):
        raise RowError(
            f"{place}: 'label' is 0.5, which says neither yes nor no; write 0 or 1, or"
            " leave the line out"
        )
    metric, texts = row.get("metric"), row.get("texts")
    return Label(
        id=sample_id,
        votes=votes,
        source=str(row.get("source") or "all"),
        metric=metric if isinstance(metric, str) else None,
        drawn=counts[0] if is_drawn else None,
        of=counts[1] if is_drawn else None,
        texts=texts if isinstance(texts, str) else None,
    )


def _as_list(value: Any) -> Sequence[Any]:
    votes = data_in(value)
    if isinstance(votes, str):  # a cell of CSV, such as "1" or "True"
        with suppress(NotJson):
            votes = json_value(votes.casefold())
    return votes if isinstance(votes, (list, tuple)) else [votes]


def votes_of(value: Any, name: str) -> tuple[bool, ...]:
    """Return a vote, or a list with one per annotator; a number above 0.5 is a yes.

    ``RowError`` names what is none.
    """
    votes = [plain_data(vote) for vote in _as_list(value)]
    are_votes = [
        isinstance(vote, (bool, int, float)) and 0 <= vote <= 1 for vote in votes
    ]
    if not votes or not all(are_votes):
        raise RowError(
            f"{name} must be a number from 0 to 1, true or false, or a list of these"
        )
    return tuple(is_yes(float(vote)) for vote in votes)


def rows_by_id(report: Report) -> dict[str, SampleResult]:
    """Return the rows of a run that are samples, by the ids under which people label them.

    Raises:
        InputError: If the run is incomplete, so that what people say of its rows says
            nothing of the others, or if two samples, scored or not, have the same id.
    """
    if report.run.ended_early:
        raise InputError(
            f"people label a whole run, and this one is incomplete: {report.run.ended_early}"
        )
    rows: dict[str, SampleResult] = {}
    repeated_ids: dict[str, None] = {}
    for row in report.results:
        if row.label_id is None:  # the row could not be read
            continue
        if row.label_id in rows:
            repeated_ids[row.label_id] = None
        rows[row.label_id] = row
    if repeated_ids:
        raise InputError(
            "every sample needs an id of its own to be labelled; more than one has:"
            f" {first_in_words(repeated_ids)}"
        )
    return rows


def draw(report: Report, count: int) -> list[str]:
    """Draw rows of a run at random, for people to label; return their ids.

    Any metric may be measured on them: those rows among them that it scored are a
    random sample of all that it scored. A larger draw from the same run begins with the
    rows of a smaller one.

    Args:
        report: A run. A sample without an id gets that of its row, such as "row 3".
        count: How many to draw.

    Raises:
        InputError: If the run is incomplete, or several samples share an id.
        SettingError: If the run has fewer samples than are to be drawn.
    """
    ids = list(rows_by_id(report))
    if count > len(ids):
        raise SettingError(
            f"the run has {len(ids)} samples, so no {count} of them can be drawn"
        )
    random.Random(0).shuffle(ids)  # noqa: S311  # sampling is no cryptography
    return ids[:count]


def metric_of_labels(
    report: Report, labels: Iterable[Label], name: str | None = None
) -> str:
    """Return the metric of a run that labels are about, by its name in the run.

    Args:
        report: The run.
        labels: The labels, which may name their metric.
        name: Name or short name of the metric; None for the one that the labels name,
            else the run's only one.

    Raises:
        SettingError: If no metric, or several, could be meant.
        InputError: If labels were given for another metric.
    """
    named_by_labels = {label.metric for label in labels if label.metric is not None}
    if name is None:
        names = sorted(named_by_labels) or report.metrics
        if len(names) != 1:
            raise SettingError(
                f"--metric says which to measure: {', '.join(names) or 'none is there'}"
            )
        name = names[0]
    metric = find_metric(name, report.metrics, place="in this run")
    other_metrics = sorted(named_by_labels - {metric, name})
    if other_metrics:
        raise InputError(
            f"these labels were given for {', '.join(other_metrics)}, not for {metric};"
            f" label rows for {metric}, or, if they answer its question too, take"
            ' "metric" out of their lines'
        )
    return metric


def refuse_other_texts(
    rows: Mapping[str, SampleResult], labels: Sequence[Label]
) -> None:
    """Raise ``InputError`` for labels of other texts than the run's samples have.

    Example: sample "7" got a new answer since it was labelled. What a label does not
    record is not checked.
    """
    ids = [
        label.id
        for label in labels
        if label.texts is not None
        and label.id in rows
        and label.texts != digest_of_texts(rows[label.id].sample)
    ]
    if ids:
        raise InputError(
            f"{len(ids)} of {len(labels)} labels were given for another question,"
            " answer, contexts or reference than the sample of their id has now:"
            f" {first_in_words(ids)}; label the samples of this run"
        )


def describe_left_over(
    rows: Mapping[str, SampleResult], metric: str, labels: Sequence[Label]
) -> list[str]:
    """Say in sentences which labels cannot be compared with a score.

    No sample of the run has the label's id, or the label is empty, or the sample has no
    score: "labels that match no sample (2): a, b".

    Args:
        rows: The rows of the run, by id.
        metric: The metric whose scores are compared with the labels.
        labels: What people said of samples.
    """
    ids_by_reason: dict[str, list[str]] = {
        "labels that match no sample": [],
        "drawn samples without a label": [],
        "labelled samples without a score": [],
    }
    unknown, empty, without_score = ids_by_reason.values()
    for label in labels:
        is_scored = label.id in rows and rows[label.id].score_of(metric) is not None
        if label.id not in rows:
            unknown.append(label.id)
        elif not label.votes and is_scored:
            empty.append(label.id)
        elif label.votes and not is_scored:
            without_score.append(label.id)
    return [
        f"{reason} ({len(ids)}): {first_in_words(ids)}"
        for reason, ids in ids_by_reason.items()
        if ids
    ]


def corrected_mean(
    rows: Mapping[str, SampleResult],
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
        rows: The rows of the run, by id.
        metric: Name of the metric.
        labels: Labels; those of rows that were drawn count, if any were.
        cluster: Which samples belong together, and are not independent.
        assume_random: Take all labels for a random sample without asking for the record
            of a draw, and although some rows have none.

    Raises:
        InputError: If the labels are no random sample by their own record, or none
            belongs to a scored sample.

    Source:
        PPI++: Angelopoulos, Duchi & Zrnic (2023), arXiv:2311.01453.
    """
    scored = {
        sample_id: row
        for sample_id, row in rows.items()
        if row.score_of(metric) is not None
    }
    if not assume_random:
        labels = _whole_draw(labels, rows, scored)
    clusters = Clusters(cluster)
    cluster_numbers = {
        sample_id: clusters.number(row.sample) for sample_id, row in scored.items()
    }

    def scores_of(ids: Sequence[str]) -> Scores:
        values = [scored[sample_id].score_of(metric) or 0.0 for sample_id in ids]
        return Scores(values, [cluster_numbers[sample_id] for sample_id in ids])

    label_by_id = {label.id: label for label in labels if label.votes}
    labelled_ids = [sample_id for sample_id in scored if sample_id in label_by_id]
    unlabelled_ids = [sample_id for sample_id in scored if sample_id not in label_by_id]
    labels_of_people = [
        Labelled(0.0, label_by_id[sample_id].votes).is_labelled_yes
        for sample_id in labelled_ids
    ]
    return ppi(labels_of_people, scores_of(labelled_ids), scores_of(unlabelled_ids))


def _whole_draw(
    labels: Sequence[Label],
    rows: Mapping[str, SampleResult],
    scored: Mapping[str, SampleResult],
) -> list[Label]:
    """Return the labels of the rows that were drawn, if these are a random sample.

    Example: 50 of 300 rows were drawn. Their lines must all be there, and those of them
    that the metric scored must have a label: one that is missing may be a hard one.

    Args:
        labels: All labels, also of rows that were not drawn, which are left out.
        rows: The rows of the run, by id.
        scored: Those that the metric scored.

    Raises:
        InputError: If no draw recorded the labels, or they are not all of one.
    """
    drawn = [label for label in labels if label.drawn is not None]
    draws = {(label.drawn, label.of) for label in drawn}
    if not drawn:
        raise InputError(
            "no draw recorded these labels: label rows that --to-label drew, or say that"
            " these are a random sample (--assume-random)"
        )
    n_empty = sum(not label.votes and label.id in scored for label in drawn)
    if n_empty:
        raise InputError(
            f"{n_empty} of {len(drawn)} drawn rows have no label, and those may be the"
            " hard ones"
        )
    are_all_there = draws == {(len(drawn), len(rows))}
    if not are_all_there or any(label.id not in rows for label in drawn):
        (n_drawn, n_rows), *_ = sorted(draws)
        raise InputError(
            f"these {len(drawn)} labels are not all of one draw from this run of"
            f" {len(rows)} samples: they record {n_drawn} drawn of {n_rows}; label a"
            " draw from this run, or say that they are a random sample of it"
            " (--assume-random)"
        )
    return drawn
