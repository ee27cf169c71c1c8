// The OTLP endpoint of every measurement, in a process of its own: `span-sink.ts <mode>`. Keeps what comes as it is, and reads it only
// when it is sent a message: it then says what arrived since the last one. Prints its address when it listens; ends with its parent.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { setTimeout as pause } from "node:timers/promises";

/** `ok` takes spans; `slow` takes them, and answers late; `hang` never answers; `unavailable` answers 503; `refuse` does not listen. */
const [mode = "ok"] = process.argv.slice(2);
const SLOW_MS = 200;
const OPERATION = "gen_ai.operation.name";
const RUN = "espalier.run.id";
const AGENT = "espalier.agent.id";

interface Span {
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly attributes: readonly {
    readonly key: string;
    readonly value: { readonly stringValue?: string };
  }[];
}

interface Request {
  readonly resourceSpans: readonly {
    readonly scopeSpans: readonly { readonly spans: readonly Span[] }[];
  }[];
}

let bodies: Buffer[] = [];

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) if (Buffer.isBuffer(chunk)) chunks.push(chunk);
  if (mode === "hang") return;
  if (mode === "unavailable") {
    response.writeHead(503).end();
    return;
  }
  bodies.push(Buffer.concat(chunks));
  if (mode === "slow") await pause(SLOW_MS);
  response.writeHead(200, { "content-type": "application/json" }).end("{}");
}

function isRequest(value: unknown): value is Request {
  return typeof value === "object" && value !== null && "resourceSpans" in value;
}

function spansIn(body: Buffer): readonly Span[] {
  const request: unknown = JSON.parse(body.toString());
  if (!isRequest(request)) throw new Error("Expected spans as OTLP in JSON.");
  return request.resourceSpans.flatMap(({ scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) => spans),
  );
}

/** What arrived since this was last asked. */
function arrived(): object {
  const spans = bodies.flatMap((body) => spansIn(body));
  bodies = [];
  const known = new Set(spans.map(({ spanId }) => spanId));
  const count = (operation: string): number =>
    spans.filter((span) => valueOf(span, OPERATION) === operation).length;
  // A run above 5,000 spans continues in further traces: it, and its agents that are at work then, have a span in each of them.
  const distinct = (operation: string, id: string): number =>
    new Set(
      spans
        .filter((span) => valueOf(span, OPERATION) === operation)
        .map((span) => `${valueOf(span, RUN)} ${valueOf(span, id)}`),
    ).size;
  const runs = distinct("invoke_workflow", RUN);
  const agents = distinct("invoke_agent", AGENT);
  const again = count("invoke_workflow") - runs + count("invoke_agent") - agents;
  return {
    spans: spans.length,
    again,
    orphans: spans.filter(
      ({ parentSpanId }) => parentSpanId !== undefined && !known.has(parentSpanId),
    ).length,
    runs,
    agents,
    modelCalls: count("chat"),
    toolCalls: count("execute_tool"),
  };
}

function valueOf({ attributes }: Span, name: string): string | undefined {
  return attributes.find(({ key }) => key === name)?.value.stringValue;
}

const server = createServer((request, response) => void serve(request, response));
server.keepAliveTimeout = 60_000;
process.on("message", () => process.send?.(arrived()));
process.on("disconnect", () => process.exit(0));
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  if (address === null || typeof address !== "object") return;
  const say = (): unknown => process.stdout.write(`http://127.0.0.1:${address.port}\n`);
  if (mode === "refuse") server.close(say);
  else say();
});
