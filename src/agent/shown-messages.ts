// What a model was shown, derived from what is persisted anyway: the history, and what the step before was shown. Only what is in neither is kept
// for it, and its text once for the whole run. So what a step keeps grows with what hooks change in it, never with the history: a hook
// that changes every message anew in each step still adds only the new ones.

import { mismatch } from "../kernel/check.ts";
import { sameJson, parseJson } from "../kernel/json.ts";
import { forModel } from "../model/written-by.ts";
import { JsonObjectSchema } from "../protocol/json-value.ts";
import { MessageSchema, type Message } from "../protocol/message.ts";
import type { ShownPart, StepContext } from "../protocol/step-context.ts";
import type { AgentState } from "./agent-state.ts";
import type { RunDefinitions } from "../run-services/run-definitions.ts";
import { EspalierError } from "../kernel/error.ts";
import type { ModelRequest } from "../model/model.ts";
import { lazyObject, lazySchema, z } from "../protocol/lazy-schema.ts";
import { historyAtStep } from "./message-tags.ts";

/** What was shown in the last step of an agent, where it takes work to find out; by the context of that step. */
const recent = new WeakMap<StepContext, readonly Message[]>();

/** Keeps for the next step what this one is shown. */
export function noteShown(
  context: StepContext,
  shown: readonly Message[],
  before: StepContext | undefined,
): void {
  if (before !== undefined) recent.delete(before);
  if (context.shown !== undefined) recent.set(context, shown);
}

/** The parts that a list is made of; undefined: it is the history, as the model may see it, and nothing else. */
export function shownParts(
  definitions: RunDefinitions,
  state: AgentState,
  { history, shown }: { readonly history: readonly Message[]; readonly shown: readonly Message[] },
): readonly ShownPart[] | undefined {
  const common = commonLength(shown, history);
  const isWhole = common === history.length;
  if (isWhole && shown.length === common) return undefined;
  const parts: ShownPart[] = common === 0 ? [] : [{ type: "history", from: 0, to: common }];
  // After the whole history there are only messages that are made for the step.
  const sources = isWhole
    ? []
    : [
        new MessageSource("history", history),
        new MessageSource("earlier", shownBefore(definitions, state)),
      ];
  for (const message of shown.slice(common)) {
    const longer = extendPart(parts.at(-1), message, sources);
    if (longer === undefined) parts.push(makePart(message, sources, definitions));
    else parts[parts.length - 1] = longer;
  }
  return parts;
}

/** What the last completed step was shown; nothing, if that is unknown. */
function shownBefore(definitions: RunDefinitions, state: AgentState): readonly Message[] {
  const last = state.log.steps.at(-1);
  if (last === undefined) return [];
  const known = recent.get(last.context);
  if (known !== undefined) return known;
  return shownInStep(state, last.number, (hash) => definitions.textOf(hash)) ?? [];
}

/** The parts of a persisted state that say what its steps were shown. */
export type PersistedSteps = Pick<AgentState, "conversation" | "log" | "step">;

/** What a step began with, and how many messages its model was shown. */
interface ShownContext {
  readonly context: StepContext;
  readonly messageCount: number;
}

/** What the model was shown in a step; undefined: there is no such step, or something of it is missing. */
function shownInStep(
  kept: PersistedSteps,
  stepNumber: number,
  textOf: RunDefinitions["textOf"],
): readonly Message[] | undefined {
  return listInStep<Message>(kept, stepNumber, {
    historyOf: (context, whole) => forModel(whole, context.model),
    made: ({ message, textHash }) =>
      MessageSchema().safeParse({ ...message, text: textOf(textHash) }).data,
  });
}

/** For each message that the model was shown in a step, the one of the history that it is; null: it was made for a step. */
export function historyInStep(
  kept: PersistedSteps,
  stepNumber: number,
): readonly (Message | null)[] | undefined {
  return listInStep<Message | null>(kept, stepNumber, {
    historyOf: (_context, whole) => whole,
    made: () => null,
  });
}

/** The hashes of the texts of which the request of a step is made. */
export function textsOfStep(kept: PersistedSteps, stepNumber: number): readonly string[] {
  return leadingTo(kept, stepNumber).flatMap(({ context }) => [
    context.toolsHash,
    ...(context.outputHash === undefined ? [] : [context.outputHash]),
    ...(context.shown ?? []).flatMap((part) => (part.type === "message" ? [part.textHash] : [])),
  ]);
}

/** Of what a list is made up. */
interface Makings<Item> {
  readonly historyOf: (context: StepContext, whole: readonly Message[]) => readonly Item[];
  /** Undefined: its text is missing. */
  readonly made: (part: MadePart) => Item | undefined;
}

type MadePart = Extract<ShownPart, { readonly type: "message" }>;

function listInStep<Item>(
  kept: PersistedSteps,
  stepNumber: number,
  { historyOf, made }: Makings<Item>,
): readonly Item[] | undefined {
  let shown: readonly Item[] | undefined;
  for (const { context, messageCount } of leadingTo(kept, stepNumber)) {
    const whole = historyAtStep(kept.conversation, kept.log.compactions, context.number);
    const history = historyOf(context, whole);
    const parts = context.shown ?? [{ type: "history", from: 0, to: messageCount }];
    shown = joinParts(parts, { history, earlier: shown ?? [] }, made);
    if (shown?.length !== messageCount) return undefined;
  }
  return shown;
}

/** The step, after those on which it leans. */
function leadingTo(kept: PersistedSteps, stepNumber: number): readonly ShownContext[] {
  const contexts = contextsOf(kept);
  const first = contexts.findLastIndex(
    ({ context }) => context.number <= stepNumber && !leansOnEarlier(context),
  );
  const until = contexts.findIndex(({ context }) => context.number === stepNumber);
  return contexts.slice(Math.max(0, first), until + 1);
}

/** What each step began with, in order, that of the open one last. */
function contextsOf({ log, step }: PersistedSteps): readonly ShownContext[] {
  const completed = log.steps.map(({ context, io: { messageCount } }) => ({
    context,
    messageCount,
  }));
  return step === undefined ? completed : [...completed, step];
}

function leansOnEarlier({ shown = [] }: StepContext): boolean {
  return shown.some(({ type }) => type === "earlier");
}

/** The list that is made of these parts; undefined: something is missing. */
function joinParts<Item>(
  parts: readonly ShownPart[],
  sources: Readonly<Record<"history" | "earlier", readonly Item[]>>,
  made: Makings<Item>["made"],
): readonly Item[] | undefined {
  const list: Item[] = [];
  for (const part of parts) {
    if (part.type !== "message") {
      const { from, to } = part;
      for (const item of sources[part.type].slice(from, to)) list.push(item);
      continue;
    }
    const item = made(part);
    if (item === undefined) return undefined;
    list.push(item);
  }
  return list;
}

function commonLength(shown: readonly Message[], history: readonly Message[]): number {
  if (shown === history) return shown.length;
  const difference = shown.findIndex((message, index) => !isSameMessage(message, history[index]));
  return difference === -1 ? shown.length : difference;
}

function isSameMessage(left: Message, right: Message | undefined): boolean {
  return left === right || sameJson(left, right);
}

/** A list in which messages are found by what they say. */
class MessageSource {
  readonly type: "history" | "earlier";
  readonly messages: readonly Message[];
  #places: Map<string, number> | undefined;

  constructor(type: "history" | "earlier", messages: readonly Message[]) {
    this.type = type;
    this.messages = messages;
  }

  /** The place of a message; undefined: it is not in the list. */
  placeOf(message: Message): number | undefined {
    this.#places ??= new Map(this.messages.map((one, index) => [keyMessage(one), index]));
    const place = this.#places.get(keyMessage(message));
    return place !== undefined && isSameMessage(message, this.messages[place]) ? place : undefined;
  }
}

/** Of two messages with one key only the later is found: the other one is kept for the step, if need be. */
function keyMessage(message: Message): string {
  const callId =
    message.role === "tool"
      ? message.callId
      : message.role === "assistant"
        ? (message.toolCalls[0]?.callId ?? "")
        : "";
  return `${message.role} ${callId} ${message.text}`;
}

/** The last part with the message, if that is the next one of its list. */
function extendPart(
  last: ShownPart | undefined,
  message: Message,
  sources: readonly MessageSource[],
): ShownPart | undefined {
  if (last === undefined || last.type === "message") return undefined;
  const next = sources.find(({ type }) => type === last.type)?.messages[last.to];
  return isSameMessage(message, next) ? { ...last, to: last.to + 1 } : undefined;
}

function makePart(
  message: Message,
  sources: readonly MessageSource[],
  definitions: RunDefinitions,
): ShownPart {
  for (const source of sources) {
    const from = source.placeOf(message);
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

/** Which step is meant, and what errors call its number and its agent. */
interface NamedStep {
  readonly field: string;
  readonly stepNumber: number;
  readonly agentPath: string;
}

/**
 * Returns the request of a step, as it went out first: a repeated attempt may have had a lower `maxOutputTokens`. Throws `invalid_option` if
 * the agent took no such step, and `invalid_paused_run` if something of it is missing or damaged.
 */
export function requestOfStep(
  kept: PersistedSteps | undefined,
  { field, stepNumber, agentPath }: NamedStep,
  textOf: RunDefinitions["textOf"],
): RebuiltRequest {
  const contexts = kept === undefined ? [] : contextsOf(kept);
  const { context } = contexts.findLast((step) => step.context.number === stepNumber) ?? {};
  if (kept === undefined || context === undefined) {
    const expected =
      contexts.length === 0
        ? `left out, since ${agentPath} took no step`
        : `a step of ${agentPath} (1 to ${contexts.length})`;
    throw mismatch(field, expected, stepNumber, "Steps are numbered from 1.");
  }
  const rebuilt = assembleRequest(context, shownInStep(kept, stepNumber, textOf), textOf);
  if (rebuilt !== undefined) return rebuilt;
  throw new EspalierError({
    code: "invalid_paused_run",
    message: `Cannot rebuild the request of step ${stepNumber} of ${agentPath}: the run lacks some of its messages, or they are damaged. Pass the complete run as it was stored. A fork does not have all messages of its origin.`,
    data: { agentPath, stepNumber },
  });
}

/** Undefined: something of it is missing. */
function assembleRequest(
  { model, parameters, toolsHash, outputHash }: StepContext,
  messages: readonly Message[] | undefined,
  textOf: RunDefinitions["textOf"],
): RebuiltRequest | undefined {
  const toolsText = textOf(toolsHash);
  const outputText = outputHash === undefined ? "" : textOf(outputHash);
  if (messages === undefined || toolsText === undefined || outputText === undefined)
    return undefined;
  const tools = readText(ToolSpecsSchema(), toolsText);
  if (tools === undefined) return undefined;
  const request = { messages, tools, ...parameters };
  if (outputText === "") return { model, request };
  const output = readText(OutputTextSchema(), outputText);
  return output && { model, request: { ...request, output } };
}

/** Undefined: it is another text than the step had. */
function readText<Value>(schema: z.ZodType<Value>, text: string): Value | undefined {
  try {
    return schema.safeParse(parseJson(text)).data;
  } catch {
    return undefined;
  }
}
