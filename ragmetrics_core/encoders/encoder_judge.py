"""The judge that is an encoder: pairs of texts in, probabilities out."""

import asyncio
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from dataclasses import KW_ONLY, dataclass, fields
from functools import partial
from hashlib import sha256
from itertools import islice
from math import exp, isfinite
from pathlib import Path
from threading import Lock
from typing import Any

from ragmetrics_core.data import (
    Answer,
    Asked,
    NotAnswered,
    Question,
    QuestionNotSupported,
    R,
    Weight,
)
from ragmetrics_core.data.errors import ContextWindowExceeded, JudgeError, SettingError
from ragmetrics_core.data.frozen import check_number
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.nearest import did_you_mean
from ragmetrics_core.data.one_half import is_yes
from ragmetrics_core.encoders.checkpoints import KINDS, Kind, Labels, load, name_of
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.lexical.claims import parts_of
from ragmetrics_core.lexical.declining import user_question_of
from ragmetrics_core.metrics.fact_matrix import FactInContext
from ragmetrics_core.metrics.polls import (
    AdherenceReply,
    Adherent,
    ClaimSupport,
    adherence_reply,
)
from ragmetrics_core.models.threads import call_in_thread
from ragmetrics_core.statistics.weakest_claim import ClaimCorrection, describe_judge

# A window that is cut out may have so many tokens more than it had within the text.
_SLACK = 8
_LARGEST_EXPONENT = 700.0  # exp() overflows a little above
# Most parts of an answer without a claim that the reason quotes.
_SHOWN_OTHERS = 3

Pair = tuple[str, str]
"""A premise, such as a window of the contexts, and a hypothesis, such as a claim."""
_TokenChances = list[tuple[int, int, float]]
"""For tokens of the hypothesis: start, end, and the probability that it is supported."""
_WaitingCall = tuple[Sequence[Pair], Future[list[Any]]]
"""The pairs that a thread asks for, and the future that will hold their outputs."""


@dataclass(eq=False)
class EncoderJudge(Judge):
    """Judges by a small model of Hugging Face on this machine.

    It needs no key, makes no call and fetches nothing.

    It says whether contexts support claims, and so answers Context Adherence and, with
    given facts, Retrieval Accuracy; other questions fail, typed. Each claim is set
    against each window of the contexts, and the window that supports it best counts.
    Claims are the sentences of an answer that claim something (no greeting, offer or
    lead-in), or facts. The score of an answer is the probability of its weakest claim,
    and a ``correction`` adjusts it by the number of claims. An answer is adherent from
    .5 on. The share of supported claims stands in the reason. An answer without a claim
    abstains. The question is not shown, so that "In 1903." is hardly a claim.
    ``onnxruntime`` runs ``onnx/model.onnx`` or ``model.onnx`` of a sequence classifier,
    if the model has one, else torch the weights.

    Args:
        model: Name of a model in Hugging Face's cache, or a folder.
        kind: ``"nli"`` and ``"score"`` are sequence classifiers. ``"tokens"`` is a
            token classifier that reads the whole answer and marks its unsupported
            tokens; a claim is as supported as its weakest token. ``"seq2seq"`` replies
            one of two words, whose probabilities count.
        label: The label that means that a claim (of ``"tokens"`` a token) is supported,
            or the word of ``"seq2seq"``. None where its name says so, e.g.
            *entailment*, or where the checkpoint is known (``checkpoints.KNOWN``).
        other_label: The other word of ``"seq2seq"``.
        template: One text for the model instead of a pair, with ``{premise}`` and
            ``{hypothesis}``; of ``"tokens"`` the first text, with ``{premise}``. Other
            braces are literal.
        correction: A correction for the number of claims, fitted on labelled rows: that
            of a card of this judge (``Card.claim_correction``).
        tokenizer: Name or folder of the tokenizer; None for the model's own.
        revision: Commit, tag or branch of a model in the cache; results hold the
            commit, or a digest of a folder's weights.
        window: Most tokens that the model is given at once; None for 512, or fewer if
            it reads no more.
        batch: Most pairs that it reads at once.
        device: Device of torch, e.g. ``"cuda:1"``; also where there is an ONNX file.
            None: CUDA where there is some.
        trust_remote_code: Run code that comes with the model.

    Raises:
        MissingDependency: If the extra ``local`` is not installed.
        SettingError: If the model is not on this machine, is not of its kind, lacks its
            head, states no window, brings code that is not trusted, its labels do not
            tell which one supports a claim, the correction is that of another judge,
            or this machine lacks the device.

    Source:
        Windows and their maximum: Laban et al. (2022), SummaC, TACL 10; claim by claim,
        and ``"seq2seq"``: Tang et al. (2024), MiniCheck, arXiv 2404.10774;
        ``"tokens"``: Kovács & Recski (2025), LettuceDetect, arXiv 2502.17125.

    Example, with a model that ``hf download`` has fetched::

        judge = EncoderJudge("cross-encoder/nli-deberta-v3-small")
        ContextAdherence().score(
            contexts=["Anna lit the lamp."], answer="The lamp was lit.", judge=judge
        )
    """

    model: str | Path
    _: KW_ONLY
    kind: Kind = "nli"
    label: str | None = None
    other_label: str | None = None
    template: str | None = None
    correction: ClaimCorrection | None = None
    tokenizer: str | Path | None = None
    revision: str | None = None
    window: int | None = None
    batch: int = 16
    device: str | None = None
    trust_remote_code: bool = False

    def __post_init__(self) -> None:
        """Check the settings, and load the model and its tokenizer.

        Raises:
            MissingDependency: If the extra ``local`` is not installed.
            SettingError: If a setting is invalid, the labels do not tell which one
                means support, or ``correction`` was fitted for another judge or for
                other settings of this one.
        """
        self._check_settings()
        self.name = name_of(self.model)
        self.free = True  # no call costs anything
        # a judge card may hold a ``correction`` that was fitted for this judge
        self.takes_correction = True
        self._load()
        # A tokenizer stores the settings of a call in itself: one call at a time.
        self._tokenizer_lock = Lock()
        self._model_lock = Lock()  # held by the thread that runs the model for all
        # Calls of threads that wait for the model. Its next run judges the pairs of
        # texts of all these calls together.
        self._waiting_calls: list[_WaitingCall] = []
        if self.correction is not None:
            # It must have been fitted for this model with these settings.
            judge_in_words = describe_judge(self.name, self._details_of_claims())
            _check_correction(self.correction, judge_in_words)

    def _check_settings(self) -> None:
        """Refuse, by ``SettingError``, settings that no model could have."""
        check_number("EncoderJudge(batch=)", self.batch, least=1)
        if self.window is not None:
            check_number("EncoderJudge(window=)", self.window, least=1)
        _check_kind(self.kind)
        _check_label("label", self.label)
        _check_label("other_label", self.other_label)
        _check_template(self.template, self.kind)

    def _load(self) -> None:
        """Load the model, and find which of its outputs means that a claim is supported.

        Example: of a model with the labels "entailment" and "contradiction" it is
        "entailment". For the labels "yea" and "nay", ``label="yea"`` must be given.
        """
        labels = None
        if self.label is not None:
            labels = Labels(self.label, self.other_label or "")
        checkpoint = load(
            self.model,
            self.kind,
            labels,
            tokenizer=self.tokenizer,
            revision=self.revision,
            window=self.window,
            device=self.device,
            trust_remote_code=self.trust_remote_code,
        )
        self.commit = checkpoint.commit  # of the model, or a digest of its weights
        self._tokenizer = checkpoint.tokenizer
        self._logits_of = checkpoint.logits
        self._support_index = checkpoint.support_index
        self._most_tokens = checkpoint.window  # of one input of the model
        # "pt" for torch or "np" for ONNX: the kind of arrays that the model takes
        self._tensors = checkpoint.tensors
        # special tokens such as "[SEP]" are taken out of the judged texts
        self._special_tokens_pattern = _any_of(self._tokenizer.all_special_tokens)

    def __reduce__(self) -> Any:
        """Make a copy in another process load the model there."""
        settings = {field.name: getattr(self, field.name) for field in fields(self)}
        return partial(type(self), **settings), ()

    @property
    def details(self) -> dict[str, str]:
        """Which weights answer, what they are shown, and how scores are corrected."""
        details = self._details_of_claims()
        if self.correction is not None:
            numbers = (
                self.correction.intercept,
                self.correction.slope,
                self.correction.per_claim,
            )
            details["correction"] = " ".join(f"{number:g}" for number in numbers)
        return details

    def _details_of_claims(self) -> dict[str, str]:
        """Return the settings that change the probability of a claim, for signatures.

        Such as ``{"kind": "nli", "weights": "1a2b3c4d5e6f", "window": "512"}``. A
        template is named by the first digits of its digest.
        """
        details = {
            "kind": self.kind,
            "weights": self.commit,
            "window": str(self._most_tokens),
        }
        if self.template is not None:
            details["template"] = sha256(self.template.encode()).hexdigest()[:6]
        if self.label:
            details["label"] = self.label
        if self.other_label:
            details["other label"] = self.other_label
        if self.tokenizer is not None:
            details["tokenizer"] = name_of(self.tokenizer)
        return details

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Answer one question, in a thread of its own.

        An encoder says whether a text supports a claim. Example: "Is this answer
        adherent to its contexts?" is answered so; "Which statements does this answer
        make?" is not supported (``QuestionNotSupported``). If the model raises a judge
        error, that error is the answer.
        """
        answer_to = self._answer_to(type(question))
        if answer_to is None:
            message = (
                f"the encoder {self.name} says whether contexts support claims and"
                f" cannot answer questions of type {type(question).__name__}; use a"
                ' language model instead, e.g. judge="gpt-4o-mini", or both:'
                " CascadeJudge(encoder, model, band=...)"
            )
            return Answer(NotAnswered(QuestionNotSupported(message)))
        computation: Future[Any] = call_in_thread(
            partial(answer_to, question),
            context=copy_context(),
            name=f"ragmetrics {self.name}",
        )
        try:
            return Answer(await asyncio.wrap_future(computation))
        except JudgeError as error:
            return Answer(NotAnswered(error))

    def _answer_to(
        self, kind: type[Question[Any]]
    ) -> Callable[[Any], Asked[Any]] | None:
        """Return the method that answers questions of a type; None if there is none."""
        if kind is Adherent:
            return self._adherent
        if kind is FactInContext:
            return self._facts_in_context
        return None

    def _adherent(self, question: Adherent) -> Asked[AdherenceReply]:
        """Judge each claim of an answer against the contexts; the weakest claim counts.

        The score of the answer is the probability of its weakest claim. A judge with a
        ``correction`` adjusts it by the number of claims. Example: claims of 0.9 and
        0.3 give 0.3, and the verdict "no"; from 0.5 on the verdict is "yes". An answer
        without a claim abstains.
        """
        answer = question["answer"]
        parts = parts_of(answer, user_question_of(question))
        # parts that claim nothing are listed without a probability
        unjudged = tuple(ClaimSupport(text=text) for text in parts.others)
        if not parts.claims:
            poll = adherence_reply(
                verdict="abstains",
                reason="The answer makes no claim.",
                encoder_claims=unjudged,
            )
            return Asked((poll,))
        contexts = "\n\n".join(question["contexts"])
        probabilities, n_windows = self._probabilities_in_answer(
            contexts, answer, parts.claims
        )
        claims = tuple(
            ClaimSupport(text=claim, probability=probability)
            for claim, probability in zip(parts.claims, probabilities, strict=True)
        )
        lowest_probability = min(probabilities)
        score = self._score(lowest_probability, len(claims))
        weakest_in_words = self._weakest_in_words(lowest_probability, score)
        poll = adherence_reply(
            verdict="yes" if is_yes(score) else "no",
            reason=_reason(claims, parts.others, weakest_in_words),
            unsupported=self._unsupported_claims(claims, score),
            encoder_claims=claims + unjudged,
        )
        # Beside the verdict stands its probability (a weight), which the metric takes for
        # the answer's score.
        weight = Weight(round(score, 4), "encoder")
        # Contexts that do not fit into the model were read in several pieces (windows);
        # the result says in how many.
        return Asked((poll,), weights=(weight,), windows=_windows_if_several(n_windows))

    def _probabilities_in_answer(
        self, contexts: str, answer: str, claims: Sequence[str]
    ) -> tuple[list[float], int]:
        """Compute for each claim of an answer how probably the contexts support it.

        A model that labels tokens reads the whole answer at once, any other model each
        claim by itself. Contexts that are too long for the model are read in pieces,
        called windows. Example: ([0.9, 0.3], 2) for two claims and two windows.
        """
        if self.kind == "tokens":
            return self._probabilities_by_tokens(contexts, answer, claims)
        return self._probabilities_of_claims(contexts, claims)

    def _score(self, weakest: float, n_claims: int) -> float:
        """Return the weakest claim's probability, corrected for the number of claims."""
        if self.correction is None:
            return weakest
        return self.correction.score(weakest, n_claims)

    def _weakest_in_words(self, weakest: float, score: float) -> str:
        """Say the weakest claim's probability, and the corrected score if there is one."""
        if self.correction is None:
            return f"p = {weakest}"
        return f"p = {weakest}, corrected for the number of claims {score:.2f}"

    def _unsupported_claims(
        self, claims: Sequence[ClaimSupport], score: float
    ) -> tuple[str, ...]:
        """Return the claims for which an answer is rejected; () if it is accepted."""
        if is_yes(score):
            return ()
        return tuple(
            claim.text
            for claim in claims
            if not is_yes(self._score(claim.probability or 0.0, len(claims)))
        )

    def _facts_in_context(self, question: FactInContext) -> Asked[Any]:
        """Judge whether the context covers each fact: from a probability of .5 on.

        A question is about several facts (its part "facts") or one (its part "fact").
        Example: probabilities of .9 and .3 say that the first of two facts is covered.
        """
        is_about_several = "facts" in question.parts
        part = question.parts["facts" if is_about_several else "fact"]
        probabilities, n_windows = self._probabilities_of_claims(
            question["context"], part.texts
        )
        verdicts = [
            {
                "label": label,
                "covered": is_yes(probability),
                "reason": f"p = {probability}",
            }
            for label, probability in zip(part.labels, probabilities, strict=True)
        ]
        if is_about_several:
            reply = question.read({"facts": verdicts})
        else:
            reply = question.read(verdicts[0])
        # Beside each verdict stands its probability, a weight, for metrics that score it.
        weights = tuple(Weight(probability, "encoder") for probability in probabilities)
        # A context that is too long for the model was read in pieces, called windows.
        windows: tuple[int, ...] = ()  # stays empty if it was read as a whole
        if n_windows > 1:  # one number for each fact: 2 facts, 3 windows give (3, 3)
            windows = (n_windows,) * len(probabilities)
        return Asked((reply,), weights=weights, windows=windows)

    def _probabilities_of_claims(
        self, premise: str, claims: Sequence[str]
    ) -> tuple[list[float], int]:
        """Return how probable it is that a text supports each of several claims.

        A text that is too long is read in windows. The best window decides. Example: a
        claim has .1 in the first and .9 in the second window: .9.

        Args:
            premise: The text.
            claims: The claims; at least one.

        Returns:
            The probabilities in the order of the claims, and the number of windows.
        """
        # A token classifier reads an answer as a whole. Claims are no sentences of one
        # answer, so that it reads each claim alone.
        if self.kind == "tokens":
            return self._probabilities_claim_by_claim(premise, claims)
        windows = self.windows(premise, claims)
        # all windows with the first claim, then all with the second, and so on
        pairs: list[Pair] = []
        for claim in claims:
            pairs += [(window, claim) for window in windows]
        probabilities = iter(self.probabilities(pairs))
        best_probabilities: list[float] = []
        for _ in claims:
            probabilities_of_claim = list(islice(probabilities, len(windows)))
            best_probabilities.append(max(probabilities_of_claim))
        return best_probabilities, len(windows)

    def _probabilities_claim_by_claim(
        self, premise: str, claims: Sequence[str]
    ) -> tuple[list[float], int]:
        """Return the probability of each claim, read as if it were the whole answer.

        A token classifier reads a whole answer at once, but facts belong to no common
        answer. The number of windows that is returned is the one of the first claim.
        """
        probabilities: list[float] = []
        windows_by_claim: list[int] = []
        for claim in claims:
            (probability,), n_windows = self._probabilities_by_tokens(
                premise, answer=claim, claims=(claim,)
            )
            probabilities.append(probability)
            windows_by_claim.append(n_windows)
        return probabilities, windows_by_claim[0]

    def _probabilities_by_tokens(
        self, premise: str, answer: str, claims: Sequence[str]
    ) -> tuple[list[float], int]:
        """Return for each claim of an answer the probability of its weakest token.

        The model reads the whole answer beside each window of the contexts, and says of
        each token of the answer how probable it is that the window supports it. The
        window that supports a token best counts. Example: the tokens of a claim have .9
        and .2 in window 1, .8 and .7 in window 2: the best are .9 and .7, the claim .7.

        Args:
            premise: The contexts as one text.
            answer: The answer.
            claims: Its claims, in their order.

        Returns:
            The probabilities in the order of the claims, and the number of windows.

        Raises:
            JudgeError: If the model read no token of a claim.
        """
        answer = self._without_special_tokens(answer)
        windows = self.windows(premise, [answer])
        chances_by_window = self._outputs([(window, answer) for window in windows])
        # By the start and the end of each token, in characters of the answer.
        best_by_token: dict[tuple[int, int], float] = {}
        for token_chances in chances_by_window:
            for start, end, chance in token_chances:
                best_so_far = best_by_token.get((start, end), 0.0)
                best_by_token[start, end] = max(chance, best_so_far)
        probabilities: list[float] = []
        end_of_previous = 0
        for claim in claims:
            claim_start, claim_end = _span(
                answer, self._without_special_tokens(claim), end_of_previous
            )
            end_of_previous = claim_end
            chances_in_claim: list[float] = []
            for (start, end), chance in best_by_token.items():
                is_in_claim = start < claim_end and end > claim_start
                if is_in_claim:
                    chances_in_claim.append(chance)
            if not chances_in_claim:
                raise JudgeError(f"{self.model} read no token of a claim")
            probabilities.append(min(chances_in_claim))
        return probabilities, len(windows)

    def _room_beside(self, hypotheses: Sequence[str]) -> int:
        """Return how many tokens a window may have beside the longest hypothesis.

        A window cut out of a text may have a few tokens more than it had within the
        text; ``_SLACK`` is left free for these.

        Raises:
            ContextWindowExceeded: If that is less than a quarter of the model's tokens.
        """
        tokens_of_longest = max(self._count_tokens(text) for text in hypotheses)
        room = self._most_tokens - tokens_of_longest - _SLACK
        if room < self._most_tokens // 4:
            raise ContextWindowExceeded(
                f"a claim of {tokens_of_longest} tokens leaves too little room for contexts"
                f" in a window of {self._most_tokens}; give window=, if the model can read"
                " more"
            )
        return room

    def windows(self, premise: str, hypotheses: Sequence[str]) -> list[str]:
        """Cut a premise into pieces (windows) that fit into the model.

        The model reads a window and one hypothesis at a time. Each window shares a
        quarter of its tokens with the next one: with room for 400 tokens the windows
        begin at the tokens 0, 300 and 600.

        Args:
            premise: The text to cut: what a claim is checked against.
            hypotheses: The texts that are read beside each window: claims, or an
                answer. The longest of them must fit.

        Raises:
            ContextWindowExceeded: If a hypothesis leaves less than a quarter of the
                model's tokens for a window.
        """
        room = self._room_beside(hypotheses)
        premise = self._without_special_tokens(premise)
        spans = self._token_spans(premise)
        if not spans:
            return [""]
        overlap = room // 4
        # A window that begins later would only repeat the end of the one before it.
        end_of_starts = max(1, len(spans) - overlap)
        windows: list[str] = []
        for start in range(0, end_of_starts, room - overlap):
            window_spans = spans[start : start + room]
            window_start, _ = window_spans[0]
            _, window_end = window_spans[-1]
            windows.append(premise[window_start:window_end])
        return windows

    def _count_tokens(self, hypothesis: str) -> int:
        """Count the tokens of a hypothesis, with the marks that the model adds."""
        return len(self._tokenize([("", hypothesis)])["input_ids"][0])

    def _token_spans(self, text: str) -> list[tuple[int, int]]:
        """Return where each token of a text begins and ends, in characters."""
        with self._tokenizer_lock:
            encoding = self._tokenizer(
                text,
                add_special_tokens=False,
                return_offsets_mapping=True,
                verbose=False,
            )
        spans: list[tuple[int, int]] = encoding["offset_mapping"]
        return spans

    def probabilities(self, pairs: Sequence[Pair]) -> list[float]:
        """Return how probable it is that each premise supports its hypothesis.

        Calls from several threads share batches.
        """
        return self._outputs(pairs)

    def _outputs(self, pairs: Sequence[Pair]) -> list[Any]:
        """Run the model on pairs of texts; other threads may do so at the same time.

        The thread that holds the lock runs the model for all that wait, so that their
        pairs share batches. The others then find their outputs ready. Example: while
        thread A runs the model, B and C wait; then B runs the pairs of both.

        Returns:
            For each pair a probability; from a token classifier the probabilities of
            its tokens.
        """
        future: Future[list[Any]] = Future()
        self._waiting_calls.append((pairs, future))
        with self._model_lock:
            if not future.done():
                # A thread may append its call between the next two lines. The call then
                # is lost from the list, and its thread runs it alone, below.
                waiting_calls = [*self._waiting_calls]
                self._waiting_calls = []
                # One pair that the model cannot take fails the pairs of all threads;
                # each thread then runs its own pairs alone, below.
                with suppress(Exception):
                    self._answer_waiting(waiting_calls)
            if not future.done():
                self._answer_waiting([(pairs, future)])
        return future.result()

    def _answer_waiting(self, waiting_calls: Sequence[_WaitingCall]) -> None:
        """Run the model for all threads that wait, and give each its outputs."""
        all_pairs: list[Pair] = []
        for pairs, _ in waiting_calls:
            all_pairs += pairs
        outputs = iter(self._run_in_batches(all_pairs))
        for pairs, future in waiting_calls:
            future.set_result(list(islice(outputs, len(pairs))))

    def _run_in_batches(self, pairs: Sequence[Pair]) -> list[Any]:
        """Return the model's output for each pair, in the order of the pairs.

        The output is the probability that the first text supports the second, such as
        .9876. If ``self.kind`` is "tokens", the output is a list with one entry for
        each token of the second text. Probabilities are rounded to four places: so they
        hardly depend on what else is in a batch.
        """
        outputs: list[Any] = [0.0] * len(pairs)
        # A batch is padded to its longest pair, so pairs of like length are put
        # together: the indices of the pairs are sorted by the lengths of the pairs.
        sorted_indices = sorted(
            range(len(pairs)), key=lambda index: _length(pairs[index])
        )
        for start in range(0, len(pairs), self.batch):
            indices_of_batch = sorted_indices[start : start + self.batch]
            tokens = self._tokenize(
                [pairs[index] for index in indices_of_batch],
                padding=True,
                return_tensors=self._tensors,
            )
            logits_of_batch = self._logits_of(tokens)
            for row, logits in enumerate(logits_of_batch):
                index = indices_of_batch[row]
                if self.kind == "tokens":
                    outputs[index] = self._token_chances(
                        pairs[index], tokens, row, logits
                    )
                else:
                    outputs[index] = round(self._probability(logits), 4)
        return outputs

    def _token_chances(
        self, pair: Pair, tokens: Any, row: int, logits: Sequence[Sequence[float]]
    ) -> _TokenChances:
        """Return how probable it is that each token of a pair's second text is supported.

        Tokens that are only blanks are left out. Example: "It fell." may give
        ``[(0, 2, .9), (3, 7, .2), (7, 8, .8)]``.

        Args:
            pair: The pair of texts.
            tokens: The tokens of a batch of pairs.
            row: The index of the pair in the batch.
            logits: The model's logits for each token of the pair.

        Returns:
            Start, end and probability of each token; start and end count characters of
            the second text.
        """
        _, hypothesis = pair
        sides = tokens.sequence_ids(row)  # 0 for the first text, 1 for the second
        spans = tokens.encodings[row].offsets
        token_chances: _TokenChances = []
        for side, (start, end), token_logits in zip(sides, spans, logits, strict=True):
            if side == 1 and hypothesis[start:end].strip():
                chance = round(self._probability(token_logits), 4)
                token_chances.append((start, end, chance))
        return token_chances

    def _probability(self, logits: Sequence[float]) -> float:
        """Return the probability of the label that means support.

        It is the sigmoid of a single output, and the softmax of several outputs.
        """
        positive = logits[self._support_index]
        # The sigmoid is the softmax beside a second output of 0.
        alternatives = [*logits, 0.0] if len(logits) == 1 else logits
        if not all(isfinite(logit) for logit in alternatives):
            raise JudgeError(f"{self.model} gave no numbers for a pair of texts")
        exponents = [min(_LARGEST_EXPONENT, logit - positive) for logit in alternatives]
        return 1 / sum(exp(exponent) for exponent in exponents)

    def _tokenize(
        self,
        pairs: Sequence[Pair],
        *,
        padding: bool = False,
        return_tensors: str | None = None,
    ) -> Any:
        """Return the tokens of pairs of texts, in the form that the model knows.

        That is both texts side by side, or a template that shows them. Example: with
        the template "{premise} So: {hypothesis}" the pair ("A", "B") is "A So: B".

        Args:
            pairs: Premise and hypothesis of each pair.
            padding: Whether shorter pairs are padded to the longest.
            return_tensors: The form of the tensors, "pt" or "np"; None for lists.
        """
        premises = [self._without_special_tokens(premise) for premise, _ in pairs]
        hypotheses = [
            self._without_special_tokens(hypothesis) for _, hypothesis in pairs
        ]
        if self.template is None:
            texts = [premises, hypotheses]
        else:
            prompts = [
                _filled(self.template, premise=premise, hypothesis=hypothesis)
                for premise, hypothesis in zip(premises, hypotheses, strict=True)
            ]
            # A token classifier labels the tokens of the answer, which is the
            # hypothesis. So it gets this as a second text.
            texts = [prompts, hypotheses] if self.kind == "tokens" else [prompts]
        with self._tokenizer_lock:
            return self._tokenizer(
                *texts, padding=padding, return_tensors=return_tensors
            )

    def _without_special_tokens(self, text: str) -> str:
        """Return a text without the model's own marks, such as "[SEP]".

        By such a mark a text could pretend to be both texts of a pair.
        """
        return self._special_tokens_pattern.sub(" ", text)


def _check_kind(kind: str) -> None:
    """Raise ``SettingError`` for a kind that does not exist."""
    if kind in KINDS:
        return
    raise SettingError(
        f"EncoderJudge(kind=): {kind!r} is no kind of encoder"
        f"{did_you_mean(str(kind), KINDS)}; there are: {', '.join(KINDS)}"
    )


def _check_label(setting: str, label: object) -> None:
    """Raise ``SettingError`` for a label that is no text."""
    if label is None or (isinstance(label, str) and label.strip()):
        return
    raise SettingError(
        f"EncoderJudge({setting}=) is the name of a label, or a word that the model"
        f' replies, e.g. {setting}="LABEL_1"; got {label!r}'
    )


def _check_correction(correction: object, judge: str) -> None:
    """Refuse, by ``SettingError``, a correction that was not fitted for this judge."""
    if isinstance(correction, ClaimCorrection) and correction.fitted_for == judge:
        return
    if not isinstance(correction, ClaimCorrection):
        wrong = f"got a {type(correction).__name__}"
    elif correction.fitted_for:
        wrong = f"this one was fitted for {correction.fitted_for}"
    else:
        wrong = "this one does not say for which judge it was fitted"
    raise SettingError(
        f"EncoderJudge(correction=) is that of a card of {judge}; {wrong}. Make a card"
        " of this judge without a correction ('ragmetrics card --out card.json'), and"
        ' take correction=Card.read("card.json").claim_correction'
    )


def _check_template(template: object, kind: Kind) -> None:
    """Refuse, by ``SettingError``, a template that does not show what it must."""
    if template is None:
        return
    names = set(_NAMES.findall(template)) if isinstance(template, str) else set()
    names_needed = {"premise"} if kind == "tokens" else {"premise", "hypothesis"}
    if not names_needed <= names:
        names_in_words = " and ".join(
            f"{{{name}}}" for name in sorted(names_needed, reverse=True)
        )
        raise SettingError(f"template must hold {names_in_words}; got {template!r}")


_NAMES = lazy_pattern(r"\{(premise|hypothesis)\}")


def _filled(template: str, *, premise: str, hypothesis: str) -> str:
    """Fill in the two names of a template; all other braces stay as they are."""
    text_by_name = {"premise": premise, "hypothesis": hypothesis}
    return _NAMES.sub(lambda match: text_by_name[match[1]], template)


def _span(answer: str, claim: str, position: int) -> tuple[int, int]:
    """Return start and end of a claim in its answer, searched from a position on.

    If it is not found, start and end of the whole answer.
    """
    words = r"\s+".join(map(re.escape, claim.split()))
    match = re.compile(words).search(answer, position) if words else None
    return (0, len(answer)) if match is None else match.span()


def _reason(
    claims: Sequence[ClaimSupport], other_parts: Sequence[str], weakest_in_words: str
) -> str:
    """Say how many claims are supported, which is weakest, and what claims nothing.

    Example: "1 of 2 claims are supported by the contexts (50%); the weakest has p =
    0.3; no claim: "Hello!"".

    Args:
        claims: The claims of the answer with their probabilities; at least one.
        other_parts: Parts of the answer that claim nothing. The first ones are quoted.
        weakest_in_words: The probability of the weakest claim, e.g. "p = 0.4".
    """
    supported = [claim for claim in claims if is_yes(claim.probability or 0.0)]
    n_supported = len(supported)
    reason = (
        f"{n_supported} of {len(claims)} claims are supported by the contexts"
        f" ({n_supported / len(claims):.0%}); the weakest has {weakest_in_words}"
    )
    if other_parts:
        shown = ", ".join(f'"{text}"' for text in other_parts[:_SHOWN_OTHERS])
        reason += f"; no claim: {shown}"
    n_more = len(other_parts) - _SHOWN_OTHERS
    if n_more > 0:
        reason += f" and {n_more} more"
    return reason


def _any_of(marks: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern that finds any of these texts; nothing if there are none."""
    escaped = sorted((re.escape(mark) for mark in marks), key=len, reverse=True)
    return re.compile("|".join(escaped) or r"(?!)")


def _windows_if_several(n_windows: int) -> tuple[int, ...]:
    """Return the number of windows as a result states it: () for a single window."""
    return (n_windows,) if n_windows > 1 else ()


def _length(pair: Pair) -> int:
    premise, hypothesis = pair
    return len(premise) + len(hypothesis)
