// A hand-made MCP server, for what the real one does not do. The same over stdio (`stdio-server.ts`) and HTTP (`http-server.ts`).

/** A message as it comes in. */
export interface Incoming {
  readonly id?: number | string;
  readonly method?: string;
  readonly params?: {
    readonly name?: string;
    readonly arguments?: Readonly<Record<string, unknown>>;
    readonly requestId?: number | string;
    readonly reason?: string;
    readonly protocolVersion?: string;
    readonly cursor?: string;
    readonly clientInfo?: unknown;
    readonly capabilities?: unknown;
    readonly _meta?: Readonly<Record<string, unknown>>;
  };
}

/** A message from its text. */
export function incoming(text: string): Incoming {
  const message: unknown = JSON.parse(text);
  if (isIncoming(message)) return message;
  throw new Error(`Expected a message, got ${text}`);
}

function isIncoming(message: unknown): message is Incoming {
  return typeof message === "object" && message !== null;
}

export type Outgoing = Readonly<Record<string, unknown>>;

const OBJECT = { type: "object" };

const TOOLS = [
  { name: "meta", inputSchema: OBJECT, description: "Gives the _meta of its call." },
  { name: "hang", inputSchema: OBJECT, annotations: { readOnlyHint: true } },
  { name: "seen", inputSchema: OBJECT, annotations: { destructiveHint: false } },
  { name: "die", inputSchema: OBJECT, annotations: { destructiveHint: true } },
  { name: "grow", inputSchema: OBJECT, title: "Grows" },
  { name: "shy", inputSchema: OBJECT },
  { name: "empty", inputSchema: OBJECT },
  { name: "sound", inputSchema: OBJECT },
  { name: "data", inputSchema: OBJECT },
  { name: "refuse", inputSchema: OBJECT },
  {
    name: "liar",
    inputSchema: OBJECT,
    outputSchema: {
      type: "object",
      properties: { count: { type: "number" }, name: { type: "string", pattern: "^(a+)+$" } },
    },
  },
  { name: "broken", inputSchema: { type: "object", properties: { x: { type: "nonsense" } } } },
  { name: "chore", inputSchema: OBJECT, execution: { taskSupport: "required" } },
  { name: "with.dots/and more", inputSchema: OBJECT },
];

/** Parts of a listing that are no tools. */
export const NO_TOOLS = [{ name: "shapeless", inputSchema: {} }, { title: "Nameless" }, "no tool"];

/** Comes out the same as the last one. */
export const TWIN = { name: "with_dots_and_more", inputSchema: OBJECT };

const GROWN = { name: "grown", inputSchema: OBJECT };

const IMAGE = [
  { type: "text", text: "Here." },
  { type: "image", data: "AAAA", mimeType: "image/png" },
];

const RESULTS: Readonly<Record<string, object>> = {
  shy: { content: [{ type: "text", text: "I would rather not." }], isError: true },
  empty: { content: [], isError: true },
  sound: { content: [{ type: "audio", data: "AAAA", mimeType: "audio/wav" }] },
  data: { content: [], structuredContent: { b: 1, a: [true, null] } },
  // The pattern would go back over the name for longer than a test may take.
  liar: { content: [], structuredContent: { count: "many", name: `${"a".repeat(1_000)}!` } },
  // Listed by whoever wants them.
  paint: { content: IMAGE },
  spill: { content: IMAGE, isError: true },
  grown: { content: [{ type: "text", text: "here" }] },
  "with.dots/and more": { content: [{ type: "text", text: "dotted" }] },
};

export class HandMadeServer {
  /** What came in, in order: methods, of calls the tool, of cancellations the reason. */
  readonly seen: string[] = [];
  /** What the client says of itself. */
  client: unknown;
  /** On a second page. */
  readonly #more: readonly unknown[];
  #hasGrown = false;

  constructor(more: readonly unknown[] = []) {
    this.#more = more;
  }

  /** Answers by `send`, at once or never. */
  handle({ id, method = "", params = {} }: Incoming, send: (message: Outgoing) => void): void {
    this.seen.push([method, params.name, params.reason].filter(Boolean).join(" "));
    if (id === undefined) return;
    const answer = (result: object): void => send({ jsonrpc: "2.0", id, result });
    switch (method) {
      case "initialize":
        this.client = [params.clientInfo, params.capabilities];
        return answer({
          protocolVersion: params.protocolVersion,
          capabilities: { tools: { listChanged: true } },
          serverInfo: { name: "hand-made", version: "1" },
          instructions: "Handle with care.",
        });
      case "tools/list":
        if (params.cursor === "second") return answer({ tools: this.#more });
        return answer({
          tools: this.#hasGrown ? [...TOOLS, GROWN] : TOOLS,
          ...(this.#more.length === 0 ? {} : { nextCursor: "second" }),
        });
      case "tools/call":
        return this.#call(params, id, send);
      default:
        return answer({});
    }
  }

  #call(
    { name = "", _meta: meta = {} }: NonNullable<Incoming["params"]>,
    id: number | string,
    send: (message: Outgoing) => void,
  ): void {
    const answer = (result: object): void => send({ jsonrpc: "2.0", id, result });
    const say = (text: string): void => answer({ content: [{ type: "text", text }] });
    const { progressToken, ...rest } = meta;
    switch (name) {
      case "meta":
        return say(JSON.stringify(rest));
      case "hang":
        return send({
          jsonrpc: "2.0",
          method: "notifications/progress",
          params: { progressToken, progress: 0.5, total: 2, message: "hanging" },
        });
      case "seen":
        return say(this.seen.join("\n"));
      case "die":
        return process.exit(7);
      case "grow":
        this.#hasGrown = true;
        send({ jsonrpc: "2.0", method: "notifications/tools/list_changed" });
        return say("grown");
      case "refuse":
        return send({ jsonrpc: "2.0", id, error: { code: -32_603, message: "out of order" } });
      default:
        return answer(RESULTS[name] ?? { content: [] });
    }
  }
}
