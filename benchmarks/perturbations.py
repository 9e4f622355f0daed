"""Small edits that make a supported answer wrong: a changed number, an inserted "not", a swapped name."""

from __future__ import annotations

import random
import re
from typing import Any

KINDS = ("any number changed", "number of two or more digits changed", '"not" inserted', "name swapped")

_NUMBER = re.compile(r"(?<![\w.,\[])\d+(?![\w\]]|[.,]\d|[.)]\s)")
_VERB = re.compile(r"\b(is|are|was|were|has|have|had|can|could|will|would|may|does|did)\b(?! not|n't)")
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]{2,}(?: [A-Z][a-z]+)*")


def changed_number(answer: str, generator: random.Random, *, digits: int) -> str | None:
    """The answer with one of its numbers made another of as many digits.

    Args:
        answer: The answer.
        generator: Source of chance.
        digits: Fewest digits of the number.

    Returns:
        The edited answer; None if there is no such number.
    """
    found = [number for number in _NUMBER.finditer(answer) if len(number[0]) >= digits]
    if not found:
        return None
    number = generator.choice(found)
    lowest = 10 ** (len(number[0]) - 1)
    other = int(number[0])
    while other == int(number[0]):
        other = generator.randrange(lowest, 10 * lowest)
    return answer[: number.start()] + str(other) + answer[number.end() :]


def negated(answer: str, generator: random.Random) -> str | None:
    """The answer with "not" after one of its verbs; None if it has none of the usual ones.

    Args:
        answer: The answer.
        generator: Source of chance.
    """
    found = list(_VERB.finditer(answer))
    if not found:
        return None
    verb = generator.choice(found)
    return f"{answer[: verb.end()]} not{answer[verb.end() :]}"


def swapped_name(answer: str, contexts: tuple[str, ...], generator: random.Random) -> str | None:
    """The answer with one name replaced by another of its contexts.

    Args:
        answer: The answer.
        contexts: Texts from which the other name is taken.
        generator: Source of chance.

    Returns:
        The edited answer; None if the answer holds no name or the contexts no other.
    """
    found = list(_NAME.finditer(answer))
    others = sorted({name for text in contexts for name in _NAME.findall(text) if name not in answer})
    if not found or not others:
        return None
    name = generator.choice(found)
    other: str = generator.choice(others)
    return answer[: name.start()] + other + answer[name.end() :]


def perturbed(kind: str, row: dict[str, Any]) -> str | None:
    """The answer of a row after one edit, the same at every call.

    Args:
        kind: One of ``KINDS``.
        row: A row with ``id``, ``answer`` and ``contexts``.

    Returns:
        The edited answer; None if the edit does not apply to it.
    """
    generator = random.Random(f"{kind} {row['id']}")
    answer: str = row["answer"]
    if "number" in kind:
        return changed_number(answer, generator, digits=2 if "two" in kind else 1)
    if kind == "name swapped":
        return swapped_name(answer, tuple(context["text"] for context in row["contexts"]), generator)
    return negated(answer, generator)
