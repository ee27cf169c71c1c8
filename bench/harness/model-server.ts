// The models' side of every workload, in a process of its own: a server that speaks Chat Completions, whose replies follow from the
// request alone. Prints its address when it listens; ends with its parent.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { setTimeout as pause } from "node:timers/promises";

import {
  GREEDY_LEVELS,
  requestedWork,
  roleName,
  type RequestedWork,
} from "../workloads/agent-work.ts";
import { ENDLESS_KINDS, endlessPiece } from "../workloads/endless.ts";
import { responseEvents } from "../workloads/responses.ts";

/** Replies that are held back until `/release`. */
const held: (() => void)[] = [];
/** Calls that are in flight now, and at most since they were last asked for. */
let inFlight = 0;
let mostInFlight = 0;
/** What greedy agents had, and how deep below the first one they were. */
const greed = { replies: 0, tokens: 0, depth: 0 };
/** Then a greedy agent says that it is done. */
const MOST_GREEDY_REPLIES = 200;

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) if (Buffer.isBuffer(chunk)) chunks.push(chunk);
  return Buffer.concat(chunks).toString("latin1");
}

/** Tool results in the history; calls are numbered from 0, so the last one's number says it. */
function resultsIn(body: string): number {
  const marker = '"tool_call_id":"call_';
  const last = body.lastIndexOf(marker);
  return last === -1 ? 0 : Number.parseInt(body.slice(last + marker.length), 10) + 1;
}

function replyTo(work: RequestedWork, body: string): object {
  const { kind, count, level } = work;
  const results = resultsIn(body);
  if (kind === "greedy") return greedyReply(work, body);
  if (kind === "lead" && results === 0)
    return message({
      tool_calls: Array.from({ length: count }, (_value, index) =>
        toolCall(index, "SpawnSubagent", { role: roleName(level - 1), task: `Part ${index}` }),
      ),
    });
  if (kind === "tools" && results < count)
    return message({ tool_calls: [toolCall(results, "add", { a: results, b: 1 })] });
  return message({ content: "The work is done." });
}

/** Whatever was said to it. */
function greedyReply({ count, level }: RequestedWork, body: string): object {
  greed.replies += 1;
  greed.depth = Math.max(greed.depth, GREEDY_LEVELS - level);
  const input = tokensOf(JSON.parse(body));
  const usage = { prompt_tokens: input, completion_tokens: 100, total_tokens: input + 100 };
  greed.tokens += usage.total_tokens;
  if (level === 0 || greed.replies >= MOST_GREEDY_REPLIES)
    return { ...message({ content: "Enough." }), usage };
  const calls = Array.from({ length: count }, (_none, index) => {
    const part = `${greed.replies}.${index}`;
    return toolCall(part, "SpawnSubagent", { role: roleName(level - 1), task: `Part ${part}` });
  });
  return { ...message({ tool_calls: calls }), usage };
}

/** As a tokenizer has it, roughly: four characters of a text, four tokens around each message. What JSON adds is not read by a model. */
function tokensOf(value: unknown): number {
  if (typeof value === "string") return Math.ceil(value.length / 4);
  if (typeof value !== "object" || value === null) return 0;
  const around = "role" in value ? 4 : 0;
  const parts: readonly unknown[] = Object.values(value);
  return parts.reduce<number>((sum, part) => sum + tokensOf(part), around);
}

function toolCall(index: number | string, name: string, input: object): object {
  const call = { name, arguments: JSON.stringify(input) };
  return { id: `call_${index}`, type: "function", function: call };
}

const USAGE = { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 };

function message(said: { readonly tool_calls?: object[]; readonly content?: string }): object {
  const reply = { role: "assistant", refusal: null, content: null, ...said };
  const reason = said.tool_calls === undefined ? "stop" : "tool_calls";
  return {
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 0,
    model: "bench",
    choices: [{ index: 0, message: reply, finish_reason: reason, logprobs: null }],
    usage: USAGE,
  };
}

function chunk(delta: object, finishReason: string | null = null): string {
  const choices = [{ index: 0, delta, logprobs: null, finish_reason: finishReason }];
  return streamed({ choices, usage: null });
}

function streamed(fields: object): string {
  const head = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 0, model: "bench" };
  return `data: ${JSON.stringify({ ...head, ...fields })}\n\n`;
}

/** The first piece at once, then all others in one burst. */
function stream(count: number, response: ServerResponse): void {
  const first = chunk({ role: "assistant", content: "" }) + chunk({ content: "One" });
  const others = chunk({ content: " more" }).repeat(count - 1);
  const end = `${chunk({}, "stop")}${streamed({ choices: [], usage: USAGE })}data: [DONE]\n\n`;
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(first);
  setImmediate(() => response.end(others + end));
}

async function answer(work: RequestedWork, body: string, response: ServerResponse): Promise<void> {
  if (work.latencyMs > 0) await pause(work.latencyMs);
  if (work.kind === "hold") await new Promise<void>((resolve) => held.push(resolve));
  if (work.kind === "stream") return stream(work.count, response);
  const reply = JSON.stringify(replyTo(work, body));
  response.writeHead(200, { "content-type": "application/json" }).end(reply);
}

/** Never ends, but with its connection. */
function pour(kind: string | undefined, response: ServerResponse): void {
  const known = ENDLESS_KINDS.find((one) => one === kind);
  const type = kind === "json" ? "application/json" : "text/event-stream";
  response.writeHead(200, { "content-type": type });
  if (known === undefined) {
    response.end(`${chunk({ content: "Done." }, "stop")}data: [DONE]\n\n`);
    return;
  }
  const piece = endlessPiece(known);
  const goOn = (): void => {
    while (response.writable && response.write(piece));
  };
  response.on("drain", goOn);
  goOn();
}

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await bodyOf(request);
  const [, area, kind] = request.url?.split("/") ?? [];
  if (area === "endless") {
    pour(kind, response);
    return;
  }
  if (request.url?.endsWith("/responses") === true) {
    response.writeHead(200, { "content-type": "text/event-stream" }).end(responseEvents(body));
    return;
  }
  switch (request.url) {
    case "/held":
      response.end(String(held.length));
      break;
    case "/release":
      response.end(String(held.length));
      for (const give of held.splice(0)) give();
      break;
    case "/greed":
      response.end(JSON.stringify(greed));
      Object.assign(greed, { replies: 0, tokens: 0, depth: 0 });
      break;
    case "/most-in-flight":
      response.end(String(mostInFlight));
      mostInFlight = 0;
      break;
    default:
      inFlight += 1;
      mostInFlight = Math.max(mostInFlight, inFlight);
      response.on("close", () => (inFlight -= 1));
      await answer(requestedWork(body), body, response);
  }
}

const server = createServer((request, response) => void serve(request, response));
server.keepAliveTimeout = 60_000;
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  if (address !== null && typeof address === "object")
    process.stdout.write(`http://127.0.0.1:${address.port}\n`);
});
process.on("disconnect", () => process.exit(0));
