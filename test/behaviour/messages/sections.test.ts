// Goal: a request consists of declared sections in a declared order, each with its declared
// lifetime.
// Method: roles with sections of every kind, over several steps and executions; requests and
// histories are compared in full.

import { expect, test } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import type { RequestSection, SectionContext } from "../../../src/agent/request-sections.ts";
import { transform } from "../../../src/hooks/hook.ts";
import type { Message } from "../../../src/protocol/message.ts";
import { asks, says, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist, type Soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, part, spawn } from "../../harness/scripted-agents.ts";

const tools = [spyTool("work")];
const SCRIPT: readonly ScriptStep[] = [asks("work", {}), asks("work", {}), says("Done.")];

function withSections(
  sections: readonly RequestSection[],
  more: Parameters<typeof soloist>[1] = {},
  script: readonly ScriptStep[] = SCRIPT,
): Soloist {
  return soloist(script, { tools, sections, ...more });
}

function textsOf({ model }: Soloist): readonly (readonly string[])[] {
  return model.requests.map(({ messages }) => messages.map(({ text }) => text));
}

/** Returns the history at the end of a run of the role. */
async function historyOf(role: AgentRole): Promise<readonly Message[]> {
  const fixture = newFixture();
  const run = fixture.start(role);
  let history: readonly Message[] = [];
  for await (const { state } of run.iterate()) history = state.conversation.messages;
  await fixture.outcome(run);
  return history;
}

proves(
  ["R93"],
  "orders a request as its sections declare, including the built-in ones",
  async () => {
    const solo = withSections(
      [
        { name: "state", lifetime: "step", text: "State." },
        { name: "memory", lifetime: "execution", text: "Memory." },
        {
          name: "rules",
          lifetime: "execution",
          messageRole: "system",
          after: "instructions",
          text: "Rules.",
        },
        { name: "last", lifetime: "step", before: "wrapUp", text: "Last." },
        { name: "reminder", lifetime: "step", after: "state", text: "Reminder." },
        { name: "index", lifetime: "execution", before: "memory", text: "Index." },
      ],
      { wrapUp: "Wrap up.", showBudget: true, budget: { steps: 1 } },
      [says("Done.")],
    );
    expect(
      solo.role.sections.map(({ name, lifetime, messageRole: role }) => [name, lifetime, role]),
    ).toEqual([
      ["instructions", "persistent", "system"],
      ["rules", "execution", "system"],
      ["index", "execution", "user"],
      ["memory", "execution", "user"],
      ["history", "persistent", undefined],
      ["state", "step", "user"],
      ["reminder", "step", "user"],
      ["last", "step", "user"],
      ["wrapUp", "step", "user"],
      ["budget", "step", "user"],
    ]);
    await newFixture().run(solo.role);
    expect(solo.model.requests[0]?.messages).toEqual([
      { role: "system", origin: "instructions", text: "Work." },
      { role: "system", origin: "section", text: "Rules." },
      { role: "user", origin: "section", text: "Index." },
      { role: "user", origin: "section", text: "Memory." },
      { role: "user", origin: "task", text: "Do it." },
      { role: "user", origin: "section", text: "State." },
      { role: "user", origin: "section", text: "Reminder." },
      { role: "user", origin: "section", text: "Last." },
      { role: "user", origin: "notice", text: "Wrap up." },
      { role: "user", origin: "notice", text: "Budget left: 1 step." },
    ]);
  },
);

proves(
  ["R93"],
  "creates a step section for every request, includes it once and never stores it",
  async () => {
    const seen: SectionContext[] = [];
    const solo = withSections([
      {
        name: "state",
        lifetime: "step",
        text: (context) => {
          seen.push(context);
          return `State ${context.stepNumber}.`;
        },
      },
    ]);
    const history = await historyOf(solo.role);
    expect(textsOf(solo)).toEqual([
      ["Work.", "Do it.", "State 1."],
      ["Work.", "Do it.", "", "work done", "State 2."],
      ["Work.", "Do it.", "", "work done", "", "work done", "State 3."],
    ]);
    expect(history.map(({ text }) => text)).toEqual([
      "Work.",
      "Do it.",
      "",
      "work done",
      "",
      "work done",
      "Done.",
    ]);
    expect(
      seen.map(({ messages, steps, usage }) => [messages.length, steps.length, usage.steps]),
    ).toEqual([
      [2, 0, 0],
      [4, 1, 1],
      [6, 2, 2],
    ]);
  },
);

proves(
  ["R93"],
  "creates an execution section once and repeats it in every request of the execution",
  async () => {
    let made = 0;
    const solo = withSections([
      { name: "memory", lifetime: "execution", text: async () => `Memory ${(made += 1)}.` },
    ]);
    const history = await historyOf(solo.role);
    expect(textsOf(solo)).toEqual([
      ["Work.", "Memory 1.", "Do it."],
      ["Work.", "Memory 1.", "Do it.", "", "work done"],
      ["Work.", "Memory 1.", "Do it.", "", "work done", "", "work done"],
    ]);
    expect([made, history.some(({ text }) => text.startsWith("Memory"))]).toEqual([1, false]);
  },
);

proves(
  ["R93"],
  "creates a persistent section once, places it behind the task and stores it in the history",
  async () => {
    let made = 0;
    const solo = withSections([
      { name: "day", lifetime: "persistent", text: () => `Day ${(made += 1)}.` },
      { name: "place", lifetime: "persistent", text: "Paris." },
    ]);
    const history = await historyOf(solo.role);
    expect(textsOf(solo)[0]).toEqual(["Work.", "Do it.", "Day 1.", "Paris."]);
    expect(textsOf(solo)[2]?.slice(0, 5)).toEqual(["Work.", "Do it.", "Day 1.", "Paris.", ""]);
    expect(history.slice(1, 4)).toEqual([
      { role: "user", origin: "task", text: "Do it." },
      { role: "user", origin: "section", text: "Day 1." },
      { role: "user", origin: "section", text: "Paris." },
    ]);
    expect(made).toBe(1);
  },
);

/** Creates a subagent that is continued: two executions of one agent. */
function twoExecutions(sections: readonly RequestSection[]): {
  readonly child: ReturnType<typeof part>;
  readonly root: ReturnType<typeof part>;
} {
  const child = part("child", [says("One."), says("Two.")], { sections });
  const goOn = {
    toolName: "SpawnSubagent",
    arguments: { role: "child", task: "Again.", continue: "child#1" },
  };
  const root = part("root", [calls(spawn("child")), calls(goOn), says("Root.")], {
    subagents: [child.role],
  });
  return { child, root };
}

proves(
  ["R93", "R95"],
  "creates each section again in the next execution, so that a persistent one is there twice",
  async () => {
    let made = 0;
    const next = (name: string) => () => `${name} ${(made += 1)}.`;
    const { child, root } = twoExecutions([
      { name: "day", lifetime: "persistent", text: next("Day") },
      { name: "memory", lifetime: "execution", text: next("Memory") },
      { name: "state", lifetime: "step", text: next("State") },
    ]);
    const fixture = newFixture();
    expect((await fixture.run(root.role)).status).toBe("completed");
    expect(child.model.requests.map(({ messages }) => messages.map(({ text }) => text))).toEqual([
      ["You are child.", "Memory 1.", "Work.", "Day 2.", "State 3."],
      ["You are child.", "Memory 4.", "Work.", "Day 2.", "One.", "Again.", "Day 5.", "State 6."],
    ]);
    expect(
      fixture.sink
        .ofType("section.cleared")
        .map(({ agentPath, executionId, name, count }) => [agentPath, executionId, name, count]),
    ).toEqual([
      ["root/child#1", "execution_2", "memory", 1],
      ["root/child#1", "execution_3", "memory", 1],
    ]);
  },
);

proves(
  ["R95"],
  "emits one event for each execution section that it clears, before the execution ends",
  async () => {
    const fixture = newFixture();
    const solo = withSections([
      { name: "memory", lifetime: "execution", text: "Memory." },
      { name: "nothing", lifetime: "execution", text: () => undefined },
      { name: "state", lifetime: "step", text: "State." },
      { name: "day", lifetime: "persistent", text: "Monday." },
    ]);
    await fixture.run(solo.role);
    expect(
      fixture.sink
        .ofType("section.cleared")
        .map(({ name, count, stepId }) => [name, count, stepId]),
    ).toEqual([
      ["memory", 1, null],
      ["nothing", 0, null],
    ]);
    const order = fixture.sink.events.map(({ type }) => type);
    expect(order.slice(-4)).toEqual([
      "section.cleared",
      "section.cleared",
      "agent.ended",
      "run.ended",
    ]);
  },
);

test("clears the sections of a failed execution, but not of a refused one", async () => {
  const sections: readonly RequestSection[] = [
    { name: "memory", lifetime: "execution", text: "Memory." },
  ];
  const failed = newFixture();
  await failed.run(withSections(sections, {}, [{ error: new Error("broken") }]).role);
  expect(failed.sink.ofType("section.cleared").map(({ name }) => name)).toEqual(["memory"]);
  const refused = newFixture();
  const refuse = transform("userInput", () => ({ refuse: "No." }));
  await refused.run(withSections(sections, { hooks: [refuse] }, []).role);
  expect(refused.sink.ofType("section.cleared")).toEqual([]);
});

proves(
  ["R94"],
  "sends a section between two built-in ones, counts it in the lease and shows it to hooks",
  async () => {
    const text = "word ".repeat(300);
    const shown: (readonly string[])[] = [];
    const watch = transform("beforeModel", ({ messages }) => {
      shown.push(messages.map((message) => message.text));
    });
    const lease = async (sections: readonly RequestSection[]): Promise<number> => {
      const solo = soloist([says("Done.")], { sections, hooks: [watch] }, { countTokens: null });
      const fixture = newFixture();
      await fixture.run(solo.role);
      return fixture.sink.ofType("budget.reserved")[0]?.inputTokens ?? 0;
    };
    const without = await lease([]);
    const more = await lease([{ name: "memory", lifetime: "execution", text }]);
    expect(more - without).toBe(506); // 1,500 bytes, three a token, and the frame of a message
    expect(shown).toEqual([["Do it."], [text, "Do it."]]);
  },
);

test("lets a hook change sections with the messages, without losing a system section", async () => {
  const redact = transform("beforeModel", ({ messages }) => ({
    messages: messages.map((message) => ({
      ...message,
      text: message.text.replace("Paris", "***"),
    })),
  }));
  const solo = withSections(
    [
      {
        name: "rules",
        lifetime: "execution",
        messageRole: "system",
        after: "instructions",
        text: "Rules.",
      },
      { name: "state", lifetime: "step", text: "In Paris." },
    ],
    { hooks: [redact] },
    [says("Done.")],
  );
  await newFixture().run(solo.role);
  expect(solo.model.requests[0]?.messages.map(({ role, text }) => [role, text])).toEqual([
    ["system", "Work."],
    ["system", "Rules."],
    ["user", "Do it."],
    ["user", "In ***."],
  ]);
});

test("omits a section whose text is undefined, empty or blank", async () => {
  const texts = [undefined, "", " \n", "Here."];
  const solo = withSections(
    texts.map((text, index) => ({ name: `s${index}`, lifetime: "step", text: () => text })),
    {},
    [says("Done.")],
  );
  await newFixture().run(solo.role);
  expect(textsOf(solo)).toEqual([["Work.", "Do it.", "Here."]]);
});

test("passes only persistent sections to a subagent that inherits the history", async () => {
  const child = part("child", [says("Child.")]);
  const root = part("root", [calls(spawn("child")), says("Root.")], {
    subagents: [child.role],
    contextPolicy: { inheritMessages: true },
    sections: [
      { name: "memory", lifetime: "execution", text: "Memory." },
      { name: "state", lifetime: "step", text: "State." },
      { name: "day", lifetime: "persistent", text: "Monday." },
    ],
  });
  await newFixture().run(root.role, { budget: { steps: 9 } });
  const [request] = child.model.requests;
  expect(request?.messages.map(({ text }) => text)).toEqual([
    "You are child.",
    "Do it.",
    "Monday.",
    "Work.",
  ]);
});

test("gives a section a complete and frozen context of its agent", async () => {
  const seen: SectionContext[] = [];
  const solo = withSections(
    [
      {
        name: "state",
        lifetime: "step",
        text: (context) => {
          seen.push(context);
          return undefined;
        },
      },
    ],
    { budget: { steps: 5 } },
    [says("Done.")],
  );
  await newFixture().run(solo.role, { metadata: { book: "one" } });
  const [{ signal, ...facts } = { signal: undefined }] = seen;
  expect(facts).toMatchObject({
    sectionName: "state",
    runId: "run_1",
    agentPath: "solo",
    depth: 0,
    role: "solo",
    stepNumber: 1,
    steps: [],
    remaining: { steps: 5 },
    metadata: { book: "one" },
  });
  const [context] = seen;
  expect(
    [context, context?.messages, context?.steps, context?.remaining, context?.metadata].map(
      Object.isFrozen,
    ),
  ).toEqual([true, true, true, true, true]);
  expect(signal?.aborted).toBe(false);
});
