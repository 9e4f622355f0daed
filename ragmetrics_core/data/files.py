"""Text files: how they are read, and how they are written.

They are read in the encoding that their first bytes name. They are written under another
name beside the target, and renamed to it once they are whole.
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
from pathlib import Path
from typing import Any, TextIO

from ragmetrics_core.data.errors import CutOffLine, InputError, NotJson, RowError
from ragmetrics_core.data.frozen import replace_surrogates
from ragmetrics_core.data.nearest import find_repeated_names

if sys.platform != "win32":
    import fcntl

logger = logging.getLogger("ragmetrics_core")

PARTIAL = ".partial"
# UTF-32 first: its mark begins like that of UTF-16.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# How files begin that are no text, and what they are.
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
        encoding = _encoding_of(path)
        with path.open(encoding=encoding, newline=newline) as text:
            yield text
    except UnicodeDecodeError as error:
        if error.encoding != "utf-8":
            raise InputError(
                f"{path}: begins like {error.encoding} and does not go on so; save it"
                " as UTF-8"
            ) from None
        number = _number_of_broken_line(path)
        raise _not_utf8(path, "WINDOWS-1252", f", line {number}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def _encoding_of(path: Path) -> str:
    """Return the encoding that a text file's first bytes name, else UTF-8.

    Raises ``InputError`` for a packed file, and for UTF-16 without a byte order mark.
    """
    with path.open("rb") as file:
        head = file.read(4)
    for beginning, kind in _PACKED_FORMATS:
        if head.startswith(beginning):
            raise InputError(f"{path} is no text but {kind}")
    for mark, encoding in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return encoding
    if b"\0" in head:  # every other byte of plain letters in UTF-16
        raise _not_utf8(path, "UTF-16BE" if head.startswith(b"\0") else "UTF-16LE")
    return "utf-8-sig"


def _number_of_broken_line(path: Path) -> int:
    """Return the number of the first line that is not UTF-8; there is one."""
    number = 0
    with path.open("rb") as file:
        for line in file:
            number += 1
            if line.decode(errors="ignore").encode() != line:
                break
    return number


def read_text(path: Path) -> str:
    """Return the whole text of a file; see ``open_text``."""
    with open_text(path) as file:
        return file.read()


def json_lines(
    path: str | Path, lines: Iterable[str | bytes]
) -> Iterator[tuple[str, Any]]:
    """Place and value of each line of JSONL that is not blank.

    The place is the file and number of the line, for messages. A line that is no JSON
    has a ``RowError`` as its value.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        yield f"{path}, line {number}", _parse_line(line)


def _parse_line(line: str | bytes) -> Any:
    """Return the value of a line of JSONL, or the ``RowError`` why it has none."""
    try:
        return json_value(line)
    except NotJson as error:
        # A crash may have cut off a last line, which then does not end.
        has_end = line[-1:] in ("\n", b"\n")
        return error if has_end else CutOffLine(str(error))
    except RowError as error:
        return error


def json_value(text: str | bytes) -> Any:
    """Return the value that a JSON text holds: ``{"a": 1}`` is a dict.

    Raises:
        NotJson: If it is no JSON, or JSON that Python cannot hold.
        RowError: If an object has one key twice; nobody can say which value is meant.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique_members)
    except RowError:  # is a ValueError, too
        raise
    except json.JSONDecodeError as error:
        place = ""
        has_several_lines = "\n" in error.doc.rstrip()
        if has_several_lines:  # else the caller knows the line, as in JSON Lines
            place = f": line {error.lineno} column {error.colno}"
        raise NotJson(f"not JSON ({error.msg}{place})") from None
    except UnicodeDecodeError:
        raise NotJson("not JSON (not UTF-8)") from None
    except RecursionError:
        raise NotJson("not JSON (nested too deeply)") from None
    except ValueError:  # int() refuses a number of 5,000 digits, so json does
        raise NotJson(
            f"an integer of more than {sys.get_int_max_str_digits():,} digits; write it"
            " as a text"
        ) from None


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of a JSON object; ``RowError`` if a key stands there twice."""
    members = dict(pairs)
    if len(members) < len(pairs):
        repeats = ", ".join(find_repeated_names(key for key, _ in pairs))
        raise RowError(
            f"an object has more than one value for {repeats}; keep one of them"
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
        problem = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{sentence}: {problem}") from error


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

    A folder from somebody else may hold such links, e.g. to a file in the user's home.
    A path to no regular file, such as ``/dev/stdout``, passes.

    Args:
        path: The file that is to be written.
        shown: How the error's message begins, e.g. with the path.

    Raises:
        InputError: If the path is a link out of its folder, or leads out of the working
            folder by a link.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        return
    folder = Path(path).parent
    if Path(path).is_symlink() and not target.is_relative_to(folder.resolve()):
        raise InputError(
            f"{shown} is a link out of its folder, to {target}; remove the link, or"
            " name that file"
        )
    if _leaves_working_folder_by_link(folder):
        raise InputError(
            f"{shown} leads out of this folder by a link, to {target}; remove the link,"
            " or name that file"
        )


def _leaves_working_folder_by_link(folder: Path) -> bool:
    """Tell whether a folder is spelled as one in the working folder, and is outside."""
    working_folder = Path.cwd()
    spelled_folder = Path(os.path.abspath(folder))  # which follows no links
    is_spelled_inside = spelled_folder.is_relative_to(working_folder)
    is_inside = folder.resolve().is_relative_to(working_folder.resolve())
    return is_spelled_inside and not is_inside


def _target_of_link(path: Path) -> Path:
    """Return the file that a link leads to; the path itself if it is no link."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _cannot_be_replaced(path: Path) -> bool:
    """Tell whether a path is a pipe, a terminal or the like, which is written directly."""
    return path.exists() and not path.is_file()


def _refuse_read_only(path: Path) -> None:
    """Raise ``OSError`` for a read-only file, which must not be replaced either."""
    path.open("r+b").close()


def _n_rows_of_results(path: Path) -> int:
    """Count the lines of a file that begin as a row of results does."""
    with path.open("rb") as file:
        return len([line for line in file if line.startswith(b'{"index"')])


class AtomicFile:
    """A text file that is written to ``partial``, and renamed to its target once whole.

    So an old file stays until the new one is whole.

    A target that is no regular file, such as a pipe, is written to directly. A link
    within its folder is followed; the file's mode is kept. What an earlier run left in
    ``partial`` is kept under the next free name. Only one run at a time may write to a
    target.

    Args:
        path: The file.
        what: What it is, for messages, e.g. ``the report``.

    Attributes:
        partial: The file that is written until the text is whole.
        written: True if it holds anything of this run.
        whole: True once ``partial`` was renamed to the target.

    Raises:
        InputError: If it cannot be written, e.g. because the disk is full, another run
            writes to it, or a link leads out of its folder; so do ``write`` and
            ``finish``.
    """

    def __init__(self, path: str | Path, what: str) -> None:
        """Open the partial file, and check that the target may be replaced.

        Example: for "latest.html", a link to "report-3.html", the target is
        "report-3.html", and "report-3.html.partial" is written first.

        Args:
            path: The file to write in the end.
            what: What the file is, for messages, such as ``the report``.
        """
        self.path = Path(path)
        self._what = what
        # refuses a link out of its folder; one to a file beside it is followed
        check_leads_nowhere_else(self.path, shown=str(self.path))
        self._target = _target_of_link(self.path)
        # Nothing can be renamed to a pipe or a terminal, such as "/dev/stdout": the
        # text is written there at once.
        self._is_direct = _cannot_be_replaced(self._target)
        if self._is_direct:
            self.partial = self._target
        else:
            self.partial = self._target.with_name(self._target.name + PARTIAL)
        self.written = False  # whether this run has written anything
        self.whole = False  # whether all is written, and stands at the target
        with self._as_input_error():
            if self._target.is_file():
                _refuse_read_only(self._target)
            self._file = self._open()

    def write(self, text: str) -> None:
        """Write some text; it has left this process when this returns.

        What no encoding can carry is replaced.
        """
        with self._as_input_error():
            if not self.written and not self._is_direct:
                size = os.fstat(self._file.fileno()).st_size
                if size > 0:
                    self._keep_text_of_earlier_run()
            self.written = True
            self._file.write(str(replace_surrogates(text)))
            self._file.flush()

    def finish(self) -> None:
        """Rename the partial file to its target.

        If that fails, the message says where the text is.
        """
        if self._file.closed:
            return
        self.write("")
        try:
            if not self._is_direct:
                with self._as_input_error():
                    os.fsync(self._file.fileno())
                self._rename_to_target()
        finally:
            with self._as_input_error():
                self._file.close()
        self.whole = True

    def leave(self) -> None:
        """End without replacing the target; what was written stays in ``partial``.

        An empty ``partial`` is removed. After ``finish`` this does nothing.
        """
        if not self.whole and not self._is_direct:
            with suppress(OSError, ValueError):  # it may be closed
                is_ours = _is_file_at(self.partial, self._file)
                if is_ours and self.partial.stat().st_size == 0:
                    self.partial.unlink()
        with suppress(OSError):
            self._file.close()

    def _open(self) -> TextIO:
        """Open the file to write to, and lock it against other runs.

        For the target "report.html" that is "report.html.partial", which gets the
        target's permissions.

        Raises:
            InputError: If the partial file is a link, or if another run holds its lock.
        """
        if self._is_direct:
            return self._target.open("w", encoding="utf-8", newline="\n")
        if self.partial.is_symlink():
            raise InputError(
                f"{self._what} is written first to {self.partial}, which is a link;"
                " remove it, or name another file"
            )
        file = self._open_and_lock()
        # between opening and locking, another run may have renamed the file
        while not _is_file_at(self.partial, file):
            file.close()
            file = self._open_and_lock()
        if self._target.is_file() and sys.platform != "win32":
            mode_of_target = stat.S_IMODE(self._target.stat().st_mode)
            os.fchmod(file.fileno(), mode_of_target)
        return file

    def _open_and_lock(self) -> TextIO:
        """Open the partial file and lock it; ``InputError`` if another run holds its lock."""
        file = _open_unless_link(self.partial)
        if not _lock(file):
            file.close()
            raise InputError(
                f"{self._what} cannot be written to {self.path}: another run writes"
                " there now; wait until it ends, or name another file"
            )
        return file

    def _rename_to_target(self) -> None:
        """Replace the target by the partial file, which holds the whole text."""
        if not _is_file_at(self.partial, self._file):
            raise InputError(
                f"{self._what} is whole in {self._name_of_own_text()}, but another run"
                f" has taken {self.partial}; {self.path} holds nothing of this run"
            )
        if sys.platform == "win32":
            self._file.close()  # there an open file cannot be moved
        with self._as_input_error(f"is whole in {self.partial}, but"):
            self.partial.replace(self._target)

    def _name_of_own_text(self) -> str:
        """Return the name under which another run has put this run's text aside."""
        status_of_file = os.fstat(self._file.fileno())
        for path in self.partial.parent.glob("*"):
            is_named_so = path.name.startswith(self.partial.name)
            if is_named_so and os.path.samestat(path.lstat(), status_of_file):
                return str(path)
        return "a file that was removed"

    def _keep_text_of_earlier_run(self) -> None:
        """Put what an earlier run left in ``partial`` aside, and begin an empty file.

        What was put aside has the next free number after its name; the log tells where
        it is.
        """
        number = 1
        while os.path.lexists(f"{self.partial}.{number}"):
            number += 1
        kept_path = Path(f"{self.partial}.{number}")
        # the open file holds the lock: it is closed after the move where that is possible
        if sys.platform == "win32":
            self._file.close()
        self.partial.rename(kept_path)
        self._file.close()
        self._file = self._open()
        logger.warning(
            "%s keeps what an earlier run left in %s (judged rows: %d)",
            kept_path,
            self.partial.name,
            _n_rows_of_results(kept_path),
        )

    def _as_input_error(
        self, problem: str = "cannot be written to"
    ) -> AbstractContextManager[None]:
        """Turn a problem with the file into an ``InputError`` that names both."""
        return as_input_error(f"{self._what} {problem} {self.path}")


def _is_file_at(path: Path, file: TextIO) -> bool:
    """Tell whether the path still names the file that is open."""
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
