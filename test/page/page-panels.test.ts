// Goal: the focus is never lost: a closing panel, step, filter or search restores it. Error codes
// are shown in full beside a panel and in narrow windows.
// Method: Chromium on the built page, over a server with made-up runs.

import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect } from "vitest";

import type { RunSnapshot } from "../../src/read-model/viewer-data.ts";
import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";
import { focusOf, press, SHOTS } from "./asked-run.ts";
import { buildPage, type BuiltPage } from "./built-page.ts";
import { findChromium, openTab } from "./chromium.ts";
import { askingRun, calmRun, failedRun } from "./fixture-runs.ts";
import { startFixture } from "./fixture-server.ts";
import { snapshotFor, type AgentSketch } from "./run-sketch.ts";

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

const FAILED = failedRun();
const RUN = `/r/${FAILED.run.runId}`;

async function open(path: string, width = 1_280) {
  if (browser === undefined) throw new Error("no browser");
  const runs = [askingRun(), calmRun(1), calmRun(2), FAILED];
  const server = await startFixture({ folder: built?.folder ?? "", runs });
  afterwards(() => server.close());
  const options = { viewport: { width, height: 720 } };
  const { page, complaints, close } = await openTab(browser, server.urlOf(path), options);
  afterwards(() => {
    expect(complaints).toEqual([]);
    return close();
  });
  await page.locator(".row, .run-line").first().waitFor();
  return { page, server };
}

async function shoot(page: Page, name: string): Promise<void> {
  if (SHOTS !== undefined) await page.screenshot({ path: `${SHOTS}/${name}.png` });
}

/** Waits until the list has the focus and its cursor is on this agent. */
async function atRow(page: Page, agent: string): Promise<void> {
  await page.locator(".tree:focus").waitFor();
  await page.locator(".row[aria-selected=true]", { hasText: agent }).waitFor();
  const active = await page.locator(".tree").getAttribute("aria-activedescendant");
  expect(await page.locator(`#${active}`).innerText()).toContain(agent);
}

describe.skipIf(browser === undefined)("focus of panels", () => {
  const closings = {
    Escape: (page: Page) => press(page, "Escape"),
    "the close button": (page: Page) => page.locator(".panel-head button").click(),
    "the way back": (page: Page) => page.goBack().then(() => undefined),
  };
  for (const [name, close] of Object.entries(closings))
    proves(["D544"], `returns the focus to the row when ${name} closes its panel`, async () => {
      const { page } = await open(RUN);
      await page.locator(".row", { hasText: "reader#10" }).click();
      await press(page, "Enter");
      await page.locator("#agent-title:focus", { hasText: "reader#10" }).waitFor();
      await close(page);
      await atRow(page, "reader#10");
      await press(page, "ArrowUp");
      expect(await page.locator(".row[aria-selected=true]").innerText()).not.toContain("reader#10");
    });

  proves(["D544"], "returns the focus to the error that opened the panel", async () => {
    const { page } = await open(RUN);
    await page.locator(".cause").focus();
    await press(page, "Enter");
    await page.locator(".panel-head button").focus();
    await press(page, "Enter");
    await page.locator(".cause:focus").waitFor();
  });

  proves(["D544"], "moves the focus into an open step and back to its line", async () => {
    const { page } = await open(RUN);
    await page.locator(".row", { hasText: "reader#10" }).click();
    await press(page, "2");
    await page.locator(".step-line").nth(1).focus();
    await press(page, "Enter");
    await page.locator("#step-title:focus", { hasText: "step 2 of 3" }).waitFor();
    await shoot(page, "step-focus");
    await page.locator("[aria-label='Previous step']").focus();
    await press(page, "Enter");
    await page.locator("#step-title:focus", { hasText: "step 1 of 3" }).waitFor();
    await page.locator("[aria-label='Next step']").focus();
    await press(page, "Enter");
    await page.locator("#step-title", { hasText: "step 2 of 3" }).waitFor();
    expect(await focusOf(page)).toBe("button Next step");
    await press(page, "Escape");
    await page.locator(".step-line:focus").waitFor();
    expect(await page.locator(".step-line:focus .step-number").innerText()).toBe("2");
    await page.locator(".step-line").nth(2).focus();
    await press(page, "Enter");
    await page.locator("#step-title:focus").waitFor();
    await press(page, "1");
    await page.locator(".panel-body:focus", { hasText: "Used" }).waitFor();
    await press(page, "Escape");
    await atRow(page, "reader#10");
  });

  proves(["D544"], "returns the focus to a run action that was not confirmed", async () => {
    const { page } = await open(`/r/${askingRun().run.runId}`);
    await page.getByRole("button", { name: "Cancel" }).focus();
    await press(page, "Enter");
    await page.locator(".run-actions:focus").waitFor();
    await page.getByRole("button", { name: "No" }).focus();
    await press(page, "Enter");
    await page.locator(".run-actions button:focus").waitFor();
  });
});

describe.skipIf(browser === undefined)("focus beside a filter", () => {
  proves(
    ["D545"],
    "reports that the filter hides the open agent, and shows it again on request",
    async () => {
      const { page } = await open(RUN);
      await page.locator(".row", { hasText: "reader#10" }).click();
      await press(page, "/");
      await page.keyboard.type("reader#3");
      const notice = page.locator(".not-listed", { hasText: "The filter hides this agent" });
      await notice.waitFor();
      await page.locator("[role=status]", { hasText: "1 agent in the list" }).waitFor({
        state: "attached",
      });
      await shoot(page, "filter-hides");
      await press(page, "Enter");
      await atRow(page, "lead");
      await press(page, "ArrowDown");
      await page.locator("#agent-title", { hasText: "reader#3" }).waitFor();
      await notice.waitFor({ state: "hidden" });
      await press(page, "/");
      await page.locator("#agent-filter:focus").waitFor();
      await page.locator("#agent-filter").fill("reader#10");
      await page.getByRole("button", { name: "show it in the list" }).click();
      await page.locator("#agent-title:focus", { hasText: "reader#3" }).waitFor();
      await page.locator(".row[aria-selected=true]", { hasText: "reader#3" }).waitFor();
      expect(await page.locator("#agent-filter").inputValue()).toBe("");
    },
  );

  for (const width of [1_000, 1_280, 1_440])
    proves(["D545"], `shows all agents again from an empty list at ${width} pixels`, async () => {
      const { page } = await open(RUN, width);
      await page.locator(".row", { hasText: "reader#10" }).click();
      await press(page, "/");
      await page.locator("#agent-filter:focus").waitFor();
      await page.keyboard.type("zzz");
      await page.locator(".tree-empty", { hasText: "No agent matches" }).waitFor();
      expect(await page.locator(".tree").getAttribute("aria-activedescendant")).toBe(null);
      await press(page, "ArrowDown");
      await page.locator(".tree:focus").waitFor();
      await press(page, "ArrowDown");
      await shoot(page, `filter-none-${width}`);
      await page.getByRole("button", { name: "show all" }).click();
      await atRow(page, "reader#10");
      await press(page, "/");
      await page.keyboard.type("reader#3");
      await press(page, "Escape");
      await atRow(page, "reader#10");
      expect(await page.locator("#agent-filter").inputValue()).toBe("");
    });

  proves(["D545"], "reports that the open agent is collapsed", async () => {
    const { page } = await open(RUN);
    await page.locator(".row", { hasText: "reader#10" }).click();
    await page.locator(".row", { hasText: "lead" }).first().locator(".twisty").click();
    await page.locator(".not-listed", { hasText: "This agent is collapsed." }).waitFor();
    await page.getByRole("button", { name: "show it in the list" }).click();
    await page.locator(".row[aria-selected=true]", { hasText: "reader#10" }).waitFor();
    await page.locator(".not-listed button").waitFor({ state: "detached" });
  });
});

describe.skipIf(browser === undefined)("focus in the list of runs", () => {
  proves(["D544"], "moves the focus with the cursor, into a run and back to its line", async () => {
    const { page } = await open("/");
    await press(page, "j", "ArrowDown");
    const line = page.locator(".run-link:focus");
    await line.waitFor();
    const text = await page.locator(".run-line.cursor .run-name").innerText();
    await press(page, "Enter");
    await page.locator("main h1:focus", { hasText: text }).waitFor();
    await press(page, "Escape");
    await page.locator(".run-link:focus", { hasText: text }).waitFor();
    await press(page, "k", "Enter");
    await page.locator(".row").first().waitFor();
    await page.goBack();
    await line.waitFor();
    await expect(line.innerText()).resolves.not.toContain(text);
  });

  proves(["D545"], "moves the focus from the search to the runs that match", async () => {
    const { page } = await open("/");
    await press(page, "j", "/");
    await page.locator("#runs-search:focus").waitFor();
    await page.keyboard.type("audit");
    await page.locator(".run-link", { hasText: "order" }).waitFor({ state: "detached" });
    await page.locator(".run-link", { hasText: "audit" }).waitFor();
    await page.locator("[role=status]", { hasText: "1 run in the list" }).waitFor({
      state: "attached",
    });
    await press(page, "ArrowDown");
    await page.locator(".run-link:focus", { hasText: "audit" }).waitFor();
    await press(page, "Escape");
    await page.locator(".run-link", { hasText: "order" }).waitFor();
    await page.locator(".run-link:focus", { hasText: "audit" }).waitFor();
    await press(page, "/");
    await page.locator("#runs-search:focus").waitFor();
    await page.keyboard.type("zzz");
    await page.getByRole("button", { name: "Show all runs" }).click();
    await page.locator("#runs-search:focus").waitFor();
    await press(page, "Escape");
    await page.locator(".search button:focus").waitFor();
    await press(page, "ArrowDown");
    await page.locator(".run-link:focus").waitFor();
  });

  proves(["D545"], "keeps the focus on a run that moves to another group", async () => {
    const { page, server } = await open("/");
    const { run } = calmRun(1);
    await page.locator(`[data-run="${run.runId}"] .run-link`).focus();
    const next = run.status === "completed" ? "working" : "completed";
    server.patch(run.runId, { run: { ...run, status: next }, agents: [], spans: [] });
    const group = next === "completed" ? "done" : "working";
    await page.locator(`.group-${group} [data-run="${run.runId}"] .run-link:focus`).waitFor();
  });
});

/** A run with failed subagents: alone, in a group with one code and in a group with two codes. */
function codedRun(): RunSnapshot {
  const failing = (name: string, count: number, note: (nth: number) => string) =>
    Array.from({ length: count }, (_none, nth): AgentSketch => {
      const spans = [["chat", 1_000, 30_000, "failed", 1]] as const;
      const place = { parent: 0, name: `${name}#${nth + 1}`, fromMs: 1_000, toMs: 30_000 };
      return { ...place, activity: "failed", note: note(nth), spans };
    });
  return snapshotFor({
    runId: "codes",
    title: "lead: codes",
    status: "working",
    agents: [
      { parent: -1, name: "lead", activity: "delegating", note: "3 subagents" },
      ...failing("reader", 22, () => "model_unauthorized"),
      ...failing("finder", 24, (nth) =>
        nth < 20 ? "model_unauthorized" : "model_invalid_request",
      ),
      ...failing("single", 3, () => "model_context_overflow"),
    ],
  });
}

describe.skipIf(browser === undefined)("codes in a narrow tree", () => {
  for (const [width, open] of [
    [1_280, ""],
    [1_280, "?agent=codes-a47"],
    [1_280, "?agent=codes-a47&tab=steps&step=1"],
    [1_000, ""],
    [1_000, "?agent=codes-a47"],
    [640, ""],
  ] as const)
    proves(
      ["D546"],
      `shows each error code in full at ${width} pixels with "${open}"`,
      async () => {
        if (browser === undefined) throw new Error("no browser");
        const server = await startFixture({ folder: built?.folder ?? "", runs: [codedRun()] });
        afterwards(() => server.close());
        const options = { viewport: { width, height: 520 } };
        const { page, close } = await openTab(browser, server.urlOf(`/r/codes${open}`), options);
        afterwards(close);
        if (open !== "")
          await page.locator(".agent-panel .facts, .agent-panel h3").first().waitFor();
        await page.locator(".row", { hasText: "single#3" }).waitFor();
        await shoot(page, `codes-${width}-${open.length}`);
        const cut = await page
          .locator(".row .words")
          .evaluateAll((all) =>
            all
              .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
              .map(({ textContent }) => textContent),
          );
        const legend = await page
          .locator(".legend")
          .evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth);
        // There is no room for two codes beside a panel; the title contains them.
        const codes = "failed: model_unauthorized ×20, model_invalid_request ×4";
        expect([cut, legend]).toEqual([open === "" ? [] : [codes], 0]);
        expect(
          await page.locator(".row", { hasText: "finder" }).locator(".name").getAttribute("title"),
        ).toBe(codes);
      },
    );
});
