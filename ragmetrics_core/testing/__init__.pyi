from ragmetrics_core.testing.adapter_contract import AdapterContract as AdapterContract
from ragmetrics_core.testing.adapter_contract import GoldenTurn as GoldenTurn
from ragmetrics_core.testing.assertions import UndecidedWarning as UndecidedWarning
from ragmetrics_core.testing.assertions import assert_score as assert_score
from ragmetrics_core.testing.chat_model_contract import (
    ChatModelContract as ChatModelContract,
)
from ragmetrics_core.testing.loopback import LoopbackServer as LoopbackServer
from ragmetrics_core.testing.metric_contract import MetricContract as MetricContract
