"""The judge that asks a guard: one text and one word for each claim.

It stands here because it takes answers apart into claims, as encoders do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

from ragmetrics_core.data import (
    Answer,
    Asked,
    JudgeError,
    LabelProbability,
    NotAnswered,
    Question,
    QuestionNotSupported,
    R,
    SettingError,
    Usage,
    Weight,
    divide_texts,
)
from ragmetrics_core.data.errors import (
    ContextWindowExceeded,
    CutOffReply,
    JudgeUnavailable,
    UnusableReply,
)
from ragmetrics_core.judging.model_judge import ModelJudge
from ragmetrics_core.judging.probabilities import weights_at
from ragmetrics_core.lexical.claims import AnswerParts, parts_of
from ragmetrics_core.lexical.declining import user_question_of
from ragmetrics_core.metrics.context_utilization import Useful
from ragmetrics_core.metrics.fact_matrix import FactInContext
from ragmetrics_core.metrics.polls import Adherent, ClaimSupport, Poll
from ragmetrics_core.metrics.typed_states import order_of_digest
from ragmetrics_core.models.chat import ChatRequest, Choice, Message
from ragmetrics_core.models.fitting import gather_all
from ragmetrics_core.models.guard_forms import GuardForm, GuardRequest, word_of
from ragmetrics_core.models.guard_model import GuardModel
from ragmetrics_core.models.session import Session

_VERSION = "1"
"""Version of what guards are shown, in the signature of results."""
_WORDS = ("yes", "no")
_HOW_TO_SERVE = (
    "Start its server with the chat template that comes with the model, and name the"
    " form of its version (guard/granite-3.2, guard/granite-3.3 or guard/minicheck);"
    " GuardJudge(model, control=False) asks without this check"
)
_TAGS_OF_THINKING = re.compile(r"</?think>|\s")
_CONTROL_DOCUMENT = "The lamp on the old tower is red."
_CONTROL_HELD = "The lamp on the tower is red."
_CONTROL_FOREIGN = "Three boats were sold in Lisbon in 1998."


@dataclass(frozen=True, slots=True)
class GuardVerdict:
    """What a guard said of a claim, or of a chunk.

    Args:
        holds: Whether the claim is held, or the chunk relevant.
        probability: Of that; None where the endpoint gives no usable log-probabilities.
        windows: In how many windows of the documents it was asked.
    """

    holds: bool
    probability: float | None
    windows: int = 1


@dataclass(frozen=True, slots=True, repr=False)
class GuardQuestions:
    """What a question is to a guard.

    Args:
        requests: What is asked; none where nothing needs to be.
        reads: The reply that the verdicts make, in the order of the requests.
    """

    requests: tuple[GuardRequest, ...]
    reads: Callable[[Sequence[GuardVerdict]], Asked[Any]]


@dataclass(eq=False, repr=False)
class GuardJudge(ModelJudge):
    """A judge that asks a guard, such as Granite Guardian or Bespoke-MiniCheck.

    It says whether contexts hold each claim of an answer (Context Adherence; the
    weakest claim decides) and each given fact (Retrieval Accuracy). Granite Guardian
    also says whether a chunk is relevant to the question (Context Utilization), without
    a look at the answer. Other questions fail, typed.

    Where the endpoint gives log-probabilities, a claim, fact or chunk holds if its word
    has a probability above one half. Elsewhere the bare word counts, and no probability
    is made up. Texts that are too long are asked about in windows, of which the best
    one counts.

    A server that does not apply the guard's own chat template judges something else
    and says so nowhere. So two control claims are asked first, once for a store: one
    that its document holds, and a foreign one.

    Args:
        model: The guard.
        top_logprobs: Alternatives of each token that are asked for.
        max_tokens: Limit of a reply's length, in tokens.
        control: Whether the control claims are asked.
        attempts: Most calls for one request that fails for a passing reason.
        timeout: Seconds for one call, beside the model's own timeout; None for no
            limit.
        replicate: Number of an independent repetition: stored replies of one are not
            used for another.

    Raises:
        SettingError: If the model is no guard, or a number is out of range.

    Examples:
        >>> model = GuardModel("http://127.0.0.1:8000/v1", "granite", form="granite-3.3")
        >>> GuardJudge(model).name
        'guard/granite-3.3/granite'
    """

    model: GuardModel
    _: KW_ONLY
    top_logprobs: int = 5
    max_tokens: int = 64
    control: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.model, GuardModel):
            raise SettingError(
                f"GuardJudge asks a GuardModel, and got a {type(self.model).__name__};"
                " of another model take LLMJudge or DecisionJudge"
            )
        self._check_number("top_logprobs", least=0)
        self._check_number("max_tokens", least=1)
        super().__post_init__()
        # of a run, once the control has shown that no question can be answered
        self._failure_of_control: JudgeUnavailable | None = None

    @property
    def details(self) -> dict[str, str]:
        """The version of what is shown, which changes replies."""
        return {"guard": _VERSION}

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Answer one question, by one request for each claim, fact or chunk.

        Before the first question a control is asked, if the judge has one: two claims
        whose verdicts are known. If the guard gets them wrong, no question is answered.

        Raises:
            JudgeUnavailable: If the model cannot be prepared; nothing was sent.
        """
        if self._run_session is None:
            return await self._for_one_call().answer(question)
        try:
            guard_question = guard_questions(self.model.form, question)
        except JudgeError as error:
            return Answer(NotAnswered(error.with_traceback(None)))
        if not guard_question.requests:  # e.g. an answer without a claim
            return Answer(guard_question.reads(()))  # the reply made of no verdicts
        failure, usage = await self._control_failure(self._run_session)
        if failure is not None:
            return Answer(NotAnswered(failure), usage)
        outcomes_with_cost = await gather_all(
            self._ask_in_windows(self._run_session, request)
            for request in guard_question.requests
        )
        for _, cost in outcomes_with_cost:
            usage += cost
        outcomes = [outcome for outcome, _ in outcomes_with_cost]
        return Answer(_reply(guard_question, outcomes), usage)

    async def _control_failure(
        self, session: Session
    ) -> tuple[JudgeError | None, Usage]:
        """Ask the control, and return why the guard cannot be used; None if it can.

        The control is two claims about one document: first one that the document holds,
        then one that it does not. A guard that is served in a wrong way says the same
        of both, or gives no verdict. Such a failure is kept for the whole run. The
        error of a call is not kept, since it may pass.

        Returns:
            The failure, and what the control cost; replies from the store are left out.
        """
        if self._failure_of_control is not None or not self.control:
            return self._failure_of_control, Usage()
        outcomes_with_cost = await gather_all(
            self._ask_whole(session, request) for request in control_requests()
        )
        usage = Usage()
        for _, cost in outcomes_with_cost:
            if cost.calls:  # else it comes from the store
                usage += cost
        verdicts: list[bool] = []
        for outcome, _ in outcomes_with_cost:
            if isinstance(outcome, UnusableReply):
                self._failure_of_control = _unusable_control(self.model, outcome)
                return self._failure_of_control, usage
            if isinstance(outcome, JudgeError):
                return outcome, usage
            verdicts.append(outcome.holds)
        holds_only_the_held_claim = verdicts == [True, False]
        if holds_only_the_held_claim:
            return None, usage
        self._failure_of_control = _failed_control(self.model, verdicts)
        return self._failure_of_control, usage

    async def _ask_in_windows(
        self, session: Session, request: GuardRequest
    ) -> tuple[GuardVerdict | JudgeError, Usage]:
        """Ask about one text, and return the verdict or the error, and the cost.

        If the documents are too long, they are divided, again and again if need be, and
        the best half counts.
        """
        outcome, usage = await self._ask_whole(session, request)
        if not isinstance(outcome, ContextWindowExceeded):
            return outcome, usage
        halves = divide_texts(request.documents)
        if not halves:
            return outcome, usage
        outcomes_with_cost = await gather_all(
            self._ask_in_windows(
                session, GuardRequest(request.criterion, documents, request.text)
            )
            for documents in halves
        )
        usage += Usage(fallbacks=("windows",))  # so results say that it was divided
        for _, cost in outcomes_with_cost:
            usage += cost
        return _best([outcome for outcome, _ in outcomes_with_cost]), usage

    async def _ask_whole(
        self, session: Session, request: GuardRequest
    ) -> tuple[GuardVerdict | JudgeError, Usage]:
        """Ask about one text in one request; return verdict or error, and the cost.

        Log-probabilities are asked for unless the model is stated not to give them.
        What the session learns of the endpoint does not change the request. Replies are
        stored under a digest of their request: under a changed one they would not be
        found, and would be asked for again.
        """
        await session.prepare()
        lacks_logprobs = self.model.capabilities().logprobs is False
        chat_request = ChatRequest(
            (Message("user", request.to_json()),),
            top_logprobs=0 if lacks_logprobs else self.top_logprobs,
            max_tokens=self.max_tokens,
        )
        answers = await session.ask(
            chat_request, partial(read_verdict, self.model.form)
        )
        (outcome,) = answers.outcomes
        if isinstance(outcome, CutOffReply):
            outcome = CutOffReply(
                f"the reply of {self.name} ends before its verdict, also with"
                " four times the tokens: start the server with the guard's own chat"
                " template, or raise GuardJudge(model, max_tokens=)",
                raw=outcome.raw,
            )
        if isinstance(outcome, JudgeError):
            return outcome.with_traceback(None), answers.usage
        return outcome, answers.usage


def _reply(
    guard_question: GuardQuestions, outcomes: Sequence[GuardVerdict | JudgeError]
) -> Asked[Any] | NotAnswered:
    """What the verdicts make, or why one of them is missing.

    Of several errors one that ends the run counts first.
    """
    verdicts = [outcome for outcome in outcomes if isinstance(outcome, GuardVerdict)]
    errors = [outcome for outcome in outcomes if isinstance(outcome, JudgeError)]
    for error in errors:
        if isinstance(error, JudgeUnavailable):
            return NotAnswered(error)
    if errors:
        return NotAnswered(errors[0])
    return guard_question.reads(verdicts)


def control_requests() -> tuple[GuardRequest, GuardRequest]:
    """A claim that its document holds, and a foreign one."""
    documents = (_CONTROL_DOCUMENT,)
    return (
        GuardRequest("groundedness", documents, _CONTROL_HELD),
        GuardRequest("groundedness", documents, _CONTROL_FOREIGN),
    )


def _failed_control(model: GuardModel, verdicts: Sequence[bool]) -> JudgeUnavailable:
    """The error of a guard that judged the control claims wrongly."""
    held, foreign = verdicts
    return JudgeUnavailable(
        f"{model.name} at {model.address} does not judge what it is asked: it says"
        f" {_in_words(held)} of a claim that the document holds, and"
        f" {_in_words(foreign)} of a foreign one. {_HOW_TO_SERVE}"
    )


def _unusable_control(model: GuardModel, problem: UnusableReply) -> JudgeUnavailable:
    return JudgeUnavailable(
        f"{model.name} at {model.address} gave no verdict on a control claim: {problem}."
        f" {_HOW_TO_SERVE}"
    )


def _in_words(holds: bool) -> str:
    return '"held"' if holds else '"not held"'


def _best(outcomes: Sequence[GuardVerdict | JudgeError]) -> GuardVerdict | JudgeError:
    """Make one verdict of those about several windows: one that holds is enough.

    A window that was not answered may be the one that holds. So with such a window a
    yes stands, but instead of a no the window's error is returned. The probability is
    that of the window that supports most; None unless all windows have one.
    """
    verdicts = [outcome for outcome in outcomes if isinstance(outcome, GuardVerdict)]
    errors = [outcome for outcome in outcomes if isinstance(outcome, JudgeError)]
    holds = any(verdict.holds for verdict in verdicts)
    if errors and not holds:
        return errors[0]
    probabilities = [verdict.probability for verdict in verdicts]
    known = [chance for chance in probabilities if chance is not None]
    are_all_known = len(known) == len(verdicts)
    n_windows = sum(verdict.windows for verdict in verdicts) + len(errors)
    return GuardVerdict(holds, max(known) if are_all_known else None, n_windows)


# What is read


def read_verdict(form: GuardForm, choice: Choice) -> GuardVerdict:
    """Read a guard's reply: its word, and how probable the word was.

    The probability is read from the tokens, and unknown where these do not tell it.
    Where the guard reasoned first, it is unknown too: the word then follows from the
    reasoning, and its probability tells nothing.

    Args:
        form: How this family of guards replies, and which of its words is favourable.
        choice: The reply.

    Raises:
        UnusableReply: If it is not one word in the guard's form, as ``word_of`` says.
    """
    guard_word = word_of(form, choice)
    holds = guard_word.word == form.favourable
    if guard_word.after_thinking or _has_hidden_thoughts(choice):
        return GuardVerdict(holds, None)
    weigh = LabelProbability("word", positive=form.favourable, labels=_WORDS)
    weights = weights_at(choice, [guard_word.start], weigh, "logprobs")
    weight = weights[0] if weights else None
    if weight is None:
        return GuardVerdict(holds, None)
    # the more probable word counts, whether or not it is the one that was written
    return GuardVerdict(weight.p > 0.5, weight.p)


def _has_hidden_thoughts(choice: Choice) -> bool:
    """Whether the tokens hold more than the reply before it, as a server's reasoning.

    Such a server takes the reasoning out of the text, and leaves its tokens.
    """
    tokens = "".join(token.token for token in choice.tokens)
    before, _, _ = tokens.rpartition(choice.text.strip())
    return bool(_TAGS_OF_THINKING.sub("", before))


# What is asked


def guard_questions(form: GuardForm, question: Question[Any]) -> GuardQuestions:
    """What a question is to guards of a form.

    Raises:
        QuestionNotSupported: If they cannot be asked it, with what to do.
    """
    kind = type(question)
    own_template = question.decided is None
    if kind is Adherent and not own_template:
        return _about_answer(question)
    if kind is FactInContext and not own_template:
        return _about_facts(question)
    if kind is Useful and not own_template and form.judges_relevance:
        return _about_chunks(question)
    raise _not_supported(form, question)


def _not_supported(form: GuardForm, question: Question[Any]) -> QuestionNotSupported:
    kind = type(question).__name__
    advice = "ask a language model or a decision model, alone or in a CascadeJudge"
    if type(question) is Useful and not form.judges_relevance:
        advice = "take Granite Guardian, which judges relevance, or a language model"
    elif type(question) in (Adherent, FactInContext, Useful):
        advice = "leave out the metric's own template, which no guard reads"
    return QuestionNotSupported(
        f"a guard of the form {form.name} says whether documents hold a claim"
        f"{' or are relevant' if form.judges_relevance else ''}, and cannot answer"
        f" questions of type {kind}: {advice}"
    )


def _about_answer(question: Question[Any]) -> GuardQuestions:
    """Each claim of an answer beside all contexts, in an order without rank."""
    parts = parts_of(question["answer"], user_question_of(question))
    documents = order_of_digest(question["answer"], question["contexts"])
    requests = tuple(
        GuardRequest("groundedness", documents, claim) for claim in parts.claims
    )
    return GuardQuestions(requests, partial(_poll, parts))


def _poll(parts: AnswerParts, verdicts: Sequence[GuardVerdict]) -> Asked[Poll]:
    """Make the reply to "is the answer adherent?" of the verdicts on its claims.

    It is yes if all claims are held. Its weight is the probability of the weakest
    claim. An answer that claims nothing abstains.

    Args:
        parts: The claims of the answer, and what in it claims nothing.
        verdicts: The verdict on each claim.
    """
    if not parts.claims:
        return Asked((Poll(verdict="abstains", reason="The answer makes no claim."),))
    unsupported = tuple(
        claim
        for claim, verdict in zip(parts.claims, verdicts, strict=True)
        if not verdict.holds
    )
    n_claims = len(parts.claims)
    n_held = n_claims - len(unsupported)
    probabilities = _probabilities(verdicts)
    poll = Poll(
        verdict="no" if unsupported else "yes",
        reason=(
            f"{n_held} of {n_claims} claims are held by the contexts;"
            f" {_weakest_in_words(probabilities)}"
        ),
        unsupported=unsupported,
        encoder_claims=_claims_with_chances(parts, probabilities),
    )
    n_windows = max(verdict.windows for verdict in verdicts)
    return Asked(
        (poll,),
        weights=_weight_of_weakest(probabilities),
        windows=(n_windows,) if n_windows > 1 else (),
    )


def _weakest_in_words(probabilities: Sequence[float]) -> str:
    if not probabilities:
        return "bare verdicts, without probabilities"
    return f"the weakest has p = {min(probabilities):.2f}"


def _weight_of_weakest(probabilities: Sequence[float]) -> tuple[Weight, ...]:
    return (Weight(min(probabilities), "logprobs"),) if probabilities else ()


def _claims_with_chances(
    parts: AnswerParts, probabilities: Sequence[float]
) -> tuple[ClaimSupport, ...]:
    """The claims with their probabilities, and what claims nothing.

    Nothing for bare verdicts: a claim without a probability would pass for none.
    """
    if not probabilities:
        return ()
    claims = [
        ClaimSupport(text=claim, probability=chance)
        for claim, chance in zip(parts.claims, probabilities, strict=True)
    ]
    other_parts = [ClaimSupport(text=text) for text in parts.others]
    return (*claims, *other_parts)


def _about_facts(question: Question[Any]) -> GuardQuestions:
    """Each fact beside the context."""
    name = "facts" if "facts" in question.parts else "fact"
    documents = (question["context"],)
    requests = tuple(
        GuardRequest("groundedness", documents, fact)
        for fact in question.parts[name].texts
    )
    return GuardQuestions(requests, partial(_reply_of_cells, question, name, "covered"))


def _about_chunks(question: Question[Any]) -> GuardQuestions:
    """Each chunk beside the user's question, in the application's own rewrite."""
    user_question = user_question_of(question)
    if user_question is None or "grade" in _fields_of_verdicts(question):
        raise QuestionNotSupported(
            "a guard says whether a chunk is relevant to a question, and gives no"
            " grades: take relevance='binary', or a language model"
        )
    name = "chunks" if "chunks" in question.parts else "chunk"
    requests = tuple(
        GuardRequest("context_relevance", (chunk,), user_question)
        for chunk in question.parts[name].texts
    )
    return GuardQuestions(requests, partial(_reply_of_cells, question, name, "useful"))


def _fields_of_verdicts(question: Question[Any]) -> frozenset[str]:
    """The fields of the verdicts that a question wants."""
    schema = question.Reply.model_json_schema()
    names: set[str] = set()
    for definition in (schema, *schema.get("$defs", {}).values()):
        names.update(definition.get("properties", {}))
    return frozenset(names)


def _reply_of_cells(
    question: Question[Any],
    part_name: str,
    verdict_field: str,
    verdicts: Sequence[GuardVerdict],
) -> Asked[Any]:
    """Make one reply that holds a verdict for each text of a part of a question.

    Args:
        question: The question.
        part_name: The part, which is also the name of the reply's list of verdicts.
        verdict_field: The field of a verdict that is 1 or 0.
        verdicts: The guard's verdict on each text of the part.
    """
    labels = question.parts[part_name].labels
    cells = [
        {"label": label, verdict_field: int(verdict.holds), "reason": _reason(verdict)}
        for label, verdict in zip(labels, verdicts, strict=True)
    ]
    # the reply about one text is its cell, that about several a list of cells
    reply = question.read({**cells[0], part_name: cells})
    weights = tuple(Weight(chance, "logprobs") for chance in _probabilities(verdicts))
    windows = tuple(verdict.windows for verdict in verdicts)
    if max(windows) == 1:  # no text was divided
        windows = ()
    return Asked((reply,), weights=weights, windows=windows)


def _reason(verdict: GuardVerdict) -> str:
    if verdict.probability is None:
        return "a bare verdict, without a probability"
    return f"p = {verdict.probability:.2f}"


def _probabilities(verdicts: Sequence[GuardVerdict]) -> list[float]:
    """The probabilities of all verdicts; none if one of them has none."""
    known = [verdict.probability for verdict in verdicts]
    if None in known:
        return []
    return [chance for chance in known if chance is not None]
