// Bugs to be planted in the sources, each of which the tree property must find: the test of the test. A plant is a change of text; a text
// that is not there, or not there once, fails: then the plant has to be moved to where its promise is kept now.

/** One bug. */
export interface Plant {
  readonly name: string;
  /** Below src/. */
  readonly file: string;
  readonly from: string;
  readonly to: string;
  /** What the property says when it finds it. */
  readonly law: RegExp;
  /** A world in which it is found. */
  readonly seed: number;
  /** Not found in its world any more since the calls of a reply end together, nor in 600 others: another world has to be found. */
  readonly isRare?: true;
}

export const PLANTS: readonly Plant[] = [
  {
    name: "the place of a subagent that could not be set up is given back twice",
    file: "orchestrator/run-tree.ts",
    from: "this.#count(childDepth, -1);",
    to: "this.#count(childDepth, -2);",
    law: /counts by depth/,
    seed: 0,
  },
  {
    name: "the place of a subagent that could not be set up is kept",
    file: "orchestrator/set-up.ts",
    from: "permit?.giveBack();",
    to: "",
    law: /counts by depth|T3/,
    seed: 3,
  },
  {
    name: "a refused subagent is counted",
    file: "orchestrator/admission.ts",
    from: "if (refusal !== undefined) return refusal;",
    to: "if (refusal !== undefined) {\n    parent.adopt(role.name);\n    return refusal;\n  }",
    law: /T3: breadth_limit/,
    seed: 4,
  },
  {
    name: "one subagent more than the limit of breadth",
    file: "policies/subagent-limits.ts",
    from: "facts.breadth >= limits.maxBreadthPerParent",
    to: "facts.breadth > limits.maxBreadthPerParent",
    law: /T3|X16/,
    seed: 4,
  },
  {
    name: "a lease that is not used is not given back",
    file: "agent/life-cycle.ts",
    from: "for (const leaseId of agent.budget.releaseOpen())",
    to: "for (const leaseId of agent.isEnding ? [] : agent.budget.releaseOpen())",
    law: /B2/,
    seed: 143,
  },
  {
    name: "a charge does not reach the root",
    file: "orchestrator/ledger-core.ts",
    from: "total: addUsage(account.total, usage),",
    to: "total: path.length > 1 && index === path.length - 1 ? account.total : addUsage(account.total, usage),",
    law: /B3|X18/,
    seed: 0,
  },
  {
    name: "what a reserve keeps is not kept",
    file: "orchestrator/ledger-core.ts",
    from: "return isOwn ? 0 : (reserve[axis] ?? 0);",
    to: 'return isOwn || axis !== "" ? 0 : (reserve[axis] ?? 0);',
    law: /X5/,
    seed: 1,
  },
  {
    name: "a grant counts twice",
    file: "orchestrator/ledger-grant.ts",
    from: "raised(limit, raises[axis] ?? 0)",
    to: "raised(limit, 2 * (raises[axis] ?? 0))",
    law: /X7|B1/,
    seed: 1,
  },
  {
    name: "who waits for the budget is not served when a call settles",
    file: "orchestrator/budget-ledger.ts",
    from: 'this.#tell({ operation: "settle", leaseId, usage });\n    this.#tellThresholds(before, after);\n    this.#serve();',
    to: 'this.#tell({ operation: "settle", leaseId, usage });\n    this.#tellThresholds(before, after);',
    law: /hangs|T5/,
    seed: 28,
  },
  {
    name: "usage of a continued subagent counts twice",
    file: "orchestrator/run-result.ts",
    from: "sums.set(key, addUsage(sums.get(key) ?? NO_USAGE, agent.usage.own));",
    to: "for (let execution = 1; execution <= agent.executions; execution += 1)\n      sums.set(key, addUsage(sums.get(key) ?? NO_USAGE, agent.usage.own));",
    law: /X18: by/,
    seed: 1,
  },
  {
    name: "a subagent does not hear that its parent is cancelled",
    file: "orchestrator/agent-node.ts",
    from: "else (above.#followers ??= new Set()).add(this);",
    to: "",
    law: /T5|hangs/,
    seed: 14,
  },
  {
    name: "a detached subagent settles twice",
    file: "orchestrator/supervisor.ts",
    from: 'scope.recorder.record(at, { type: "subagent.ended", ...whoIs(child), ...said });',
    to: 'for (const _once of child.isDetached ? [1, 2] : [1])\n    scope.recorder.record(at, { type: "subagent.ended", ...whoIs(child), ...said });',
    law: /T1/,
    seed: 4,
  },
  {
    name: "one tool body more than there are slots",
    file: "orchestrator/scheduler.ts",
    from: "concurrency: concurrency.toolCalls }",
    to: "concurrency: concurrency.toolCalls + 1 }",
    law: /X19/,
    seed: 37,
  },
  {
    name: "the run does not wait for those whom detached ones detach",
    file: "orchestrator/run-tree.ts",
    from: "while (awaited !== this.#detached);",
    to: "while (awaited === undefined);",
    law: /T2|L2|not at rest|S3/,
    seed: 360,
  },
  {
    name: "what a subagent reported is lost over a pause",
    file: "orchestrator/supervisor.ts",
    from: "parent.inbox.report(childId, reportText(settledOutcome(scope, child)));",
    to: ";",
    law: /X9|bug/,
    seed: 44,
  },
  {
    name: "the first of its siblings is forgotten when one fails",
    file: "orchestrator/spawn-group.ts",
    from: "for (const member of this.#living) member.cancel(message);",
    to: "for (const member of [...this.#living].slice(1)) member.cancel(message);",
    law: /T5: .* after the decision/,
    seed: 18,
  },
  {
    name: "a group forgets its living over a pause",
    file: "orchestrator/spawn-group.ts",
    from: "rejoin(member: GroupMember): void {\n    this.#living.add(member);",
    to: "rejoin(_member: GroupMember): void {",
    law: /T5: .* after the decision|X11/,
    seed: 376,
  },
  {
    name: "a tool that is removed is offered two levels below",
    file: "orchestrator/child-context.ts",
    from: "...parent.toolRules,",
    to: "",
    law: /T4/,
    seed: 23,
  },
  {
    name: "guards hold for their own role alone",
    file: "orchestrator/agent-assembly.ts",
    from: "parent === undefined ? scope.guards : guardsOf(scope, parent);",
    to: "scope.guards;",
    law: /T4/,
    seed: 86,
  },
  {
    name: "an execution ends twice",
    file: "agent/life-cycle.ts",
    from: '  agent.record({\n    type: "agent.ended",',
    to: '  for (const _once of agent.identity.depth === 2 ? [1, 2] : [1]) agent.record({\n    type: "agent.ended",',
    law: /L2/,
    seed: 0,
  },
  {
    name: "results are not in the order of their calls",
    file: "agent/transition.ts",
    from: "withMessages(state, step.executions.map(toolMessage))",
    to: "withMessages(state, step.executions.map(toolMessage).toReversed())",
    law: /L3/,
    seed: 0,
  },
  {
    name: "a letter is lost by a pause, and its reader goes on without it",
    file: "agent/life-cycle.ts",
    from: "isReplyDue(agent, heeded) ||",
    to: "",
    law: /L3: .*ends with assistant/,
    seed: 4011,
    isRare: true,
  },
  {
    name: "a request starts at the deadline",
    file: "orchestrator/ledger-core.ts",
    from: "if (deadline === null || nowMs < deadline) return undefined;",
    to: "if (deadline === null || nowMs >= 0) return undefined;",
    law: /R58|hangs|bug/,
    seed: 58,
  },
  {
    name: "who is cancelled while paused goes on after it",
    file: "orchestrator/lead-run.ts",
    from: "if (late.length === 0) return undefined;",
    to: "if (late.length >= 0) return undefined;",
    law: /T5/,
    seed: 101,
  },
  {
    name: "a subagent is continued before its parent was told how it had ended",
    file: "orchestrator/continuation.ts",
    from: " || parent.background.isLiving(agentId)",
    to: "",
    law: /bug|not at rest|T2|L2/,
    seed: 50_936,
    isRare: true,
  },
  {
    name: "a paused subagent that is cancelled twice is led to its end twice",
    file: "orchestrator/supervisor.ts",
    from: 'if (child.rested?.status === "paused") await resumeChild',
    to: "if (!child.hasEnded) await resumeChild",
    law: /bug/,
    seed: 70_540,
  },
  {
    name: "a root that has ended is to live on for a late end",
    file: "orchestrator/lead-run.ts",
    from: "if (root.hasEnded) return undefined;",
    to: "",
    law: /not alive/,
    seed: 2_021,
  },
];
