// Goal: every screen shows the required facts, is accessible to every user, and has no unwanted
// effect.
// Method: Chromium on the built page, over a server with made-up runs.

import axe from "axe-core";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect } from "vitest";

import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";
import { freePort } from "../support/free-port.ts";
import { buildPage, type BuiltPage } from "./built-page.ts";
import { findChromium, openTab, type Tab } from "./chromium.ts";
import { calmRun, UNSEEN } from "./fixture-runs.ts";
import { agentId } from "./run-sketch.ts";
import {
  fixtureRuns,
  REFUSED,
  startFixture,
  type FixtureOptions,
  type FixtureServer,
} from "./fixture-server.ts";

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

async function serve(options: FixtureOptions = {}): Promise<FixtureServer> {
  const server = await startFixture({ folder: built?.folder ?? "", refused: REFUSED, ...options });
  afterwards(() => server.close());
  return server;
}

async function open(url: string, options: Parameters<typeof openTab>[2] = {}): Promise<Tab> {
  if (browser === undefined) throw new Error("no browser");
  const tab = await openTab(browser, url, options);
  afterwards(() => tab.close());
  return tab;
}

/** Each screen, and what is visible once it has loaded. */
const SCREENS: Readonly<
  Record<string, readonly [path: string, there: string, act?: (page: Page) => Promise<unknown>]>
> = {
  runs: ["/", ".run-line"],
  search: ["/?q=pears", ".run-line"],
  "no run fits": ["/?q=nothing-of-it", "text=No run matches"],
  crowd: ["/r/crowd-5000", ".row"],
  filtered: ["/r/crowd-5000?q=surveyor%231&show=ended", ".row"],
  failed: ["/r/audit-7f2c", ".row"],
  parked: ["/r/night-5b11", ".row"],
  questions: ["/questions", ".question"],
  asking: ["/r/pears-31d0", ".question"],
  overview: ["/r/audit-7f2c?agent=audit-7f2c-a10", "text=Task"],
  steps: ["/r/audit-7f2c?agent=audit-7f2c-a10&tab=steps", ".step-line"],
  step: ["/r/audit-7f2c?agent=audit-7f2c-a10&tab=steps&step=2", ".message"],
  given: ["/r/audit-7f2c?agent=audit-7f2c-a10&tab=given", ".facts"],
  log: ["/r/audit-7f2c?agent=audit-7f2c-a10&tab=log", ".log li"],
  hostile: ["/r/hostile-0bad?agent=hostile-0bad-a0&tab=steps&step=1", ".message"],
  "no such run": ["/r/none", "text=Run not found"],
  "no such agent": ["/r/audit-7f2c?agent=none", "text=Agent not found"],
  "no such page": ["/r/a/b", "text=Page not found"],
  busy: ["/r/busy", "text=The store is busy"],
  newer: ["/r/newer", "text=Written by another version"],
  broken: ["/r/broken", "text=The journal is damaged"],
  help: [
    "/",
    "dialog",
    (page) =>
      page
        .locator(".run-line")
        .first()
        .waitFor()
        .then(() => page.keyboard.press("?")),
  ],
  "an approval": [
    "/questions",
    "text=Approve this call",
    (page) =>
      page
        .locator(".question")
        .first()
        .waitFor()
        .then(() => page.keyboard.press("a")),
  ],
  "a denial": [
    "/questions",
    "text=Reason for the denial",
    (page) =>
      page
        .locator(".question")
        .first()
        .waitFor()
        .then(() => page.keyboard.press("d")),
  ],
  "an edit": [
    "/questions",
    "textarea",
    (page) =>
      page
        .locator(".question")
        .first()
        .waitFor()
        .then(() => page.keyboard.press("m")),
  ],
  cancelling: [
    "/r/pears-31d0",
    "text=End the whole run now?",
    (page) => page.getByRole("button", { name: "Cancel" }).click(),
  ],
};

async function show(
  server: FixtureServer,
  name: string,
  options: Parameters<typeof openTab>[2] = {},
): Promise<Tab> {
  const [path = "", there = "", act] = SCREENS[name] ?? [];
  const tab = await open(server.urlOf(path), options);
  await act?.(tab.page);
  await tab.page.locator(there).first().waitFor();
  return tab;
}

describe.skipIf(browser === undefined)("screens", () => {
  for (const name of Object.keys(SCREENS))
    proves(
      ["V90", "V100"],
      `${name}: has no violations of axe or the policy, and contacts no other server`,
      async () => {
        const server = await serve();
        const { complaints, foreign } = await show(server, name);
        expect({ complaints, foreign }).toEqual({ complaints: [], foreign: [] });
        // Axe is injected by hand, which the policy forbids.
        const { page } = await show(server, name, { bypassCSP: true });
        await page.evaluate(axe.source);
        for (const colorScheme of ["light", "dark"] as const) {
          await page.emulateMedia({ colorScheme });
          const { violations } = await page.evaluate(() =>
            window.axe.run(document, { resultTypes: ["violations"] }),
          );
          const found = violations.map(
            ({ id, nodes }) =>
              `${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join(" ")}`,
          );
          expect({ colorScheme, found }).toEqual({ colorScheme, found: [] });
        }
      },
    );

  for (const path of [
    "/",
    "/questions",
    "/r/hostile-0bad",
    "/r/hostile-dead",
    ...["overview", "given", "log", "steps", "steps&step=1"].map(
      (tab) => `/r/hostile-0bad?agent=hostile-0bad-a0&tab=${tab}`,
    ),
    "/r/hostile-0bad?agent=hostile-0bad-a2&tab=overview",
    "/r/hostile-0bad?agent=hostile-0bad-a2&tab=given",
  ])
    proves(
      ["V96"],
      `${path}: shows hostile text as text, without markup, links or scripts`,
      async () => {
        const server = await serve();
        const { page } = await open(server.urlOf(path));
        await page.locator("text=U+202E").first().waitFor();
        const active =
          "img, script:not([src]), iframe, object, a[href^='javascript'], a[href^='https:']";
        expect(await page.locator(active).count()).toBe(0);
        // The title names the run as text. A script that ran would have set it to this word.
        const title = await page.title();
        expect(title).not.toBe("owned");
        expect(UNSEEN.exec(title)).toBeNull();
        const text = await page.evaluate(() => {
          const attributes = [...document.querySelectorAll("*")].flatMap((element) =>
            [...element.attributes].map(({ value }) => value),
          );
          return `${document.body.textContent} ${attributes.join(" ")}`;
        });
        expect(text).toContain("<img src=x onerror=");
        expect(UNSEEN.exec(text)).toBeNull();
      },
    );

  proves(
    ["V92"],
    "reaches all of 5,000 agents with few elements at every scroll position",
    async () => {
      const server = await serve();
      const { page } = await show(server, "crowd");
      const tree = page.getByRole("treegrid");
      expect(await page.locator(".filter .count").textContent()).toContain("5,000 agents");
      expect(await page.locator("*").count()).toBeLessThan(1_500);
      const filtered = await show(server, "filtered");
      expect(await filtered.page.locator(".filter .count").textContent()).toMatch(
        /^[\d,]+ of 5,000/,
      );
      await page.goto(server.urlOf("/r/crowd-5000?show=ended"));
      await page.locator(".row").first().waitFor();
      const rows = Number(await tree.getAttribute("aria-rowcount"));
      expect(rows).toBeGreaterThan(4_800);
      await tree.focus();
      await page.keyboard.press("End");
      await page.locator(`#row-${rows - 2}[aria-selected=true]`).waitFor();
      expect(await page.locator("*").count()).toBeLessThan(1_500);
      expect(await tree.getAttribute("aria-activedescendant")).toBe(`row-${rows - 2}`);
    },
  );

  proves(
    ["V99"],
    "restores the open view from the address on reload and back, without the token in it",
    async () => {
      const server = await serve();
      const { page } = await show(server, "runs");
      await page.locator(".run-line", { hasText: "audit the ledger" }).locator("a").click();
      await page.locator(".row").first().waitFor();
      await page.keyboard.press("e");
      await page.locator(".message").first().waitFor();
      expect(new URL(page.url())).toMatchObject({
        pathname: "/r/audit-7f2c",
        search: "?agent=audit-7f2c-a10&tab=steps&step=1",
        hash: "",
      });
      await page.reload();
      await page.locator("text=step 1 of 3").waitFor();
      expect(await page.locator(".row[aria-selected=true] b").textContent()).toBe("reader#10");
      await page.goBack();
      await page.locator("aside").waitFor({ state: "detached" });
      await page.goBack();
      await page.locator(".run-line").first().waitFor();
      const links = await page
        .locator("a")
        .evaluateAll((all) => all.map((link) => link.getAttribute("href") ?? ""));
      expect([...links, page.url()].filter((link) => link.includes("fff"))).toEqual([]);
    },
  );

  proves(["V101"], "explains how to get a valid token", async () => {
    const server = await serve({ token: "0".repeat(48) });
    const { page } = await open(server.urlOf("/"));
    await page.locator("text=This page has no valid token").waitFor();
    await page.locator("text=espalier view --url").waitFor();
  });

  proves(["V101"], "explains how to create a run if the store is empty", async () => {
    const server = await serve({ runs: [] });
    const { page } = await open(server.urlOf("/"));
    await page.locator("text=No runs yet").waitFor();
    await page.locator("text=espalier demo").waitFor();
  });

  proves(["V114", "V116"], "reports below a list which runs it omits", async () => {
    const server = await serve({ said: { isCut: true, forgotten: 12 } });
    const { page } = await open(server.urlOf("/"));
    await page.locator("text=Only the newest active and paused runs are listed").waitFor();
    await page.locator("text=12 older runs evicted").waitFor();
    const inbox = await open(server.urlOf("/questions"));
    await inbox.page.locator("text=Only the newest active and paused runs were checked").waitFor();
  });

  proves(["V102"], "keeps the other panels usable if one panel fails", async () => {
    const server = await serve({ details: { "audit-7f2c-a10": { steps: 7 } } });
    const { page } = await open(server.urlOf("/r/audit-7f2c?agent=audit-7f2c-a10&tab=steps"));
    await page.locator("text=The panel of the agent failed.").waitFor();
    // Over the group row to the lead.
    await page.keyboard.press("k");
    await page.keyboard.press("k");
    await page.locator("text=The panel of the agent failed.").waitFor({ state: "detached" });
    expect(await page.locator(".row").count()).toBe(4);
  });

  proves(["V105"], "explains in each panel that content is hidden", async () => {
    const server = await serve({ meta: { content: false } });
    const { page } = await open(server.urlOf("/r/audit-7f2c?agent=audit-7f2c-a10"));
    await page.locator("text=Content is hidden").waitFor();
    await page.goto(server.urlOf("/r/audit-7f2c?agent=audit-7f2c-a10&tab=steps&step=2"));
    await page.locator("aside").getByText("Content is hidden").waitFor();
    await page.locator(".badge", { hasText: "content off" }).waitFor();
  });

  proves(["V105"], "offers no approval of a call whose content is hidden", async () => {
    const server = await serve({ meta: { content: false } });
    const { page } = await open(server.urlOf("/questions"));
    const card = page.locator(".question").first();
    await card.getByText("Content is hidden").waitFor();
    await page.keyboard.press("a");
    await page.keyboard.press("m");
    expect(await card.getByRole("button").allTextContents()).toEqual(["Deny… d"]);
  });

  proves(
    ["V101"],
    "reports a lost connection, keeps the list, and recovers when the server is back",
    async () => {
      const port = await freePort();
      const server = await serve({ port });
      const { page } = await show(server, "runs");
      await server.close();
      await page.locator("text=Connection lost.").waitFor();
      expect(await page.locator(".run-line").count()).toBeGreaterThan(3);
      await serve({ port });
      await page.locator("text=Connection lost.").waitFor({ state: "detached" });
    },
  );

  proves(["V99"], "leaves one level per Escape, even after a deep link", async () => {
    const server = await serve();
    const { page } = await show(server, "step");
    for (const search of ["?agent=audit-7f2c-a10&tab=steps", ""]) {
      await page.keyboard.press("Escape");
      await page.waitForURL((url) => url.search === search);
    }
    await page.keyboard.press("Escape");
    await page.waitForURL((url) => url.pathname === "/");
  });

  proves(["V99"], "applies a key to the elements that are visible at that moment", async () => {
    const server = await serve();
    const { page } = await show(server, "given");
    await page.evaluate(() => {
      new MutationObserver((_changes, observer) => {
        if (document.querySelector(".pager") === null) return;
        observer.disconnect();
        document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
      }).observe(document.body, { childList: true, subtree: true });
      history.pushState(null, "", "?agent=audit-7f2c-a10&tab=steps&step=2");
      dispatchEvent(new PopStateEvent("popstate"));
    });
    await page.waitForURL((url) => url.searchParams.get("step") === null);
    expect(new URL(page.url()).search).toBe("?agent=audit-7f2c-a10&tab=steps");
  });

  proves(
    ["V91"],
    "moves through rows, expands and collapses them, and finds errors with keys",
    async () => {
      const server = await serve();
      const { page } = await show(server, "failed");
      const cursor = page.locator(".row[aria-selected=true]");
      await page.keyboard.press("j");
      expect(await cursor.getAttribute("aria-expanded")).toBe("false");
      await page.keyboard.press("ArrowRight");
      await page.locator("#row-2", { hasText: "reader#1" }).waitFor();
      expect(await cursor.getAttribute("aria-expanded")).toBe("true");
      await page.keyboard.press("ArrowLeft");
      await page.locator("#row-2", { hasText: "reader#10" }).waitFor();
      await page.keyboard.press("e");
      await page.locator("text=error 1 of 4").waitFor();
      await page.keyboard.press("E");
      await page.locator("text=error 4 of 4").waitFor();
      // The last error is within a group, which is expanded for it.
      await page.locator(".row[aria-selected=true]", { hasText: "reader#5" }).waitFor();
    },
  );

  proves(["D220"], "does not show a run as failed that only reached a limit", async () => {
    const calm = calmRun(0);
    const met = {
      agentId: agentId(calm.run.runId, 0),
      agentPath: "lead",
      step: 1,
      code: "step_limit",
      message: "120 of 120 steps are used.",
      isLimit: true,
      atMs: calm.run.startedAtMs,
    } as const;
    const server = await serve({ runs: [{ ...calm, causes: [met] }] });
    const { page } = await open(server.urlOf(`/r/${calm.run.runId}`));
    const stops = page.locator(".fact.errors");
    await stops.locator("text=lead · step_limit").waitFor();
    expect(await stops.textContent()).toContain("1 limit");
    expect(await page.locator(".run-header .sign-failed").count()).toBe(0);
    await page.getByRole("button", { name: "Next limit" }).click();
    await page.locator("text=limit 1 of 1").waitFor();
    expect(await page.locator(".run-header", { hasText: /error/i }).count()).toBe(0);
  });
});

describe.skipIf(browser === undefined)("runs made up", () => {
  proves(["V100"], "shows each of them on a tested screen", () => {
    const paths = Object.values(SCREENS).map(([path]) => path);
    const shown = fixtureRuns().filter(
      ({ run }) =>
        /^(calm|hostile-dead)/.test(run.runId) || paths.some((path) => path.includes(run.runId)),
    );
    expect(shown).toHaveLength(fixtureRuns().length);
  });
});
