"""``ragmetrics dataset``, the commands for annotated sets.

They build such sets from documents, review them, and score judges on them.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ragmetrics_core.cli import chosen_judges
from ragmetrics_core.cli import options as shared
from ragmetrics_core.cli.printing import show
from ragmetrics_core.data import SettingError
from ragmetrics_core.data.display import count_in_words
from ragmetrics_core.engine.dry_run import estimate
from ragmetrics_core.engine.resolve import resolve_judge
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.judging.llm import LLMJudge
from ragmetrics_core.labelling import judge_scores
from ragmetrics_core.labelling.building import (
    ContinuousSettings,
    DiscreteSettings,
    Maker,
    build_continuous,
    build_discrete,
    check_corpus,
    import_retriever,
    write_pairs,
)
from ragmetrics_core.labelling.documents import (
    Document,
    load_documents,
    load_pairs,
    other_files,
)
from ragmetrics_core.labelling.reviews import (
    Reviews,
    items_to_review,
    review,
    review_summary,
)
from ragmetrics_core.labelling.sets import AnySet, ContinuousSet, read_set, write_set
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.metrics.registry import metrics_with_settings


def discrete(options: argparse.Namespace) -> int:
    """Build a set whose labels are yes and no, and write it.

    It is made of documents, and of pairs of a question and its golden answer. The pairs
    are those of ``--pairs``; without it a model writes them. With ``--dry-run`` the
    model's calls are only counted. Example: ``ragmetrics dataset discrete docs/ --out
    set.json`` writes a set of yes and no.

    Returns:
        The exit code, 0.
    """
    documents, source = _read_corpus(options)
    settings = shared.settings_from(options, DiscreteSettings)
    retriever = None
    if settings.retriever != "bm25":
        retriever = import_retriever(settings.retriever)
    check_corpus(documents, settings, retriever)
    maker = None
    if options.pairs:
        pairs = load_pairs(options.pairs)
        if options.dry_run:
            show("no calls: questions, answers and documents are there")
            return 0
    else:
        judge = _writing_judge(options)
        if options.dry_run:
            return chosen_judges.dry_run(
                judge,
                settings.questions,
                "questions",
                lambda counter: write_pairs(documents, settings, Maker(counter)),
            )
        maker = _maker(judge, options)
        pairs = write_pairs(documents, settings, maker)
    dataset = build_discrete(
        documents, pairs, settings, retriever=retriever, source=source, maker=maker
    )
    return _finish(dataset, maker, options)


def continuous(options: argparse.Namespace) -> int:
    """Build a set whose labels are shares of facts, by a model."""
    documents, source = _read_corpus(options)
    settings = shared.settings_from(options, ContinuousSettings).refuse_misfits()
    judge = _writing_judge(options)
    if options.dry_run:
        return chosen_judges.dry_run(
            judge,
            min(settings.documents, len(documents)),
            "documents",
            lambda counter: build_continuous(documents, settings, Maker(counter)),
        )
    maker = _maker(judge, options)
    return _finish(
        build_continuous(documents, settings, maker, source=source), maker, options
    )


def _read_corpus(
    options: argparse.Namespace,
) -> tuple[Sequence[Document], tuple[str, ...]]:
    """Read the documents that a set is made of.

    Returns:
        The documents, and what the set records of its source, such as ("docs.jsonl",
        "40 documents"). A folder's files of other kinds are named there and on standard
        error.

    Raises:
        SettingError: If no output is named.
    """
    shared.needs_out(options)
    documents = load_documents(options.corpus)
    source = (*map(str, options.corpus), f"{len(documents)} documents")
    if left_out := other_files(options.corpus):
        files = count_in_words(len(left_out), "file")
        sentence = f"{files} left out, such as {left_out[0]}: no text, and no rows"
        print(f"ragmetrics: {sentence}", file=sys.stderr)
        source += (sentence,)
    return documents, source


def _writing_judge(options: argparse.Namespace) -> LLMJudge:
    """Return the language model that writes a set; ``SettingError`` if none is named."""
    named = options.model or os.environ.get("RAGMETRICS_JUDGE")
    judge = chosen_judges.judge_from(named, options) if named else None
    if isinstance(judge, LLMJudge):
        return judge
    raise SettingError(
        "sets are written by a language model: --model gpt-4o-mini; a discrete one also"
        " of --pairs"
    )


def _finish(dataset: AnySet, maker: Maker | None, options: argparse.Namespace) -> int:
    """Write a set, and show what it holds, what it cost and what to do next.

    The last line is e.g. "Next: ragmetrics dataset review set.json".

    Returns:
        The exit code, 0.
    """
    write_set(options.out, dataset)
    lines = [
        f"{options.out}: {judge_scores.heading(dataset, reviews=None)}",
        judge_scores.composition(dataset, reviews=None),
    ]
    if isinstance(dataset, ContinuousSet):
        documents = dataset.documents
        n_facts = sum(len(document.facts) for document in documents)
        # calls to label the documents; to write them took one call each
        n_labelling_calls = sum(document.calls for document in documents)
        lines.append(
            f"{n_facts} facts; {n_labelling_calls} questions for the labels,"
            f" {len(documents)} to write."
        )
        if len(documents) < options.documents:
            lines.append(
                f"Only {len(documents)} of {options.documents} documents could be used."
            )
    left_out = dataset.header.left_out.items()
    if left_out:
        counts = ", ".join(f"{count} {reason}" for reason, count in left_out)
        lines.append(f"Left out: {counts}")
    if maker is not None:
        lines.append(f"Model: {maker.name}; {shared.spent(maker.usage)}")
    lines.append(f"Next: ragmetrics dataset review {options.out}")
    show(*lines)
    return 0


def review_set(options: argparse.Namespace) -> int:
    """Ask a person about the labels of a set that are not decided yet.

    Decisions are kept as they are made, so the same command goes on where it was
    stopped. At the end a summary is shown. Example: Ctrl-C after 10 of 50 labels: 10
    are kept, and the command goes on with the eleventh next time.

    Returns:
        The exit code, 0.

    Raises:
        SettingError: If the reviewer has no name, or the second reviewer has that of
            the first.
    """
    dataset = read_set(options.set)
    reviews = Reviews(options.set, dataset)
    reviewer = options.reviewer or os.environ.get("USER", "")
    second = options.second_reviewer
    if not reviewer:
        raise SettingError("your login is unknown; name yourself with --reviewer")
    first_reviewers = {review.reviewer for review in reviews.first.values()}
    if second and reviewer in first_reviewers:
        raise SettingError(
            f"{reviewer!r} is the first reviewer; the second one needs another"
            " --reviewer"
        )
    items = items_to_review(dataset, reviews, second=second)
    try:
        is_complete = review(
            items,
            reviews,
            reviewer=reviewer,
            second=second,
            ask=input,
            show=lambda text: show(*text.splitlines()),
        )
    except KeyboardInterrupt:
        show("")  # ends the line on which the person typed
        is_complete = False
    lines = review_summary(dataset, reviews)
    if not is_complete:
        lines.append("Not all is decided; the same command goes on here.")
    show(*lines)
    return 0


def score(options: argparse.Namespace) -> int:
    """Print for each set a table of how well judges agree with its labels.

    A row of a table is a judge with a metric. With ``--dry-run`` the tables say what
    asking the judges would cost. Example: two judges, one metric: a table of two rows
    for each set.

    Returns:
        The exit code, 0.
    """
    metrics = metrics_with_settings(options.metrics.split(","), options.settings)
    judges = []
    for name in options.judge or [None]:  # None: the usual judge
        if name == "lexical":  # has no endpoint, even where one is named for others
            judges.append(resolve_judge(name))
        else:
            judges.append(chosen_judges.judge_from(name, options))
    rows = [(judge, metric) for judge in judges for metric in metrics]
    # all sets are read first: a broken one is refused before a judge is paid
    datasets = [(path, read_set(path)) for path in options.sets]
    tables = []
    for path, dataset in datasets:
        if options.dry_run:
            for judge, metric in rows:
                samples = judge_scores.samples_to_judge(dataset, metric)
                estimated = estimate(samples, [metric], judge)
                words = estimated.text("points or documents")
                tables.append(f"{path}, {judge.name}, {metric.name}\n{words}")
        else:
            tables.append(_table(path, dataset, rows, options))
    show(*"\n\n".join(tables).splitlines())
    return 0


def _table(
    path: Path,
    dataset: AnySet,
    rows: Sequence[tuple[Judge, Metric]],
    options: argparse.Namespace,
) -> str:
    """Have judges score a set, and return their agreement with its labels as a table."""
    reviews = Reviews(path, dataset)
    reply_store = shared.store(options)
    scores = [
        judge_scores.score_set(
            dataset,
            reviews,
            metric,
            judge,
            threshold=options.threshold,
            draws=options.draws,
            concurrency=options.concurrency,
            store=reply_store,
            progress=options.progress,
        )
        for judge, metric in rows
    ]
    return judge_scores.score_table(dataset, reviews, scores, name=str(path))


def _maker(judge: Judge, options: argparse.Namespace) -> Maker:
    """Return the object by which a model writes and labels, as the options say."""
    return Maker(
        judge,
        store=shared.store(options),
        concurrency=options.concurrency,
        language=options.language,
        progress=options.progress,
    )
