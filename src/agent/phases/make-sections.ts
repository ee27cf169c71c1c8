// The sections that a role adds to its requests: made when they are due, each by one effect, all of them at once (R93, R94).

import { valueInTime } from "../../kernel/timed-work.ts";
import { shown } from "../../kernel/check.ts";
import { EspalierError, messageOf } from "../../kernel/error.ts";
import { deepFreeze } from "../../kernel/json.ts";
import type { Message } from "../../protocol/message.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { consult } from "../consult.ts";
import type { Consulted } from "../effects.ts";
import { failWith } from "../stop-requests.ts";
import { stepPosition, type AgentState, type MadeSection } from "../agent-state.ts";
import { type PlacedSection, type SectionContext, type SectionText } from "../request-sections.ts";
import { transition } from "../transition.ts";

/** What the sections of a role say in one request, by name; those with nothing to say, and those in the history, are not in it. */
export type SectionMessages = ReadonlyMap<string, Message>;

/** Sections that were made, and the state that knows of it. */
export interface MadeSections {
  readonly state: AgentState;
  readonly sections: SectionMessages;
}

export const NO_SECTIONS: SectionMessages = new Map();

/** Makes what is due: `step` sections every time, the others once in an execution. One that breaks fails the agent. */
export async function makeSections(agent: AgentRuntime, state: AgentState): Promise<MadeSections> {
  const { sections } = agent.role;
  const earlier = state.log.sections ?? [];
  const known = new Set(earlier.map(({ name }) => name));
  const due = sections.filter(
    ({ name, lifeCycle, text }) => text !== undefined && (lifeCycle === "step" || !known.has(name)),
  );
  const texts = await textsOf(agent, state, due);
  if (!(texts instanceof Map)) return { state: texts, sections: NO_SECTIONS };
  const lasting = due.filter(({ lifeCycle }) => lifeCycle !== "step");
  const next = lasting.length === 0 ? state : recorded(state, lasting, texts);
  const kept = next.log.sections ?? [];
  const said = new Map([...kept.map(({ name, text }) => [name, text] as const), ...texts]);
  const messages = sections.flatMap((section) => {
    const text = section.lifeCycle === "persistent" ? undefined : said.get(section.name);
    return text === undefined ? [] : [[section.name, messageOfSection(section, text)] as const];
  });
  return { state: next, sections: new Map(messages) };
}

/** What sections say, by name, or the state of an agent that one of them failed. */
async function textsOf(
  agent: AgentRuntime,
  state: AgentState,
  due: readonly PlacedSection[],
): Promise<Map<string, string | undefined> | AgentState> {
  const { stepId } = stepPosition(agent, state);
  const asked = due.flatMap(({ name, text }) =>
    typeof text === "function" ? [{ name, text }] : [],
  );
  const answers = await Promise.all(
    asked.map(({ name, text }) => consult(agent, () => ask(agent, state, name, text), { stepId })),
  );
  const failed = answers.find((answer) => answer.type === "failed");
  if (failed !== undefined) return failWith(agent, state, failed.error);
  const given = new Map(asked.map(({ name }, index) => [name, answerOf(answers[index])]));
  return new Map(
    due.map(({ name, text }) => [name, typeof text === "string" ? text : given.get(name)]),
  );
}

function answerOf(answer: Consulted<string | undefined> | undefined): string | undefined {
  return answer?.type === "returned" ? answer.value : undefined;
}

function recorded(
  state: AgentState,
  made: readonly PlacedSection[],
  texts: ReadonlyMap<string, string | undefined>,
): AgentState {
  const sections = made.map(({ name, lifeCycle }): MadeSection => {
    const text = lifeCycle === "persistent" ? undefined : texts.get(name);
    return text === undefined ? { name } : { name, text };
  });
  const messages = made.flatMap((section) => {
    const text = section.lifeCycle === "persistent" ? texts.get(section.name) : undefined;
    return text === undefined ? [] : [messageOfSection(section, text)];
  });
  const earlier = state.log.sections ?? [];
  return transition(state, {
    type: "recordSections",
    sections: [...earlier, ...sections],
    messages,
  });
}

function messageOfSection({ role }: PlacedSection, text: string): Message {
  return deepFreeze({ role: role ?? "user", text, origin: "section" });
}

async function ask(
  agent: AgentRuntime,
  state: AgentState,
  name: string,
  text: SectionText,
): Promise<string | undefined> {
  try {
    const given = await valueInTime<unknown>(
      (signal) => text(contextOf(agent, state, name, signal)),
      agent.bounds,
    );
    if (given === undefined) return undefined;
    if (typeof given !== "string") throw new TypeError(`it gave ${shown(given)}`);
    return given.trim() === "" ? undefined : given;
  } catch (cause) {
    const what = messageOf(cause);
    throw new EspalierError({
      code: "section_failed",
      message: `Expected the section ${name} of ${agent.role.name} to give a text, or undefined, but: ${what}. Correct its text function.`,
      data: { role: agent.role.name, section: name },
      cause,
    });
  }
}

function contextOf(
  agent: AgentRuntime,
  state: AgentState,
  sectionName: string,
  signal: AbortSignal,
): SectionContext {
  return Object.freeze({
    ...agent.facts,
    sectionName,
    role: agent.role.name,
    stepNumber: stepPosition(agent, state).stepNumber,
    messages: state.conversation.messages,
    steps: state.log.steps,
    usage: state.telemetry.usage,
    remaining: Object.freeze({ ...agent.account.remaining() }),
    signal,
  });
}
