"""Labelled rows judged by a real model: our metrics beside the code of other libraries.

    uv run benchmarks/real_model.py http://127.0.0.1:8090/v1 --model NAME --data DATA --out FOLDER

DATA holds the labelled rows by family, and the address speaks OpenAI's chat form. Rows
are drawn by a seed, in turn from each source. All tools go through them in this order,
side by side, so a run that is cut short leaves the same rows for all. Each tool has a
proxy of its own on 127.0.0.1, which counts its calls and tokens. ``FOLDER/judged.jsonl`` gets a
line for each row and tool; the same command goes on where it ended. Other libraries run
in environments of their own, which ``uv`` makes (``benchmarks/peers``).
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import fmean
from typing import Any

from labelled import SKIPPED

from ragmetrics_core import (
    ContextAdherence,
    ContextRecall,
    ContextUtilization,
    LLMJudge,
    Metric,
    OpenAICompatibleModel,
    RetrievalAccuracy,
    Sample,
    evaluate,
)
from ragmetrics_core.data.scalars import is_yes
from ragmetrics_core.labelling.labelled_samples import LabelledSample, read_labelled
from ragmetrics_core.labelling.measured_judges import pair_with_labels
from ragmetrics_core.statistics.rater_agreement import (
    auroc,
    balanced_accuracy,
    bootstrap,
)

QUESTIONS = {
    "adherence": "adherent",
    "useful": "relevant",
    "facts": "present",
    "pairs": "other",
}
"""Of each task, what people were asked."""

USUAL: Mapping[str, Metric] = {
    "adherence": ContextAdherence(),
    "useful": ContextUtilization(),
    "facts": RetrievalAccuracy(),
    "pairs": ContextRecall(),
}
OURS: Mapping[str, Mapping[str, Metric]] = {
    "lexical": USUAL,
    "probability": {"adherence": ContextAdherence(method="probability")},
    "ours": USUAL,
}
"""Our tools: with default settings by words and by the model, and adherence's other method."""

PEERS = {
    "phoenix": ("adherence", "useful"),
    "opik": ("adherence", "pairs"),
    "deepeval": ("adherence", "useful", "facts"),
    "ragas": ("adherence", "useful", "facts"),
}
"""Which tasks a library has a metric for, the cheapest library first."""

TOOLS = (*OURS, *PEERS)
SECONDS = 3600.0


@dataclass
class Traffic:
    """What went through a proxy."""

    calls: int = 0
    refused: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Proxy:
    """Passes calls on to an address and counts them."""

    def __init__(self, address: str) -> None:
        self.traffic = Traffic()
        lock = threading.Lock()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            """Passes one call on."""

            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                sent = self.rfile.read(int(self.headers["Content-Length"]))
                path = self.path.removeprefix("/v1")
                status, reply = _post(f"{address}{path}", sent)
                usage = {}
                if status == 200:
                    usage = json.loads(reply).get("usage") or {}
                with lock:
                    proxy.traffic.calls += 1
                    proxy.traffic.refused += status != 200
                    proxy.traffic.prompt_tokens += usage.get("prompt_tokens", 0)
                    proxy.traffic.completion_tokens += usage.get("completion_tokens", 0)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, *values: object) -> None:
                """Calls are counted and not logged."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{server.server_address[1]}/v1"

    def counted(self) -> Traffic:
        """What went through since the last time."""
        counted, self.traffic = self.traffic, Traffic()
        return counted


def _post(url: str, sent: bytes) -> tuple[int, bytes]:
    request = urllib.request.Request(url, sent, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


Scores = list[tuple[float, bool, bool]]
"""Of each label of a row: the score, the verdict, and what people say."""


class Ours:
    """Our metrics with one judge."""

    def __init__(self, tool: str, proxy: Proxy, model: str) -> None:
        self.metrics = OURS[tool]
        self.judge: Any = "lexical"
        if tool != "lexical":
            chat_model = OpenAICompatibleModel(proxy.address, model, timeout=SECONDS)
            self.judge = LLMJudge(chat_model, timeout=None)

    def scores(self, task: str, row: LabelledSample) -> Scores:
        """Judge a row; an error says why there is no score."""
        metric = self.metrics[task]
        samples = [row.sample]
        if row.other_sample is not None:
            samples.append(row.other_sample)
        report = evaluate(samples, [metric], judge=self.judge, progress=False)
        first, *others = [judged.results[metric.name] for judged in report.results]
        for result in (first, *others):
            if result.value is None:
                raise ValueError(f"{result.status}: {result.reason}")
        pairs = pair_with_labels(row, first, *(others or [None]))
        return [
            (pair.score, pair.is_judged_yes(), pair.is_labelled_yes) for pair in pairs
        ]


class Peer:
    """Another library, in a process and an environment of its own."""

    def __init__(self, tool: str, proxy: Proxy, model: str, log: Path) -> None:
        script = Path(__file__).parent / "peers" / f"with_{tool}.py"
        command = ["uv", "run", "--quiet", "--script", str(script)]
        self.process = subprocess.Popen(
            [*command, proxy.address, model],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.open("a"),
            text=True,
        )

    def scores(self, task: str, row: LabelledSample) -> Scores:
        """Judge a row; an error says why there is no score."""
        sample = row.sample
        asked = {
            "task": task,
            # a library may insist on a question where the row has none
            "question": sample.question or "What does the text say?",
            "contexts": [context.text for context in sample.known_contexts],
            "answer": sample.answer,
            "facts": [fact.text for fact in sample.facts or ()],
            "reference": (sample.reference or ("",))[0],
        }
        if row.other_sample is not None:
            asked["answers"] = [sample.answer, row.other_sample.answer]
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(asked) + "\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise SystemExit(f"{self.process.args} ended with {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise ValueError(answer["error"])
        scores = answer["scores"]
        if task == "pairs":
            first, second = scores
            scores = [(1 + second - first) / 2]
        return [
            (score, is_yes(score), label)
            for score, label in zip(scores, row.labels, strict=True)
        ]


def drawn(data: Path, options: argparse.Namespace) -> dict[str, list[LabelledSample]]:
    """The rows of each task, drawn in turn from its sources."""
    labelled = read_labelled(data)
    rows_by_task = {}
    for task in options.tasks:
        by_source: dict[str, list[LabelledSample]] = {}
        for row in labelled:
            fits = (
                row.question == QUESTIONS[task]
                and row.source != SKIPPED
                and options.half in (None, half_of(row))
            )
            if fits:
                row = shortened(row, options.parts)
                texts = [context.text for context in row.sample.known_contexts]
                if sum(map(len, texts)) <= options.longest:
                    by_source.setdefault(row.source, []).append(row)
        queues = []
        for _, rows in sorted(by_source.items()):
            random.Random(options.seed).shuffle(rows)  # no cryptography
            queues.append(rows)
        in_turn = []
        for place in range(max(map(len, queues), default=0)):
            in_turn += [rows[place] for rows in queues if place < len(rows)]
        rows_by_task[task] = in_turn[: options.rows]
    return rows_by_task


def half_of(row: LabelledSample) -> str:
    """A or B, by a digest of the row's id."""
    digest = sha256((row.sample.id or "").encode()).digest()
    return "AB"[digest[0] % 2]


def shortened(row: LabelledSample, most: int) -> LabelledSample:
    """Keep so many chunks or facts with their labels, of both kinds where there are."""
    if len(row.labels) <= most:
        return row
    yes = [place for place, label in enumerate(row.labels) if label]
    no = [place for place, label in enumerate(row.labels) if not label]
    kept_yes = yes[: max((most + 1) // 2, most - len(no))]
    kept = sorted(kept_yes + no[: most - len(kept_yes)])
    update: dict[str, Any] = {}
    if row.question == "relevant":
        contexts = row.sample.known_contexts
        update["contexts"] = tuple(contexts[place] for place in kept)
    else:
        facts = row.sample.facts or ()
        update["facts"] = tuple(facts[place] for place in kept)
    sample: Sample = row.sample.model_copy(update=update)
    labels = tuple(row.labels[place] for place in kept)
    return replace(row, sample=sample, labels=labels)


@dataclass
class Judged:
    """One row, judged by one tool: a line of the file."""

    task: str
    id: str
    source: str
    tool: str
    scores: Scores = field(default_factory=list)
    error: str = ""
    calls: int = 0
    refused: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0


def judge_all(
    rows_by_task: Mapping[str, Sequence[LabelledSample]],
    options: argparse.Namespace,
    file: Path,
) -> None:
    """Judge each row by all tools; what the file holds already is not judged again."""
    turns = []  # the first row of each task, then the second of each
    for place in range(max(map(len, rows_by_task.values()))):
        turns += [
            (task, rows[place])
            for task, rows in rows_by_task.items()
            if place < len(rows)
        ]
    done = {(each.task, each.id, each.tool) for each in read(file)}
    # a server reads several requests at little more cost than one
    with ThreadPoolExecutor(len(options.tools)) as pool:
        runs = [
            pool.submit(judge_by, tool, turns, done, options, file)
            for tool in options.tools
        ]
        for run in runs:
            run.result()


def judge_by(
    name: str,
    turns: Iterable[tuple[str, LabelledSample]],
    done: set[tuple[str, str, str]],
    options: argparse.Namespace,
    file: Path,
) -> None:
    """Judge the rows by one tool, and write a line for each."""
    is_ours = name in OURS
    tasks = OURS[name] if is_ours else PEERS[name]
    wanted = [
        (task, row)
        for task, row in turns
        if task in tasks and (task, row.sample.id, name) not in done
    ]
    if not wanted:
        return
    proxy = Proxy(options.address.rstrip("/"))
    tool: Ours | Peer
    if is_ours:
        tool = Ours(name, proxy, options.model)
    else:
        tool = Peer(name, proxy, options.model, file.with_name(f"{name}.log"))
    for task, row in wanted:
        scores, error, started = Scores(), "", time.monotonic()
        try:
            scores = tool.scores(task, row)
        except ValueError as why:
            error = str(why)[:300] or "no score"
        judged = Judged(
            task,
            row.sample.id or "",
            row.source,
            name,
            scores,
            error,
            seconds=round(time.monotonic() - started, 2),
            **vars(proxy.counted()),
        )
        # one write: two runs may share the file
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(vars(judged)) + "\n")


def read(file: Path) -> list[Judged]:
    """The lines of the file; a last one that was cut off is left out."""
    if not file.exists():
        return []
    found = []
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            found.append(Judged(**json.loads(line)))
        except ValueError:
            continue
    return found


def ranked(rows: Sequence[Judged]) -> float | None:
    """AUROC over all labels of rows."""
    return auroc([(score, label) for row in rows for score, _, label in row.scores])


def decided(rows: Sequence[Judged]) -> float | None:
    """Balanced accuracy over all labels of rows."""
    return balanced_accuracy(
        [(verdict, label) for row in rows for _, verdict, label in row.scores]
    )


def gap(rows: Sequence[tuple[Judged, Judged]]) -> float | None:
    """AUROC of the first tool less that of the second, on the same rows."""
    first = ranked([one for one, _ in rows])
    second = ranked([other for _, other in rows])
    return None if first is None or second is None else first - second


def over_sources(
    rows: Iterable[Any],
    statistic: Callable[[Sequence[Any]], float | None],
    source_of: Callable[[Any], str],
) -> tuple[float | None, str]:
    """The mean of a statistic over sources that have both labels; its value, and in words."""
    by_source: dict[str, list[Any]] = {}
    for row in rows:
        by_source.setdefault(source_of(row), []).append(row)
    known = {
        source: value
        for source, own in by_source.items()
        if (value := statistic(own)) is not None
    }
    if not known:
        return None, "-"
    value = fmean(known.values())
    bounds = bootstrap([by_source[name] for name in known], statistic, draws=1000)
    inside = f" [{bounds[0]:.2f}, {bounds[1]:.2f}]" if bounds else ""
    return value, f"{value:.2f}{inside}"


def tables(judged: Iterable[Judged]) -> str:
    """The tables in Markdown, one a task, over the rows that all its tools judged."""
    by_task: dict[str, dict[str, dict[str, Judged]]] = {}
    for each in judged:
        by_task.setdefault(each.task, {}).setdefault(each.tool, {})[each.id] = each
    lines = []
    for task, by_tool in by_task.items():
        shared = set.intersection(*(set(rows) for rows in by_tool.values()))
        lines += [
            f"\n{task}: {len(shared)} rows that all tools judged\n",
            "| tool | AUROC | balanced accuracy | scored | calls | tokens in | out | s |",
            "|---|---|---|---|---|---|---|---|",
        ]
        best: tuple[float, str] = (0.0, "")
        for tool in (name for name in TOOLS if name in by_tool):
            rows = [by_tool[tool][row_id] for row_id in sorted(shared)]
            scored = [row for row in rows if not row.error]
            value, area = over_sources(scored, ranked, lambda row: row.source)
            _, balanced = over_sources(scored, decided, lambda row: row.source)
            if tool in PEERS and value is not None:
                best = max(best, (value, tool))
            means = [
                fmean(getattr(row, name) for row in rows or [Judged("", "", "", "")])
                for name in ("calls", "prompt_tokens", "completion_tokens", "seconds")
            ]
            cells = [f"{len(scored)} of {len(rows)}", f"{means[0]:.1f}"]
            cells += [f"{mean:,.0f}" for mean in means[1:]]
            lines.append(f"| {tool} | {area} | {balanced} | {' | '.join(cells)} |")
        for tool in (name for name in OURS if name in by_tool and best[1]):
            pairs = [
                (by_tool[tool][row_id], by_tool[best[1]][row_id])
                for row_id in sorted(shared)
            ]
            both = [pair for pair in pairs if not pair[0].error and not pair[1].error]
            _, difference = over_sources(both, gap, lambda pair: pair[0].source)
            lines.append(f"\n{tool} − {best[1]}, {len(both)} rows: {difference}")
    return "\n".join(lines)


def parser(
    description: str | None, *, rows: int, longest: int, parts: int
) -> argparse.ArgumentParser:
    """Make the parser of what the benchmarks on a real model share, with its defaults."""
    shared = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    shared.add_argument("address", help="of the endpoint, up to and with /v1")
    shared.add_argument("--model", required=True, help="its name there")
    shared.add_argument("--data", type=Path, required=True, help="the labelled rows")
    shared.add_argument("--out", type=Path, required=True, help="a folder")
    shared.add_argument("--rows", type=int, default=rows, help=f"a task ({rows})")
    shared.add_argument("--seed", type=int, default=0, help="of the draw (0)")
    shared.add_argument("--half", choices=["A", "B"], help="by a digest of the id")
    shared.add_argument(
        "--longest",
        type=int,
        default=longest,
        help=f"characters of contexts ({longest})",
    )
    shared.add_argument(
        "--parts", type=int, default=parts, help=f"contexts, facts a row ({parts})"
    )
    return shared


def main() -> None:
    """Judge the rows, then print the tables of all that the folder holds."""
    options_parser = parser(__doc__, rows=100, longest=3000, parts=3)
    options_parser.add_argument("--tools", type=names_of(TOOLS), default=TOOLS)
    options_parser.add_argument(
        "--tasks", type=names_of(QUESTIONS), default=tuple(QUESTIONS)
    )
    options = options_parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "judged.jsonl"
    judge_all(drawn(options.data, options), options, file)
    print(tables(read(file)))


def names_of(known: Iterable[str]) -> Callable[[str], tuple[str, ...]]:
    """Read names parted by commas."""

    def names(text: str) -> tuple[str, ...]:
        chosen = tuple(name.strip() for name in text.split(","))
        if unknown := set(chosen) - set(known):
            raise argparse.ArgumentTypeError(
                f"{', '.join(sorted(unknown))}: one of {', '.join(known)}"
            )
        return chosen

    return names


if __name__ == "__main__":
    sys.exit(main())
