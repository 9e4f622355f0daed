"""A LangChain chain over a real corpus, evaluated: the documentation of ragmetrics, asked with reference answers.

    python examples/langchain_chain.py

Runs without key and network: `PagesRetriever` and `QuotingModel` stand in for your
vector store and chat model. Nothing in the chain knows that it is evaluated.
"""

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_ragmetrics import capture
from langchain_stand_ins import PagesRetriever, QuotingModel
from own_docs import QUESTIONS

prompt = ChatPromptTemplate.from_template(
    "Answer from these pages only.\n\n{context}\n\nQuestion: {question}"
)
chain = (
    {
        "context": (
            PagesRetriever()
            | (lambda pages: "\n\n".join(page.page_content for page in pages))
        ),
        "question": RunnablePassthrough(),
    }
    | prompt
    | QuotingModel()
    | StrOutputParser()
)

with capture() as captured:
    for question, reference in QUESTIONS:
        chain.invoke(
            question, config={"metadata": {"ragmetrics": {"reference": reference}}}
        )

# or judge="gpt-4o-mini", or judge=your_chat_model
report = captured.evaluate(judge="lexical")
print(report.table())
