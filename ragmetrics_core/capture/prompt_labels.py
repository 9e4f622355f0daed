"""Under which labels a prompt showed each context: titles, file names, ids, numbers. Pure.

A label stands in a line of its own or beside the text: ``[report.pdf]``,
``citation_id: a-7``, ``<doc id="x">``. It stands before the text that it names, or
behind it. Between two texts the lines of the one and of the other meet; which are which
is told by what stands before the first text and behind the last.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ragmetrics_core.data.mark_patterns import SOURCE_WORD
from ragmetrics_core.data.marks import plain_label

_OPENING = 200  # signs of a context by which it is found in a prompt
_CLOSING = 80  # signs by which its end is found
_REGION = 800  # signs before the first and behind the last context
_MOST_SHOWINGS = 20  # of one context in one prompt
_LONGEST_LINE = 300
_LONGEST_LABEL = 160
_RULE = re.compile(r"[\W_]*")
_BRACKETS = re.compile(r"\[([^\[\]\n]+)\]|【([^【】\n]+)】")
_TAG = re.compile(r"<(/?)([A-Za-z][\w-]*)([^<>\n]*)>")
_ATTRIBUTE = re.compile(
    r"""([\w-]+)\s*=\s*["']?([^"'<>\n]+?)["']?(?=\s+[\w-]+\s*=|\s*/?$)"""
)
# Keys whose number is that of a source; the number of a page is none.
_KEY_OF_NUMBER = re.compile(
    r"(?:(?:source|citation|document|doc|passage|reference|ref|chunk|context|result)[ _]?)?"
    r"(?:id|index|number|no|n)|source|citation|document|passage|reference",
    re.IGNORECASE,
)
# An item of a list of instructions: "2. Cite each source that you use."
_ITEM = re.compile(r"\s*[0-9]{1,2}[.)]\s+(?:\S+\s+){3,}\S+[.!?]\s*$")
# "key: value", as metadata and JSON write it.
_FIELD = re.compile(r"""["']?([A-Za-z][\w \-]{0,40}?)["']?\s*[:=]\s*(.*)""")
_PART = re.compile(r"\s[|–—-]\s|[|,;]")
# Where a label may begin in a line: behind a blank, a colon, a quote, a tag.
_WORD_BEGINS = re.compile(r"(?<![\w\[(（.@/\\-])(?=\S)")
# "[1] " and "[1]: " close before a text
_NUMBER_AT_THE_END = re.compile(r"(?<![\w\]])\[[0-9]{1,4}\][ \t:*]*\n?\Z")
# "report.pdf:", "**docs/report.pdf**"
_FILE_ALONE = re.compile(
    r"""[#>*\-"'\s]*(?P<file>[^\s:"'*|]+\.[A-Za-z][A-Za-z0-9]{1,4})["'*]*\s*[:|–—-]?["'*\s]*"""
)
_NUMBER = re.compile(r"[0-9]{1,4}")
_NUMBER_FIRST = re.compile(r"([0-9]{1,4})(?:\Z|[ \t]*[:|,(–—-])")
# What may stand before a number in brackets: "Document [1]", "- [2]".
_BEFORE_A_NUMBER = re.compile(
    rf"""[#>*\-"']*\s*{SOURCE_WORD}?[\s#:]*""",
    re.IGNORECASE | re.VERBOSE,
)
# "Source 1:", "### Document 2 (a.pdf)", "3."
_NUMBERED = re.compile(
    rf"""[#>*\-=\s]*{SOURCE_WORD}?
    [ \t]*\#?(?P<number>[0-9]{{1,4}})(?:[\s:.)|(,–—\-]|\Z)""",
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Labels:
    """What prompts tell of the labels of contexts.

    Args:
        indexes_by_label: By label the places of the contexts under it.
        ambiguous_numbers: Numbers that stand above several contexts: nobody can tell which of
            them an answer means.
    """

    indexes_by_label: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    ambiguous_numbers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Line:
    """A line that labels a text.

    Args:
        shape: The line without what differs from text to text.
        labels: What it may name the text; no numbers.
        number: The number that it gives the text; None if it gives none.
        is_heading: Whether nothing stands behind its colon, as in ``Context:``.
    """

    shape: str
    labels: tuple[str, ...]
    number: str | None = None
    is_heading: bool = False


@dataclass(frozen=True, slots=True)
class _Block:
    """Where a context stands in a prompt."""

    place: int
    start: int
    end: int


def labels_in(prompts: Sequence[str], contexts: Sequence[str]) -> Labels:
    r"""Return the places of the contexts by the labels under which prompts show them.

    Args:
        prompts: The messages that the model was shown.
        contexts: The contexts in their order.

    Returns:
        The labels; none where lines before and behind the texts cannot be told apart.

    Examples:
        >>> labels_in(["[a.txt]\nIt is old.\n\n[b.txt]\nIt fell."], ["It is old.", "It fell."]).indexes_by_label
        {'a.txt': (0,), 'b.txt': (1,)}
        >>> labels_in(["It is old.\n(a.txt)\n[x]\n\nIt fell."], ["It is old.", "It fell."]).indexes_by_label
        {}
    """
    lines_by_place: dict[int, list[_Line]] = {
        place: [] for place in range(len(contexts))
    }
    for prompt in prompts:
        blocks = _blocks(prompt, contexts)
        for block, lines in zip(blocks, _lines_of(blocks, prompt), strict=True):
            own_lines = _own_lines(contexts[block.place])
            if _numbers_of(lines):
                own_lines = [_without_number(line) for line in own_lines]
            lines_by_place[block.place] += [*lines, *own_lines]
    names = _places_by_name(lines_by_place)
    numbers_by_place = {
        place: _numbers_of(lines) for place, lines in lines_by_place.items()
    }
    places_by_number = _places_by_number(numbers_by_place)
    if places_by_number is None:
        return Labels(names, frozenset().union(*numbers_by_place.values()))
    return Labels({**names, **places_by_number})


def _places_by_name(
    lines_by_place: Mapping[int, Iterable[_Line]],
) -> dict[str, tuple[int, ...]]:
    """The places of the contexts by the names that lines give them."""
    places: dict[str, set[int]] = {}
    for place, lines in lines_by_place.items():
        for line in lines:
            for label in line.labels:
                places.setdefault(label, set()).add(place)
    return {label: tuple(sorted(named)) for label, named in places.items()}


def _places_by_number(
    numbers_by_place: Mapping[int, set[str]],
) -> dict[str, tuple[int, ...]] | None:
    """The place of a context by its number.

    A context that stands in the prompt twice may have two numbers. None where a context
    has no number, or two contexts have the same: nobody can tell what a number means.
    """
    numbers = [number for given in numbers_by_place.values() for number in given]
    if not all(numbers_by_place.values()) or len(set(numbers)) < len(numbers):
        return None
    return {
        number: (place,)
        for place, given in numbers_by_place.items()
        for number in sorted(given)
    }


def _without_number(line: _Line) -> _Line:
    """The line with its names alone."""
    return _Line(line.shape, line.labels)


def _own_lines(text: str) -> list[_Line]:
    """Lines at the beginning of a text that label it: its metadata, or ``Source 1:``.

    A number in brackets alone is none there: a text may begin with an entry of a
    bibliography.
    """
    lines = _run(text, direction=1)
    n_lines_of_text = sum(not _RULE.fullmatch(raw) for raw in text.split("\n"))
    if len(lines) == n_lines_of_text:
        return []
    return [
        _without_number(line) if line.shape.startswith("[") else line for line in lines
    ]


def _numbers_of(lines: Iterable[_Line]) -> set[str]:
    """The numbers that lines give a text."""
    return {line.number for line in lines if line.number is not None}


def _blocks(prompt: str, contexts: Sequence[str]) -> list[_Block]:
    """Where contexts stand in a prompt, in its order; none that overlap.

    Of several contexts of one text each is the next place where the text stands.
    """
    blocks: list[_Block] = []
    places_by_text: dict[str, list[int]] = {}
    for place, text in enumerate(contexts):
        places_by_text.setdefault(text.strip(), []).append(place)
    for text, places in places_by_text.items():
        spans = list(itertools.islice(_spans(text, prompt), _MOST_SHOWINGS))
        for number, (start, end) in enumerate(spans):
            place = places[min(number, len(places) - 1)]
            blocks.append(_Block(place, start, end))
    blocks.sort(key=lambda block: (block.start, -block.end))
    apart: list[_Block] = []
    for block in blocks:
        if not apart or block.start >= apart[-1].end:
            apart.append(block)
    return apart


def _spans(text: str, prompt: str) -> Iterator[tuple[int, int]]:
    """Where a text begins and ends in a prompt, each time that it stands there."""
    opening = text.partition("…")[0].strip()[:_OPENING].strip()
    start = prompt.find(opening) if opening else -1
    while start >= 0:
        end = _end_of(text, prompt, start + len(opening))
        yield start, end
        start = prompt.find(opening, end)


def _end_of(text: str, prompt: str, opened: int) -> int:
    """Where a text ends whose opening ends at a place."""
    closing = text.rpartition("…")[2].strip()[-_CLOSING:].strip()
    at = prompt.find(closing, max(0, opened - len(closing))) if closing else -1
    is_near = 0 <= at <= opened + 2 * len(text)
    return at + len(closing) if is_near else opened


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """The lines that stand around the contexts of a prompt.

    Args:
        text_before: What stands before the first context.
        before: Lines that label, before the first context.
        between: For each context but the last, the lines up to the next one.
        behind: Lines that label, behind the last context.
    """

    text_before: str
    before: Sequence[_Line]
    between: Sequence[Sequence[_Line]]
    behind: Sequence[_Line]


def _lines_of(blocks: Sequence[_Block], prompt: str) -> list[list[_Line]]:
    """The lines that label each block; none where nobody can tell which these are."""
    if not blocks:
        return []
    around = _surroundings(blocks, prompt)
    if not around.between:
        return [_lines_of_a_single_text(around)]
    n_behind = _count_behind(around)
    if n_behind is None:
        around = _with_labels_behind_a_lead(around)
        n_behind = _count_behind(around)
    if n_behind is None:
        return [[] for _ in blocks]
    n_above = len(around.between[0]) - n_behind
    nearest = around.before[len(around.before) - n_above :]
    above = [nearest, *(lines[n_behind:] for lines in around.between)]
    below = [*around.between, around.behind]
    return [
        [*lines_above, *lines_below[:n_behind]]
        for lines_above, lines_below in zip(above, below, strict=True)
    ]


def _surroundings(blocks: Sequence[_Block], prompt: str) -> _Surroundings:
    """What stands before, between and behind the blocks of a prompt."""
    first, last = blocks[0], blocks[-1]
    before = prompt[max(0, first.start - _REGION) : first.start]
    behind = prompt[last.end : last.end + _REGION]
    between = [
        prompt[block.end : following.start]
        for block, following in itertools.pairwise(blocks)
    ]
    return _Surroundings(
        text_before=before,
        before=_run(before, direction=-1),
        between=[_lines(region) for region in between],
        behind=_run(behind, direction=1),
    )


def _with_labels_behind_a_lead(around: _Surroundings) -> _Surroundings:
    """The surroundings, where the first label stands behind other words in its line.

    In ``Context: [1] It is old.`` the label is ``[1]``: the labels between the texts
    show what labels look like. They are taken for labels above the texts. Returns the
    surroundings as they are where the first text has no such label.
    """
    shapes = [line.shape for line in around.between[0]]
    raw_lines = [
        raw for raw in around.text_before.split("\n") if not _RULE.fullmatch(raw)
    ]
    if not shapes or len(raw_lines) < len(shapes):
        return around
    first_raw, *other_raw = raw_lines[-len(shapes) :]
    first = _label_at_the_end(first_raw, shapes[0])
    others = [_line(raw) for raw in other_raw]
    labels = [line for line in (first, *others) if line is not None]
    goes_on = _goes_on(labels, around.between[0])
    if [line.shape for line in labels] != shapes or not goes_on:
        return around
    return replace(around, before=labels)


def _goes_on(labels: Iterable[_Line], following: Iterable[_Line]) -> bool:
    """Whether the numbers of a text's labels are those before the numbers of the next text.

    Words before the first text may hold another number, as "cite as [7]" does.
    """
    numbers = {int(number) + 1 for number in _numbers_of(labels)}
    return numbers == {int(number) for number in _numbers_of(following)}


def _label_at_the_end(raw: str, shape: str) -> _Line | None:
    """The label of a shape that ends a line; None if none does, or several may.

    Args:
        raw: The line, such as ``Context: [1]``.
        shape: The shape of the label, as that of ``[1]``.
    """
    endings = (raw[begin.start() :] for begin in _WORD_BEGINS.finditer(raw))
    lines = [line for line in map(_line, endings) if line is not None]
    labels = [line for line in lines if line.shape == shape]
    numbers = {label.number for label in labels}
    return labels[-1] if len(numbers) == 1 else None


def _lines_of_a_single_text(around: _Surroundings) -> list[_Line]:
    """The lines before the only context, if they name it; else those behind it.

    A number in brackets close before the text is its number, whatever words stand
    before it: ``What was found: [1] It is old.``
    """
    number = _NUMBER_AT_THE_END.search(around.text_before)
    numbered = None if number is None else _line(number[0])
    if numbered is not None and not _numbers_of(around.before):
        return [numbered]
    names_it = any(line.labels or line.number for line in around.before)
    return list(around.before if names_it else around.behind)


def _count_behind(around: _Surroundings) -> int | None:
    """How many of the lines between two contexts belong to the first of these.

    The lines between all neighbours must look alike. The first of them must look like
    those behind the last context, and the others like those before the first context.

    Returns:
        The count; None if no count fits, or several do.
    """
    shapes = [line.shape for line in around.between[0]]
    if any([line.shape for line in lines] != shapes for lines in around.between):
        return None
    shapes_before = [line.shape for line in around.before]
    shapes_behind = [line.shape for line in around.behind]
    fitting = [
        count
        for count in range(len(shapes) + 1)
        if shapes_behind[:count] == shapes[:count]
        and _ends_with(shapes_before, shapes[count:])
    ]
    return fitting[0] if len(fitting) == 1 else None


def _ends_with(shapes: Sequence[str], last: Sequence[str]) -> bool:
    """Whether some shapes are the last of others."""
    n_others = len(shapes) - len(last)
    return n_others >= 0 and list(shapes[n_others:]) == list(last)


def _run(region: str, *, direction: int) -> list[_Line]:
    """Lines of a region that label a text, in their order, up to the first other line.

    Args:
        region: What stands beside the text.
        direction: 1 to begin with the first line of the region, -1 with the last.
    """
    lines: list[_Line] = []
    for number, raw in enumerate(region.split("\n")[::direction]):
        if _RULE.fullmatch(raw):
            continue
        line = _line(raw)
        # what stands in the text's own line may be a bare "Content:"
        is_heading = number > 0 and line is not None and line.is_heading
        if line is None or is_heading:
            break
        lines.append(line)
    return lines[::direction]


def _lines(region: str) -> list[_Line]:
    """All lines of a region but rules and blank ones; one that labels nothing has no labels."""
    return [
        _line(raw) or _Line("a text", ())
        for raw in region.split("\n")
        if not _RULE.fullmatch(raw)
    ]


def _line(raw: str) -> _Line | None:
    """A line that may label a text; None for any other."""
    line = raw.strip()
    if len(line) > _LONGEST_LINE:
        return None
    readers = (
        _line_of_tags,
        _line_of_brackets,
        _line_of_number,
        _line_of_field,
        _line_of_file,
    )
    return next(filter(None, (reader(line) for reader in readers)), None)


def _line_of_tags(line: str) -> _Line | None:
    """A line of elements: their attributes, and what stands in them."""
    tags = list(_TAG.finditer(line))
    if not tags:
        return None
    shape = "".join(f"<{tag[1]}{tag[2]}>" for tag in tags)
    fields = [found for tag in tags for found in _ATTRIBUTE.findall(tag[3].strip())]
    inside = _TAG.sub(" ", line).strip()
    fields.append((tags[0][2], inside))
    numbers = (_number_of(key, value) for key, value in fields)
    values = [value for _, value in fields]
    return _Line(shape, _labels(values), next(filter(None, numbers), None))


def _line_of_brackets(line: str) -> _Line | None:
    """A line with something in brackets, such as ``[Source 1] report.pdf``."""
    brackets = [match[1] or match[2] for match in _BRACKETS.finditer(line)]
    if not brackets:
        return None
    before_first = line[: line.index(brackets[0]) - 1]
    is_numbered = _BEFORE_A_NUMBER.fullmatch(before_first) is not None
    rest = _BRACKETS.sub(" ", line)
    return _Line(
        f"[{len(brackets)}]{_shape_of(before_first)}",
        _labels([*brackets, rest]),
        _number_in(brackets) if is_numbered else None,
    )


def _line_of_number(line: str) -> _Line | None:
    """A line that begins with a number, such as ``Source 1:`` or ``2. report.pdf``."""
    numbered = _NUMBERED.match(line)
    if numbered is None or _ITEM.match(line):
        return None
    labels = _labels([line[numbered.end() :]])
    return _Line(_shape_of(numbered[0]), labels, str(int(numbered["number"])))


def _line_of_field(line: str) -> _Line | None:
    """A line of a key and its value, such as ``file_name: report.pdf``."""
    pair = _FIELD.fullmatch(line.strip("#*>{}-, \t"))
    if pair is None:
        return None
    key = pair[1]
    value = pair[2].strip(" \"',")
    return _Line(
        f"{key.lower()}:",
        _labels([value]),
        _number_of(key, value),
        is_heading=not value,
    )


def _line_of_file(line: str) -> _Line | None:
    """A line that is the name of a file, such as ``report.pdf:``."""
    named = _FILE_ALONE.fullmatch(line)
    if named is None:
        return None
    shape = line.replace(named["file"], "a file")
    return _Line(shape.strip(), _labels([named["file"]]))


def _number_of(key: str, value: str) -> str | None:
    """The number of a source that stands under a key; None for any other value."""
    if _KEY_OF_NUMBER.fullmatch(key) is None:
        return None
    return str(int(value)) if _NUMBER.fullmatch(value) else None


def _number_in(brackets: Iterable[str]) -> str | None:
    """The number that the first bracket that begins with one gives a text."""
    for inside in brackets:
        number = _NUMBER_FIRST.match(plain_label(inside))
        if number is not None:
            return str(int(number[1]))
    return None


def _shape_of(text: str) -> str:
    """A text without its numbers."""
    return re.sub(r"[0-9]+", "#", text).strip().lower()


def _labels(names: Sequence[str]) -> tuple[str, ...]:
    """The names, and their parts: ``1 | report.pdf | Date: 2020`` names ``report.pdf``, too."""
    labels: list[str] = []
    for name in names:
        parts = [name, *_PART.split(name)]
        parts += [part.partition(" (")[0] for part in parts]
        parts += [part.rpartition(": ")[2] for part in parts]
        labels += [plain_label(part.strip(" \t:\"',{}()#*>-–—")) for part in parts]
    return tuple(
        label
        for label in dict.fromkeys(labels)
        if 0 < len(label) <= _LONGEST_LABEL
        and not _NUMBER.fullmatch(label)
        and not _KEY_OF_NUMBER.fullmatch(label)
    )
