// Lets a search for an option of the command line, such as --fail-under, find it by its words.
// The search engine reads a hyphen before a word as "without this word".
(() => {
  const QUERY = 2; // the type of the message that asks the worker for results
  const post = Worker.prototype.postMessage;
  const wordsOf = (query) =>
    query.replace(/(^|\s)--?(\w[\w-]*)/g, (_, space, name) =>
      space + name.split("-").filter(Boolean).map((word) => "+" + word).join(" "));
  Worker.prototype.postMessage = function (message, ...others) {
    const isQuery = message?.type === QUERY && typeof message.data === "string";
    const sent = isQuery ? { ...message, data: wordsOf(message.data) } : message;
    return post.call(this, sent, ...others);
  };
})();
