// A paused run with open questions, and the page that shows it, in Chromium.

import type { Browser, Page } from "playwright-core";
import { expect } from "vitest";
import { z } from "zod";

import { defineAgent } from "../../src/agent/define-agent.ts";
import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import { parseId } from "../../src/protocol/ids.ts";
import type { Answer } from "../../src/protocol/question.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import type { ViewerOptions } from "../../src/viewer-server/viewer-options.ts";
import { startViewer } from "../../src/viewer-server/viewer.ts";
import { afterwards } from "../harness/afterwards.ts";
import { thinker } from "../support/journal/thinkers.ts";
import type { BuiltPage } from "./built-page.ts";
import { openTab } from "./chromium.ts";

export const RUN = parseId<"RunId">("order");
/** The folder for screenshots, if the tests should take any. */
export const SHOTS = process.env["ESPALIER_TEST_SHOTS"];

export interface AskedWorld {
  readonly browser: Browser;
  readonly built: BuiltPage;
}

/**
 * Starts a run that pauses with one question about each thing, and opens the page that shows it.
 */
export async function askedRun(
  { browser, built }: AskedWorld,
  things: readonly string[],
  path: string,
  { width = 1_280, ...options }: Pick<ViewerOptions, "content"> & { readonly width?: number } = {},
) {
  const paid: string[] = [];
  const buyer = defineAgent({
    name: "buyer",
    description: "Buys.",
    instructions: "You buy.",
    model: thinker("buyer", ({ results }) =>
      results.length === 0
        ? { calls: things.map((thing) => ["pay", { thing }] as const) }
        : { text: results.join(" · ") },
    ),
    tools: [
      defineTool({
        name: "pay",
        description: "Pays for a thing.",
        inputSchema: z.object({ thing: z.string() }),
        needsApproval: true,
        execute: ({ thing }) => {
          paid.push(thing);
          return `paid for ${thing}`;
        },
      }),
    ],
  });
  const view = await startViewer({
    port: 0,
    store: memoryStore(),
    pageFolder: built.folder,
    ...options,
  });
  afterwards(() => view.close());
  const orchestrator = new Orchestrator({ store: view.store, sinks: [view.sink], roles: [buyer] });
  view.attach(orchestrator);
  const result = await orchestrator.start(buyer, "Buy.", { runId: RUN }).result;
  const { origin, hash } = new URL(view.url);
  const size = { viewport: { width, height: 700 } };
  const tab = await openTab(browser, `${origin}${path}${hash}`, size);
  afterwards(() => {
    expect(tab.complaints).toEqual([]);
    return tab.close();
  });
  const { page } = tab;
  // The page shows the run before its questions; a key pressed before they appear is lost.
  await page.locator(path === "/" ? ".run-line" : ".question.current").waitFor();
  const questions = result.pausedRun?.questions ?? [];
  /** Answers a question as another person, in another client. */
  const deniedElsewhere = async (at: number): Promise<void> => {
    const question = questions[at];
    if (question === undefined) throw new Error("no question");
    const { questionId, argumentsHash } = question;
    const answer: Answer = { type: "denied", questionId, argumentsHash, reason: "Elsewhere." };
    const reply = await fetch(`${origin}/api/v1/runs/${RUN}/actions`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${hash.replace("#token=", "")}`,
        origin,
        "content-type": "application/json",
      },
      body: JSON.stringify({ key: `elsewhere-${at}`, type: "answer", answers: [answer] }),
    });
    expect(reply.status).toBe(202);
  };
  const text = async (): Promise<string | undefined> => {
    await expect.poll(async () => (await view.store.find(RUN))?.status).toBe("ended");
    return (await orchestrator.getResult(RUN))?.text;
  };
  return { page, paid, deniedElsewhere, text };
}

/** Presses a key that moves to another question, and waits until keys act on that question. */
export async function moveTo(page: Page, key: string, thing: string): Promise<void> {
  await press(page, key);
  await page.locator(".question.current:focus", { hasText: thing }).waitFor();
}

/** Stops the clock by which the page recognises hasty keys; the returned function restarts it. */
export async function stopClock(page: Page): Promise<() => Promise<void>> {
  await page.evaluate(() => {
    const nowMs = performance.now();
    Object.defineProperty(performance, "now", { configurable: true, value: () => nowMs });
    Object.defineProperty(Event.prototype, "timeStamp", { configurable: true, value: nowMs });
  });
  return async () => {
    await page.evaluate(() => {
      Reflect.deleteProperty(performance, "now");
      Reflect.deleteProperty(Event.prototype, "timeStamp");
    });
  };
}

/** Returns the role or tag and the name of the focused element. */
export async function focusOf(page: Page): Promise<string> {
  return await page.evaluate(() => {
    const element = document.activeElement;
    if (element === null || element === document.body) return "nothing";
    const name = element.getAttribute("aria-label") ?? element.textContent;
    return `${element.tagName.toLowerCase()} ${name.replace(/\s+/g, " ").trim()}`;
  });
}

export async function press(page: Page, ...keys: readonly string[]): Promise<void> {
  for (const key of keys) await page.keyboard.press(key);
}
