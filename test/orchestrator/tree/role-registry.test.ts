// Goal: a run starts only if its roles fit together: names, references, descriptions, prices and
// keys.
// Method: small families of roles, valid and invalid.

import { expect, test } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent, type AgentDefinition } from "../../../src/agent/define-agent.ts";
import { EspalierError } from "../../../src/kernel/error.ts";
import type { Model } from "../../../src/model/model.ts";
import { PRICES_AS_OF, createPriceLookup } from "../../../src/model/prices.ts";
import { RoleRegistry } from "../../../src/orchestrator/tree/role-registry.ts";
import { ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { thrownBy } from "../../support/thrown.ts";

const PRICE = { inputUsdPerMillion: 1, outputUsdPerMillion: 2 };

function role(name: string, more: Partial<AgentDefinition> = {}): AgentRole {
  return defineAgent({
    name,
    description: `Is ${name}.`,
    instructions: "Work.",
    model: new ScriptedModel([]),
    ...more,
  });
}

function priced(name: string, more: Partial<AgentDefinition> = {}): AgentRole {
  return role(name, { model: new ScriptedModel([], { price: PRICE }), ...more });
}

const names = (roles: Iterable<AgentRole>): readonly string[] => [...roles].map(({ name }) => name);

proves(["R126"], "finds subagents by value and by name, in the order of the definition", () => {
  const [reader, writer] = [role("reader"), role("writer")];
  const lead = role("lead", { subagents: ["writer", reader] });
  expect(
    new RoleRegistry(lead, {
      roles: [writer],
      hooks: [],
      priceOf: createPriceLookup(undefined),
    }).getSubagents(lead),
  ).toEqual([writer, reader]);
});

test("finds a name of a role that another role lists by value", () => {
  const deep = role("deep");
  const reader = role("reader", { subagents: [deep] });
  const lead = role("lead", { subagents: [reader, "deep"] });
  expect(
    names(
      new RoleRegistry(lead, {
        roles: [],
        hooks: [],
        priceOf: createPriceLookup(undefined),
      }).getSubagents(lead),
    ),
  ).toEqual(["reader", "deep"]);
});

proves(["R126"], "refuses an unknown role name, and lists the known ones", () => {
  const lead = role("lead", { subagents: [role("reader"), "writer"] });
  expect(
    thrownBy(
      () => new RoleRegistry(lead, { roles: [], hooks: [], priceOf: createPriceLookup(undefined) }),
    ),
  ).toEqual({
    code: "unknown_subagent",
    message:
      'Expected lead.subagents[1] to be the name of a role of this run (lead, reader), got "writer". Correct the name, or list the role itself instead of its name.',
    data: { field: "lead.subagents[1]", got: "writer" },
  });
});

test("finds an unknown name at any depth, and in roles that are only listed", () => {
  const reader = role("reader", { subagents: ["nobody"] });
  const [below, beside] = [role("lead", { subagents: [reader] }), role("lead")];
  const asValue = thrownBy(
    () => new RoleRegistry(below, { roles: [], hooks: [], priceOf: createPriceLookup(undefined) }),
  );
  const asOther = thrownBy(
    () =>
      new RoleRegistry(beside, {
        roles: [reader],
        hooks: [],
        priceOf: createPriceLookup(undefined),
      }),
  );
  const field = "reader.subagents[0]";
  expect([asValue.data["field"], asOther.data["field"]]).toEqual([field, field]);
});

test("refuses two different roles of one name, and accepts one role in two places", () => {
  const reader = role("reader");
  const twice = role("lead", { subagents: [reader, role("editor", { subagents: [reader] })] });
  expect(
    names(
      new RoleRegistry(twice, {
        roles: [reader],
        hooks: [],
        priceOf: createPriceLookup(undefined),
      }).findReachable(twice),
    ),
  ).toEqual(["lead", "reader", "editor"]);
  const clash = role("lead", {
    subagents: [reader, role("editor", { subagents: [role("reader")] })],
  });
  expect(
    thrownBy(
      () =>
        new RoleRegistry(clash, { roles: [], hooks: [], priceOf: createPriceLookup(undefined) }),
    ),
  ).toEqual({
    code: "duplicate_role",
    message:
      'Expected role names to be unique, got two different roles named "reader". Rename one, or use the same value for both.',
    data: { role: "reader" },
  });
  expect(
    thrownBy(
      () =>
        new RoleRegistry(reader, {
          roles: [role("reader")],
          hooks: [],
          priceOf: createPriceLookup(undefined),
        }),
    ).code,
  ).toBe("duplicate_role");
});

proves(["D760"], "refuses roles of one name when the orchestrator is created", () => {
  const reader = role("reader");
  const other = role("editor", { subagents: [role("reader")] });
  expect(thrownBy(() => new Orchestrator({ roles: [reader, other] }))).toEqual({
    code: "duplicate_role",
    message:
      'Expected role names to be unique, got two different roles named "reader". Rename one, or use the same value for both.',
    data: { role: "reader" },
  });
  const lead = role("lead", { subagents: [reader, "lead"] });
  expect(() => new Orchestrator({ roles: [lead, reader, lead] })).not.toThrow();
});

test("refuses a subagent that is listed twice, by value and by name", () => {
  const lead = role("lead", { subagents: [role("reader"), "reader"] });
  const { code, data } = thrownBy(
    () => new RoleRegistry(lead, { roles: [], hooks: [], priceOf: createPriceLookup(undefined) }),
  );
  expect([code, data["field"], data["got"]]).toEqual([
    "invalid_argument",
    "lead.subagents[1]",
    '"reader"',
  ]);
});

test("lets a role spawn itself, and two roles each other, by name", () => {
  const self = role("lead", { subagents: ["lead"] });
  const own = new RoleRegistry(self, {
    roles: [],
    hooks: [],
    priceOf: createPriceLookup(undefined),
  });
  expect([own.getSubagents(self), names(own.findReachable(self))]).toEqual([[self], ["lead"]]);
  const [ping, pong] = [
    role("ping", { subagents: ["pong"] }),
    role("pong", { subagents: ["ping"] }),
  ];
  const both = new RoleRegistry(ping, {
    roles: [pong],
    hooks: [],
    priceOf: createPriceLookup(undefined),
  });
  expect([names(both.findReachable(ping)), names(both.findReachable(pong))]).toEqual([
    ["ping", "pong"],
    ["pong", "ping"],
  ]);
});

test("requires a description of a subagent, but not of the root", () => {
  const silent = defineAgent({
    name: "silent",
    instructions: "Work.",
    model: new ScriptedModel([]),
  });
  expect(
    () => new RoleRegistry(silent, { roles: [], hooks: [], priceOf: createPriceLookup(undefined) }),
  ).not.toThrow();
  const expected = "set, since it is a subagent";
  const refusal = {
    code: "invalid_argument",
    message: `Expected silent.description to be ${expected}, got undefined. Describe silent in one line: lead chooses its subagents by their descriptions.`,
    data: { field: "silent.description", expected, got: "undefined" },
  };
  const listed: readonly AgentRole[] = [silent];
  expect(thrownBy(() => role("lead", { subagents: listed }))).toEqual(refusal);
  const lead = role("lead", { subagents: ["silent"] });
  const parts = { roles: listed, hooks: [], priceOf: createPriceLookup(undefined) };
  expect(thrownBy(() => new RoleRegistry(lead, parts))).toEqual(refusal);
});

test("reaches a role without subagents from itself", () => {
  const lead = role("lead");
  expect([
    ...new RoleRegistry(lead, {
      roles: [role("other")],
      hooks: [],
      priceOf: createPriceLookup(undefined),
    }).findReachable(lead),
  ]).toEqual([lead]);
});

proves(["R57"], "requires a price for every reachable role under a cost limit of the run", () => {
  const deep = role("deep");
  const lead = priced("lead", { subagents: [priced("reader", { subagents: [deep] })] });
  const registry = new RoleRegistry(lead, {
    roles: [role("idle")],
    hooks: [],
    priceOf: createPriceLookup(undefined),
  });
  expect(() => registry.assertReady(lead, {})).not.toThrow();
  expect(thrownBy(() => registry.assertReady(lead, { costUsd: 1 }))).toEqual({
    code: "price_unknown",
    message: `Expected a price for model scripted of role deep, which budget.costUsd limits, got none. The built-in table of ${PRICES_AS_OF} has prices only for models of OpenAI itself, and lacks this one. Give the model a price, for example openai(id, { price }), give the orchestrator prices, for example from espalier/prices, or leave the cost limit out.`,
    data: { field: "budget.costUsd", role: "deep", model: "scripted" },
  });
});

proves(["R57"], "requires prices below a role with a cost limit, and none beside it", () => {
  const limit = { budget: { costUsd: 1 } };
  const above = role("lead", { subagents: [priced("reader", limit)] });
  expect(() =>
    new RoleRegistry(above, {
      roles: [],
      hooks: [],
      priceOf: createPriceLookup(undefined),
    }).assertReady(above, {}),
  ).not.toThrow();
  const reader = priced("reader", { ...limit, subagents: [role("deep")] });
  const lead = role("lead", { subagents: [reader] });
  const { code, data } = thrownBy(() =>
    new RoleRegistry(lead, {
      roles: [],
      hooks: [],
      priceOf: createPriceLookup(undefined),
    }).assertReady(lead, {}),
  );
  expect([code, data["field"], data["role"]]).toEqual([
    "price_unknown",
    "reader.budget.costUsd",
    "deep",
  ]);
});

proves(["R57"], "treats a cost limit of zero as a cost limit", () => {
  const lead = role("lead");
  expect(
    thrownBy(() =>
      new RoleRegistry(lead, {
        roles: [],
        hooks: [],
        priceOf: createPriceLookup(undefined),
      }).assertReady(lead, { costUsd: 0 }),
    ).code,
  ).toBe("price_unknown");
});

test("checks the readiness of every reachable model, and of no other", () => {
  const asked: string[] = [];
  const watched = (name: string): Model => ({
    provider: "test",
    id: name,
    generate: () => Promise.reject(new Error("not called")),
    assertReady: () => void asked.push(name),
  });
  const deep = role("deep", { model: watched("deep"), subagents: ["lead"] });
  const lead = role("lead", {
    model: watched("lead"),
    subagents: [role("reader", { model: watched("reader"), subagents: [deep] })],
  });
  new RoleRegistry(lead, {
    roles: [role("idle", { model: watched("idle") })],
    hooks: [],
    priceOf: createPriceLookup(undefined),
  }).assertReady(lead, {});
  expect(asked).toEqual(["lead", "reader", "deep"]);
});

test("throws the error of a model that is not ready", () => {
  const keyless: Model = {
    provider: "test",
    id: "keyless",
    generate: () => Promise.reject(new Error("not called")),
    assertReady: () => {
      throw new EspalierError({ code: "missing_api_key", message: "No key." });
    },
  };
  const lead = role("lead", { subagents: [role("reader", { model: keyless })] });
  expect(
    thrownBy(() =>
      new RoleRegistry(lead, {
        roles: [],
        hooks: [],
        priceOf: createPriceLookup(undefined),
      }).assertReady(lead, {}),
    ).code,
  ).toBe("missing_api_key");
});
