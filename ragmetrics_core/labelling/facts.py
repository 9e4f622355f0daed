"""Facts of references in a file: extracted once, edited by a person, frozen with a digest.

The file is JSON with one fact on a line, to be edited as it is: how the facts were
made, then the rows as they were, each with its ``facts``. ``ragmetrics evaluate`` reads
it like any other file, and refuses it if the facts were changed after they had been
frozen.
"""

import json
from collections.abc import Generator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field

from ragmetrics_core.data import (
    Failed,
    Frozen,
    InputError,
    RowError,
    Sample,
    Undefined,
    as_input_error,
    json_value,
    read_text,
    write_text,
)
from ragmetrics_core.data.asking import Instructions, question_part
from ragmetrics_core.labelling.making import Maker, ask_one
from ragmetrics_core.labelling.sets import digest_of
from ragmetrics_core.metrics.fact_matrix import question_for_facts
from ragmetrics_core.metrics.templates import digest_of_prompt, instructions_for_judge
from ragmetrics_core.reporting.jsonl import validate_data

MAGIC = "ragmetrics_facts"
FORMAT = 2
Row = Mapping[str, Any]


class FactsFile(Frozen):
    """References with their facts."""

    model: str = Field(description="who extracted the facts")
    extraction: str = Field(description="with which prompt")
    prompts: str = Field(description="digest of the prompt")
    frozen: str = Field(
        default="", description='digest of the facts; "" as long as they may be edited'
    )
    rows: tuple[Row, ...] = Field(repr=False, description="the rows with their facts")

    @property
    def samples(self) -> list[Sample]:
        """The rows as samples; ``InputError`` if one is none, or has no fact."""
        samples = _samples(self.rows)
        for number, sample in enumerate(samples, start=1):
            if not sample.facts:
                raise InputError(
                    f"row {number}: no fact is left; leave at least one, or leave the"
                    " row out"
                )
        return samples

    @property
    def digest(self) -> str:
        """Digest of references and facts, in order."""
        texts = []
        for sample in self.samples:
            facts = [fact.model_dump() for fact in sample.facts or ()]
            first_reference = sample.reference[:1]
            texts.append(json.dumps([first_reference, facts], sort_keys=True))
        return digest_of(texts)

    @property
    def count(self) -> int:
        """How many facts there are."""
        return sum(len(sample.facts or ()) for sample in self.samples)

    def freeze(self) -> Self:
        """Return the file with the digest of its facts."""
        return self.model_copy(update={"frozen": self.digest})


def _samples(rows: Sequence[Row]) -> list[Sample]:
    """Return the samples of rows, read without contexts and answers.

    No fact is made of these, and columns that hold them in another form do no harm.
    """
    samples = []
    for number, row in enumerate(rows, start=1):
        with as_input_error(f"row {number}"):
            samples.append(Sample.from_row(row, contexts=_unread, answer=_unread))
    return samples


def _unread(row: Row) -> None:
    """Return the value of a field that is not read."""


def extract_facts(
    rows: Sequence[Row], maker: Maker, *, extraction: Literal["io", "cot"] = "io"
) -> FactsFile:
    """Have a model extract the facts that references state.

    "Anna lit the lamp in 1856." may state two facts. A row that has facts keeps them.

    Args:
        rows: Rows in the usual column names; of several references of a row the first
            counts.
        maker: Asks the model.
        extraction: The prompt: "io" asks for the facts at once, "cot" for reasoning
            first.

    Returns:
        A file of facts, not yet frozen: all rows, each with its facts.

    Raises:
        InputError: If a row has no reference, or no facts could be extracted from one.
        JudgeUnavailable: If the judge will answer nothing.
    """
    instructions = instructions_for_judge(
        f"facts_{extraction}", None, "reference", "question"
    )
    ask_for_facts = partial(
        _ask_for_facts, instructions=instructions, reasoning=extraction == "cot"
    )
    samples_by_index = _samples_without_facts(rows)
    samples = list(samples_by_index.values())
    facts_or_faults = list(maker.make(ask_for_facts, samples))
    rows_with_facts = [dict(row) for row in rows]
    for index, facts in zip(samples_by_index, facts_or_faults, strict=True):
        if isinstance(facts, (Failed, Undefined)):
            raise InputError(f"row {index + 1}: no facts: {facts.reason}")
        rows_with_facts[index]["facts"] = facts
    return FactsFile(
        model=maker.name,
        extraction=extraction,
        prompts=digest_of_prompt(instructions.template, instructions.examples),
        rows=tuple(rows_with_facts),
    )


def _ask_for_facts(
    sample: Sample, *, instructions: Instructions, reasoning: bool
) -> Generator[Any, Any, list[str] | Undefined]:
    """Ask for the facts of a sample's first reference; undefined if it states none."""
    question = question_for_facts(
        sample.reference[0],
        instructions,
        question_part(sample),
        reasoning=reasoning,
    )
    extracted = yield from ask_one(question)
    if not extracted.facts:
        return Undefined(
            metric="facts", reason="the reference states no fact; leave the row out"
        )
    return list(extracted.facts)


def _samples_without_facts(rows: Sequence[Row]) -> dict[int, Sample]:
    """Return the samples that bring no facts, by the index of their row.

    ``InputError`` if one has no reference either.
    """
    samples_by_index: dict[int, Sample] = {}
    for index, sample in enumerate(_samples(rows)):
        if sample.facts:
            continue
        if not sample.reference:
            raise InputError(
                f"row {index + 1}: no reference, so there is nothing to extract facts"
                " from"
            )
        samples_by_index[index] = sample
    return samples_by_index


def write_facts(path: str | Path, file: FactsFile) -> None:
    """Write facts as JSON; ``InputError`` if the file cannot be written."""
    data = {MAGIC: FORMAT, **file.model_dump()}
    text = json.dumps(data, ensure_ascii=False, indent=1)
    write_text(path, f"{text}\n", "the file of facts")


def read_facts(path: str | Path) -> FactsFile:
    """Read a file of facts, which ``write_facts`` wrote and a person may have edited.

    An edited file is read as it is now. But facts may be frozen: then the file holds a
    digest of them. Example: the fact "It is old." was frozen; the file with "It is
    old" is refused.

    Raises:
        InputError: If the file cannot be read or is no file of facts, or if its facts
            were changed after they had been frozen.
    """
    try:
        data = json_value(read_text(Path(path)))
    except RowError as error:
        raise InputError(f"{path}: {error}") from None
    if not isinstance(data, dict) or data.pop(MAGIC, None) != FORMAT:
        raise InputError(
            f"{path} is no file of facts; make one with: ragmetrics dataset facts"
        )
    facts_file = validate_data(FactsFile, data, str(path))
    # ``frozen`` is the digest that was stored, ``digest`` that of the facts read
    is_frozen = facts_file.frozen != ""
    if is_frozen and facts_file.frozen != facts_file.digest:
        raise InputError(
            f"{path}: the facts were changed after they had been frozen; restore or"
            " extract them anew"
        )
    return facts_file
