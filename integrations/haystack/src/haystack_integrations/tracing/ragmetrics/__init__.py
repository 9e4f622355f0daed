"""Recording runs of Haystack pipelines and agents."""

from haystack_integrations.tracing.ragmetrics.nodes import Run as Run
from haystack_integrations.tracing.ragmetrics.recorder import Tee as Tee
