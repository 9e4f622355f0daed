"""Which settings files the user trusts, and which addresses and files need no trust.

A file is trusted by its path and content.

``ragmetrics trust FILE`` keeps path and digest in the user's configuration folder; any
change of the file asks again. A job of continuous integration names the digest in
``RAGMETRICS_TRUST``.
"""

import hashlib
import json
import os
import re
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

from ragmetrics_core.data.files import as_input_error, write_text

TRUST_VARIABLE = "RAGMETRICS_TRUST"
# What can be read in one way only: no user, no query, no number that a resolver may
# take for an address.
_PLAIN_ADDRESS = re.compile(
    r"https?://([a-z]+|[\d.]+|\[[\da-f:]+\])(:\d{1,5})?(/[\w.\-/]*)?",
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
