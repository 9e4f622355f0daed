"""The requests of one pass that wait for the answer of a batch."""

from collections.abc import Iterator
from contextlib import ExitStack
from math import inf
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import BinaryIO, Self

from ragmetrics_core.models.compatible_model import OpenAICompatibleModel
from ragmetrics_core.scale.batch_table import ParkedRequest

# Services take so many requests in a batch, and 200 MB.
_MAX_REQUESTS = 50_000
_MAX_BYTES = 16 * 2**20
# Tokens of a reply, the most that is usual.
_REPLY_TOKENS = 200


class WaitingRequests:
    """Counts the requests that wait, and keeps the requests that are in no batch yet.

    They are kept in a temporary file for each model, so that memory does not grow.
    Leaving the ``with`` block closes these files.

    Args:
        folder: The folder of the temporary files.

    Attributes:
        n_requests: How many requests wait, in a batch or in none.
        price: What they cost at most, in US dollars; infinite if a price is unknown.
    """

    def __init__(self, folder: Path) -> None:
        self.n_requests = 0
        self.price = 0.0
        self._folder = folder
        self._file_by_model: dict[OpenAICompatibleModel, BinaryIO] = {}
        self._open_files = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_class: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._open_files.close()

    def count(self, model: OpenAICompatibleModel, body: str, n_replies: int) -> None:
        """Count a request, and what it will cost at most."""
        price_sent, price_received = model.batch_prices or (inf, inf)
        most_tokens_sent = len(body) / 3  # a token has three characters at least
        self.price += most_tokens_sent * price_sent
        self.price += n_replies * _REPLY_TOKENS * price_received
        self.n_requests += 1

    def write(self, model: OpenAICompatibleModel, request: ParkedRequest) -> None:
        """Write a request that is to stand in a batch to the file of its model."""
        if model not in self._file_by_model:
            file = TemporaryFile(dir=self._folder)  # noqa: SIM115  # open as long as the pass
            self._file_by_model[model] = self._open_files.enter_context(file)
        self._file_by_model[model].write(request.as_line())

    def batches(self) -> Iterator[tuple[OpenAICompatibleModel, list[ParkedRequest]]]:
        """Yield the written requests of each model, no more than a batch may hold."""
        for model, file in self._file_by_model.items():
            file.seek(0)
            # a part of the file at a time: neither a batch nor memory grows too big
            while lines := file.readlines(_MAX_BYTES):
                requests = [ParkedRequest.from_line(line) for line in lines]
                for start in range(0, len(requests), _MAX_REQUESTS):
                    yield model, requests[start : start + _MAX_REQUESTS]
