"""Twenty rows, ten with a planted fault, judged through our library and four others.

    uv run benchmarks/beside_peers.py --out FOLDER
    uv run benchmarks/beside_peers.py --out FOLDER --address http://127.0.0.1:8090/v1 --model NAME

Without an address the judge is an endpoint of this program that is always right and
takes 0.2 s a call, so the libraries differ by their rules alone; its tokens are words
and signs. The rows stand in ``tests/reporting/golden/planted_rows.json``. The tools of ``real_model.py`` go
through them one after the other, a row at a time. A row is called faulty if its answer
is not supported, no chunk is useful, or the expected answer is not in the contexts, as
far as a library asks that. The last one names the search, or the second where the last
is not asked; else the answer is named. ``docs/migration.md`` tells what it printed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from real_model import TOOLS, Judged, judge_all, names_of, read
from right_replies import right_reply

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from planted import planted_rows, sample_of

from ragmetrics_core.data.sample_parts import Fact
from ragmetrics_core.labelling.labelled_samples import LabelledSample
from ragmetrics_core.testing import LoopbackServer

LATENCY = 0.2
WANTED = {"no fault": 10, "made up": 4, "a wrong number": 3, "not in the text": 3}


def rows() -> Iterator[dict[str, Any]]:
    """The first rows with a reference, so many of each fault."""
    left = dict(WANTED)
    for row in planted_rows():
        if row["reference"] is not None and left.get(row["fault"], 0):
            left[row["fault"]] -= 1
            yield row


def asked() -> Mapping[str, Sequence[LabelledSample]]:
    """The rows as what is asked of them; the labels are not looked at."""
    by_task: dict[str, list[LabelledSample]] = {
        "adherence": [],
        "useful": [],
        "facts": [],
    }
    for row in rows():
        sample = sample_of(row)
        chunks = (True,) * len(sample.known_contexts)
        facts = (Fact(text=row["reference"]),)
        with_fact = sample.model_copy(update={"facts": facts})
        by_task["adherence"].append(
            LabelledSample("adherent", "planted", sample, (True,))
        )
        by_task["useful"].append(LabelledSample("relevant", "planted", sample, chunks))
        by_task["facts"].append(
            LabelledSample("present", "planted", with_fact, (True,))
        )
    return by_task


def stage_named(judged: Mapping[str, Judged]) -> str | None:
    """Where the fault of a row is, by the tool's verdicts; None for no fault."""
    verdicts = {
        task: any(verdict for _, verdict, _ in each.scores)
        for task, each in judged.items()
        if not each.error
    }
    is_useful = verdicts.get("useful", True)
    if not verdicts.get("facts", is_useful):
        return "search"
    return None if is_useful and verdicts.get("adherence", True) else "answer"


def table(judged: Sequence[Judged]) -> str:
    """The table in Markdown."""
    lines = [
        "| | seconds | calls | tokens in | out | not scored | faults found, of 10"
        " | stage right | good rows called faulty, of 10 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for tool in TOOLS:
        own = [each for each in judged if each.tool == tool]
        if not own:
            continue
        n_found = n_right = n_wrong = 0
        for row in rows():
            by_task = {each.task: each for each in own if each.id == row["id"]}
            stage = stage_named(by_task)
            if row["stage"] is None:
                n_wrong += stage is not None
            else:
                n_found += stage is not None
                n_right += stage == row["stage"]
        cells = [
            f"{sum(each.seconds for each in own):,.0f}",
            f"{sum(each.calls for each in own):,}",
            f"{sum(each.prompt_tokens for each in own):,}",
            f"{sum(each.completion_tokens for each in own):,}",
            f"{sum(bool(each.error) for each in own)} of {len(own)}",
        ]
        lines.append(
            f"| {tool} | {' | '.join(cells)} | {n_found} | {n_right} | {n_wrong} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Judge the rows by each tool, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--address", help="of an endpoint, up to and with /v1")
    parser.add_argument("--model", default="right", help="its name there")
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--tools", type=names_of(TOOLS), default=TOOLS)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "planted.jsonl"
    # the probability of a label follows the reply
    endpoint = LoopbackServer(right_reply, latency=LATENCY, probability=None)
    with endpoint as server:
        options.address = options.address or server.base_url
        for tool in options.tools:
            only = argparse.Namespace(**{**vars(options), "tools": (tool,)})
            judge_all(asked(), only, file)
    print(table(read(file)))


if __name__ == "__main__":
    main()
