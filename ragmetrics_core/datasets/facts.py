"""Facts of references in a file: extracted once, edited by a person, frozen with a digest.

The file is JSONL: a header, then the rows as they were, each with its ``facts``. ``ragmetrics evaluate`` reads it
like any other file, and refuses it if the facts were changed after they had been frozen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from ragmetrics_core.data.errors import InputError, JudgeUnavailable, RowError
from ragmetrics_core.data.files import read_text, write_text
from ragmetrics_core.data.frozen import Frozen
from ragmetrics_core.data.questions import Answer, Instructions, NotAnswered, Part
from ragmetrics_core.data.rows import sample_from_row
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.datasets.making import Show
from ragmetrics_core.datasets.sets import digest_of
from ragmetrics_core.endpoints.fitting import gathered
from ragmetrics_core.endpoints.store import MemoryStore, ReplyStore
from ragmetrics_core.engine.loop import run
from ragmetrics_core.engine.resolve import resolve_judge
from ragmetrics_core.engine.run import JudgeLike
from ragmetrics_core.metrics.fact_matrix import extraction as facts_of
from ragmetrics_core.metrics.templates import digest, shipped

MAGIC = "ragmetrics_facts"
FORMAT = 1
Row = dict[str, Any]
_BLOCK = re.compile(r"^== (\d+) ==$")


class FactsFile(Frozen):
    """References with their facts.

    Args:
        model: Who extracted the facts.
        extraction: With which prompt.
        prompts: Digest of the prompt.
        frozen: Digest of the facts; "" as long as they may be edited.
        rows: The rows with their facts.
    """

    model: str
    extraction: str
    prompts: str
    frozen: str = ""
    rows: tuple[Row, ...] = Field(repr=False)

    @property
    def digest(self) -> str:
        """Digest of references and facts, in order."""
        return digest_of(json.dumps([_reference(row), row["facts"]], sort_keys=True) for row in self.rows)

    @property
    def count(self) -> int:
        """How many facts there are."""
        return sum(len(row["facts"]) for row in self.rows)

    def changed(self, facts: Sequence[Sequence[str]]) -> FactsFile:
        """The file with other facts; a fact that stays keeps its weight.

        Raises:
            InputError: If it is frozen, the number of rows differs, or a row has no fact left.
        """
        if self.frozen:
            raise InputError("the facts are frozen; extract them anew to change them")
        if len(facts) != len(self.rows):
            raise InputError(
                f"there are {len(facts)} blocks of facts for {len(self.rows)} references; keep every block"
            )
        rows = []
        for number, (row, own) in enumerate(zip(self.rows, facts, strict=True), start=1):
            if not own:
                raise InputError(f"reference {number} has no fact left; leave at least one")
            known = {" ".join(fact["text"].split()): fact for fact in row["facts"]}
            rows.append({**row, "facts": [known.get(text, {"text": text}) for text in dict.fromkeys(own)]})
        return self.model_copy(update={"rows": tuple(rows)})

    def freeze(self) -> FactsFile:
        """The file with the digest of its facts."""
        return self.model_copy(update={"frozen": self.digest})


def _sample(row: Mapping[str, Any], number: int) -> Sample:
    try:
        return sample_from_row(row, {})
    except RowError as error:
        raise InputError(f"row {number}: {error}") from None


def _reference(row: Mapping[str, Any]) -> str:
    sample = _sample(row, 0)
    return sample.reference[0] if sample.reference else ""


def extract_facts(
    rows: Sequence[Mapping[str, Any]],
    judge: JudgeLike,
    *,
    extraction: Literal["io", "cot"] = "io",
    store: ReplyStore | None = None,
    concurrency: int = 32,
    show: Show | None = None,
) -> tuple[FactsFile, Usage]:
    """Extract the facts of references; rows that bring facts keep them.

    Args:
        rows: Rows in the usual column names; of several references of a row the first counts.
        judge: Who extracts.
        extraction: Direct prompt, or with a chain of thought.
        store: Where replies are kept.
        concurrency: Most calls in flight.
        show: Shows progress.

    Returns:
        The rows with facts, and what it cost.

    Raises:
        InputError: If a row has no reference, or no facts could be extracted from one.
        JudgeUnavailable: If the judge will answer nothing.
    """
    judge, done = resolve_judge(judge), list[Usage]()
    template = shipped(f"facts_{extraction}")
    session = judge.session(concurrency=concurrency, store=MemoryStore() if store is None else store)
    samples = [_sample(row, number) for number, row in enumerate(rows, start=1)]
    for number, sample in enumerate(samples, start=1):
        if not sample.facts and not sample.reference:
            raise InputError(f"row {number}: no reference, so there is nothing to extract facts from")

    async def one(number: int, sample: Sample) -> list[Row]:
        if sample.facts:
            return [fact.model_dump(exclude_defaults=True) for fact in sample.facts]
        question, cot = {"question": Part("Question", sample.question)}, extraction == "cot"
        asked = facts_of(sample.reference[0], Instructions(template), question, reasoning=cot)
        answer = await session.answer(asked)
        done.append(answer.usage)
        if show is not None:
            show(len(done), len(samples), sum(done, Usage()))
        return _facts(answer, number)

    found = run(gathered((one(number, sample) for number, sample in enumerate(samples, start=1)), hasty=True))
    made = tuple({**row, "facts": facts} for row, facts in zip(rows, found, strict=True))
    file = FactsFile(model=judge.name, extraction=extraction, prompts=digest(template), rows=made)
    return file, sum(done, Usage())


def _facts(answer: Answer[Any], number: int) -> list[Row]:
    """The facts of a reply; raises if there are none, or the judge will answer nothing."""
    if isinstance(answer.reply, NotAnswered):
        if isinstance(answer.reply.error, JudgeUnavailable):
            raise answer.reply.error
        raise InputError(f"row {number}: no facts: {answer.reply.error}")
    facts = answer.reply.reply.facts
    if not facts:
        raise InputError(f"row {number}: the reference states no fact; leave the row out")
    return [{"text": text} for text in facts]


def write_facts(path: str | Path, file: FactsFile) -> None:
    """Write facts as JSONL.

    Raises:
        InputError: If the file cannot be written.
    """
    header = {MAGIC: FORMAT, **file.model_dump(exclude={"rows"})}
    lines = [json.dumps(line, ensure_ascii=False) for line in (header, *file.rows)]
    write_text(path, "".join(f"{line}\n" for line in lines), "the file of facts")


def read_facts(path: str | Path) -> FactsFile:
    """Read facts, and check that frozen ones are as they were.

    Raises:
        InputError: If the file cannot be read, is none of facts, or frozen facts were changed.
    """
    try:
        lines = read_text(Path(path)).split("\n")
        header, *rows = [json.loads(line) for line in lines if line.strip()]
        if header.pop(MAGIC) != FORMAT or not all(isinstance(row.get("facts"), list) for row in rows):
            raise ValueError("no file of facts")
        file = FactsFile.model_validate({**header, "rows": tuple(rows)})
        own = file.digest
    except InputError:
        raise
    except (ValueError, KeyError, AttributeError, TypeError):
        raise InputError(f"{path} is no file of facts; make one with: ragmetrics facts extract") from None
    if file.frozen and file.frozen != own:
        raise InputError(f"{path}: the facts were changed after they had been frozen; restore or extract them anew")
    return file


def as_text(file: FactsFile) -> str:
    """The facts as a text to edit: a block per reference, a fact per line."""
    parts = ["Edit the facts: one per line, under the number of their reference. Lines with > are not read.\n"]
    for number, row in enumerate(file.rows, start=1):
        quoted = "\n".join(f"> {line}" for line in _reference(row).splitlines())
        facts = "\n".join(map(_line, row["facts"]))
        parts.append(f"== {number} ==\n{quoted}\n{facts}\n")
    return "\n".join(parts)


def _line(fact: Row) -> str:
    """A fact on one line; one that would read as a quotation or as a heading stands behind a space."""
    text = " ".join(fact["text"].split())
    return f" {text}" if text.startswith((">", "==")) else text


def from_text(text: str) -> list[list[str]]:
    """The facts of an edited text, per reference."""
    blocks: list[list[str]] = []
    for line in text.splitlines():
        if _BLOCK.match(line.rstrip()):
            blocks.append([])
        elif blocks and line.strip() and not line.startswith(">"):
            blocks[-1].append(line.strip())
    return blocks
