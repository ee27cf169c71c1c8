// A world with every feature, for pauses at each of its events.

import type { Act, Call, Plan, RolePlan, World } from "./equivalence-world.ts";

function calls(...list: readonly Call[]): Extract<Act, { readonly type: "calls" }> {
  return { type: "calls", calls: list, hasTwins: false, isMeasured: true };
}

const ROLE: RolePlan = {
  budget: {},
  hooks: [],
  conditions: [],
  hasOutput: false,
  wrapsUp: false,
  window: undefined,
  canCount: false,
  inherits: true,
  maxOutputTokens: 8_192,
};

const LEAF: Plan = {
  key: "r.0-1.1-0",
  acts: [
    calls({ type: "note", mode: "json" }, { type: "pay", mode: "later", verdict: "change" }),
    { type: "fails", how: "overloaded" },
    calls({ type: "finish", fits: false }, { type: "unknown tool" }),
  ],
};

const CHILD: Plan = {
  key: "r.0-1",
  acts: [
    { type: "empty" },
    calls({ type: "spawn", role: 0, plan: LEAF }, { type: "note", mode: "slow" }),
    { type: "fails", how: "too long" },
  ],
};

const TASK: Plan = {
  key: "r.1-1-0",
  acts: [
    {
      ...calls({ type: "pay", mode: "reason", verdict: "deny" }, { type: "note", mode: "throws" }),
      hasTwins: true,
    },
    calls({ type: "note", mode: "nothing" }, { type: "broken JSON" }),
  ],
};

const OTHER: Plan = { key: "r.1-1-1", acts: [{ type: "says", ending: "length" }] };

const LAST: Plan = { key: "r.2-0", acts: [] };

export const RICH_WORLD: World = {
  maxBreadth: 3,
  hooks: [],
  root: {
    key: "r",
    acts: [
      calls(
        { type: "note", mode: "text" },
        { type: "spawn", role: 0, plan: CHILD },
        { type: "pay", mode: "always", verdict: "approve" },
        { type: "unknown role" },
      ),
      calls({ type: "note", mode: "denied" }, { type: "queue", role: 1, plans: [TASK, OTHER] }),
      calls(
        { type: "spawn", role: 1, plan: LAST },
        { type: "fetch", verdict: "result" },
        { type: "misfit" },
      ),
    ],
  },
  roles: [
    [{ ...ROLE, hooks: ["userInput", "instructions", "beforeTool", "subagentStart", "veto"] }],
    [
      { ...ROLE, hooks: ["dropResult", "afterTool"], window: 400 },
      {
        ...ROLE,
        hooks: ["addMessage", "wrapTool"],
        budget: { steps: 2, timeMs: 500 },
        wrapsUp: true,
      },
    ],
    [
      { ...ROLE, hasOutput: true, hooks: ["twice"], budget: { totalTokens: 20_000 } },
      { ...ROLE, canCount: true },
    ],
  ],
};
