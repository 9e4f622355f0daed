from ragmetrics_core.measured_use.measuring import SameAnswer as SameAnswer
from ragmetrics_core.measured_use.measuring import SameReply as SameReply
from ragmetrics_core.measured_use.measuring import calls_needed as calls_needed
from ragmetrics_core.measured_use.measuring import measure_use as measure_use
from ragmetrics_core.measured_use.prompts import KeptPrompt as KeptPrompt
from ragmetrics_core.measured_use.prompts import NotMeasurable as NotMeasurable
from ragmetrics_core.measured_use.prompts import kept_prompt as kept_prompt
