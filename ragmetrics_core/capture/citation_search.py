"""What the rules of the citations look at: an answer, its prompts and its contexts. Pure.

A **label** is what a prompt shows above a text: "[1]", "Source 2:", "report.pdf". A
**mark** is where an answer names a label, as in "It fell in 1874 [1]." An **index** is
that of a context among the contexts, from 0. So with the prompt "[1] It is old. [2] It
fell.", the mark "[2]" cites the context with the index 1.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ragmetrics_core.capture.answer import FoundAnswer
from ragmetrics_core.capture.calls import Calls, Reply, end_of, texts_not_of_models
from ragmetrics_core.capture.closing_sources import closing_sources_in
from ragmetrics_core.capture.evidence import AnswerEvidence
from ragmetrics_core.capture.label_lines import IN_BRACKETS
from ragmetrics_core.capture.names_in_words import (
    names_a_source,
    names_cited_beside_marks,
)
from ragmetrics_core.capture.numbers_beside_names import (
    NamedNumber,
    numbers_beside_names,
    numbers_in_short_lines,
)
from ragmetrics_core.capture.own_lists import (
    ListEntry,
    OwnNumbers,
    Shown,
    contexts_in_lists,
    entries_of_own_lists,
    own_numbers,
    with_plain_lists,
)
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.prompt_labels import Labels, labels_in
from ragmetrics_core.capture.prompt_numbers import (
    BEHIND_A_WORD,
    IN_BRACKETS_FIRST,
    counted_in,
    numbering_in,
    numbers_by_kind_in,
    numbers_in_form,
)
from ragmetrics_core.capture.question import Turn
from ragmetrics_core.capture.source_names import (
    PART_OF_NAME,
    SourceNames,
    add_indexes,
    file_name_of,
    is_file,
    is_mark_label,
    is_telling,
    stem_of,
)
from ragmetrics_core.capture.structured_sources import sources_in
from ragmetrics_core.capture.tree import CitedSource, Node
from ragmetrics_core.data import Context
from ragmetrics_core.data.citations import places_of
from ragmetrics_core.data.mark_patterns import LOOKBACK, PARAGRAPH_BREAK, SOURCE_WORD
from ragmetrics_core.data.marks import Mark, marks_in, plain_label, shape_of_label
from ragmetrics_core.data.source_lists import source_lists_in

_OPENING = 200  # signs of a text by which it is found in a prompt
_BEGINNING = 40  # signs of a text by which it is found close after its label
# Where the contexts come from one of these, nothing else was shown to the model.
_ALL_THAT_WAS_SHOWN = ("prompt", "named", "none_found")
# Keys of metadata whose values name a document.
_KEY_OF_NAME = re.compile(
    r"(?:(?:file|source|doc(?:ument)?|page|article)[ _-]?)?"
    r"(?:name|path|file|source|url|uri|link|title|document)",
    re.IGNORECASE,
)
# What stands in round brackets; the address of a link, "[words](address)", does not count.
_IN_ROUND_BRACKETS = re.compile(r"(?<!\])\((?P<inside>[^()\n]{3,200})\)")
_BEFORE_A_NAME = re.compile(
    r"(?:(?:see|from|in|cf\.?|title|file|name|url|link|as in|according to)\b[ \t:]*)+",
    re.IGNORECASE,
)
# Several words, the first one with a capital: "Bridge book", no "May 1874".
_TITLE = re.compile(r"[^\W\d_a-zß-öø-ÿ][^\W\d_]*(?:[\s,'’&–-]+[^\W\d_]+)+")
_AROUND_NAME = " \t\"'“”„‘’`*"

_FENCED = re.compile(r"```.*?```|~~~.*?~~~", re.DOTALL)
_NO_WORD = "\0"  # stands in place of a text
_SIGNS_OF_MARKS = re.compile(r"[\[\]()［］〔〕【】,;&]")
# "doc1", "Source_2", "Document 3"
_NAME_WITH_NUMBER = re.compile(r"[^\W\d_]+[ _-]?[0-9]{1,4}")
_WORD_AND_NUMBER = re.compile(r"[\s#>*<\[(\"'-]*[^\W\d_]+[^\w\n]*(?:id)?[^\w\n]*\d")
_WORD_OR_NUMBER = re.compile(r"[^\W\d_]+|[1-9][0-9]*|0(?![0-9])")
_FILE_ENDING = r"\.(?-i:[a-z][a-z0-9]{1,4})(?!\w)"
_FILE_WITH_NUMBER = re.compile(
    r"(?<![^\W_])(?P<word>[^\W\d_]+)[ \t_\-]*(?P<number>[0-9]{1,9})" + _FILE_ENDING,
    re.IGNORECASE,
)
# "according to document [1]"
_WORD_BEFORE_A_MARK = re.compile(
    rf"(?<![^\W\d_]){SOURCE_WORD}[ \t#:]*\Z", re.IGNORECASE
)


@dataclass(frozen=True, eq=False)
class CitationSearch:
    """What the rules of the citations look at.

    Attributes:
        turn: The question, and the calls that were made for it.
        found_answer: The answer, and the call that wrote it.
        answer_evidence: What the answer could rest on.
    """

    turn: Turn
    found_answer: FoundAnswer
    answer_evidence: AnswerEvidence

    # The answer

    @property
    def text(self) -> str:
        """The answer."""
        return self.found_answer.text or ""

    @cached_property
    def text_with_file_marks(self) -> str:
        """The answer with square brackets around files that it names in round brackets.

        "(see report.pdf, p. 2)" becomes "[    report.pdf, p. 2]", which is read as a
        mark, if a context has this name. Each character keeps its place.
        """
        return _IN_ROUND_BRACKETS.sub(self._in_square_brackets, self.text)

    def _in_square_brackets(self, found: re.Match[str]) -> str:
        """Return a round bracket as a square one if it names the file of a context.

        Example: "(see report.pdf)" becomes "[    report.pdf]", which is a mark and as
        long. Any other round bracket is returned as it is.
        """
        inside = found["inside"]
        before = _BEFORE_A_NAME.match(inside)
        n_before = 0 if before is None else before.end()
        words = inside[n_before:]
        name = PART_OF_NAME.split(words)[0].strip(_AROUND_NAME)
        if name not in self.numbering or not is_file(name):
            return found[0]
        return "[" + " " * n_before + words + "]"

    @cached_property
    def model_text_with_file_marks(self) -> str:
        """The same text, with blanks for what the application wrote beside the model.

        Each character keeps its place.
        """
        return self.only_of_the_model(self.text_with_file_marks)

    def only_of_the_model(self, text: str) -> str:
        """Return the answer, in one of its forms, with blanks for what the model did not write."""
        pieces = []
        end_of_last = 0
        for start, end in sorted(self.spans_of_the_model or ()):
            n_blanks = max(0, start - end_of_last)
            pieces.append(" " * n_blanks + text[max(start, end_of_last) : end])
            end_of_last = max(end, end_of_last)
        return "".join(pieces)

    @cached_property
    def _text_without_lists(self) -> str:
        """The answer as the model wrote it, with blanks for its lists of sources.

        Texts that the application added, and not the model, are blanks too.
        Example: of "It fell [1].", and "Sources: [1] a.pdf" in the next line, the first
        line is left, and 18 blanks. So every place keeps its offset.
        """
        text = self.only_of_the_model(self.text)
        spans = source_lists_in(text)  # "References:" with the entries below it
        # an entry that says what a number means: "[1] a.pdf"
        spans += [(entry.start, entry.end) for entry in self.own_entries]
        closing = closing_sources_in(text)  # a last line such as "SOURCES: a.txt, [2]"
        if closing is not None:
            spans.append((closing.start, closing.end))
        characters = list(text)
        for start, end in spans:
            characters[start:end] = " " * (end - start)
        return "".join(characters)

    @cached_property
    def spans_of_the_model(self) -> list[tuple[int, int]] | None:
        """The parts of the answer that the model wrote; None if its marks were changed.

        All of the answer if it stands in the reply, or has the reply's marks. Example:
        of "It fell [1]." and a list of links that the application added, (0, 12).
        """
        all_of_it = [(0, len(self.text))]
        if self.reply is None:
            return all_of_it
        line = as_one_line(self.text)
        if line in self.reply.line or line in self.reply.fields:
            return all_of_it
        spans = self._spans_of_replies()
        if spans:
            return spans
        return all_of_it if self._has_the_marks_of(self.reply) else None

    def _spans_of_replies(self) -> list[tuple[int, int]]:
        """Find where replies of models stand in the answer word for word.

        A synthesizer may join the replies of several calls, and an application may add
        a list of sources after a reply.
        """
        spans = []
        for reply_text in self._reply_texts():
            for found in re.finditer(re.escape(reply_text), self.text):
                spans.append(found.span())
        return spans

    def _reply_texts(self) -> set[str]:
        """Return the replies of the answering call and of the calls that contributed.

        The replies that the framework names for the answer are among them.
        """
        replies = list(self.found_answer.answer.replies)
        if self.reply is not None:
            replies.append(self.reply.text)
        for call in self.answer_evidence.contributing_calls:
            replies.append(self.calls.replies[call].text)
        return {reply.strip() for reply in replies} - {""}

    def _has_the_marks_of(self, reply: Reply) -> bool:
        """Whether the marks of the answer stand in a reply in the same order."""
        of_answer = [mark.labels for mark in marks_in(self.text)]
        of_reply = [mark.labels for mark in marks_in(reply.text)]
        starts = range(len(of_reply) - len(of_answer) + 1)
        return any(
            of_reply[start : start + len(of_answer)] == of_answer for start in starts
        )

    @property
    def has_lost_its_marks(self) -> bool:
        """Whether the model wrote marks, and the application took all of them out.

        A structured reply has none: its brackets are lists.
        """
        if self.reply is None or self.reply.values:
            return False
        return bool(marks_in(self.reply.text)) and not marks_in(self.text)

    @cached_property
    def has_names_in_words(self) -> bool:
        """Whether a round bracket may cite a document, though it is not read as a mark.

        Only round brackets that name the file of a context are read as marks.
        """
        return any(
            self._names_unknown_file(found) or self._cites_in_words(found)
            for found in _IN_ROUND_BRACKETS.finditer(self.text_with_file_marks)
            if not self.is_in_own_list(found.start())
        )

    @property
    def names_a_source_in_words(self) -> bool:
        """Whether an answer without marks names a source in words, as "f2.txt says" does."""
        return names_a_source(
            self.text,
            list(self.indexes_by_name),
            numbers=self.numbers,
            subject_texts=[self.turn.question or "", *self.context_texts],
        )

    def names_others_in_words(self, cited: Collection[int]) -> bool:
        """Whether an answer cites a context in words that none of its marks cites.

        "It is old [1]. According to b.pdf, it fell." does, if b.pdf is not number 1. A
        title that the question or a context has is what the answer speaks of.

        Args:
            cited: The indexes of the contexts that its marks cite.
        """
        text = self._text_without_lists
        subjects = "\n".join([self.turn.question or "", *self.context_texts]).lower()
        for name in names_cited_beside_marks(text, self._names_and_stems):
            indexes = self._names_and_stems[name]
            if indexes.isdisjoint(cited) and name.lower() not in subjects:
                return True
        return False

    @cached_property
    def _names_and_stems(self) -> dict[str, frozenset[int]]:
        """By each name of a context, and a file's name without ending, the contexts."""
        indexes_by_name: dict[str, frozenset[int]] = {}
        for name, indexes in self.indexes_by_name.items():
            for form in {name, stem_of(name)} if is_file(name) else {name}:
                add_indexes(indexes_by_name, form, indexes)
        return indexes_by_name

    def lists_other_sources(self, cited: Collection[int]) -> bool:
        """Whether the answer's own lists name other sources than its marks cite.

        The prompt shows "[1] a.pdf" and "[2] b.pdf". The answer "It fell [1]." with
        "Sources: b.pdf" lists a source that it does not cite, and not the one that it
        cites: it may number its sources anew.

        Args:
            cited: The indexes of the contexts that its marks cite.
        """
        names = SourceNames.of(self.indexes_by_name)
        listed = contexts_in_lists(self.only_of_the_model(self.text), names)
        lists_one_that_is_not_cited = any(map(frozenset(cited).isdisjoint, listed))
        all_listed = frozenset().union(*listed)
        contexts_with_names = frozenset().union(*self.indexes_by_name.values())
        not_listed = contexts_with_names.intersection(cited) - all_listed
        return lists_one_that_is_not_cited and bool(not_listed)

    def _names_unknown_file(self, bracket: re.Match[str]) -> bool:
        """Whether a bracket is "(other.pdf)", where the contexts are files of other names."""
        contexts_have_files = any(map(is_file, self.numbering))
        name = _name_in(bracket["inside"])
        return contexts_have_files and is_file(name)

    def _cites_in_words(self, bracket: re.Match[str]) -> bool:
        """Whether a round bracket cites a context by its name, with no mark beside it.

        "(see Bridge book)" and '("Bridge book")' do, if a context has this name. In
        "(Bridge book) [1]" the mark cites the context already.
        """
        name = _name_in(bracket["inside"])
        # "see" or quotation marks stood around the name
        was_trimmed = name != bracket["inside"].strip()
        may_be_title = _TITLE.fullmatch(name) is not None  # "Bridge book"
        # "(2)" may be a count, though the prompt has the label "2"
        if name not in self.names and not was_trimmed and not may_be_title:
            return False
        indexes_named = set(places_of(name, self.numbering))
        is_marked_too = indexes_named & self._indexes_cited_beside(bracket.span())
        return bool(indexes_named) and not is_marked_too

    def _indexes_cited_beside(self, span: tuple[int, int]) -> set[int]:
        """Collect the contexts that marks next to a span of the answer cite."""
        text = self.text_with_file_marks
        indexes: set[int] = set()
        for mark in marks_in(text, self.numbering):
            if _is_beside(mark, span, text):
                for label in mark.labels:
                    indexes.update(places_of(label, self.numbering))
        return indexes

    def kind_of_mark(self, mark: Mark, labels: Labels) -> str:
        """Return the kind of the numbers of a mark; see ``kind_of_number``.

        "" for "document [1]" where the prompt's ``labels`` number documents, too: the
        mark may mean the number in brackets, or the number of a document.
        """
        before = self.text[max(0, mark.start - LOOKBACK) : mark.start]
        if _WORD_BEFORE_A_MARK.search(before):
            kinds_before = {kind for kind, _ in numbers_by_kind_in(f"{before}1")}
            if kinds_before & labels.indexes_by_kind.keys():
                return ""
        return kind_of_number(self.text[mark.start : mark.end])

    def names_read_as_numbers(self, mark: Mark) -> list[str]:
        """List the names in a mark that are read as numbers, as "doc1" of ``[doc1, 3]``."""
        inside = self.text[mark.start : mark.end]
        names = [part.strip() for part in _SIGNS_OF_MARKS.split(inside)]
        return [
            name
            for name in names
            if plain_label(name).isdigit() and _NAME_WITH_NUMBER.fullmatch(name)
        ]

    def contexts_of_files_called(self, name: str) -> list[tuple[int, ...]]:
        """Find the contexts of the files that the prompts show under a name.

        The name "doc1" finds the files "doc1.pdf" and "Doc_01.txt" in the prompts.

        Returns:
            For each such file the indexes of the contexts under its name; () if no
            context has this name as its label.
        """
        word, number = _WORD_OR_NUMBER.findall(name)  # "doc" and "1"
        files = self._files_with_numbers.get((word.lower(), int(number)), {})
        # the prompt's label of "Document 3.docx" may leave out the word: "3.docx"
        indexes_by_label = self.labels.indexes_by_label
        return [
            indexes_by_label.get(file, indexes_by_label.get(plain_label(file), ()))
            for file in files
        ]

    @cached_property
    def _files_with_numbers(self) -> dict[tuple[str, int], dict[str, None]]:
        """The files in the prompts by the word and the number of their names.

        "doc1.pdf" and "Doc_01.txt" are found under ("doc", 1), each once.
        """
        files: dict[tuple[str, int], dict[str, None]] = {}
        for prompt in self.prompts:
            for found in _FILE_WITH_NUMBER.finditer(prompt):
                key = (found["word"].lower(), int(found["number"]))
                files.setdefault(key, {})[found[0]] = None
        return files

    def is_under_another_name(self, number: str, kind: str) -> bool:
        """Whether another list in the prompts gives a number to another context.

        Under the labels "[1] a.pdf" and "[2] b.pdf", "Source 1 = b.pdf" gives 1. Where a
        list does so, a number that it may have as well counts: "[3] z.pdf" beside it.

        Args:
            number: The number.
            kind: The word before the number, such as ``document``, or ``IN_BRACKETS``.
        """
        agreeing, kinds_by_number = self._numbers_of_other_lists
        if not kinds_by_number:
            return False
        # "Document 1: b.pdf" may be an upload, which "[1]" does not mean
        means_label = kind == IN_BRACKETS and self._has_numbers_like(IN_BRACKETS_FIRST)
        any_kind = frozenset().union(*kinds_by_number.values())
        kinds_meant = {"", kind} if means_label else any_kind
        differs = not kinds_meant.isdisjoint(kinds_by_number.get(number, ()))
        some_differ = not kinds_meant.isdisjoint(any_kind)
        return differs or (some_differ and number not in agreeing)

    @cached_property
    def _numbers_of_other_lists(self) -> tuple[set[str], dict[str, set[str]]]:
        """Compare numbers beside names, anywhere in the prompts, with the labels.

        Example: the contexts stand under "[1] a.pdf", "[2] b.pdf" and "[3] c.pdf". A list
        at the prompt's end says "Source 1: b.pdf, [3] c.pdf". The 3 agrees with the
        labels; the 1 does not, for it is the label of a.pdf.

        Returns:
            Two values. The numbers that agree with a label: ``{"1", "2", "3"}``. And the
            numbers that differ, with the words before them: ``{"1": {"source"}}``; the
            word is "" for "[1] b.pdf".
        """
        agreeing: set[str] = set()
        kinds_by_number: dict[str, set[str]] = {}
        for named in self._numbers_beside_names:
            # the contexts under the label "[1]"; ``named.indexes`` are those named b.pdf
            numbered = self.indexes_by_number.get(named.number, frozenset())
            if not numbered.isdisjoint(named.indexes):
                agreeing.add(named.number)
            elif numbered:  # a number that labels no context is left out
                kinds_by_number.setdefault(named.number, set()).add(named.kind)
        return agreeing, kinds_by_number

    @cached_property
    def _numbers_beside_names(self) -> list[NamedNumber]:
        """The numbers of the prompts that stand beside a name of a context.

        Example: beside the label "b.pdf" stand the 1 of "[1] b.pdf", of "1. b.pdf" and
        of "Source 1: b.pdf". If "b.pdf" is no label, but the name of a document, only
        the 1 of "[1] b.pdf" counts: the other two may list what a user uploaded.
        """
        labels = SourceNames.of(
            {
                label: indexes
                for label, indexes in self.labels.indexes_by_label.items()
                if label not in self._lettered_labels
            }
        )
        # names of documents that the prompt does not show as labels; a label means what
        # stands under it, whatever document has the same name
        other_names = SourceNames.of(
            {
                name: indexes
                for name, indexes in self._indexes_by_document_name.items()
                if name.lower() not in labels.indexes_by_name
            }
        )
        named_numbers: list[NamedNumber] = []
        for prompt in self.prompts:
            words = _without_texts(prompt, self.context_texts)
            named_numbers += numbers_beside_names(words, labels)
            # may_count: "1. b.pdf"; kind: "source" of "Source 1: b.pdf". Both are
            # dropped here: they may list uploads.
            named_numbers += [
                named
                for named in numbers_beside_names(words, other_names)
                if not named.may_count and not named.kind
            ]
            named_numbers += _numbers_of_lists(words, labels)
        return named_numbers

    def is_of_another_list(self, number: str, kind: str) -> bool:
        """Whether "Document 2" in the prompts names something that is no context.

        A prompt lists uploads, "Document 2: scan.pdf", above contexts that are labelled
        "[1]" and "[2]": there "Document 2" is an upload.

        Args:
            number: The number, such as "2".
            kind: The word before the number, such as ``document``; without a word False
                is returned.
        """
        has_no_word = kind in ("", IN_BRACKETS)
        # the prompt numbers the contexts themselves by this word
        is_kind_of_contexts = kind in self.labels.indexes_by_kind
        if has_no_word or is_kind_of_contexts:
            return False
        lines = self._lines_by_first_number.get((kind, number), [])
        return bool(lines) and not any(
            self._labels_context(line, number, kind) for line in lines
        )

    @cached_property
    def _lines_by_first_number(self) -> dict[tuple[str, str], list[re.Match[str]]]:
        """The lines of the prompts that begin with a word and a number, by these two.

        "Document 2: scan.pdf, page 7" is found under ("document", "2").
        """
        lines: dict[tuple[str, str], list[re.Match[str]]] = {}
        for prompt in self.prompts:
            for line in re.finditer(r"[^\n]+", prompt):
                if _WORD_AND_NUMBER.match(line[0]) is None:
                    continue
                # [("document", "2"), ("page", "7")]
                kinds_and_numbers = numbers_by_kind_in(line[0])
                if kinds_and_numbers:
                    lines.setdefault(kinds_and_numbers[0], []).append(line)
        return lines

    def _labels_context(self, line: re.Match[str], number: str, kind: str) -> bool:
        """Whether a line such as "Document 2:" labels the context with this number.

        It does if the context with the number 2 follows, and neither another context
        nor "Document 3" stands between. It also does if the line is a part of a
        context's own text: then it names no source besides the contexts.
        """
        if self._stands_above_its_context(line, number, kind):
            return True
        return any(line[0].strip() in text for text in self.context_texts)

    def _stands_above_its_context(
        self, line: re.Match[str], number: str, kind: str
    ) -> bool:
        """Whether the context with the number of a line such as "Document 2:" follows.

        Neither another context nor "Document 3" may stand between.
        """
        starts = self._starts_of_contexts[line.string]
        n_before = bisect_left(starts, (line.start(), 0))
        if n_before == len(starts):
            return False  # no context follows
        start, context_index = starts[n_before]
        if start > line.end() + _OPENING:
            return False  # far behind the line
        if context_index not in places_of(number, self.labels.indexes_by_label):
            return False  # "Document 2:" stands above a context with another number
        # The words begin with the line itself: ("document", "2"). No other number of
        # a document, ("document", "3"), stands before the context.
        kinds_and_numbers = numbers_by_kind_in(line.string[line.start() : start])
        pairs_of_kind = [pair for pair in kinds_and_numbers if pair[0] == kind]
        return pairs_of_kind == [(kind, number)]

    @cached_property
    def _starts_of_contexts(self) -> dict[str, list[tuple[int, int]]]:
        """By each prompt: where contexts begin in it, each with its index, in order."""
        starts: dict[str, list[tuple[int, int]]] = {}
        beginnings = [text.strip()[:_BEGINNING] for text in self.context_texts]
        for prompt in self.prompts:
            starts[prompt] = sorted(
                (start, index)
                for index, beginning in enumerate(beginnings)
                for start in _starts_of(beginning, prompt)
            )
        return starts

    # The calls and the contexts

    @property
    def calls(self) -> Calls:
        """The calls of the turn."""
        return self.turn.calls

    @cached_property
    def reply(self) -> Reply | None:
        """The reply of the answering call; None if no call is known."""
        call = self.found_answer.writing_call
        return None if call is None else self.calls.replies.get(call)

    @cached_property
    def context_texts(self) -> list[str]:
        """The texts of the contexts."""
        return [context.text for context in self.answer_evidence.contexts.items]

    @cached_property
    def prompts(self) -> list[str]:
        """The messages that the answering call was shown, without messages of models.

        Those of the calls whose replies it was shown stand before them.
        """
        calls = list(self.answer_evidence.contributing_calls)
        if self.found_answer.writing_call is not None:
            calls.append(self.found_answer.writing_call)
        texts: list[str] = []
        for call in calls:
            texts += texts_not_of_models(call)
        return texts

    @property
    def knows_what_was_shown(self) -> bool:
        """Whether the contexts are all that the model was shown, or it was shown nothing."""
        return self.answer_evidence.contexts.evidence_from in _ALL_THAT_WAS_SHOWN

    @cached_property
    def annotator(self) -> Node | None:
        """A later call that was shown the answer and names its sources; None if there is none.

        langchain-ai/langchain, docs/docs/how_to/qa_citations.ipynb: a second call
        annotates the answer of the first.
        """
        call = self.found_answer.writing_call
        if call is None or self._reply_says_sources or not self.text.strip():
            return None
        for later in self.calls.models:
            if later is call or later.began < end_of(call):
                continue
            names_sources = bool(_sources_of(self.calls.replies[later]))
            if names_sources and self._was_shown_the_answer(later):
                return later
        return None

    @property
    def _reply_says_sources(self) -> bool:
        """Whether the answer's own reply names sources, or says by an empty list: none."""
        return self.reply is not None and _sources_of(self.reply) is not None

    def _was_shown_the_answer(self, call: Node) -> bool:
        """Whether the answer stands in the prompt of a call."""
        line = as_one_line(self.text)
        return any(line in as_one_line(message.text) for message in call.prompt)

    @cached_property
    def sources(self) -> tuple[CitedSource, ...] | None:
        """The sources that the structured reply, or its annotator, names.

        None if neither names any.
        """
        if self.annotator is not None:
            return _sources_of(self.calls.replies[self.annotator])
        return None if self.reply is None else _sources_of(self.reply)

    # What labels mean

    @cached_property
    def numbering(self) -> dict[str, tuple[int, ...]]:
        """By each label that the answer may name the indexes of its contexts.

        The labels of the prompt go first, then the framework's numbers, then names of
        documents.
        """
        return {
            **self.names,
            **self.framework_numbering,
            **self.labels.indexes_by_label,
        }

    @cached_property
    def names(self) -> dict[str, tuple[int, ...]]:
        """The contexts' names that the answer says, each with its contexts' indexes.

        The answer says "Bridge book", the title of the first and the third context:
        {"Bridge book": (0, 2)}. A title of one word is left out: it may be any word.
        """
        return {
            name: indexes
            for name, indexes in self._indexes_by_document_name.items()
            if name in self.text
        }

    @cached_property
    def _indexes_by_document_name(self) -> dict[str, tuple[int, ...]]:
        """The telling names in the contexts' metadata, each with its contexts' indexes.

        Example: the first and the third context have ``{"source": "b.pdf"}``:
        ``{"b.pdf": (0, 2)}``. A name that may be a common word is left out.
        """
        indexes_by_name: dict[str, list[int]] = {}
        for index, context in enumerate(self.answer_evidence.contexts.items):
            for name in _names_of_context(context):
                if is_telling(name):
                    indexes_by_name.setdefault(name, []).append(index)
        return {
            name: tuple(dict.fromkeys(indexes))
            for name, indexes in indexes_by_name.items()
        }

    @cached_property
    def own_entries(self) -> list[ListEntry]:
        """The entries of the lists in which the model itself says what its numbers mean.

        They stand below the answer, "Sources: [1] a.pdf", or in a field of a structured
        reply, ``{"sources": [{"id": 1, "name": "a.pdf"}]}``.
        """
        entries = entries_of_own_lists(
            self.only_of_the_model(self.text), self._lettered_labels
        )
        for source in self.sources or ():
            number = plain_label(str(source.id))
            if number.isdigit():
                quotes = () if source.quote is None else (source.quote,)
                entries += [
                    ListEntry(number, text) for text in (*source.names, *quotes)
                ]
        return entries

    @cached_property
    def own_numbers(self) -> OwnNumbers:
        """What the answer's numbers mean by the answer's own lists of sources.

        The prompt shows "[1] a.pdf [2] b.pdf", and the answer ends in "Sources: [1]
        b.pdf": its number 1 means b.pdf, another context than in the prompt.
        """
        contexts = self.answer_evidence.contexts.items
        shown = Shown(contexts, self.indexes_by_name, self.indexes_by_number)
        named_numbers = self._named_numbers(shown.names)
        # a mere "1. a.pdf" explains no mark if no mark has a 1
        entries = [
            entry
            for entry in self.own_entries
            if not entry.may_count or entry.number in self._cited_labels
        ]
        return own_numbers(entries, named_numbers, shown)

    @cached_property
    def _marks_outside_lists(self) -> list[Mark]:
        """The marks in the model's sentences, and not in its lists of sources."""
        text = with_plain_lists(self.only_of_the_model(self.text))
        return [
            mark
            for mark in marks_in(text, self.numbering)
            if not self.is_in_own_list(mark.start)
        ]

    @cached_property
    def _cited_labels(self) -> set[str]:
        """What these marks name, and the sources of a structured reply: "1", "b.pdf"."""
        labels = {plain_label(str(source.id)) for source in self.sources or ()}
        for mark in self._marks_outside_lists:
            labels.update(mark.labels)
        return labels

    @cached_property
    def indexes_by_name(self) -> dict[str, tuple[int, ...]]:
        """By each label that no mark names as a number, as "b.pdf": the contexts' indexes."""
        return {
            label: indexes
            for label, indexes in self.numbering.items()
            if not label.isdigit() and label not in self._lettered_labels
        }

    @cached_property
    def _lettered_labels(self) -> set[str]:
        """The labels like those that marks name with letters: "S1" and "S2" for "[S1]".

        Empty where the prompt gives its contexts numbers: "kb-7" is then a name.
        """
        if self.numbers:
            return set()
        shapes: set[str | None] = set()
        for mark in marks_in(self.text, self.numbering):
            shapes.update(shape_of_label(label) for label in mark.labels)
        return {
            label
            for label in self.numbering
            if not label.isdigit()
            and is_mark_label(label)
            and shape_of_label(label) in shapes
        }

    @cached_property
    def indexes_by_number(self) -> dict[str, frozenset[int]]:
        """All contexts that each number may mean in the prompt.

        "[1] Source 3:" above the first context has two numberings.
        """
        indexes_by_number: dict[str, frozenset[int]] = {}
        for indexes_by_label in (
            self.numbering,
            *self.labels.indexes_by_kind.values(),
        ):
            for label, indexes in indexes_by_label.items():
                add_indexes(indexes_by_number, label, indexes)
        return indexes_by_number

    def _named_numbers(self, names: SourceNames) -> list[NamedNumber]:
        """List the cited numbers to which the model gives a name in its sentences.

        Example: "It fell [1], where [1] is b.pdf." The answer's lists of sources, such as
        "Sources: [1] b.pdf", are left out. A mere "1. b.pdf" counts only after the last
        mark: before it, it may be a step or a rank.
        """
        # plain: without tags of HTML
        text = with_plain_lists(self.only_of_the_model(self.text))
        end_of_last_mark = max(
            (mark.end for mark in self._marks_outside_lists), default=0
        )
        last_words = text[end_of_last_mark:]
        # what the answer shows as code before its last mark is what it speaks of
        text = _FENCED.sub(lambda code: " " * len(code[0]), text[:end_of_last_mark])
        named_numbers = [
            named
            for named in numbers_beside_names(text + last_words, names)
            if not named.may_count  # "1. b.pdf"
        ]
        named_numbers += [
            replace(named, start=named.start + end_of_last_mark)
            for named in numbers_in_short_lines(last_words, names)
        ]
        return [
            named
            for named in named_numbers
            if named.number in self._cited_labels
            and not self.is_in_own_list(named.start)
        ]

    def is_in_own_list(self, place: int) -> bool:
        """Whether a place of the answer is in the model's own list; a mark there cites nothing."""
        n_before = bisect_right(self._starts_of_entries, place)
        return (
            n_before > 0
            and place < self._end_by_start[self._starts_of_entries[n_before - 1]]
        )

    @cached_property
    def _starts_of_entries(self) -> list[int]:
        """Where the lines of the own lists begin in the answer, in order."""
        return sorted(self._end_by_start)

    @cached_property
    def _end_by_start(self) -> dict[int, int]:
        """By the start of each line of the own lists its end; entries may share a line."""
        # those of a field beside the answer have no place in it
        return {
            entry.start: entry.end
            for entry in self.own_entries
            if entry.start < entry.end
        }

    @cached_property
    def framework_numbering(self) -> dict[str, tuple[int, ...]]:
        """The context index of each number, as the framework counts its documents.

        deepset-ai/haystack, haystack/components/builders/answer_builder.py:
        ``reference_pattern`` reads "[2]" as the second document that the builder was
        given: {"2": (1,)}.

        Empty if the prompt itself gives numbers, or if a cited document is not the
        context with its number.
        """
        if self.numbers or self.labels.ambiguous_numbers:
            return {}
        ids: list[str | int | None] = [
            context.id for context in self.answer_evidence.contexts.items
        ]
        numbering: dict[str, tuple[int, ...]] = {}
        for source in self.found_answer.answer.cited_sources or ():
            if source.label is None or ids.count(source.id) != 1:
                return {}
            index = ids.index(source.id)
            if index != int(source.label) - 1:
                return {}  # "[2]" is not the second context: others were shown
            numbering[source.label] = (index,)
        return numbering

    @cached_property
    def labels(self) -> Labels:
        """What the prompts tell of the labels of contexts."""
        return self.labels_of(self.prompts)

    @cached_property
    def numbers(self) -> list[str]:
        """The numbers under which the prompts show contexts."""
        return [label for label in self.labels.indexes_by_label if label.isdigit()]

    @cached_property
    def is_numbered(self) -> bool:
        """Whether the prompts number the contexts as sources; numbers of a mere list do not."""
        if not self.numbers:
            return False
        return self._has_numbers_like(IN_BRACKETS_FIRST) or self._has_numbers_like(
            BEHIND_A_WORD
        )

    def _has_numbers_like(self, form: re.Pattern[str]) -> bool:
        """Whether each number of the contexts begins a line of the prompts in a form."""
        if form not in self._numbers_by_form:
            shown = "\n".join(self.prompts)
            self._numbers_by_form[form] = numbers_in_form(form, shown)
        return self._numbers_by_form[form].issuperset(self.numbers)

    @cached_property
    def _numbers_by_form(self) -> dict[re.Pattern[str], set[str]]:
        """The numbers that begin lines of the prompts, by the form; filled when asked."""
        return {}

    def labels_of(self, prompts: Sequence[str]) -> Labels:
        """Read from some prompts which labels stand above which contexts.

        A prompt shows "[1] IRON" of this turn and "[1] WOOD" of an earlier turn: the
        number 1 is ambiguous, and labels nothing.
        """
        labels = self._labels_of_contexts(prompts)
        # The labels of texts that the prompts repeat from earlier turns. A number is "1",
        # or with the word before it "source 1". Ambiguous: two earlier texts have it.
        earlier_labels = labels_in(prompts, self._texts_of_earlier_turns(prompts))
        earlier_numbers = {
            *_numbers_of(earlier_labels),
            *earlier_labels.ambiguous_numbers,
            *_numbers_by_kind(earlier_labels),
        }
        labels_now = {*labels.indexes_by_label, *_numbers_by_kind(labels)}
        # numbers that label a context of this turn, and a text of an earlier turn
        used_twice = earlier_numbers & labels_now
        indexes_by_label = {
            label: indexes
            for label, indexes in labels.indexes_by_label.items()
            if label not in used_twice
        }
        return replace(
            labels,
            indexes_by_label=indexes_by_label,
            ambiguous_numbers=labels.ambiguous_numbers | used_twice,
        )

    def _labels_of_contexts(self, prompts: Sequence[str]) -> Labels:
        """Read the labels of the contexts from the lines around them: "[2] b.pdf".

        If these lines hold no number, each context's number is looked for:

        1. in the words right before the context: "Source 2:", or "2." if the answer
           cites numbers
        2. if the answer cites numbers: after a word in any language that stands before
           each context, with the numbers 1, 2, 3 in turn: "Kilde 1:", "Kilde 2:"
        """
        labels = labels_in(prompts, self.context_texts)
        if any(_numbers_of(labels)) or labels.ambiguous_numbers:
            return labels
        # "2." numbers a mere list if the answer names no numbers
        cites_by_numbers = bool(marks_in(self.text) or self.sources)
        index_by_number = numbering_in(
            prompts, self.context_texts, lists=cites_by_numbers
        )
        # "Kilde 2:": a word that is in no list of ours counts the contexts from 1 on
        if index_by_number is None and cites_by_numbers:
            index_by_number = counted_in(prompts, self.context_texts)
        if index_by_number is None:
            return labels
        indexes_by_number = {
            number: (index,) for number, index in index_by_number.items()
        }
        return Labels({**labels.indexes_by_label, **indexes_by_number})

    def _texts_of_earlier_turns(self, prompts: Sequence[str]) -> list[str]:
        """List the texts that earlier turns found and that these prompts still show.

        Contexts of this turn are left out. Example: turn 1 found IRON, and the prompt
        of turn 2 shows IRON and WOOD, its own context: [IRON].
        """
        texts: dict[str, None] = {}
        for call in self.answer_evidence.earlier_calls:
            for item in call.items:
                if item.text not in self.context_texts:
                    texts[item.text] = None
        return [
            text
            for text in texts
            if any(text[:_OPENING] in prompt for prompt in prompts)
        ]


def _numbers_of_lists(words: str, names: SourceNames) -> list[NamedNumber]:
    """List the numbers in lists of a prompt such as "b.pdf: 1, a.pdf: 2".

    A list is a paragraph beside the contexts with several such entries.

    Args:
        words: The prompt without its contexts.
        names: The names that it shows as labels.
    """
    named_numbers: list[NamedNumber] = []
    for paragraph in PARAGRAPH_BREAK.split(words):
        if _NO_WORD in paragraph:
            continue  # the lines beside a context are its labels
        listed = list(numbers_in_short_lines(paragraph, names))
        numbers = {named.number for named in listed}
        meanings = {named.indexes for named in listed}
        if len(numbers) > 1 and len(meanings) > 1:
            named_numbers += listed
    return named_numbers


def _starts_of(words: str, text: str) -> Iterator[int]:
    """Yield where some words stand in a text; nowhere if they are empty."""
    if words:
        for found in re.finditer(re.escape(words), text):
            yield found.start()


def _without_texts(prompt: str, texts: Sequence[str]) -> str:
    """Return a prompt with a sign that no word has in place of each of some texts."""
    for text in texts:
        if text.strip():
            prompt = prompt.replace(text.strip(), _NO_WORD)
    return prompt


def _numbers_of(labels: Labels) -> Iterator[str]:
    """Yield the labels that are numbers: "2", but not "b.pdf"."""
    return (label for label in labels.indexes_by_label if label.isdigit())


def _numbers_by_kind(labels: Labels) -> Iterator[str]:
    """Yield the numbers that stand after a word or in brackets, such as "source 1"."""
    for indexes_by_number in labels.indexes_by_kind.values():
        yield from indexes_by_number


def _is_beside(mark: Mark, span: tuple[int, int], text: str) -> bool:
    """Whether nothing but white space stands between a mark and a span of a text."""
    start, end = span
    if mark.end <= start:
        return not text[mark.end : start].strip()
    return end <= mark.start and not text[end : mark.start].strip()


def _names_of_context(context: Context) -> Iterator[str]:
    """Yield the file names, titles and addresses of a context; of a path the last part too."""
    for key, value in context.metadata.items():
        if isinstance(value, str) and _KEY_OF_NAME.fullmatch(str(key)):
            name = value.strip()
            yield from {name, file_name_of(name)}


def _name_in(inside: str) -> str:
    """Return the name in a bracket, without a word before it such as "see", and quotes."""
    return _BEFORE_A_NAME.sub("", inside, count=1).strip(_AROUND_NAME)


def kind_of_number(name: str) -> str:
    """Return the kind of the numbers in an answer's name of a source.

    Returns:
        The word before them, such as ``source``; ``IN_BRACKETS`` for a bracket without
        such a word; "" if there are several words, or neither word nor bracket.
    """
    kinds = {kind for kind, _ in numbers_by_kind_in(name)}
    if len(kinds) == 1:
        return kinds.pop()
    is_bare = not kinds and name.lstrip().startswith(("[", "［", "〔", "【"))
    return IN_BRACKETS if is_bare else ""


def _sources_of(reply: Reply) -> tuple[CitedSource, ...] | None:
    """The sources that a reply names in its structure, or in XML; None if it names none."""
    for value in (*reply.values, reply.text):
        sources = sources_in(value)
        if sources is not None:
            return sources
    return None
