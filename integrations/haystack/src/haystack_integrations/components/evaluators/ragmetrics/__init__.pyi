from haystack_integrations.components.evaluators.ragmetrics.capturing import (
    capture as capture,
)
from haystack_integrations.components.evaluators.ragmetrics.capturing import (
    samples_from as samples_from,
)
from haystack_integrations.components.evaluators.ragmetrics.capturing import (
    watch as watch,
)
from haystack_integrations.components.evaluators.ragmetrics.evaluator import (
    RagMetricsEvaluator as RagMetricsEvaluator,
)
from haystack_integrations.components.evaluators.ragmetrics.model import (
    HaystackModel as HaystackModel,
)
