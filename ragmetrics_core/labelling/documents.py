"""Documents and question–answer pairs: read from files, and cut into chunks.

A chunk ends at the border of a paragraph or a sentence. Files are text, Markdown, JSONL
and JSON, and folders of these. Everything else is read with the loaders of a framework
and given as ``Document`` and ``Pair``.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pydantic import Field

from ragmetrics_core.data import (
    Context,
    Frozen,
    InputError,
    Sample,
    SettingError,
    Text,
    as_input_error,
    read_text,
)
from ragmetrics_core.data.cells import read_context, read_contexts
from ragmetrics_core.data.scalars import composed_text
from ragmetrics_core.engine.row_files import read_objects

CHUNK_SIZE = 2000

# From the best border to the worst; each match ends where the next chunk may begin.
_BORDERS = (
    re.compile(r"\n[ \t]*\n\s*"),
    re.compile(r"[.!?…][\"'”’)\]]*\s+|[。！？]"),
    re.compile(r"\s+"),
)


class Document(Frozen):
    """A text to make chunks of.

    Attributes:
        id: Its name, unique among the documents.
        text: The text.
    """

    id: str
    text: Text = Field(repr=False)


def chunk_document(
    document: Document, *, size: int = CHUNK_SIZE
) -> tuple[Context, ...]:
    """Cut a document into chunks.

    Args:
        document: The document.
        size: Most characters of a chunk.

    Returns:
        Chunks in order with ids ``document#number``, none of them blank, without white
        space at their ends. Only white space is lost between them.

    Raises:
        SettingError: If the size is not positive.

    Examples:
        >>> [chunk.text for chunk in chunk_document(Document(id="d", text="One two. Three four. Five."), size=15)]
        ['One two.', 'Three four.', 'Five.']
    """
    if size < 1:
        raise SettingError(f"a chunk has at least 1 character; got {size}")
    text = document.text
    chunks: list[Context] = []
    start = 0
    while start < len(text):
        end = _end_of_chunk(text, start, size)
        chunk_text = text[start:end].strip()
        if chunk_text:
            chunk_id = f"{document.id}#{len(chunks)}"
            chunks.append(Context(id=chunk_id, text=chunk_text))
        start = end
    return tuple(chunks)


def _end_of_chunk(text: str, start: int, size: int) -> int:
    """Find where a chunk from ``start`` with at most ``size`` characters should end.

    It ends behind a paragraph, else a sentence, else a word, that ends in the second
    half of what fits; else where it is full: with ``size=100`` behind a sentence that
    ends at 80, but not behind one that ends at 40.
    """
    full_end = start + size
    if len(text) <= full_end:
        return len(text)
    is_at_space = text[full_end].isspace()
    window = text[start : full_end + 1] if is_at_space else text[start:full_end]
    for border in _BORDERS:
        ends = [match.end() for match in border.finditer(window)]
        if ends and ends[-1] > size // 2:
            return start + ends[-1]
    return full_end


_TEXT_SUFFIXES = (".txt", ".text", ".md", ".markdown")
_SUFFIXES = (*_TEXT_SUFFIXES, ".jsonl", ".ndjson", ".json")


class Pair(Frozen):
    """A question with its golden answer.

    Attributes:
        question: The question.
        answer: The golden answer.
        document: The document that it is about; "" if unknown.
    """

    question: Text = Field(repr=False)
    answer: Text = Field(repr=False)
    document: str = ""


def load_documents(paths: Iterable[str | Path]) -> tuple[Document, ...]:
    """Read documents from files; a text that comes again, or is blank, is left out.

    Documents of one name are numbered: "guide.md", "guide.md~2".

    Args:
        paths: Text and Markdown files (one document each), JSONL and JSON (one per row:
            its text, or its contexts joined), and folders of these.

    Raises:
        InputError: If a file cannot be read, or no document has a text.
    """
    document_by_text: dict[str, Document] = {}
    n_documents_by_name: Counter[str] = Counter()
    for path in _files(paths):
        for name, text in _names_and_texts(path):
            if not text.strip() or text in document_by_text:
                continue
            n_documents_by_name[name] += 1
            number = n_documents_by_name[name]
            document_id = name if number == 1 else f"{name}~{number}"
            document_by_text[text] = Document(id=document_id, text=text)
    if not document_by_text:
        raise InputError(
            "there is no document with a text; give files of text, Markdown, JSONL or"
            " JSON"
        )
    return tuple(document_by_text.values())


def load_pairs(paths: Iterable[str | Path]) -> tuple[Pair, ...]:
    """Read questions with golden answers, the answers that are known to be right.

    Such as ``{"question": "Who lit the lamp?", "reference": "Anna."}``.

    Args:
        paths: JSONL or JSON files with rows in the usual column names, and folders of
            these.

    Raises:
        InputError: If a file cannot be read, there is no row, a question or golden
            answer is empty, or a question stands there twice.
    """
    pairs: list[Pair] = []
    places: list[str] = []
    for path in _files(paths):
        if path.suffix.casefold() in _TEXT_SUFFIXES:
            raise InputError(
                f"{path}: rows come from JSONL or JSON, not from {path.suffix}"
            )
        for place, row in read_objects(path):
            with as_input_error(place):
                # the documents are the corpus, whatever columns hold
                sample = Sample.from_row(row, contexts=lambda _: None)
            document = row.get("document") or row.get("title")
            pair = Pair(
                question=sample.question or "",
                answer=sample.reference[0] if sample.reference else sample.answer or "",
                document=document if isinstance(document, str) else "",
            )
            pairs.append(pair)
            places.append(place)
    if not pairs:
        raise InputError(
            "there is no question with a golden answer; give JSONL or JSON rows with"
            " both"
        )
    check_pairs(pairs, places)
    return tuple(pairs)


def check_pairs(pairs: Sequence[Pair], places: Sequence[str] | None = None) -> None:
    """Check questions with golden answers, which the caller gave.

    "Who lit it?" and "who lit it?" count as the same question.

    Args:
        pairs: The questions with their answers.
        places: Where each pair stands, for messages; None numbers the pairs.

    Raises:
        InputError: If a question or an answer is empty, or a question comes twice.
    """
    place_by_question: dict[str, str] = {}
    for index, pair in enumerate(pairs):
        place = places[index] if places else f"pair {index + 1}"
        texts = {"question": pair.question, "golden answer": pair.answer}
        for what, text in texts.items():
            if not text.strip():
                raise InputError(
                    f"{place}: the {what} is empty; fill it in, or leave the row out"
                )
        normalised_question = normalise_question(pair.question)
        first_place = place_by_question.setdefault(normalised_question, place)
        if first_place != place:
            raise InputError(
                f"{place}: the same question as {first_place}; keep one of them"
            )


def normalise_question(question: str) -> str:
    """Return a question without case and spacing, to find duplicates."""
    return composed_text(question).casefold()


def _files(paths: Iterable[str | Path]) -> Iterator[Path]:
    """Yield the files of text and rows among the paths, and in their folders."""
    for path in map(Path, paths):
        if path.is_dir():
            files = [
                file
                for file in sorted(path.rglob("*"))
                if file.suffix.casefold() in _SUFFIXES and file.is_file()
            ]
            if not files:
                raise InputError(
                    f"{path}: the folder holds no file of text, Markdown, JSONL or JSON"
                )
            yield from files
        elif not path.exists():
            raise InputError(f"{path}: no such file or folder")
        elif path.suffix.casefold() not in _SUFFIXES:
            known_suffixes = ", ".join(_SUFFIXES)
            raise InputError(f"{path}: unknown kind of file; use {known_suffixes}")
        else:
            yield path


def other_files(paths: Iterable[Path]) -> list[Path]:
    """List the files of folders that are neither text nor rows, such as PDFs.

    Files and folders whose name begins with a dot do not count.
    """
    return [
        file
        for path in paths
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.suffix.casefold() not in _SUFFIXES
        if not any(part.startswith(".") for part in file.relative_to(path).parts)
    ]


def _names_and_texts(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each document in a file.

    A text file is one document. In ``data.jsonl`` each row is one: its contexts joined
    by line breaks, under its id, its title, or else "data.jsonl:3" for line 3.
    """
    if path.suffix.casefold() in _TEXT_SUFFIXES:
        yield path.name, read_text(path)
        return
    for place, row in read_objects(path):
        name = row.get("id") or row.get("title")
        if not name:
            _, _, row_number = place.rpartition(" ")  # of "data.jsonl, line 3"
            name = f"{path.name}:{row_number}"
        with as_input_error(place):
            lists = [row.get(key) for key in ("contexts", "reference_contexts")]
            listed = next((entry for entry in lists if isinstance(entry, list)), None)
            if listed is None:  # the row itself is the only context
                contexts = [read_context(row, "document", 1)]
            else:
                contexts = read_contexts(listed, "contexts")
            texts = [str(context["text"]) for context in contexts]
        yield str(name), "\n".join(texts)
