// Goal: the page shows what the server reports, whatever happens to the connection.
// Method: Chromium on the built page with a set clock, over a server that is killed, restarted and
// controlled by the test.

import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect } from "vitest";

import type { AgentRow, RunSnapshot } from "../../src/read-model/viewer-data.ts";
import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";
import { freePort } from "../support/free-port.ts";
import { buildPage, type BuiltPage } from "./built-page.ts";
import { findChromium, openTab } from "./chromium.ts";
import { startFixture, type FixtureServer } from "./fixture-server.ts";
import { rowOf, snapshotFor } from "./run-sketch.ts";

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

const RUN: RunSnapshot = snapshotFor({
  runId: "live",
  title: "lead: live",
  status: "working",
  agents: [
    { parent: -1, name: "lead", activity: "delegating", note: "1 subagent" },
    { parent: 0, name: "reader#1", activity: "thinking", own: 100 },
  ],
});

function rowWith(own: number): AgentRow {
  return rowOf("live", 1, { parent: 0, name: "reader#1", activity: "thinking", own });
}

async function serve(runs: readonly RunSnapshot[], port = 0): Promise<FixtureServer> {
  const server = await startFixture({ folder: built?.folder ?? "", runs, port });
  afterwards(() => server.close());
  return server;
}

async function open(server: FixtureServer, hasClock = false): Promise<Page> {
  if (browser === undefined) throw new Error("no browser");
  const tab = await openTab(browser, hasClock ? "about:blank" : server.urlOf("/r/live"));
  afterwards(() => tab.close());
  if (hasClock) {
    await tab.page.clock.install();
    await tab.page.goto(server.urlOf("/r/live"));
  }
  await tab.page.locator(".row").first().waitFor();
  await expect.poll(() => server.feedsAfter.length).toBe(1);
  return tab.page;
}

function tokensOf(page: Page) {
  return expect.poll(() =>
    page.locator(".row", { hasText: "reader#1" }).locator(".own").textContent(),
  );
}

function patchWith(server: FixtureServer, own: number): void {
  server.patch("live", { run: RUN.run, agents: [[1, rowWith(own)]], spans: [] });
}

/** Shows or hides the tab of the page. */
async function hide(page: Page, isHidden: boolean): Promise<void> {
  await page.evaluate((hidden) => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, isHidden);
}

describe.skipIf(browser === undefined)("a live run", () => {
  proves(
    ["V94", "V101"],
    "resumes the feed after the last received record when the server restarts at the same port",
    async () => {
      const port = await freePort();
      const server = await serve([RUN], port);
      const page = await open(server);
      patchWith(server, 200);
      await tokensOf(page).toBe("200");
      await server.close();
      await page.locator("text=Connection lost").waitFor();
      // The known state remains on the page.
      await tokensOf(page).toBe("200");
      const later: RunSnapshot = {
        ...RUN,
        record: 1_009,
        agents: [
          RUN.agents[0] ?? rowWith(0),
          rowWith(900),
          rowOf("live", 2, { parent: 0, name: "writer#1", activity: "thinking" }),
        ],
        spans: [[], [], []],
      };
      const anew = await serve([later], port);
      await page.getByRole("button", { name: "Try now" }).click();
      await tokensOf(page).toBe("900");
      await page.locator("text=Connection lost").waitFor({ state: "detached" });
      await page.locator(".row", { hasText: "writer#1" }).waitFor();
      expect(anew.feedsAfter).toEqual([1_001]);
      anew.patch("live", { run: RUN.run, agents: [[1, rowWith(950)]], spans: [] });
      await tokensOf(page).toBe("950");
    },
  );

  proves(["V94"], "reconnects automatically with growing delays", async () => {
    const port = await freePort();
    const server = await serve([RUN], port);
    const page = await open(server, true);
    await server.close();
    await page.locator("text=Connection lost").waitFor();
    const anew = await serve([RUN], port);
    await page.clock.runFor(1_100);
    await page.locator("text=Connection lost").waitFor({ state: "detached" });
    expect(anew.feedsAfter).toEqual([1_000]);
  });

  for (const type of ["reset", "lagging"] as const)
    proves(["V94"], `${type}: reloads the snapshot and continues the feed after it`, async () => {
      const server = await serve([RUN]);
      const page = await open(server);
      // The new snapshot differs from what the feed sent.
      server.replace("live", {
        ...RUN,
        record: 400,
        agents: [RUN.agents[0] ?? rowWith(0), rowWith(777)],
      });
      server.send("live", { type });
      await tokensOf(page).toBe("777");
      await expect.poll(() => server.feedsAfter).toEqual([1_000, 400]);
      expect(await page.locator("text=Connection lost").count()).toBe(0);
    });

  proves(
    ["V103"],
    "closes the feed of a hidden tab after 30 s and resumes it when the tab is visible again",
    async () => {
      const server = await serve([RUN]);
      const page = await open(server, true);
      await hide(page, true);
      await page.clock.runFor(29_000);
      expect(server.watchers).toBe(1);
      await page.clock.runFor(2_000);
      await expect.poll(() => server.watchers).toBe(0);
      patchWith(server, 300);
      await hide(page, false);
      await tokensOf(page).toBe("300");
      expect(server.feedsAfter).toEqual([1_000, 1_000]);
      expect(await page.locator("text=Connection lost").count()).toBe(0);
    },
  );

  proves(["V103"], "keeps the feed of a tab that is visible again within 30 s", async () => {
    const server = await serve([RUN]);
    const page = await open(server, true);
    await hide(page, true);
    await page.clock.runFor(20_000);
    await hide(page, false);
    await page.clock.runFor(20_000);
    expect(server.watchers).toBe(1);
    expect(server.feedsAfter).toEqual([1_000]);
  });

  proves(["V94"], "closes the feed when the run ends", async () => {
    const server = await serve([RUN]);
    const page = await open(server);
    server.patch("live", {
      run: { ...RUN.run, status: "completed", endedAtMs: RUN.run.lastAtMs, owner: null },
      agents: [],
      spans: [],
    });
    server.send("live", { type: "end" });
    await page.locator(".status.is-completed").waitFor();
    await expect.poll(() => server.watchers).toBe(0);
    expect(await page.locator("text=Connection lost").count()).toBe(0);
    expect(server.feedsAfter).toEqual([1_000]);
  });
});
