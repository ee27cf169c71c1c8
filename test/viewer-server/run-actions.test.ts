// Goal: actions on runs over HTTP have the requested effect, once, and other clients see it.
// Method: real sockets over a viewer with runs in one store.

import { expect } from "vitest";

import type { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import { counts, doings, latch, runId, solo, turns } from "../support/engine/engine-world.ts";
import { proves } from "../harness/proves.ts";
import { aborted } from "../support/journal/crash-play.ts";
import { storedEvents } from "../support/journal/stored-events.ts";
import { approve, type Answer, type Question } from "../../src/protocol/question.ts";
import type { QuestionRow } from "../../src/read-model/viewer-data.ts";
import { act, askApi, placeOf, type Place, codeOf } from "../support/viewer-server/asking.ts";
import { asker, opened, viewerWorld } from "../support/viewer-server/viewer-world.ts";

const ID = runId("buy");

async function questionsAt(place: Place): Promise<readonly QuestionRow[]> {
  const { body } = await askApi(place, "questions");
  const isInbox = typeof body === "object" && body !== null && "questions" in body;
  if (isInbox && isRows(body.questions)) return body.questions;
  throw new Error("There is no inbox.");
}

function isRows(value: unknown): value is readonly QuestionRow[] {
  return Array.isArray(value);
}

/** Resolves with the end of a run that continues in this process, or has continued. */
async function ledOn(orchestrator: Orchestrator, id = ID): Promise<void> {
  await orchestrator.findActiveRun(id)?.result;
}

async function statusOf(place: Place, id = ID): Promise<unknown> {
  const { body } = await askApi(place, `runs/${id}`);
  return typeof body === "object" && body !== null && "run" in body ? body.run : body;
}

/** Starts a run that pauses with one question about each thing. */
async function paused(
  orchestrator: Orchestrator,
  role = asker(["pear", "plum", "fig"]),
): Promise<readonly Question[]> {
  const { questions } = await orchestrator.start(role, "Buy.", { runId: ID }).result;
  return questions;
}

proves(["V77", "V79"], "resumes a paused run once all three questions are answered", async () => {
  const { place, view, process, store, pushed } = await viewerWorld();
  const role = asker(["pear", "plum", "fig"]);
  const orchestrator = process({ roles: [role] });
  view.attach(orchestrator);
  const asked = await paused(orchestrator, role);
  const shown = await questionsAt(place);
  expect(shown).toEqual(
    asked.map((question) => ({
      ...question,
      runId: ID,
      runTitle: "asker: Buy.",
      role: "asker",
      task: "Buy.",
    })),
  );
  const [pear, plum, fig] = shown;
  if (pear === undefined || plum === undefined || fig === undefined)
    throw new Error("It asks thrice.");
  const first = await act(place, ID, { key: "1", type: "answer", answers: [approve(plum)] });
  expect(first).toMatchObject({
    status: 202,
    body: {
      hasOwner: false,
      openQuestions: [{ questionId: pear.questionId }, { questionId: fig.questionId }],
    },
  });
  expect((await questionsAt(place)).map(({ questionId }) => questionId)).toEqual([
    pear.questionId,
    fig.questionId,
  ]);
  expect(await statusOf(place)).toMatchObject({ status: "input_required" });
  const denied: Answer = {
    type: "denied",
    questionId: fig.questionId,
    argumentsHash: fig.argumentsHash,
    reason: "No figs.",
  };
  const rest = await act(place, ID, {
    key: "2",
    type: "answer",
    answers: [{ ...approve(pear), arguments: { thing: "apple" } }, denied],
  });
  expect(rest).toMatchObject({ status: 202, body: { hasOwner: true, openQuestions: [] } });
  await pushed(ledOn(orchestrator));
  const result = await orchestrator.getResult(ID);
  expect(result.text).toContain("paid apple paid plum");
  expect(result).toMatchObject({
    status: "completed",
  });
  expect(await questionsAt(place)).toEqual([]);
  expect(await statusOf(place)).toMatchObject({ status: "completed" });
  expect((await store.find(ID))?.status).toBe("ended");
});

proves(
  ["V77"],
  "stores the answers in the mailbox if no roles are attached, and the owner applies them",
  async () => {
    const { place, process } = await viewerWorld();
    const role = asker(["pear"]);
    const orchestrator = process({ roles: [role] });
    const [question] = await paused(orchestrator, role);
    if (question === undefined) throw new Error("It asks.");
    const said = await act(place, ID, { key: "1", type: "answer", answers: [approve(question)] });
    expect(said).toMatchObject({ status: 202, body: { hasOwner: false, openQuestions: [] } });
    expect(await statusOf(place)).toMatchObject({ status: "waiting" });
    expect(await questionsAt(place)).toEqual([]);
    expect(await (await process({ roles: [role] }).resume(ID)).result).toMatchObject({
      text: "paid pear",
    });
  },
);

proves(
  ["V77"],
  "refuses an answer to another call, of another kind, to no question, or after the timeout",
  async () => {
    const { place, process, clock, store } = await viewerWorld();
    const role = asker(["pear"]);
    const [question] = await paused(process({ roles: [role], answerTimeoutMs: 60_000 }), role);
    if (question === undefined) throw new Error("It asks.");
    const { questionId, argumentsHash } = question;
    const wrong: readonly object[] = [
      { type: "approved", questionId, argumentsHash: "0".repeat(64) },
      { type: "approved", questionId: "another", argumentsHash },
      { type: "result", questionId, argumentsHash, result: 1 },
    ];
    for (const [nth, answer] of wrong.entries())
      expect(
        codeOf(await act(place, ID, { key: `${nth}`, type: "answer", answers: [answer] })),
      ).toEqual([409, "invalid_answer"]);
    const twice = [approve(question), approve(question)];
    expect(codeOf(await act(place, ID, { key: "twice", type: "answer", answers: twice }))).toEqual([
      409,
      "invalid_answer",
    ]);
    expect(
      codeOf(
        await act(place, "nobody", { key: "1", type: "answer", answers: [approve(question)] }),
      ),
    ).toEqual([404, "unknown_run"]);
    clock.advance(60_000);
    expect(
      codeOf(await act(place, ID, { key: "late", type: "answer", answers: [approve(question)] })),
    ).toEqual([409, "invalid_answer"]);
    expect(await store.readMail(ID)).toEqual([]);
  },
);

proves(["V78"], "accepts the first of two concurrent answers", async () => {
  for (const isOne of [true, false]) {
    const { place, process, store, clock } = await viewerWorld();
    const other = isOne ? place : placeOf(await opened({ store, clock }));
    const role = asker(["pear"]);
    const [question] = await paused(process({ roles: [role] }), role);
    if (question === undefined) throw new Error("It asks.");
    const { questionId, argumentsHash } = question;
    const no = { type: "denied", questionId, argumentsHash, reason: "No." };
    const said = await Promise.all([
      act(place, ID, { key: "a", type: "answer", answers: [approve(question)] }),
      act(other, ID, { key: "b", type: "answer", answers: [no] }),
    ]);
    expect(new Set(said.map(({ status }) => status))).toEqual(new Set([202, 409]));
    const first = said[0]?.status === 202 ? "approved" : "denied";
    const refused = said.find(({ status }) => status === 409);
    expect(refused?.body).toMatchObject({ code: "invalid_answer" });
    expect(refused?.text).toContain(`first answer counts: ${first}`);
    expect(await store.readMail(ID)).toHaveLength(1);
    const result = await (await process({ roles: [role] }).resume(ID)).result;
    expect(result.text).toContain(first === "approved" ? "paid pear" : "No.");
    const again = await act(place, ID, {
      key: "c",
      type: "answer",
      answers: [approve(question)],
    });
    expect(codeOf(again)).toEqual([409, "invalid_answer"]);
  }
});

proves(["V78"], "executes a request once per key, even while it is running", async () => {
  const { place, process, store } = await viewerWorld();
  const role = asker(["pear"]);
  const [question] = await paused(process({ roles: [role] }), role);
  if (question === undefined) throw new Error("It asks.");
  const answer = { key: "same", type: "answer", answers: [approve(question)] };
  const said = await Promise.all([1, 2, 3].map(() => act(place, ID, answer)));
  said.push(await act(place, ID, answer));
  expect(new Set(said.map(({ text }) => text)).size).toBe(1);
  expect(said.map(({ status }) => status)).toEqual([202, 202, 202, 202]);
  expect(await store.readMail(ID)).toHaveLength(1);
  expect(codeOf(await act(place, ID, { key: "same", type: "cancel" }))).toEqual([409, "key_used"]);
  const cancel = { key: "cancel", type: "cancel", message: "Enough." };
  await act(place, ID, cancel);
  await act(place, ID, cancel);
  expect(await store.readMail(ID)).toHaveLength(2);
  // A refused request may be repeated under its key.
  const pause = { key: "pause", type: "pause" };
  for (const _ of [1, 2]) expect(codeOf(await act(place, ID, pause))).toEqual([409, "not_led"]);
});

proves(
  ["V80"],
  "waits for HTTP answers with the viewer's approver, and withdraws questions when the run ends",
  async () => {
    const { place, view, process, pushed, clock } = await viewerWorld();
    const role = asker(["pear", "plum"]);
    const orchestrator = process({ roles: [role], approver: view.approver });
    view.attach(orchestrator);
    const run = orchestrator.start(role, "Buy.", { runId: ID });
    const inbox = async () => {
      for (;;) {
        const questions = await questionsAt(place);
        if (questions.length > 0) return questions;
        clock.advance(100);
      }
    };
    const [pear, plum] = await inbox();
    if (pear === undefined) throw new Error("It asks.");
    expect(plum).toBeDefined();
    const status = await statusOf(place);
    expect(status).toMatchObject({ status: "input_required", owner: { isThisProcess: true } });
    const said = await act(place, ID, { key: "1", type: "answer", answers: [approve(pear)] });
    expect(said).toMatchObject({
      status: 202,
      body: { hasOwner: true, openQuestions: [{ questionId: plum?.questionId }] },
    });
    const cancelled = await act(place, ID, { key: "2", type: "cancel", message: "Enough." });
    expect(cancelled).toMatchObject({ status: 202, body: { hasOwner: true } });
    const result = await pushed(run.result);
    expect(result).toMatchObject({ status: "cancelled", reason: { message: "Enough." } });
    expect(await questionsAt(place)).toEqual([]);
    const answered = (await storedEvents(view.store, ID)).filter(
      ({ type }) => type === "question.answered",
    );
    expect(answered).toMatchObject([
      { answer: "approved", source: "approver" },
      { answer: "denied", source: "end" },
    ]);
    expect(
      codeOf(
        await act(place, ID, { key: "3", type: "answer", answers: plum ? [approve(plum)] : [] }),
      ),
    ).toEqual([409, "invalid_answer"]);
  },
);

proves(
  ["V79"],
  "sends cancel and pause of a run owned by another process through its mailbox, once",
  async () => {
    const { place, process, pushed, store, clock } = await viewerWorld();
    const done = doings();
    const gate = latch();
    const role = solo(done, {
      hold: (nth, signal) => (nth === 0 ? Promise.race([gate.opened, aborted(signal)]) : undefined),
    });
    const run = process({ roles: [role] }).start(role, "Go.", { runId: ID });
    while (done.calls.size === 0) await turns(5);
    for (const _ of [1, 2])
      expect(await act(place, ID, { key: "1", type: "pause" })).toMatchObject({
        status: 202,
        body: { hasOwner: true },
      });
    expect(await store.readMail(ID)).toMatchObject([{ key: "pause:1" }]);
    expect(codeOf(await act(place, ID, { key: "2", type: "resume" }))).toEqual([409, "run_active"]);
    clock.advance(5_000); // The owner polls its mailbox.
    await turns(20);
    gate.open();
    expect(await pushed(run.result)).toMatchObject({
      status: "paused",
      reason: { code: "pause_requested" },
    });
    expect(await statusOf(place)).toMatchObject({ status: "paused" });
    expect(codeOf(await act(place, ID, { key: "3", type: "resume" }))).toEqual([409, "no_roles"]);
    expect(await act(place, ID, { key: "4", type: "cancel" })).toMatchObject({
      status: 202,
      body: { hasOwner: false },
    });
    const ended = await (await process({ roles: [role] }).resume(ID)).result;
    expect(ended).toMatchObject({
      status: "cancelled",
      reason: { message: "viewer cancelled the run." },
    });
    for (const type of ["cancel", "resume"]) {
      const { status } = await act(place, ID, { key: `late-${type}`, type });
      expect(status, type).toBe(409);
    }
  },
);

proves(
  ["D757"],
  "names the person of the viewer in an answer from the page, unless the request names another",
  async () => {
    const { place, view, process, pushed } = await viewerWorld({ by: "eva" });
    const role = asker(["pear", "plum"]);
    const orchestrator = process({ roles: [role] });
    view.attach(orchestrator);
    const [pear, plum] = await paused(orchestrator, role);
    if (pear === undefined || plum === undefined) throw new Error("It asks twice.");
    const answers = [approve(pear), approve(plum, { by: "ada" })];
    expect(await act(place, ID, { key: "1", type: "answer", answers })).toMatchObject({
      status: 202,
    });
    await pushed(ledOn(orchestrator));
    const events = await storedEvents(view.store, ID);
    expect(events.flatMap((event) => (event.type === "question.answered" ? event.by : []))).toEqual(
      ["eva", "ada"],
    );
  },
);

proves(
  ["V79"],
  "pauses, resumes and cancels an owned and an inactive run with attached roles",
  async () => {
    const { place, view, process, pushed } = await viewerWorld({ by: "eva" });
    const done = doings();
    const gate = latch();
    const role = solo(done, { hold: (nth) => (nth === 0 ? gate.opened : undefined) });
    const orchestrator = process({ roles: [role] });
    const alien = asker(["pear"], "stranger");
    const stranger = process({ roles: [alien] });
    view.attach(stranger);
    view.attach(orchestrator);
    expect((await askApi(place, "meta")).body).toMatchObject({
      actions: ["answer", "cancel", "pause", "resume"],
    });
    const run = orchestrator.start(role, "Go.", { runId: ID });
    while (done.calls.size === 0) await turns(5);
    expect(await act(place, ID, { key: "1", type: "pause" })).toMatchObject({
      status: 202,
      body: { hasOwner: true },
    });
    gate.open();
    expect(await pushed(run.result)).toMatchObject({ status: "paused" });
    expect(await act(place, ID, { key: "2", type: "resume" })).toMatchObject({
      status: 202,
      body: { hasOwner: true },
    });
    await pushed(
      orchestrator.findActiveRun(ID)?.result ?? Promise.reject(new Error("It goes on.")),
    );
    expect([(await orchestrator.getResult(ID)).status, counts(done)]).toEqual([
      "completed",
      [1, 1],
    ]);
    expect(codeOf(await act(place, ID, { key: "3", type: "resume" }))).toEqual([409, "run_ended"]);
    const other = runId("other");
    await stranger.start(alien, "Buy.", { runId: other }).result;
    expect(await act(place, other, { key: "4", type: "cancel" })).toMatchObject({
      status: 202,
      body: { hasOwner: true },
    });
    await pushed(ledOn(stranger, other));
    expect(await stranger.getResult(other)).toMatchObject({
      status: "cancelled",
      reason: { message: "eva cancelled the run." },
    });
  },
);

proves(["V79", "V84"], "refuses actions that are switched off", async () => {
  const { place, process, store } = await viewerWorld({ actions: ["answer"] });
  const role = asker(["pear"]);
  const [question] = await paused(process({ roles: [role] }), role);
  if (question === undefined) throw new Error("It asks.");
  expect((await askApi(place, "meta")).body).toMatchObject({ actions: ["answer"] });
  for (const type of ["cancel", "pause", "resume"])
    expect(codeOf(await act(place, ID, { key: "1", type }))).toEqual([403, "action_off"]);
  expect(await store.readMail(ID)).toEqual([]);
});

proves(["D665"], "refuses edited arguments while arguments are redacted", async () => {
  const { view: whole, process, store, clock } = await viewerWorld();
  const role = asker(["pear"]);
  const orchestrator = process({ roles: [role] });
  whole.attach(orchestrator);
  const [pear] = await paused(orchestrator, role);
  if (pear === undefined) throw new Error("It asks.");
  const redact = (text: string): string => text.replaceAll("pear", "***");
  const place = placeOf(await opened({ store, clock, content: { redact } }));
  const [shown] = await questionsAt(place);
  expect(shown?.arguments).toEqual({ thing: "***" });
  const edited = { ...approve(pear), arguments: { thing: "***" } };
  const refused = await act(place, ID, { key: "1", type: "answer", answers: [edited] });
  expect(codeOf(refused)).toEqual([409, "content_redacted"]);
  const taken = await act(place, ID, { key: "2", type: "answer", answers: [approve(pear)] });
  expect(taken.status).toBe(202);
});
