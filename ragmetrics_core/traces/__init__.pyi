from ragmetrics_core.traces.live import SampleProcessor as SampleProcessor
from ragmetrics_core.traces.notes import Notes as Notes
from ragmetrics_core.traces.reader import SpanSamples as SpanSamples
from ragmetrics_core.traces.reader import samples_from_spans as samples_from_spans
