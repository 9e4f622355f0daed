"""Batches: requests that are asked together and answered within a day.

They cost half the price where the service has it so.

A run over a ``ParkingStore`` calls nothing: requests without a reply are parked, and
become batches at the end of the pass. A later pass over the same samples takes each
answer as if it came from a call, and parks what is asked next; the pass that parks
nothing has the results of a run that calls. All of it stands in the file of replies,
without a prompt. A batch is entered there before it is made, and its metadata bear the
entry's token, by which it is found again.

Source:
    OpenAI's reference of files and batches,
    https://developers.openai.com/api/reference/resources/batches.
"""

import asyncio
import hashlib
import json
import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from io import BytesIO
from itertools import count
from math import inf
from operator import methodcaller
from tempfile import TemporaryFile
from typing import Any, BinaryIO, TypeVar
from urllib.parse import quote
from uuid import uuid4

from ragmetrics_core.data import SettingError, Usage, errors
from ragmetrics_core.models.attempts import checked, pause
from ragmetrics_core.models.chat import ChatModel, ChatReply, ChatRequest, Choice
from ragmetrics_core.models.compatible_model import OpenAICompatibleModel
from ragmetrics_core.models.endpoint_errors import (
    Fault,
    judge_error,
    status_number,
    status_of_body,
)
from ragmetrics_core.models.limits import Budget
from ragmetrics_core.models.reply_store import ReplyStore, SqliteStore
from ragmetrics_core.models.urls import public

T = TypeVar("T")

_TABLES = (
    (
        "batches (token TEXT PRIMARY KEY, id TEXT, endpoint TEXT NOT NULL, variable"
        " TEXT NOT NULL, since REAL NOT NULL)"
    ),
    "parked (id TEXT PRIMARY KEY, token TEXT NOT NULL, body TEXT NOT NULL, tries"
    " INTEGER NOT NULL, result TEXT) "
    # token: of the batch, then of the pass that took the result; body: its digest
    "WITHOUT ROWID",
    # a further reply of an answer has 0 tries, no result, and as body the id of the
    # request
)
_ROW = "SELECT token, body, tries, result FROM parked WHERE id = ?"
_NEW = """SELECT 1 FROM parked own JOIN parked head ON head.id = CASE own.tries WHEN 0 THEN own.body ELSE own.id END
WHERE own.id = ? AND head.result IS NOT NULL AND head.token <> ?"""
_TAKEN = """INSERT INTO parked (id, token, body, tries, result) VALUES (?, ?, ?, 0, '') ON CONFLICT (id) DO UPDATE SET
token = excluded.token, body = CASE tries WHEN 0 THEN excluded.body ELSE body END WHERE result IS NOT NULL"""
_LIVE = """DELETE FROM parked
WHERE id IN (:request, :first_try) OR id IN (SELECT body FROM parked WHERE id IN (:request, :first_try))"""
_CLAIM = """INSERT INTO parked (id, body, tries, token) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET
body = excluded.body, tries = excluded.tries, token = excluded.token, result = NULL
WHERE result IS NOT NULL AND tries < excluded.tries"""  # nobody else has asked it meanwhile
_ANSWER = "UPDATE parked SET result = ? WHERE id = ? AND token = ? AND result IS NULL"
_AGAIN = """SELECT count(*) FROM parked WHERE token = ? AND tries < ?
AND (substr(result, 2, 3) IN ('401', '402', '403', '404', '408', '429', 'nul') OR result LIKE '[5%')"""
_LOST_AT_ONCE = (
    "SELECT count(*) FROM parked WHERE token = ? AND result IS NULL AND tries = 1"
)
_RESULT = "SELECT result FROM parked WHERE id = ? AND token = ? AND result IS NOT NULL"
_CONTRADICT = "UPDATE parked SET result = ? WHERE id = ? AND token = ?"
_LEFT = "UPDATE parked SET result = ? WHERE token = ? AND result IS NULL"
_NAMED = "UPDATE batches SET id = ? WHERE token = ?"
_SINCE = "UPDATE batches SET since = ? WHERE token = ?"
_NO_ANSWER = {"completed": "no_result", "expired": "batch_expired"}
_ENDED = ("completed", "expired", "cancelled", "failed")
_MARK, _URL = "ragmetrics", "/v1/chat/completions"
# of one batch; services take as many requests, and 200 MB
_REQUESTS, _BYTES = 50_000, 16 * 2**20
_PASSING = (errors.TransientJudgeError, errors.JudgeUnavailable)
_TRIES = 3  # of a request that fails for a passing reason
_CONTRADICTORY = json.dumps([409, {"error": {"code": "contradictory_answers"}}])
# What is read of a service's objects, and where it is of another type what is taken in
# its place.
_FIELDS: dict[str, Any] = {
    "id": "",
    "status": "",
    "metadata": {},
    "request_counts": {},
    "data": [],
}
# between looks; from which on a batch that is not listed was never made
LOOK_SECONDS, SETTLED_SECONDS = 10.0, 600.0
# that a batch has to be made, once its file is there and the deadline has come
_LAST_SECONDS = 5.0
_REPLY_TOKENS = 200  # the most that is usual
_OPENAI, _SAID = "https://api.openai.com/", 300  # most characters of its words

logger = logging.getLogger("ragmetrics_core")


class ParkingStore(SqliteStore):
    """The file of replies, for one pass of a run that asks in batches.

    ``models`` are those that it asks: batches at other addresses are left alone, and
    ``elsewhere`` says where they are, since no file chooses where a key goes. What is
    parked counts with ``budget`` at what is usual. ``waiting`` holds the tokens of
    batches with requests of this pass, "" of one that another process makes.
    ``SettingError`` if the store is no single file, or a model takes no batches.
    """

    def __init__(
        self,
        store: ReplyStore,
        models: Sequence[ChatModel],
        budget: Budget | None = None,
    ) -> None:
        if not isinstance(store, SqliteStore):
            raise SettingError(
                "batches are kept in the file of replies: name one, e.g."
                " store='replies.sqlite'"
            )
        self._models = {
            it.base_url: it for it in models if isinstance(it, OpenAICompatibleModel)
        }
        if not models or not all(
            isinstance(it, OpenAICompatibleModel) for it in models
        ):
            told = (
                "only models of OpenAI's, and openai-compatible/MODEL with api_base=,"
                " take batches"
            )
            raise SettingError(f"{told}: name such a judge, or leave out batch=")
        super().__init__(store.path, fresh=store.fresh)
        self._pass, self._budget, self.small = uuid4().hex, budget or Budget(), False
        self._parked, self._price = 0, 0.0
        # each pass takes what batches have answered, and counts it; calls come on top
        if not self._budget.live:
            self._budget.calls, self._budget.spent = 0, 0.0
        self._spools, self._files = dict[OpenAICompatibleModel, BinaryIO](), ExitStack()
        self.waiting: set[str] = set()
        # by token the address of a batch that no model of these asks
        self.elsewhere: dict[str, str] = {}
        self._failures: set[str] = set()  # requests that failed, and are counted
        self._said_of_keys: set[str] = set()  # tokens of batches
        for table in _TABLES:
            self.write(methodcaller("execute", f"CREATE TABLE IF NOT EXISTS {table}"))
        super().flush()

    @property
    def said(self) -> str:
        """Where the pass stands, for people."""
        told = (
            f"{self._parked:,} requests wait for batches ({len(self.waiting)}), which"
            " are answered within a day"
        )
        return (
            f"{told}; evaluate again with the same store when 'ragmetrics batch status'"
            " says that they have ended"
        )

    def get(self, key: str) -> Choice | None:
        """Return the reply kept under a key.

        None where a batch has an answer that this pass has not taken yet.
        """
        new = (
            self._memory.get(key) is None
            and self.read(_NEW, (_digest(key), self._pass)) is not None
        )
        return None if new else super().get(key)

    def parked(
        self, model: ChatModel, keys: Sequence[str], request: ChatRequest
    ) -> ChatReply | None:
        """Return what a batch answered to a request; None to ask it live.

        Raises ``LimitReached`` as long as there is no answer.
        """
        assert isinstance(model, OpenAICompatibleModel)  # noqa: S101  # the run has no other
        body, own = json.dumps(model.body(request)), _digest(keys[0])
        token, asked, tries, result = self.read(_ROW, (own,)) or (b"", b"", 0, None)
        if result:
            reply = _answer(model, result)
            known = asked.decode() == _digest(body) and not isinstance(
                reply.failures and reply.failures[0], _PASSING
            )
            if reply.choices or known or tries >= _TRIES:
                taken = [
                    (_digest(key), self._pass, own)
                    for key in (keys[0], *keys[1 : len(reply.choices)])
                ]
                self.write(methodcaller("executemany", _TAKEN, taken))
                if not self._budget.live:
                    self._budget.calls += 1
                    self._budget.spent += reply.usage.cost or 0.0
                usage = (
                    reply.usage
                    if reply.choices
                    else self._usage_of_failure(own, tries, reply.usage)
                )
                return ChatReply(reply.choices, usage, reply.failures * request.n)
        if token and result is None:
            self.waiting.add(token.decode())
        # from here on the file keeps it like any reply, and what a repair replaces
        elif self._budget.live:
            ids = {"request": own, "first_try": _digest(keys[0].partition("|")[0])}
            self.write(methodcaller("execute", _LIVE, ids))
            return None
        else:
            if model not in self._spools:
                spool = TemporaryFile(dir=self.path.resolve().parent)  # noqa: SIM115  # of the pass
                self._spools[model] = self._files.enter_context(spool)
            line = (
                f'{{"custom_id": "{own}", "method": "POST", "url": "{_URL}", "body":'
                f" {body}}}"
            )
            self._spools[model].write(
                f"{own} {_digest(body)} {tries + 1} {line}\n".encode()
            )
        sent, received = model.batch_prices or (inf, inf)
        self._price += len(body) / 3 * sent + request.n * _REPLY_TOKENS * received
        self._parked += 1
        waits = errors.LimitReached("the request stands in a batch: evaluate again")
        waits.single = True
        return ChatReply((), failures=(waits,) * request.n)

    def _usage_of_failure(self, request: str, tries: int, usage: Usage) -> Usage:
        """Return what a request cost that failed.

        Each try counts once, in however many forms the pass asks for the request.
        """
        if request in self._failures:
            return Usage()
        self._failures.add(request)
        return replace(usage, calls=tries * usage.calls)

    async def submit(self) -> None:
        """Make batches of what is parked.

        The pass that parked nothing forgets the answers that it took.

        A later round of at most ``max_live`` requests is ``small``: it makes none, and
        the next pass asks it live. ``BatchFailed`` if the run may not spend that much,
        and no batch is made then, or if one is refused.
        """
        own, limits = self._budget, self._budget.limits
        calls, spent = own.calls + self._parked, own.spent + self._price
        with self._files:
            if self._parked and (
                calls > (limits.max_calls or inf) or spent > (limits.max_cost or inf)
            ):
                price = "an unknown price" if spent == inf else f"up to ${spent:.4f}"
                told = (
                    f"{calls} requests, for {price} in all, are more than the limits"
                    " allow"
                )
                raise errors.BatchFailed(f"no batch was made: {told}")
            if (
                own.calls
                and not self.waiting
                and 0 < self._parked <= (limits.max_live or 0)
            ):
                logger.info("%d requests are asked live", self._parked)
                own.live = self.small = True
                self.waiting.add("")
                return
            for model, spool in self._spools.items():
                spool.seek(0)
                while lines := [
                    line.split(b" ", 3) for line in spool.readlines(_BYTES)
                ]:
                    for start in range(0, len(lines), _REQUESTS):
                        await self._make(model, lines[start : start + _REQUESTS])
        if not self.waiting:
            await self._done(
                methodcaller(
                    "execute", "DELETE FROM parked WHERE token = ?", (self._pass,)
                )
            )

    async def _make(
        self, model: OpenAICompatibleModel, lines: Sequence[list[bytes]]
    ) -> None:
        token = uuid4().hex

        def claim(connection: sqlite3.Connection) -> list[bytes]:
            pairs = (
                (line, (own.decode(), body.decode(), int(tries), token))
                for own, body, tries, line in lines
            )
            claimed = [
                line for line, row in pairs if connection.execute(_CLAIM, row).rowcount
            ]
            entry = (token, None, model.base_url, model.api_key_env or "", time.time())
            connection.executemany(
                "INSERT INTO batches VALUES (?, ?, ?, ?, ?)", [entry] if claimed else []
            )
            return claimed

        if not (claimed := await self._done(claim)):
            self.waiting.add("")
            return
        self.waiting.add(token)
        file = ""
        try:
            file = (await _sent(model, "POST", "files", claimed))["id"]
            if not await self._done(
                lambda connection: (
                    connection.execute(_SINCE, (time.time(), token)).rowcount
                )
            ):
                # it took so long that another process took it for one that was never
                # made
                return
            body = {
                "input_file_id": file,
                "endpoint": _URL,
                "completion_window": "24h",
                "metadata": {_MARK: token},
            }
            made = await self._make_of_file(model, body, token)
            logger.info(
                "%s is submitted: %d requests to %s", made, len(claimed), model.name
            )
        except asyncio.CancelledError:  # the run's deadline
            if not file:  # nothing was made, and the next run need not look for it
                self.waiting.discard(token)
                await self._done(partial(forget_batch, token, None))
            raise
        except errors.JudgeError as error:
            refused = not file or isinstance(
                error, (errors.Unreachable, errors.RateLimited)
            )
            if isinstance(error, errors.TransientJudgeError) and not refused:
                logger.warning(
                    "a batch may have been made, and is looked for: %s", error
                )
                return
            await self._done(partial(forget_batch, token, None))
            raise errors.BatchFailed(
                f"a batch was not made, and the next run asks its requests: {error}"
            ) from None

    async def _make_of_file(
        self, model: OpenAICompatibleModel, body: dict[str, Any], token: str
    ) -> str:
        """Make a batch of a file, and enter its name, which is returned.

        A deadline leaves it a few seconds to be made: the next run would look for ten
        minutes for one that may or may not have been.
        """

        async def make() -> str:
            made = str(
                (await _sent(model, "POST", "batches", json.dumps(body).encode()))["id"]
            )
            await self._done(methodcaller("execute", _NAMED, (made, token)))
            return made

        making = asyncio.ensure_future(make())
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            await asyncio.wait({making}, timeout=_LAST_SECONDS)
            making.cancel()
            raise

    async def look(
        self, collect: bool = True, cancel: bool = False
    ) -> dict[str, dict[str, Any]]:
        """What services say of batches, by token.

        Those at addresses of no model here are listed in ``elsewhere``.

        With ``collect`` the answers of those that have ended are kept, and
        ``BatchFailed`` is raised where one was refused or cancelled; ``cancel`` ends
        those that have not. Other errors are those of a call.
        """
        states = dict[str, dict[str, Any]]()
        entries = await self._done(
            lambda connection: connection.execute("SELECT * FROM batches").fetchall()
        )
        for token, name, endpoint, variable, since in entries:
            model = self._models.get(endpoint)
            if model is None:
                self._leave(token, endpoint)
                continue
            self._say_of_key(model, token, variable)
            name = name and quote(str(name), safe="")
            found = await (
                _sent(model, "GET", f"batches/{name}")
                if name
                else _listed(model, token)
            )
            # whatever is said of it, it is the one that was asked about
            found["id"] = found["id"] or name or ""
            if not found["id"]:
                found["status"] = (
                    "not confirmed yet"
                    if time.time() < since + SETTLED_SECONDS
                    else "expired"
                )
            elif not name:
                await self._done(methodcaller("execute", _NAMED, (found["id"], token)))
            if cancel and found["id"] and found["status"] not in _ENDED:
                found = await _sent(
                    model,
                    "POST",
                    f"batches/{quote(str(found['id']), safe='')}/cancel",
                    b"{}",
                )
            if collect and found["status"] in _ENDED:
                await self._collect(model, token, found, since)
            states[token] = found
        return states

    def _leave(self, token: str, endpoint: object) -> None:
        """Leave a batch alone, and say where it is."""
        if token not in self.elsewhere:
            self.elsewhere[token] = public(str(endpoint))
            logger.warning(
                "a batch of this store is at %s, which is not asked here",
                self.elsewhere[token],
            )

    def _say_of_key(
        self, model: OpenAICompatibleModel, token: str, variable: object
    ) -> None:
        """Say that a batch was made with the key of another variable.

        A different variable holds the key that the batch is asked with now.
        """
        if (model.api_key_env or "") == variable or token in self._said_of_keys:
            return
        self._said_of_keys.add(token)
        logger.info(
            "a batch of this store was made with the key of another variable than it is"
            " asked with now"
        )

    async def wait(self) -> bool:
        """Wait until the batches of this pass have ended, and collect them.

        False if there are none, or if the deadline of the run comes first: its batches
        go on then.
        """
        going = self.waiting
        try:
            async with asyncio.timeout(self._budget.remaining) as deadline:
                while going:
                    # it was told with each try
                    with suppress(errors.TransientJudgeError):
                        states = await self.look()
                        going = {
                            token
                            for token, found in states.items()
                            if found["status"] not in _ENDED
                        }
                    going = going & self.waiting
                    await asyncio.sleep(LOOK_SECONDS if going else 0)
        except TimeoutError:
            if not deadline.expired():
                raise
            return False
        return bool(self.waiting)

    async def _collect(
        self,
        model: OpenAICompatibleModel,
        token: str,
        found: dict[str, Any],
        since: float,
    ) -> None:
        """Keep what a batch that has ended answered.

        One whose answers cannot be read yet is looked at again.
        """
        answered, lines, status = 0, 0, found["status"]
        for name in filter(found.get, ("error_file_id", "output_file_id")):
            with suppress(errors.BatchFailed):  # the service keeps it for a while only
                content = await _sent(
                    model, "GET", f"files/{quote(str(found[name]))}/content"
                )
                answered += await self._done(partial(_keep, token, BytesIO(content)))
                lines += len(content.splitlines()) if name == "output_file_id" else 0
        paid = found["request_counts"].get("completed", int(status == "completed"))
        if lines < paid:
            # the first look that could not read them, told from an entry's time by its
            # sign
            if since > 0:
                await self._done(
                    methodcaller("execute", _SINCE, (since := -time.time(), token))
                )
            if time.time() + since < SETTLED_SECONDS:
                found["status"] = f"{status}, but its answers cannot be read yet"
                return
        # Whole batches without an answer: to ask at once again would pay again, without
        # a word.
        lost = bool(
            status == "completed"
            and not answered
            and await self._counted(_LOST_AT_ONCE, token)
        )
        failed = await self._counted(_AGAIN, token, _TRIES)  # for a passing reason
        code = _NO_ANSWER.get(status)
        left = await self._done(partial(forget_batch, token, code))
        again = (
            left + failed
            if code is None
            else await self._counted(_AGAIN, token, _TRIES)
        )
        told = (
            f"{found['id'] or 'a batch not made'}: {status}, {answered - failed}"
            " requests answered, "
        )
        told += f"{again} to be asked again"
        if status in ("failed", "cancelled") or lost:
            raise errors.BatchFailed(
                f"{told} by the next run {reason_told(model, found)}".rstrip()
            )
        logger.log(logging.WARNING if left + failed else logging.INFO, "%s", told)

    async def _counted(self, query: str, *values: object) -> int:
        return await self._done(
            lambda connection: int(connection.execute(query, values).fetchone()[0])
        )

    async def _done(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """What a change of the file gives, once it is committed."""
        found: list[T] = []
        self.write(lambda connection: found.append(change(connection)))
        await self.settled()
        if self.trouble is not None:
            raise SettingError(
                f"{self.path} cannot be written, and batches are kept there: make room"
                " or name another"
            )
        return found[0]


def _keep(token: str, lines: Iterable[bytes], connection: sqlite3.Connection) -> int:
    """Enter the results of a batch, and count them.

    Lines that are none, or say that there is none, are left out.
    """
    kept = 0
    for line in lines:
        with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
            row = json.loads(line)
            response, error = row.get("response"), row.get("error") or {}
            result = json.dumps(
                _told(response) if response else [None, {"error": error}]
            )
            if error.get("code") in ("batch_expired", "batch_cancelled"):
                continue
            name = str(row["custom_id"])
            if connection.execute(_ANSWER, (result, name, token)).rowcount:
                kept += 1
            else:
                _hold_against(result, name, token, connection)
    return kept


def _told(response: dict[str, Any]) -> list[Any]:
    """Status and body of an answer.

    A body that is JSON as a text is read, and an error has the status that it says.
    """
    status, body = response["status_code"], response["body"]
    if isinstance(body, str):
        with suppress(ValueError, RecursionError):
            body = json.loads(body)
    number = status_number(status)
    return [(number == 200 and status_of_body(body)) or number or status, body]


def _hold_against(
    result: str, name: str, token: str, connection: sqlite3.Connection
) -> None:
    """Compare a further answer to a request with the one that was entered.

    If they differ, neither counts.
    """
    entered = connection.execute(_RESULT, (name, token)).fetchone()
    if entered is not None and _essence(entered[0]) != _essence(result):
        connection.execute(_CONTRADICT, (_CONTRADICTORY, name, token))


def _essence(result: str) -> object:
    """What of a result decides: the replies, else the status and the error."""
    status, body = json.loads(result)
    return (
        body["choices"]
        if isinstance(body, dict) and "choices" in body
        else (status, body)
    )


def forget_batch(token: str, code: str | None, connection: sqlite3.Connection) -> int:
    """Forget a batch, and return the number of its requests without an answer.

    These requests get ``code`` as their error. Without a code they are as if never
    asked.
    """
    connection.execute("DELETE FROM batches WHERE token = ?", (token,))
    left = connection.execute(
        _LEFT, (code and json.dumps([None, {"error": {"code": code}}]), token)
    ).rowcount
    connection.execute(
        "DELETE FROM parked WHERE token = ? AND result IS NULL", (token,)
    )
    return left


def _answer(model: OpenAICompatibleModel, result: bytes) -> ChatReply:
    """A result as a reply, at the price of a batch, or with its failure."""
    status, body = json.loads(result)
    executed = Usage(calls=int(status is not None))
    if result.decode() == _CONTRADICTORY:
        told = (
            f"{model.name} gave several answers to one request, which contradict each"
            " other: the next run asks again"
        )
        return ChatReply((), Usage(calls=1), (errors.ConflictingVerdicts(told),))
    try:
        if status == 200:
            return checked(model, model.reply(body, model.batch_prices))
        fault = Fault.from_reply(status, json.dumps(body), None)
        raise judge_error(errors.JudgeServerError, fault, model.name, model.base_url)
    except errors.JudgeError as error:
        if isinstance(error, errors.JudgeUnavailable):
            error.single = True
        return ChatReply((), executed, (error,))


def reason_told(model: OpenAICompatibleModel, found: dict[str, Any]) -> str:
    """What a service says of a batch that it did not answer."""
    listed = (
        found["errors"].get("data") if isinstance(found.get("errors"), dict) else None
    )
    first = (
        listed[0]
        if isinstance(listed, list) and listed and isinstance(listed[0], dict)
        else {}
    )
    symbols = Fault.from_reply(None, json.dumps({"error": first}), None).symbols
    # OpenAI speaks of a file in set sentences, of lines, models and limits; other
    # services may quote what stands there.
    words = (
        str(first.get("message") or "").split()
        if model.base_url.startswith(_OPENAI)
        else ()
    )
    said = " ".join(
        [f"({', '.join(symbols)})" * bool(symbols), *filter(str.isprintable, words)]
    )[:_SAID]
    return said + "; give fewer rows at a time" * ("token_limit_exceeded" in symbols)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


async def _listed(model: OpenAICompatibleModel, token: str) -> dict[str, Any]:
    """The batch that bears a token, in the service's list of all.

    Nameless if there is none.
    """
    after, more = "", True
    while more:
        page = await _sent(model, "GET", f"batches?limit=100{after}")
        batches = [_object(one) for one in page["data"] if isinstance(one, dict)]
        if found := next(
            (one for one in batches if one["metadata"].get(_MARK) == token), None
        ):
            return found
        before, after = after, f"&after={quote(batches[-1]['id'])}" if batches else ""
        more = bool(after and after != before and page.get("has_more"))
    return _object({})


async def _sent(
    model: OpenAICompatibleModel, method: str, path: str, data: Any = None
) -> Any:
    """What a service has, a file's content or an object as it describes it.

    Asked again after a fault that passes.
    """
    # nothing else is paid if it is done twice
    making = (method, path) == ("POST", "batches")
    passing = (
        (errors.RateLimited, errors.Unreachable)
        if making
        else errors.TransientJudgeError
    )
    # soon others take it for one that was never made
    began = [time.monotonic() - making * SETTLED_SECONDS / 2]
    for counted in count(1):
        try:
            found = await model.call(method, path, data)
            break
        except errors.ModelNotFound:
            told = f"{model.base_url} knows no {path.partition('?')[0]}"
            raise errors.BatchFailed(
                f"{told}: it takes no batches, or they were made with another key"
            ) from None
        except passing as error:
            if (wait := pause(error, counted, began)) is None:
                raise
            logger.info("%s; it is tried again in %.0f s", error, wait)
        await asyncio.sleep(wait)
    if not isinstance(found, (dict, bytes)):
        raise errors.JudgeServerError(
            f"{model.name} sent no object; check that its endpoint takes batches"
        )
    return _object(found) if isinstance(found, dict) else found


def _object(found: dict[str, Any]) -> dict[str, Any]:
    """Return what a service says of one of its objects.

    Each field that is read has the type that it should have.
    """
    typed = dict(_FIELDS)
    for name, usual in _FIELDS.items():
        if isinstance(found.get(name), type(usual)):
            typed[name] = found[name]
    counts = {
        name: count
        for name, count in typed["request_counts"].items()
        if type(count) is int
    }
    return {**found, **typed, "request_counts": counts}
