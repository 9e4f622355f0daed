"""Images, files and earlier responses in a request to LlamaIndex's model leave facts unknown."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.base.llms.types import (
    AudioBlock,
    ChatMessage,
    DocumentBlock,
    ImageBlock,
    TextBlock,
)
from llama_index.core.llms import MockLLM
from llama_index.evaluation.ragmetrics.recording.copies import copy_arguments
from pydantic import Field, PrivateAttr

from ragmetrics_core.capture import Node

TEXT = TextBlock(text="When was it opened?")
PICTURE = ImageBlock(image=b"iVBORw0=", image_mimetype="image/png")
FILE = DocumentBlock(data=b"JVBERi0=", document_mimetype="application/pdf")
SOUND = AudioBlock(audio=b"UklGRg==", format="wav")


def asked(*blocks: Any, role: str = "user", **parameters: Any) -> Node:
    """The call of a model that was sent a message of these blocks."""
    node = Node("model")
    arguments = {"messages": [ChatMessage(role=role, blocks=[*blocks, TEXT])]}
    copy_arguments("model", node, {**arguments, "kwargs": parameters}, MockLLM())
    return node


def test_a_file_is_evidence_that_nobody_recorded() -> None:
    (reason,) = asked(FILE).evidence_not_recorded
    assert "a file, such as a PDF" in reason


@pytest.mark.parametrize(("block", "kind"), [(PICTURE, "an image"), (SOUND, "sound")])
def test_an_image_or_sound_is_remarked(block: Any, kind: str) -> None:
    node = asked(block)
    (remark,) = node.remarks
    assert kind in remark
    assert not node.evidence_not_recorded


def test_an_earlier_response_is_evidence_that_nobody_recorded() -> None:
    (reason,) = asked(previous_response_id="resp_1").evidence_not_recorded
    assert "previous_response_id" in reason


class SetUp(MockLLM):
    """A model that is made with parameters for each request."""

    additional_kwargs: dict[str, Any] = Field(default_factory=dict)
    _previous_response_id: str | None = PrivateAttr(default=None)


@pytest.mark.parametrize(
    "name", ["previous_response_id", "conversation", "additional", "tracked"]
)
def test_a_model_may_be_made_with_what_the_provider_keeps(name: str) -> None:
    model = SetUp()
    if name == "tracked":
        model._previous_response_id = "resp_1"  # as OpenAI's model keeps it
    elif name == "additional":
        model.additional_kwargs = {"prompt": {"id": "pmpt_1"}}
    else:
        model.additional_kwargs = {name: "resp_1"}
    node = Node("model")
    arguments = {"messages": [ChatMessage(role="user", blocks=[TEXT])], "kwargs": {}}
    copy_arguments("model", node, arguments, model)
    (reason,) = node.evidence_not_recorded
    assert "what the model's provider keeps" in reason


def test_texts_and_what_a_model_drew_leave_nothing_unread() -> None:
    for node in (asked(), asked(PICTURE, role="assistant"), asked(temperature=0.5)):
        assert not node.remarks
        assert not node.evidence_not_recorded
