"""Text files: read in the encoding that their first bytes name, and written beside their place until they are whole."""

import codecs
import json
import logging
import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, TextIO

from ragmetrics_core.data.errors import CutOffLine, InputError, NotJson, RowError
from ragmetrics_core.data.frozen import clean
from ragmetrics_core.data.nearest import repeated

logger = logging.getLogger("ragmetrics_core")

PARTIAL = ".partial"
_MARKS = (  # UTF-32 first: its mark begins like that of UTF-16
    *((mark, "utf-32") for mark in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)),
    *((mark, "utf-16") for mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)),
)
_PACKED = (
    (b"\x1f\x8b", "compressed with gzip; unpack it first (gzip -d)"),
    (b"PK\x03\x04", "a zip archive, as workbooks of Excel are; unpack it, or save the table as CSV"),
)


@contextmanager
def open_text(path: Path, newline: str | None = None) -> Iterator[TextIO]:
    """Open a text file, UTF-8 or what its byte order mark says; ``newline`` is as for ``open``.

    ``InputError`` if the file cannot be read, or is no such text; the message says how to convert it.
    """
    try:
        with path.open("rb") as file:
            head = file.read(4)
        if packed := next((what for mark, what in _PACKED if head.startswith(mark)), None):
            raise InputError(f"{path} is no text but {packed}")
        encoding = next((name for mark, name in _MARKS if head.startswith(mark)), "utf-8-sig")
        if encoding == "utf-8-sig" and b"\0" in head:
            raise _not_utf8(path, "UTF-16BE" if head.startswith(b"\0") else "UTF-16LE")
        with path.open(encoding=encoding, newline=newline) as text:
            yield text
    except UnicodeDecodeError as error:
        if error.encoding != "utf-8":
            raise InputError(f"{path}: begins like {error.encoding} and does not go on so; save it as UTF-8") from None
        with path.open("rb") as file:
            line = next(n for n, line in enumerate(file, 1) if line.decode(errors="ignore").encode() != line)
        raise _not_utf8(path, "WINDOWS-1252", f", line {line}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def read_text(path: Path) -> str:
    """The whole text of a file; see ``open_text``."""
    with open_text(path) as file:
        return file.read()


def json_lines(path: str | Path, lines: Iterable[str | bytes]) -> Iterator[tuple[str, Any]]:
    """Place and value of each line of JSONL that is not blank; a ``RowError`` in place of what is no JSON."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        yield f"{path}, line {number}", _value_of_line(line)


def _value_of_line(line: str | bytes) -> Any:
    """The value of a line of JSONL, or the ``RowError`` why it has none."""
    try:
        return json_value(line)
    except NotJson as error:
        ends = line[-1:] in ("\n", b"\n")
        return error if ends else CutOffLine(str(error))
    except RowError as error:
        return error


def json_value(text: str | bytes) -> Any:
    """The value that a JSON text holds.

    Raises:
        NotJson: If it is no JSON, or JSON that Python cannot hold.
        RowError: If an object has one key twice; nobody can say which value is meant.
    """
    try:
        return json.loads(text, object_pairs_hook=_object)
    except RowError:  # is a ValueError, too
        raise
    except json.JSONDecodeError as error:
        of_several_lines = "\n" in error.doc.rstrip()
        place = f": line {error.lineno} column {error.colno}" if of_several_lines else ""
        raise NotJson(f"not JSON ({error.msg}{place})") from None
    except UnicodeDecodeError:
        raise NotJson("not JSON (not UTF-8)") from None
    except RecursionError:
        raise NotJson("not JSON (nested too deeply)") from None
    except ValueError:  # json reads numbers with int(), which takes so many digits and no more
        raise NotJson(f"an integer of more than {sys.get_int_max_str_digits():,} digits; write it as a text") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        doubled = ", ".join(repeated(key for key, _ in pairs))
        raise RowError(f"an object has more than one value for {doubled}; keep one of them")
    return members


@contextmanager
def told(sentence: str) -> Iterator[None]:
    """Tell what goes wrong inside with a file (``OSError``) or row (``RowError``) as an ``InputError``, and why."""
    try:
        yield
    except (OSError, RowError) as error:
        raise InputError(f"{sentence}: {getattr(error, 'strerror', None) or error}") from error


def own_lines(path: str | Path, what: str) -> Iterator[tuple[str, Any]]:
    """``json_lines`` of a file of ours, which a crash may have cut off anywhere; ``InputError`` if it is unreadable."""
    with told(f"{what} {path} cannot be read"), Path(path).open("rb") as file:
        yield from json_lines(path, file)


def _not_utf8(path: Path, likely: str, place: str = "") -> InputError:
    new = shlex.quote(str(path.with_name(f"{path.stem}.utf8{path.suffix}")))
    command = f"iconv -f {likely} -t UTF-8 {shlex.quote(str(path))} > {new}"
    return InputError(f"{path}{place}: not UTF-8; save the file as UTF-8, or if it is {likely}: {command}")


class Aside:
    """A text file that is written beside its place and takes it when it is whole, so that a run loses no old file.

    What is no regular file, such as a pipe, is written at once. A link is followed; the file's mode is kept. What an
    earlier run left in ``partial`` is kept under the next free name.

    Args:
        path: The file.
        what: What it is, for messages, e.g. ``the report``.

    Attributes:
        partial: Where the text stands until the file is whole.
        written: True if it holds anything of this run.
        whole: True once the file has its place.

    Raises:
        InputError: If it cannot be written, e.g. because the disk is full; so do ``write`` and ``finish``.
    """

    def __init__(self, path: str | Path, what: str) -> None:
        self.path, self._what = Path(path), what
        self._place = Path(os.path.realpath(path)) if self.path.is_symlink() else self.path
        self._direct = self._place.exists() and not self._place.is_file()
        self.partial = self._place if self._direct else self._place.with_name(self._place.name + PARTIAL)
        self.written = self.whole = False
        with self._said():
            if self._place.is_file():
                self._place.open("r+b").close()  # a file that must not be written must not be replaced
            self._open()

    def write(self, text: str) -> None:
        """Write some text; it has left this process when this returns. What no encoding can carry is replaced."""
        with self._said():
            if not self.written and not self._direct and os.fstat(self._file.fileno()).st_size:
                self._file.close()
                self._keep_earlier()
                self._open()
            self.written = True
            self._file.write(str(clean(text)))
            self._file.flush()

    def finish(self) -> None:
        """Put the file in its place; where that fails, the message says where the text is."""
        if self._file.closed:
            return
        self.write("")
        with self._said():
            if not self._direct:
                os.fsync(self._file.fileno())
            self._file.close()
        with self._said(f"is whole in {self.partial}, but"):
            if not self._direct:
                self.partial.replace(self._place)
        self.whole = True

    def leave(self) -> None:
        """End without taking the place; what was written stays in ``partial``."""
        with suppress(OSError):
            self._file.close()
            if not self.whole and not self._direct and not self.partial.stat().st_size:
                self.partial.unlink()

    def _open(self) -> None:
        self._file = self.partial.open("w" if self._direct else "a", encoding="utf-8", newline="\n")
        if not self._direct and self._place.is_file():
            shutil.copymode(self._place, self.partial)

    def _keep_earlier(self) -> None:
        kept = next(name for n in count(1) if not os.path.lexists(name := Path(f"{self.partial}.{n}")))
        self.partial.rename(kept)
        with kept.open("rb") as file:
            rows = sum(line.startswith(b'{"index"') for line in file)
        logger.warning("%s keeps what an earlier run left in %s (judged rows: %d)", kept, self.partial.name, rows)

    def _said(self, what: str = "cannot be written to") -> AbstractContextManager[None]:
        return told(f"{self._what} {what} {self.path}")


def write_text(path: str | Path, text: str | Iterable[str], what: str) -> None:
    """Write a whole file, or its pieces, as ``Aside`` does; an old one stays as it was until the new one is done."""
    file = Aside(path, what)
    try:
        for piece in [text] if isinstance(text, str) else text:
            file.write(piece)
        file.finish()
    finally:
        file.leave()
