"""``ragmetrics dataset`` and ``facts``, the commands for annotated sets.

They build such sets from documents, review them, and score judges on them.
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragmetrics_core.cli import options as shared
from ragmetrics_core.cli.options import add, command, flag, positive, show
from ragmetrics_core.cli.paths import SET_MARK
from ragmetrics_core.data import SettingError, Settings
from ragmetrics_core.engine.dry_run import estimate
from ragmetrics_core.engine.resolve import resolve_judge
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.judging.llm import LLMJudge
from ragmetrics_core.labelling import judge_scores
from ragmetrics_core.labelling.continuous import ContinuousSettings, build_continuous
from ragmetrics_core.labelling.discrete import (
    DiscreteSettings,
    build_discrete,
    import_retriever,
    write_pairs,
)
from ragmetrics_core.labelling.documents import Document, load_documents, load_pairs
from ragmetrics_core.labelling.facts import extract_facts, read_facts, write_facts
from ragmetrics_core.labelling.making import Maker
from ragmetrics_core.labelling.reviews import (
    Reviews,
    items_to_review,
    review,
    review_summary,
)
from ragmetrics_core.labelling.row_files import read_objects
from ragmetrics_core.labelling.sets import AnySet, ContinuousSet, read_set, write_set
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.metrics.registry import choose_metrics
from ragmetrics_core.statistics.rater_agreement import mean_error, spearman


def add_to(commands: Any) -> None:
    """Add both commands to the parser."""
    kinds = shared.group(commands, "dataset")
    _add_discrete(kinds)
    _add_building(command(kinds, "continuous", _continuous), ContinuousSettings)
    _add_review(kinds)
    _add_score(kinds)
    kinds = shared.group(commands, "facts")
    _add_extract(kinds)
    add(
        command(kinds, "freeze", _freeze),
        "file",
        "a file of ragmetrics facts extract",
        "FACTS.json",
        Path,
    )


def _add_discrete(kinds: Any) -> None:
    """Add ``dataset discrete``."""
    parser = command(kinds, "discrete", _discrete)
    _add_building(parser, DiscreteSettings)
    add(
        parser,
        "--pairs",
        "questions with golden answers; else a model writes",
        "FILE",
        nargs="+",
    )


def _add_review(kinds: Any) -> None:
    """Add ``dataset review``."""
    parser = command(kinds, "review", _review)
    add(
        parser,
        "set",
        "a set; decisions are kept beside it, SET.reviews.jsonl",
        "SET",
        Path,
    )
    add(
        parser,
        "--reviewer",
        "who decides; by default $USER",
        "NAME",
        default=os.environ.get("USER", ""),
    )
    flag(
        parser,
        "--second-reviewer",
        "decide independently on a part, for the agreement (kappa)",
    )
    add(
        parser,
        "--share",
        "that part of what was decided (default 0.5)",
        "SHARE",
        float,
        0.5,
    )


def _add_score(kinds: Any) -> None:
    """Add ``dataset score``."""
    parser = command(kinds, "score", _score)
    add(parser, "sets", "files of ragmetrics dataset", "SET", Path, nargs="+")
    shared.add_judge(parser, "; may be repeated", action="append", default=[])
    add(
        parser,
        "--metrics",
        "separated by commas (retrieval_accuracy)",
        "NAMES",
        default="retrieval_accuracy",
    )
    add(
        parser,
        "--prompts",
        "for retrieval accuracy, by which facts are extracted (io,cot)",
        "NAMES",
        default="io,cot",
    )
    add(
        parser,
        "--threshold",
        "a point is positive from this score on (0.5)",
        "T",
        float,
        0.5,
    )
    add(
        parser,
        "--draws",
        f"resamples of intervals ({judge_scores.DRAWS})",
        "N",
        positive,
        judge_scores.DRAWS,
    )
    shared.add_calls(parser)


def _add_extract(kinds: Any) -> None:
    """Add ``facts extract``."""
    parser = command(kinds, "extract", _extract)
    add(parser, "file", ".jsonl, .json, .csv, .tsv or .parquet", "FILE", Path)
    add(
        parser,
        "--out",
        "the facts, as JSON to edit; needed but for --dry-run",
        "FACTS.json",
        Path,
    )
    parser.set_defaults(replaces=None)
    shared.add_judge(parser)
    add(
        parser,
        "--extraction",
        "direct, or with a chain of thought",
        default="io",
        choices=("io", "cot"),
    )
    shared.add_calls(parser)


def _add_building(parser: argparse.ArgumentParser, settings: type[Settings]) -> None:
    """Add what both kinds of set are built from, and an option for each setting."""
    add(
        parser,
        "corpus",
        "text, Markdown, JSONL, JSON files, or folders",
        "PATH",
        nargs="+",
    )
    add(
        parser,
        "--where",
        "only rows that have it; may be repeated",
        "FIELD=VALUE",
        default=[],
        action="append",
    )
    add(parser, "--out", "the set, as JSONL; needed but for --dry-run", "FILE", Path)
    parser.set_defaults(replaces=SET_MARK)
    add(
        parser,
        "--model",
        "name of the model that writes and labels; by default RAGMETRICS_JUDGE",
        "NAME",
    )
    add(parser, "--language", "language of what it writes", "NAME")
    shared.add_settings(parser, settings)
    shared.add_calls(parser)


def _discrete(options: argparse.Namespace) -> int:
    """Build a set whose labels are yes and no, from pairs or a model's questions."""
    where, documents, source = _read_corpus(options)
    settings = shared.settings_from(options, DiscreteSettings)
    retriever = None
    if settings.retriever != "bm25":
        retriever = import_retriever(settings.retriever)
    maker = None
    if options.pairs:
        pairs = load_pairs(options.pairs, where=where)
        if options.dry_run:
            show("no calls: questions, answers and documents are there")
            return 0
    else:
        judge = _writing_judge(options)
        if options.dry_run:
            return shared.dry_run(
                judge,
                settings.questions,
                "questions",
                lambda counter: write_pairs(documents, settings, Maker(counter)),
            )
        maker = shared.maker(judge, options)
        pairs = write_pairs(documents, settings, maker)
    dataset = build_discrete(
        documents, pairs, settings, retriever=retriever, source=source, maker=maker
    )
    return _finish(dataset, maker, options)


def _continuous(options: argparse.Namespace) -> int:
    """Build a set whose labels are shares of facts, by a model."""
    _, documents, source = _read_corpus(options)
    settings = shared.settings_from(options, ContinuousSettings).refuse_misfits()
    judge = _writing_judge(options)
    if options.dry_run:
        return shared.dry_run(
            judge,
            settings.documents,
            "documents",
            lambda counter: build_continuous(documents, settings, Maker(counter)),
        )
    maker = shared.maker(judge, options)
    return _finish(
        build_continuous(documents, settings, maker, source=source), maker, options
    )


def _read_corpus(
    options: argparse.Namespace,
) -> tuple[Mapping[str, str], Sequence[Document], tuple[str, ...]]:
    """What rows must have, the documents that do, and what a set says of its source."""
    shared.needs_out(options)
    where = dict(text.partition("=")[::2] for text in options.where)
    if wrong := [text for text in options.where if "=" not in text]:
        raise SettingError(
            f"--where is written FIELD=VALUE, e.g. source=wice; got {wrong[0]!r}"
        )
    documents = load_documents(options.corpus, where=where)
    return (
        where,
        documents,
        (*options.corpus, *options.where, f"{len(documents)} documents"),
    )


def _writing_judge(options: argparse.Namespace) -> LLMJudge:
    """The language model that writes a set; ``SettingError`` if none is named."""
    named = options.model or os.environ.get("RAGMETRICS_JUDGE")
    judge = shared.judge_from(named, options) if named else None
    if isinstance(judge, LLMJudge):
        return judge
    raise SettingError(
        "sets are written by a language model: --model gpt-4o-mini; a discrete one also"
        " of --pairs"
    )


def _finish(dataset: AnySet, maker: Maker | None, options: argparse.Namespace) -> int:
    """Write a set, and show what it holds and what to do next."""
    write_set(options.out, dataset)
    lines = [
        f"{options.out}: {judge_scores.heading(dataset, None)}",
        judge_scores.composition(dataset, None),
    ]
    if isinstance(dataset, ContinuousSet):
        lines += _lines_on_continuous(dataset, n_wanted=options.documents)
    if dataset.header.left_out:
        lines.append(_line_on_left_out(dataset.header.left_out))
    if maker is not None:
        lines.append(f"Model: {maker.name}; {shared.spent(maker.usage)}")
    lines.append(f"Next: ragmetrics dataset review {options.out}")
    show("\n".join(lines))
    return 0


def _lines_on_continuous(dataset: ContinuousSet, *, n_wanted: int) -> list[str]:
    """What a continuous set took to make, and how its labels agree with tags."""
    documents = dataset.documents
    n_facts = sum(len(document.facts) for document in documents)
    n_calls = sum(document.calls for document in documents)
    pairs = [(point.label, point.by_tags) for point in dataset.points]
    difference = mean_error(pairs) or 0.0
    rank = spearman(pairs)
    rank_in_words = "undefined" if rank is None else f"{rank:.3f}"
    lines = [
        f"{n_facts} facts; {n_calls} questions for the labels,"
        f" {len(documents)} to write.",
        "Label from the matrix against the sentences' own tags: mean absolute"
        f" difference {difference:.3f}, Spearman {rank_in_words}.",
    ]
    if len(documents) < n_wanted:
        lines.append(f"Only {len(documents)} of {n_wanted} documents could be used.")
    return lines


def _line_on_left_out(count_by_reason: Mapping[str, int]) -> str:
    """How many parts of the source a set leaves out, and why."""
    counts = [f"{count} {reason}" for reason, count in count_by_reason.items()]
    return "Left out: " + ", ".join(counts)


def _review(options: argparse.Namespace) -> int:
    """Ask about what is not decided yet.

    The same command goes on where it was stopped.
    """
    dataset = read_set(options.set)
    reviews = Reviews(options.set, dataset)
    reviewer, second_reviewer = options.reviewer, options.second_reviewer
    if not reviewer:
        raise SettingError("your login is unknown; name yourself with --reviewer")
    if second_reviewer and any(
        review.reviewer == reviewer for review in reviews.first.values()
    ):
        raise SettingError(
            f"{reviewer!r} is the first reviewer; the second one needs another"
            " --reviewer"
        )
    undecided = items_to_review(
        dataset, reviews, second=second_reviewer, share=options.share
    )
    try:
        is_complete = review(
            undecided,
            reviews,
            reviewer=reviewer,
            second=second_reviewer,
            ask=input,
            show=show,
        )
    except KeyboardInterrupt:
        show("")
        is_complete = False
    lines = review_summary(dataset, reviews)
    show(
        "\n".join(
            lines
            if is_complete
            else [*lines, "Not all is decided; the same command goes on here."]
        )
    )
    return 0


def _score(options: argparse.Namespace) -> int:
    """Print one table per set."""
    metrics = choose_metrics(options.metrics.split(","))
    judges = [
        resolve_judge(name) if name == "lexical" else shared.judge_from(name, options)
        for name in options.judge or [None]
    ]
    prompts = list(dict.fromkeys(name.strip() for name in options.prompts.split(",")))
    if set(prompts) - set(judge_scores.PROMPTS):
        raise SettingError(
            f"--prompts are {', '.join(judge_scores.PROMPTS)}; got {options.prompts!r}"
        )
    tables = []
    for path, dataset in [(path, read_set(path)) for path in options.sets]:
        rows = [
            (judge, *variant)
            for judge in judges
            for variant in judge_scores.metrics_with_prompts(metrics, judge, prompts)
        ]
        tables.append(
            _estimates(path, dataset, rows)
            if options.dry_run
            else _table(path, dataset, rows, options)
        )
    show("\n\n".join(tables))
    return 0


def _table(
    path: Path,
    dataset: AnySet,
    rows: Sequence[tuple[Judge, Metric, str]],
    options: argparse.Namespace,
) -> str:
    """The scores of judges on a set, as a table."""
    reviews = Reviews(path, dataset)
    replies = shared.store(options)
    scores = [
        judge_scores.score_set(
            *(dataset, reviews, metric, judge),
            prompt=prompt,
            threshold=options.threshold,
            draws=options.draws,
            concurrency=options.concurrency,
            store=replies,
            progress=options.progress,
        )
        for judge, metric, prompt in rows
    ]
    return judge_scores.score_table(dataset, reviews, scores, name=str(path))


def _estimates(
    path: Path, dataset: AnySet, rows: Sequence[tuple[Judge, Metric, str]]
) -> str:
    """What judging a set would cost, by judge, metric and prompt."""
    return "\n\n".join(
        f"{path}, {judge.name}, {metric.name} {prompt}\n"
        + estimate(judge_scores.samples_of(dataset, metric), [metric], judge).text(
            "points or documents"
        )
        for judge, metric, prompt in rows
    )


def _extract(options: argparse.Namespace) -> int:
    """Let a model extract the facts of references into a file to edit."""
    shared.needs_out(options)
    rows = [row for _, row in read_objects(options.file)]
    extraction = options.extraction
    judge = shared.judge_from(options.judge, options)
    if options.dry_run:
        return shared.dry_run(
            judge,
            len(rows),
            "references",
            lambda counter: extract_facts(rows, Maker(counter), extraction=extraction),
        )
    maker = shared.maker(judge, options)
    file = extract_facts(rows, maker, extraction=extraction)
    write_facts(options.out, file)
    show(
        f"{options.out}: {file.count} facts of {len(file.rows)} references;"
        f" {file.model}, {shared.spent(maker.usage)}"
    )
    show(
        f"Next: edit the facts in {options.out} if they need it, then ragmetrics facts"
        f" freeze {options.out}"
    )
    return 0


def _freeze(options: argparse.Namespace) -> int:
    """Freeze a file of facts with a digest, so that runs are comparable."""
    file = read_facts(options.file).freeze()
    write_facts(options.file, file)
    show(f"{options.file}: {file.count} facts frozen as {file.frozen}")
    return 0
