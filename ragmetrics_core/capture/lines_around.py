"""Which lines of a prompt label which context: those around it, and its own first lines. Pure.

A label stands in a line of its own or beside the text: ``[report.pdf]``,
``citation_id: a-7``, ``<doc id="x">``. It stands before the text that it names, or
after it. So the lines between two texts may label either of them. Which they label is
told by the lines before the first text and after the last one:

    [a.txt]            before the first text stands a line like those between the texts,
    It is old.         and after the last text stands none: so the lines label the text
    [b.txt]            below them
    It fell.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ragmetrics_core.capture.context_blocks import Block
from ragmetrics_core.capture.label_lines import LabelLine, label_line_of, shape_of
from ragmetrics_core.data.lazy_patterns import lazy_pattern

_REGION = 800  # characters before the first and after the last context, at least
# a blank line, or a line such as "----"
_NO_WORDS = lazy_pattern(r"[\W_]*")
# Where a label may begin in a line: after a blank, a colon, a quote, a tag.
_WORD_BEGINS = lazy_pattern(r"(?<![\w\[(（.@/\\-])(?=\S)")
# '"id": ', the comma between '"id": 2' and '"text": "', and what opens a list of objects
_KEY_OF_JSON = lazy_pattern(r"[\"'][A-Za-z]\w{0,30}[\"']\s?:")
_BETWEEN_FIELDS = lazy_pattern(
    r"(?<=[\"'}\]\w]),\s?(?=[\"'{])|(?<=\[)\s?(?=\{(?![^\[\]]*\]))"
)
# "<sources><source id='1'>": nothing but blanks between two tags; and the line breaks in
# the repr of a list of texts, "\\n---\\n", but not in a path, "docs\\notes"
_BETWEEN_TAGS = lazy_pattern(r"(?<=>)[ \t]*(?=</?[A-Za-z])|\\n(?![a-z])")
# "[S1]", "<source id='1'>", "Source 1:" and "f1.pdf:" before the words of a text
_LABEL_BEFORE_WORDS = lazy_pattern(
    r"\s*(?P<label>(?:\[[^\[\]\n]{1,160}\]|【[^【】\n]{1,160}】|<[A-Za-z][^<>\n]{0,160}>)[ \t]*:?"
    r"|[^\s:]{1,160}(?:[ \t]#?\d{1,4})?[ \t]*:(?=\s))[ \t]*(?=\S)"
)
# "[1] " and "[1]: " close before a text
_NUMBER_AT_THE_END = lazy_pattern(r"(?<![\w\]])\[[0-9]{1,4}\][ \t:*]*\n?\Z")


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """The lines that stand around the contexts of a prompt.

    Args:
        text_before: What stands before the first context.
        lines_before: All lines of this text.
        lines_between: All lines between two contexts: a list for each context but the
            last, with the lines up to the next context.
        lines_behind: The lines after the last context that are near.
    """

    text_before: str
    lines_before: Sequence[LabelLine]
    lines_between: Sequence[Sequence[LabelLine]]
    lines_behind: Sequence[LabelLine]


def lines_of_blocks(blocks: Sequence[Block], prompt: str) -> list[list[LabelLine]]:
    """Find the lines that label each context in a prompt.

    Example: "[a] IRON [b] STEEL", in four lines, gives the line "[a]" for IRON and
    "[b]" for STEEL. Empty lists where nobody can tell which lines label which context.

    Args:
        blocks: Where the contexts stand, in the prompt's order.
        prompt: The prompt.
    """
    if not blocks:
        return []
    if len(blocks) == 1:
        return [_lines_of_a_single_text(blocks[0], prompt)]
    surroundings = _surroundings(blocks, prompt)
    n_below = _count_lines_below(surroundings)
    if n_below is None:
        # in "Context: [1] It is old." the first label stands after other words
        surroundings = _with_first_label_behind_words(surroundings)
        n_below = _count_lines_below(surroundings)
    if n_below is None:
        return _labels_beside(blocks, prompt)
    return _divide_lines(surroundings, n_below)


def _labels_beside(blocks: Sequence[Block], prompt: str) -> list[list[LabelLine]]:
    """Find the labels in the contexts' own lines, "[1]" in "[1] It is old.", and no others.

    Whatever stands in the lines between the contexts, these belong to the context behind
    them. Empty lists unless all contexts have labels of one shape.
    """
    labels_beside = []
    for block in blocks:
        line_start = prompt.rfind("\n", 0, block.start) + 1
        labels_beside.append(_all_lines(prompt[line_start : block.start]))
    shapes = {tuple(line.shape for line in labels) for labels in labels_beside}
    if len(shapes) != 1:
        return [[] for _ in blocks]
    return labels_beside


def _divide_lines(surroundings: _Surroundings, n_below: int) -> list[list[LabelLine]]:
    """Give each context its label lines: first those above it, then those below.

    Example: "page: 4" and "[b.txt]" stand between two contexts, and ``n_below`` is 1.
    Then "page: 4" labels the context above, and "[b.txt]" the context below.

    Args:
        surroundings: The lines around the contexts; equally many between any two
            contexts.
        n_below: How many lines below each context label it. The others between two
            contexts stand above the next one, and label that.
    """
    n_above = len(surroundings.lines_between[0]) - n_below
    above_first = list(surroundings.lines_before)[
        len(surroundings.lines_before) - n_above :
    ]
    below_last = list(surroundings.lines_behind)[:n_below]
    # for each context, in order
    lines_above = [
        above_first,
        *(lines[n_below:] for lines in surroundings.lines_between),
    ]
    lines_below = [
        *(lines[:n_below] for lines in surroundings.lines_between),
        below_last,
    ]
    return [
        [*above, *below] for above, below in zip(lines_above, lines_below, strict=True)
    ]


def _surroundings(blocks: Sequence[Block], prompt: str) -> _Surroundings:
    r"""Collect the lines before, between and after several contexts of a prompt.

    In "Read this.\n[a]\nIt is old.\n[b]\nIt fell." the lines "Read this." and "[a]"
    stand before the contexts, "[b]" between them, and none after them.

    Args:
        blocks: Where the contexts stand, in the prompt's order; at least two.
        prompt: The prompt.
    """
    texts_between = [
        prompt[block.end : next_block.start]
        for block, next_block in itertools.pairwise(blocks)
    ]
    # Before the first and behind the last context the rest of the prompt stands, too. As
    # much of it is taken as surely holds the labels: they are no longer than the longest
    # text between two contexts, and a few words such as "Context:" may stand beside them.
    n_near = max(_REGION, 2 * max(map(len, texts_between)))
    first_start, last_end = blocks[0].start, blocks[-1].end
    text_before = prompt[max(0, first_start - n_near) : first_start]
    text_behind = prompt[last_end : last_end + n_near]
    return _Surroundings(
        text_before=text_before,
        lines_before=_all_lines(text_before),
        lines_between=[_all_lines(text) for text in texts_between],
        lines_behind=_all_lines(text_behind),
    )


def _with_first_label_behind_words(surroundings: _Surroundings) -> _Surroundings:
    """Read the line "Context: [1]" before the first context as its label "[1]".

    The label of the second context must be "[2]": of the same shape, with the next
    number. Otherwise "[1]" may be a part of the words, and nothing is changed.

    Returns:
        The surroundings, with "[1]" alone in place of the lines before the first context.
    """
    # the lines between the first two contexts: "[2]", or two lines, "[2]" and "b.pdf"
    labels_of_second = surroundings.lines_between[0]
    n_lines = len(labels_of_second)
    # as many lines must label the first context: "Context: [1]" and "a.pdf"
    lines_of_first = lines_with_words(surroundings.text_before)[-n_lines:]
    if n_lines == 0 or len(lines_of_first) < n_lines:
        return surroundings
    line_with_words, *further_lines = lines_of_first
    first_label = _label_at_the_end(line_with_words, labels_of_second[0].shape)
    if first_label is None:
        return surroundings
    labels_of_first = [first_label, *map(_label_or_words, further_lines)]
    if not _count_on(labels_of_first, labels_of_second):
        # another number in words before the first context, as "cite as [7]"
        return surroundings
    return replace(surroundings, lines_before=labels_of_first)


def _count_on(labels: Iterable[LabelLine], next_labels: Iterable[LabelLine]) -> bool:
    """Whether the next labels have the next numbers, as "[2]" after "[1]", or both none."""
    following_numbers = {int(number) + 1 for number in numbers_of(labels)}
    return following_numbers == {int(number) for number in numbers_of(next_labels)}


def _label_at_the_end(raw: str, shape: str) -> LabelLine | None:
    """Return the label of a shape that ends a line.

    Example: "Context: [1]" ends with "[1]". None if no such label ends the line, or
    labels with different numbers may.

    Args:
        raw: The line, such as ``Context: [1]``.
        shape: The shape of the label, such as the shape of ``[1]``.
    """
    labels: list[LabelLine] = []
    for word in _WORD_BEGINS.finditer(raw):
        line = label_line_of(raw[word.start() :])
        if line is not None and line.shape == shape:
            labels.append(line)
    numbers = {label.number for label in labels}
    return labels[-1] if len(numbers) == 1 else None


def _lines_of_a_single_text(block: Block, prompt: str) -> list[LabelLine]:
    """Return the lines that label the only context of a prompt.

    These are the label lines directly before it, such as "[a.pdf]"; if they give no name
    and no number, those directly after it. No second context shows which lines are
    labels, so that lines further off do not count.

    Args:
        block: Where the context stands.
        prompt: The prompt.
    """
    text_before = prompt[max(0, block.start - _REGION) : block.start]
    lines_before = _nearest_lines(text_before, direction=-1)
    # "What was found: [1] It is old.": the words before the text are no label, and [1] is
    number_at_the_end = _NUMBER_AT_THE_END.search(text_before)
    if number_at_the_end is not None and not numbers_of(lines_before):
        label = label_line_of(number_at_the_end[0])
        if label is not None:
            return [label]
    give_name_or_number = any(line.names or line.number for line in lines_before)
    if give_name_or_number:
        return lines_before
    return _nearest_lines(prompt[block.end : block.end + _REGION], direction=1)


def _count_lines_below(surroundings: _Surroundings) -> int | None:
    """Count how many lines directly below each context label it.

    The further lines below it label the next context. Two prompts with one line between
    IRON and STEEL:

    - "[a] IRON [b] STEEL" gives 0: "[b]" labels STEEL below it, as "[a]" labels IRON.
    - "IRON [a] STEEL [b]" gives 1: "[a]" labels IRON above it, as "[b]" labels STEEL.

    Returns:
        The count. None if no count or several counts fit, or if the lines between other
        contexts have other shapes.
    """
    # "[a.txt]" and "[b.txt]" have the same shape
    shapes_between = _shapes_of(surroundings.lines_between[0])
    if any(_shapes_of(lines) != shapes_between for lines in surroundings.lines_between):
        return None
    shapes_before_first = _shapes_of(surroundings.lines_before)
    shapes_behind_last = _shapes_of(surroundings.lines_behind)
    fitting_counts = []
    for n_below in range(len(shapes_between) + 1):
        # Then the last context has such labels below it, too, and the first one has
        # the other labels above it.
        labels_below = shapes_between[:n_below]
        labels_above = shapes_between[n_below:]
        fits_last = shapes_behind_last[:n_below] == labels_below
        fits_first = _ends_with(shapes_before_first, labels_above)
        if fits_last and fits_first:
            fitting_counts.append(n_below)
    return fitting_counts[0] if len(fitting_counts) == 1 else None


def _shapes_of(lines: Iterable[LabelLine]) -> list[str]:
    """Return the shape of each line."""
    return [line.shape for line in lines]


def _ends_with(shapes: Sequence[str], last_shapes: Sequence[str]) -> bool:
    """Whether a list of shapes ends with another list; an empty one ends any list."""
    n_others = len(shapes) - len(last_shapes)
    return n_others >= 0 and list(shapes[n_others:]) == list(last_shapes)


def own_lines(text: str) -> list[LabelLine]:
    """Return the lines at the beginning of a text that label it: ``Title: Bridges``.

    A label may stand in the text's first line, before its words: "[S1]" of "[S1] It is
    old."
    """
    label, words = _label_and_words(text)
    label_lines = _nearest_lines(f"{label}\n{words}", direction=1)
    n_lines = len(lines_with_words(words))
    if label:
        n_lines += 1
    is_each_line_a_label = len(label_lines) == n_lines
    if is_each_line_a_label:
        label_lines = _without_what_is_said(label_lines)
    return [_as_own_line(line) for line in label_lines]


def _without_what_is_said(label_lines: Sequence[LabelLine]) -> list[LabelLine]:
    """Leave out the last of some lines, and the fields above it: the words of a text.

    Each line of a text may look like a label. Of "Source 3:", "Name: Ann" and "Town:
    Velm" the first labels the text, and the other two are what it says.
    """
    lines_left = list(label_lines[:-1])
    while lines_left and lines_left[-1].is_field:
        lines_left.pop()
    return lines_left


def _label_and_words(text: str) -> tuple[str, str]:
    """Return the label before the first words of a text, and the rest of the text.

    "[S1] It fell." gives "[S1]" and "It fell." The label is empty if no words follow it
    in its line, or if it gives no name or number.
    """
    before = _LABEL_BEFORE_WORDS.match(text)
    line = None if before is None else label_line_of(before["label"])
    if before is None or line is None or line.is_field:
        return "", text
    names_it = bool(line.names or line.number)
    return (before["label"], text[before.end() :]) if names_it else ("", text)


def _as_own_line(line: LabelLine) -> LabelLine:
    """Return a label at the beginning of a text, with its first number at most.

    "Source 1: as document 2 says" is a label and then what the text says. A number
    without word or sign, as in "12 eggs" or "1. Opening", is what the text says.
    """
    has_sign = line.shape.startswith("<") or line.shape.rstrip(" :.)") == "##"  # "#1:"
    is_bare = not (line.numbers_with_numbering or line.is_field or has_sign)
    return replace(
        line,
        number=None if is_bare else line.number,
        numbers_with_numbering=line.numbers_with_numbering[:1]
        if line.number is not None
        else (),
    )


def _nearest_lines(region: str, *, direction: int) -> list[LabelLine]:
    """Return the label lines of a region that stand next to a context.

    They end with the first line that labels nothing, and before a heading such as
    ``Context:``. Blank lines and rules such as ``----`` are skipped. Example: of the
    lines "Read this.", "[a]", "page: 4" before a context the last two are returned, in
    the prompt's order.

    Args:
        region: What stands beside the context.
        direction: 1 if it stands after the context, -1 if before it.
    """
    lines: list[LabelLine] = []
    for distance, raw in enumerate(_raw_lines(region)[::direction]):
        if _NO_WORDS.fullmatch(raw):
            continue
        line = label_line_of(raw)
        if line is None:
            break
        # beside the context in its own line, a bare "Content:" is no heading
        is_in_own_line = distance == 0
        if line.is_heading and not is_in_own_line:
            break
        lines.append(line)
    return lines[::direction]


def _raw_lines(region: str) -> list[str]:
    """Split a region into its lines, a line of JSON into its fields, one of XML into its tags.

    ``{"id": 2, "text": "`` has the fields ``{"id": 2`` and ``"text": "``, and
    ``<sources><source id="1">`` has two tags. A tag keeps the words right behind it.
    """
    lines: list[str] = []
    for line in region.split("\n"):
        if _KEY_OF_JSON.search(line):
            lines += _BETWEEN_FIELDS.split(line)
        else:
            lines += _BETWEEN_TAGS.split(line)
    return lines


def lines_with_words(region: str) -> list[str]:
    """Split a region into its lines, without rules and blank lines."""
    return [raw for raw in _raw_lines(region) if not _NO_WORDS.fullmatch(raw)]


def _all_lines(region: str) -> list[LabelLine]:
    """Return all lines of a region except rules and blank ones."""
    return [_label_or_words(raw) for raw in lines_with_words(region)]


def _label_or_words(raw: str) -> LabelLine:
    """Read a line as a label; one that labels nothing has no names, and its words as shape.

    Words that stand beside each context, as "Use this text:" may, belong to what is
    written around it.
    """
    return label_line_of(raw) or LabelLine(shape_of(raw), ())


def numbers_of(lines: Iterable[LabelLine]) -> set[str]:
    """Return the numbers that lines give a text."""
    return {line.number for line in lines if line.number is not None}
