"""What models of a run wrote, as against what was found and only quotes it. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragmetrics_core.capturing.forms import stream
from ragmetrics_core.capturing.locating import OWN, locate

_MOST_OF_IT = 0.5


@dataclass(frozen=True)
class Written:
    """Texts of a run by where they came from.

    Args:
        replies: What models and nested engines answered; no queries, verdicts or routes, which steer the run.
        asked: Questions, queries and other texts that steer: a frame around a reply may repeat them.
        originals: Texts of documents that retrievers and tools returned, and of tools' results that no model wrote.
    """

    replies: Sequence[str]
    asked: Sequence[str]
    originals: Sequence[str]


def is_written(text: str, run: Written) -> bool:
    """Whether a document's text is a model's reply in a frame: "Sub question: …  Response: …".

    A text that was found, or cut from what was found, is not written, whatever it quotes. Neither is a page of which
    a model's sentence is only a small part: a web page that repeats the rewritten question (LangGraph's CRAG).
    """
    if text in run.originals:
        return False
    sayings = list(dict.fromkeys([*run.replies, *run.asked]))
    standing = _whole_inside([saying for saying in sayings if len(saying) >= OWN], text)
    holds_a_reply = not set(run.replies).isdisjoint(standing)
    if holds_a_reply and _letters(standing) >= _MOST_OF_IT * _letters([text]):
        return not locate([text], run.originals).order and not locate(run.originals, text).order
    return False


def _whole_inside(texts: Sequence[str], host: str) -> list[str]:
    """Those of some texts that stand whole in another one."""
    return [texts[place.candidate] for place in locate(texts, host).places if place.extent == "whole"]


def _letters(texts: Iterable[str]) -> int:
    return sum(len(stream(text)) for text in texts)
