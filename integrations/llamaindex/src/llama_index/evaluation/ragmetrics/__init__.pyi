from llama_index.evaluation.ragmetrics.evaluators import (
    AnswerRelevanceEvaluator as AnswerRelevanceEvaluator,
)
from llama_index.evaluation.ragmetrics.evaluators import (
    CitationQualityEvaluator as CitationQualityEvaluator,
)
from llama_index.evaluation.ragmetrics.evaluators import (
    ContextAdherenceEvaluator as ContextAdherenceEvaluator,
)
from llama_index.evaluation.ragmetrics.evaluators import (
    ContextRecallEvaluator as ContextRecallEvaluator,
)
from llama_index.evaluation.ragmetrics.evaluators import (
    ContextSufficiencyEvaluator as ContextSufficiencyEvaluator,
)
from llama_index.evaluation.ragmetrics.evaluators import (
    ContextUtilizationEvaluator as ContextUtilizationEvaluator,
)
from llama_index.evaluation.ragmetrics.evaluators import (
    RetrievalAccuracyEvaluator as RetrievalAccuracyEvaluator,
)
from llama_index.evaluation.ragmetrics.recording.recorder import capture as capture
from llama_index.evaluation.ragmetrics.recording.recorder import (
    samples_from as samples_from,
)
from llama_index.evaluation.ragmetrics.recording.recorder import watch as watch
