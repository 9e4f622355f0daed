"""Documents and question–answer pairs from files: text, Markdown, JSONL, JSON in two usual shapes, folders.

Everything else is read with the loaders of a framework and given as ``Document`` and ``Pair``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragmetrics_core.data.errors import InputError, RowError
from ragmetrics_core.data.files import read_text
from ragmetrics_core.data.frozen import Frozen, Text
from ragmetrics_core.data.rows import sample_from_row
from ragmetrics_core.data.shapes import context
from ragmetrics_core.datasets.chunking import Document

_TEXTS = (".txt", ".text", ".md", ".markdown")
_ROWS = (".jsonl", ".ndjson", ".json")
_LISTS = ("examples", "data", "rows", "documents")
Located = tuple[str, Mapping[str, Any]]


class Pair(Frozen):
    """A question with its golden answer.

    Args:
        question: The question.
        answer: The golden answer.
        document: The document that it is about; "" if unknown.
    """

    question: Text
    answer: Text
    document: str = ""


def load_documents(paths: Iterable[str | Path], *, where: Mapping[str, str] | None = None) -> tuple[Document, ...]:
    """Read documents.

    Args:
        paths: Text and Markdown files (one document each), JSONL and JSON (one per row: its text, or its contexts
            joined; SQuAD: one per paragraph), and folders of these.
        where: Fields that a row must have, with their values; other rows are left out.

    Returns:
        Documents with text, each text once.

    Raises:
        InputError: If a file cannot be read, or there is no document at all.
    """
    found: dict[str, Document] = {}
    names: dict[str, int] = {}
    for path in _files(paths):
        for name, text in _texts(path, where or {}):
            if text.strip() and text not in found:
                names[name] = names.get(name, 0) + 1
                found[text] = Document(id=name if names[name] == 1 else f"{name}~{names[name]}", text=text)
    if not found:
        raise InputError("there is no document with a text; give files of text, Markdown, JSONL or JSON")
    return tuple(found.values())


def load_pairs(paths: Iterable[str | Path], *, where: Mapping[str, str] | None = None) -> tuple[Pair, ...]:
    """Read question–answer pairs.

    Args:
        paths: JSONL or JSON files: rows in the usual column names, ``LabelledRagDataset``, or SQuAD.
        where: As for ``load_documents``.

    Raises:
        InputError: If a file cannot be read, a golden answer is empty, or a question stands there twice.
    """
    pairs: list[Pair] = []
    places: list[str] = []
    for path in _files(paths):
        for place, row in _rows(path, where or {}, asked=True):
            pairs.append(_pair(place, row))
            places.append(place)
    if not pairs:
        raise InputError("there is no question with a golden answer; give JSONL or JSON rows with both")
    check_pairs(pairs, places)
    return tuple(pairs)


def check_pairs(pairs: Sequence[Pair], places: Sequence[str] | None = None) -> None:
    """Refuse empty golden answers and questions that stand there twice.

    Raises:
        InputError: With the places, or the numbers of the pairs.
    """
    places = places or [f"pair {number}" for number in range(1, len(pairs) + 1)]
    seen: dict[str, str] = {}
    for pair, place in zip(pairs, places, strict=True):
        if not pair.question.strip() or not pair.answer.strip():
            missing = "question" if not pair.question.strip() else "golden answer"
            raise InputError(f"{place}: the {missing} is empty; fill it in, or leave the row out")
        key = " ".join(pair.question.casefold().split())
        if key in seen:
            raise InputError(f"{place}: the same question as {seen[key]}; keep one of them")
        seen[key] = place


def _pair(place: str, row: Mapping[str, Any]) -> Pair:
    try:
        sample = sample_from_row(row, {})
    except RowError as error:
        raise InputError(f"{place}: {error}") from None
    answer = sample.reference[0] if sample.reference else sample.answer or ""
    document = row.get("document") or row.get("title")
    return Pair(question=sample.question or "", answer=answer, document=document if isinstance(document, str) else "")


def _files(paths: Iterable[str | Path]) -> Iterator[Path]:
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.suffix.casefold() in (*_TEXTS, *_ROWS) and p.is_file())
            if not inside:
                raise InputError(f"{path}: the folder holds no file of text, Markdown, JSONL or JSON")
            yield from inside
        elif not path.exists():
            raise InputError(f"{path}: no such file or folder")
        elif path.suffix.casefold() not in (*_TEXTS, *_ROWS):
            raise InputError(f"{path}: unknown kind of file; use {', '.join((*_TEXTS, *_ROWS))}")
        else:
            yield path


def _texts(path: Path, where: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Name and text of each document of a file."""
    if path.suffix.casefold() in _TEXTS:
        yield path.name, read_text(path)
        return
    for place, row in _rows(path, where):
        name = row.get("id") or row.get("title") or f"{path.name}:{place.rpartition(' ')[2]}"
        try:
            yield str(name), _text(row)
        except RowError as error:
            raise InputError(f"{place}: {error}") from None


def _text(row: Mapping[str, Any]) -> str:
    """A row's text: its contexts joined, or its own."""
    listed = next((row[name] for name in ("contexts", "reference_contexts") if isinstance(row.get(name), list)), None)
    if listed is not None:
        return "\n".join(str(context(item, "contexts", rank)["text"]) for rank, item in enumerate(listed, 1))
    return str(context(row, "document", 1)["text"])


def _rows(path: Path, where: Mapping[str, str], *, asked: bool = False) -> Iterator[Located]:
    """Rows of a file with their places; of SQuAD one per question that is asked, or else one per paragraph."""
    if path.suffix.casefold() in _TEXTS:
        raise InputError(f"{path}: rows come from JSONL or JSON, not from {path.suffix}")
    lines = path.suffix.casefold() != ".json"
    items = _lines(path) if lines else _items(path, _parsed(read_text(path), str(path)), asked)
    for place, row in items:
        if not isinstance(row, Mapping):
            raise InputError(f"{place}: needs an object, found {type(row).__name__}")
        if all(str(row.get(name)) == value for name, value in where.items()):
            yield place, row


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            yield f"{path}, line {number}", _parsed(line, f"{path}, line {number}")


def _items(path: Path, data: Any, asked: bool) -> Iterator[tuple[str, Any]]:
    listed = next((data[name] for name in _LISTS if isinstance(data.get(name), list)), [data]) if (
        isinstance(data, Mapping)
    ) else data  # fmt: skip
    if not isinstance(listed, list):
        raise InputError(f"{path}: needs a list of objects, found {type(data).__name__}")
    for number, item in enumerate(_flattened(listed, asked), start=1):
        yield f"{path}, item {number}", item


def _flattened(listed: Iterable[Any], asked: bool) -> Iterator[Any]:
    for item in listed:
        if not isinstance(item, Mapping) or not isinstance(item.get("paragraphs"), list):
            yield item
            continue
        for paragraph in item["paragraphs"]:
            about = {"title": item.get("title"), "context": paragraph.get("context")}
            if not asked:
                yield about
            for one in paragraph.get("qas", ()) if asked else ():
                if not one.get("is_impossible"):
                    yield {**about, "question": one.get("question"), "answers": _answers(one)}


def _answers(asked: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {"text": [answer.get("text") for answer in asked.get("answers", ())]}


def _parsed(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: not JSON ({getattr(error, 'msg', 'nested too deeply')})") from None
