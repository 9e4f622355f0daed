"""A chain over a real corpus, evaluated: the documentation of ragmetrics, asked with reference answers.

Runs without key and network: `PagesRetriever` and `QuotingModel` stand in for your vector store and chat model.
Nothing in the chain knows that it is evaluated.
"""

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_ragmetrics import capture
from langchain_ragmetrics.demo import PagesRetriever, QuotingModel

REFERENCES = {
    "What is a sample?": "A sample is one turn of an application: question, contexts, answer and reference.",
    "Where do all judge calls run?": "All judge calls run on one event loop in a daemon thread.",
    "What does a failed result carry?": "A failed result carries a typed error.",
}

prompt = ChatPromptTemplate.from_template("Answer from these pages only.\n\n{context}\n\nQuestion: {question}")
chain = (
    {
        "context": PagesRetriever() | (lambda pages: "\n\n".join(page.page_content for page in pages)),
        "question": RunnablePassthrough(),
    }
    | prompt
    | QuotingModel()
    | StrOutputParser()
)

with capture() as captured:
    for question, reference in REFERENCES.items():
        chain.invoke(question, config={"metadata": {"ragmetrics": {"reference": reference}}})

report = captured.evaluate(judge="lexical")  # or judge="gpt-4o-mini", or judge=your_chat_model
print(report.table())
