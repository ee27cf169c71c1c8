// A small MCP server as a child process: `data` returns the arguments of its call and is not
// declared read-only; `look` is.

import { createInterface } from "node:readline";

const TOOLS = [
  { name: "data", inputSchema: { type: "object" } },
  { name: "look", inputSchema: { type: "object" }, annotations: { readOnlyHint: true } },
];

interface Incoming {
  readonly id?: number;
  readonly method?: string;
  readonly params?: { readonly protocolVersion?: string; readonly arguments?: object };
}

function isIncoming(message: unknown): message is Incoming {
  return typeof message === "object" && message !== null;
}

function resultOf({ method, params }: Incoming): object {
  switch (method) {
    case "initialize": {
      const { protocolVersion } = params ?? {};
      const serverInfo = { name: "echo", version: "1" };
      return { protocolVersion, capabilities: { tools: {} }, serverInfo };
    }
    case "tools/list":
      return { tools: TOOLS };
    case "tools/call":
      return { content: [{ type: "text", text: JSON.stringify(params?.arguments) }] };
    default:
      return {};
  }
}

createInterface({ input: process.stdin }).on("line", (line) => {
  const message: unknown = JSON.parse(line);
  if (!isIncoming(message) || message.id === undefined) return;
  const { id } = message;
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, result: resultOf(message) })}\n`);
});
