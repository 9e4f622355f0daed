"""Facts of references in a file: extracted once, edited by a person, frozen with a digest.

The file is JSONL: a header, then the rows as they were, each with its ``facts``. ``ragmetrics evaluate`` reads it
like any other file, and refuses it if the facts were changed after they had been frozen.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field

from ragmetrics_core.data.errors import InputError, JudgeError, JudgeUnavailable, RowError
from ragmetrics_core.data.files import own_lines, write_text
from ragmetrics_core.data.frozen import Frozen
from ragmetrics_core.data.questions import Instructions, Part
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.datasets.making import Maker
from ragmetrics_core.datasets.sets import digest_of
from ragmetrics_core.endpoints.fitting import gathered
from ragmetrics_core.engine.loop import run
from ragmetrics_core.metrics.fact_matrix import extraction as facts_of
from ragmetrics_core.metrics.templates import digest, shipped
from ragmetrics_core.reporting.jsonl import validated

MAGIC = "ragmetrics_facts"
FORMAT = 1
Row = dict[str, Any]
_BLOCK = re.compile(r"^== (\d+) ==$")


class FactsFile(Frozen):
    """References with their facts."""

    model: str = Field(description="who extracted the facts")
    extraction: str = Field(description="with which prompt")
    prompts: str = Field(description="digest of the prompt")
    frozen: str = Field("", description='digest of the facts; "" as long as they may be edited')
    rows: tuple[Row, ...] = Field(repr=False, description="the rows with their facts")

    @property
    def digest(self) -> str:
        """Digest of references and facts, in order."""
        return digest_of(json.dumps([_reference(row), row["facts"]], sort_keys=True) for row in self.rows)

    @property
    def count(self) -> int:
        """How many facts there are."""
        return sum(len(row["facts"]) for row in self.rows)

    def changed(self, facts: Sequence[Sequence[str]]) -> Self:
        """The file with other facts; a fact that stays keeps its weight.

        ``InputError`` if it is frozen, the number of rows differs, or a row has no fact left.
        """
        if self.frozen:
            raise InputError("the facts are frozen; extract them anew to change them")
        if len(facts) != len(self.rows):
            told = f"there are {len(facts)} blocks of facts for {len(self.rows)} references; keep every block"
            raise InputError(told)
        rows = []
        for number, (row, own) in enumerate(zip(self.rows, facts, strict=True), start=1):
            if not own:
                raise InputError(f"reference {number} has no fact left; leave at least one")
            known = {" ".join(fact["text"].split()): fact for fact in row["facts"]}
            rows.append({**row, "facts": [known.get(text, {"text": text}) for text in dict.fromkeys(own)]})
        return self.model_copy(update={"rows": tuple(rows)})

    def freeze(self) -> Self:
        """The file with the digest of its facts."""
        return self.model_copy(update={"frozen": self.digest})


def _sample(row: Mapping[str, Any], number: int) -> Sample:
    try:
        return Sample.from_row(row)
    except RowError as error:
        raise InputError(f"row {number}: {error}") from None


def _reference(row: Mapping[str, Any]) -> str:
    sample = _sample(row, 0)
    return sample.reference[0] if sample.reference else ""


def extract_facts(
    rows: Sequence[Mapping[str, Any]], maker: Maker, *, extraction: Literal["io", "cot"] = "io"
) -> FactsFile:
    """Extract the facts of references, directly or with a chain of thought; rows that bring facts keep them.

    Rows have the usual column names; of several references of a row the first counts.

    Raises:
        InputError: If a row has no reference, or no facts could be extracted from one.
        JudgeUnavailable: If the judge will answer nothing.
    """
    instructions, done = Instructions(shipped(f"facts_{extraction}")), list[int]()
    samples = [_sample(row, number) for number, row in enumerate(rows, start=1)]
    for number, sample in enumerate(samples, start=1):
        if not sample.facts and not sample.reference:
            raise InputError(f"row {number}: no reference, so there is nothing to extract facts from")

    async def one(number: int, sample: Sample) -> list[Row]:
        if sample.facts:
            return [fact.model_dump(exclude_defaults=True) for fact in sample.facts]
        parts = {"question": Part("Question", sample.question)}
        try:
            reply = await maker.ask(facts_of(sample.reference[0], instructions, parts, reasoning=extraction == "cot"))
        except JudgeUnavailable:
            raise
        except JudgeError as error:
            raise InputError(f"row {number}: no facts: {error}") from None
        done.append(number)
        maker.shown(len(done), len(samples))
        if not reply.facts:
            raise InputError(f"row {number}: the reference states no fact; leave the row out")
        return [{"text": text} for text in reply.facts]

    found = run(gathered((one(number, sample) for number, sample in enumerate(samples, start=1)), hasty=True))
    made = tuple({**row, "facts": facts} for row, facts in zip(rows, found, strict=True))
    return FactsFile(model=maker.name, extraction=extraction, prompts=digest(instructions.template), rows=made)


def write_facts(path: str | Path, file: FactsFile) -> None:
    """Write facts as JSONL; ``InputError`` if the file cannot be written."""
    header = {MAGIC: FORMAT, **file.model_dump(exclude={"rows"})}
    lines = [json.dumps(line, ensure_ascii=False) for line in (header, *file.rows)]
    write_text(path, "".join(f"{line}\n" for line in lines), "the file of facts")


def read_facts(path: str | Path) -> FactsFile:
    """Read facts; ``InputError`` if the file cannot be read, is none of facts, or frozen facts were changed."""
    (place, header), *rows = list(own_lines(path, "the file of facts")) or [("", None)]
    whole = all(isinstance(row, dict) and isinstance(row.get("facts"), list) for _, row in rows)
    if not isinstance(header, dict) or header.pop(MAGIC, None) != FORMAT or not whole:
        raise InputError(f"{path} is no file of facts; make one with: ragmetrics facts extract")
    file = validated(FactsFile, {**header, "rows": [row for _, row in rows]}, place)
    if file.frozen and file.frozen != file.digest:
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
