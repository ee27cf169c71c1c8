// Renders spans as an indented tree of text, which is readable without running anything. Siblings
// are in the order of their start.

/** The fields of a span that the renderer needs. */
export interface PlainSpan {
  readonly name: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly status: "UNSET" | "OK" | "ERROR";
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly events: readonly { readonly name: string }[];
  readonly startMs: number;
  readonly endMs: number;
}

/**
 * Returns one line for each span: name, start and end in ms since `originMs`, status if it is
 * ERROR, the requested attributes, and the names of its events in brackets. A span whose parent is
 * missing is a root.
 */
export function spanTree(
  spans: readonly PlainSpan[],
  options: { readonly originMs: number; readonly attributes: readonly string[] },
): string {
  const known = new Set(spans.map((span) => span.spanId));
  const ordered = spans.toSorted((left, right) => left.startMs - right.startMs);
  const childrenOf = (parent: PlainSpan): readonly PlainSpan[] =>
    ordered.filter((span) => span.parentSpanId === parent.spanId);
  const lines = (span: PlainSpan, indent: string): readonly string[] => [
    `${indent}${line(span, options)}`,
    ...childrenOf(span).flatMap((child) => lines(child, `${indent}  `)),
  ];
  const roots = ordered.filter(
    (span) => span.parentSpanId === undefined || !known.has(span.parentSpanId),
  );
  return roots.flatMap((root) => lines(root, "")).join("\n");
}

function line(
  span: PlainSpan,
  options: { readonly originMs: number; readonly attributes: readonly string[] },
): string {
  const from = Math.round(span.startMs - options.originMs);
  const to = Math.round(span.endMs - options.originMs);
  const parts = [span.name, `${from}–${to}`];
  if (span.status === "ERROR") parts.push("ERROR");
  for (const name of options.attributes) {
    const value = span.attributes[name];
    if (value === undefined) continue;
    const shortName = name.slice(name.indexOf(".") + 1);
    parts.push(`${shortName}=${typeof value === "string" ? value : JSON.stringify(value)}`);
  }
  if (span.events.length > 0) parts.push(`[${span.events.map((event) => event.name).join(", ")}]`);
  return parts.join(" ");
}
