// Stores and rebuilds the messages of a model request as references: to the history, and to the
// messages of the previous step. Only messages in neither list are stored, and each text once per
// run. So the size of a step grows with the changes of hooks, not with the history. A hook that
// rewrites every message in each step still adds only the new ones.

import { mismatch } from "../kernel/argument-checks.ts";
import { sameJson, parseJson } from "../kernel/json.ts";
import { toHistory } from "../model/recipient-messages.ts";
import { JsonObjectSchema } from "../protocol/json-value.ts";
import { MessageSchema, type Message } from "../protocol/message.ts";
import type { ShownPart, StepContext } from "../protocol/step-context.ts";
import type { AgentState } from "./agent-state.ts";
import type { RunDefinitions } from "../run-services/run-definitions.ts";
import { EspalierError } from "../kernel/error.ts";
import type { ModelRequest } from "../model/model.ts";
import { lazyObject, lazySchema, z } from "../protocol/lazy-schema.ts";
import { rebuildHistoryAtStep } from "./message-tags.ts";

/**
 * The messages of an agent's last request, by the context of its step. Only requests that are
 * costly to rebuild are cached.
 */
const recent = new WeakMap<StepContext, readonly Message[]>();

/** Caches the messages of a step for the next step. */
export function cacheShownMessages(
  context: StepContext,
  shown: readonly Message[],
  before: StepContext | undefined,
): void {
  if (before !== undefined) recent.delete(before);
  if (context.shown !== undefined) recent.set(context, shown);
}

/**
 * Returns the parts that compose a list of messages. `undefined` if the list equals the history as
 * the model may see it.
 */
export function findParts(
  definitions: RunDefinitions,
  state: AgentState,
  { history, shown }: { readonly history: readonly Message[]; readonly shown: readonly Message[] },
): readonly ShownPart[] | undefined {
  const common = countCommonMessages(shown, history);
  const isWhole = common === history.length;
  if (isWhole && shown.length === common) return undefined;
  const parts: ShownPart[] = common === 0 ? [] : [{ type: "history", from: 0, to: common }];
  // After the whole history there are only messages created for the step.
  const sources = isWhole
    ? []
    : [
        new MessageSource("history", history),
        new MessageSource("earlier", getPreviousMessages(definitions, state)),
      ];
  for (const message of shown.slice(common)) {
    const longer = extendPart(parts.at(-1), message, sources);
    if (longer === undefined) parts.push(createPart(message, sources, definitions));
    else parts[parts.length - 1] = longer;
  }
  return parts;
}

/** Returns the messages of the last completed step. Empty if they are unknown. */
function getPreviousMessages(definitions: RunDefinitions, state: AgentState): readonly Message[] {
  const last = state.log.steps.at(-1);
  if (last === undefined) return [];
  const known = recent.get(last.context);
  if (known !== undefined) return known;
  return findStepMessages(state, last.number, (hash) => definitions.findText(hash)) ?? [];
}

/** The parts of a persisted state from which the requests of its steps are rebuilt. */
export type PersistedSteps = Pick<AgentState, "conversation" | "log" | "step">;

/** The context of a step, and the number of messages in its request. */
interface ShownContext {
  readonly context: StepContext;
  readonly messageCount: number;
}

/**
 * Returns the messages of a step's request. `undefined` if there is no such step, or a part is
 * missing.
 */
function findStepMessages(
  state: PersistedSteps,
  stepNumber: number,
  findText: RunDefinitions["findText"],
): readonly Message[] | undefined {
  return rebuildStepList<Message>(state, stepNumber, {
    selectHistory: (context, whole) => toHistory(whole, context.model),
    createItem: ({ message, textHash }) =>
      MessageSchema().safeParse({ ...message, text: findText(textHash) }).data,
  });
}

/**
 * Returns, for each message of a step's request, the message of the history that it is. `null` for
 * a message that was created for a step.
 */
export function findStepHistory(
  state: PersistedSteps,
  stepNumber: number,
): readonly (Message | null)[] | undefined {
  return rebuildStepList<Message | null>(state, stepNumber, {
    selectHistory: (_context, whole) => whole,
    createItem: () => null,
  });
}

/** Returns the hashes of the texts that compose the request of a step. */
export function collectStepTextHashes(
  state: PersistedSteps,
  stepNumber: number,
): readonly string[] {
  return collectPrecedingSteps(state, stepNumber).flatMap(({ context }) => [
    context.toolsHash,
    ...(context.outputHash === undefined ? [] : [context.outputHash]),
    ...(context.shown ?? []).flatMap((part) => (part.type === "message" ? [part.textHash] : [])),
  ]);
}

/** The sources of a list of messages. */
interface ItemFactory<Item> {
  readonly selectHistory: (context: StepContext, whole: readonly Message[]) => readonly Item[];
  /** Returns the message of a part. `undefined` if its text is missing. */
  readonly createItem: (part: StoredPart) => Item | undefined;
}

type StoredPart = Extract<ShownPart, { readonly type: "message" }>;

function rebuildStepList<Item>(
  state: PersistedSteps,
  stepNumber: number,
  { selectHistory, createItem }: ItemFactory<Item>,
): readonly Item[] | undefined {
  let shown: readonly Item[] | undefined;
  for (const { context, messageCount } of collectPrecedingSteps(state, stepNumber)) {
    const whole = rebuildHistoryAtStep(state.conversation, state.log.compactions, context.number);
    const history = selectHistory(context, whole);
    const parts = context.shown ?? [{ type: "history", from: 0, to: messageCount }];
    shown = joinParts(parts, { history, earlier: shown ?? [] }, createItem);
    if (shown?.length !== messageCount) return undefined;
  }
  return shown;
}

/** Returns the step, preceded by the steps on which its request depends. */
function collectPrecedingSteps(state: PersistedSteps, stepNumber: number): readonly ShownContext[] {
  const contexts = collectStepContexts(state);
  const first = contexts.findLastIndex(
    ({ context }) => context.number <= stepNumber && !hasEarlierPart(context),
  );
  const until = contexts.findIndex(({ context }) => context.number === stepNumber);
  return contexts.slice(Math.max(0, first), until + 1);
}

/** Returns the contexts of all steps in order, with that of the open step last. */
function collectStepContexts({ log, step }: PersistedSteps): readonly ShownContext[] {
  const completed = log.steps.map(({ context, io: { messageCount } }) => ({
    context,
    messageCount,
  }));
  return step === undefined ? completed : [...completed, step];
}

function hasEarlierPart({ shown = [] }: StepContext): boolean {
  return shown.some(({ type }) => type === "earlier");
}

/** Returns the list that the parts compose. `undefined` if a part is missing. */
function joinParts<Item>(
  parts: readonly ShownPart[],
  sources: Readonly<Record<"history" | "earlier", readonly Item[]>>,
  createItem: ItemFactory<Item>["createItem"],
): readonly Item[] | undefined {
  const list: Item[] = [];
  for (const part of parts) {
    if (part.type !== "message") {
      const { from, to } = part;
      for (const item of sources[part.type].slice(from, to)) list.push(item);
      continue;
    }
    const item = createItem(part);
    if (item === undefined) return undefined;
    list.push(item);
  }
  return list;
}

function countCommonMessages(shown: readonly Message[], history: readonly Message[]): number {
  if (shown === history) return shown.length;
  const difference = shown.findIndex((message, index) => !isSameMessage(message, history[index]));
  return difference === -1 ? shown.length : difference;
}

function isSameMessage(left: Message, right: Message | undefined): boolean {
  return left === right || sameJson(left, right);
}

/** A list of messages with an index by content. */
class MessageSource {
  readonly type: "history" | "earlier";
  readonly messages: readonly Message[];
  #indexes: Map<string, number> | undefined;

  constructor(type: "history" | "earlier", messages: readonly Message[]) {
    this.type = type;
    this.messages = messages;
  }

  /** Returns the index of a message. `undefined` if it is not in the list. */
  findIndex(message: Message): number | undefined {
    this.#indexes ??= new Map(this.messages.map((item, index) => [computeMessageKey(item), index]));
    const index = this.#indexes.get(computeMessageKey(message));
    return index !== undefined && isSameMessage(message, this.messages[index]) ? index : undefined;
  }
}

/**
 * Returns the key of a message in the index. Of two messages with the same key only the later one
 * is found; the step then stores the other one itself.
 */
function computeMessageKey(message: Message): string {
  let callId = "";
  if (message.role === "tool") ({ callId } = message);
  if (message.role === "assistant") callId = message.toolCalls[0]?.callId ?? "";
  return `${message.role} ${callId} ${message.text}`;
}

/** Returns the last part with the message appended, if the message follows it in its list. */
function extendPart(
  last: ShownPart | undefined,
  message: Message,
  sources: readonly MessageSource[],
): ShownPart | undefined {
  if (last === undefined || last.type === "message") return undefined;
  const next = sources.find(({ type }) => type === last.type)?.messages[last.to];
  return isSameMessage(message, next) ? { ...last, to: last.to + 1 } : undefined;
}

function createPart(
  message: Message,
  sources: readonly MessageSource[],
  definitions: RunDefinitions,
): ShownPart {
  for (const source of sources) {
    const from = source.findIndex(message);
    if (from !== undefined) return { type: source.type, from, to: from + 1 };
  }
  const { text, ...rest } = message;
  return {
    type: "message",
    message: JsonObjectSchema().parse(JSON.parse(JSON.stringify(rest))),
    textHash: definitions.define(text),
  };
}

/** The request of a step, rebuilt from a stored run by `rebuildRequest`. */
export interface RebuiltRequest {
  /** The model that received the request. */
  readonly model: StepContext["model"];
  /** The messages, tools and parameters of the request. */
  readonly request: ModelRequest;
}

const OutputTextSchema = lazyObject(() => ({
  name: z.string(),
  schema: JsonObjectSchema(),
  strict: z.boolean(),
}));

const ToolSpecsSchema = lazySchema(() =>
  z.array(
    z.strictObject({
      name: z.string(),
      description: z.string(),
      inputSchema: JsonObjectSchema(),
      strictSchema: z.boolean().exactOptional(),
    }),
  ),
);

/** The step of a request, and the names of its number and its agent in errors. */
interface NamedStep {
  readonly field: string;
  readonly stepNumber: number;
  readonly agentPath: string;
}

/**
 * Returns the first request of a step. A repeated attempt may have had a lower `maxOutputTokens`.
 * Throws `invalid_argument` if the agent has no such step, and `invalid_paused_run` if a part is
 * missing or damaged.
 */
export function rebuildStepRequest(
  state: PersistedSteps | undefined,
  { field, stepNumber, agentPath }: NamedStep,
  findText: RunDefinitions["findText"],
): RebuiltRequest {
  const contexts = state === undefined ? [] : collectStepContexts(state);
  const { context } = contexts.findLast((step) => step.context.number === stepNumber) ?? {};
  if (state === undefined || context === undefined) {
    const expected =
      contexts.length === 0
        ? `left out, since ${agentPath} took no step`
        : `a step of ${agentPath} (1 to ${contexts.length})`;
    throw mismatch(field, expected, stepNumber, "Steps are numbered from 1.");
  }
  const rebuilt = assembleRequest(context, findStepMessages(state, stepNumber, findText), findText);
  if (rebuilt !== undefined) return rebuilt;
  throw new EspalierError({
    code: "invalid_paused_run",
    message: `Cannot rebuild the request of step ${stepNumber} of ${agentPath}: the run lacks some of its messages, or they are damaged. Pass the complete run as it was stored. A fork does not have all messages of its origin.`,
    data: { agentPath, stepNumber },
  });
}

/** Returns the request of a step. `undefined` if a part is missing. */
function assembleRequest(
  { model, parameters, toolsHash, outputHash }: StepContext,
  messages: readonly Message[] | undefined,
  findText: RunDefinitions["findText"],
): RebuiltRequest | undefined {
  const toolsText = findText(toolsHash);
  const outputText = outputHash === undefined ? "" : findText(outputHash);
  if (messages === undefined || toolsText === undefined || outputText === undefined)
    return undefined;
  const tools = parseRecordedText(ToolSpecsSchema(), toolsText);
  if (tools === undefined) return undefined;
  const request = { messages, tools, ...parameters };
  if (outputText === "") return { model, request };
  const output = parseRecordedText(OutputTextSchema(), outputText);
  return output && { model, request: { ...request, output } };
}

/** Returns the parsed text. `undefined` if it does not fit the schema. */
function parseRecordedText<Value>(schema: z.ZodType<Value>, text: string): Value | undefined {
  try {
    return schema.safeParse(parseJson(text)).data;
  } catch {
    return undefined;
  }
}
