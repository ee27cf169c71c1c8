// What a request consists of: named sections, in a declared order, each with a declared life cycle (R93). The built-in ones are in the
// table below; a role adds its own, each next to another one. Here they are checked and put in order, once, when a role is defined.

import {
  checkIdentifier,
  checkKeys,
  checkList,
  checkText,
  misdefinition,
} from "../kernel/check.ts";
import { deepFreeze, type JsonObject } from "../kernel/json.ts";
import type { AgentId, ExecutionId, RunId } from "../protocol/ids.ts";
import type { Message } from "../protocol/message.ts";
import type { StepRecord } from "../protocol/step-record.ts";
import type { Usage } from "../protocol/usage.ts";

/** A part of every request of an agent, besides its instructions and its history. `Context`: what it asks of the context of a run. */
export interface RequestSection<in Context = unknown> {
  /** Letters, digits, `_` and `-`, at most 64, a letter first. No two of a role have the same, and none that of a built-in one. */
  readonly name: string;
  /**
   * How long a section lives. `step`: made anew before each model call, sent with it, and never kept. `execution`: made once, before the
   * first model call of an execution, sent with every one of it, and cleared at its end. `persistent`: made once, before the first model call of
   * each execution, and written into the history behind the task; from then on it is a message like any other.
   */
  readonly lifetime: "step" | "execution" | "persistent";
  /**
   * What the section says: a text, or a function that is called whenever the section is made. `undefined`, or a text with nothing in it: the
   * section is left out. The function may be asynchronous and should obey `context.signal`. If it throws, returns anything else or takes
   * longer than `hookTimeoutMs`, its agent fails with `section_failed`.
   */
  readonly text:
    | string
    | ((context: SectionContext<Context>) => string | undefined | Promise<string | undefined>);
  /**
   * The section that it stands right behind: `instructions`, `history` or another one of the role. Several behind one keep the order in
   * which they are listed. Default, if `before` is left out, too: behind the `history`; for `execution` right before it.
   *
   * What changes from step to step should stand behind the history: the prompt caches of providers keep a request up to the first
   * difference, so a change before the history makes all of it dear again.
   */
  readonly after?: string;
  /** The section that it stands right before: `history`, `wrapUp`, `budget` or another one of the role. Instead of `after`. */
  readonly before?: string;
  /**
   * The role of its message. Default `user`. `system`: as a further system message, which has to stand right behind the
   * instructions, or behind one that does.
   */
  readonly messageRole?: "system" | "user";
}

/**
 * What a section may know of the agent whose request it is part of. Read-only. `Context`: what the section asks of the run's context;
 * default: nothing.
 */
export interface SectionContext<out Context = unknown> {
  /** The name of the section that is asked. */
  readonly sectionName: string;
  readonly runId: RunId;
  readonly agentId: AgentId;
  /** Place of the agent in the tree: `lead/researcher#2`. */
  readonly agentPath: string;
  /** 0 for the root. */
  readonly depth: number;
  /** The name of the agent's role. */
  readonly role: string;
  readonly executionId: ExecutionId;
  /** Of the step that is about to begin, from 1. */
  readonly stepNumber: number;
  /** The history so far, instructions included, without sections that are not kept. */
  readonly messages: readonly Message[];
  /** The completed steps of this execution, oldest first. */
  readonly steps: readonly StepRecord[];
  /** What the agent itself has consumed in this execution. */
  readonly usage: Usage;
  /** What the agent may still spend, by axis (`totalTokens`, `costUsd`, `steps`, …); axes without a limit are absent. */
  readonly remaining: Readonly<Record<string, number>>;
  /** The metadata of the agent. */
  readonly metadata: JsonObject;
  /** The context of the run: the very value that was given with it; undefined: none was. */
  readonly context: Context;
  /** Aborted when the section must end: its agent has to end, or its time is up. */
  readonly signal: AbortSignal;
}

/** A section in its place. */
export interface PlacedSection<in Context = unknown> {
  /** Unique within the role. */
  readonly name: string;
  /** How long the section lives, as in `RequestSection`. */
  readonly lifetime: RequestSection["lifetime"];
  /** Undefined: messages of every kind. */
  readonly messageRole: "system" | "user" | undefined;
  /** Undefined for what is built in. */
  readonly text: RequestSection<Context>["text"] | undefined;
}

/** What every request consists of, in this order. The notices come last, where models overlook them least. */
export const BUILT_IN_SECTIONS = deepFreeze([
  { name: "instructions", lifetime: "persistent", messageRole: "system", text: undefined },
  { name: "history", lifetime: "persistent", messageRole: undefined, text: undefined },
  /** That this is the last step; see `wrapUp` of a role. */
  { name: "wrapUp", lifetime: "step", messageRole: "user", text: undefined },
  /** What is left of the budget; see `showBudget` of a role. */
  { name: "budget", lifetime: "step", messageRole: "user", text: undefined },
] as const satisfies readonly PlacedSection[]);

/** The names of what is built in. */
export type BuiltInSection = (typeof BUILT_IN_SECTIONS)[number]["name"];

const BUILT_IN_NAMES: ReadonlySet<string> = new Set(BUILT_IN_SECTIONS.map(({ name }) => name));

const FIELDS = ["name", "lifetime", "text", "after", "before", "messageRole"];
const LIFE_CYCLES: readonly unknown[] = [
  "step",
  "execution",
  "persistent",
] satisfies RequestSection["lifetime"][];
/** A role does not get more. */
const MOST_SECTIONS = 100;

/** All sections of a role in their order, the built-in ones among them. Throws `invalid_definition` or `invalid_option`, naming the field. */
export function placedSections(
  field: string,
  given: readonly RequestSection[],
): readonly PlacedSection[] {
  checkList(field, given);
  if (given.length === 0) return BUILT_IN_SECTIONS;
  if (given.length > MOST_SECTIONS)
    throw misdefinition(field, `at most ${MOST_SECTIONS}`, given.length, "Merge some of them.");
  const sections = Array.from(given, (section, index) =>
    checkedSection(`${field}[${index}]`, section),
  );
  checkSectionNames(field, sections);
  const placed = inOrder(field, sections);
  for (const [index, { name }] of sections.entries()) {
    const at = placed.findIndex((one) => one.name === name);
    const section = placed[at];
    if (section !== undefined) checkPlace(`${field}[${index}]`, section, placed.slice(0, at));
  }
  return Object.freeze(placed);
}

function checkedSection(field: string, given: RequestSection): RequestSection {
  checkKeys(field, given, FIELDS);
  const section = Object.freeze({ ...given });
  const { name, lifetime, text, after, before, messageRole } = section;
  checkIdentifier(`${field}.name`, name);
  if (!LIFE_CYCLES.includes(lifetime)) {
    const advice = "Set its life cycle.";
    throw misdefinition(`${field}.lifetime`, LIFE_CYCLES.join(", "), lifetime, advice);
  }
  if (typeof text !== "function") checkText(`${field}.text`, text);
  if (after !== undefined) checkText(`${field}.after`, after);
  if (before !== undefined) checkText(`${field}.before`, before);
  if (after !== undefined && before !== undefined)
    throw misdefinition(`${field}.before`, "left out with after", before, "Set one of the two.");
  if (messageRole !== undefined && messageRole !== "system" && messageRole !== "user")
    throw misdefinition(
      `${field}.messageRole`,
      "system or user",
      messageRole,
      "Leave it out for user.",
    );
  return section;
}

function checkSectionNames(field: string, sections: readonly RequestSection[]): void {
  const names = new Set<string>(BUILT_IN_NAMES);
  for (const [index, { name }] of sections.entries()) {
    if (names.has(name)) {
      const advice = `Built in are ${[...BUILT_IN_NAMES].join(", ")}. Rename it.`;
      throw misdefinition(
        `${field}[${index}].name`,
        "a name that no built-in section has",
        name,
        advice,
      );
    }
    names.add(name);
  }
  for (const [index, section] of sections.entries()) {
    const side = section.before === undefined ? "after" : "before";
    const anchor = section[side];
    if (anchor === undefined || names.has(anchor)) continue;
    const advice = `Its sections are ${[...names].join(", ")}.`;
    throw misdefinition(`${field}[${index}].${side}`, "the name of a section", anchor, advice);
  }
}

/** Sections hang on one another like the branches of a tree; those that hang on nothing built in hang on themselves. */
function inOrder(field: string, listed: readonly RequestSection[]): readonly PlacedSection[] {
  // What goes into the history comes before what only stands behind it, by default.
  const isFirst = (section: RequestSection): boolean =>
    section.lifetime === "persistent" && section.after === undefined;
  const sections = [...listed.filter(isFirst), ...listed.filter((one) => !isFirst(one))];
  const beside = (side: "before" | "after", name: string): readonly PlacedSection[] =>
    sections
      .filter((section) => anchorOf(section, side) === name)
      .flatMap((one) => around(placed(one)));
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
  throw misdefinition(`${field}[${index}]`, expected, listed[index]?.name, advice);
}

function placed({ name, lifetime, messageRole = "user", text }: RequestSection): PlacedSection {
  return Object.freeze({ name, lifetime, messageRole, text });
}

function anchorOf(section: RequestSection, side: "before" | "after"): string | undefined {
  if (section.after !== undefined || section.before !== undefined) return section[side];
  const isDefault = side === (section.lifetime === "execution" ? "before" : "after");
  return isDefault ? "history" : undefined;
}

/** What stands where it cannot be sent, or could not stay, is a slip. `earlier`: what stands before it. */
function checkPlace(
  field: string,
  { name, messageRole: role, lifetime }: PlacedSection,
  earlier: readonly PlacedSection[],
): void {
  const names = earlier.map((one) => one.name);
  if (names.includes("wrapUp")) {
    const advice =
      'Place it before: "wrapUp". The notices of the last step and of the budget come last.';
    throw misdefinition(`${field}.after`, "a section before wrapUp", name, advice);
  }
  if (!names.includes("instructions")) {
    const advice = 'Place it after: "instructions". The instructions come first.';
    throw misdefinition(`${field}.before`, "a section after the instructions", name, advice);
  }
  if (role === "system" && earlier.some((one) => one.messageRole !== "system")) {
    // Providers take system messages at the beginning only.
    const expected = "directly after the instructions, as it is a system message";
    throw misdefinition(field, expected, name, 'Set after: "instructions".');
  }
  if (lifetime !== "persistent") return;
  const history = names.indexOf("history");
  const behind = history < 0 ? [] : earlier.slice(history + 1);
  const misplaced = behind.find((one) => one.lifetime !== "persistent");
  if (history >= 0 && misplaced === undefined) return;
  const advice =
    misplaced === undefined
      ? 'Place it after: "history". A history only grows at its end.'
      : `Move it before ${misplaced.name}: a persistent section becomes part of the history.`;
  throw misdefinition(field, "directly after the history", name, advice);
}
