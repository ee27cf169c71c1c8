// Goal: foreign text is shown with marks for invisible characters, and arguments of any size leave
// the page usable.
// Method: Chromium, a real viewer over a store with real runs.

import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect } from "vitest";
import { z } from "zod";

import { defineAgent } from "../../src/agent/define-agent.ts";
import type { AgentRole } from "../../src/agent/agent-role.ts";
import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import { parseId } from "../../src/protocol/ids.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { ToolError } from "../../src/tools/tool-error.ts";
import { startViewer } from "../../src/viewer-server/viewer.ts";
import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";
import { thinker } from "../support/journal/thinkers.ts";
import { buildPage, type BuiltPage } from "./built-page.ts";
import { findChromium, openTab } from "./chromium.ts";
import { SHOTS, press } from "./asked-run.ts";
import { UNSEEN } from "./fixture-runs.ts";

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

const RUN = parseId<"RunId">("marks");
const TURNED = "disk \u202Eerif no\u202C \u200Bfire";

/** Opens the page on a run that has paused or ended. */
async function openRun(role: AgentRole, search = ""): Promise<Page> {
  if (browser === undefined) throw new Error("no browser");
  const view = await startViewer({
    port: 0,
    store: memoryStore(),
    pageFolder: built?.folder ?? "",
  });
  afterwards(() => view.close());
  const orchestrator = new Orchestrator({ store: view.store, sinks: [view.sink], roles: [role] });
  const { agents } = await orchestrator.start(role, "Go.", { runId: RUN }).result;
  const { origin, hash } = new URL(view.url);
  const query = search.replace("ROOT", agents[0]?.agentId ?? "");
  const { page, close } = await openTab(browser, `${origin}/r/${RUN}${query}${hash}`);
  afterwards(close);
  await page.locator(".row").first().waitFor();
  return page;
}

/** A role that calls a tool once with the given arguments. */
function caller(input: object, execute?: () => never): AgentRole {
  return defineAgent({
    name: "caller",
    description: "Calls.",
    instructions: "You call.",
    model: thinker("caller", ({ results }) =>
      results.length === 0
        ? {
            calls: [
              ["work", input],
              ...(execute === undefined ? [] : [[`none ${TURNED}`, {}] as const]),
            ],
          }
        : { text: "Done." },
    ),
    tools: [
      defineTool({
        name: "work",
        description: "Works.",
        inputSchema: z.looseObject({}),
        needsApproval: execute === undefined,
        execute: execute ?? (() => "worked"),
      }),
    ],
  });
}

describe.skipIf(browser === undefined)("marks", () => {
  for (const [place, search, selector] of [
    ["list of steps", "?agent=ROOT&tab=steps", ".calls .call"],
    ["step", "?agent=ROOT&tab=steps&step=2", ".messages .message"],
  ] as const)
    proves(["D621"], `marks invisible characters of tools in the ${place}`, async () => {
      const fail = (): never => {
        throw new ToolError(TURNED);
      };
      const page = await openRun(caller({}, fail), search);
      await page.locator(selector).first().waitFor();
      if (search.includes("step=2")) await press(page, "w");
      await page.locator(".unseen").nth(2).waitFor();
      const shown = (await page.locator("body").textContent()) ?? "";
      expect(shown).toContain("disk U+202Eerif noU+202C U+200Bfire");
      expect(shown).not.toMatch(UNSEEN);
      if (SHOTS !== undefined)
        await page.screenshot({ path: `${SHOTS}/marks-${place.replaceAll(" ", "-")}.png` });
    });

  proves(["D621"], "marks invisible characters in the errors of an answer", async () => {
    const page = await openRun(caller({ thing: "pears" }));
    let code = "invalid_answer";
    await page.route("**/actions", async (route) => {
      const body = JSON.stringify({ code, message: TURNED });
      await route.fulfill({ status: 409, contentType: "application/json", body });
    });
    for (const key of ["m", "a"]) {
      await press(page, key);
      await page.locator(".stage").waitFor();
      await press(page, "Control+Enter");
      if (key === "m") {
        await page.locator(".stage[role=group]").waitFor();
        await press(page, "Control+Enter");
      }
      await page.locator(".question .unseen").nth(2).waitFor();
      const shown = (await page.locator(".question").textContent()) ?? "";
      expect(shown).toContain("disk U+202Eerif noU+202C U+200Bfire");
      expect(shown).not.toMatch(UNSEEN);
      await press(page, "Escape");
      await page.locator(".question .unseen").first().waitFor({ state: "detached" });
      code = "conflict";
    }
  });

  proves(
    ["D621"],
    "bounds the elements for 100,000 arguments and counts the remaining ones",
    async () => {
      const members = new Map(
        Array.from({ length: 100_000 }, (_, nth) => [`m${nth}`, `line\n${nth}`] as const),
      );
      const page = await openRun(caller(Object.fromEntries(members)));
      const left = page.locator(".question .more", { hasText: "are left out" });
      await left.waitFor();
      const countElements = () =>
        page.evaluate(() => document.querySelectorAll(".question *").length);
      expect(await countElements()).toBeLessThan(500);
      if (SHOTS !== undefined) await page.screenshot({ path: `${SHOTS}/many-arguments.png` });
      const first = await left.innerText();
      await left.click();
      await expect.poll(countElements).toBeGreaterThan(1_000);
      expect(await left.innerText()).not.toBe(first);
      await press(page, "d");
      await page.locator(".stage input:focus").waitFor();
    },
  );
});
