// `npm run pictures`: the pictures of the viewer in README.md and docs/, light and dark. A real viewer shows real runs: the demo by the
// offline planner, the same under a budget that is too small, and a run that asks. Chromium looks at it; where there is none it says so, and
// leaves the pictures as they are.

import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout } from "node:timers/promises";

import type { Browser, Page } from "playwright-core";
import { z } from "zod";

import { defineAgent, defineTool, Orchestrator, type AgentRole, type Budget } from "espalier";
import type { GenerateOptions, ModelReply, ModelRequest } from "espalier/extend";
import { asks, says, ScriptedModel, sequentialIds, type ScriptStep } from "espalier/testing";
import { startViewer, type Viewer } from "espalier/viewer";

import { createSurveyTools } from "../src/cli/folder-tools.ts";
import { createOfflinePlanner } from "../src/cli/survey/offline-planner.ts";
import { createSurveyLead } from "../src/cli/survey/survey-roles.ts";
import { findChromium, openTab } from "../test/page/chromium.ts";

const FOLDER = resolve("docs/pictures");
/** About the width of a document, so that text in a picture stays readable. */
const SIZE = { width: 900, height: 540 };
const SCHEMES = ["light", "dark"] as const;
/** A picture is read with its document: above this it is too slow, and the repository grows with each one. */
const MAX_BYTES = 150_000;
/** So long a model takes that has its replies from a script. */
const REPLY_MS = 400;

interface Scene {
  readonly name: string;
  readonly root: AgentRole;
  readonly task: string;
  readonly budget: Budget;
  /** How the run rests. */
  readonly status: string;
  /** What is open of it, as the address of the page says. */
  readonly open?: string;
  /** Once this is there, the page is. */
  readonly there: string;
}

/** A model with its replies from a script, each of which takes a while: a run without any time has no timeline. */
class SlowModel extends ScriptedModel {
  override async generate(request: ModelRequest, options: GenerateOptions): Promise<ModelReply> {
    await setTimeout(REPLY_MS, undefined, { signal: options.signal });
    return await super.generate(request, options);
  }
}

/** A lead whose buyer may pay nothing without being asked. */
function shop(): AgentRole {
  const price = { inputUsdPerMillion: 0.25, outputUsdPerMillion: 2 };
  const usage = { inputTokens: 1_850, outputTokens: 240 };
  const model = (...script: readonly ScriptStep[]): SlowModel => new SlowModel(script, { price });
  const look = defineTool({
    name: "stock",
    description: "Says what there is of a fruit.",
    inputSchema: z.object({ fruit: z.string() }),
    execute: async ({ fruit }) => {
      await setTimeout(REPLY_MS / 2);
      return `${fruit}: 4 crates`;
    },
  });
  const pay = defineTool({
    name: "pay",
    description: "Pays a supplier.",
    inputSchema: z.object({ to: z.string(), eur: z.number(), for: z.string() }),
    needsApproval: true,
    execute: ({ eur }) => `Paid ${eur} EUR.`,
  });
  const order = { to: "Orchard Lindner", eur: 412.5, for: "30 crates of pears, for Friday at 6" };
  const clerk = defineAgent({
    name: "clerk",
    description: "Counts what is there.",
    instructions: "Count.",
    model: model(
      asks("stock", { fruit: "pears" }, { usage }),
      says("Pears: 4 crates. That is not enough for Saturday.", { usage }),
    ),
    tools: [look],
  });
  const buyer = defineAgent({
    name: "buyer",
    description: "Orders and pays.",
    instructions: "Order.",
    model: model(
      asks("stock", { fruit: "pears" }, { usage }),
      asks("pay", order, { usage }),
      says("The pears come on Friday.", { usage }),
    ),
    tools: [look, pay],
  });
  return defineAgent({
    name: "grocer",
    instructions: "Lead.",
    model: model(
      asks("SpawnSubagent", { role: "clerk", task: "Count the pears." }, { usage }),
      asks("SpawnSubagent", { role: "buyer", task: "Order pears for Saturday." }, { usage }),
      says("The shelves are full on Saturday.", { usage }),
    ),
    subagents: [clerk, buyer],
  });
}

async function paint(browser: Browser, view: Viewer, scene: Scene): Promise<void> {
  const { name, root, task, budget, status, open = "", there } = scene;
  const orchestrator = new Orchestrator({
    store: view.store,
    ids: sequentialIds(),
    ...(status === "paused" ? {} : { unansweredPolicy: "deny" }),
  });
  const result = await orchestrator.start(root, task, { budget, runId: name }).result;
  if (result.status !== status)
    throw new Error(`Expected ${name} to be ${status}, got ${result.status}: ${result.text}`);
  for (const colorScheme of SCHEMES) {
    const url = new URL(view.url);
    url.pathname = `/r/${name}`;
    url.search = open;
    const tab = await openTab(browser, url.href, {
      viewport: SIZE,
      colorScheme,
      reducedMotion: "reduce",
    });
    await tab.page.locator(there).first().waitFor();
    await settled(tab.page);
    const bytes = await tab.page.screenshot({ animations: "disabled" });
    await tab.close();
    const file = join(FOLDER, `${name}-${colorScheme}.png`);
    if (tab.complaints.length > 0) throw new Error(`${file}: ${tab.complaints.join("\n")}`);
    if (bytes.length > MAX_BYTES)
      throw new Error(`Expected ${file} to have at most ${MAX_BYTES} bytes, got ${bytes.length}.`);
    writeFileSync(file, bytes);
    console.log(`${file}: ${Math.ceil(bytes.length / 1_000)} kB`);
  }
}

/** What is drawn after the first rows is drawn: the minimap waits for an idle moment. */
async function settled(page: Page): Promise<void> {
  await page.evaluate(
    "new Promise((resolve) => requestIdleCallback(() => requestAnimationFrame(() => requestIdleCallback(resolve))))",
  );
}

const survey = createSurveyLead(
  createOfflinePlanner({ delayMs: REPLY_MS }),
  createSurveyTools(resolve("src")),
);
const SCENES: readonly Scene[] = [
  {
    name: "demo",
    root: survey,
    task: "What is each part for, and how do the parts fit together?",
    budget: { totalTokens: 1_000_000, steps: 120, timeMs: 600_000 },
    status: "completed",
    there: ".row",
  },
  {
    name: "budget",
    root: survey,
    task: "What is each part for, and how do the parts fit together?",
    budget: { totalTokens: 1_000_000, steps: 24, timeMs: 600_000 },
    status: "stopped",
    there: ".row",
  },
  {
    name: "question",
    root: shop(),
    task: "Fill the shelves for Saturday.",
    budget: { costUsd: 1, steps: 50, timeMs: 600_000 },
    status: "paused",
    there: ".question",
  },
];

const found = await findChromium();
if (typeof found === "string") {
  console.error(`No picture was taken: ${found}.`);
  process.exitCode = 1;
} else {
  mkdirSync(FOLDER, { recursive: true });
  const view = await startViewer({ port: 0, storeName: "runs.db" });
  for (const scene of SCENES) await paint(found, view, scene);
  await view.close();
  await found.close();
}
