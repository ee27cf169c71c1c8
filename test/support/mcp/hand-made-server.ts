// A hand-made MCP server, for behaviour that the real one does not have. It is the same over stdio
// (`stdio-server.ts`) and HTTP (`http-server.ts`).

/** An incoming message. */
export interface Incoming {
  readonly id?: number | string;
  readonly method?: string;
  /** In an answer to a request of the server. */
  readonly result?: unknown;
  readonly error?: unknown;
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

/** Parses a message. */
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
  { name: "grow", inputSchema: OBJECT, title: "Grows", annotations: { idempotentHint: true } },
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

/** Tools that request something from the client and return its answer. */
export const ASKING = [
  { name: "elicit", inputSchema: OBJECT, description: "Asks people for a place." },
  { name: "survey", inputSchema: OBJECT, description: "Asks people several times." },
  { name: "sample", inputSchema: OBJECT, description: "Asks for a model." },
];

/** A tool with a text of this `length`, and one whose data has this many `values` and `levels`. */
export const LONG = [
  { name: "long", inputSchema: OBJECT },
  { name: "wide", inputSchema: OBJECT },
];

/** The question of `elicit`, unless its arguments replace it. */
export const PLACE = {
  message: "Where to?",
  requestedSchema: {
    type: "object",
    properties: { city: { type: "string" }, nights: { type: "integer", default: 2 } },
    required: ["city", "nights"],
  },
};

/** Entries of a listing that are not tools. */
export const NO_TOOLS = [{ name: "shapeless", inputSchema: {} }, { title: "Nameless" }, "no tool"];

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
  // The pattern would backtrack over the name for longer than a test may take.
  liar: { content: [], structuredContent: { count: "many", name: `${"a".repeat(1_000)}!` } },
  // Listed on request.
  paint: { content: IMAGE },
  spill: { content: IMAGE, isError: true },
  grown: { content: [{ type: "text", text: "here" }] },
  "with.dots/and more": { content: [{ type: "text", text: "dotted" }] },
};

function data({ values = 0, levels = 0 }: Readonly<Record<string, unknown>>): object {
  let nested: unknown = "core";
  for (let level = 0; level < Number(levels); level += 1) nested = [nested];
  return { nested, list: Array.from({ length: Number(values) }, () => 0) };
}

export class HandMadeServer {
  /**
   * Incoming messages in order: their methods, the tools of calls, the reasons of cancellations.
   */
  readonly seen: string[] = [];
  /** The client's name and capabilities. */
  client: unknown;
  /** Tools on a second page. */
  readonly #more: readonly unknown[];
  #hasGrown = false;
  /** Handlers of the answers to its requests, by the ids of these requests. */
  readonly #answers = new Map<unknown, (answer: Incoming) => void>();
  /** Calls that wait for others like them. */
  readonly #gathered: (() => void)[] = [];

  constructor(more: readonly unknown[] = []) {
    this.#more = more;
  }

  /** Handles a message and answers through `send`, at once or never. */
  handle(message: Incoming, send: (message: Outgoing) => void): void {
    const { id, method = "", params = {} } = message;
    if (method === "") return this.#answers.get(id)?.(message);
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

  /** Sends a request to the client. Resolves with the answer. */
  ask(method: string, params: object, send: (message: Outgoing) => void): Promise<Incoming> {
    const id = `ask-${this.#answers.size + 1}`;
    const { promise, resolve } = Promise.withResolvers<Incoming>();
    this.#answers.set(id, resolve);
    send({ jsonrpc: "2.0", id, method, params });
    return promise;
  }

  /**
   * `together`: the number of calls to wait for first. `withdrawn`: it withdraws the question and
   * asks again.
   */
  #elicit(
    { together = 1, withdrawn = false, ...asked }: Readonly<Record<string, unknown>>,
    send: (message: Outgoing) => void,
    say: (text: string) => void,
  ): void {
    const asks = async (): Promise<void> => {
      const answered = this.ask("elicitation/create", { ...PLACE, ...asked }, send);
      if (withdrawn === true) {
        const params = { requestId: `ask-${this.#answers.size}` };
        send({ jsonrpc: "2.0", method: "notifications/cancelled", params });
      }
      const again =
        withdrawn === true
          ? this.ask("elicitation/create", { ...PLACE, ...asked }, send)
          : answered;
      const { result, error } = await again;
      say(JSON.stringify(result ?? error));
    };
    this.#gathered.push(() => void asks());
    if (this.#gathered.length < Number(together)) return;
    for (const begin of this.#gathered.splice(0)) begin();
  }

  #call(
    { name = "", arguments: given = {}, _meta: meta = {} }: NonNullable<Incoming["params"]>,
    id: number | string,
    send: (message: Outgoing) => void,
  ): void {
    const answer = (result: object): void => send({ jsonrpc: "2.0", id, result });
    const say = (text: string): void => answer({ content: [{ type: "text", text }] });
    const { progressToken, ...rest } = meta;
    switch (name) {
      case "meta":
        return say(JSON.stringify(rest));
      case "elicit":
        return this.#elicit(given, send, say);
      case "survey": {
        const params = { ...PLACE, requestedSchema: { type: "object", properties: {} } };
        const asked = Array.from({ length: Number(given["times"]) }, () =>
          this.ask("elicitation/create", params, send),
        );
        return void Promise.all(asked).then((answers) =>
          say(JSON.stringify(answers.map(({ result }) => result))),
        );
      }
      case "sample": {
        const params = { messages: [], maxTokens: 10 };
        const answered = this.ask("sampling/createMessage", params, send);
        return void answered.then(({ result, error }) => say(JSON.stringify(result ?? error)));
      }
      case "hang":
        return send({
          jsonrpc: "2.0",
          method: "notifications/progress",
          params: { progressToken, progress: 0.5, total: 2, message: "hanging" },
        });
      case "seen":
        return say(this.seen.join("\n"));
      case "long":
        return say("x".repeat(Number(given["length"])));
      case "wide":
        return answer({
          content: [{ type: "text", text: "wide" }],
          structuredContent: data(given),
        });
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
