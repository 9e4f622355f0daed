"""Text files: how they are read, and how they are written.

They are read in the encoding that their first bytes name. They are written beside their
place until they are whole.
"""

import codecs
import json
import logging
import os
import shlex
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, TextIO

from ragmetrics_core.data.errors import CutOffLine, InputError, NotJson, RowError
from ragmetrics_core.data.frozen import replace_surrogates
from ragmetrics_core.data.nearest import repeated_names

if sys.platform != "win32":
    import fcntl

logger = logging.getLogger("ragmetrics_core")

PARTIAL = ".partial"
_BYTE_ORDER_MARKS = (  # UTF-32 first: its mark begins like that of UTF-16
    *((mark, "utf-32") for mark in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)),
    *((mark, "utf-16") for mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)),
)
_PACKED_FORMATS = (
    (b"\x1f\x8b", "compressed with gzip; unpack it first (gzip -d)"),
    (
        b"PK\x03\x04",
        "a zip archive, as workbooks of Excel are; unpack it, or save the table as CSV",
    ),
)


@contextmanager
def open_text(path: Path, newline: str | None = None) -> Iterator[TextIO]:
    """Open a text file as UTF-8, or as what its byte order mark says.

    ``newline`` is as for ``open``.

    ``InputError`` if the file cannot be read, or is no such text; the message says how
    to convert it.
    """
    try:
        with path.open("rb") as file:
            head = file.read(4)
        if packed := next(
            (what for mark, what in _PACKED_FORMATS if head.startswith(mark)), None
        ):
            raise InputError(f"{path} is no text but {packed}")
        encoding = next(
            (name for mark, name in _BYTE_ORDER_MARKS if head.startswith(mark)),
            "utf-8-sig",
        )
        if encoding == "utf-8-sig" and b"\0" in head:
            raise _not_utf8(path, "UTF-16BE" if head.startswith(b"\0") else "UTF-16LE")
        with path.open(encoding=encoding, newline=newline) as text:
            yield text
    except UnicodeDecodeError as error:
        if error.encoding != "utf-8":
            raise InputError(
                f"{path}: begins like {error.encoding} and does not go on so; save it"
                " as UTF-8"
            ) from None
        with path.open("rb") as file:
            line = next(
                n
                for n, line in enumerate(file, 1)
                if line.decode(errors="ignore").encode() != line
            )
        raise _not_utf8(path, "WINDOWS-1252", f", line {line}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def read_text(path: Path) -> str:
    """The whole text of a file; see ``open_text``."""
    with open_text(path) as file:
        return file.read()


def json_lines(
    path: str | Path, lines: Iterable[str | bytes]
) -> Iterator[tuple[str, Any]]:
    """Place and value of each line of JSONL that is not blank.

    A ``RowError`` in place of what is no JSON.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        yield f"{path}, line {number}", _parse_line(line)


def _parse_line(line: str | bytes) -> Any:
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
        return json.loads(text, object_pairs_hook=_unique_members)
    except RowError:  # is a ValueError, too
        raise
    except json.JSONDecodeError as error:
        of_several_lines = "\n" in error.doc.rstrip()
        place = (
            f": line {error.lineno} column {error.colno}" if of_several_lines else ""
        )
        raise NotJson(f"not JSON ({error.msg}{place})") from None
    except UnicodeDecodeError:
        raise NotJson("not JSON (not UTF-8)") from None
    except RecursionError:
        raise NotJson("not JSON (nested too deeply)") from None
    # json reads numbers with int(), which takes so many digits and no more
    except ValueError:
        raise NotJson(
            f"an integer of more than {sys.get_int_max_str_digits():,} digits; write it"
            " as a text"
        ) from None


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        doubled = ", ".join(repeated_names(key for key, _ in pairs))
        raise RowError(
            f"an object has more than one value for {doubled}; keep one of them"
        )
    return members


@contextmanager
def as_input_error(sentence: str) -> Iterator[None]:
    """Turn a problem with a file or row inside into an ``InputError`` that says why.

    The problem is an ``OSError`` of a file or a ``RowError`` of a row.
    """
    try:
        yield
    except (OSError, RowError) as error:
        raise InputError(
            f"{sentence}: {getattr(error, 'strerror', None) or error}"
        ) from error


def read_own_lines(path: str | Path, what: str) -> Iterator[tuple[str, Any]]:
    """Read a file of ours with ``json_lines``; a crash may have cut it off anywhere.

    Raises ``InputError`` if it is unreadable.
    """
    with as_input_error(f"{what} {path} cannot be read"), Path(path).open("rb") as file:
        yield from json_lines(path, file)


def _not_utf8(path: Path, likely: str, place: str = "") -> InputError:
    new = shlex.quote(str(path.with_name(f"{path.stem}.utf8{path.suffix}")))
    command = f"iconv -f {likely} -t UTF-8 {shlex.quote(str(path))} > {new}"
    return InputError(
        f"{path}{place}: not UTF-8; save the file as UTF-8, or if it is {likely}:"
        f" {command}"
    )


def check_leads_nowhere_else(path: str | Path, shown: str) -> None:
    """Refuse to write a file whose path leads elsewhere by a link.

    Either the path is a link out of its folder, or it leads out of the working folder
    by a link.

    A folder that somebody else made may hold such links, e.g. to a file in the user's
    home. What is no regular file, such as ``/dev/stdout``, is no file to be destroyed.

    Raises:
        InputError: Beginning with ``shown``.
    """
    place = Path(os.path.realpath(path))
    if place.exists() and not place.is_file():
        return
    folder = Path(path).parent
    if Path(path).is_symlink() and not place.is_relative_to(folder.resolve()):
        raise InputError(
            f"{shown} is a link out of its folder, to {place}; remove the link, or name"
            " that file"
        )
    here = Path.cwd()
    if Path(os.path.abspath(folder)).is_relative_to(
        here
    ) and not folder.resolve().is_relative_to(here.resolve()):
        raise InputError(
            f"{shown} leads out of this folder by a link, to {place}; remove the link,"
            " or name that file"
        )


class AtomicFile:
    """A text file that is written beside its place, and takes the place once whole.

    So a run loses no old file.

    What is no regular file, such as a pipe, is written at once. A link within its
    folder is followed; the file's mode is kept. What an earlier run left in ``partial``
    is kept under the next free name. One run at a time writes to a place.

    Args:
        path: The file.
        what: What it is, for messages, e.g. ``the report``.

    Attributes:
        partial: Where the text stands until the file is whole.
        written: True if it holds anything of this run.
        whole: True once the file has its place.

    Raises:
        InputError: If it cannot be written, e.g. because the disk is full, another run
            writes to it, or a link leads out of its folder; so do ``write`` and
            ``finish``.
    """

    def __init__(self, path: str | Path, what: str) -> None:
        self.path, self._what = Path(path), what
        check_leads_nowhere_else(self.path, str(self.path))
        self._place = (
            Path(os.path.realpath(path)) if self.path.is_symlink() else self.path
        )
        self._direct = self._place.exists() and not self._place.is_file()
        self.partial = (
            self._place
            if self._direct
            else self._place.with_name(self._place.name + PARTIAL)
        )
        self.written = self.whole = False
        with self._said():
            if self._place.is_file():
                # a file that must not be written must not be replaced
                self._place.open("r+b").close()
            self._file = self._opened()

    def write(self, text: str) -> None:
        """Write some text; it has left this process when this returns.

        What no encoding can carry is replaced.
        """
        with self._said():
            if (
                not self.written
                and not self._direct
                and os.fstat(self._file.fileno()).st_size
            ):
                self._keep_earlier()
            self.written = True
            self._file.write(str(replace_surrogates(text)))
            self._file.flush()

    def finish(self) -> None:
        """Put the file in its place.

        Where that fails, the message says where the text is.
        """
        if self._file.closed:
            return
        self.write("")
        try:
            if not self._direct:
                with self._said():
                    os.fsync(self._file.fileno())
                self._take_place()
        finally:
            with self._said():
                self._file.close()
        self.whole = True

    def leave(self) -> None:
        """End without taking the place; what was written stays in ``partial``."""
        with suppress(OSError, ValueError):  # it may be closed
            if (
                not self.whole
                and not self._direct
                and _is_file_at(self.partial, self._file)
                and not self.partial.stat().st_size
            ):
                self.partial.unlink()
        with suppress(OSError):
            self._file.close()

    def _opened(self) -> TextIO:
        """The file to write to, which no other run writes to."""
        if self._direct:
            return self._place.open("w", encoding="utf-8", newline="\n")
        if self.partial.is_symlink():
            raise InputError(
                f"{self._what} is written first to {self.partial}, which is a link;"
                " remove it, or name another file"
            )
        while True:
            file = _open_unless_link(self.partial)
            if not _lock(file):
                file.close()
                raise InputError(
                    f"{self._what} cannot be written to {self.path}: another run writes"
                    " there now; wait until it ends, or name another file"
                )
            if _is_file_at(self.partial, file):
                break
            file.close()  # it took its place, or was put aside, before it was locked
        if self._place.is_file() and sys.platform != "win32":
            os.fchmod(file.fileno(), stat.S_IMODE(self._place.stat().st_mode))
        return file

    def _take_place(self) -> None:
        if not _is_file_at(self.partial, self._file):
            raise InputError(
                f"{self._what} is whole in {self._where()}, but another run has taken"
                f" {self.partial}; {self.path} holds nothing of this run"
            )
        if sys.platform == "win32":
            self._file.close()  # there an open file cannot be moved
        with self._said(f"is whole in {self.partial}, but"):
            self.partial.replace(self._place)

    def _where(self) -> str:
        """The name under which another run has put this run's file aside."""
        status_of_file = os.fstat(self._file.fileno())
        for path in self.partial.parent.glob("*"):
            if path.name.startswith(self.partial.name) and os.path.samestat(
                path.lstat(), status_of_file
            ):
                return str(path)
        return "a file that was removed"

    def _keep_earlier(self) -> None:
        kept_path = next(
            name
            for n in count(1)
            if not os.path.lexists(name := Path(f"{self.partial}.{n}"))
        )
        if sys.platform == "win32":
            self._file.close()
        self.partial.rename(kept_path)
        self._file.close()
        self._file = self._opened()
        with kept_path.open("rb") as file:
            rows = sum(line.startswith(b'{"index"') for line in file)
        logger.warning(
            "%s keeps what an earlier run left in %s (judged rows: %d)",
            kept_path,
            self.partial.name,
            rows,
        )

    def _said(self, what: str = "cannot be written to") -> AbstractContextManager[None]:
        return as_input_error(f"{self._what} {what} {self.path}")


def _is_file_at(path: Path, file: TextIO) -> bool:
    """True if the path still names the file that is open."""
    try:
        status_at_path = path.lstat()
    except FileNotFoundError:
        return False
    return os.path.samestat(status_at_path, os.fstat(file.fileno()))


def _open_unless_link(path: Path) -> TextIO:
    """Open a file to add text to it; raise ``OSError`` if it is a link.

    A link could lead to a file of somebody else.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    return os.fdopen(os.open(path, flags, 0o666), "a", encoding="utf-8", newline="\n")


def _lock(file: TextIO) -> bool:
    """Hold a file until it is closed; False if another run holds it.

    Some file systems know no locks: True.
    """
    if sys.platform != "win32":
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True
    return True


def write_text(path: str | Path, text: str | Iterable[str], what: str) -> None:
    """Write a whole file, or its pieces, as ``AtomicFile`` does.

    An old one stays as it was until the new one is done.
    """
    file = AtomicFile(path, what)
    try:
        for piece in [text] if isinstance(text, str) else text:
            file.write(piece)
        file.finish()
    finally:
        file.leave()
