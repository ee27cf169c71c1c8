// Goal: the page states the facts of a run: its result, name, usage and time, and why it is paused.
// Method: Chromium on the built page, over a viewer with real runs in one store.

import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect } from "vitest";
import { z } from "zod";

import { defineAgent } from "../../src/agent/define-agent.ts";
import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import { parseId } from "../../src/protocol/ids.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { startViewer, type Viewer } from "../../src/viewer-server/viewer.ts";
import { engineWorld } from "../support/engine/engine-world.ts";
import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";
import { countedTool, spawnCall, thinker } from "../support/journal/thinkers.ts";
import { act, placeOf } from "../support/viewer-server/asking.ts";
import { buildPage, type BuiltPage } from "./built-page.ts";
import { findChromium, openTab } from "./chromium.ts";

const found = await findChromium();
const browser = typeof found === "string" ? undefined : found;
if (typeof found === "string") console.warn(`Tests of the page are skipped: ${found}.`);

let built: BuiltPage | undefined;
beforeAll(async () => {
  if (browser !== undefined) built = await buildPage();
});
afterAll(async () => {
  await browser?.close();
  built?.remove();
});

const RUN = parseId<"RunId">("facts");
const LETTER = "Dear buyer,\n\nthe pears are late.\n\tYours";

/** A helper whose only tool fails. */
const helper = defineAgent({
  name: "helper",
  description: "Helps.",
  instructions: "You help.",
  model: thinker("helper", ({ results }) =>
    results.length === 0 ? { calls: [["look", { thing: "stone" }]] } : { text: "Nothing seen." },
  ),
  tools: [
    countedTool(new Map(), "look", () => {
      throw new Error("disk is on fire");
    }),
  ],
});

/** A lead with a typed result that starts two helpers. */
const lead = defineAgent({
  name: "lead",
  instructions: "You lead.",
  output: z.object({ verdict: z.string(), stones: z.number() }),
  model: thinker("lead", ({ results }) =>
    results.length === 0
      ? { calls: [spawnCall("helper", "One."), spawnCall("helper", "Two.")] }
      : { calls: [["Finish", { verdict: "no stones", stones: 0 }]] },
  ),
  subagents: [helper],
});

/** An agent that asks before it writes a letter. */
const clerk = defineAgent({
  name: "clerk",
  instructions: "You write.",
  model: thinker("clerk", ({ results }) =>
    results.length === 0
      ? { calls: [["send", { to: "buyer", letter: LETTER }]] }
      : { text: "Sent." },
  ),
  tools: [
    defineTool({
      name: "send",
      description: "Sends a letter.",
      inputSchema: z.object({ to: z.string(), letter: z.string() }),
      needsApproval: true,
      execute: () => "sent",
    }),
  ],
});

/** Starts a viewer over a store, which shows the runs of a process without an approver. */
async function world(): Promise<{ readonly view: Viewer; readonly orchestrator: Orchestrator }> {
  const view = await startViewer({
    port: 0,
    store: memoryStore(),
    pageFolder: built?.folder ?? "",
  });
  afterwards(() => view.close());
  return { view, orchestrator: new Orchestrator({ store: view.store }) };
}

async function open(view: Viewer, path: string, width = 1_280): Promise<Page> {
  if (browser === undefined) throw new Error("no browser");
  const { origin, hash } = new URL(view.url);
  const options = { viewport: { width, height: 720 } };
  const tab = await openTab(browser, `${origin}${path}${hash}`, options);
  afterwards(() => tab.close());
  return tab.page;
}

/** Takes screenshots of the page in light and dark mode, if they were requested. */
async function shoot(page: Page, name: string): Promise<void> {
  const folder = process.env["ESPALIER_TEST_SHOTS"];
  if (folder === undefined) return;
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await page.screenshot({ path: `${folder}/${name}-${colorScheme}.png` });
  }
}

/** Returns the colour of an element and the page's colour for failures. */
async function colors(page: Page, selector: string): Promise<readonly [string, string]> {
  return await page
    .locator(selector)
    .first()
    .evaluate((element) => {
      const bad = document.createElement("i");
      bad.style.color = "var(--bad)";
      document.body.append(bad);
      const found = getComputedStyle(bad).color;
      bad.remove();
      return [getComputedStyle(element).color, found] as const;
    });
}

describe.skipIf(browser === undefined)("facts of a run on the page", () => {
  proves(["D592"], "shows the typed result of an agent in its overview", async () => {
    const { view, orchestrator } = await world();
    const { agents } = await orchestrator.start(lead, "Look.", { runId: RUN }).result;
    const page = await open(view, `/r/${RUN}?agent=${agents[0]?.agentId}`);
    await page.locator(".panel-body h3", { hasText: "Agent" }).waitFor();
    await shoot(page, "result");
    const result = page.locator(".panel-body h3", { hasText: /^Result$/ });
    expect(await result.count()).toBe(1);
    expect(await result.locator("xpath=following-sibling::*[1]").innerText()).toBe(
      '{\n  "verdict": "no stones",\n  "stones": 0\n}',
    );
  });

  proves(["D593"], "names the run in the tab title without invisible characters", async () => {
    const { view, orchestrator } = await world();
    await orchestrator.start(lead, "Look at\u202E the\nstones.", { runId: RUN }).result;
    const page = await open(view, `/r/${RUN}`);
    await page.locator(".row").first().waitFor();
    await expect.poll(() => page.title()).toBe("lead: Look atU+202E the stones. · espalier");
    await page.locator(".home").click();
    await expect.poll(() => page.title()).toBe("Runs · espalier");
  });

  proves(["D594"], "names the run of each question in the inbox", async () => {
    const { view, orchestrator } = await world();
    await orchestrator.start(clerk, "Tell the buyer.", { runId: RUN }).result;
    const page = await open(view, "/questions");
    await page.locator(".question").waitFor();
    await shoot(page, "inbox");
    const link = page.locator(".question .of-run a");
    expect(await link.innerText()).toBe("clerk: Tell the buyer.");
    await link.click();
    await page.locator(".row").first().waitFor();
    expect(new URL(page.url()).pathname).toBe(`/r/${RUN}`);
  });

  proves(["D595"], "shows multi-line arguments of a call under approval as text", async () => {
    const { view, orchestrator } = await world();
    await orchestrator.start(clerk, "Tell the buyer.", { runId: RUN }).result;
    const page = await open(view, `/r/${RUN}`, 420);
    const shown = page.locator(".question .said.block").first();
    await shown.waitFor();
    await shoot(page, "arguments");
    expect(await shown.locator(".text-value").allInnerTexts()).toEqual([LETTER]);
    expect(await shown.innerText()).not.toContain("\\n");
  });

  proves(["D596"], "measures an agent against its limits without its subagents", async () => {
    const { view, orchestrator } = await world();
    const run = orchestrator.start(lead, "Look.", {
      runId: RUN,
      budget: { totalTokens: 20_000, toolCalls: 50, steps: 40 },
    });
    const { agents } = await run.result;
    const { own, total } = agents[0]?.usage ?? {};
    expect(own?.totalTokens).toBeLessThan(total?.totalTokens ?? 0);
    const page = await open(view, `/r/${RUN}?agent=${agents[0]?.agentId}`);
    const limits = page.locator(".limits li");
    await limits.first().waitFor();
    await shoot(page, "used");
    expect(await limits.allInnerTexts()).toEqual([
      `tokens\n${own?.totalTokens} of 20k`,
      `steps\n${own?.steps} of 40`,
      `tool calls\n${own?.toolCalls} of 50`,
    ]);
    await page.locator("text=Own use of its limits, without subagents").waitFor();
  });

  proves(["D597"], "paints only the failures of a completed run in red", async () => {
    const { view, orchestrator } = await world();
    const { status } = await orchestrator.start(lead, "Look.", {
      runId: RUN,
      // The last call brings the run to its limit.
      budget: { toolCalls: 4 },
    }).result;
    expect(status).toBe("completed");
    const page = await open(view, `/r/${RUN}`);
    await page.locator(".status.is-completed").waitFor();
    await shoot(page, "completed");
    for (const place of [".errors", ".errors .icon", ".run-facts .budget-text"]) {
      const [color, bad] = await colors(page, place);
      expect({ place, isRed: color === bad }).toEqual({ place, isRed: false });
    }
  });

  proves(
    ["D598"],
    "shows a paused run whose questions are answered as waiting for a process",
    async () => {
      const { view, orchestrator } = await world();
      await orchestrator.start(clerk, "Tell the buyer.", { runId: RUN }).result;
      const page = await open(view, `/r/${RUN}`);
      await page.locator(".row", { hasText: "paused until its question is answered" }).waitFor();
      const [question] = await orchestrator.answer(RUN, []);
      if (question === undefined) throw new Error("There is one question.");
      const { questionId, argumentsHash } = question;
      const sent = await act(placeOf(view), RUN, {
        key: "one",
        type: "answer",
        answers: [{ type: "approved", questionId, argumentsHash }],
      });
      expect(sent.status).toBe(202);
      await page.locator(".question").waitFor({ state: "detached" });
      await shoot(page, "answered");
      expect(await page.locator(".row").first().innerText()).toMatch(
        /answered, waits for a process/,
      );
      expect(await page.locator(".status").innerText()).toBe("waits for a process");
      expect(await page.locator("body").innerText()).not.toMatch(
        /until its question is answered|input_required/,
      );
    },
  );

  proves(
    ["D589"],
    "shows how much of a time limit is used, in the list and in the run",
    async () => {
      const { clock, store, process } = engineWorld();
      const view = await startViewer({ port: 0, clock, store, pageFolder: built?.folder ?? "" });
      afterwards(() => view.close());
      const slow = defineAgent({
        name: "slow",
        instructions: "You work.",
        model: thinker("slow", ({ results }) =>
          results.length === 0 ? { calls: [["look", { thing: "stone" }]] } : { text: "Seen." },
        ),
        tools: [
          countedTool(new Map(), "look", () => {
            clock.advance(30_000);
            return "Seen.";
          }),
        ],
      });
      const orchestrator = process({ roles: [slow] });
      const budget = { timeMs: 60_000 };
      await orchestrator.start(slow, "Look.", { runId: RUN, budget }).result;
      const page = await open(view, "/");
      const bar = page.locator(".budget");
      await expect.poll(() => bar.getAttribute("title")).toBe("time: 30.0s of 1m 00s");
      await page.locator(".run-link").click();
      await page.locator(".run-facts").waitFor();
      await shoot(page, "time");
      await expect
        .poll(() => page.locator(".run-facts .budget-text").innerText())
        .toBe("30.0s of 1m 00s time");
    },
  );

  proves(
    ["D603"],
    "shows the same duration of a paused run in the list and in the run",
    async () => {
      const { clock, store, process } = engineWorld();
      const view = await startViewer({ port: 0, clock, store, pageFolder: built?.folder ?? "" });
      afterwards(() => view.close());
      const orchestrator = process({ roles: [clerk] });
      const { agents } = await orchestrator.start(clerk, "Tell the buyer.", { runId: RUN }).result;
      clock.advance(2 * 3_600_000);
      const page = await open(view, "/");
      await expect.poll(() => page.locator(".run-time").innerText()).toBe("2h 00m");
      await page.locator(".run-link").click();
      const facts = page.locator(".run-facts");
      await facts.locator("text=2h 00m (2h 00m at rest)").waitFor();
      expect(await page.locator(".row .time").innerText()).toBe("2h 00m");
      await page.goto(`${new URL(view.url).origin}/r/${RUN}?agent=${agents[0]?.agentId}`);
      const took = page.locator(".facts div", { hasText: /^for/ }).locator("dd");
      await expect.poll(() => took.innerText()).toBe("2h 00m");
      await shoot(page, "time");
    },
  );
});
