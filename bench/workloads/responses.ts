// responses: one streamed call of Responses, whose history has 40 steps with sealed reasoning, side by side with the client's own call.

import type OpenAI from "openai";
import type {
  FunctionTool,
  ResponseInputItem,
  ResponseStreamEvent,
} from "openai/resources/responses/responses";

import type { Message } from "espalier";
import type { ModelRequest } from "espalier/extend";

import {
  BARE_LOOP,
  compared,
  ESPALIER,
  type Measured,
  type MeasuringTask,
  type Workload,
} from "../harness/workload.ts";

const STEPS = 40;
const TOOLS = 12;
/** To a warm-up run of the other workloads. */
const CALLS_OF_RUN = 100;
const SEALED_BYTES = 2_400;
const SUMMARY = "The sum of the last two is what the next tool needs to know. ";
const RESULT = "The file has 120 lines, of which these are the first. ".repeat(10);
const MODEL = "gpt-5.4";
const CAP = 8_192;

export const RESPONSES: Workload = {
  id: "responses",
  title: "Responses, a history of 40 steps with reasoning",
  contenders: [BARE_LOOP, ESPALIER],
  measure: async ({ contender, serverUrl, sizes }: MeasuringTask): Promise<Measured> => {
    const call = await (contender === BARE_LOOP ? bareCall(serverUrl) : ownCall(serverUrl));
    const warmUps = sizes.warmUps * CALLS_OF_RUN;
    for (let count = 0; count < warmUps; count += 1) await call(count);
    const before = process.cpuUsage();
    for (let count = 0; count < sizes.calls; count += 1) await call(warmUps + count);
    const { user, system } = process.cpuUsage(before);
    return { figures: { cpuMs: (user + system) / 1_000 / sizes.calls } };
  },
  rows: [compared({ figure: "CPU per streamed call", unit: "ms", of: "cpuMs", limit: "≤ 0.5" })],
};

type Call = (count: number) => Promise<void>;

const seal = (step: number): string => `gAAAA${step}`.padEnd(SEALED_BYTES, "0123456789abcdef");
const input = (step: number): string => JSON.stringify({ path: `src/file-${step}.ts`, from: step });
const schema = {
  type: "object",
  properties: { path: { type: "string", description: "Which file." }, from: { type: "number" } },
  required: ["path", "from"],
  additionalProperties: false,
};
const names = Array.from({ length: TOOLS }, (_tool, index) => `read_${index}`);
const description = "Reads a part of a file, from a line on, and says how many lines it has.";

/** The client's own way, with its types; a new step in the place of the last one each time, as in a loop. */
async function bareCall(serverUrl: string): Promise<Call> {
  const { default: Client } = await import("openai");
  const client: OpenAI = new Client({ apiKey: "none", baseURL: `${serverUrl}/v1`, maxRetries: 0 });
  const tools: FunctionTool[] = names.map((name) => ({
    type: "function",
    name,
    description,
    parameters: schema,
    strict: false,
  }));
  const stepItems = (step: number): ResponseInputItem[] => [
    {
      type: "reasoning",
      id: `rs_${step}`,
      summary: [{ type: "summary_text", text: SUMMARY }],
      encrypted_content: seal(step),
    },
    { type: "function_call", call_id: `call_${step}`, name: "read_0", arguments: input(step) },
    { type: "function_call_output", call_id: `call_${step}`, output: RESULT },
  ];
  const begin: ResponseInputItem[] = [
    { role: "developer", content: "Read the files." },
    { role: "user", content: "What is in them?" },
    ...Array.from({ length: STEPS - 1 }, (_step, index) => stepItems(index)).flat(),
  ];
  return async (count) => {
    const events = await client.responses.create({
      model: MODEL,
      input: [...begin, ...stepItems(STEPS + count)],
      tools,
      store: false,
      include: ["reasoning.encrypted_content"],
      max_output_tokens: CAP,
      stream: true,
    });
    let received = "";
    let ended = false;
    for await (const event of events) {
      if (event.type === "response.function_call_arguments.done") received = event.arguments;
      if (event.type === "response.completed") ended = true;
    }
    check(ended ? received : "");
  };
}

async function ownCall(serverUrl: string): Promise<Call> {
  const { openai } = await import("espalier");
  const { buildReplyMessage, toCallId } = await import("espalier/extend");
  const model = openai(MODEL, { apiKey: "none", baseUrl: `${serverUrl}/v1`, api: "responses" });
  const writtenBy = model.replayKey ?? "";
  const tools = names.map((name) => ({ name, description, inputSchema: schema }));
  const stepMessages = (step: number): readonly Message[] => {
    const callId = toCallId(`call_${step}`);
    const toolName = "read_0";
    const reply = buildReplyMessage([
      { type: "reasoning", text: SUMMARY, data: { openai: { encrypted_content: seal(step) } } },
      { type: "call", callId, toolName, argumentsText: input(step) },
    ]);
    return [
      { ...reply, writtenBy },
      { role: "tool", callId, toolName, text: RESULT },
    ];
  };
  const begin: readonly Message[] = [
    { role: "system", text: "Read the files.", origin: "instructions" },
    { role: "user", text: "What is in them?", origin: "task" },
    ...Array.from({ length: STEPS - 1 }, (_step, index) => stepMessages(index)).flat(),
  ];
  const { signal } = new AbortController();
  return async (count) => {
    const messages = [...begin, ...stepMessages(STEPS + count)];
    const request: ModelRequest = { messages, tools, maxOutputTokens: CAP };
    const { message } = await model.generate(request, { signal, onDelta: () => undefined });
    check(message.toolCalls[0]?.argumentsText ?? "");
  };
}

const ARGUMENTS = JSON.stringify({ path: "src/index.ts", from: 1, note: "word ".repeat(150) });

function check(received: string): void {
  if (received !== ARGUMENTS) throw new Error(`Expected the arguments of a call, got ${received}.`);
}

/** The stream that the server answers with: some 50 KB, a summary and a call in small pieces. As OpenAI does, it says the request's tools twice. */
export function responseEvents(body: string): string {
  const request: unknown = JSON.parse(body);
  const tools =
    typeof request === "object" && request !== null && "tools" in request ? request.tools : [];
  const response = { id: "resp_1", object: "response", model: MODEL, status: "in_progress", tools };
  const call = { type: "function_call", id: "fc_1", call_id: "call_1", name: "read_0" };
  const reasoning = { type: "reasoning", id: "rs_1" };
  const summary = SUMMARY.repeat(3);
  const done = [
    {
      ...reasoning,
      summary: [{ type: "summary_text", text: summary }],
      encrypted_content: seal(0),
    },
    { ...call, arguments: ARGUMENTS, status: "completed" },
  ];
  const usage = {
    input_tokens: 36_000,
    input_tokens_details: { cached_tokens: 35_000, cache_write_tokens: 0 },
    output_tokens: 300,
    output_tokens_details: { reasoning_tokens: 100 },
    total_tokens: 36_300,
  };
  const at = { item_id: "rs_1", output_index: 0, summary_index: 0 };
  const part = { type: "summary_text" };
  const events: readonly Event[] = [
    { type: "response.created", response },
    { type: "response.in_progress", response },
    { type: "response.output_item.added", output_index: 0, item: { ...reasoning, summary: [] } },
    { type: "response.reasoning_summary_part.added", ...at, part: { ...part, text: "" } },
    ...words(summary).map((delta) => ({
      type: "response.reasoning_summary_text.delta" as const,
      ...at,
      delta,
    })),
    { type: "response.reasoning_summary_text.done", ...at, text: summary },
    { type: "response.reasoning_summary_part.done", ...at, part: { ...part, text: summary } },
    { type: "response.output_item.done", output_index: 0, item: done[0] },
    {
      type: "response.output_item.added",
      output_index: 1,
      item: { ...call, arguments: "", status: "in_progress" },
    },
    ...words(ARGUMENTS).map((delta) => ({
      type: "response.function_call_arguments.delta" as const,
      item_id: "fc_1",
      output_index: 1,
      delta,
    })),
    {
      type: "response.function_call_arguments.done",
      item_id: "fc_1",
      output_index: 1,
      arguments: ARGUMENTS,
    },
    { type: "response.output_item.done", output_index: 1, item: done[1] },
    {
      type: "response.completed",
      response: { ...response, status: "completed", output: done, usage },
    },
  ];
  return events
    .map((event, sequence_number) => {
      const data = JSON.stringify({ ...event, sequence_number });
      return `event: ${event.type}\ndata: ${data}\n\n`;
    })
    .join("");
}

/** Of the package's types; what is in an event is as short as OpenAI's own. */
interface Event {
  readonly type: ResponseStreamEvent["type"];
  readonly [field: string]: unknown;
}

function words(text: string): readonly string[] {
  return text.split(/(?<= )/);
}
