// Goal: messages to agents and results of tools may contain attachments. A model that accepts them
// receives them, any other reads a line.
// Method: real runs with scripted models; their requests compared in full.

import { describe, expect } from "vitest";

import type { AttachmentKind } from "../../../src/protocol/attachment.ts";
import type { ContentPart } from "../../../src/protocol/message-content.ts";
import type { Message } from "../../../src/protocol/message.ts";
import { transform } from "../../../src/hooks/hook.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { ToolError } from "../../../src/tools/tool-error.ts";
import { toolResult } from "../../../src/tools/tool-result.ts";
import { delegation } from "../../support/custom-delegations.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import {
  CHART,
  CHART_LINE,
  PHOTO,
  PHOTO_LINE,
  REPORT,
  REPORT_LINE,
  SAID,
  SAID_TEXT,
  SOUND_LINE,
  words,
} from "../../support/attachments.ts";
import { calls, part, until, use } from "../../harness/scripted-agents.ts";

const ALL: readonly AttachmentKind[] = ["image", "audio", "file"];
const seeing = { inputModalities: ALL };
const EMPTY = { type: "image", mediaType: "image/png", data: "" } as const;

/** Returns the last request's messages without the instructions. */
function shownTo({ requests }: { readonly requests: readonly { messages: readonly Message[] }[] }) {
  return requests.at(-1)?.messages.slice(1);
}

const task = (text: string, content?: readonly ContentPart[]): Message => ({
  role: "user",
  text,
  origin: "task",
  ...(content === undefined ? {} : { content }),
});

describe("a task with attachments", () => {
  for (const { inputModalities, content } of [
    { inputModalities: ALL, content: SAID },
    {
      inputModalities: ["image"],
      content: SAID.map((one) =>
        one.type === "file" ? words(REPORT_LINE) : one.type === "audio" ? words(SOUND_LINE) : one,
      ),
    },
    { inputModalities: [], content: undefined },
    { inputModalities: undefined, content: undefined },
  ] as const)
    proves(
      ["M70"],
      `is passed to a model that accepts ${inputModalities?.join(", ") ?? "text"}`,
      async () => {
        const { role, model } = soloist(
          [says("Done.")],
          {},
          inputModalities === undefined ? {} : { inputModalities },
        );
        const fixture = newFixture();
        const result = await fixture.outcome(fixture.start(role, SAID));
        expect(shownTo(model)).toEqual([task(SAID_TEXT, content)]);
        expect(result.messages[1]).toMatchObject(task(SAID_TEXT, SAID));
        expect(result.agents[0]).toMatchObject({ task: SAID_TEXT });
        expect(fixture.sink.ofType("run.started")).toMatchObject([{ task: SAID_TEXT }]);
      },
    );

  proves(["M70"], "becomes plain text if all of its parts are text", async () => {
    const { role, model } = soloist([says("Done."), says("Done.")], {}, seeing);
    const fixture = newFixture();
    const file = { type: "file", mediaType: "text/plain", name: "a.txt", text: "All." } as const;
    await fixture.outcome(fixture.start(role, "Do it."));
    expect(shownTo(model)).toEqual([task("Do it.")]);
    await fixture.outcome(newFixture().start(role, [words("Read"), file]));
    expect(shownTo(model)).toEqual([task('Read\n[text/plain "a.txt", 4 bytes]\nAll.')]);
  });

  proves(["M70"], "contains the bytes of a data: address instead of the address", async () => {
    const { role, model } = soloist([says("Done.")], {}, seeing);
    const fixture = newFixture();
    const { data, ...named } = CHART;
    const uri = `data:image/png;base64,${data}`;
    await fixture.outcome(fixture.start(role, [{ ...named, uri }]));
    expect(shownTo(model)).toEqual([task(CHART_LINE, [CHART])]);
  });

  proves(
    ["M70"],
    "is passed to hooks with its attachments, which remain if a hook changes the text",
    async () => {
      const seen: unknown[] = [];
      const hook = transform("userInput", (input) => {
        seen.push(input.content);
        return { task: input.task.replace("Compare", "Look at") };
      });
      const { role, model } = soloist([says("Done.")], { hooks: [hook] }, seeing);
      const fixture = newFixture();
      await fixture.outcome(fixture.start(role, [words("Compare"), CHART, words("with"), PHOTO]));
      expect(seen).toEqual([[words("Compare"), CHART, words("with"), PHOTO]]);
      const changed = "Look at\n\nwith";
      expect(shownTo(model)).toEqual([
        task(`${changed}\n${CHART_LINE}\n${PHOTO_LINE}`, [words(changed), CHART, PHOTO]),
      ]);
    },
  );
});

proves(["M70"], "attachments of a steering message are in the agent's next request", async () => {
  const door = latch();
  const wait = spyTool("wait", async () => {
    await door.opened;
    return "Waited.";
  });
  const script = [calls(use("wait")), says("Done.")];
  const { role, model } = soloist(script, { tools: [wait] }, seeing);
  const fixture = newFixture();
  const run = fixture.start(role);
  await until(() => wait.calls.length === 1);
  const delivery = run.steer([words("See"), CHART]);
  door.open();
  await fixture.outcome(run);
  expect(await delivery).toEqual({ isDelivered: true, stepNumber: 2 });
  const text = `See\n${CHART_LINE}`;
  expect(shownTo(model)?.at(-1)).toEqual({
    role: "user",
    text,
    origin: "steering",
    content: [words("See"), CHART],
  });
  expect(fixture.sink.ofType("message.delivered")).toMatchObject([{ characters: text.length }]);
});

describe("a delegation in code", () => {
  const told = [words("Read"), REPORT];
  const toldText = `Read\n${REPORT_LINE}`;

  proves(["M70"], "passes attachments to a new subagent and to a continued one", async () => {
    const start = delegation((context) => context.spawn({ role: "helper", task: told }), "start");
    const next = delegation(
      (context) => context.subagents.continue({ subagent: "helper#1", task: [CHART] }),
      "next",
    );
    const helper = part("helper", [says("Ok."), says("Ok.")], { scripted: seeing });
    const lead = part("lead", [calls(use("start")), calls(use("next")), says("Done.")], {
      subagents: [helper.role],
      tools: [start, next],
    });
    const fixture = newFixture();
    await fixture.outcome(fixture.start(lead.role));
    expect(helper.model.requests[0]?.messages.slice(1)).toEqual([task(toldText, told)]);
    expect(shownTo(helper.model)?.at(-1)).toEqual(task(CHART_LINE, [CHART]));
    expect(fixture.sink.ofType("subagent.spawned")).toMatchObject([{ task: toldText }]);
    expect(fixture.sink.ofType("subagent.continued")).toMatchObject([{ task: CHART_LINE }]);
  });

  proves(
    ["M70"],
    "passes attachments to a subtask, which keeps them if a hook changes the text",
    async () => {
      const queue = spyTool("queue", ({ queueSubtask }) => {
        queueSubtask({ role: "helper", task: told });
        return "Queued.";
      });
      const hook = transform("subagentStart", ({ task: asked }) => ({ task: `${asked}!` }));
      const helper = part("helper", [says("Ok.")], { scripted: seeing });
      const lead = part("lead", [calls(use("queue")), says("Done.")], {
        subagents: [helper.role],
        tools: [queue],
        hooks: [hook],
      });
      await newFixture().run(lead.role);
      const changed = [words("Read\n!"), REPORT];
      expect(shownTo(helper.model)).toEqual([task(`Read\n!\n${REPORT_LINE}`, changed)]);
      expect(shownTo(lead.model)?.at(-1)?.text).toContain(`Its task: ${toldText}\n`);
    },
  );

  proves(["M74"], "is refused if its attachments are invalid", async () => {
    const thrown: unknown[] = [];
    const start = delegation(async (context) => {
      const plain = { ...PHOTO, uri: "http://example.com/a.jpg" };
      try {
        return await context.spawn({ role: "helper", task: [plain] });
      } catch (cause) {
        thrown.push(cause);
        throw cause;
      }
    }, "start");
    const helper = part("helper", [says("Ok.")]);
    const lead = part("lead", [calls(use("start")), says("Done.")], {
      subagents: [helper.role],
      tools: [start],
    });
    await newFixture().run(lead.role);
    expect(thrown).toMatchObject([
      { code: "invalid_argument", data: { field: "spawn.task[0].uri" } },
    ]);
    expect(helper.model.requests).toEqual([]);
  });
});

describe("a tool result with attachments", () => {
  const drawing = {
    attachments: [CHART, { ...CHART, mediaType: "image/svg+xml" }, PHOTO, REPORT, EMPTY],
  };
  const lines = [
    CHART_LINE,
    '[image/svg+xml "chart.png", 24 bytes]',
    PHOTO_LINE,
    REPORT_LINE,
    "[image/png, 0 bytes]",
  ];

  async function shownOf(give: () => unknown, inputModalities = ALL) {
    const draw = spyTool("draw", give);
    const script = [calls(use("draw")), says("Done.")];
    const { role, model } = soloist(script, { tools: [draw] }, { inputModalities });
    const { steps } = await newFixture().run(role);
    const { callId: _id, ...result } = { callId: "", ...shownTo(model)?.at(-1) };
    return { result, execution: steps[0]?.tools.executions[0] };
  }
  const result = (text: string, content?: readonly ContentPart[]) => ({
    role: "tool",
    toolName: "draw",
    text,
    ...(content === undefined ? {} : { content }),
  });

  proves(["M72"], "contains the bytes of formats that providers accept", async () => {
    const shown = await shownOf(() => toolResult(drawing));
    expect(shown.result).toEqual(result(lines.join("\n"), [CHART, REPORT]));
    expect(shown.execution?.attachments).toEqual(drawing.attachments);
  });

  proves(["M72"], "contains only the attachments that the model accepts", async () => {
    const shown = await shownOf(() => toolResult({ text: "Here.", ...drawing }), ["file"]);
    expect(shown.result).toEqual(result("Here.", [REPORT]));
  });

  proves(
    ["M72"],
    "is text if the tool hides its attachments or the model accepts none",
    async () => {
      const hidden = await shownOf(() => toolResult({ ...drawing, showAttachments: false }));
      expect(hidden.result).toEqual(result(lines.join("\n")));
      expect(hidden.execution).toMatchObject({
        isTextOnly: true,
        attachments: drawing.attachments,
      });
      const blind = await shownOf(() => toolResult(drawing), []);
      expect(blind.result).toEqual(result(lines.join("\n")));
    },
  );

  proves(["M72"], "is passed on if the tool failed", async () => {
    const shown = await shownOf(() => {
      throw new ToolError("No way in.", { attachments: [CHART] });
    });
    expect(shown.result).toEqual(result("draw failed: No way in.", [CHART]));
    expect(shown.execution).toMatchObject({ type: "failed", attachments: [CHART] });
  });
});

proves(["M70", "R97"], "a hook may remove attachments from one request", async () => {
  const blind = transform("beforeModel", ({ messages }) => ({
    messages: messages.map((message) => {
      if (message.role !== "user") return message;
      const { content: _content, ...plain } = message;
      return plain;
    }),
  }));
  const { role, model } = soloist([says("Done.")], { hooks: [blind] }, seeing);
  const fixture = newFixture();
  const { messages } = await fixture.outcome(fixture.start(role, [CHART]));
  expect(shownTo(model)).toEqual([task(CHART_LINE)]);
  expect(messages[1]).toMatchObject(task(CHART_LINE, [CHART]));
});

proves(
  ["M71", "X31"],
  "a request has an unchanged prefix only if its attachments are unchanged",
  async () => {
    const blind = transform("beforeModel", ({ messages, steps }) => ({
      messages: messages.map((message) => {
        if (message.role !== "user" || steps.length === 0) return message;
        const { content: _content, ...plain } = message;
        return plain;
      }),
    }));
    for (const [hooks, isHeld] of [
      [[], true],
      [[blind], false],
    ] as const) {
      const script = [calls(use("look")), says("Done.")];
      const { role } = soloist(script, { tools: [spyTool("look")], hooks }, seeing);
      const fixture = newFixture();
      await fixture.outcome(fixture.start(role, [CHART]));
      const [, second] = fixture.sink.ofType("model.requested");
      expect(second?.prefix?.isUnchanged).toBe(isHeld);
    }
  },
);
