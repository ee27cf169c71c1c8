// Goal: the page names the reason of each wait.
// Method: Chromium on the built page, over a real run in which one subagent waits for the budget
// that another one reserves.

import { afterAll, beforeAll, describe, expect } from "vitest";

import { defineAgent } from "../../src/agent/define-agent.ts";
import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import { parseId } from "../../src/protocol/ids.ts";
import { latch } from "../../src/testing/latch.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import { startViewer } from "../../src/viewer-server/viewer.ts";
import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";
import { thinker } from "../support/journal/thinkers.ts";
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

const RUN = parseId<"RunId">("waits");

describe.skipIf(browser === undefined)("waits on the page", () => {
  proves(
    ["D590", "D576"],
    "names the account whose budget an agent waits for, in its row",
    async () => {
      if (browser === undefined) throw new Error("no browser");
      const [asked, answer] = [latch(), latch()];
      const reads = thinker("reader", () => ({ text: "Read." }));
      const reader = defineAgent({
        name: "reader",
        description: "Reads.",
        instructions: "You read.",
        maxOutputTokens: 600,
        model: {
          ...reads,
          generate: async (request, options) => {
            asked.open();
            await answer.opened;
            return reads.generate(request, options);
          },
        },
      });
      const lead = defineAgent({
        name: "lead",
        description: "Leads.",
        instructions: "You lead.",
        maxOutputTokens: 100,
        subagents: [reader],
        model: thinker("lead", ({ results }) =>
          results.length === 0
            ? {
                calls: ["a", "b"].map(
                  (task) => ["SpawnSubagent", { role: "reader", task, context: "none" }] as const,
                ),
              }
            : { text: "Done." },
        ),
      });
      const view = await startViewer({
        port: 0,
        store: memoryStore(),
        pageFolder: built?.folder ?? "",
      });
      afterwards(() => view.close());
      const orchestrator = new Orchestrator({ store: view.store, sinks: [view.sink] });
      view.attach(orchestrator);
      const run = orchestrator.start(lead, "Lead.", {
        runId: RUN,
        budget: { outputTokens: 1_000 },
      });
      afterwards(() => {
        answer.open();
        return run.result;
      });
      await asked.opened;
      const { origin, hash } = new URL(view.url);
      const { page, complaints, close } = await openTab(browser, `${origin}/r/${RUN}${hash}`);
      afterwards(close);
      const row = page.locator(".row", { hasText: "reader#2" });
      await row.locator("text=waits for budget of lead").waitFor();
      expect(await page.locator(".run-facts").innerText()).toMatch(
        /3 agents, 2 running, 1 waiting for budget/,
      );
      expect(await page.locator(".legend").innerText()).toMatch(/for budget\s+for a slot or limit/);
      const shots = process.env["ESPALIER_TEST_SHOTS"];
      if (shots !== undefined) await page.screenshot({ path: `${shots}/waits.png` });
      const listed = async (): Promise<readonly string[]> =>
        (await page.locator(".row .name").allInnerTexts()).map((text) => text.split("\n")[1] ?? "");
      await page.locator("#agent-standing").selectOption({ label: "Working" });
      await row.waitFor({ state: "detached" });
      expect(await listed()).toEqual(["lead", "reader#1"]);
      await page.locator("#agent-standing").selectOption({ label: "Waiting for budget" });
      await row.waitFor();
      expect(await listed()).toEqual(["lead", "reader#2"]);
      answer.open();
      // The list is updated: no agent waits any more.
      await row.waitFor({ state: "detached" });
      await page.locator(".count .link").click();
      await page.locator(".status.is-completed").waitFor();
      await row.locator("text=waits for budget").waitFor({ state: "detached" });
      // The wait stays visible in the timeline of the ended run.
      const bar = await page.locator("canvas.timeline, .timeline canvas").first().boundingBox();
      const line = await row.boundingBox();
      if (bar === null || line === null) throw new Error("no timeline");
      await expect
        .poll(async () => {
          for (let x = bar.x + 9; x < bar.x + bar.width; x += 20) {
            await page.mouse.move(x, line.y + line.height / 2);
            const tip = page.locator(".tip");
            if ((await tip.count()) > 0 && /waits for budget of lead/.test(await tip.innerText()))
              return true;
          }
          return false;
        })
        .toBe(true);
      if (shots !== undefined) await page.screenshot({ path: `${shots}/waits-ended.png` });
      expect(complaints).toEqual([]);
    },
  );
});
