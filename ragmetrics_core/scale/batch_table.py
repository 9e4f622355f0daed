"""What the file of replies holds of batches: two tables, and every change to them.

``batches`` has a row for each batch that is made or being made. Its ``token`` is drawn
before, and the service's ``id`` is entered once it is known. ``since`` is when the
batch was claimed, or its file was there; ``unreadable_since`` is when a look first
could not read its answers.

``parked`` has a row for each request. Its ``id`` is the digest of the reply's key, and
``body`` the digest of what was asked. ``token`` is that of the batch, then of the pass
that took the result. ``result`` holds status and body of the answer, as JSON. A further
reply of one answer has a row of its own: 0 ``tries``, no result, and as ``body`` the id
of the request.

``WaitingRequests`` are those of one pass that stand in neither yet, or wait.
"""

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from io import BytesIO
from math import inf
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, Literal, NamedTuple

from ragmetrics_core.models.compatible_model import OpenAICompatibleModel
from ragmetrics_core.models.endpoint_errors import status_of_body
from ragmetrics_core.scale.batch_calls import COMPLETIONS_PATH

MAX_TRIES = 3
"""Tries of a request that fails for a passing reason."""

# Services take so many requests in a batch, and 200 MB.
_MAX_REQUESTS = 50_000
_MAX_BYTES = 16 * 2**20
# Tokens of a reply, the most that is usual.
_REPLY_TOKENS = 200

_TABLES = (
    """CREATE TABLE IF NOT EXISTS batches (
        token TEXT PRIMARY KEY, id TEXT, endpoint TEXT NOT NULL,
        since REAL NOT NULL, unreadable_since REAL)""",
    """CREATE TABLE IF NOT EXISTS parked (
        id TEXT PRIMARY KEY, token TEXT NOT NULL, body TEXT NOT NULL,
        tries INTEGER NOT NULL, result TEXT) WITHOUT ROWID""",
)

# Texts are read as bytes, so that a damaged text raises nothing.
ROW_OF_REQUEST = """
    SELECT CAST(token AS BLOB), CAST(body AS BLOB), tries, CAST(result AS BLOB)
    FROM parked WHERE id = ?"""

IS_ANSWERED_FOR_OTHERS = """
    SELECT 1 FROM parked reply JOIN parked request
    ON request.id = CASE reply.tries WHEN 0 THEN reply.body ELSE reply.id END
    WHERE reply.id = ? AND request.result IS NOT NULL AND request.token <> ?"""
"""Whether a reply has an answer that another pass than this one has taken, or none."""

_TAKE = """
    INSERT INTO parked (id, token, body, tries, result) VALUES (?, ?, ?, 0, '')
    ON CONFLICT (id) DO UPDATE SET token = excluded.token,
    body = CASE tries WHEN 0 THEN excluded.body ELSE body END
    WHERE result IS NOT NULL"""
# A request that nobody else has asked meanwhile.
_CLAIM = """
    INSERT INTO parked (id, body, tries, token) VALUES (?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET body = excluded.body, tries = excluded.tries,
    token = excluded.token, result = NULL
    WHERE result IS NOT NULL AND tries < excluded.tries"""
# Changes one row if the request stands in the batch and has no result yet, else none.
_SET_FIRST_RESULT = (
    "UPDATE parked SET result = ? WHERE id = ? AND token = ? AND result IS NULL"
)
_FILL = "UPDATE parked SET result = ? WHERE token = ? AND result IS NULL"
_COUNT_PASSING_FAILURES = """
    SELECT count(*) FROM parked WHERE token = ? AND tries < ? AND (
    substr(result, 2, 3) IN ('401', '402', '403', '404', '408', '429', 'nul')
    OR result LIKE '[5%')"""


class ParkedRequest(NamedTuple):
    """A request that is to stand in a batch.

    It has its digest, that of its body, the number of this try, and its line in the
    batch's file.
    """

    id: str
    body: str
    tries: int
    line: bytes

    @classmethod
    def of(cls, request_id: str, body: str, tries: int) -> "ParkedRequest":
        """The request with a body, which is JSON."""
        line = (
            f'{{"custom_id": "{request_id}", "method": "POST", "url":'
            f' "{COMPLETIONS_PATH}", "body": {body}}}\n'
        )
        return cls(request_id, digest(body), tries, line.encode())


class RequestEntry(NamedTuple):
    """What the file of replies holds of a request: the row that ``ROW_OF_REQUEST`` reads.

    Attributes:
        token: Of the batch that holds the request; once a pass has taken the answer, of
            this pass.
        body_digest: The digest of what was asked.
        tries: How often it was asked.
        result: Status and body of the answer, as JSON; None if there is none yet, and
            empty for a further reply of one answer.
    """

    token: bytes
    body_digest: bytes
    tries: int
    result: bytes | None


NEVER_ASKED = RequestEntry(token=b"", body_digest=b"", tries=0, result=None)
"""Stands for a request that the file does not know."""


class Batch(NamedTuple):
    """A row of the table of batches."""

    token: str
    id: str | None
    endpoint: str
    since: float
    unreadable_since: float | None


def digest(text: str) -> str:
    """A digest of 128 bits, in hexadecimal."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables, where the file has none yet."""
    for table in _TABLES:
        connection.execute(table)


def all_batches(connection: sqlite3.Connection) -> list[Batch]:
    """Every batch that the file knows."""
    rows = connection.execute(
        "SELECT token, id, endpoint, since, unreadable_since FROM batches"
    )
    return [Batch(*row) for row in rows]


def claim_requests(
    connection: sqlite3.Connection,
    requests: Iterable[ParkedRequest],
    token: str,
    endpoint: str,
) -> list[bytes]:
    """Claim requests for a batch about to be made, and return the lines of its file.

    A request that another process has claimed meanwhile is left out. Without any there
    is no batch.
    """
    lines = []
    for request in requests:
        row = (request.id, request.body, request.tries, token)
        if connection.execute(_CLAIM, row).rowcount:
            lines.append(request.line)
    if lines:
        connection.execute(
            "INSERT INTO batches (token, id, endpoint, since) VALUES (?, NULL, ?, ?)",
            (token, endpoint, time.time()),
        )
    return lines


def update_batch(
    connection: sqlite3.Connection,
    token: str,
    column: Literal["id", "since", "unreadable_since"],
    value: str | float,
) -> bool:
    """Enter what is known of a batch by now; False if the batch is forgotten."""
    update = f"UPDATE batches SET {column} = ? WHERE token = ?"  # noqa: S608  # our own name
    return connection.execute(update, (value, token)).rowcount > 0


def note_taken(
    connection: sqlite3.Connection,
    reply_ids: Sequence[str],
    request_id: str,
    token: str,
) -> None:
    """Note that a pass has taken an answer: the token becomes that of the pass."""
    rows = [(reply_id, token, request_id) for reply_id in reply_ids]
    connection.executemany(_TAKE, rows)


def forget_answers_of(connection: sqlite3.Connection, token: str) -> None:
    """Forget the answers that a pass took."""
    connection.execute("DELETE FROM parked WHERE token = ?", (token,))


def forget_batch(connection: sqlite3.Connection, token: str, code: str | None) -> int:
    """Forget a batch, and return the number of its requests without an answer.

    These requests get ``code`` as their error. Without a code they are as if never
    asked.
    """
    connection.execute("DELETE FROM batches WHERE token = ?", (token,))
    result = None
    if code is not None:
        result = json.dumps([None, {"error": {"code": code}}])
    n_unanswered = connection.execute(_FILL, (result, token)).rowcount
    connection.execute(
        "DELETE FROM parked WHERE token = ? AND result IS NULL", (token,)
    )
    return n_unanswered


def count_passing_failures(connection: sqlite3.Connection, token: str) -> int:
    """How many requests of a batch failed for a passing reason and may be tried again."""
    row = connection.execute(_COUNT_PASSING_FAILURES, (token, MAX_TRIES)).fetchone()
    return int(row[0])


def enter_answers(connection: sqlite3.Connection, token: str, content: bytes) -> int:
    """Enter the results in a batch's file of results, and count the new ones.

    A line without a result is left out, such as one of an expired request.
    """
    n_entered = 0
    for line in BytesIO(content):
        with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
            row = json.loads(line)
            response = row.get("response")
            error = row.get("error") or {}
            # the service did not get to the request
            if error.get("code") in ("batch_expired", "batch_cancelled"):
                continue
            if response:
                body = response["body"]
                # some services answer an error with the status 200: that in the body
                # counts
                answer = [status_of_body(body) or response["status_code"], body]
            else:  # it was never answered, so that there is no status
                answer = [None, {"error": error}]
            # the first result of a request counts
            entered = connection.execute(
                _SET_FIRST_RESULT, (json.dumps(answer), str(row["custom_id"]), token)
            )
            n_entered += entered.rowcount == 1
    return n_entered


class WaitingRequests:
    """Counts the requests that wait, and keeps the requests that are in no batch yet.

    They are kept in a temporary file for each model, so that memory does not grow.

    Args:
        folder: The folder of the temporary files.

    Attributes:
        n_requests: How many requests wait, in a batch or in none.
        price: What they cost at most, in US dollars; infinite if a price is unknown.
        open_files: Its ``with`` block closes the files at its end.
    """

    def __init__(self, folder: Path) -> None:
        self.n_requests = 0
        self.price = 0.0
        self._folder = folder
        self._file_by_model: dict[OpenAICompatibleModel, BinaryIO] = {}
        self.open_files = ExitStack()

    def count(self, model: OpenAICompatibleModel, body: str, n_replies: int) -> None:
        """Count a request, and what it will cost at most."""
        price_sent, price_received = model.batch_prices or (inf, inf)
        most_tokens_sent = len(body) / 3  # a token has three characters at least
        self.price += most_tokens_sent * price_sent
        self.price += n_replies * _REPLY_TOKENS * price_received
        self.n_requests += 1

    def write(
        self, model: OpenAICompatibleModel, request_id: str, body: str, tries: int
    ) -> None:
        """Write a request that is to stand in a batch to the file of its model."""
        if model not in self._file_by_model:
            file = TemporaryFile(dir=self._folder)  # noqa: SIM115  # open as long as the pass
            self._file_by_model[model] = self.open_files.enter_context(file)
        line = f"{request_id} {tries} {body}\n"  # the body is JSON on one line
        self._file_by_model[model].write(line.encode())

    def batches(self) -> Iterator[tuple[OpenAICompatibleModel, list[ParkedRequest]]]:
        """Yield the written requests of each model, no more than a batch may hold."""
        for model, file in self._file_by_model.items():
            file.seek(0)
            # a part of the file at a time: neither a batch nor memory grows too big
            while lines := file.readlines(_MAX_BYTES):
                requests = []
                for line in lines:
                    request_id, tries, body = line.decode().rstrip().split(" ", 2)
                    requests.append(ParkedRequest.of(request_id, body, int(tries)))
                for start in range(0, len(requests), _MAX_REQUESTS):
                    yield model, requests[start : start + _MAX_REQUESTS]
