"""The judge that is an encoder: how answers and facts become claims, and probabilities of claims become replies."""

import asyncio
from collections.abc import Sequence
from contextvars import copy_context
from functools import partial
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any

from ragmetrics_core.data import Answer, Asked, JudgeError, NotAnswered, Question, QuestionNotSupported, R, Weight
from ragmetrics_core.encoders.classifier import Classifier
from ragmetrics_core.endpoints.threads import in_thread
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.lexical.declining import declines
from ragmetrics_core.lexical.text import split_sentences
from ragmetrics_core.metrics.fact_matrix import FactInContext
from ragmetrics_core.metrics.polls import Adherent, Poll


class EncoderJudge(Classifier, Judge):
    """Judges by a sequence classifier of Hugging Face on this machine: no key, no call, nothing fetched.

    It says whether contexts support claims, and so answers Context Adherence and, with given facts, Retrieval Accuracy;
    other questions fail, typed. Each claim is set against each window of the contexts, and the window that supports it
    best counts. Claims are the sentences of an answer, or facts: an answer is adherent if its weakest sentence is
    supported (.5), and the score is the mean over its sentences. An answer that only declines abstains. The question
    is not shown, so that "In 1903." is hardly a claim. ``onnxruntime`` runs ``onnx/model.onnx`` or ``model.onnx``, if
    the model has one, else torch the weights.

    Args:
        model: Name of a model in Hugging Face's cache, or a folder.
        kind: ``"nli"`` takes the probability of the label that begins with *entail*, ``"score"`` that of a single
            output, of a label such as *consistent*, or of the second of two without names.
        label: Name of that label, where the model's own names do not tell.
        template: One text for the model instead of a pair, with ``{premise}`` and ``{hypothesis}``.
        tokenizer: Name or folder of the tokenizer; None for the model's own.
        revision: Commit, tag or branch of a model in the cache; results hold the commit, or a digest of a folder's
            weights.
        window: Most tokens that the model is given at once; None for 512, or fewer if it reads no more.
        batch: Most pairs that it reads at once.
        device: Device of torch, e.g. ``"cuda:1"``; also where there is an ONNX file. None: CUDA where there is some.
        trust_remote_code: Run code that comes with the model.

    Raises:
        MissingDependency: If the extra ``local`` is not installed.
        SettingError: If the model is not on this machine, is no sequence classifier, brings code that is not trusted,
            or its labels do not tell which one supports a claim.

    Source:
        Windows and their maximum: Laban et al. (2022), SummaC, TACL 10; claim by claim: Tang et al. (2024), MiniCheck,
        arXiv 2404.10774.

    Example, with a model that ``hf download`` has fetched::

        judge = EncoderJudge("cross-encoder/nli-deberta-v3-small")
        ContextAdherence().score(contexts=["Anna lit the lamp."], answer="The lamp was lit.", judge=judge)
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        folder = Path(self.model)
        self.name = folder.resolve().name if folder.is_dir() else str(self.model)

    @property
    def details(self) -> dict[str, str]:
        """Which weights answer, and what they are shown."""
        shown = {"kind": self.kind, "weights": self.commit, "window": str(self._longest)}
        if self.template is not None:
            shown["template"] = sha256(self.template.encode()).hexdigest()[:6]
        return {**shown, "label": self.label} if self.label else shown

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Answer one question; ``QuestionNotSupported`` for those that no supported claim answers."""
        kinds: dict[type[Question[Any]], Any] = {Adherent: self._adherent, FactInContext: self._facts_in_context}
        answered = kinds.get(type(question))
        if answered is None:
            message = (
                f"the encoder {self.name} says whether contexts support claims and cannot answer questions of type "
                f'{type(question).__name__}; use a language model instead, e.g. judge="gpt-4o-mini", or both: '
                "CascadeJudge(encoder, model)"
            )
            return Answer(NotAnswered(QuestionNotSupported(message)))
        begun = in_thread(partial(answered, question), context=copy_context(), name=f"ragmetrics {self.name}")
        try:
            return Answer(await asyncio.wrap_future(begun))
        except JudgeError as error:
            return Answer(NotAnswered(error))

    def _adherent(self, question: Adherent) -> Asked[Poll]:
        part, text = question.parts.get("question"), question["answer"]
        asked = None if part is None else part.rewrite or "".join(part.texts)
        claims = [sentence for sentence in split_sentences(text) if any(map(str.isalnum, sentence))]
        if not claims or declines(text, asked):
            return Asked((Poll(verdict="abstains", reason="The answer makes no claim."),))
        chances, windows = self._supported("\n\n".join(question["contexts"]), claims)
        weak = tuple(claim for claim, chance in zip(claims, chances, strict=True) if chance < 0.5)
        held, least = f"{len(claims) - len(weak)} of {len(claims)}", min(chances)
        reason = f"{held} sentences are supported by the contexts; the weakest has p = {least}"
        poll = Poll(verdict="no" if weak else "yes", reason=reason, unsupported=weak)
        weight = Weight(round(fmean(chances), 4), "encoder")
        return Asked((poll,), weights=(weight,), windows=(windows,) * (windows > 1))

    def _facts_in_context(self, question: FactInContext) -> Asked[Any]:
        part = question.parts.get("facts") or question.parts["fact"]
        chances, windows = self._supported(question["context"], part.texts)
        verdicts = [
            {"label": label, "covered": chance >= 0.5, "reason": f"p = {chance}"}
            for label, chance in zip(part.labels, chances, strict=True)
        ]
        reply, weights = question.read({**verdicts[0], "facts": verdicts}), (Weight(it, "encoder") for it in chances)
        return Asked((reply,), weights=tuple(weights), windows=(windows,) * len(chances) * (windows > 1))

    def _supported(self, premise: str, claims: Sequence[str]) -> tuple[list[float], int]:
        """For each claim the probability that some window supports it, and how many windows there are."""
        windows = self.windows(premise, claims)
        found, count = self.probabilities([(window, claim) for claim in claims for window in windows]), len(windows)
        return [max(found[at : at + count]) for at in range(0, len(found), count)], count
