"""The reasoning that a model writes before its answer, such as ``<think>…</think>``.

Reasoning models leave it in their replies, and so do prompts that ask for it. It weighs
what the answer may say: "Maybe [2]? No, only [1]." So a mark in it cites nothing.
"""

import re
from collections.abc import Iterator

from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import Span, blank

_NAME = r"(?:think(?:ing)?|thoughts?|reasoning|scratch_?pad)"
# "<think>", "</thinking>", "<seed:think>", "[THINK]" of Magistral, "◁/think▷" of Kimi
_TAG = lazy_pattern(
    rf"</?(?:\w{{1,20}}:)?{_NAME}\s*>"
    r"|\[/?(?-i:THINK)\]"
    r"|◁/?think▷",
    re.IGNORECASE,
)
_CODE = lazy_pattern(r"`[^`\n]*`")


def without_reasoning(answer: str) -> str:
    """Return an answer with blanks in place of its reasoning, tags included.

    Each character keeps its place. A block that is never closed stays, since nobody
    knows where the answer begins: see ``start_of_open_reasoning``.

    Args:
        answer: Any text.

    Examples:
        >>> without_reasoning("<think>[2]?</think>It fell [1].")
        '                   It fell [1].'
    """
    return blank(answer, list(_closed_blocks_in(answer)))


def start_of_open_reasoning(answer: str) -> int:
    """Return where a block of reasoning begins that is never closed; else the answer's end.

    Examples:
        >>> start_of_open_reasoning("It fell. <think>Is it [1] or")
        9
    """
    opening = next(_tags_in(without_reasoning(answer)), None)
    return len(answer) if opening is None else opening.start()


def _closed_blocks_in(answer: str) -> Iterator[Span]:
    """Yield the spans of the blocks of reasoning in an answer, with their tags.

    Of a block within another the two closing tags end one block each. Before a closing
    tag without an opening one, which a prompt may have written, all is reasoning.
    """
    end_of_last = 0
    start: int | None = None
    for tag in _tags_in(answer):
        if not _is_closing(tag):
            start = tag.start() if start is None else start
            continue
        yield (end_of_last if start is None else start), tag.end()
        end_of_last = tag.end()
        start = None


def _tags_in(answer: str) -> Iterator[re.Match[str]]:
    """Yield the tags of reasoning in an answer; "`</think>`" as code only speaks of one."""
    if not _TAG.search(answer):
        return
    code = [match.span() for match in _CODE.finditer(answer)]
    yield from _TAG.finditer(blank(answer, code))


def _is_closing(tag: re.Match[str]) -> bool:
    """Whether a tag ends a block, as "</think>" does."""
    return "/" in tag[0]
