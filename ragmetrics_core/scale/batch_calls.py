"""A service's files and batches: what is sent to it, and how its objects are read.

Source:
    OpenAI's reference of files and batches,
    https://developers.openai.com/api/reference/resources/batches.
"""

import asyncio
import json
import logging
import time
from functools import partial
from io import BytesIO
from itertools import count
from typing import Any
from urllib.parse import quote

from ragmetrics_core.data import errors
from ragmetrics_core.models.attempts import seconds_until_next_attempt
from ragmetrics_core.models.compatible_model import OpenAICompatibleModel
from ragmetrics_core.models.endpoint_errors import Fault
from ragmetrics_core.models.threads import compute_beside_loop

COMPLETIONS_PATH = "/v1/chat/completions"
"""What every request of a batch asks for."""

ENDED = ("completed", "expired", "cancelled", "failed")
"""States of a batch that has ended: no more answers come."""

SETTLED_SECONDS = 600.0
"""A batch that is not listed so long after it was claimed was never made."""

# If a batch is not there after SETTLED_SECONDS, other runs make it again. So attempts
# to make it end that much sooner than other attempts.
_SECONDS_LESS_TO_MAKE_BATCH = SETTLED_SECONDS / 2
_MAKE_BATCH = ("POST", "batches")
# The name under which a batch's metadata hold our token.
_TOKEN_KEY = "ragmetrics"  # noqa: S105  # no secret
# The fields of a service's objects that are read, and what is taken in their place
# where they are of another type.
_DEFAULTS: dict[str, Any] = {
    "id": "",
    "status": "",
    "metadata": {},
    "request_counts": {},
    "data": [],
}

logger = logging.getLogger("ragmetrics_core")


async def upload_file(model: OpenAICompatibleModel, lines: list[bytes]) -> str:
    """Send a file of requests, and return the id that the service gives it."""
    import aiohttp  # not every run needs it

    def form() -> aiohttp.FormData:
        """Return the form that uploads the file; each attempt needs a new one."""
        fields = aiohttp.FormData({"purpose": "batch"})
        file = BytesIO(b"".join(lines))
        fields.add_field("file", file, filename="requests.jsonl")
        return fields

    uploaded = await ask_service(model, "POST", "files", form)
    return str(uploaded["id"])


async def make_batch(model: OpenAICompatibleModel, file_id: str, token: str) -> str:
    """Make a batch of a file that was sent, and return the id that the service gives it.

    Its metadata hold the token, by which ``batch_by_token`` finds it again.
    """
    body = {
        "input_file_id": file_id,
        "endpoint": COMPLETIONS_PATH,
        "completion_window": "24h",
        "metadata": {_TOKEN_KEY: token},
    }
    batch = await ask_service(model, "POST", "batches", json.dumps(body).encode())
    return str(batch["id"])


async def batch_by_id(model: OpenAICompatibleModel, batch_id: str) -> dict[str, Any]:
    """What the service says of a batch."""
    batch: dict[str, Any] = await ask_service(
        model, "GET", f"batches/{quote(batch_id, safe='')}"
    )
    return batch


async def cancel_batch(model: OpenAICompatibleModel, batch_id: str) -> dict[str, Any]:
    """End a batch, and return what the service says of it then."""
    path = f"batches/{quote(batch_id, safe='')}/cancel"
    batch: dict[str, Any] = await ask_service(model, "POST", path, b"{}")
    return batch


async def file_content(model: OpenAICompatibleModel, file_id: object) -> bytes:
    """The content of a file, without the key."""
    path = f"files/{quote(str(file_id))}/content"
    content: bytes = await ask_service(model, "GET", path)
    return await compute_beside_loop(
        partial(model.without_key, content), size=len(content)
    )


async def batch_by_token(model: OpenAICompatibleModel, token: str) -> dict[str, Any]:
    """Look through all batches of a service for the one that bears our token.

    A **token** is a random name that we wrote into the metadata of the batch. The
    service lists its batches in pages of 100; each page is asked for by the last batch
    of the page before it. Example: of 250 batches the 120th bears the token: two pages
    are asked for.

    Returns:
        The service's description of the batch. If none bears the token, its ``id`` is
        empty.
    """
    page_start = ""  # the part of the address that asks for a later page
    while True:
        page = await ask_service(model, "GET", f"batches?limit=100{page_start}")
        last_id = ""
        for entry in page["data"]:
            if not isinstance(entry, dict):
                continue
            batch = _object_with_known_types(entry)
            if batch["metadata"].get(_TOKEN_KEY) == token:
                return batch
            last_id = batch["id"]
        next_start = f"&after={quote(last_id)}"
        # A service that ignores "after" sends the same page again, for ever.
        is_new_page = bool(last_id) and next_start != page_start
        if not page.get("has_more") or not is_new_page:
            return _object_with_known_types({})
        page_start = next_start


async def ask_service(
    model: OpenAICompatibleModel, method: str, path: str, data: Any = None
) -> Any:
    """Ask a service for a file's content, or for the description of an object.

    It is asked again after each fault that passes. Example: a 503, then a 200: the
    second reply.

    Args:
        model: The model that knows the address and the key.
        method: "GET" or "POST".
        path: What is asked for, behind the address.
        data: JSON as bytes, or a function that makes a form; None for nothing.

    Raises:
        BatchFailed: If the service takes no batches.
        JudgeError: If a fault does not pass, or not soon enough; if what came is no
            object.
    """
    started = time.monotonic()
    for n_failed in count(1):
        try:
            sent = data() if callable(data) else data
            content = await model.call(method, path, sent)
            if path.endswith("/content"):  # of a file
                return content
            described = await model.read_json(content)
            break
        except errors.JudgeUnavailable as error:
            is_known = error.single is not None  # a used-up budget is
            if isinstance(error, errors.AuthenticationFailed) or is_known:
                raise
            unknown = path.partition("?")[0]
            raise errors.BatchFailed(
                f"{model.base_url} knows no {unknown} ({error.raw or error}): it takes no"
                " batches, or they are gone, or were made with another key: check the"
                " key, ask without batches, or give up those of a store by 'ragmetrics"
                " store cancel'"
            ) from None
        except errors.TransientJudgeError as error:
            seconds_tried = time.monotonic() - started
            if (method, path) == _MAKE_BATCH:
                # The same batch made twice would cost twice. So it is tried again only
                # for a few minutes: other runs make it if it is missing after ten.
                seconds_tried += _SECONDS_LESS_TO_MAKE_BATCH
                if may_have_made_batch(error):
                    raise
            wait = seconds_until_next_attempt(
                error, n_failed, seconds_tried=seconds_tried
            )
            if wait is None:  # it is not tried again
                raise
            logger.info("%s; it is tried again in %.0f s", error, wait)
        await asyncio.sleep(wait)
    if not isinstance(described, dict):
        raise errors.TransientJudgeError(
            f"{model.name} sent no object; check that its endpoint takes batches"
        )
    return _object_with_known_types(described)


def may_have_made_batch(error: errors.JudgeError) -> bool:
    """Whether a service may have made a batch although the call ended in this error.

    A time-out leaves that open. A service that could not be reached, or refused the
    call, made none.
    """
    if not isinstance(error, errors.TransientJudgeError):
        return False
    return error.is_sent and not isinstance(error, errors.RateLimited)


def _object_with_known_types(described: dict[str, Any]) -> dict[str, Any]:
    """Copy a service's description of an object, with each field of the right type."""
    checked = dict(described)
    for name, default in _DEFAULTS.items():
        if not isinstance(described.get(name), type(default)):
            checked[name] = default
    checked["request_counts"] = {
        name: number
        for name, number in checked["request_counts"].items()
        if type(number) is int
    }
    return checked


def reason_for_failure(batch: dict[str, Any]) -> str:
    """Return in words why a service did not answer a batch; "" if it does not say.

    The reason has the service's error codes alone: its message may quote a line of the
    file, and so the text of a sample. Example: "(invalid_json_line)".
    """
    list_of_errors = batch.get("errors")
    entries = list_of_errors.get("data") if isinstance(list_of_errors, dict) else None
    first_error = entries[0] if isinstance(entries, list) and entries else None
    text = json.dumps({"error": first_error if isinstance(first_error, dict) else {}})
    codes = Fault.from_reply(status=None, text=text).codes
    reason = f"({', '.join(codes)})" if codes else ""
    if "token_limit_exceeded" in codes:
        reason += "; give fewer rows at a time"
    return reason
