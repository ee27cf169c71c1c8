// viewer-page: what a run of 5,000 agents with 50,000 spans costs in a browser: until its rows are there, a frame while it is scrolled, quiet and
// while 1,000 events a second arrive, a filter, elements and heap. Over a server that holds the run; the page as `npm run build` left it.
// `node --conditions=@espalier/source bench/viewer-page.ts`

import type { CDPSession, Page } from "playwright-core";

import { findChromium, openTab } from "../test/page/chromium.ts";
import { crowdRun } from "../test/page/crowd-run.ts";
import { startFixture } from "../test/page/fixture-server.ts";
import { markdownTable } from "./figures/markdown-table.ts";
import { median } from "./figures/median.ts";

const AGENTS = 5_000;
const ROUNDS = 7;
const FRAMES = 240;
const PATCHES_PER_SECOND = 10;
const EVENTS_PER_PATCH = 100;

/** When the first row is there, by the clock of the page from the navigation on. */
const WATCH_ROWS = `new MutationObserver((_changes, watcher) => {
  if (document.querySelector(".row") === null) return;
  requestAnimationFrame(() => { window.firstRowMs = performance.now(); });
  watcher.disconnect();
}).observe(document, { childList: true, subtree: true });`;

/** Scrolls by a part of a screen in each frame, and gives how long each took. */
const SCROLL = `new Promise((resolve) => {
  const tree = document.querySelector(".tree");
  const times = [];
  let last = performance.now();
  const step = (now) => {
    times.push(now - last);
    last = now;
    tree.scrollTop += 130;
    if (times.length <= ${FRAMES}) requestAnimationFrame(step);
    else resolve(times.slice(1));
  };
  requestAnimationFrame(step);
})`;

/** Until the rows that fit are drawn. */
const filterBy = (words: string): string => `new Promise((resolve) => {
  const field = document.querySelector("#agent-filter");
  const begun = performance.now();
  field.value = ${JSON.stringify(words)};
  field.dispatchEvent(new Event("input", { bubbles: true }));
  requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - begun)));
})`;

/** What is measured with is put in by hand, which the policy of the page forbids. */
const OPEN = { bypassCSP: true };

async function numbers(page: Page, script: string): Promise<readonly number[]> {
  const found: unknown = await page.evaluate(script);
  return [found].flat().map(Number);
}

function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

async function heapMb(session: CDPSession): Promise<number> {
  await session.send("HeapProfiler.collectGarbage");
  const { metrics } = await session.send("Performance.getMetrics");
  return (metrics.find(({ name }) => name === "JSHeapUsedSize")?.value ?? 0) / 1e6;
}

const found = await findChromium();
if (typeof found === "string") throw new Error(found);
const run = crowdRun(AGENTS);
const server = await startFixture({ runs: [run] });

const firstRows: number[] = [];
for (let round = 0; round < ROUNDS; round += 1) {
  const tab = await openTab(found, `${server.origin}/viewer.css`, OPEN);
  await tab.page.addInitScript(WATCH_ROWS);
  await tab.page.goto(server.urlOf("/r/crowd-5000"));
  await tab.page.waitForFunction("window.firstRowMs !== undefined");
  firstRows.push(...(await numbers(tab.page, "window.firstRowMs")));
  await tab.close();
}

// All rows, not folded.
const { page } = await openTab(found, server.urlOf("/r/crowd-5000?show=ended"), OPEN);
await page.locator(".row").first().waitFor();
const elements = await page.locator("*").count();
const session = await page.context().newCDPSession(page);
await session.send("Performance.enable");
const heap = await heapMb(session);
await numbers(page, SCROLL); // Once to warm up.
await page.evaluate("document.querySelector('.tree').scrollTop = 0");
const quiet = await numbers(page, SCROLL);
await page.evaluate("document.querySelector('.tree').scrollTop = 0");
let patches = 0;
const patching = setInterval(() => {
  patches += 1;
  const agents = Array.from({ length: EVENTS_PER_PATCH }, (_none, place) => {
    const index = 1 + ((patches * 37 + place * 41) % (AGENTS - 1));
    const row = run.agents[index];
    if (row === undefined) throw new Error("no such row");
    const changed = row.with(11, row[11] + patches);
    return { index, changed };
  });
  server.patch("crowd-5000", {
    run: run.run,
    agents: agents.flatMap(({ index, changed }) =>
      isRow(changed) ? [[index, changed] as const] : [],
    ),
    spans: [],
  });
}, 1_000 / PATCHES_PER_SECOND);
const live = await numbers(page, SCROLL);
clearInterval(patching);
const filtered: number[] = [];
for (let round = 0; round < ROUNDS; round += 1)
  filtered.push(...(await numbers(page, filterBy(`reader#${10 + round}`))));

function isRow(row: readonly unknown[]): row is (typeof run.agents)[number] {
  return row.length === run.agents[0]?.length;
}

const frame = (times: readonly number[]): string =>
  `${quantile(times, 0.5).toFixed(1)} / ${quantile(times, 0.95).toFixed(1)} ms`;
const range = `${Math.min(...firstRows).toFixed(0)}–${Math.max(...firstRows).toFixed(0)}`;
console.log(
  markdownTable([
    [`${AGENTS} agents`, "figure", "gate"],
    ["first rows, median of 7 (range)", `${median(firstRows).toFixed(0)} ms (${range})`, "300 ms"],
    ["frame while scrolling, p50 / p95", frame(quiet), "25 ms"],
    [`the same, ${PATCHES_PER_SECOND * EVENTS_PER_PATCH} events a second`, frame(live), "25 ms"],
    [`filter, until drawn, median of ${ROUNDS}`, `${median(filtered).toFixed(0)} ms`, "50 ms"],
    ["elements, all rows unfolded", String(elements), "1,500"],
    ["heap of the page", `${heap.toFixed(1)} MB`, "60 MB"],
  ]),
);
await found.close();
await server.close();
