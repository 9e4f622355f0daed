"""Families of models, and where a judge is of the family of what it judges.

A judge tends to favour what its own family wrote. It tends to agree with an order that
its own family made.
"""

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from ragmetrics_core.data import SampleResult

FAMILIES: dict[str, str] = tomllib.loads(
    files("ragmetrics_core.reporting").joinpath("families.toml").read_text("utf-8")
)["families"]
"""Families of models by how their names are written."""


@cache
def family(model: str) -> str:
    """Return the family that a model's name tells.

    It is a known one, else the first word of the name without its provider.

    Examples:
        >>> family("openai/gpt-4o-mini"), family("azure/o3"), family("ollama/llama3.1"), family("local/mine-7b")
        ('OpenAI', 'OpenAI', 'Meta', 'mine')
    """
    name = model.casefold()
    word = re.match(r"[a-z]*", name.rpartition("/")[2])
    return next(
        (known for known, pattern in FAMILIES.items() if re.search(pattern, name)),
        word[0] if word else "",
    )


def shared(row: SampleResult) -> Iterator[str]:
    """Yield the parts of an application that are of the family of a row's judge.

    A part is written ``generator OpenAI`` or, where it is known, ``reranker OpenAI``.
    """
    judges = {
        family(name)
        for own in row.results.values()
        for name in (own.judge, *own.usage.models)
    } - {""}
    if judges and (sample := row.sample) is not None:
        noted = sample.capture.provenance if sample.capture else {}
        parts = {
            "generator": sample.generator,
            "reranker": sample.metadata.get("reranker") or noted.get("reranker"),
        }
        for part, models in parts.items():
            yield from {
                f"{part} {own}"
                for own in map(family, str(models or "").split(", "))
                if own in judges
            }
