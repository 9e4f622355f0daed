from ragmetrics_core.data.asking import LabelProbability as LabelProbability
from ragmetrics_core.data.asking import Question as Question
from ragmetrics_core.data.asking import ask as ask
from ragmetrics_core.data.errors import RagMetricsError as RagMetricsError
from ragmetrics_core.data.results import Failed as Failed
from ragmetrics_core.data.results import Scored as Scored
from ragmetrics_core.data.results import Undefined as Undefined
from ragmetrics_core.data.sample import Sample as Sample
from ragmetrics_core.data.sample_parts import Context as Context
from ragmetrics_core.data.sample_parts import Fact as Fact
from ragmetrics_core.data.sample_parts import Turn as Turn
from ragmetrics_core.encoders.encoder_judge import EncoderJudge as EncoderJudge
from ragmetrics_core.engine.evaluation import aevaluate as aevaluate
from ragmetrics_core.engine.evaluation import evaluate as evaluate
from ragmetrics_core.engine.evaluation import iter_results as iter_results
from ragmetrics_core.judging.decision_judge import DecisionJudge as DecisionJudge
from ragmetrics_core.judging.judge import Judge as Judge
from ragmetrics_core.judging.judge import ScriptedJudge as ScriptedJudge
from ragmetrics_core.judging.llm import LLMJudge as LLMJudge
from ragmetrics_core.lexical.lexical_judge import LexicalJudge as LexicalJudge
from ragmetrics_core.metrics.answer_relevance import AnswerRelevance as AnswerRelevance
from ragmetrics_core.metrics.citation_quality import CitationQuality as CitationQuality
from ragmetrics_core.metrics.context_adherence import (
    ContextAdherence as ContextAdherence,
)
from ragmetrics_core.metrics.context_recall import ContextRecall as ContextRecall
from ragmetrics_core.metrics.context_sufficiency import (
    ContextSufficiency as ContextSufficiency,
)
from ragmetrics_core.metrics.context_utilization import (
    ContextUtilization as ContextUtilization,
)
from ragmetrics_core.metrics.criterion import Criterion as Criterion
from ragmetrics_core.metrics.metric import Metric as Metric
from ragmetrics_core.metrics.metric import metric as metric
from ragmetrics_core.metrics.retrieval_accuracy import (
    RetrievalAccuracy as RetrievalAccuracy,
)
from ragmetrics_core.metrics.retrieval_ranking import (
    RetrievalRanking as RetrievalRanking,
)
from ragmetrics_core.models.chat import ChatModel as ChatModel
from ragmetrics_core.models.compatible_model import (
    OpenAICompatibleModel as OpenAICompatibleModel,
)
from ragmetrics_core.models.limits import Limits as Limits
from ragmetrics_core.models.litellm_model import LiteLLMModel as LiteLLMModel
from ragmetrics_core.models.reply_store import ReplyStore as ReplyStore
from ragmetrics_core.reporting.gates import Gate as Gate
from ragmetrics_core.reporting.gates import decide as decide
from ragmetrics_core.reporting.report import Report as Report
from ragmetrics_core.reporting.report import Sink as Sink
