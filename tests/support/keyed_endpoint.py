"""An endpoint that repeats its key, as a framework's own model object reaches it."""

import asyncio

import pytest

from ragmetrics_core.data.errors import RequestRejected
from ragmetrics_core.models.chat import ChatModel, ChatRequest, Message

KEY = "3f2b8c1e-77aa-4d0e-9c1b-2f6e5d4c3b2a"


class Refusal(Exception):
    """How clients tell a refusal, with the endpoint's own sentence."""

    status_code = 400

    def __init__(self) -> None:
        self.body = {"error": {"message": f"bad header: Bearer {KEY.upper()}"}}
        super().__init__(str(self.body))


def said(is_refused: bool) -> str:
    """Return a reply that repeats the key, or raise such a refusal."""
    if is_refused:
        raise Refusal
    return f"The key is {KEY}."


def check_key_is_left_out(answering: ChatModel, refusing: ChatModel) -> None:
    """Check that neither a reply nor an error of models that hold the key repeats it."""
    request = ChatRequest(messages=(Message("user", "Who?"),))
    (choice,) = asyncio.run(answering.complete(request)).choices
    assert choice.text.startswith("The key is ")
    assert KEY[:12] not in choice.text
    with pytest.raises(RequestRejected) as refused:
        asyncio.run(refusing.complete(request))
    told = f"{refused.value} {refused.value.raw}".lower()
    assert "bad header" in told
    assert KEY[:12] not in told
