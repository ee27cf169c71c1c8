// Spans of whole runs as text: every trace as a tree, with the attributes, events and links of each
// span. Ids are numbered in the order of their appearance.

import type { RecordedSpan } from "./telemetry/recorded-spans.ts";

/** Said by the tree, by the name, or by every span alike: `span-laws.test.ts` sees to them. */
const UNSAID = new Set([
  "espalier.agent.depth",
  "espalier.agent.id",
  "espalier.agent.parent_id",
  "espalier.agent.path",
  "espalier.event.seq",
  "espalier.execution.id",
  "espalier.limits.max_breadth_per_parent",
  "espalier.limits.max_depth",
  "espalier.limits.max_total_subagents",
  "espalier.run.id",
  "espalier.spawn.inherited_hash",
  "espalier.spawn.injected_hash",
  "espalier.step.id",
  "gen_ai.agent.description",
  "gen_ai.operation.name",
  "gen_ai.tool.description",
  "gen_ai.tool.name",
  "gen_ai.tool.type",
]);
/** Absent values are omitted. */
const NOTHING = new Set(["0", "false", "[]"]);

/**
 * Returns all traces of some runs, in the order of their beginnings, independent of the order in
 * which spans arrived.
 */
export function goldenSpans(spans: readonly RecordedSpan[]): string {
  const ordered = spans.toSorted(
    (left, right) =>
      seqOf(left) - seqOf(right) || left.startMs - right.startMs || byName(left, right),
  );
  const traceIds = [...new Set(ordered.map(({ traceId }) => traceId))];
  const numbers = new Map(
    ordered.map(({ traceId, spanId }, index) => [`${traceId} ${spanId}`, index + 1]),
  );
  const said = (traceId: string, spanId: string): string => {
    const number = numbers.get(`${traceId} ${spanId}`);
    return number === undefined ? "a span elsewhere" : `span ${number}`;
  };
  const lines = traceIds.flatMap((traceId, index) => {
    const own = ordered.filter((span) => span.traceId === traceId);
    const known = new Set(own.map(({ spanId }) => spanId));
    const childrenOf = (parentId: string | undefined): readonly RecordedSpan[] =>
      own.filter(({ parentSpanId }) =>
        parentId === undefined
          ? parentSpanId === undefined || !known.has(parentSpanId)
          : parentSpanId === parentId,
      );
    const tree = (parentId: string | undefined, indent: string): readonly string[] =>
      childrenOf(parentId).flatMap((span) => [
        ...told(span, indent, { traceIds, said }),
        ...tree(span.spanId, `${indent}  `),
      ]);
    return [`trace ${index + 1}`, ...tree(undefined, "  ")];
  });
  return `${lines.join("\n")}\n`;
}

interface Names {
  readonly traceIds: readonly string[];
  readonly said: (traceId: string, spanId: string) => string;
}

function told(span: RecordedSpan, indent: string, { traceIds, said }: Names): readonly string[] {
  const { traceId, spanId, parentSpanId, name, kind, status } = span;
  const isLost = parentSpanId !== undefined && said(traceId, parentSpanId) === "a span elsewhere";
  const head = [
    `${said(traceId, spanId)}: ${name}`,
    kind === "INTERNAL" ? "" : kind,
    `${span.startMs}–${span.endMs}`,
    status === "UNSET" ? "" : status,
    isLost ? "below a span elsewhere" : "",
  ];
  return [
    `${indent}${head.filter((word) => word !== "").join(" ")}`,
    ...lines(span.attributes, traceIds).map((line) => `${indent}  ${line}`),
    ...span.events.map(
      ({ name: what, atMs, attributes }) =>
        `${indent}  * ${atMs} ${[what, ...attributeLines(attributes, traceIds)].join(" ")}`,
    ),
    ...span.links.map(
      (link) =>
        `${indent}  → ${said(link.traceId, link.spanId)} ${attributeLines(link.attributes, traceIds).join(" ")}`,
    ),
  ];
}

/** Returns a line for names of the conventions, and a line for our own names. */
function lines(
  attributes: Readonly<Record<string, unknown>>,
  traceIds: readonly string[],
): readonly string[] {
  const said = attributeLines(attributes, traceIds);
  const own = said.filter((line) => line.startsWith("espalier."));
  const common = said.filter((line) => !own.includes(line));
  return [common, own].filter((group) => group.length > 0).map((group) => `. ${group.join(" ")}`);
}

function attributeLines(
  attributes: Readonly<Record<string, unknown>>,
  traceIds: readonly string[],
): readonly string[] {
  return Object.entries(attributes)
    .filter(([name]) => !UNSAID.has(name))
    .toSorted(([left], [right]) => (left < right ? -1 : 1))
    .map(([name, value]) => [name, valueOf(value, traceIds)] as const)
    .filter(([, value]) => !NOTHING.has(value))
    .map(([name, value]) => `${name}=${value}`);
}

function valueOf(value: unknown, traceIds: readonly string[]): string {
  if (typeof value === "string" && traceIds.includes(value))
    return `trace ${traceIds.indexOf(value) + 1}`;
  return JSON.stringify(value);
}

function seqOf({ attributes }: RecordedSpan): number {
  return Number(attributes["espalier.event.seq"]);
}

function byName({ name: left }: RecordedSpan, { name: right }: RecordedSpan): number {
  if (left === right) return 0;
  return left < right ? -1 : 1;
}
