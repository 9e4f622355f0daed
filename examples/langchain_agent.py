"""A LangChain agent with a retrieval tool, evaluated in the background by a callback.

    python examples/langchain_agent.py

Runs without key and network; needs `pip install langchain`. The agent decides itself
when to search; question, documents and answer are found in its runs.
"""

from langchain.agents import create_agent
from langchain_core.tools import create_retriever_tool
from langchain_ragmetrics import RagMetricsCallback
from langchain_stand_ins import PagesRetriever, QuotingModel

search = create_retriever_tool(
    PagesRetriever(),
    "search_documentation",
    "Searches the documentation of ragmetrics.",
)
agent = create_agent(QuotingModel(), [search])

evaluator = RagMetricsCallback(
    metrics=["context_adherence", "context_utilization"], judge="lexical"
)
for question in (
    "When is Context Adherence undefined?",
    "What does the embedded judge compare?",
):
    agent.invoke({"messages": [("user", question)]}, config={"callbacks": [evaluator]})

report = evaluator.report()  # waits for the judge; the agent never did
print(report.table())
for result in report.results:
    print(result.sample.question, "→", result.sample.answer)
