"""Evidence behind a score: open to every metric, with the shapes that reports understand.

A metric's own evidence is a subclass that names its ``kind``. What is read from a file becomes the class of its kind
where that is loaded, else the shape that its fields have, else plain fields: a report needs no metric to be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, ConfigDict, Field, SerializeAsAny, StrictBool

from ragmetrics_core.data.frozen import Share, Silent
from ragmetrics_core.data.questions import Mode
from ragmetrics_core.data.sample import Fact


class Evidence(Silent):
    """What a score rests on: any fields.

    Args:
        kind: A name of the metric's own; its default makes a subclass known.
    """

    model_config = ConfigDict(frozen=True, extra="allow", protected_namespaces=())

    known: ClassVar[dict[str, type[Evidence]]] = {}

    kind: str = "other"

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if "kind" in cls.__annotations__:
            Evidence.known[cls.model_fields["kind"].default] = cls


class JudgedChunk(Silent, extra="ignore"):
    """One chunk's verdict.

    Args:
        rank: 1 for the first context.
        id: The context's own id, if it has one.
        useful: The verdict; None if the judge did not answer.
        probability: p(useful), where the judge gives one.
        grade: 0 to 3, where grades were asked for.
        precision: Precision among the first ``rank`` chunks (P@k).
        reason: The judge's explanation.
        duplicate_of: Rank of the identical chunk whose verdict this is.
        mode: How the probability was obtained.
        windows: In how many windows a text too long for the judge was judged; None: as a whole.
    """

    rank: int
    id: str | None = None
    useful: StrictBool | None = None
    probability: Share | None = None
    grade: int | None = Field(default=None, ge=0, le=3)
    precision: Share | None = None
    reason: str = ""
    duplicate_of: int | None = None
    mode: Mode = "verdict"
    windows: int | None = None


class JudgedChunks(Evidence):
    """Evidence with a verdict on each chunk.

    Args:
        chunks: One entry per chunk, in rank order.
        useful: Number of useful chunks.
    """

    chunks: tuple[JudgedChunk, ...]
    useful: int | None = None


class Polled(Evidence):
    """Evidence of a score that is a share of polls.

    Args:
        asked: Polls asked; 1 for a deterministic judge.
        bounds: Lowest and highest share of yes and no that the missing polls could have led to.
        repeatability: Wilson interval over the polls: repeatability of this judge, not the probability that
            it is right. None for a deterministic judge.
    """

    asked: int
    bounds: tuple[Share, Share] | None = None
    repeatability: tuple[Share, Share] | None = None


class Cell(Silent, extra="ignore"):
    """One fact × context: how probable it is that the context fully discusses the fact.

    Args:
        probability: In [0, 1]; None if the judge did not answer.
        mode: How it was obtained.
        mass: Probability that the label tokens cover, for log-probabilities.
        reason: The judge's explanation, where it gives one.
        windows: In how many windows a context too long for the judge was judged; None: as a whole.
    """

    probability: Share | None
    mode: Mode = "verdict"
    mass: float | None = None
    reason: str = ""
    windows: int | None = None

    @property
    def covered(self) -> bool:
        """True if the probability is above one half."""
        return self.probability is not None and self.probability > 0.5


class FactMatrix(Evidence):
    """Evidence with a probability for each fact in each context.

    Args:
        facts: The facts, in order.
        cells: One row per fact, one column per context.
        contexts_value: Value over the contexts that reached the generator, where more was judged.
    """

    facts: tuple[Fact, ...]
    cells: tuple[tuple[Cell, ...], ...]
    contexts_value: Share | None = None


_SHAPES: dict[type[Evidence], tuple[str, ...]] = {
    JudgedChunks: ("chunks",),
    FactMatrix: ("facts", "cells"),
    Polled: ("asked", "repeatability"),
}


def _typed(value: Any) -> Any:
    """Evidence from its fields: of the class of its kind, else of the shape that it has."""
    if not isinstance(value, Mapping):
        return value
    shape = next((shape for shape, names in _SHAPES.items() if value.keys() >= set(names)), Evidence)
    return Evidence.known.get(str(value.get("kind")), shape).model_validate(value)


AnyEvidence = Annotated[SerializeAsAny[Evidence], BeforeValidator(_typed)]
