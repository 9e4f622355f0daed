from ragmetrics_core.measured_use.measuring import KeptPrompt as KeptPrompt
from ragmetrics_core.measured_use.measuring import NotMeasurable as NotMeasurable
from ragmetrics_core.measured_use.measuring import SameAnswer as SameAnswer
from ragmetrics_core.measured_use.measuring import SameReply as SameReply
from ragmetrics_core.measured_use.measuring import calls_needed as calls_needed
from ragmetrics_core.measured_use.measuring import kept_prompt as kept_prompt
from ragmetrics_core.measured_use.measuring import measure_use as measure_use
