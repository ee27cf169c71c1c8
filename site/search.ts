// How the search of the site reads a query and ranks pages. Both functions are sent to the browser as text: neither may use anything outside of itself.

/** Splits a query into terms, without stop words, and adds the words of our pages to the words that readers use for the same thing. */
export function tokenizeQuery(query: string): string[] {
  const stopWords = new Set(
    "a an and are by can do for from how i in is it my of on or the to what when with".split(" "),
  );
  const synonyms: readonly (readonly [words: string, ours: string])[] = [
    ["human in the loop|hitl|approval|confirm|confirmation", "human loop approvals questions"],
    ["cost|costs|price|pricing|money|spend|spending|dollars|billing", "budgets costusd prices"],
    ["resume|restart|continue|checkpoint|checkpoints", "resume crash recovery"],
    ["max turns|maxturns|max steps|max iterations|recursion limit", "budgets limits steps"],
    ["handoff|handoffs|multi agent|supervisor|swarm|crew", "subagents delegation"],
    ["memory|chat history|conversation|thread|threads", "sessions"],
    ["context window|compaction|summarize", "context compaction"],
    ["abort|kill|stop|timeout|timeouts", "cancellation stop"],
    ["observability|tracing|langfuse|opentelemetry|otel", "telemetry traces"],
    ["retry|retries|backoff", "retries errors"],
    ["structured output|structured outputs|json mode|json schema", "structured results"],
    ["moderation|guardrail", "guardrails guards"],
    ["rate limit|rate limits|429|throttle", "models limits"],
    ["vision|image|pdf|multimodal", "images files"],
    ["mock|unit test|evals", "testing agents"],
    ["vercel", "ai sdk"],
    ["deploy|worker|workers|queue|kubernetes", "machine scale service"],
    ["dashboard|ui|debug", "viewer inspect"],
  ];
  const words = query
    .toLowerCase()
    .split(/[^\p{L}\p{N}_]+/u)
    .filter((word) => word !== "");
  const text = ` ${words.join(" ")} `;
  const added = synonyms.flatMap(([said, ours]) =>
    said.split("|").some((phrase) => text.includes(` ${phrase} `)) ? ours.split(" ") : [],
  );
  const terms = words.filter((word) => !stopWords.has(word));
  return [...new Set(terms.length > 0 ? [...terms, ...added] : words)];
}

/** Returns the factor of a page's rank: guides before concepts, both before the reference, and history last. */
export function boostPage(id: string): number {
  if (id.startsWith("/guides/")) return 3;
  if (id.startsWith("/reference/")) return 0.8;
  if (/^\/(?:decisions|examples|bench|src|test|scripts)\//.test(id)) return 0.2;
  if (
    /^\/(?:CHANGELOG|CONTRIBUTING|SECURITY|VERSIONING|REVIEW|DESIGN|BENCHMARKS|invariants|glossary)\b/.test(
      id,
    )
  )
    return 0.3;
  return 2.5;
}
