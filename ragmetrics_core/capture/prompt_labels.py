"""Under which labels a prompt showed each context: titles, file names, ids, numbers. Pure.

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
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ragmetrics_core.capture.fields_of_labels import numbers_that_fields_may_mean
from ragmetrics_core.capture.label_lines import (
    OF_FIELD,
    LabelLine,
    label_line_of,
)
from ragmetrics_core.capture.prompt_numbers import CHUNK
from ragmetrics_core.data.lazy_patterns import lazy_pattern

_OPENING = 200  # characters of a context by which it is found in a prompt
_CLOSING = 80  # characters by which its end is found
_REGION = 800  # characters before the first and after the last context
_OTHER_TEXT = "a text"  # the shape of a line that labels nothing
_MOST_OCCURRENCES = 20  # of one context in one prompt
# a blank line, or a line such as "----"
_NO_WORDS = lazy_pattern(r"[\W_]*")
# Where a label may begin in a line: after a blank, a colon, a quote, a tag.
_WORD_BEGINS = lazy_pattern(r"(?<![\w\[(（.@/\\-])(?=\S)")
# '"id": ', and the comma between '"id": 2' and '"text": "'
_KEY_OF_JSON = lazy_pattern(r"[\"'][A-Za-z]\w{0,30}[\"']\s?:")
_BETWEEN_FIELDS = lazy_pattern(r"(?<=[\"'}\]\w]),\s?(?=[\"'{])")
# "[S1]", "<source id='1'>", "Source 1:" and "f1.pdf:" before the words of a text
_LABEL_BEFORE_WORDS = lazy_pattern(
    r"\s*(?P<label>(?:\[[^\[\]\n]{1,160}\]|【[^【】\n]{1,160}】|<[A-Za-z][^<>\n]{0,160}>)[ \t]*:?"
    r"|[^\s:]{1,160}(?:[ \t]#?\d{1,4})?[ \t]*:(?=\s))[ \t]*(?=\S)"
)
# "[1] " and "[1]: " close before a text
_NUMBER_AT_THE_END = lazy_pattern(r"(?<![\w\]])\[[0-9]{1,4}\][ \t:*]*\n?\Z")


@dataclass(frozen=True, slots=True)
class Labels:
    """What prompts tell of the labels of contexts.

    Args:
        indexes_by_label: By a label: the indexes of the contexts under it.
        ambiguous_numbers: Numbers that stand above several contexts: nobody can tell
            which of them an answer means.
        indexes_by_kind: The meanings of numbers where lines number the contexts in two
            ways, as ``[1] Source 3:`` does. By a kind, such as ``source``: the indexes
            of the contexts by the numbers of this kind. The kind of a number in
            brackets is ``IN_BRACKETS``. Empty where there is one numbering.
        kinds: The kinds of the numbers that each context has, such as ``source``.
    """

    indexes_by_label: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    ambiguous_numbers: frozenset[str] = frozenset()
    indexes_by_kind: Mapping[str, Mapping[str, tuple[int, ...]]] = field(
        default_factory=dict
    )
    kinds: frozenset[str] = frozenset()

    @property
    def numbers(self) -> tuple[str, ...]:
        """The labels that are numbers: "2", but not "b.pdf"."""
        return tuple(label for label in self.indexes_by_label if label.isdigit())

    @property
    def numbers_of_any_kind(self) -> frozenset[str]:
        """All numbers that label texts, as 7 and 2 of "[7] Source 2:"; ambiguous ones, too."""
        of_kinds = itertools.chain(*self.indexes_by_kind.values())
        return self.ambiguous_numbers.union(self.numbers, of_kinds)

    def with_ambiguous(self, numbers: Collection[str]) -> "Labels":
        """Return the labels with some numbers that no longer mean any context."""
        indexes_by_label = {
            label: indexes
            for label, indexes in self.indexes_by_label.items()
            if label not in numbers
        }
        return replace(
            self,
            indexes_by_label=indexes_by_label,
            ambiguous_numbers=self.ambiguous_numbers.union(numbers),
        )

    def with_indexes(self, new_indexes: Sequence[int]) -> "Labels":
        """Return the labels with other indexes of the same contexts.

        Args:
            new_indexes: For each index in these labels, the one to put in its place.
        """
        indexes_by_kind = {
            kind: _with_indexes(indexes_by_number, new_indexes)
            for kind, indexes_by_number in self.indexes_by_kind.items()
        }
        return replace(
            self,
            indexes_by_label=_with_indexes(self.indexes_by_label, new_indexes),
            indexes_by_kind=indexes_by_kind,
        )

    def indexes_of_number(self, number: str, kind: str) -> tuple[int, ...] | None:
        """Return the contexts that an answer means by "[1]", "[Source 1]" or the like.

        Example: a prompt shows A below "Source 1:" and B after "[1]". Then "[Source 1]"
        means A, and "[1]" means B.

        Args:
            number: The number.
            kind: ``IN_BRACKETS``, or a word such as ``source``; "" if nobody can tell.

        Returns:
            The indexes. () if no line has the number, or if it is one of
            ``ambiguous_numbers``. None if nobody can tell which context is meant: with
            A and B as above "1" alone, without a kind, may mean A or B.
        """
        # the indexes by each numbering that has the number: {(0,), (1,)} for A and B
        meanings = self._meanings_of_number(number, kind)
        if number in self.ambiguous_numbers or not meanings:
            return ()
        if kind in self.indexes_by_kind:
            indexes = self.indexes_by_kind[kind].get(number, ())
            # "[Source 7]" where no source, or more than one, has the number 7: None
            return indexes if len(indexes) == 1 else None
        # no line has numbers of this kind: all numberings must mean the same context
        indexes_of_label = self.indexes_by_label.get(number, ())
        return indexes_of_label if meanings == {indexes_of_label} else None

    def _meanings_of_number(self, number: str, kind: str) -> set[tuple[int, ...]]:
        """Return the contexts that a number means in each numbering that has it.

        Two numberings are left out, because nobody cites by a mere 3 of them:

        - chunks, as of ``[1] report.pdf (chunk 3)``
        - fields of another kind, as ``doc_id: 3`` below a label; but "[Document 3]" may
          mean this field
        """
        meanings = {self.indexes_by_label.get(number, ())}
        for other_kind, indexes_by_number in self.indexes_by_kind.items():
            is_field = other_kind.endswith(OF_FIELD)
            is_other_field = is_field and other_kind != kind + OF_FIELD
            if other_kind != CHUNK and not is_other_field:
                meanings.add(indexes_by_number.get(number, ()))
        return meanings - {()}


def _with_indexes(
    indexes_by_label: Mapping[str, tuple[int, ...]], new_indexes: Sequence[int]
) -> dict[str, tuple[int, ...]]:
    """Return labels with other indexes of the same contexts."""
    return {
        label: tuple(new_indexes[index] for index in indexes)
        for label, indexes in indexes_by_label.items()
    }


@dataclass(frozen=True, slots=True)
class _Block:
    """Where a context stands in a prompt.

    Args:
        context_index: The index of the context.
        start: Where it begins in the prompt.
        end: Where it ends there.
    """

    context_index: int
    start: int
    end: int


def labels_in(prompts: Sequence[str], contexts: Sequence[str]) -> Labels:
    r"""Find the labels under which prompts show contexts: names and numbers.

    Args:
        prompts: The messages that the model was shown.
        contexts: The contexts in their order.

    Returns:
        The labels, each with the indexes of its contexts. There are none where nobody
        can tell which lines belong to which context: in the second example "(a.txt)"
        may label the context above it or the context below. All numbers are ambiguous
        where a context has none, or two contexts have the same. A single number, 3, is
        ambiguous where an answer may also mean a field by it, as "doc_id: 3".

    Examples:
        >>> labels_in(["[a.txt]\nIt is old.\n\n[b.txt]\nIt fell."], ["It is old.", "It fell."]).indexes_by_label
        {'a.txt': (0,), 'b.txt': (1,)}
        >>> labels_in(["It is old.\n(a.txt)\n[x]\n\nIt fell."], ["It is old.", "It fell."]).indexes_by_label
        {}
    """
    lines_by_context = _lines_by_context(prompts, contexts)
    indexes_by_name = _indexes_by_name(lines_by_context)
    numbers_by_context = {
        index: _numbers_of(lines) for index, lines in lines_by_context.items()
    }
    indexes_by_number = _indexes_by_number(numbers_by_context, {})
    if indexes_by_number is None and _are_in_one_prompt(prompts, contexts):
        names_by_context = {
            index: {name for line in lines for name in line.names}
            for index, lines in lines_by_context.items()
        }
        indexes_by_number = _indexes_by_number(numbers_by_context, names_by_context)
    if indexes_by_number is None:
        all_numbers = frozenset(itertools.chain(*numbers_by_context.values()))
        return Labels(indexes_by_name, ambiguous_numbers=all_numbers)
    indexes_by_kind = _indexes_by_kind(lines_by_context, indexes_by_number)
    # "[1] Source 7:", but not "[1] Source 1:"
    has_second_numbering = any(
        _differs(indexes_of_kind, indexes_by_number)
        for indexes_of_kind in indexes_by_kind.values()
    )
    # "Cite the doc_id", and "[1]" above "doc_id: 3": nobody can tell what 3 means
    numbers_of_fields = numbers_that_fields_may_mean(
        lines_by_context, indexes_by_number, without_texts(prompts, contexts, "\n")
    )
    labels = Labels(
        {**indexes_by_name, **indexes_by_number},
        indexes_by_kind=indexes_by_kind if has_second_numbering else {},
        kinds=frozenset(indexes_by_kind),
    )
    return labels.with_ambiguous(numbers_of_fields)


def without_texts(
    prompts: Iterable[str], texts: Iterable[str], put_instead: str
) -> str:
    """Return what prompts say around some texts, such as their instructions."""
    words_around = "\n".join(prompts)
    for text in texts:
        if text.strip():
            words_around = words_around.replace(text.strip(), put_instead)
    return words_around


def _lines_by_context(
    prompts: Iterable[str], contexts: Sequence[str]
) -> dict[int, list[LabelLine]]:
    r"""Return the lines that label each context, by the index of the context.

    The prompt "[a.txt]\nTitle: Iron\nIt is old." shows the context "Title: Iron\nIt is
    old." with two such lines: "[a.txt]" around it, and "Title: Iron" at its beginning.

    A context has one number, that of the first line with a number. A field's number, as
    in "Page: 7", counts only if no other line has one.
    """
    lines_by_context: dict[int, list[LabelLine]] = {
        index: [] for index in range(len(contexts))
    }
    for prompt in prompts:
        blocks = _blocks(prompt, contexts)  # where the contexts stand
        lines_of_blocks = _lines_of_blocks(blocks, prompt)
        for block, lines_around in zip(blocks, lines_of_blocks, strict=True):
            own_lines = _own_lines(contexts[block.context_index])  # "Title: Iron"
            lines = _with_first_numbers([*lines_around, *own_lines])
            lines_by_context[block.context_index] += lines
    return lines_by_context


def _with_first_numbers(lines: Sequence[LabelLine]) -> list[LabelLine]:
    """Return the label lines of a text with its first number, and the first of each kind.

    Below "Source 1:" the line "Source 7: see chunk 2" numbers nothing, but keeps the
    first number of another kind, ("chunk", "2"). A field's number counts only if no
    other line has one: "[2]" goes before "Page: 7".
    """
    numbered = [line for line in lines if line.number is not None]
    numbered.sort(key=lambda line: line.is_field)  # stable: fields come last
    lines_left: list[LabelLine] = []
    kinds_above: set[str] = set()
    for line in lines:
        first_of_kind = [
            (kind, number)
            for kind, number in line.numbers_by_kind
            if kind not in kinds_above
        ]
        kinds_above.update(kind for kind, _ in line.numbers_by_kind)
        number = line.number if line in numbered[:1] else None
        lines_left.append(
            replace(line, number=number, numbers_by_kind=tuple(first_of_kind))
        )
    return lines_left


def _indexes_by_kind(
    lines_by_context: Mapping[int, Iterable[LabelLine]],
    indexes_by_number: Mapping[str, tuple[int, ...]],
) -> dict[str, dict[str, tuple[int, ...]]]:
    """Return the numberings of the kinds that number each context.

    The labels "[1] Source 7:" and "[2] Source 8:" number the contexts after "[", and
    after "Source":
    ``{"[]": {"1": (0,), "2": (1,)}, "source": {"7": (0,), "8": (1,)}}``.

    Args:
        lines_by_context: The lines that label each context.
        indexes_by_number: The context indexes by the first number of each line.
    """
    numbered_contexts = set(itertools.chain(*indexes_by_number.values()))
    return {
        kind: indexes_of_kind
        for kind, indexes_of_kind in _all_indexes_by_kind(lines_by_context).items()
        if _numbers_each(numbered_contexts, indexes_of_kind)
    }


def _numbers_each(
    context_indexes: Collection[int], indexes_by_number: Mapping[str, Iterable[int]]
) -> bool:
    """Whether each of some contexts has a number.

    If not, the numbers belong to titles: the 2 in "[1] Comments on Document 2" does.
    """
    numbered = set(itertools.chain(*indexes_by_number.values()))
    return numbered.issuperset(context_indexes)


def _differs(
    numbering: Mapping[str, tuple[int, ...]], other: Mapping[str, tuple[int, ...]]
) -> bool:
    """Whether a number of one numbering means other contexts in another numbering."""
    return any(other.get(number) != indexes for number, indexes in numbering.items())


def _all_indexes_by_kind(
    lines_by_context: Mapping[int, Iterable[LabelLine]],
) -> dict[str, dict[str, tuple[int, ...]]]:
    """Group the indexes of the contexts by the kind of a number, then by the number.

    The label "[1] Source 7:" of the first context gives
    ``{"[]": {"1": (0,)}, "source": {"7": (0,)}}``.
    """
    indexes_by_kind: dict[str, dict[str, set[int]]] = {}
    for context_index, lines in lines_by_context.items():
        for line in lines:
            for kind, number in line.numbers_by_kind:
                indexes_by_number = indexes_by_kind.setdefault(kind, {})
                indexes_by_number.setdefault(number, set()).add(context_index)
    return {
        kind: _sorted_values(indexes_by_number)
        for kind, indexes_by_number in indexes_by_kind.items()
    }


def _sorted_values(
    indexes_by_label: Mapping[str, Iterable[int]],
) -> dict[str, tuple[int, ...]]:
    """Return the indexes under each label in order."""
    return {
        label: tuple(sorted(indexes)) for label, indexes in indexes_by_label.items()
    }


def _indexes_by_name(
    lines_by_context: Mapping[int, Iterable[LabelLine]],
) -> dict[str, tuple[int, ...]]:
    """Return the indexes of the contexts by the names that lines give them.

    Example: ``{"a.pdf": (0, 2), "b.pdf": (1,)}`` for three contexts, two of them of one
    file.
    """
    indexes_by_name: dict[str, set[int]] = {}
    for index, lines in lines_by_context.items():
        for line in lines:
            for name in line.names:
                indexes_by_name.setdefault(name, set()).add(index)
    return _sorted_values(indexes_by_name)


def _indexes_by_number(
    numbers_by_context: Mapping[int, set[str]],
    names_by_context: Mapping[int, set[str]],
) -> dict[str, tuple[int, ...]] | None:
    """Return the indexes of the contexts by their numbers.

    Example: ``{0: {"1"}, 1: {"2", "5"}}`` gives ``{"1": (0,), "2": (1,), "5": (1,)}``:
    a context that stands in the prompt twice may have two numbers. Open WebUI gives the
    chunks of one file one number, ``<source id="1" name="a.pdf">``: it means them all.

    None where a context has no number, or two contexts have the same and not the same
    names: nobody can tell what a number means.

    Args:
        numbers_by_context: The numbers in the label lines of each context.
        names_by_context: The names in these lines; empty if no number may be shared.
    """
    indexes_by_number: dict[str, tuple[int, ...]] = {}
    for index, numbers in numbers_by_context.items():
        if not numbers:
            return None
        for number in sorted(numbers):
            others = indexes_by_number.get(number, ())
            names = names_by_context.get(index)
            if others and (not names or names != names_by_context[others[0]]):
                return None
            indexes_by_number[number] = (*others, index)
    return indexes_by_number


def _are_in_one_prompt(prompts: Iterable[str], contexts: Sequence[str]) -> bool:
    """Whether one message shows all contexts: two calls may both count from 1."""
    return sum(bool(_blocks(prompt, contexts)) for prompt in prompts) == 1


def _own_lines(text: str) -> list[LabelLine]:
    """Return the lines at the beginning of a text that label it: ``Title: Bridges``.

    A label may stand in the text's first line, before its words: "[S1]" of "[S1] It is
    old." The last line is what a text says. Fields label no text that consists of such
    lines only: these are what it says.
    """
    label, words = _label_and_words(text)
    label_lines = _nearest_lines(f"{label}\n{words}", direction=1)
    n_lines = len([raw for raw in _raw_lines(words) if not _NO_WORDS.fullmatch(raw)])
    if len(label_lines) == n_lines + bool(label):
        # of "Source 3:" and "It opens at 11:30." the first is no field
        label_lines = list(
            itertools.takewhile(lambda line: not line.is_field, label_lines[:-1])
        )
    return [_as_own_line(line) for line in label_lines]


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
    is_bare = not (line.numbers_by_kind or line.is_field or has_sign)
    return replace(
        line,
        number=None if is_bare else line.number,
        numbers_by_kind=line.numbers_by_kind[:1] if line.number is not None else (),
    )


def _numbers_of(lines: Iterable[LabelLine]) -> set[str]:
    """Return the numbers that lines give a text."""
    return {line.number for line in lines if line.number is not None}


# Where contexts stand in a prompt


def _blocks(prompt: str, contexts: Sequence[str]) -> list[_Block]:
    """Find where contexts stand in a prompt, in its order.

    Example: in "[1] IRON [2] WOOD" the contexts WOOD and IRON stand at 13 to 17 and at
    4 to 8: two blocks, that of IRON first. A context that begins inside of another one
    is left out.
    """
    indexes_by_text: dict[str, list[int]] = {}
    for index, text in enumerate(contexts):
        indexes_by_text.setdefault(text.strip(), []).append(index)
    blocks: list[_Block] = []
    for text, indexes in indexes_by_text.items():
        blocks += _blocks_of_text(text, indexes, prompt)
    return _without_inner_blocks(blocks)


def _without_inner_blocks(blocks: Iterable[_Block]) -> list[_Block]:
    """Sort blocks, and leave out blocks that begin inside of another one."""
    blocks_apart: list[_Block] = []
    for block in sorted(blocks, key=lambda block: (block.start, -block.end)):
        if not blocks_apart or block.start >= blocks_apart[-1].end:
            blocks_apart.append(block)
    return blocks_apart


def _blocks_of_text(text: str, indexes: Sequence[int], prompt: str) -> list[_Block]:
    """Give equal contexts one place of their text after the other.

    Example: the contexts 0 and 3 are both "Closed on Monday.", and the prompt holds it
    three times: the places belong to 0, 3 and 3.

    Args:
        text: The text.
        indexes: The indexes of the contexts with this text.
        prompt: The prompt.
    """
    spans: list[tuple[int, int]] = []
    # as it is, else as a string of JSON
    for form in (
        text,
        json.dumps(text)[1:-1],
        json.dumps(text, ensure_ascii=False)[1:-1],
    ):
        spans = list(itertools.islice(_spans(form, prompt), _MOST_OCCURRENCES))
        if spans:
            break
    n_left_over = len(spans) - len(indexes)
    owners = [*indexes, *([indexes[-1]] * n_left_over)]
    pairs = zip(owners, spans, strict=False)
    return [_Block(context_index, start, end) for context_index, (start, end) in pairs]


def _spans(text: str, prompt: str) -> Iterator[tuple[int, int]]:
    """Yield where a text begins and ends in a prompt, each time that it stands there.

    A text of several parts, divided by "…", reaches from the first part to the last.
    """
    first_part = text.partition("…")[0].strip()
    opening = first_part[:_OPENING].strip()
    start = prompt.find(opening) if opening else -1
    while start >= 0:
        end = _end_of(text, prompt, start + len(opening))
        yield start, end
        start = prompt.find(opening, end)


def _end_of(text: str, prompt: str, end_of_opening: int) -> int:
    """Return where a text ends in a prompt.

    Example: the text "It is old. … built in 1874." ends after "1874." in the prompt "It
    is old. It was built in 1874. When?". If its last characters do not stand near its
    opening, it ends with its opening.

    Args:
        text: The text.
        prompt: The prompt.
        end_of_opening: Where its first characters end in the prompt.
    """
    last_part = text.rpartition("…")[2].strip()
    closing = last_part[-_CLOSING:].strip()
    if not closing:
        return end_of_opening
    # a short text's opening holds its closing
    start = prompt.find(closing, max(0, end_of_opening - len(closing)))
    is_near = 0 <= start <= end_of_opening + 2 * len(text)
    return start + len(closing) if is_near else end_of_opening


# Which lines label which context


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """The lines that stand around the contexts of a prompt.

    Args:
        text_before: The raw text before the first context.
        lines_before: The label lines next to the first context, before it.
        lines_between: All lines between two contexts: a list for each context but the
            last, with the lines up to the next context.
        lines_behind: The label lines next to the last context, after it.
    """

    text_before: str
    lines_before: Sequence[LabelLine]
    lines_between: Sequence[Sequence[LabelLine]]
    lines_behind: Sequence[LabelLine]


def _lines_of_blocks(blocks: Sequence[_Block], prompt: str) -> list[list[LabelLine]]:
    """Find the lines that label each context in a prompt.

    Example: "[a] IRON [b] STEEL", in four lines, gives the line "[a]" for IRON and
    "[b]" for STEEL. Empty lists where nobody can tell which lines label which context.

    Args:
        blocks: Where the contexts stand, in the prompt's order.
        prompt: The prompt.
    """
    if not blocks:
        return []
    around = _surroundings(blocks, prompt)
    if not around.lines_between:
        return [_lines_of_a_single_text(around)]
    n_below = _count_lines_below(around)
    if n_below is None:
        # in "Context: [1] It is old." the first label stands after other words
        around = _with_first_label_behind_words(around)
        n_below = _count_lines_below(around)
    if n_below is None:
        return _labels_beside(blocks, prompt)
    return _divide_lines(around, n_below)


def _labels_beside(blocks: Sequence[_Block], prompt: str) -> list[list[LabelLine]]:
    """Find the labels in the contexts' own lines, "[1]" in "[1] It is old.", and no others.

    Whatever stands in the lines between the contexts, these belong to the context behind
    them. Empty lists unless all contexts have labels of one shape.
    """
    labels_beside = []
    ends = [0, *(block.end for block in blocks)]  # of the context before each
    for block, end_before in zip(blocks, ends, strict=False):
        line_start = prompt.rfind("\n", 0, block.start) + 1
        labels_beside.append(
            _all_lines(prompt[max(line_start, end_before) : block.start])
        )
    shapes = {tuple(line.shape for line in labels) for labels in labels_beside}
    if len(shapes) != 1 or _OTHER_TEXT in shapes.pop():
        return [[] for _ in blocks]
    return labels_beside


def _divide_lines(around: _Surroundings, n_below: int) -> list[list[LabelLine]]:
    """Give each context its label lines: first those above it, then those below.

    Example: "page: 4" and "[b.txt]" stand between two contexts, and ``n_below`` is 1.
    Then "page: 4" labels the context above, and "[b.txt]" the context below.

    Args:
        around: The lines around the contexts; equally many between any two contexts.
        n_below: How many lines between two contexts label the context above them.
    """
    n_above = len(around.lines_between[0]) - n_below
    n_before = len(around.lines_before)
    # for each context, in order: the lines above it, and the lines below it
    lines_above = [around.lines_before[n_before - n_above :]]
    lines_below = []
    for lines in around.lines_between:
        lines_below.append(lines[:n_below])  # of the context above these lines
        lines_above.append(lines[n_below:])  # of the context below them
    lines_below.append(around.lines_behind[:n_below])
    return [
        [*above, *below] for above, below in zip(lines_above, lines_below, strict=True)
    ]


def _surroundings(blocks: Sequence[_Block], prompt: str) -> _Surroundings:
    r"""Collect the lines before, between and after the contexts of a prompt.

    In "Read this.\n[a]\nIt is old.\n[b]\nIt fell." the line "[a]" stands before the
    contexts, "[b]" between them, and none after them. The lines before are collected
    upwards, up to a line such as "Read this." that labels nothing and is left out.
    Between contexts all lines count.

    Args:
        blocks: Where the contexts stand, in the prompt's order; at least one.
        prompt: The prompt.
    """
    first_start = blocks[0].start
    last_end = blocks[-1].end
    text_before = prompt[max(0, first_start - _REGION) : first_start]
    text_behind = prompt[last_end : last_end + _REGION]
    lines_between = []
    for block, next_block in itertools.pairwise(blocks):
        lines_between.append(_all_lines(prompt[block.end : next_block.start]))
    return _Surroundings(
        text_before=text_before,
        lines_before=_nearest_lines(text_before, direction=-1),
        lines_between=lines_between,
        lines_behind=_nearest_lines(text_behind, direction=1),
    )


def _with_first_label_behind_words(around: _Surroundings) -> _Surroundings:
    """Find the label of the first context where other words stand before it.

    In ``Context: [1] It is old.`` the label is ``[1]``. It is found if the next context
    has the label ``[2]``: of the same shape, with the next number.

    Returns:
        The surroundings with this label before the first context. As they are without
        such a label.
    """
    next_labels = around.lines_between[0]
    labels = _labels_like(next_labels, around.text_before)
    if labels and _goes_on(labels, next_labels):
        return replace(around, lines_before=labels)
    return around


def _labels_like(next_labels: Sequence[LabelLine], text_before: str) -> list[LabelLine]:
    """Read the first context's labels, if they have the shapes of the second's.

    They are the last lines before the first context.
    The second context has the label "[2]", and "Context: [1]" stands before the first:
    this gives the label "[1]". Empty if the last lines do not have the same shapes.

    Args:
        next_labels: The label lines above the second context.
        text_before: What stands before the first context.
    """
    shapes = [line.shape for line in next_labels]  # each line without its number
    raw_lines = [raw for raw in _raw_lines(text_before) if not _NO_WORDS.fullmatch(raw)]
    if not shapes or len(raw_lines) < len(shapes):
        return []
    first_raw, *other_raws = raw_lines[-len(shapes) :]
    # None for a line that is no label. Words may stand before the first label in its
    # line: "Context: [1]".
    labels_or_none = [_label_at_the_end(first_raw, shapes[0])]
    labels_or_none += [label_line_of(raw) for raw in other_raws]
    labels = [line for line in labels_or_none if line is not None]
    have_same_shapes = [line.shape for line in labels] == shapes
    return labels if have_same_shapes else []


def _goes_on(labels: Iterable[LabelLine], next_labels: Iterable[LabelLine]) -> bool:
    """Whether the next context's labels have the numbers that follow this context's.

    Words before the first context may hold another number, as "cite as [7]" does.
    """
    numbers = {int(number) + 1 for number in _numbers_of(labels)}
    return numbers == {int(number) for number in _numbers_of(next_labels)}


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


def _lines_of_a_single_text(around: _Surroundings) -> list[LabelLine]:
    """Return the lines before the only context if they name it, else those after it.

    A number in brackets close before the text is its number, whatever words stand
    before it: ``What was found: [1] It is old.``
    """
    bracket = _NUMBER_AT_THE_END.search(around.text_before)
    if bracket is not None and not _numbers_of(around.lines_before):
        line = label_line_of(bracket[0])
        if line is not None:
            return [line]
    names_it = any(line.names or line.number for line in around.lines_before)
    return list(around.lines_before if names_it else around.lines_behind)


def _count_lines_below(around: _Surroundings) -> int | None:
    """Count how many lines between two contexts label the context above them.

    The first lines between two contexts belong to the context above, the other lines to
    the context below. Two prompts with one line between IRON and STEEL:

    - "[a] IRON [b] STEEL" gives 0: "[b]" belongs to STEEL below, as "[a]" to IRON.
    - "IRON [a] STEEL [b]" gives 1: "[a]" belongs to IRON above, as "[b]" to STEEL.

    Returns:
        The count. None if no count or several counts fit, or if the lines between other
        contexts have other shapes.
    """
    # "[a.txt]" and "[b.txt]" have the same shape
    shapes = [line.shape for line in around.lines_between[0]]
    for lines in around.lines_between:
        if [line.shape for line in lines] != shapes:
            return None
    shapes_before = [line.shape for line in around.lines_before]
    shapes_behind = [line.shape for line in around.lines_behind]
    fitting_counts = []
    for n_below in range(len(shapes) + 1):
        # the lines that belong to the context above must also stand after the last
        # context; the other lines must also stand before the first context
        fits_behind = shapes_behind[:n_below] == shapes[:n_below]
        fits_before = _ends_with(shapes_before, shapes[n_below:])
        if fits_behind and fits_before:
            fitting_counts.append(n_below)
    return fitting_counts[0] if len(fitting_counts) == 1 else None


def _ends_with(shapes: Sequence[str], last_shapes: Sequence[str]) -> bool:
    """Whether a list of shapes ends with another list; an empty one ends any list."""
    n_others = len(shapes) - len(last_shapes)
    return n_others >= 0 and list(shapes[n_others:]) == list(last_shapes)


# Lines


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
    """Split a region into its lines, and a line of JSON into its fields.

    ``{"id": 2, "text": "`` has the fields ``{"id": 2`` and ``"text": "``.
    """
    lines: list[str] = []
    for line in region.split("\n"):
        is_json = _KEY_OF_JSON.search(line) is not None
        lines += _BETWEEN_FIELDS.split(line) if is_json else [line]
    return lines


def _all_lines(region: str) -> list[LabelLine]:
    """Return all lines of a region except rules and blank ones.

    A line that labels nothing has a shape of its own, and no names.
    """
    lines = []
    for raw in _raw_lines(region):
        if not _NO_WORDS.fullmatch(raw):
            lines.append(label_line_of(raw) or LabelLine(_OTHER_TEXT, ()))
    return lines
