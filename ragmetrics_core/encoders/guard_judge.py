"""The judge that asks a guard model: one request, replied to with one word, per claim.

A guard is a model that is trained to say whether documents hold a claim. Its judge
divides answers into claims, as the encoder's does.
"""

from __future__ import annotations

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
from ragmetrics_core.data.lazy_patterns import lazy_pattern
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
_TAGS_OF_THINKING = lazy_pattern(r"</?think>|\s")
# The control: a document, a claim that it holds, and a claim about something else.
_CONTROL_DOCUMENT = "The lamp on the old tower is red."
_CONTROL_HELD = "The lamp on the tower is red."
_CONTROL_FOREIGN = "Three boats were sold in Lisbon in 1998."


@dataclass(frozen=True, slots=True)
class GuardVerdict:
    """The verdict of a guard on a claim or a chunk.

    Args:
        holds: Whether the documents hold the claim, or the chunk is relevant.
        probability: The probability of that; None where the endpoint gives no usable
            log-probabilities.
        windows: In how many windows the documents were divided; 1 for undivided.
    """

    holds: bool
    probability: float | None
    windows: int = 1


@dataclass(frozen=True, slots=True, repr=False)
class GuardRequests:
    """The requests to a guard that stand for a question, and how to read their verdicts.

    Args:
        requests: One for each claim, fact or chunk; () if there is nothing to ask.
        make_reply: Makes the reply to the question from the verdicts on all requests, in
            their order.
    """

    requests: tuple[GuardRequest, ...]
    make_reply: Callable[[Sequence[GuardVerdict]], Asked[Any]]


@dataclass(eq=False, repr=False)
class GuardJudge(ModelJudge):
    """A judge that asks a guard, such as Granite Guardian or Bespoke-MiniCheck.

    It says whether contexts hold each claim of an answer (Context Adherence; the
    weakest claim decides) and each given fact (Retrieval Accuracy). Granite Guardian
    also says whether a chunk is relevant to the question (Context Utilization), without
    a look at the answer. Other questions fail, typed.

    Where the endpoint gives log-probabilities, a claim, fact or chunk holds if its word
    has a probability above one half. Elsewhere the bare word counts, and no probability
    is made up. Texts that are too long are asked about in windows, and the best window
    counts.

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
        # Why the guard cannot be used in this run, as the control has shown; None if
        # nothing is known against it.
        self._failure_of_control: JudgeUnavailable | None = None

    @property
    def details(self) -> dict[str, str]:
        """The version of what is shown, which changes replies."""
        return {"guard": _VERSION}

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Answer one question, by one request to the model for each claim or text.

        A guard judges one claim at a time. Example: "Do the contexts hold this answer?"
        takes two requests if the answer makes two claims, and the verdicts "yes" and
        "no" together make the reply "no".

        Before the first question the model is asked about two claims whose verdicts are
        known, unless ``control`` is off. If it gets them wrong, every question is
        answered with that error.

        Raises:
            JudgeUnavailable: If the model cannot be prepared; nothing was sent.
        """
        if self._run_session is None:
            # Asked outside of a run: a copy of this judge gets a session of its own.
            return await self._for_one_call().answer(question)
        try:
            needed = guard_requests(self.model.form, question)
        except JudgeError as error:  # the model cannot be asked this kind of question
            return Answer(NotAnswered(error.with_traceback(None)))
        if not needed.requests:  # e.g. an answer without a claim
            return Answer(needed.make_reply(()))
        failure, usage = await self._ask_control_claims(self._run_session)
        if failure is not None:
            return Answer(NotAnswered(failure), usage)
        verdicts_with_cost = await gather_all(
            self._ask_in_windows(self._run_session, request)
            for request in needed.requests
        )
        verdicts_or_errors = []
        for verdict_or_error, cost in verdicts_with_cost:
            verdicts_or_errors.append(verdict_or_error)
            usage += cost
        return Answer(_reply(needed, verdicts_or_errors), usage)

    async def _ask_control_claims(
        self, session: Session
    ) -> tuple[JudgeError | None, Usage]:
        """Send the control, and return why the model cannot be used; None if it can.

        The control is two claims about one document: the document holds the first, but
        not the second. A sound model gives the verdicts [True, False]. A model that is
        served in a wrong way says the same of both, or gives no verdict. Such a failure
        is kept for the whole run. An error of a call, such as a timeout, is not kept: a
        later call may succeed.

        Returns:
            The failure, and what the control cost; stored replies count nothing.
        """
        if self._failure_of_control is not None or not self.control:
            return self._failure_of_control, Usage()
        outcomes_with_cost = await gather_all(
            self._ask_whole(session, request) for request in control_requests()
        )
        usage = Usage()
        for _, cost in outcomes_with_cost:
            if cost.calls:  # otherwise the reply was stored
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
        """Send a request; return the verdict or the error, and the cost.

        If the documents are too long, they are divided in two, again and again if need
        be. The best verdict counts: a claim that one half supports is supported.
        Example: four documents of 3,000 tokens, and room for 8,000: two requests with
        two documents each.
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
        # The results then say that the documents were divided.
        usage += Usage(fallbacks=("windows",))
        for _, cost in outcomes_with_cost:
            usage += cost
        return _best([outcome for outcome, _ in outcomes_with_cost]), usage

    async def _ask_whole(
        self, session: Session, request: GuardRequest
    ) -> tuple[GuardVerdict | JudgeError, Usage]:
        """Send a request with undivided documents; return verdict or error, and cost.

        Example: a verdict that the documents hold the claim, with 0.93, and the usage
        of one call. An error of the judge is returned, not raised.
        """
        await session.prepare()
        # A reply is stored under a digest of its request, so that the request must be
        # the same in every run. That is why it depends on the stated capabilities, and
        # not on what the session finds out about the endpoint.
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
        # The session has asked again already, with four times the tokens.
        if isinstance(outcome, CutOffReply):
            outcome = CutOffReply(
                f"the reply of {self.name} ends before its verdict, also with"
                " four times the tokens: start the server with the guard's own chat"
                " template, or raise GuardJudge(model, max_tokens=)",
                raw=outcome.raw,
            )
        if isinstance(outcome, JudgeError):
            # Without a traceback: it would keep the texts of the frames in memory.
            return outcome.with_traceback(None), answers.usage
        return outcome, answers.usage


def _reply(
    needed: GuardRequests, outcomes: Sequence[GuardVerdict | JudgeError]
) -> Asked[Any] | NotAnswered:
    """Return the reply to a question, or the error of a request without a verdict.

    Among several errors, an error that ends the run counts first.
    """
    verdicts = [outcome for outcome in outcomes if isinstance(outcome, GuardVerdict)]
    errors = [outcome for outcome in outcomes if isinstance(outcome, JudgeError)]
    for error in errors:
        if isinstance(error, JudgeUnavailable):
            return NotAnswered(error)
    if errors:
        return NotAnswered(errors[0])
    return needed.make_reply(verdicts)


def control_requests() -> tuple[GuardRequest, GuardRequest]:
    """Return the control: a claim that its document holds, and a claim that it does not."""
    documents = (_CONTROL_DOCUMENT,)
    return (
        GuardRequest("groundedness", documents, _CONTROL_HELD),
        GuardRequest("groundedness", documents, _CONTROL_FOREIGN),
    )


def _failed_control(model: GuardModel, verdicts: Sequence[bool]) -> JudgeUnavailable:
    """Return the error of a guard that judged the control claims wrongly."""
    verdict_on_held, verdict_on_foreign = verdicts
    return JudgeUnavailable(
        f"{model.name} at {model.address} does not judge what it is asked: it says"
        f" {_in_words(verdict_on_held)} of a claim that the document holds, and"
        f" {_in_words(verdict_on_foreign)} of a foreign one. {_HOW_TO_SERVE}"
    )


def _unusable_control(model: GuardModel, problem: UnusableReply) -> JudgeUnavailable:
    return JudgeUnavailable(
        f"{model.name} at {model.address} gave no verdict on a control claim: {problem}."
        f" {_HOW_TO_SERVE}"
    )


def _in_words(holds: bool) -> str:
    return '"held"' if holds else '"not held"'


def _best(outcomes: Sequence[GuardVerdict | JudgeError]) -> GuardVerdict | JudgeError:
    """Make one verdict from the verdicts on several windows: one yes is enough.

    - If any window gave a yes: yes.
    - Else, if a window gave an error: that error, since this window might give a yes.
    - Else: no.

    The probability is the highest of all windows; None if a window has none. Example:
    a no with 0.2 and a yes with 0.9 make a yes with 0.9, from two windows.
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


# How replies are read


def read_verdict(form: GuardForm, choice: Choice) -> GuardVerdict:
    """Read a guard's reply: its verdict, and how probable the favourable word was.

    The probability is read from the tokens of the reply. The verdict is favourable if
    it is above 0.5. Example: the guard wrote "No", and its tokens give "Yes" 0.45: the
    verdict is no, with 0.45. In two cases the probability is None, and the word that
    the guard wrote gives the verdict:

    - The tokens do not hold the probability.
    - The guard reasoned first. The word then follows from the reasoning, and its
      probability means nothing.

    Args:
        form: How this family of guards replies, and which of its words is favourable.
        choice: The reply.

    Raises:
        UnusableReply: If the reply is not one word in the guard's form; see ``word_of``.
    """
    guard_word = word_of(form, choice)
    holds = guard_word.word == form.favourable
    if guard_word.after_thinking or _has_hidden_thoughts(choice):
        return GuardVerdict(holds, None)
    wanted_probability = LabelProbability(
        "word", positive=form.favourable, labels=_WORDS
    )
    weights = weights_at(choice, [guard_word.start], wanted_probability, "logprobs")
    weight = weights[0] if weights else None
    if weight is None:
        return GuardVerdict(holds, None)
    # ``weight.p`` is the probability of the favourable word. The more probable word
    # counts, even if the guard wrote the other one.
    return GuardVerdict(weight.p > 0.5, weight.p)


def _has_hidden_thoughts(choice: Choice) -> bool:
    """Whether the tokens hold a reasoning that the text of the reply does not show.

    Some servers take the reasoning out of the text, and leave its tokens.
    """
    tokens = "".join(token.token for token in choice.tokens)
    before, _, _ = tokens.rpartition(choice.text.strip())
    return bool(_TAGS_OF_THINKING.sub("", before))


# How questions become requests


def guard_requests(form: GuardForm, question: Question[Any]) -> GuardRequests:
    """Return the requests to a guard that stand for a question.

    Raises:
        QuestionNotSupported: If guards of this form cannot be asked the question. The
            message says what to do.
    """
    kind = type(question)
    own_template = question.typed_form is None
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


def _about_answer(question: Question[Any]) -> GuardRequests:
    """Ask about each claim of an answer, beside all contexts.

    The contexts come in an order that does not depend on their rank.
    """
    parts = parts_of(question["answer"], user_question_of(question))
    documents = order_of_digest(question["answer"], question["contexts"])
    requests = tuple(
        GuardRequest("groundedness", documents, claim) for claim in parts.claims
    )
    return GuardRequests(requests, partial(_poll, parts))


def _poll(parts: AnswerParts, verdicts: Sequence[GuardVerdict]) -> Asked[Poll]:
    """Make the reply to "is the answer adherent?" from the verdicts on its claims.

    - Without a claim, the reply abstains.
    - It is yes if the contexts hold every claim, and no otherwise.

    The weight of the reply is the probability of the weakest claim. Example: claims
    with .9 and .2: no, with the weight .2.

    Args:
        parts: The claims of the answer, and its other parts.
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
        # In how many windows a long document was read, one number for the one reply;
        # () if no document was divided.
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
    """Return the claims with their probabilities, then the answer's other parts.

    Args:
        parts: The claims of the answer, and its other parts.
        probabilities: The probability of each claim; empty if they are not known.
    """
    if not probabilities:
        # A claim without a probability would count as a part that claims nothing.
        return ()
    claims = [
        ClaimSupport(text=claim, probability=chance)
        for claim, chance in zip(parts.claims, probabilities, strict=True)
    ]
    other_parts = [ClaimSupport(text=text) for text in parts.others]
    return (*claims, *other_parts)


def _about_facts(question: Question[Any]) -> GuardRequests:
    """Ask about each fact, beside the context."""
    is_about_several = "facts" in question.parts
    part_name = "facts" if is_about_several else "fact"
    documents = (question["context"],)
    requests = tuple(
        GuardRequest("groundedness", documents, fact)
        for fact in question.parts[part_name].texts
    )
    make_reply = partial(
        _reply_about_texts,
        question,
        part_name,
        "covered",
        is_about_several=is_about_several,
    )
    return GuardRequests(requests, make_reply)


def _about_chunks(question: Question[Any]) -> GuardRequests:
    """Ask about each chunk, beside the user's question.

    If the application has rewritten the question, the rewritten one is shown.

    Raises:
        QuestionNotSupported: If there is no user's question, or grades are wanted.
    """
    user_question = user_question_of(question)
    if user_question is None or "grade" in _fields_of_verdicts(question):
        raise QuestionNotSupported(
            "a guard says whether a chunk is relevant to a question, and gives no"
            " grades: take relevance='binary', or a language model"
        )
    is_about_several = "chunks" in question.parts
    part_name = "chunks" if is_about_several else "chunk"
    requests = tuple(
        GuardRequest("context_relevance", (chunk,), user_question)
        for chunk in question.parts[part_name].texts
    )
    make_reply = partial(
        _reply_about_texts,
        question,
        part_name,
        "useful",
        is_about_several=is_about_several,
    )
    return GuardRequests(requests, make_reply)


def _fields_of_verdicts(question: Question[Any]) -> frozenset[str]:
    """Return the names of the fields in a reply to a question."""
    schema = question.Reply.model_json_schema()
    names: set[str] = set()
    for definition in (schema, *schema.get("$defs", {}).values()):
        names.update(definition.get("properties", {}))
    return frozenset(names)


def _reply_about_texts(
    question: Question[Any],
    part_name: str,
    verdict_field: str,
    verdicts: Sequence[GuardVerdict],
    *,
    is_about_several: bool,
) -> Asked[Any]:
    """Make the reply to a question about facts or chunks from the verdict on each text.

    Example: of two facts the contexts hold the first: the reply says "covered": 1 of
    the first fact, and "covered": 0 of the second.

    Args:
        question: The question.
        part_name: The part of the question that holds the texts, e.g. "facts".
        verdict_field: The field of the reply that is 1 or 0, e.g. "covered".
        verdicts: The guard's verdict on each text of the part.
        is_about_several: Whether the question is about a list of texts. Its reply is
            then a list of verdicts under the name of the part; else a single verdict.
    """
    labels = question.parts[part_name].labels
    verdicts_as_data = [
        {"label": label, verdict_field: int(verdict.holds), "reason": _reason(verdict)}
        for label, verdict in zip(labels, verdicts, strict=True)
    ]
    if is_about_several:
        reply = question.read({part_name: verdicts_as_data})
    else:
        reply = question.read(verdicts_as_data[0])
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
    """Return the probabilities of all verdicts; [] if a verdict has none."""
    known = [verdict.probability for verdict in verdicts]
    if None in known:
        return []
    return [chance for chance in known if chance is not None]
