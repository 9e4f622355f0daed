"""Files: how texts are read and written, and which files the user trusts.

Texts are read in the encoding that their first bytes name. They are written under another
name beside the target, and renamed to it once they are whole.

A settings file is trusted by its path and content. ``ragmetrics trust FILE`` keeps path
and digest in the user's configuration folder; any change of the file asks again. A job of
continuous integration names the digest in ``RAGMETRICS_TRUST``.
"""

import codecs
import hashlib
import json
import os
import re
import shlex
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from io import TextIOWrapper
from ipaddress import ip_address
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from ragmetrics_core.data.errors import CutOffLine, InputError, NotJson, RowError
from ragmetrics_core.data.frozen import replace_surrogates
from ragmetrics_core.data.name_matching import find_repeated_names

PARTIAL = ".partial"
# UTF-32 first: its mark begins like that of UTF-16.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_GZIP = b"\x1f\x8b"  # how a file begins that gzip has compressed
_GIT_LFS = b"version https://git-lfs."  # what stands there until it is fetched
_ZIP = b"PK\x03\x04"  # a zip archive, as workbooks of Excel are
# What writes an object on each line, by the first line of a file that has none.
_JQ_FILTERS: dict[str | bytes, str] = {
    **dict.fromkeys(("{", b"{"), "."),
    **dict.fromkeys(("[", "[{", b"[", b"[{"), "'.[]'"),
}


@contextmanager
def open_bytes(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file to read it; of one that gzip has compressed what it holds.

    Raises ``InputError`` if compressed data is damaged or cut off, and for what Git LFS
    leaves in a file's place until it is fetched.
    """
    with Path(path).open("rb") as file:
        head = file.read(len(_GIT_LFS))
        file.seek(0)
        if head == _GIT_LFS:
            raise InputError(
                f"{path} is a pointer of Git LFS; fetch the file itself by: git lfs pull"
            )
        if not head.startswith(_GZIP):
            yield file
            return
        import gzip  # few files need it
        import zlib

        try:
            with gzip.open(file) as unpacked:
                yield cast("BinaryIO", unpacked)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise InputError(
                f"{path}: what gzip has compressed is damaged or cut off; make it again"
            ) from None


@contextmanager
def open_text(path: Path, newline: str | None = None) -> Iterator[TextIO]:
    """Open a text file as UTF-8, or as what its byte order mark says; also by gzip.

    ``newline`` is as for ``open``.

    ``InputError`` if the file cannot be read, or is no such text; the message says how
    to convert it.
    """
    try:
        encoding = _encoding_of(path)
        with (
            open_bytes(path) as file,
            TextIOWrapper(file, encoding=encoding, newline=newline) as text,
        ):
            yield text
    except UnicodeDecodeError as error:
        if error.encoding != "utf-8":
            raise InputError(
                f"{path}: begins like {error.encoding} and does not go on so; save it"
                " as UTF-8"
            ) from None
        first_broken = n_letters = n_broken = 0  # letters beyond ASCII, bytes of none
        with open_bytes(path) as file:
            for number, line in enumerate(file, start=1):
                whole = line.decode(errors="ignore")
                n_letters += sum(not letter.isascii() for letter in whole)
                n_broken += len(line) - len(whole.encode())
                first_broken = first_broken or (number if n_broken else 0)
        if n_letters >= n_broken:  # another encoding has hardly any letter of UTF-8
            raise InputError(
                f"{path}, line {first_broken}: a letter of its UTF-8 is cut off or"
                " broken; mend that line, or take it out"
            ) from None
        raise _not_utf8(path, "WINDOWS-1252", f", line {first_broken}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def _encoding_of(path: Path) -> str:
    """Return the encoding that a text file's first bytes name, else UTF-8.

    Raises ``InputError`` for a zip archive, and for UTF-16 without a byte order mark.
    """
    with open_bytes(path) as file:
        head = file.read(4)
    if head.startswith(_ZIP):
        raise InputError(
            f"{path} is no text but a zip archive, as workbooks of Excel are; unpack it,"
            " or name it .xlsx if it is one"
        )
    for mark, encoding in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return encoding
    if b"\0" in head:  # every other byte of plain letters in UTF-16
        raise _not_utf8(path, "UTF-16BE" if head.startswith(b"\0") else "UTF-16LE")
    return "utf-8-sig"


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

    Raises ``InputError`` if the first line only opens a list or an object, as ``jq .``
    writes it.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        value: Any
        try:
            # files that were joined have a byte order mark each
            value = json_value(line.lstrip("\ufeff") if isinstance(line, str) else line)
        except NotJson as error:
            # A crash may have cut off a last line, which then does not end.
            has_end = line[-1:] in ("\n", b"\n")
            value = error if has_end else CutOffLine(str(error))
            jq_filter = _JQ_FILTERS.get(line.strip())
            if number == 1 and has_end and jq_filter is not None:
                raise no_json_lines(path, jq_filter) from None
        except RowError as error:
            value = error
        yield f"{path}, line {number}", value


def no_json_lines(path: str | Path, jq_filter: str = "'.[]'") -> InputError:
    """Say of a file of JSON that it has no row on each line, and how to make it so.

    Args:
        path: The file.
        jq_filter: What of it ``jq`` is to write; each element of its one list.
    """
    return InputError(
        f"{path}: a list, or an object over several lines, and .jsonl has an object on"
        f" each line; convert it: jq -c {jq_filter} {shlex.quote(str(path))} >"
        " lines.jsonl (or name it .json, if it holds rows)"
    )


def json_value(text: str | bytes, *, strict: bool = True) -> Any:
    """Return the value that a JSON text holds: ``{"a": 1}`` is a dict.

    Args:
        text: The text.
        strict: Whether a line that breaks inside of a text is no JSON.

    Raises:
        NotJson: If it is no JSON, or JSON that Python cannot hold.
        RowError: If an object has one key twice; nobody can say which value is meant.
    """
    try:
        return json.loads(text, strict=strict, object_pairs_hook=_unique_members)
    except RowError:  # is a ValueError, too
        raise
    except json.JSONDecodeError as error:
        has_several_lines = "\n" in error.doc.rstrip()
        if has_several_lines:
            place = f"line {error.lineno} column {error.colno}"
            are_several = error.msg == "Extra data"
            remedy = "; write several rows as one list" if are_several else ""
            raise NotJson(f"not JSON ({error.msg}: {place}){remedy}") from None
        # the caller knows the line, as in JSON Lines
        words = f"not JSON ({error.msg}); write each line as json.dumps does"
        raise NotJson(words) from None
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

    Raises ``InputError`` if it is unreadable, or an editor saved it as UTF-16.
    """
    with as_input_error(f"{what} {path} cannot be read"), open_bytes(path) as file:
        encoding = _encoding_of(Path(path))
        if encoding != "utf-8-sig":
            raise _not_utf8(Path(path), encoding.upper())
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
    if Path(path).exists() and not Path(path).is_file():
        return
    folder = Path(path).parent
    if Path(path).is_symlink() and not target.is_relative_to(folder.resolve()):
        raise InputError(
            f"{shown} is a link out of its folder, to {target}; name that file"
        )
    working_folder = Path.cwd()
    spelled_folder = Path(os.path.abspath(folder))  # which follows no links
    is_spelled_inside = spelled_folder.is_relative_to(working_folder)
    is_inside = folder.resolve().is_relative_to(working_folder.resolve())
    if is_spelled_inside and not is_inside:
        raise InputError(
            f"{shown} leads out of this folder by a link, to {target}; name that file"
        )


class AtomicFile:
    """A text file that is written under another name, and renamed once it is whole.

    So an old file stays until the new one is whole, and what an earlier run left stays,
    too. Of several runs that write to one target at once the last to finish wins.

    A target that is no regular file, such as a pipe, is written to directly. A link
    within its folder is followed; the file's mode is kept.

    Args:
        path: The file.
        what: What it is, for messages, e.g. ``the report``.

    Attributes:
        partial: The file that is written until the text is whole.
        written: True if it holds anything.
        whole: True once ``partial`` was renamed to the target.

    Raises:
        InputError: If it cannot be written, e.g. because the disk is full, or a link
            leads out of its folder; so do ``write`` and ``finish``.
    """

    def __init__(self, path: str | Path, what: str) -> None:
        self.path = Path(path)
        self._what = what
        self._file: TextIO
        self.written = False
        self.whole = False
        self._is_complete = False
        with self._as_input_error():
            check_leads_nowhere_else(self.path, shown=str(self.path))
            self._target = self.path
            if self.path.is_symlink():
                self._target = Path(os.path.realpath(self.path))
            # Nothing can be renamed to a pipe or a terminal, such as "/dev/stdout": the
            # text is written there at once.
            self._is_direct = self.path.exists() and not self.path.is_file()
            if self._is_direct:
                self.partial = self.path
                self._file = self.path.open("w", encoding="utf-8", newline="\n")
                return
            mode: int | None = None
            if self._target.is_file():
                # ``OSError`` for a read-only file, which must not be replaced either
                self._target.open("r+b").close()
                mode = stat.S_IMODE(self._target.stat().st_mode)
            # the first name that is free, so that what an earlier run left stays
            self.partial = Path(f"{self._target}{PARTIAL}")
            further_numbers = count(1)
            while True:
                with suppress(FileExistsError):
                    self._file = self.partial.open("x", encoding="utf-8", newline="\n")
                    break
                number = next(further_numbers)
                self.partial = Path(f"{self._target}{PARTIAL}.{number}")
            if mode is not None:
                self.partial.chmod(mode)

    def write(self, text: str) -> None:
        """Write some text; it has left this process when this returns.

        What no encoding can carry is replaced.
        """
        with self._as_input_error():
            self.written = True
            self._file.write(str(replace_surrogates(text)))
            self._file.flush()

    def finish(self) -> None:
        """Rename the partial file to its target.

        If that fails, the message says where the text is.
        """
        if self._file.closed:
            return
        with self._as_input_error():
            self._file.flush()
            if not self._is_direct:
                os.fsync(self._file.fileno())
            self._file.close()
        self._is_complete = True
        if not self._is_direct:
            problem = "cannot be written to"
            if self.partial.exists():  # nobody removed its folder
                problem = f"is whole in {self.partial}, but"
            with self._as_input_error(problem):
                self.partial.replace(self._target)
        self.whole = True

    def leave(self, *, keeps_part: bool = True) -> None:
        """End without replacing the target; what was written stays in ``partial``.

        A ``partial`` without any text is removed, and a part of a text that can be
        written again, unless ``keeps_part``. After ``finish`` this does nothing.
        """
        with suppress(OSError):
            self._file.close()
        is_kept = self._is_complete or (keeps_part and self.written)
        if not is_kept and not self._is_direct:
            with suppress(OSError):
                self.partial.unlink()

    def _as_input_error(
        self, problem: str = "cannot be written to"
    ) -> AbstractContextManager[None]:
        """Turn a problem with the file into an ``InputError`` that names both."""
        return as_input_error(f"{self._what} {problem} {self.path}")


@contextmanager
def whole_file(path: str | Path, what: str) -> Iterator[AtomicFile]:
    """Replace a file at the end; after an error the old one stays, and no part."""
    file = AtomicFile(path, what)
    try:
        yield file
        file.finish()
    finally:
        file.leave(keeps_part=False)


def write_text(path: str | Path, text: str | Iterable[str], what: str) -> None:
    """Write a whole file, or its pieces, as ``AtomicFile`` does.

    An old one stays as it was until the new one is done.
    """
    with whole_file(path, what) as file:
        for piece in [text] if isinstance(text, str) else text:
            file.write(piece)


TRUST_VARIABLE = "RAGMETRICS_TRUST"
# What can be read in one way only: no user, no query, no number that a resolver may
# take for an address.
_PLAIN_ADDRESS = re.compile(
    r"https?://([a-z]+|[\d.]+|\[[\da-f:]+\])(:\d{1,5})?(/[\w.~\-/]*)?",
    re.ASCII | re.IGNORECASE,
)


def is_loopback(address: str) -> bool:
    """Return True for an address of this machine that is written plainly.

    Such an address is ``localhost``, ``127.x.y.z`` or ``[::1]``.
    """
    match = _PLAIN_ADDRESS.fullmatch(address)
    if match is None:
        return False
    host = match[1].lower()
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_tracked_by_git(path: Path) -> bool:
    """Whether git tracks a file, so that whoever commits decides what it holds.

    A link is tracked if itself or its target is. Without git nothing is tracked.
    """
    named_path = Path(os.path.abspath(path.expanduser()))
    real_path = Path(os.path.realpath(named_path))
    return any(map(_is_in_index, {named_path, real_path}))


def _is_in_index(path: Path) -> bool:
    """Ask git whether it tracks this path; nothing of the repository is run."""
    folders = path.parents
    if not path.exists() or not any((folder / ".git").exists() for folder in folders):
        return False
    import subprocess  # only stores inside a repository need it

    # a hook of git names the repository that it runs in, which may be another one
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("GIT_")
    }
    command = ["git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false"]
    command += ["--literal-pathspecs", "ls-files", "--error-unmatch", "--", path.name]
    try:
        answer = subprocess.run(  # noqa: S603  # git, and a path behind "--"
            command, cwd=path.parent, env=environment, capture_output=True, check=False
        )
    except OSError:  # there is no git
        return False
    return answer.returncode == 0


def digest_of(content: bytes) -> str:
    """Return the digest of a file's content, as people compare and name it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def is_trusted(path: Path, content: bytes) -> bool:
    """Return True if the user trusts this file with this content.

    It is also True if the environment names the content's digest.
    """
    digest = digest_of(content)
    # digests with commas or spaces between them
    digests_named = os.environ.get(TRUST_VARIABLE, "").replace(",", " ").split()
    if digest in digests_named:
        return True
    return _read_digests().get(_path_for_trust(path)) == digest


def trust(path: Path, content: bytes) -> None:
    """Keep that the user trusts this file with this content.

    Raises ``InputError`` if that cannot be written.
    """
    place = _path_of_digests()
    digests = _read_digests() | {_path_for_trust(path): digest_of(content)}
    with as_input_error(f"{place} cannot be written"):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_text(place, json.dumps(digests, indent=1) + "\n", "the list of trusted files")


def _path_for_trust(path: Path) -> str:
    """Return the path of a file in the form that trust is kept for.

    The folder of a file decides what its names mean. So a link to a trusted file is
    another file.
    """
    return os.path.join(os.path.realpath(path.parent), path.name)


def _path_of_digests() -> Path:
    from platformdirs import user_config_path  # only few runs need it

    return user_config_path("ragmetrics", appauthor=False) / "trusted.json"


def _read_digests() -> dict[str, str]:
    """Digests by path; none if there is no such file, or it is none of ours."""
    digests: object = None
    with suppress(OSError, ValueError, RecursionError):
        digests = json.loads(_path_of_digests().read_bytes())
    if not isinstance(digests, dict):
        return {}
    return {path: digest for path, digest in digests.items() if isinstance(digest, str)}
