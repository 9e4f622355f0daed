"""Tells by the prompts of a trace that it holds documents in part. Pure.

A span may hold the first hundred letters of a document, where the prompt shows it
whole: a **preview**.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from typing import NamedTuple

from ragmetrics_core.capture.letters import letters_of
from ragmetrics_core.capture.tree import Document, Node
from ragmetrics_core.data.lazy_patterns import lazy_pattern

_FEWEST_LETTERS = 24  # a shorter text stands in a prompt by chance
_LONGEST_TAIL = 12  # words at the end of a document; a prompt is searched for them
_DOTS = r"[\[(]?(?:\.{2,}|…)[\])]?"
_NOTE = r"[\[(<][^\[\]()<>\n]{1,40}[\])>]"  # "[truncated]", "(97 more chars)", "<snip>"
# what says that a text was cut: "...", "…", "[...]", "... [truncated]"
_CUT_MARK = lazy_pattern(rf"\s*(?:{_DOTS}\s*(?:{_NOTE})?|{_NOTE})\s*$")
_CUT_MARK_BEFORE = lazy_pattern(rf"\s*{_DOTS}\s*(?=\w)")  # and words follow
_WORD = lazy_pattern(r"\w+")
_FEWEST_WORDS = 4  # of a sentence that goes on; fewer may be a page or a score
_ROUND_LENGTH = 50  # somebody who cuts texts takes 100, 250 or 500 letters
_N_FIRST_WORDS = 3  # they tell the text
_N_WORDS_OF_SENTENCE = 6  # a passage may begin with words of the question, and go on
# "[1] ", "2. ", "Source 3: " or "(4) " at the beginning of a line
_LABEL = lazy_pattern(
    r"(?m)^[^\w\n]{0,3}(?:[^\W\d]{1,16}[ \t#]?)?\d{1,3}[^\w\s,]{1,4}(?=\s)"
)
_DIGITS = lazy_pattern(r"\d+")
_PROSE = lazy_pattern(r"\s+[^\W\d_]")  # further sentences begin with a letter
# a sentence goes on with a word, and not with a bracket, a bar or the end of its line
_GOES_ON = lazy_pattern(r"[,;:]?[ \t]?\w")


def count_previews(root: Node) -> int:
    """Count the documents of a run whose recorded text was cut: its prompts show more.

    Example: a span holds "Rome has been the capital of It", and a prompt shows "Rome
    has been the capital of Italy": one. A document that ends in "...", or within a word
    or sentence, counts by itself. Behind any other end the prompt may show words of its
    template, such as "Question:". So these documents count only if unlike words stand
    behind several of them, or if one goes on in its labelled block and others do not.
    """
    documents = _documents_of(root)
    shown_texts = _shown_texts(root)
    known_texts = _KnownTexts(root, documents)
    n_cut = 0
    # of documents with any other end: the first word that a prompt shows behind each
    words_behind = []
    for document in documents:
        if _is_cut_before(document.text, shown_texts):
            n_cut += 1
            continue
        rest = _rest_behind(document.text, shown_texts)
        if not rest or known_texts.explain(rest):
            continue
        if _is_cut_at(document.text, rest):
            n_cut += 1
        elif _is_rest_of_passage(rest):
            words_behind.append(_WORD.findall(rest)[0])
    # a template would have the same word behind each, such as "Question"
    are_unlike = len(set(words_behind)) > 1
    if are_unlike:
        n_cut += len(words_behind)
    return n_cut or _count_going_on_in_blocks(documents, shown_texts, known_texts)


def _documents_of(root: Node) -> list[Document]:
    """Collect the documents that the calls of a run took or gave, each text once."""
    document_by_text: dict[str, Document] = {}
    for node in root.walk():
        for document in (*(node.documents or ()), *node.input_documents):
            document_by_text.setdefault(document.text, document)
    return list(document_by_text.values())


def _shown_texts(root: Node) -> list[str]:
    """Collect the messages that models were shown and did not write, each once."""
    prompts = [node.prompt for node in root.walk() if node.kind == "model"]
    texts = {
        message.text: None
        for message in chain.from_iterable(prompts)
        if message.role != "assistant"
    }
    return list(texts)


class _KnownTexts:
    """What may stand behind a document: other documents, queries and replies.

    Args:
        root: The outermost call of the run.
        documents: Its documents.
    """

    def __init__(self, root: Node, documents: Sequence[Document]) -> None:
        """Collect the texts, as letters, and the first words of the documents."""
        self._texts = [letters_of(text) for text in _texts_of(root, documents)]
        beginnings = [_first_words(document.text) for document in documents]
        self._beginnings = [beginning for beginning in beginnings if beginning]

    def explain(self, rest: str, n_words: int = _N_FIRST_WORDS) -> bool:
        """Whether a rest begins in a known text, or holds the beginning of a document.

        Such a document may stand in the same line, behind its number.

        Args:
            rest: What stands behind a document.
            n_words: How many of its first words must stand in a known text.
        """
        if any(_first_words(rest, n_words) in text for text in self._texts):
            return True
        letters = letters_of(rest)
        return any(beginning in letters for beginning in self._beginnings)


def _texts_of(root: Node, documents: Sequence[Document]) -> Iterator[str]:
    """Yield the texts of documents and their metadata, and of queries and replies."""
    for document in documents:
        yield document.text
        yield from document.forms
        for value in document.metadata.values():
            yield str(value)
    for node in root.walk():
        yield node.query or ""
        yield node.text or ""
        if node.reply is not None:
            yield node.reply.text


def _first_words(text: str, n_words: int = _N_FIRST_WORDS) -> bytes:
    """The letters of the first words of a text, which tell it from other texts."""
    return letters_of(" ".join(_WORD.findall(text)[:n_words]))


def _rest_behind(text: str, shown_texts: Sequence[str]) -> str:
    """Return what stands behind a document in its line of a prompt.

    Example: a retriever's span holds "Anna founded the company in ...", and a prompt
    shows "Anna founded the company in 1874.": " 1874." was cut off. Returns "" if the
    document stands in no prompt, or if a prompt shows it with no word behind it: then
    nothing was cut off.
    """
    stem = _CUT_MARK.sub("", text).rstrip()
    if len(stem) < _FEWEST_LETTERS:
        return ""
    tail = stem.split()[-_LONGEST_TAIL:]
    pattern = re.compile(r"\s+".join(map(re.escape, tail)))
    rests = []
    for shown_text in shown_texts:
        for match in pattern.finditer(shown_text):
            line, _, _ = shown_text[match.end() :].partition("\n")
            rests.append(line)
    is_shown_as_recorded = any(not _WORD.search(rest) for rest in rests)
    if not rests or is_shown_as_recorded:
        return ""
    return rests[0]


def _count_going_on_in_blocks(
    documents: Sequence[Document], shown_texts: Sequence[str], known_texts: _KnownTexts
) -> int:
    """Count the documents that go on, beyond their text, in a prompt's labelled block.

    Example: the spans hold "The town is old." and "The mill is new."; a prompt shows
    "[1] The town is old. It has a gate." and "[2] The mill is new.": the first document
    goes on, so 1 is returned.

    A first word behind two documents is the template's, as "Source" in "Source: a.txt":
    such documents do not count. The document of a list's last block does not count
    either: the template may go on there. Only its first word behind is compared.
    """
    blocks = [block for text in shown_texts for block in _labelled_blocks(text)]
    beginnings: list[str] = []  # the first word behind each document; "" for none
    n_going_on_by_beginning: Counter[str] = Counter()
    for document in documents:
        block_and_rest = _rest_in_block(document.text, blocks)
        if block_and_rest is None:
            continue
        block, rest = block_and_rest
        words = _WORD.findall(rest)
        # nothing stands behind the document, or the words of another document, of a
        # query or of a reply: this document was not cut
        if not words or known_texts.explain(rest, _N_WORDS_OF_SENTENCE):
            beginnings.append("")
            continue
        beginnings.append(words[0])
        if not block.is_last and _is_prose(rest, words):
            n_going_on_by_beginning[words[0]] += 1
    if len(beginnings) < 2:  # one document alone tells nothing of the template
        return 0
    # only first words that stand behind one document: "It", and not "Source"
    return sum(
        n_going_on
        for beginning, n_going_on in n_going_on_by_beginning.items()
        if beginnings.count(beginning) == 1
    )


class _Block(NamedTuple):
    """A part of a prompt behind a label, such as "[1]" or "Source 2:".

    Attributes:
        text: The text up to the next label, or up to a blank line.
        is_last: Whether no label of the same form stands behind it.
    """

    text: str
    is_last: bool


def _labelled_blocks(text: str) -> Iterator[_Block]:
    r"""Yield the blocks of a prompt, each behind a label at the beginning of a line.

    Example: "[1] It is old.\n[2] It fell.\n\nQuestion: Who?" has the blocks " It is
    old.\n" and " It fell.". A block ends at the next label of the same form: "[2]"
    after "[1]", but not "2." after "[1]". Without such a label it is the last block of
    its list, and ends at a blank line.
    """
    labels = list(_LABEL.finditer(text))
    for label, next_label in zip_longest(labels, labels[1:]):
        if next_label is not None and _form(next_label) == _form(label):
            yield _Block(text[label.end() : next_label.start()], is_last=False)
        else:
            last_part, _, _ = text[label.end() :].partition("\n\n")
            yield _Block(last_part, is_last=True)


def _form(label: re.Match[str]) -> str:
    """Return a label with 0 for its number: "[0]" for "[1]" and "[12]"."""
    return _DIGITS.sub("0", label[0])


def _rest_in_block(text: str, blocks: Sequence[_Block]) -> tuple[_Block, str] | None:
    """Return the block in which a document stands, and what stands behind it there.

    Example: "Rome has been the capital of It" was recorded. The prompt has the block
    "Rome has been the capital of Italy since 1871.": the rest is "aly since 1871.".
    None if the document stands in no block, or too few of its letters were recorded. Of
    several blocks one with nothing behind the document goes first.
    """
    words = text.split()[-_LONGEST_TAIL:]
    if len(text) < _FEWEST_LETTERS or not words:
        return None
    pattern = re.compile(r"\s+".join(map(re.escape, words)))
    first_block_and_rest: tuple[_Block, str] | None = None
    for block in blocks:
        for match in pattern.finditer(block.text):
            rest = block.text[match.end() :]
            if not _WORD.search(rest):
                return block, ""
            if first_block_and_rest is None:
                first_block_and_rest = (block, rest)
    return first_block_and_rest


def _is_prose(rest: str, words: Sequence[str]) -> bool:
    """Whether a text looks like further sentences of a passage, and not like its metadata.

    "Source: a.txt", "(page 3)" and "https://a.org" are metadata.
    """
    if len(words) < _FEWEST_WORDS or _PROSE.match(rest) is None:
        return False
    first_words, _, _ = rest.strip().partition(words[_N_FIRST_WORDS])
    return ":" not in first_words and "=" not in first_words


def _is_cut_before(text: str, shown_texts: Sequence[str]) -> bool:
    """Whether a document begins with "...", and prompts show other words in that place.

    Example: a span holds "... in Rome since the year 1874", and a prompt shows "Anna
    has lived and worked in Rome since the year 1874". Several words must stand right
    before it in its line: one may be a label. False if a prompt shows the dots.
    """
    mark = _CUT_MARK_BEFORE.match(text)
    stem = _CUT_MARK.sub("", text[mark.end() :]).rstrip() if mark else ""
    if len(stem) < _FEWEST_LETTERS:
        return False
    head = stem.split()[:_LONGEST_TAIL]
    pattern = re.compile(r"\s+".join(map(re.escape, head)))
    lines_before = []  # what stands before the document in its line, in each prompt
    for shown_text in shown_texts:
        for match in pattern.finditer(shown_text):
            _, _, line = shown_text[: match.start()].rpartition("\n")
            lines_before.append(line)
    return bool(lines_before) and all(
        len(_WORD.findall(line)) >= _FEWEST_WORDS and line.rstrip()[-1:].isalnum()
        for line in lines_before
    )


def _is_cut_at(text: str, rest: str) -> bool:
    """Whether a document was cut, by its end and by what stands behind it in a prompt."""
    if _CUT_MARK.search(text):
        is_mark_shown = rest.lstrip()[:1] in (".", "…", "[", "(", "<")
        return not is_mark_shown
    return _is_cut_within_word(text, rest) or _is_cut_behind_word(text, rest)


def _is_cut_within_word(text: str, rest: str) -> bool:
    """Whether a prompt goes on with the last word or number of a document.

    A template may put "Question:" right behind a word. So only a small letter goes on
    with a word, and only a digit with a number.
    """
    last_sign = text[-1:]
    next_sign = rest[:1]
    is_within_word = last_sign.isalpha() and next_sign.islower()
    is_within_number = last_sign.isdigit() and next_sign.isdigit()
    return is_within_word or is_within_number


def _is_cut_behind_word(text: str, rest: str) -> bool:
    """Whether a document breaks off in a sentence with which a prompt goes on.

    A template may go on with a small letter as well, as in "Use {context} to answer". So
    the document must end in a blank, or be as long as somebody cuts a text.
    """
    is_cut_by_length = len(text) % _ROUND_LENGTH == 0 or _is_power_of_two(len(text))
    if not is_cut_by_length and not text.endswith(" "):
        return False
    is_within_sentence = text.rstrip()[-1:].isalnum()
    goes_on_small = rest[:1] == " " and rest[1:2].islower()
    return is_within_sentence and goes_on_small and _is_rest_of_passage(rest)


def _is_power_of_two(number: int) -> bool:
    """Whether a number is 64, 128, 256 and so on, and not 1."""
    return number > 1 and number & (number - 1) == 0


def _is_rest_of_passage(rest: str) -> bool:
    """Whether a text looks like the rest of a passage: it goes on with some words."""
    has_words = len(_WORD.findall(rest)) >= _FEWEST_WORDS
    return has_words and _GOES_ON.match(rest) is not None
