// The sections of a request. Each has a name, a declared position and a lifetime. The built-in
// sections are in the table below, and a role adds its own beside them. Sections are checked and
// ordered once, when the role is defined.

import {
  checkIdentifier,
  checkKeys,
  checkList,
  checkText,
  mismatch,
} from "../kernel/argument-checks.ts";
import { deepFreeze, type JsonObject } from "../kernel/json.ts";
import type { AgentId, ExecutionId, RunId } from "../protocol/ids.ts";
import type { Message } from "../protocol/message.ts";
import type { StepRecord } from "../protocol/step-record.ts";
import type { Usage } from "../protocol/usage.ts";

/**
 * A part of every request of an agent, besides its instructions and its history.
 *
 * `Context` is the type of the run context that the section reads.
 *
 * @example
 * ```ts
 * const memory: RequestSection<{ readonly notes: readonly string[] }> = {
 *   name: "memory",
 *   lifetime: "execution",
 *   text: ({ context }) => `What you know about the user:\n${context.notes.join("\n")}`,
 * };
 * ```
 */
export interface RequestSection<in Context = unknown> {
  /**
   * The name of the section, unique within the role. At most 64 letters, digits, `_` and `-`,
   * beginning with a letter. The names `instructions`, `history`, `wrapUp` and `budget` are taken.
   */
  readonly name: string;
  /**
   * The time for which a text is reused.
   *
   * - `"step"`: created before each model call, and never persisted.
   * - `"execution"`: created before the first model call of an execution, and sent with all of its
   *   calls.
   * - `"persistent"`: created like `"execution"`, and appended to the history as a message that
   *   stays.
   *
   * @example
   * ```ts
   * const clock: RequestSection = {
   *   name: "clock",
   *   lifetime: "step",
   *   text: () => `It is ${new Date().toISOString()}.`,
   * };
   * ```
   */
  readonly lifetime: "step" | "execution" | "persistent";
  /**
   * The text of the section, or a function that returns it. An empty text, or `undefined`, leaves
   * the section out.
   *
   * The function may be asynchronous. If it throws, returns anything else or exceeds
   * `hookTimeoutMs`, the agent fails with `section_failed`.
   *
   * @example
   * ```ts
   * const progress: RequestSection = {
   *   name: "progress",
   *   lifetime: "step",
   *   text: ({ steps }) => (steps.length > 0 ? `You took ${steps.length} steps.` : undefined),
   * };
   * ```
   */
  readonly text:
    | string
    | ((context: SectionContext<Context>) => string | undefined | Promise<string | undefined>);
  /**
   * The section that directly precedes this one: `"instructions"`, `"history"` or another section
   * of the role. Sections with the same `after` keep their order in the list.
   *
   * A text that changes with every step belongs after the history. Prompt caches of providers reuse
   * a request only up to the first difference.
   *
   * @default "history", unless `before` is set; a section with the lifetime `"execution"` precedes
   * the history
   *
   * @example
   * ```ts
   * const rules: RequestSection = {
   *   name: "rules",
   *   lifetime: "execution",
   *   text: "House rules: be brief.",
   *   after: "instructions",
   * };
   * ```
   */
  readonly after?: string;
  /**
   * The section that directly follows this one: `"history"`, `"wrapUp"`, `"budget"` or another
   * section of the role. Set either `before` or `after`.
   *
   * @example
   * ```ts
   * const reminder: RequestSection = {
   *   name: "reminder",
   *   lifetime: "step",
   *   text: "Cite your sources.",
   *   before: "wrapUp",
   * };
   * ```
   */
  readonly before?: string;
  /**
   * The role of the message. A `"system"` section must directly follow the instructions, or another
   * section that does.
   *
   * @default "user"
   */
  readonly messageRole?: "system" | "user";
}

/**
 * Read-only facts about the agent whose request contains the section.
 *
 * `Context` is the type of the run context that the section reads.
 */
export interface SectionContext<out Context = unknown> {
  /** The name of this section. */
  readonly sectionName: string;
  /** The run of the agent. */
  readonly runId: RunId;
  /** The agent whose request contains the section. */
  readonly agentId: AgentId;
  /** Path of the agent in the tree, such as `lead/researcher#2`. */
  readonly agentPath: string;
  /** Depth of the agent. The root is at 0. */
  readonly depth: number;
  /** The name of the agent's role. */
  readonly role: string;
  /** The current execution of the agent. */
  readonly executionId: ExecutionId;
  /** The step that is about to begin, counted from 1. */
  readonly stepNumber: number;
  /** The history so far, including the instructions, without sections that are not persistent. */
  readonly messages: readonly Message[];
  /** Completed steps of this execution, oldest first. */
  readonly steps: readonly StepRecord[];
  /** Consumption of the agent itself in this execution, without its subagents. */
  readonly usage: Usage;
  /**
   * The agent's remaining budget by axis, such as `totalTokens`, `costUsd` and `steps`. Axes
   * without a limit are absent.
   */
  readonly remaining: Readonly<Record<string, number>>;
  /** The metadata of the agent. */
  readonly metadata: JsonObject;
  /**
   * The run context: the value passed as `context` to `start`, `resume` or `fork`.
   * `undefined` if none was passed.
   */
  readonly context: Context;
  /** Aborted when the function must end, because its agent ends or `hookTimeoutMs` has passed. */
  readonly signal: AbortSignal;
}

/**
 * A section at its position in the request, as in `sections` of an `AgentRole`.
 *
 * @example
 * ```ts
 * const names = role.sections.map(({ name }) => name); // instructions, history, wrapUp, budget
 * ```
 */
export interface PlacedSection<in Context = unknown> {
  /** The name of the section, unique within the role. */
  readonly name: string;
  /** The time for which a text is reused, as in `RequestSection`. */
  readonly lifetime: RequestSection["lifetime"];
  /** The role of the message. `undefined` for the history, which has messages of all roles. */
  readonly messageRole: "system" | "user" | undefined;
  /** The text, or the function that returns it. `undefined` for a built-in section. */
  readonly text: RequestSection<Context>["text"] | undefined;
}

/**
 * The built-in sections in the order of a request. Notices come last, where models are least likely
 * to overlook them.
 */
export const BUILT_IN_SECTIONS = deepFreeze([
  { name: "instructions", lifetime: "persistent", messageRole: "system", text: undefined },
  { name: "history", lifetime: "persistent", messageRole: undefined, text: undefined },
  /** The notice of the last step. See `wrapUp` of a role. */
  { name: "wrapUp", lifetime: "step", messageRole: "user", text: undefined },
  /** The line about the remaining budget. See `showBudget` of a role. */
  { name: "budget", lifetime: "step", messageRole: "user", text: undefined },
] as const satisfies readonly PlacedSection[]);

/** The name of a built-in section. */
export type BuiltInSection = (typeof BUILT_IN_SECTIONS)[number]["name"];

const BUILT_IN_NAMES: ReadonlySet<string> = new Set(BUILT_IN_SECTIONS.map(({ name }) => name));

const FIELDS = ["name", "lifetime", "text", "after", "before", "messageRole"];
const LIFE_CYCLES: readonly unknown[] = [
  "step",
  "execution",
  "persistent",
] satisfies RequestSection["lifetime"][];
/** Maximum number of sections of a role. */
const MOST_SECTIONS = 100;

/**
 * Returns all sections of a role in their order, including the built-in ones. Throws
 * `invalid_argument`, naming the field.
 */
export function arrangeSections(
  field: string,
  listed: readonly RequestSection[],
): readonly PlacedSection[] {
  checkList(field, listed);
  if (listed.length === 0) return BUILT_IN_SECTIONS;
  if (listed.length > MOST_SECTIONS)
    throw mismatch(field, `at most ${MOST_SECTIONS}`, listed.length, "Merge some of them.");
  const sections = Array.from(listed, (section, index) =>
    copySection(`${field}[${index}]`, section),
  );
  checkSectionNames(field, sections);
  const placed = orderSections(field, sections);
  for (const [index, { name }] of sections.entries()) {
    const at = placed.findIndex((candidate) => candidate.name === name);
    const section = placed[at];
    if (section !== undefined) checkPlace(`${field}[${index}]`, section, placed.slice(0, at));
  }
  return Object.freeze(placed);
}

function copySection(field: string, input: RequestSection): RequestSection {
  checkKeys(field, input, FIELDS);
  const section = Object.freeze({ ...input });
  const { name, lifetime, text, after, before, messageRole } = section;
  checkIdentifier(`${field}.name`, name);
  if (!LIFE_CYCLES.includes(lifetime)) {
    const advice = "Choose one.";
    throw mismatch(`${field}.lifetime`, LIFE_CYCLES.join(", "), lifetime, advice);
  }
  if (typeof text !== "function") checkText(`${field}.text`, text);
  if (after !== undefined) checkText(`${field}.after`, after);
  if (before !== undefined) checkText(`${field}.before`, before);
  if (after !== undefined && before !== undefined)
    throw mismatch(`${field}.before`, "left out with after", before, "Set one of the two.");
  if (messageRole !== undefined && messageRole !== "system" && messageRole !== "user")
    throw mismatch(`${field}.messageRole`, "system or user", messageRole, "Leave it out for user.");
  return section;
}

function checkSectionNames(field: string, sections: readonly RequestSection[]): void {
  const names = new Set<string>(BUILT_IN_NAMES);
  for (const [index, { name }] of sections.entries()) {
    if (names.has(name)) {
      const isBuiltIn = BUILT_IN_NAMES.has(name);
      const expected = `a name that no ${isBuiltIn ? "built-in" : "other"} section has`;
      const builtIn = isBuiltIn ? `Built in are ${[...BUILT_IN_NAMES].join(", ")}. ` : "";
      throw mismatch(`${field}[${index}].name`, expected, name, `${builtIn}Rename it.`);
    }
    names.add(name);
  }
  for (const [index, section] of sections.entries()) {
    const side = section.before === undefined ? "after" : "before";
    const anchor = section[side];
    if (anchor === undefined || names.has(anchor)) continue;
    const advice = `Its sections are ${[...names].join(", ")}.`;
    throw mismatch(`${field}[${index}].${side}`, "the name of a section", anchor, advice);
  }
}

/**
 * Returns the sections in their order. Sections form a tree by `after` and `before`, with the
 * built-in ones as its roots. Throws `invalid_argument` for a cycle.
 */
function orderSections(field: string, listed: readonly RequestSection[]): readonly PlacedSection[] {
  // By default, a persistent section precedes other sections that follow the history.
  const isFirst = (section: RequestSection): boolean =>
    section.lifetime === "persistent" && section.after === undefined;
  const sections = [...listed.filter(isFirst), ...listed.filter((section) => !isFirst(section))];
  const beside = (side: "before" | "after", name: string): readonly PlacedSection[] =>
    sections
      .filter((section) => findAnchor(section, side) === name)
      .flatMap(({ name, lifetime, messageRole = "user", text }) =>
        around(Object.freeze({ name, lifetime, messageRole, text })),
      );
  const around = (section: PlacedSection): readonly PlacedSection[] => [
    ...beside("before", section.name),
    section,
    ...beside("after", section.name),
  ];
  const ordered = BUILT_IN_SECTIONS.flatMap((section) => around(section));
  const known = new Set(ordered.map(({ name }) => name));
  const index = listed.findIndex(({ name }) => !known.has(name));
  if (index === -1) return ordered;
  const expected = "next to a section whose place does not depend on it";
  const advice = "Place one of them next to the history.";
  throw mismatch(`${field}[${index}]`, expected, listed[index]?.name, advice);
}

function findAnchor(section: RequestSection, side: "before" | "after"): string | undefined {
  if (section.after !== undefined || section.before !== undefined) return section[side];
  const isDefault = side === (section.lifetime === "execution" ? "before" : "after");
  return isDefault ? "history" : undefined;
}

/**
 * Throws `invalid_argument` if providers would refuse a section at its position, or if a
 * persistent section could not stay there. `earlier` are the sections before it.
 */
function checkPlace(
  field: string,
  { name, messageRole: role, lifetime }: PlacedSection,
  earlier: readonly PlacedSection[],
): void {
  const names = earlier.map((section) => section.name);
  if (names.includes("wrapUp")) {
    const advice =
      'Place it before: "wrapUp". The notices of the last step and of the budget come last.';
    throw mismatch(`${field}.after`, "a section before wrapUp", name, advice);
  }
  if (!names.includes("instructions")) {
    const advice = 'Place it after: "instructions". The instructions come first.';
    throw mismatch(`${field}.before`, "a section after the instructions", name, advice);
  }
  if (role === "system" && earlier.some((section) => section.messageRole !== "system")) {
    // Providers accept system messages only at the beginning.
    const expected = "directly after the instructions, as it is a system message";
    throw mismatch(field, expected, name, 'Set after: "instructions".');
  }
  if (lifetime !== "persistent") return;
  const history = names.indexOf("history");
  const behind = history < 0 ? [] : earlier.slice(history + 1);
  const misplaced = behind.find((section) => section.lifetime !== "persistent");
  if (history >= 0 && misplaced === undefined) return;
  const advice =
    misplaced === undefined
      ? 'Place it after: "history". A history only grows at its end.'
      : `Move it before ${misplaced.name}: a persistent section becomes part of the history.`;
  throw mismatch(field, "directly after the history", name, advice);
}
