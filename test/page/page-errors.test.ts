// Goal: the page shows failures in full, and which attempts were made.
// Method: Chromium on the built page, over a viewer with real runs that fail or retry.

import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect } from "vitest";
import { z } from "zod";

import { defineAgent } from "../../src/agent/define-agent.ts";
import { ModelError } from "../../src/model/model-error.ts";
import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import { parseId } from "../../src/protocol/ids.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import { says, ScriptedModel, type ScriptedReply } from "../../src/testing/scripted-model.ts";
import { startViewer, type Viewer } from "../../src/viewer-server/viewer.ts";
import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";
import { latch } from "../../src/testing/latch.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { doings, solo } from "../support/engine/engine-world.ts";
import { spawnCall, thinker } from "../support/journal/thinkers.ts";
import { linesOf, writtenRun } from "../support/viewer-server/written-runs.ts";
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

const RUN = parseId<"RunId">("errors");
const Listed = z.object({ runs: z.array(z.looseObject({ title: z.string() })) });
const WHY = `The key of this project was revoked on Monday by its owner; ${"every request is refused, ".repeat(5)}ask for a new one.`;

function reply(
  code: "model_unauthorized" | "model_rate_limited",
  message: string,
  retryAfterMs = 1,
): ScriptedReply {
  const again = code === "model_rate_limited" ? { retryAfterMs } : {};
  return { error: new ModelError({ code, message, ...again }) };
}

/** A lead that fails because its reader fails. */
function failingTree() {
  const reader = defineAgent({
    name: "reader",
    description: "Reads.",
    instructions: "You read.",
    model: new ScriptedModel([reply("model_unauthorized", WHY)]),
  });
  return defineAgent({
    name: "lead",
    instructions: "You lead.",
    errorBudget: { maxToolErrors: 0, maxConsecutiveErrors: 0 },
    model: thinker("lead", () => ({ calls: [spawnCall("reader", "Read it.")] })),
    subagents: [reader],
  });
}

/** An agent that fails by itself. */
function failingAlone() {
  return defineAgent({
    name: "reader",
    instructions: "You read.",
    model: new ScriptedModel([reply("model_unauthorized", WHY)]),
  });
}

/** An agent whose first two requests are refused temporarily. */
function retrying(retryAfterMs = 1) {
  return defineAgent({
    name: "solo",
    instructions: "You work.",
    model: new ScriptedModel([
      reply("model_rate_limited", "Slow down.", retryAfterMs),
      reply("model_rate_limited", "Slower still.", retryAfterMs),
      says("Done."),
    ]),
  });
}

async function world(): Promise<{ readonly view: Viewer; readonly orchestrator: Orchestrator }> {
  const view = await startViewer({
    port: 0,
    store: memoryStore(),
    pageFolder: built?.folder ?? "",
  });
  afterwards(() => view.close());
  return { view, orchestrator: new Orchestrator({ store: view.store }) };
}

async function open(view: Viewer, path: string, width = 1_440): Promise<Page> {
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

/** True if the whole text of an element is visible. */
async function isWhole(page: Page, selector: string): Promise<boolean> {
  return await page
    .locator(selector)
    .first()
    .evaluate((element) => element.scrollWidth <= element.clientWidth);
}

describe.skipIf(browser === undefined)("errors on the page", () => {
  proves(["D771"], "reports older runs that cannot be loaded, and loads them again", async () => {
    const { view, orchestrator } = await world();
    await orchestrator.start(failingTree(), "Newer.", { runId: RUN }).result;
    await orchestrator.start(failingTree(), "Older.", { runId: parseId("older") }).result;
    const page = await open(view, "/");
    let failures = 1;
    await page.route("**/runs?*", async (route) => {
      const url = new URL(route.request().url());
      const isOlder = url.searchParams.has("before");
      if (isOlder && failures-- > 0) return await route.abort();
      url.searchParams.delete("before");
      const response = await route.fetch({ url: url.href });
      const { runs } = Listed.parse(await response.json());
      const [title, rest] = isOlder ? ["Older.", {}] : ["Newer.", { next: "newer" }];
      const json = { runs: runs.filter((run) => run.title.includes(title)), ...rest };
      await route.fulfill({ response, json });
    });
    await page.reload();
    const titles = page.locator(".run-line .run-link");
    await page.getByRole("button", { name: "Older runs" }).click();
    const alert = page.locator(".runs-screen [role=alert]");
    await alert.waitFor();
    await shoot(page, "older-runs");
    expect(await alert.innerText()).toContain("Older runs could not be loaded:");
    expect(await titles.count()).toBe(1);
    await page.getByRole("button", { name: "Try again" }).click();
    await page.locator('[data-run="older"]').waitFor();
    expect([await titles.count(), await alert.count()]).toEqual([2, 0]);
  });

  proves(["D599"], "shows the full message of the root cause where there is room", async () => {
    const { view, orchestrator } = await world();
    await orchestrator.start(failingTree(), "Lead.", { runId: RUN }).result;
    const page = await open(view, `/r/${RUN}`, 2_200);
    await page.locator(".errors .cause").waitFor();
    await shoot(page, "cause");
    const cause = page.locator(".errors .cause");
    expect((await cause.innerText()).replaceAll(/\s+/g, " ")).toBe(
      `first cause: lead/reader#1 · model_unauthorized: ${WHY}`,
    );
    expect(await isWhole(page, ".errors .cause .said")).toBe(true);
    await page.setViewportSize({ width: 900, height: 720 });
    await shoot(page, "cause-narrow");
    const overflow = await page.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
    );
    expect(overflow).toBe(0);
  });

  proves(["D600"], "shows the error code in the row of a failed agent", async () => {
    const { view, orchestrator } = await world();
    await orchestrator.start(failingTree(), "Lead.", { runId: RUN }).result;
    const page = await open(view, `/r/${RUN}`);
    const row = page.locator(".row", { hasText: "reader#1" });
    await row.waitFor();
    await shoot(page, "codes");
    expect(await row.locator(".words").innerText()).toBe("failed: model_unauthorized");
  });

  proves(["D601"], "shows failed attempts of model calls in the list of steps", async () => {
    const { view, orchestrator } = await world();
    const { agents, status } = await orchestrator.start(retrying(), "Work.", { runId: RUN }).result;
    expect(status).toBe("completed");
    const page = await open(view, `/r/${RUN}?agent=${agents[0]?.agentId}&tab=steps`);
    await page.locator(".step-line").waitFor();
    await shoot(page, "attempts");
    expect(await page.locator(".steps .attempt").allInnerTexts()).toEqual([
      expect.stringMatching(/^attempt 1\s+model_rate_limited\s+Slow down\.\s+waited /),
      expect.stringMatching(/^attempt 2\s+model_rate_limited\s+Slower still\.\s+waited /),
    ]);
    await page.locator(".step-line").click();
    await page.locator(".message").first().waitFor();
    await shoot(page, "attempts-step");
    expect(await page.locator(".panel-body .attempt").count()).toBe(2);
  });

  proves(
    ["D597", "D590"],
    "paints the wait before another attempt in the retry colour in the minimap",
    async () => {
      const { view, orchestrator } = await world();
      await orchestrator.start(retrying(100), "Work.", { runId: RUN }).result;
      const page = await open(view, `/r/${RUN}`);
      await page.locator(".row").first().waitFor();
      const countPixels = (name: string) =>
        page.locator(".minimap canvas").evaluate((canvas, colour) => {
          if (!(canvas instanceof HTMLCanvasElement)) throw new Error("no canvas");
          const { width, height } = canvas;
          const context = canvas.getContext("2d");
          const probe = new OffscreenCanvas(1, 1).getContext("2d");
          if (context === null || probe === null) throw new Error("no context");
          probe.fillStyle = getComputedStyle(canvas).getPropertyValue(`--${colour}`);
          probe.fillRect(0, 0, 1, 1);
          const wanted = new Uint32Array(probe.getImageData(0, 0, 1, 1).data.buffer)[0];
          const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
          return pixels.filter((pixel) => pixel === wanted).length;
        }, name);
      await expect.poll(() => countPixels("retry")).toBeGreaterThan(100);
      expect(await countPixels("bad")).toBe(0);
    },
  );

  proves(["D546"], "shows an unknown cost in full in the list of runs", async () => {
    const { view, orchestrator } = await world();
    await orchestrator.start(retrying(), "Work.", { runId: RUN }).result;
    for (const width of [1_280, 1_000]) {
      const page = await open(view, "/", width);
      const cost = page.locator(".run-cost", { hasText: "cost unknown" });
      await cost.waitFor();
      const [line, box] = [await page.locator(".run-line").boundingBox(), await cost.boundingBox()];
      expect(await isWhole(page, ".run-cost")).toBe(true);
      expect(box?.height ?? 0).toBeLessThan(line?.height ?? 0);
    }
  });

  proves(["D604"], "keeps the timeline beside an open step at 1,280 pixels", async () => {
    const { view, orchestrator } = await world();
    const { agents } = await orchestrator.start(retrying(), "Work.", { runId: RUN }).result;
    const page = await open(view, `/r/${RUN}?agent=${agents[0]?.agentId}&tab=steps&step=1`, 1_280);
    await page.locator(".message").first().waitFor();
    await shoot(page, "step-1280");
    const box = await page.locator(".tree > .timeline").boundingBox();
    expect(box?.width ?? 0).toBeGreaterThan(250);
    const panel = await page.locator(".agent-panel").boundingBox();
    expect(panel?.width ?? 0).toBeGreaterThan(480);
  });

  proves(["D623"], "shows the error codes of a group of failed subagents", async () => {
    const { view } = await world();
    const limits = { maxTotalSubagents: 50, maxBreadthPerParent: 50 };
    const orchestrator = new Orchestrator({ store: view.store, limits });
    const failing = (name: string, code: "model_unauthorized" | "model_invalid_request") =>
      defineAgent({
        name,
        description: "Reads.",
        instructions: "You read.",
        model: thinker(name, ({ task }) => {
          const isOther = task === "Part 3.";
          throw new ModelError({ code: isOther ? "model_invalid_request" : code, message: WHY });
        }),
      });
    const lead = defineAgent({
      name: "lead",
      instructions: "You lead.",
      errorBudget: { maxToolErrors: 100, maxConsecutiveErrors: 100 },
      model: thinker("lead", ({ results }) =>
        results.length > 0
          ? { text: "Done." }
          : {
              calls: Array.from({ length: 44 }, (_, nth) =>
                spawnCall(nth < 22 ? "reader" : "finder", `Part ${nth}.`),
              ),
            },
      ),
      subagents: [failing("reader", "model_unauthorized"), failing("finder", "model_unauthorized")],
    });
    const { agents } = await orchestrator.start(lead, "Lead.", {
      runId: RUN,
      budget: { toolCalls: 44, steps: 100 },
    }).result;
    const page = await open(view, `/r/${RUN}?agent=${agents[0]?.agentId}`, 1_600);
    const groups = page.locator(".row", { hasText: "×22" });
    await groups.nth(1).waitFor();
    await shoot(page, "group-codes");
    expect(await groups.locator(".words").allInnerTexts()).toEqual([
      "failed: model_unauthorized ×21, model_invalid_request ×1",
      "failed: model_unauthorized",
    ]);
    // The lead has completed: a limit that it used up is not a problem.
    await page.locator(".limits .meter").first().waitFor();
    expect(await page.locator(".limits .meter.is-over").count()).toBe(0);
  });

  proves(["D623"], "shows the full error of the run under the cursor at 1,280 pixels", async () => {
    const { view, orchestrator } = await world();
    await orchestrator.start(failingAlone(), "Read.", { runId: RUN }).result;
    const page = await open(view, "/", 1_280);
    await page.locator(".run-line .run-state code").waitFor();
    expect(await isWhole(page, ".run-state")).toBe(false);
    expect(await page.locator(".run-state").getAttribute("title")).toContain("ask for a new one.");
    await page.keyboard.press("Tab");
    await page.locator(".run-link").focus();
    await shoot(page, "run-error-whole");
    expect(await isWhole(page, ".run-state")).toBe(true);
    const text = await page.locator(".run-state").innerText();
    expect(text).toContain("ask for a new one.");
  });

  proves(["D623"], "shows an attempt that fails while the panel is open", async () => {
    const { view, orchestrator } = await world();
    const asked = latch();
    const role = defineAgent({
      name: "solo",
      instructions: "You work.",
      model: {
        provider: "test",
        id: "slow",
        generate: async () => {
          await asked.opened;
          throw new ModelError({
            code: "model_rate_limited",
            message: "Slow down.",
            retryAfterMs: 30_000,
          });
        },
      },
    });
    const run = orchestrator.start(role, "Work.", { runId: RUN });
    await expect
      .poll(async () => (await view.store.find(RUN))?.recordCount ?? 0)
      .toBeGreaterThan(2);
    const page = await open(view, `/r/${RUN}`);
    await page.locator(".row").first().click();
    await page.keyboard.press("2");
    await page.locator(".step-line").waitFor();
    expect(await page.locator(".attempt").count()).toBe(0);
    asked.open();
    await page.locator(".attempt", { hasText: "Slow down." }).waitFor();
    await run.cancel();
  });

  proves(["D623"], "counts no working agents in a run that no process owns", async () => {
    const { view, orchestrator } = await world();
    const cut = latch();
    const role = solo(doings(), { count: 1, hold: () => cut.opened });
    const led = orchestrator.start(role, "Go.", { runId: RUN });
    const first = await open(view, `/r/${RUN}`);
    await first.locator(".run-facts", { hasText: "1 agent, 1 running" }).waitFor();
    const lines = await linesOf(view.store, RUN);
    const other = await startViewer({
      port: 0,
      store: memoryStore(),
      pageFolder: built?.folder ?? "",
    });
    afterwards(() => other.close());
    const written = await writtenRun(other.store, RUN);
    await written.append(lines);
    await written.leave();
    cut.open();
    await led.result;
    const page = await open(other, `/r/${RUN}`);
    await page.locator(".run-facts", { hasText: "1 agent" }).waitFor();
    await shoot(page, "not-led");
    expect(await page.locator(".run-facts").innerText()).not.toContain("running");
  });

  proves(
    ["D772"],
    "marks the agents at work as lost if the process of the run is gone",
    async () => {
      const { view, orchestrator } = await world();
      const cut = latch();
      const role = solo(doings(), { count: 1, hold: () => cut.opened });
      const led = orchestrator.start(role, "Go.", { runId: RUN });
      const first = await open(view, `/r/${RUN}`);
      await first.locator(".run-facts", { hasText: "1 agent, 1 running" }).waitFor();
      const lines = await linesOf(view.store, RUN);
      cut.open();
      await led.result;
      // The heartbeat of its owner is as old as the epoch.
      const store = memoryStore({ clock: new ManualClock() });
      const other = await startViewer({ port: 0, store, pageFolder: built?.folder ?? "" });
      afterwards(() => other.close());
      await (await writtenRun(store, RUN)).append(lines);
      const page = await open(other, `/r/${RUN}`);
      const row = page.locator(".row.agent");
      await row.waitFor();
      await shoot(page, "lost");
      expect(await row.locator(".words").innerText()).toMatch(/^lost: /);
      expect(await row.locator(".name .read-aloud").first().innerText()).toContain("lost");
    },
  );
});
