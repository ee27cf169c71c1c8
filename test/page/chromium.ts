// Finds Chromium for the page tests: the browser of this machine or the path in
// ESPALIER_TEST_CHROMIUM. Without a browser, tests are skipped with the reason; if `REAL_PARTS`
// names it, they fail instead. The browser requests only what the page under test requests.

import { existsSync } from "node:fs";

import { chromium, type Browser, type BrowserContextOptions, type Page } from "playwright-core";

const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const QUIET = [
  "--no-sandbox",
  "--headless",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** The browser, or why it is missing. */
export async function findChromium(): Promise<Browser | string> {
  const executablePath =
    process.env["ESPALIER_TEST_CHROMIUM"] ?? PLACES.find((place) => existsSync(place));
  if (executablePath !== undefined) return await chromium.launch({ executablePath, args: QUIET });
  const reason = "Chromium is not installed, and ESPALIER_TEST_CHROMIUM is not set";
  if (process.env["REAL_PARTS"]?.split(" ").includes("chromium") === true)
    throw new Error(`REAL_PARTS says that Chromium is here, but ${reason}.`);
  return reason;
}

/** A page in a window of its own, with its complaints. */
export interface Tab {
  readonly page: Page;
  /** Script errors, policy violations and warnings; refusals by the server are not included. */
  readonly complaints: readonly string[];
  /** Requested addresses of other servers. */
  readonly foreign: readonly string[];
  close(): Promise<void>;
}

export async function openTab(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<Tab> {
  const context = await browser.newContext({ viewport: { width: 1_440, height: 900 }, ...options });
  const page = await context.newPage();
  const complaints: string[] = [];
  const foreign: string[] = [];
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("console", (message) => {
    const isRefusal = message.text().startsWith("Failed to load resource: ");
    if ((message.type() === "error" || message.type() === "warning") && !isRefusal)
      complaints.push(message.text());
  });
  page.on("request", (request) => {
    if (new URL(request.url()).origin !== new URL(url).origin) foreign.push(request.url());
  });
  await page.goto(url);
  return { page, complaints, foreign, close: () => context.close() };
}
