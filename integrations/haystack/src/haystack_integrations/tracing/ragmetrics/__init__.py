"""Recording runs of Haystack pipelines and agents, and making samples of them."""

from haystack_integrations.tracing.ragmetrics.nodes import Run as Run
from haystack_integrations.tracing.ragmetrics.recorder import Tee as Tee
from haystack_integrations.tracing.ragmetrics.samples import samples_from as samples_from
