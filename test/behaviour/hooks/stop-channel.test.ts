// Goal: all stops use one channel, and hooks can only add to it.
// Method: search the sources, and inspect the contexts that hooks receive.

import type { HookContext } from "../../../src/hooks/hook-points.ts";
import { globSync, readFileSync } from "node:fs";
import { basename } from "node:path";

import { expect, test } from "vitest";

import { processStep, transform, wrapModelCall, wrapToolCall } from "../../../src/hooks/hook.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { hookTree, ownerOf, POINTS } from "../../support/hook-sites.ts";

const sources = globSync("src/**/*.ts").map((path) => ({ path, text: readFileSync(path, "utf8") }));

/** Returns the files in which a pattern occurs outside of comments and imports. */
function filesWith(pattern: RegExp, under = "src/"): readonly string[] {
  return sources
    .filter(({ path }) => path.startsWith(under))
    .filter(({ text }) => pattern.test(text.replaceAll(/^\s*(\/\/|\/?\*|import ).*$/gm, "")))
    .map(({ path }) => basename(path))
    .toSorted();
}

proves(["R92"], "reads stop signals only in the loop's own modules", () => {
  expect(filesWith(/\.takeStopRequests\(/)).toEqual(["stop-requests.ts"]);
  expect(filesWith(/\bhandle(Stop)?Requests\(agent, /)).toEqual([
    "life-cycle.ts",
    "run-agent.ts",
    "stop-requests.ts",
  ]);
  expect(filesWith(/\bfindWinningSignal\(/)).toEqual(["life-cycle.ts", "stop-signals.ts"]);
  const loop = ["decide.ts", "life-cycle.ts", "pause-agent.ts", "run-agent.ts", "stop-requests.ts"];
  const readers = [...loop, "step-outcome.ts"];
  // Signals handled before a crash are not handled again, but they are reported.
  const keepers = ["persisted-effects.ts", "run-result.ts", "transition.ts"];
  expect(filesWith(/log\.signals\b/)).toEqual([...readers, ...keepers].toSorted());
});

proves(["R92"], "gives hooks, tools, policies and models no access to signals", () => {
  for (const folder of ["hooks", "tools", "model"])
    expect([
      folder,
      filesWith(/[sS]topSignal|takeStopRequests|log\.signals/, `src/${folder}/`),
    ]).toEqual([folder, []]);
  expect(filesWith(/takeStopRequests|log\.signals/, "src/policies/")).toEqual([]);
  expect(filesWith(/"(continue|compact|retry)"/, "src/hooks/")).toEqual([]);
});

const SIGHT = [
  "agentId",
  "agentPath",
  "context",
  "depth",
  "executionId",
  "hookName",
  "metadata",
  "requestStop",
  "role",
  "runId",
  "signal",
  "stepNumber",
];

proves(["R92"], "gives a hook only its identity and requestStop besides its input", async () => {
  const seen: Record<string, readonly string[]> = {};
  const note = (where: string, context: object): void => {
    seen[where] = Object.keys(context).toSorted();
  };
  const hooks = [
    ...POINTS.map((point) =>
      transform(point, (_input: unknown, context: HookContext) => note(point, context)),
    ),
    processStep((_step, context) => note("processStep", context)),
    wrapModelCall(({ context }, next) => (note("wrapModelCall", context), next())),
    wrapToolCall(({ context }, next) => (note("wrapToolCall", context), next())),
  ];
  const { lead } = hookTree({});
  await newFixture({ hooks }).run(lead.role);
  const places = [...POINTS, "processStep", "wrapModelCall", "wrapToolCall"];
  expect({ ...seen, userInput: SIGHT }).toEqual(
    Object.fromEntries(places.map((place) => [place, SIGHT])),
  );
});

for (const point of POINTS.filter((one) => one !== "userInput")) {
  proves(
    ["R21", "R87"],
    `starts nothing further after a hook at ${point} requested a stop`,
    async () => {
      const owner = ownerOf(point);
      const stops = transform(point, (_input: unknown, context: HookContext) => {
        if ("requestStop" in context) context.requestStop(`Enough at ${point}.`);
      });
      const tree = hookTree({ [owner]: [stops] });
      const fixture = newFixture();
      const result = await fixture.run(tree.lead.role);
      const ended = result.agents.find(({ role }) => role === owner);
      expect([ended?.status, ended?.reason]).toEqual([
        "stopped",
        { code: "stop_requested", message: `Enough at ${point}.`, data: {} },
      ]);
      const raised = fixture.sink
        .ofType("signal.raised")
        .map(({ signal }) => [signal.source, signal.name]);
      expect(raised).toContainEqual(["hook", `${point}#1`]);
      const count = { beforeModel: 0, beforeCompaction: 0, stop: 2, subagentStop: 2 };
      const expected = Object.entries(count).find(([name]) => name === point)?.[1] ?? 1;
      expect(tree.lead.model.requests.length).toBe(expected);
    },
  );
}

test("ignores a stop request after the run has ended", async () => {
  const kept: ((message: string) => void)[] = [];
  const keep = transform("beforeTool", (_input, { requestStop }) => void kept.push(requestStop));
  const { role } = soloist([asks("work", {}), says("done")], {
    tools: [spyTool("work")],
    hooks: [keep],
  });
  const fixture = newFixture();
  const result = await fixture.run(role);
  const { length } = fixture.sink.events;
  for (const requestStop of kept) requestStop("Too late.");
  expect([result.status, kept.length, fixture.sink.events.length]).toEqual([
    "completed",
    1,
    length,
  ]);
});
