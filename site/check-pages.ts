// Checks the built site in Chromium: at 1,280 px no page cuts code or a table off, at 375 px no page is wider than its window, the colours of both
// schemes have enough contrast, and the search answers in time with the page that a reader expects. Without Chromium it says so.

import { existsSync, globSync, statSync } from "node:fs";
import { join } from "node:path";

import axe from "axe-core";
import type { Browser, BrowserContext, BrowserContextOptions, Page } from "playwright-core";
import { z } from "zod";

import { findChromium } from "../test/page/chromium.ts";

const DIST = join(import.meta.dirname, "dist");
const ORIGIN = "http://site.test";
const WIDE = { width: 1_280, height: 800 };
const NARROW = { width: 375, height: 800 };
/** Pages whose colours are checked: the home page, a guide with pictures, tables, and the reference. */
const COLOR_PAGES = ["/", "/guides/approvals.html", "/errors.html", "/reference/start.html"];
/** Pages that show one file: one of them stands for all. */
const LISTINGS =
  /^(?:\.ci|bench|examples|scripts|src|test)\/(?!index\.html$|service\/service\.html$)/;
const MAX_ANSWER_MS = 300;
const MAX_TRIES = 20;
/** Time after which a search is taken to have no answer. */
const GIVE_UP_MS = 5_000;

/** What readers type, and pages of which one is to be the first answer. */
const SEARCHES: readonly (readonly [query: string, ...pages: readonly string[]])[] = [
  ["human in the loop", "/guides/approvals", "/human-in-the-loop"],
  ["hitl", "/guides/approvals", "/human-in-the-loop"],
  ["approval", "/guides/approvals", "/human-in-the-loop"],
  ["cost", "/guides/budgets-in-practice", "/budgets", "/prices"],
  ["resume", "/human-in-the-loop", "/crash-recovery", "/guides/approvals", "/guides/service"],
  ["max turns", "/guides/coming-from-openai-agents", "/guides/budgets-in-practice", "/budgets"],
  ["structured output", "/guides/structured-results"],
  ["handoff", "/subagents"],
  ["timeout", "/cancellation"],
  ["tracing", "/telemetry"],
  ["StartOptions", "/reference/start"],
];

const problems: string[] = [];

/** Opens a window whose pages come from the folder of the site. */
async function openWindow(
  browser: Browser,
  options: BrowserContextOptions,
): Promise<BrowserContext> {
  const context = await browser.newContext(options);
  await context.route("**/*", async (route) => {
    const { origin, pathname } = new URL(route.request().url());
    const path = join(DIST, decodeURIComponent(pathname));
    const file = existsSync(path) && statSync(path).isDirectory() ? join(path, "index.html") : path;
    if (origin === ORIGIN && existsSync(file)) await route.fulfill({ path: file });
    else await route.fulfill({ status: 404, body: "" });
  });
  return context;
}

/** Runs in the page. Returns what is wider than its place. */
const FIND_WIDE = `(() => {
  const found = [];
  const name = (element) => element.tagName.toLowerCase() + " “" + element.textContent.trim().slice(0, 40) + "…”";
  const isNarrow = innerWidth < 960;
  const { scrollWidth, clientWidth } = document.documentElement;
  if (scrollWidth > clientWidth) found.push("the page itself, " + scrollWidth + " px");
  const wide = document.querySelectorAll(".vp-doc pre, .vp-doc table, .commands");
  for (const element of isNarrow ? [] : wide) {
    const place = element.closest(".vp-doc")?.getBoundingClientRect().right ?? innerWidth;
    if (element.scrollWidth > element.clientWidth + 1 || element.getBoundingClientRect().right > place + 1)
      found.push(name(element));
  }
  const scrolls = (element) =>
    /^(pre|table|svg)$/i.test(element.tagName) || /auto|scroll/.test(getComputedStyle(element).overflowX);
  const queue = [document.querySelector(".VPContent") ?? document.body];
  for (const element of queue) {
    const { right, width } = element.getBoundingClientRect();
    if (width > 0 && right > innerWidth + 1) {
      found.push(name(element));
      break;
    }
    if (!scrolls(element)) queue.push(...element.children);
  }
  return found;
})()`;

/** Checks that every page fits both widths. Scripts are off: the layout does not need them. */
async function checkLayout(browser: Browser): Promise<number> {
  const context = await openWindow(browser, { viewport: WIDE, javaScriptEnabled: false });
  await context.route("**/*.js", (route) => route.abort());
  const page = await context.newPage();
  const files = globSync("**/*.html", { cwd: DIST }).filter((file) => !LISTINGS.test(file));
  for (const file of files) {
    await page.goto(`${ORIGIN}/${file}`, { waitUntil: "load" });
    for (const size of [WIDE, NARROW]) {
      await page.setViewportSize(size);
      for (const found of z.array(z.string()).parse(await page.evaluate(FIND_WIDE)))
        problems.push(`${file} at ${size.width} px: too wide: ${found}`);
    }
  }
  await context.close();
  return files.length;
}

async function checkColors(browser: Browser): Promise<void> {
  for (const colorScheme of ["light", "dark"] as const) {
    const context = await openWindow(browser, {
      viewport: WIDE,
      colorScheme,
      reducedMotion: "reduce",
    });
    const page = await context.newPage();
    for (const path of COLOR_PAGES) {
      await page.goto(ORIGIN + path, { waitUntil: "networkidle" });
      await page.locator('.VPSwitchAppearance:not([title=""])').first().waitFor(); // its name is set by a script
      await page.evaluate(axe.source);
      const violations = z
        .array(
          z.object({
            id: z.string(),
            nodes: z.array(z.object({ html: z.string(), failureSummary: z.string() })),
          }),
        )
        .parse(
          await page.evaluate(
            `axe.run({ runOnly: ["color-contrast", "image-alt", "button-name", "link-name"] }).then(({ violations }) => violations)`,
          ),
        );
      for (const { id, nodes } of violations)
        problems.push(
          `${path}, ${colorScheme}: ${id}: ${nodes[0]?.html} ${nodes[0]?.failureSummary}`,
        );
    }
    await context.close();
  }
}

const AnswerSchema = z.object({ ms: z.number(), links: z.array(z.string()) });

/** Types a query into the open search, and returns the links that it answers with, which must differ from those before. */
async function search(page: Page, query: string): Promise<z.infer<typeof AnswerSchema>> {
  return AnswerSchema.parse(
    await page.evaluate(`(async () => {
      const input = document.querySelector(".search-input");
      const list = document.querySelector(".results");
      const readLinks = () => [...list.querySelectorAll("a.result")].map((link) => link.getAttribute("href"));
      const before = readLinks().join();
      const start = performance.now();
      input.value = ${JSON.stringify(query)};
      input.dispatchEvent(new Event("input", { bubbles: true }));
      await new Promise((resolve) => {
        setTimeout(resolve, ${GIVE_UP_MS});
        new MutationObserver(() => {
          if (list.querySelector("a.result") !== null && readLinks().join() !== before) resolve();
        }).observe(list, { childList: true, subtree: true, attributes: true });
      });
      return { ms: performance.now() - start, links: readLinks() };
    })()`),
  );
}

/** Checks what the search answers first, and that it answers in time once its index is there. Returns the longest time. */
async function checkSearch(browser: Browser): Promise<number> {
  const context = await openWindow(browser, { viewport: WIDE });
  const page = await context.newPage();
  await page.goto(`${ORIGIN}/`, { waitUntil: "networkidle" });
  await page.locator("#local-search button").click();
  await page.locator(".search-input").fill("espalier");
  await page.locator("a.result").first().waitFor();
  let longestMs = 0;
  for (const [query, ...expected] of SEARCHES) {
    let answerMs = Infinity;
    let links: readonly string[] = [];
    // A machine that does other things may need more than one try.
    for (let tries = 0; tries < MAX_TRIES && answerMs > MAX_ANSWER_MS; tries += 1) {
      await search(page, "espalier");
      const answer = await search(page, query);
      answerMs = Math.min(answerMs, answer.ms);
      ({ links } = answer);
    }
    longestMs = Math.max(longestMs, answerMs);
    const [first = "nothing"] = links;
    if (!expected.some((path) => first.startsWith(`${path}.html`)))
      problems.push(
        `Search for "${query}": expected ${expected.join(" or ")}, got ${links.slice(0, 5).join(" ")}`,
      );
    if (answerMs > MAX_ANSWER_MS)
      problems.push(`Search for "${query}": expected at most ${MAX_ANSWER_MS} ms, got ${answerMs}`);
  }
  await context.close();
  return longestMs;
}

const browser = await findChromium();
if (typeof browser === "string") console.log(`The pages were not looked at: ${browser}.`);
else {
  const count = await checkLayout(browser);
  await checkColors(browser);
  const longestMs = await checkSearch(browser);
  await browser.close();
  for (const problem of problems) console.error(problem);
  console.log(
    `${count} pages in Chromium, the search answers within ${Math.ceil(longestMs)} ms, ${problems.length} problems.`,
  );
  if (problems.length > 0) process.exitCode = 1;
}
