"""Annotated sets as JSONL: a header with how the set was made, then one line per document and point.

A file holds no dates and no paths beyond those that were given, so that the same seed and replies give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from ragmetrics_core.data.errors import InputError
from ragmetrics_core.data.files import write_text
from ragmetrics_core.data.frozen import Frozen
from ragmetrics_core.datasets.sets import (
    AnySet,
    CombinationPoint,
    ContinuousSet,
    DiscretePoint,
    DiscreteSet,
    Header,
    LabelledDocument,
)

FORMAT = 1
_MAGIC = "ragmetrics_dataset"
M = TypeVar("M", bound=Frozen)


def _lines(given: AnySet) -> Iterator[str]:
    header = given.header.model_dump(mode="json")
    yield json.dumps({_MAGIC: FORMAT, **header}, ensure_ascii=False, sort_keys=True)
    documents = given.documents if isinstance(given, ContinuousSet) else ()
    for name, items in (("document", documents), ("point", given.points)):
        for item in items:
            yield json.dumps({name: item.model_dump(mode="json", exclude_defaults=True)}, ensure_ascii=False)


def to_jsonl(given: AnySet) -> bytes:
    """A set as the bytes of its file."""
    return "".join(f"{line}\n" for line in _lines(given)).encode("utf-8")


def write_set(path: str | Path, given: AnySet) -> None:
    """Write a set.

    Raises:
        InputError: If the file cannot be written.
    """
    write_text(path, to_jsonl(given).decode("utf-8"), "the set")


def read_set(path: str | Path) -> AnySet:
    """Read a set.

    Raises:
        InputError: If the file cannot be read, is no set, or a line is broken.
    """
    try:
        lines = Path(path).read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(f"the set {path} cannot be read: {error.strerror}") from error
    first = _object(lines[0])
    if first.pop(_MAGIC, None) != FORMAT:
        raise InputError(f"{path}, line 1: this is no set of ragmetrics; make one with: ragmetrics dataset discrete")
    header = _validated(Header, first, f"{path}, line 1")
    found: dict[str, list[Any]] = {"document": [], "point": []}
    kinds: dict[str, type[Frozen]] = {"document": LabelledDocument}
    kinds["point"] = DiscretePoint if header.kind == "discrete" else CombinationPoint
    for number, line in enumerate(lines[1:], start=2):
        row = _object(line) if line.strip() else {}
        if line.strip() and not (row and row.keys() <= found.keys()):
            raise InputError(f"{path}, line {number}: this is no line of a set; the file was changed or cut off")
        for name, value in row.items():
            found[name].append(_validated(kinds[name], value, f"{path}, line {number}"))
    if header.kind == "discrete":
        return DiscreteSet(header=header, points=tuple(found["point"]))
    widths = {document.id: len(document.contexts) for document in found["document"]}
    if any(max(point.contexts, default=0) >= widths.get(point.document, 0) for point in found["point"]):
        raise InputError(f"{path}: a point names a document or context that is not there; the file was changed")
    return ContinuousSet(header=header, documents=tuple(found["document"]), points=tuple(found["point"]))


def _object(line: bytes) -> dict[str, Any]:
    """A line's object; {} if it is none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _validated(kind: type[M], value: Any, place: str) -> M:
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        wrong = ".".join(map(str, error.errors()[0]["loc"]))
        raise InputError(f"{place}: the field {wrong!r} is missing or wrong; the file was changed") from None
