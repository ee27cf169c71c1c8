// The other side of every workload, in a process of its own: an OpenAI-compatible server whose replies follow from the request
// alone, and an OTLP endpoint that swallows traces. Prints its address when it listens; ends with its parent.

import { createServer, type IncomingMessage } from "node:http";

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) if (Buffer.isBuffer(chunk)) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

/** Replies that are held back, until somebody asks for `/release`. */
const held: (() => void)[] = [];

/** `tools-50`: 50 replies with a tool call, then a text. `lead-100`: one reply with 100 delegations, then a text. `hold-1`: a text, held back. */
function replyTo(body: string): object {
  const [, kind, count] = /"model":"(tools|lead|hold)-(\d+)"/.exec(body) ?? [];
  const wanted = Number(count);
  const answered = body.split('"role":"tool"').length - 1;
  if (kind === "lead" && answered === 0) {
    const call = (index: number): object =>
      toolCall(index, "SpawnSubagent", { role: "worker", task: `Part ${index}` });
    return message({
      content: null,
      tool_calls: Array.from({ length: wanted }, (_value, index) => call(index)),
    });
  }
  if (kind === "tools" && answered < wanted)
    return message({
      content: null,
      tool_calls: [toolCall(answered, "add", { a: answered, b: 1 })],
    });
  return message({ content: "The work is done." });
}

function toolCall(index: number, name: string, input: object): object {
  return {
    id: `call_${index}`,
    type: "function",
    function: { name, arguments: JSON.stringify(input) },
  };
}

function message(content: {
  readonly tool_calls?: readonly object[] | undefined;
  readonly content: string | null;
}): object {
  const finish = content.tool_calls === undefined ? "stop" : "tool_calls";
  return {
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 0,
    model: "bench",
    choices: [
      {
        index: 0,
        message: { role: "assistant", refusal: null, ...content },
        finish_reason: finish,
        logprobs: null,
      },
    ],
    usage: { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 },
  };
}

const server = createServer((request, response) => {
  void bodyOf(request).then((body) => {
    const answer = (reply: object): void => {
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(reply));
    };
    if (request.url === "/waiting") response.end(String(held.length));
    else if (request.url === "/release") response.end(String(release()));
    else if (request.url?.endsWith("/traces") === true) answer({});
    else if (body.includes('"model":"hold-')) held.push(() => answer(replyTo(body)));
    else answer(replyTo(body));
  });
});

function release(): number {
  const released = held.splice(0);
  for (const give of released) give();
  return released.length;
}

server.keepAliveTimeout = 60_000;
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  if (address !== null && typeof address === "object")
    process.stdout.write(`http://127.0.0.1:${address.port}\n`);
});
process.on("disconnect", () => process.exit(0));
