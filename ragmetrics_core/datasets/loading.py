"""Documents and question–answer pairs from files: text, Markdown, JSONL, JSON in two usual shapes, folders.

Everything else is read with the loaders of a framework and given as ``Document`` and ``Pair``.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from ragmetrics_core.data.cells import context, contexts
from ragmetrics_core.data.errors import InputError, RowError
from ragmetrics_core.data.files import read_text
from ragmetrics_core.data.frozen import Frozen, Text
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.datasets.chunking import Document
from ragmetrics_core.datasets.reading import read_objects

_TEXTS = (".txt", ".text", ".md", ".markdown")
_ROWS = (".jsonl", ".ndjson", ".json")


class Pair(Frozen):
    """A question with its golden answer."""

    question: Text = Field(repr=False, description="the question")
    answer: Text = Field(repr=False, description="the golden answer")
    document: str = Field("", description='the document that it is about; "" if unknown')


def load_documents(paths: Iterable[str | Path], *, where: Mapping[str, str] | None = None) -> tuple[Document, ...]:
    """Read documents with text, each text once; ``InputError`` if a file cannot be read, or there is none at all.

    Args:
        paths: Text and Markdown files (one document each), JSONL and JSON (one per row: its text, or its contexts
            joined; SQuAD: one per paragraph), and folders of these.
        where: Fields that a row must have, with their values; other rows are left out.
    """
    found: dict[str, Document] = {}
    names: Counter[str] = Counter()
    for name, text in (document for path in _files(paths) for document in _texts(path, where or {})):
        if text.strip() and text not in found:
            names[name] += 1
            found[text] = Document(id=name if names[name] == 1 else f"{name}~{names[name]}", text=text)
    if not found:
        raise InputError("there is no document with a text; give files of text, Markdown, JSONL or JSON")
    return tuple(found.values())


def load_pairs(paths: Iterable[str | Path], *, where: Mapping[str, str] | None = None) -> tuple[Pair, ...]:
    """Read question–answer pairs: JSONL or JSON rows in the usual column names, ``LabelledRagDataset``, or SQuAD.

    ``where`` is as for ``load_documents``. ``InputError`` if a file cannot be read, a golden answer is empty, or a
    question stands there twice.
    """
    rows = [row for path in _files(paths) for row in _rows(path, where or {}, asked=True)]
    if not rows:
        raise InputError("there is no question with a golden answer; give JSONL or JSON rows with both")
    pairs = [_pair(place, row) for place, row in rows]
    check_pairs(pairs, [place for place, _ in rows])
    return tuple(pairs)


def check_pairs(pairs: Sequence[Pair], places: Sequence[str] | None = None) -> None:
    """Raise ``InputError`` for an empty golden answer, or a question that stands there twice."""
    seen: dict[str, str] = {}
    for number, pair in enumerate(pairs):
        place = places[number] if places else f"pair {number + 1}"
        for what, text in (("question", pair.question), ("golden answer", pair.answer)):
            if not text.strip():
                raise InputError(f"{place}: the {what} is empty; fill it in, or leave the row out")
        if (first := seen.setdefault(plain(pair.question), place)) != place:
            raise InputError(f"{place}: the same question as {first}; keep one of them")


def plain(question: str) -> str:
    """A question without case and spacing, to find duplicates."""
    return " ".join(question.casefold().split())


def _pair(place: str, row: Mapping[str, Any]) -> Pair:
    try:
        sample = Sample.from_row(row)
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
    """Name and text of each document of a file: of a row its contexts joined, or its own text."""
    if path.suffix.casefold() in _TEXTS:
        yield path.name, read_text(path)
        return
    for place, row in _rows(path, where):
        name = row.get("id") or row.get("title") or f"{path.name}:{place.rpartition(' ')[2]}"
        lists = [row[key] for key in ("contexts", "reference_contexts") if isinstance(row.get(key), list)]
        try:
            found = contexts(lists[0], "contexts") if lists else [context(row, "document", 1)]
        except RowError as error:
            raise InputError(f"{place}: {error}") from None
        yield str(name), "\n".join(str(one["text"]) for one in found)


def _rows(path: Path, where: Mapping[str, str], *, asked: bool = False) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Rows of a file with their places; of SQuAD one per question that is asked, or else one per paragraph."""
    if path.suffix.casefold() in _TEXTS:
        raise InputError(f"{path}: rows come from JSONL or JSON, not from {path.suffix}")
    for place, whole in read_objects(path):
        for number, row in enumerate(_parts(whole, asked), start=1):
            if all(str(row.get(name)) == value for name, value in where.items()):
                yield place if row is whole else f"{place}, part {number}", row


def _parts(row: Mapping[str, Any], asked: bool) -> Iterator[Mapping[str, Any]]:
    """A row itself, the rows that it frames, or those of SQuAD."""
    if not isinstance(row.get("paragraphs"), list):
        framed = isinstance(row.get("documents"), list) and all(isinstance(it, Mapping) for it in row["documents"])
        yield from row["documents"] if framed else [row]
        return
    for paragraph in row["paragraphs"]:
        about = {"title": row.get("title"), "context": paragraph.get("context")}
        if not asked:
            yield about
        for one in paragraph.get("qas", ()) if asked else ():
            if not one.get("is_impossible"):
                texts = [answer.get("text") for answer in one.get("answers", ())]
                yield {**about, "question": one.get("question"), "answers": {"text": texts}}
