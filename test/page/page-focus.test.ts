// Goal: after a key or an answer the focus is where a screen reader announces it, and typed text
// never denies a call.
// Method: Chromium, a real viewer over a store with a paused run, and an orchestrator that resumes
// it.

import { afterAll, beforeAll, describe, expect } from "vitest";

import { proves } from "../harness/proves.ts";
import { RUN, SHOTS, askedRun, focusOf, press } from "./asked-run.ts";
import { buildPage, type BuiltPage } from "./built-page.ts";
import { findChromium } from "./chromium.ts";

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

async function asked(things: readonly string[], path: string, width?: number) {
  if (browser === undefined || built === undefined) throw new Error("no browser");
  return await askedRun({ browser, built }, things, path, width === undefined ? {} : { width });
}

describe.skipIf(browser === undefined)("focus", () => {
  proves(["D577"], "moves the focus to the question that n shows on a run", async () => {
    const { page } = await asked(["pears", "plums"], `/r/${RUN}`);
    await press(page, "n");
    await page.locator(".question:focus", { hasText: "plums" }).waitFor();
    expect(await focusOf(page)).toBe("article buyer asks: pay");
    await press(page, "n");
    await page.locator(".question:focus", { hasText: "pears" }).waitFor();
    // A single question is focused as well.
    await page.evaluate(() => document.querySelector<HTMLElement>(".home")?.focus());
    await press(page, "n", "n");
    await page.locator(".question:focus", { hasText: "pears" }).waitFor();
    if (SHOTS !== undefined) await page.screenshot({ path: `${SHOTS}/focus-next.png` });
  });

  for (const [path, heading] of [
    ["/questions", "No open questions"],
    [`/r/${RUN}`, "buyer: Buy."],
  ] as const)
    proves(["D577"], `moves the focus to the next question, then to "${heading}"`, async () => {
      const { page, text, paid } = await asked(["pears", "plums"], path);
      await press(page, "a");
      await page.locator("text=Approve this call").waitFor();
      await press(page, "Control+Enter");
      // Answers of one run are collected: the second answer resumes the run.
      await page.locator(".question:focus", { hasText: "plums" }).waitFor();
      expect(await focusOf(page)).toBe("article buyer asks: pay");
      if (SHOTS !== undefined)
        await page.screenshot({ path: `${SHOTS}/focus-answered-${heading.slice(0, 5)}.png` });
      await press(page, "d");
      await page.keyboard.type("No plums.");
      await press(page, "Control+Enter");
      expect(await text()).toContain("No plums.");
      expect(paid).toEqual(["pears"]);
      await page.locator("h1:focus").waitFor();
      expect(await focusOf(page)).toBe(`h1 ${heading}`);
      if (SHOTS !== undefined)
        await page.screenshot({ path: `${SHOTS}/focus-none-${heading.slice(0, 5)}.png` });
    });

  proves(["D577"], "does not focus a button of the run when a question disappears", async () => {
    const { page } = await asked(["pears", "plums"], `/r/${RUN}`);
    await page.evaluate(() => {
      document.addEventListener("focusin", ({ target }) => {
        if (!(target instanceof Element) || target.closest(".run-actions") === null) return;
        document.body.dataset["stolen"] = target.textContent;
      });
    });
    await press(page, "a");
    await page.locator("text=Approve this call").waitFor();
    await press(page, "Control+Enter");
    await page.locator(".question:focus", { hasText: "plums" }).waitFor();
    expect(await page.evaluate(() => document.body.dataset["stolen"])).toBe(undefined);
  });

  proves(["D577"], "keeps the focus in the question when a stage is closed", async () => {
    const { page } = await asked(["pears"], "/questions");
    for (const key of ["a", "d", "m"]) {
      await press(page, key);
      await page.locator(".stage").waitFor();
      await press(page, "Escape");
      await page.locator(".question:focus").waitFor();
    }
  });

  for (const [path, field] of [
    ["/", "runs-search"],
    [`/r/${RUN}`, "agent-filter"],
    [`/r/${RUN}?agent=AGENT`, "agent-filter"],
  ] as const)
    proves(["D578"], `focuses a visible field on / at ${path} in 640 pixels`, async () => {
      const { page } = await asked(["pears"], path.replace("?agent=AGENT", ""), 640);
      if (path.includes("AGENT")) {
        await page.locator(".row").first().click();
        await page.locator(".agent-panel").waitFor();
        expect(await page.locator(`#${field}`).isVisible()).toBe(false);
      }
      await press(page, "/");
      await page.locator(`#${field}:focus`).waitFor();
      await page.keyboard.type("dny");
      const isOnTop = await page.evaluate(() => {
        const { activeElement } = document;
        const {
          x = 0,
          y = 0,
          width = 0,
          height = 0,
        } = activeElement?.getBoundingClientRect() ?? {};
        return document.elementFromPoint(x + width / 2, y + height / 2) === activeElement;
      });
      expect([isOnTop, await page.locator(`#${field}`).inputValue()]).toEqual([true, "dny"]);
      if (SHOTS !== undefined)
        await page.screenshot({ path: `${SHOTS}/slash-${path.replace(/\W/g, "_")}.png` });
    });
});

describe.skipIf(browser === undefined)("typing", () => {
  for (const path of ["/questions", `/r/${RUN}`])
    proves(
      ["D579"],
      `${path}: does not open another denial when the field of typed text disappears`,
      async () => {
        const { page, deniedElsewhere, paid } = await asked(["pears", "plums", "figs"], path);
        await press(page, "d");
        await page.keyboard.type("Too d");
        await deniedElsewhere(0);
        // The user continues to type while the question disappears.
        const gone = page.locator(".question", { hasText: "pears" });
        await expect
          .poll(async () => {
            await page.keyboard.type("dny");
            return await gone.count();
          })
          .toBe(0);
        await page.keyboard.type("deny it\nd and y\n");
        await press(page, "Enter", " ");
        expect(await page.locator(".stage").count()).toBe(0);
        expect(await page.locator("text=Answered.").count()).toBe(0);
        expect(paid).toEqual([]);
        if (SHOTS !== undefined)
          await page.screenshot({ path: `${SHOTS}/typed-on${path.replace(/\W/g, "_")}.png` });
        // After a pause the keys act again, on the question that is shown.
        await expect
          .poll(
            async () => {
              await press(page, "d");
              return await page.locator(".stage").count();
            },
            { interval: 1_500 },
          )
          .toBe(1);
      },
    );

  proves(
    ["D579"],
    "keeps the stage of a question when another one is answered elsewhere",
    async () => {
      const { page, deniedElsewhere } = await asked(["pears", "plums", "figs"], `/r/${RUN}`);
      await press(page, "n", "d");
      await page.keyboard.type("No ");
      await deniedElsewhere(0);
      await page.locator(".pager", { hasText: "2 questions" }).waitFor();
      await page.keyboard.type("plums.");
      await page.locator(".question", { hasText: "plums" }).waitFor();
      expect(await page.locator(".stage input").inputValue()).toBe("No plums.");
    },
  );

  proves(["D579"], "sends no answer while Enter is held down", async () => {
    const { page, paid } = await asked(["pears"], "/questions");
    for (const name of ["Approve…", "Deny…"]) {
      await page.getByRole("button", { name }).focus();
      for (let repeat = 0; repeat < 10; repeat += 1) await page.keyboard.down("Enter");
      await page.keyboard.up("Enter");
      await page.locator(".stage").waitFor();
      expect(paid).toEqual([]);
      await press(page, "Escape");
      await page.locator(".stage").waitFor({ state: "detached" });
    }
    expect(await page.locator("text=Answered.").count()).toBe(0);
  });

  proves(["D579"], "runs no shortcut on keys in fields, lists and compositions", async () => {
    const { page } = await asked(["pears"], `/r/${RUN}`);
    const isCalm = async (): Promise<boolean> =>
      new URL(page.url()).pathname === `/r/${RUN}` && (await page.locator(".stage").count()) === 0;
    await page.locator("#agent-filter").focus();
    await page.keyboard.type("dnymai?t");
    expect(await isCalm()).toBe(true);
    await page.locator("#agent-standing").focus();
    await page.keyboard.type("dny");
    expect(await isCalm()).toBe(true);
    // Fields that browser extensions add to the page.
    await page.evaluate(() => {
      const box = document.createElement("div");
      box.id = "box";
      box.contentEditable = "true";
      const host = document.createElement("div");
      host.id = "host";
      const inner = document.createElement("input");
      host.attachShadow({ mode: "open" }).append(inner);
      document.body.append(box, host);
      box.focus();
    });
    await page.keyboard.type("dny");
    expect(await isCalm()).toBe(true);
    await page.evaluate(() =>
      document.querySelector("#host")?.shadowRoot?.querySelector("input")?.focus(),
    );
    await page.keyboard.type("dny");
    expect(await isCalm()).toBe(true);
    await page.evaluate(() => document.querySelector<HTMLElement>(".question")?.focus());
    for (const modifier of ["Control", "Alt", "Meta"]) {
      await page.evaluate(
        (name) =>
          document.activeElement?.dispatchEvent(
            new KeyboardEvent("keydown", {
              key: "d",
              bubbles: true,
              ctrlKey: name === "Control",
              altKey: name === "Alt",
              metaKey: name === "Meta",
            }),
          ),
        modifier,
      );
    }
    await page.evaluate(() =>
      document.activeElement?.dispatchEvent(
        new KeyboardEvent("keydown", { key: "d", bubbles: true, isComposing: true }),
      ),
    );
    expect(await isCalm()).toBe(true);
    // The Escape that ends a composition does not discard the written reason.
    await press(page, "d");
    await page.keyboard.type("Too dear");
    await page.evaluate(() =>
      document.activeElement?.dispatchEvent(
        new KeyboardEvent("keydown", { key: "Escape", bubbles: true, isComposing: true }),
      ),
    );
    expect(await page.locator(".stage input").inputValue()).toBe("Too dear");
  });
});
