"""Parts of an answer that cite nothing, reasoning and code, and fences around its text.

Reasoning models leave ``<think>…</think>`` in their replies, and so do prompts that ask
for it. It weighs what the answer may say: "Maybe [2]? No, only [1]." So a mark in it
cites nothing. Brackets in code are indices.
"""

import re
from collections.abc import Iterable, Iterator

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
_CODE_IN_A_LINE = lazy_pattern(r"`[^`\n]*`")

_CODE = lazy_pattern(r"```.*?```|~~~.*?~~~|`[^`\n]*`", re.DOTALL)
# "rows" of "rows = read()", "argv" of "sys.argv[1]"
_NAME_OF_CODE = lazy_pattern(r"(?<!\w)([^\W\d]\w*+)[ \t]*+(?=[\[(=]|\.\w)")
# A fence around a whole answer that calls the answer text: "```markdown".
_OPENING_FENCE = lazy_pattern(
    r"\s*(?:```|~~~)(?:markdown|md|text|txt|plaintext)?[ \t]*\r?\n"
)
# A part of an answer in a fence that says that it is text.
FENCED_TEXT = lazy_pattern(
    r"^(?P<opening>[ \t]*(?P<fence>```|~~~)(?:(?P<is_read>markdown|md)|text|txt|plaintext)"
    r"[ \t\r]*)\n(?P<inner>(?:(?![ \t]*(?:```|~~~))[^\n]*\n)*+)"
    r"(?P<closing>[ \t]*(?P=fence))[ \t\r]*$",
    re.MULTILINE,
)
_CLOSING_FENCE = lazy_pattern(r"\n[ \t]*(?:```|~~~)\s*\Z")


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
    code = [match.span() for match in _CODE_IN_A_LINE.finditer(answer)]
    yield from _TAG.finditer(blank(answer, code))


def _is_closing(tag: re.Match[str]) -> bool:
    """Whether a tag ends a block, as "</think>" does."""
    return "/" in tag[0]


def fences_around(answer: str) -> list[Span]:
    """Return the spans of the opening and closing lines of fences around text.

    Marks in such a fence are read. It is a fence around the whole answer, or around
    parts of it that are marked as Markdown.
    """
    opening = _OPENING_FENCE.match(answer)
    if opening is not None:
        lines_around_all = _fence_around_all(answer, opening)
        if lines_around_all:
            return lines_around_all
    spans: list[Span] = []
    for match in FENCED_TEXT.finditer(answer):
        if match["is_read"]:
            spans += [match.span("opening"), match.span("closing")]
    return spans


def _fence_around_all(answer: str, opening: re.Match[str]) -> list[Span]:
    """Return the spans of the two lines of a fence if it holds the whole answer.

    "It is old." between two lines of three backticks gives two spans. A fence that is
    never closed, as in a reply that was cut off, has only the span of its opening line.
    [] if the answer goes on after the fence, or has other fences inside.
    """
    # Found only at the very end of the answer. The search begins one early: in
    # "```\n```" one line break ends the opening line and begins the closing one.
    closing = _CLOSING_FENCE.search(answer, opening.end() - 1)
    if closing is None:
        # "```\nIt is old.\n```\nIt fell.": a closing line that does not end the answer
        goes_on_behind_fence = "```" in answer[opening.end() :]
        return [] if goes_on_behind_fence else [opening.span()]
    inner = answer[opening.end() : closing.start()]
    has_other_fences = "```" in inner or "~~~" in inner
    return [] if has_other_fences else [opening.span(), closing.span()]


def spans_of_code(answer: str) -> list[Span]:
    """Return the spans of code in an answer. A fence around text is no code."""
    without_text_fences = answer
    for start, end in fences_around(answer):
        blanks = " " * (end - start)
        without_text_fences = (
            without_text_fences[:start] + blanks + without_text_fences[end:]
        )
    return [match.span() for match in _CODE.finditer(without_text_fences)]


def names_of_code(answer: str, code: Iterable[Span]) -> set[str]:
    """Return the names that the code of an answer uses, as "rows" of ``rows = read()``."""
    names: set[str] = set()
    for start, end in code:
        names.update(_NAME_OF_CODE.findall(answer, start, end))
    return names
