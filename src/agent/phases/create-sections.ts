// Creates the texts of a role's sections when they are due: all at once, each by one effect.

import { runUntilTimeout } from "../../kernel/cancel-signal.ts";
import { describeReceived } from "../../kernel/argument-checks.ts";
import { EspalierError, getErrorMessage } from "../../kernel/error.ts";
import { deepFreezeList } from "../../kernel/append-only-list.ts";
import { deepFreeze, omitUndefined } from "../../kernel/json.ts";
import type { Message } from "../../protocol/message.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { runUserCode, readAgentFacts } from "../run-user-code.ts";
import type { Consulted } from "../effect-outcomes.ts";
import { failWith } from "../stop-requests.ts";
import { getStepPosition, type AgentState, type MadeSection } from "../agent-state.ts";
import type { PlacedSection, RequestSection, SectionContext } from "../request-sections.ts";
import { recordSections } from "../transition.ts";

/**
 * Messages of the sections in one request, by name. Sections without a text, and sections in the
 * history, are absent.
 */
export type SectionMessages = ReadonlyMap<string, Message>;

/** The state before a request is built, with the sections that the request adds. */
export interface ReadyState {
  readonly state: AgentState;
  /** `undefined` if the request adds no sections. */
  readonly sections?: SectionMessages;
}

/**
 * Creates the due sections: `step` sections each time, the others once per execution. A section
 * that throws fails the agent.
 */
export async function createSections(agent: AgentRuntime, state: AgentState): Promise<ReadyState> {
  const { sections } = agent.role;
  const earlier = state.log.sections ?? [];
  const known = new Set(earlier.map(({ name }) => name));
  const due = sections.filter(
    ({ name, lifetime, text }) => text !== undefined && (lifetime === "step" || !known.has(name)),
  );
  const { stepId } = getStepPosition(agent, state);
  const answers = await Promise.all(
    due.map(async ({ name, text }): Promise<Consulted<string | undefined>> =>
      typeof text === "function"
        ? await runUserCode(agent, () => askSection(agent, state, name, text), { stepId })
        : { type: "returned", value: text },
    ),
  );
  const failed = answers.find((answer) => answer.type === "failed");
  if (failed !== undefined) return { state: failWith(agent, state, failed.error) };
  const texts: Texts = new Map(
    due.map(({ name }, index) => {
      const answer = answers[index];
      return [name, answer?.type === "returned" ? answer.value : undefined];
    }),
  );
  const lasting = due.filter(({ lifetime }) => lifetime !== "step");
  const next = lasting.length === 0 ? state : keepSections(state, lasting, texts);
  const recorded = next.log.sections ?? [];
  const all = new Map([...recorded.map(({ name, text }) => [name, text] as const), ...texts]);
  const sent = sections.filter(({ lifetime }) => lifetime !== "persistent");
  return { state: next, sections: new Map(createSectionMessages(sent, all)) };
}

/** Texts of sections, by name. */
type Texts = ReadonlyMap<string, string | undefined>;

/**
 * Records sections that are created once per execution, in the log or as messages of the history.
 */
function keepSections(state: AgentState, due: readonly PlacedSection[], texts: Texts): AgentState {
  const sections = due.map(({ name, lifetime }): MadeSection => {
    const text = lifetime === "persistent" ? undefined : texts.get(name);
    return { name, ...omitUndefined({ text }) };
  });
  const lasting = due.filter(({ lifetime }) => lifetime === "persistent");
  const messages = createSectionMessages(lasting, texts).map(([, message]) => message);
  return recordSections(state, [...(state.log.sections ?? []), ...sections], messages);
}

/** Returns the messages of the sections that have a text, by name. */
function createSectionMessages(
  sections: readonly PlacedSection[],
  texts: Texts,
): readonly (readonly [string, Message])[] {
  return sections.flatMap(({ name, messageRole: role = "user" }) => {
    const text = texts.get(name);
    if (text === undefined) return [];
    return [[name, deepFreeze<Message>({ role, text, origin: "section" })] as const];
  });
}

async function askSection(
  agent: AgentRuntime,
  state: AgentState,
  name: string,
  text: Exclude<RequestSection["text"], string>,
): Promise<string | undefined> {
  try {
    const returned = await runUntilTimeout<unknown>(
      (signal) => text(createSectionContext(agent, state, name, signal)),
      agent.bounds,
    );
    if (returned === undefined) return undefined;
    if (typeof returned !== "string")
      throw new TypeError(`it returned ${describeReceived(returned)}`);
    return returned.trim() === "" ? undefined : returned;
  } catch (cause) {
    const problem = getErrorMessage(cause);
    throw new EspalierError({
      code: "section_failed",
      message: `Expected the section ${name} of ${agent.role.name} to return a string or undefined, but: ${problem}. Correct its text function.`,
      data: { role: agent.role.name, section: name },
      cause,
    });
  }
}

function createSectionContext(
  agent: AgentRuntime,
  state: AgentState,
  sectionName: string,
  signal: AbortSignal,
): SectionContext {
  return Object.freeze({
    ...readAgentFacts(agent),
    sectionName,
    role: agent.role.name,
    stepNumber: getStepPosition(agent, state).stepNumber,
    messages: deepFreezeList(state.conversation.messages),
    steps: deepFreeze(state.log.steps),
    usage: deepFreeze(state.telemetry.usage),
    remaining: Object.freeze({ ...agent.account.remaining() }),
    signal,
  });
}
