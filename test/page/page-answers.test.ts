// Goal: a person answers the questions of a run with the keyboard alone, and the run continues with
// exactly what was on the screen.
// Method: Chromium, a real viewer over a store with paused runs, and an orchestrator that resumes
// them.

import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect } from "vitest";
import { z } from "zod";

import { defineAgent } from "../../src/agent/define-agent.ts";
import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import { RunRecord } from "../../src/orchestrator/durability/run-record.ts";
import type { EspalierEvent } from "../../src/protocol/event.ts";
import { openToolCalls } from "../../src/read-model/agent-row.ts";
import { RunFold } from "../../src/read-model/run-fold.ts";
import { parseId, type RunId } from "../../src/protocol/ids.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { startViewer, type Viewer } from "../../src/viewer-server/viewer.ts";
import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";
import { thinker } from "../support/journal/thinkers.ts";
import { counts, doings, latch, solo } from "../support/engine/engine-world.ts";
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

const RUN = parseId<"RunId">("order");

interface Shop {
  readonly view: Viewer;
  readonly orchestrator: Orchestrator;
  /** The things that were paid for, and their prices. */
  readonly paid: readonly object[];
  /** Resolves with the final text of the resumed run. */
  text(): Promise<string | undefined>;
}

/** Starts a run that pauses with one question about each thing, and a viewer that can resume it. */
async function shop(things: readonly string[], runId: RunId = RUN): Promise<Shop> {
  const paid: object[] = [];
  const buyer = defineAgent({
    name: "buyer",
    description: "Buys.",
    instructions: "You buy.",
    model: thinker("buyer", ({ results }) =>
      results.length === 0
        ? { calls: things.map((thing) => ["pay", { thing, eur: 400 }] as const) }
        : { text: results.join(" · ") },
    ),
    tools: [
      defineTool({
        name: "pay",
        description: "Pays for a thing.",
        inputSchema: z.object({ thing: z.string(), eur: z.number().refine((eur) => eur < 999) }),
        needsApproval: true,
        execute: ({ thing, eur }) => {
          paid.push({ thing, eur });
          return `paid ${eur} for ${thing}`;
        },
      }),
    ],
  });
  const view = await startViewer({
    port: 0,
    store: memoryStore(),
    pageFolder: built?.folder ?? "",
  });
  afterwards(() => view.close());
  const orchestrator = new Orchestrator({ store: view.store, sinks: [view.sink], roles: [buyer] });
  view.attach(orchestrator);
  const { status } = await orchestrator.start(buyer, "Buy.", { runId }).result;
  expect(status).toBe("paused");
  const text = async (): Promise<string | undefined> => {
    await expect.poll(async () => (await view.store.find(runId))?.status).toBe("ended");
    return (await orchestrator.getResult(runId))?.text;
  };
  return { view, orchestrator, paid, text };
}

async function open({ view }: Shop, path: string): Promise<Page> {
  if (browser === undefined) throw new Error("no browser");
  const { origin, hash } = new URL(view.url);
  const tab = await openTab(browser, `${origin}${path}${hash}`);
  afterwards(() => {
    expect(tab.complaints).toEqual([]);
    return tab.close();
  });
  await tab.page.locator(".question").first().waitFor();
  return tab.page;
}

/** Presses keys one after the other. */
async function press(page: Page, ...keys: readonly string[]): Promise<void> {
  for (const key of keys) await page.keyboard.press(key);
}

describe.skipIf(browser === undefined)("answers from the keyboard", () => {
  for (const path of ["/questions", `/r/${RUN}`])
    proves(
      ["V97"],
      `${path}: approves a call with two keys, and the call runs as it was shown`,
      async () => {
        const at = await shop(["pears"]);
        const page = await open(at, path);
        await press(page, "a");
        await page.locator("text=Approve this call").waitFor();
        expect(at.paid).toEqual([]);
        await press(page, "Control+Enter");
        expect(await at.text()).toBe("paid 400 for pears");
        expect(at.paid).toEqual([{ thing: "pears", eur: 400 }]);
        await page.locator(".question").waitFor({ state: "detached" });
      },
    );

  proves(
    ["V141", "V151"],
    "explains how to resume an answered run if the viewer cannot resume it",
    async () => {
      const at = await shop(["pears"]);
      const { store } = at.view;
      const view = await startViewer({ port: 0, store, pageFolder: built?.folder ?? "" });
      afterwards(() => view.close());
      const page = await open({ ...at, view }, `/r/${RUN}`);
      const advice = page.locator(".run-facts", { hasText: `npx espalier resume ${RUN}` });
      expect(await advice.count()).toBe(0);
      await press(page, "a");
      await press(page, "Control+Enter");
      await advice.waitFor();
      expect(await page.locator("button", { hasText: "Resume" }).count()).toBe(0);
      expect(at.paid).toEqual([]);
    },
  );

  proves(["V144"], "informs the second of two people that the first answer counts", async () => {
    const at = await shop(["pears"]);
    const [first, second] = [await open(at, "/questions"), await open(at, "/questions")];
    await press(second, "d");
    await second.keyboard.type("Too dear.");
    // The second page does not learn that the question is gone before it answers.
    await second.route("**/api/v1/questions", (route) => route.abort());
    await press(first, "a");
    await press(first, "Control+Enter");
    expect(await at.text()).toContain("paid 400 for pears");
    await press(second, "Control+Enter");
    const told = second.locator("[role=alert]", { hasText: "Your answer was rejected." });
    await second.locator(".question [role=alert]", { hasText: "The first answer" }).waitFor();
    expect(await told.count()).toBe(0);
    await second.unroute("**/api/v1/questions");
    await second.locator(".question").waitFor({ state: "detached" });
    await told.waitFor();
    expect(await told.innerText()).toContain("buyer asks: pay.");
    await told.locator("button").click();
    await told.waitFor({ state: "detached" });
  });

  proves(["V97"], "denies a call, and the model reads the reason", async () => {
    const at = await shop(["pears"]);
    const page = await open(at, `/r/${RUN}`);
    await press(page, "d");
    await page.keyboard.type("Too dear.");
    await press(page, "Control+Enter");
    expect(await at.text()).toContain("Too dear.");
    expect(at.paid).toEqual([]);
  });

  proves(
    ["D531"],
    "shows the field name of invalid arguments and accepts the corrected ones",
    async () => {
      const at = await shop(["pears"]);
      const page = await open(at, "/questions");
      await press(page, "m");
      await page.locator("textarea").waitFor();
      await press(page, "ControlOrMeta+a");
      await page.keyboard.insertText('{"thing": "pears", "eur": "many"}');
      await press(page, "Control+Enter");
      await page.locator(".added", { hasText: "many" }).waitFor();
      await press(page, "Control+Enter");
      await page.locator("text=eur: expected a number").waitFor();
      expect(await page.locator("textarea").inputValue()).toContain('"many"');
      await page.locator("textarea").focus();
      await press(page, "ControlOrMeta+a");
      await page.keyboard.insertText('{"thing": "pears", "eur": 380}');
      await press(page, "Control+Enter");
      await page.locator(".added", { hasText: "380" }).waitFor();
      await press(page, "Control+Enter");
      expect(await at.text()).toBe("paid 380 for pears");
      expect(at.paid).toEqual([{ thing: "pears", eur: 380 }]);
    },
  );

  proves(["V97"], "shows the changes of a modified call before it runs with them", async () => {
    const at = await shop(["pears"]);
    const page = await open(at, "/questions");
    await press(page, "m");
    await page.locator("textarea").waitFor();
    await press(page, "ControlOrMeta+a");
    await page.keyboard.insertText('{"thing": "plums"');
    await press(page, "Control+Enter");
    await page.locator("text=This is not valid JSON").waitFor();
    await press(page, "ControlOrMeta+a");
    await page.keyboard.insertText('{"thing": "pears", "eur": 380}');
    await press(page, "Control+Enter");
    await page.locator(".removed", { hasText: '"eur": 400' }).waitFor();
    await page.locator(".added", { hasText: '"eur": 380' }).waitFor();
    expect(at.paid).toEqual([]);
    await press(page, "Control+Enter");
    expect(await at.text()).toBe("paid 380 for pears");
    expect(at.paid).toEqual([{ thing: "pears", eur: 380 }]);
  });

  proves(
    ["V150"],
    "repeats the question with the error after a call was modified to invalid arguments",
    async () => {
      const at = await shop(["pears"]);
      const page = await open(at, `/r/${RUN}`);
      const again = page.locator(".question [role=alert]", {
        hasText: "The last answer was rejected",
      });
      for (const nth of [1, 2]) {
        await press(page, "m");
        await page.locator("textarea").waitFor();
        await press(page, "ControlOrMeta+a");
        await page.keyboard.insertText('{"thing": "plums", "eur": 1000}');
        await press(page, "Control+Enter");
        await page.locator("text=Approve this call").waitFor();
        await press(page, "Control+Enter");
        await expect.poll(async () => (await at.view.store.readMail(RUN)).length).toBe(nth);
        await page.locator("text=Approve…").waitFor();
        expect(await again.innerText()).toMatch(/eur/);
      }
      expect(at.paid).toEqual([]);
      await press(page, "a", "Control+Enter");
      expect(await at.text()).toBe("paid 400 for pears");
    },
  );

  proves(
    ["V97"],
    "sends no answer on a single key, and Escape discards a staged answer",
    async () => {
      const at = await shop(["pears"]);
      const page = await open(at, "/questions");
      for (const key of ["a", "d", "m"]) {
        await press(page, key);
        await page.locator(".stage").waitFor();
        await press(page, "Escape");
        await page.locator(".stage").waitFor({ state: "detached" });
      }
      for (const key of ["Enter", " ", "n", "j", "k", "y", "t"]) await press(page, key);
      expect([at.paid, (await at.view.store.find(RUN))?.status]).toEqual([[], "paused"]);
    },
  );

  proves(
    ["D591"],
    "moves the focus to the question that n shows, even from the list of runs",
    async () => {
      const at = await shop(["pears", "plums"]);
      const page = await open(at, "/questions");
      await page.locator("a.home").click();
      await page.locator(".run-group").waitFor();
      for (const thing of ["pears", "plums"]) {
        await press(page, "n");
        await page.locator(".question:focus", { hasText: thing }).waitFor();
      }
      expect(at.paid).toEqual([]);
    },
  );

  proves(
    ["V104"],
    "sends a held answer together with the next answer of the same run",
    async () => {
      const at = await shop(["pears", "plums"]);
      const page = await open(at, "/questions");
      await press(page, "a");
      await page.getByRole("button", { name: "Hold, to send together" }).focus();
      await press(page, "Enter");
      await page.locator("text=goes with the next answer of this run").waitFor();
      await press(page, "j", "d");
      await page.keyboard.type("No plums.");
      await page.locator("text=and send 1 held answer").waitFor();
      await press(page, "Control+Enter");
      const text = (await at.text()) ?? "";
      expect([text.includes("paid 400 for pears"), text.includes("No plums.")]).toEqual([
        true,
        true,
      ]);
      expect(at.paid).toEqual([{ thing: "pears", eur: 400 }]);
    },
  );

  proves(["V98"], "accepts the answer of one of two tabs and notifies the other", async () => {
    const at = await shop(["pears", "plums"]);
    const first = await open(at, "/questions");
    const second = await open(at, "/questions");
    // The second tab does not receive the actions of the first.
    await second.route("**/api/v1/questions", (route) => route.abort());
    await press(second, "d");
    await second.keyboard.type("Too late.");
    await press(first, "a", "Control+Enter");
    await first.locator(".said-back", { hasText: "Answered." }).waitFor();
    await press(second, "Control+Enter");
    await second.locator("[role=alert]", { hasText: "The first answer counts" }).waitFor();
    await second.unroute("**/api/v1/questions");
    await second.locator(".question", { hasText: "pears" }).waitFor({ state: "detached" });
    // Keys right after a typed reason count as meant for its field, which is gone.
    const isAsked = async (): Promise<boolean> => {
      await press(second, "a");
      return await second.locator("text=Approve this call").isVisible();
    };
    await expect.poll(isAsked, { interval: 500, timeout: 10_000 }).toBe(true);
    await press(second, "Control+Enter");
    expect(await at.text()).toBe("paid 400 for pears · paid 400 for plums");
  });

  proves(["V94", "V97"], "shows the resumed run live until it ends", async () => {
    const at = await shop(["pears"]);
    const page = await open(at, `/r/${RUN}`);
    await page.locator(".status.is-input_required").waitFor();
    await press(page, "a", "Control+Enter");
    await page.locator(".status.is-completed").waitFor();
    await press(page, "Enter");
    await page.locator("aside", { hasText: "paid 400 for pears" }).waitFor();
  });

  proves(["V117"], "resumes an interrupted run after its retryable tools were named", async () => {
    const done = doings();
    const cut = latch();
    const role = solo(done, {
      count: 1,
      hold: () => cut.opened,
    });
    const first = memoryStore();
    const led = new Orchestrator({ store: first, roles: [role] }).start(role, "Go.", {
      runId: RUN,
    });
    const fold = new RunFold(RUN);
    const record = new RunRecord(first, RUN);
    const take = (event: EspalierEvent): void => fold.apply(event);
    await expect
      .poll(() =>
        first
          .find(RUN)
          .then((found) => found && record.advance(take))
          .then(() => openToolCalls(fold)),
      )
      .toHaveLength(1);
    const lines = await linesOf(first, RUN);
    const view = await startViewer({
      port: 0,
      store: memoryStore(),
      pageFolder: built?.folder ?? "",
    });
    afterwards(() => view.close());
    const written = await writtenRun(view.store, RUN);
    await written.append(lines);
    await written.leave();
    cut.open();
    await led.result;
    const before = counts(done)[0] ?? 0;
    view.attach(new Orchestrator({ store: view.store, sinks: [view.sink], roles: [role] }));
    if (browser === undefined) throw new Error("no browser");
    const { origin, hash } = new URL(view.url);
    const { page, complaints, close } = await openTab(browser, `${origin}/r/${RUN}${hash}`);
    afterwards(close);
    await page.getByRole("button", { name: "Resume" }).click();
    await page.locator("text=may run again: solo · work").waitFor();
    expect((await view.store.find(RUN))?.owner).toBeNull();
    await page.getByRole("button", { name: "Resume the run" }).click();
    await page.locator(".status.is-completed").waitFor();
    expect([counts(done)[0], complaints]).toEqual([before + 1, []]);
  });
});
