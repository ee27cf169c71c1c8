// Goal: an answer is a deliberate act: neither typed text nor a change of the page sends an answer.
// Method: Chromium, a real viewer over a store with a paused run, and an orchestrator that resumes
// the run.

import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect } from "vitest";

import type { RunSnapshot } from "../../src/read-model/viewer-data.ts";
import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";
import { RUN, SHOTS, askedRun, focusOf, moveTo, press, stopClock } from "./asked-run.ts";
import { buildPage, type BuiltPage } from "./built-page.ts";
import { findChromium, openTab } from "./chromium.ts";
import { askingRun } from "./fixture-runs.ts";
import { startFixture } from "./fixture-server.ts";
import { questionOf } from "./run-sketch.ts";

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

async function asked(things: readonly string[], path: string) {
  if (browser === undefined || built === undefined) throw new Error("no browser");
  return await askedRun({ browser, built }, things, path);
}

/** Counts answers that were sent or are being sent. */
async function countSent(page: Page): Promise<number> {
  return await page.locator(".said-back").count();
}

describe.skipIf(browser === undefined)("deliberate answers", () => {
  for (const path of ["/questions", `/r/${RUN}`])
    proves(
      ["D620"],
      `${path}: does not focus a staged answer when another question disappears`,
      async () => {
        const { page, deniedElsewhere, paid } = await asked(["pears", "plums", "figs"], path);
        await moveTo(page, "n", "plums");
        await press(page, "a");
        await page.locator(".stage:focus").waitFor();
        if (path === "/questions") await moveTo(page, "k", "pears");
        else {
          await moveTo(page, "n", "figs");
          await moveTo(page, "n", "pears");
        }
        await deniedElsewhere(0);
        await page.locator(".question.current:focus", { hasText: "plums" }).waitFor();
        expect(await focusOf(page)).toBe("article buyer asks: pay");
        await press(page, " ", "Enter", "Control+Enter");
        expect(await countSent(page)).toBe(0);
        expect(paid).toEqual([]);
        if (SHOTS !== undefined)
          await page.screenshot({ path: `${SHOTS}/staged${path.replace(/\W/g, "_")}.png` });
        // The key of the answer moves the focus to the stage, from which it can be sent.
        await expect
          .poll(async () => {
            await press(page, "a");
            return await page.locator(".stage:focus").count();
          })
          .toBe(1);
        await press(page, "Control+Enter");
        // A live page shows "Answered." only until the question disappears.
        await page.locator(".question", { hasText: "plums" }).waitFor({ state: "detached" });
      },
    );

  proves(["D620"], "sends no answer when text is typed outside of fields", async () => {
    const { page, paid } = await asked(["pears"], "/questions");
    for (const text of ["a ", "a\n", "a \n \n", "dear team\nno\n", "d\n\n", "mad\n"]) {
      await page.keyboard.type(text);
      expect([text, await countSent(page)]).toEqual([text, 0]);
      await press(page, "Escape");
      await page.locator(".stage").waitFor({ state: "detached" });
    }
    expect(paid).toEqual([]);
  });

  proves(["D620"], "sends no answer on a double click on a choice", async () => {
    const { page, paid } = await asked(["pears"], "/questions");
    const box = await page.getByRole("button", { name: "Approve…" }).boundingBox();
    if (box === null) throw new Error("no button");
    await page.mouse.dblclick(box.x + 20, box.y + box.height / 2);
    await page.locator(".stage").waitFor();
    expect([await countSent(page), paid]).toEqual([0, []]);
    await page.getByRole("button", { name: "Approve this call" }).click();
    await page.locator(".question").waitFor({ state: "detached" });
  });

  proves(
    ["D620"],
    "opens no answer on a key that coincides with a change of questions",
    async () => {
      const { page, deniedElsewhere } = await asked(["pears", "plums", "figs"], `/r/${RUN}`);
      await page.evaluate(() => {
        new MutationObserver(() => {
          if (document.querySelector(".question")?.textContent.includes("plums") === true)
            document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "a", bubbles: true }));
        }).observe(document.body, { subtree: true, childList: true });
      });
      const startClock = await stopClock(page);
      await deniedElsewhere(0);
      await page.locator(".question", { hasText: "plums" }).waitFor();
      expect(await page.locator(".stage").count()).toBe(0);
      await startClock();
      // The key acts again once there was time to see the other question.
      await expect
        .poll(async () => {
          await press(page, "a");
          return await page.locator(".stage:focus").count();
        })
        .toBe(1);
    },
  );

  proves(
    ["D620"],
    "does not move the focus from another question when an answer is refused",
    async () => {
      const { page } = await asked(["pears", "plums"], "/questions");
      let refuse = (): void => {};
      const refused = new Promise<void>((resolve) => (refuse = resolve));
      await page.route("**/actions", async (route) => {
        await refused;
        const body = JSON.stringify({ code: "invalid_answer", message: "thing: expected a text" });
        await route.fulfill({ status: 400, contentType: "application/json", body });
      });
      await press(page, "m");
      await page.locator("textarea:focus").waitFor();
      await press(page, "Control+Enter", "Control+Enter", "j");
      await page.locator(".question.current:focus", { hasText: "plums" }).waitFor();
      refuse();
      await page.locator("text=expected a text").waitFor();
      expect(await focusOf(page)).toBe("article buyer asks: pay");
      await page.locator(".question.current:focus", { hasText: "plums" }).waitFor();
    },
  );
});

describe.skipIf(browser === undefined)("keys after a field has disappeared", () => {
  proves(["D622"], "holds back only text keys and Enter", async () => {
    const { page, deniedElsewhere } = await asked(["pears", "plums", "figs"], "/questions");
    await stopClock(page);
    await press(page, "d");
    await page.keyboard.type("Too d");
    await deniedElsewhere(0);
    const gone = page.locator(".question", { hasText: "pears" });
    await expect
      .poll(async () => {
        await page.keyboard.type("y");
        return await gone.count();
      })
      .toBe(0);
    const heldBack = await page.evaluate(() =>
      ["y", " ", "Enter", "Tab", "ArrowLeft", "F5", "F12", "Control+r", "Shift"].filter((name) => {
        const [key = "", modifier] = name.split("+").toReversed();
        const ctrlKey = modifier === "Control";
        const init = { key, ctrlKey, bubbles: true, cancelable: true };
        return document.activeElement?.dispatchEvent(new KeyboardEvent("keydown", init)) === false;
      }),
    );
    expect(heldBack).toEqual(["y", " ", "Enter"]);
    await press(page, "ArrowDown");
    await page.locator(".question.current:focus", { hasText: "figs" }).waitFor();
    await page.keyboard.type("d");
    expect(await page.locator(".stage").count()).toBe(0);
    await press(page, "Escape");
    await page.locator(".run-group").first().waitFor();
  });

  proves(["D665"], "does not offer to edit redacted arguments", async () => {
    if (browser === undefined || built === undefined) throw new Error("no browser");
    const redact = (text: string): string => text.replaceAll("pears", "***");
    const content = { redact };
    const { page } = await askedRun({ browser, built }, ["pears"], "/questions", { content });
    await page.locator(".choices").waitFor();
    expect(await page.locator(".choices kbd").allInnerTexts()).toEqual(["a", "d"]);
    await press(page, "n", "m");
    expect(await page.locator(".stage").count()).toBe(0);
  });

  proves(
    ["D620"],
    "does not send a staged answer on keys meant for a question that is gone",
    async () => {
      const { page, deniedElsewhere, paid } = await asked(["pears", "plums", "figs"], `/r/${RUN}`);
      await moveTo(page, "n", "plums");
      await press(page, "a");
      await page.locator(".stage:focus").waitFor();
      await moveTo(page, "n", "figs");
      await moveTo(page, "n", "pears");
      await stopClock(page);
      await deniedElsewhere(0);
      await page.locator(".question.current", { hasText: "plums" }).waitFor();
      await press(page, "a", "Control+Enter");
      expect(await countSent(page)).toBe(0);
      expect(paid).toEqual([]);
    },
  );
});

const PEARS = askingRun();

/**
 * Opens the page of a run with one question, with a function that changes the arguments of its
 * call.
 */
async function changing(path: string) {
  if (browser === undefined || built === undefined) throw new Error("no browser");
  const { runId } = PEARS.run;
  const question = questionOf(runId, 1);
  const run: RunSnapshot = { ...PEARS, questions: [question] };
  const server = await startFixture({ folder: built.folder, runs: [run] });
  afterwards(() => server.close());
  const tab = await openTab(browser, server.urlOf(path));
  afterwards(() => tab.close());
  const { page } = tab;
  await page.locator(".question", { hasText: "400" }).waitFor();
  const changeArguments = (): void => {
    const changed = { ...question, arguments: { eur: 900 }, argumentsHash: "changed" };
    server.patch(runId, { run: run.run, agents: [], spans: [], questions: [changed] });
  };
  const changed = page.locator(".question.current:focus", { hasText: "900" });
  return { page, actions: server.actions, changeArguments, changed };
}

describe.skipIf(browser === undefined)("a question whose arguments change", () => {
  for (const path of ["/questions", `/r/${PEARS.run.runId}`]) {
    proves(
      ["D543"],
      `${path}: opens and sends no answer on keys that coincide with the change`,
      async () => {
        const { page, actions, changeArguments, changed } = await changing(path);
        await press(page, "a");
        await page.locator(".stage:focus").waitFor();
        await page.evaluate(() => {
          const keys = (): void => {
            for (const [key, ctrlKey] of [
              ["Enter", true],
              ["a", false],
              ["Enter", true],
            ] as const)
              (document.activeElement ?? document.body).dispatchEvent(
                new KeyboardEvent("keydown", { key, ctrlKey, bubbles: true }),
              );
          };
          new MutationObserver(() => {
            const question = document.querySelector(".question");
            if (question?.textContent.includes("900") !== true) return;
            keys();
          }).observe(document.body, { subtree: true, childList: true, characterData: true });
        });
        changeArguments();
        await changed.waitFor();
        expect([await page.locator(".stage").count(), actions]).toEqual([0, []]);
      },
    );

    proves(
      ["D543"],
      `${path}: discards the reason that was written for the old arguments`,
      async () => {
        const { page, actions, changeArguments, changed } = await changing(path);
        await press(page, "d");
        await page.locator(".stage input:focus").waitFor();
        await page.keyboard.type("Too dear");
        changeArguments();
        await changed.waitFor();
        expect(await page.locator(".stage").count()).toBe(0);
        const alert = page.locator("[role=alert]", {
          hasText: "The arguments of this call have changed.",
        });
        await alert.waitFor({ state: "attached" });
        // Keys right after a typed reason count as meant for its field, which is gone.
        const isOpen = async (): Promise<number> => {
          await press(page, "d");
          return await page.locator(".stage input:focus").count();
        };
        await expect.poll(isOpen, { interval: 1_500 }).toBe(1);
        expect(await page.locator(".stage input").inputValue()).toBe("");
        await page.keyboard.type("No more than 400.");
        await press(page, "Control+Enter");
        await expect.poll(() => actions.length).toBe(1);
        expect(actions[0]).toMatchObject({
          answers: [{ type: "denied", argumentsHash: "changed", reason: "No more than 400." }],
        });
      },
    );
  }
});
