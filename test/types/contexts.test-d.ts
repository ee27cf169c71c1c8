// Goal: the context that tools, hooks, guards and other parts require is required of their users:
// the role, the roles that may start it, and the call that starts or continues a run (H12).
// Method: the types that inference finds in code without type arguments, and uses that must not
// compile.

import { expectTypeOf, test } from "vitest";
import { z } from "zod";

import {
  allOf,
  combineTools,
  defineAgent,
  defineDelegation,
  defineTool,
  Orchestrator,
  prefixTools,
  toolFilter,
  toolGuard,
  hasToolCall,
  withApproval,
  withRateLimit,
  withRetries,
  withTimeout,
  type AgentRole,
  type InferContext,
  type DelegationContext,
  type DelegationTool,
  type FilterContext,
  type FunctionTool,
  type GuardContext,
  type PausedRun,
  type ResumedRuns,
  type RequestSection,
  type Run,
  type SectionContext,
  type StartOptions,
  type StopCondition,
  type StopContext,
  type ToolContext,
  type ToolFilter,
  type ToolGuard,
  type Model,
} from "../../src/index.ts";
import type { OptionsWithContext } from "../../src/extend.ts";
import {
  observe,
  processStep,
  transform,
  wrapModelCall,
  wrapToolCall,
  type Hook,
  type HookContext,
  type ModelCall,
  type ObserverContext,
  type WrappedToolCall,
} from "../../src/hooks.ts";
import { defineConfig, type EspalierConfig } from "../../src/config/define-config.ts";
import { parseRole, readRoles } from "../../src/roles/read-roles.ts";

declare const model: Model;
declare const paused: PausedRun;

interface User {
  readonly userId: string;
}

interface Database {
  readonly db: { find(id: string): Promise<string> };
}

type App = User & Database;
declare const app: App;
declare const user: User;

const basics = { instructions: "Work.", description: "Works.", model };
const input = z.object({ id: z.string() });

const plain = defineTool({
  name: "plain",
  description: "Works.",
  inputSchema: input,
  execute: ({ id }, context) => {
    expectTypeOf(context).toEqualTypeOf<ToolContext>();
    expectTypeOf(context.context).toEqualTypeOf<unknown>();
    return id;
  },
});
const whoAmI = defineTool({
  name: "who",
  description: "Says who.",
  inputSchema: input,
  needsApproval: ({ id }, { context }: ToolContext<User>) => id === context.userId,
  execute: ({ id }, { context }: ToolContext<User>) => {
    expectTypeOf(id).toEqualTypeOf<string>();
    return context.userId;
  },
});
const find = defineTool({
  name: "find",
  description: "Finds.",
  inputSchema: input,
  execute: async ({ id }, { context }: ToolContext<Database>) => await context.db.find(id),
});
const delegate = defineDelegation({
  name: "delegate",
  description: "Delegates.",
  inputSchema: input,
  execute: async ({ id }, { spawn, context }: DelegationContext<User>) =>
    await spawn({ role: "helper", task: `${id} for ${context.userId}` }),
});
const mail = defineTool({ name: "mail", description: "Mails.", inputSchema: input });

test("a tool requires the context that its code declares", () => {
  expectTypeOf(plain).toEqualTypeOf<FunctionTool>();
  expectTypeOf(whoAmI).toEqualTypeOf<FunctionTool<User>>();
  expectTypeOf(find).toEqualTypeOf<FunctionTool<Database>>();
  expectTypeOf(delegate).toEqualTypeOf<DelegationTool<User>>();
  defineTool({
    name: "wrong",
    description: "Wrong.",
    inputSchema: input,
    // @ts-expect-error -- the context has no such field
    execute: (_input, { context }: ToolContext<User>) => void context.userName,
  });
});

test("wrappers and toolsets preserve the context that a tool requires", () => {
  expectTypeOf(withTimeout(find, { timeoutMs: 1 })).toEqualTypeOf<FunctionTool<Database>>();
  expectTypeOf(withRetries(find)).toEqualTypeOf<FunctionTool<Database>>();
  expectTypeOf(withRateLimit(find, { maxCalls: 1, windowMs: 1 })).toEqualTypeOf<
    FunctionTool<Database>
  >();
  expectTypeOf(withApproval(find)).toEqualTypeOf<FunctionTool<Database>>();
  expectTypeOf(prefixTools([find], "my_")).toEqualTypeOf<readonly FunctionTool<Database>[]>();
  const all = combineTools([plain, mail], prefixTools([whoAmI, delegate], "my_"), [find]);
  const role = defineAgent({ ...basics, name: "all", tools: all });
  expectTypeOf<InferContext<typeof role>>().toEqualTypeOf<App>();
});

test("a role requires the contexts of all its tools, and none if they require none", () => {
  const bare = defineAgent({ ...basics, name: "bare", tools: [plain, mail] });
  expectTypeOf(bare).toEqualTypeOf<AgentRole<undefined>>();
  const greeter = defineAgent({ ...basics, name: "greeter", tools: [whoAmI, plain] });
  expectTypeOf(greeter).toEqualTypeOf<AgentRole<undefined, User>>();
  const both = defineAgent({ ...basics, name: "both", tools: [whoAmI, find, delegate, mail] });
  expectTypeOf<InferContext<typeof both>>().toEqualTypeOf<App>();
  const declared = defineAgent<undefined, App>({ ...basics, name: "declared", tools: [whoAmI] });
  expectTypeOf(declared).toEqualTypeOf<AgentRole<undefined, App>>();
  const wider: AgentRole<undefined, App> = defineAgent({ ...basics, name: "w", tools: [whoAmI] });
  void wider;
});

test("a role whose context lacks a field of a tool does not accept the tool", () => {
  // @ts-expect-error -- a user is no database
  defineAgent<undefined, User>({ ...basics, name: "wrong", tools: [find] });
  // @ts-expect-error -- neither is nothing
  const none: AgentRole = defineAgent({ ...basics, name: "wrong", tools: [find] });
  // @ts-expect-error -- nor in a list of roles that ask for nothing
  const roles: readonly AgentRole[] = [defineAgent({ ...basics, name: "wrong", tools: [find] })];
  void [none, roles];
  expectTypeOf<FunctionTool<User>>().not.toExtend<FunctionTool>();
  expectTypeOf<FunctionTool>().toExtend<FunctionTool<User>>();
  expectTypeOf<AgentRole<undefined, User>>().not.toExtend<AgentRole>();
  expectTypeOf<AgentRole>().toExtend<AgentRole<unknown, User>>();
});

test("a role requires the contexts of its subagents at any depth", () => {
  const helper = defineAgent({ ...basics, name: "helper", tools: [find] });
  const middle = defineAgent({ ...basics, name: "middle", subagents: [helper, "middle"] });
  expectTypeOf<InferContext<typeof middle>>().toEqualTypeOf<Database>();
  const lead = defineAgent({
    ...basics,
    name: "lead",
    tools: [delegate],
    subagents: [middle],
    output: z.object({ a: z.string() }),
  });
  expectTypeOf<InferContext<typeof lead>>().toEqualTypeOf<App>();
  expectTypeOf(lead).toExtend<AgentRole<{ a: string }, App>>();
  const byName = defineAgent({ ...basics, name: "names", subagents: ["helper", "middle"] });
  expectTypeOf(byName).toEqualTypeOf<AgentRole<undefined>>();
});

const userGuard = toolGuard((_call, { context }: GuardContext<User>) =>
  context.userId === "root" ? { type: "allow" } : { type: "deny", reason: "No." },
);
const dbFilter = toolFilter((name, { context }: FilterContext<Database>) => name in context.db);
const userStop: StopCondition<User> = ({ context }: StopContext<User>) =>
  context.userId === "" ? { code: "nobody", message: "Nobody is there.", data: {} } : undefined;
const section: RequestSection<User> = {
  name: "user",
  lifetime: "step",
  text: ({ context }: SectionContext<User>) => context.userId,
};

test("a role requires the contexts of its hooks, guards, filters, sections and stop conditions", () => {
  expectTypeOf(userGuard).toEqualTypeOf<ToolGuard<User>>();
  expectTypeOf(dbFilter).toEqualTypeOf<ToolFilter<Database>>();
  expectTypeOf(allOf(userStop, hasToolCall("find"))).toEqualTypeOf<StopCondition<User>>();
  const hooks = [
    observe("run.started", (_event, { context }: ObserverContext<User>) => context.userId),
    processStep((_step, { context }: HookContext<User>) => context.userId),
    wrapModelCall(async ({ context }: ModelCall<User>, next) => {
      expectTypeOf(context.context).toEqualTypeOf<User>();
      return await next();
    }),
    wrapToolCall((call: WrappedToolCall<User>, next) =>
      call.context.context.userId === "" ? "Nobody." : next(),
    ),
    transform("beforeTool", ({ toolName }, { context }: HookContext<User>) => {
      expectTypeOf(toolName).toEqualTypeOf<string>();
      return { arguments: { id: context.userId } };
    }),
  ];
  expectTypeOf(hooks).toEqualTypeOf<Hook<User>[]>();
  const role = defineAgent({
    ...basics,
    name: "watched",
    tools: [find],
    hooks,
    guards: [userGuard],
    sections: [section],
    stopWhen: [userStop, hasToolCall("find")],
  });
  expectTypeOf<InferContext<typeof role>>().toEqualTypeOf<App>();
  expectTypeOf(defineAgent({ ...basics, name: "g", guards: [userGuard] })).toEqualTypeOf<
    AgentRole<undefined, User>
  >();
  expectTypeOf(defineAgent({ ...basics, name: "f", toolFilters: [dbFilter] })).toEqualTypeOf<
    AgentRole<undefined, Database>
  >();
  expectTypeOf(defineAgent({ ...basics, name: "s", sections: [section] })).toEqualTypeOf<
    AgentRole<undefined, User>
  >();
  expectTypeOf(defineAgent({ ...basics, name: "c", stopWhen: [userStop] })).toEqualTypeOf<
    AgentRole<undefined, User>
  >();
  expectTypeOf(defineAgent({ ...basics, name: "c1", stopWhen: userStop })).toEqualTypeOf<
    AgentRole<undefined, User>
  >();
  expectTypeOf(
    defineAgent({ ...basics, name: "d", dynamicRoles: { models: { a: model }, tools: [whoAmI] } }),
  ).toEqualTypeOf<AgentRole<undefined, User>>();
  const watches = { guards: [userGuard], toolFilters: [dbFilter] };
  // @ts-expect-error -- two of them that need different parts: one has to name the whole
  defineAgent({ ...basics, name: "parts", ...watches });
  expectTypeOf(defineAgent<undefined, App>({ ...basics, name: "said", ...watches })).toEqualTypeOf<
    AgentRole<undefined, App>
  >();
  const whole = defineAgent({
    ...basics,
    name: "whole",
    ...watches,
    instructions: ({ userId }: App) => `You serve ${userId}.`,
  });
  expectTypeOf(whole).toEqualTypeOf<AgentRole<undefined, App>>();
  // @ts-expect-error -- what a hook of a point does not allow is refused as ever
  transform("beforeTool", (_input, { context }: HookContext<User>) => ({ text: context.userId }));
  // @ts-expect-error -- what serves every run of an orchestrator cannot ask for the context of some
  void (() => new Orchestrator({ hooks }));
  // @ts-expect-error -- neither can its guards
  void (() => new Orchestrator({ guards: [userGuard] }));
});

test("instructions require their declared context and can read the context of the role's tools", () => {
  const greeter = defineAgent({
    ...basics,
    name: "greeter",
    instructions: ({ userId }: User) => `You serve ${userId}.`,
  });
  expectTypeOf(greeter).toEqualTypeOf<AgentRole<undefined, User>>();
  const finder = defineAgent({
    ...basics,
    name: "finder",
    instructions: (context) => {
      expectTypeOf(context).toEqualTypeOf<App>();
      return `You serve ${context.userId}.`;
    },
    tools: [find],
    subagents: [greeter],
  });
  expectTypeOf<InferContext<typeof finder>>().toEqualTypeOf<App>();
  const both = defineAgent({
    ...basics,
    name: "both",
    instructions: ({ userId }: User) => `You serve ${userId}.`,
    tools: [find],
    output: z.object({ a: z.string() }),
  });
  expectTypeOf(both).toExtend<AgentRole<{ a: string }, App>>();
  expectTypeOf<InferContext<typeof both>>().toEqualTypeOf<App>();
  const today = defineAgent({
    ...basics,
    name: "today",
    instructions: () => new Date().toISOString(),
  });
  expectTypeOf(today).toEqualTypeOf<AgentRole<undefined>>();
  // @ts-expect-error -- what nothing asks for is not known
  defineAgent({ ...basics, name: "wrong", instructions: (context) => `${context.userId}` });
  // @ts-expect-error -- no text
  defineAgent({ ...basics, name: "wrong", instructions: () => 7 });
  // @ts-expect-error -- not at once
  defineAgent({ ...basics, name: "wrong", instructions: async () => await Promise.resolve("x") });
});

test("a role from a file requires the contexts of its tools and extensions", async () => {
  const models = { fast: model };
  const plainRoles = await readRoles("roles", { models, tools: [plain, mail] });
  expectTypeOf(plainRoles).toEqualTypeOf<readonly AgentRole[]>();
  const roles = await readRoles("roles", {
    models,
    tools: [find, mail],
    extend: { reader: { guards: [userGuard] } },
  });
  expectTypeOf<InferContext<(typeof roles)[number]>>().toEqualTypeOf<App>();
  const role = parseRole("Work.", { file: "worker.md", models, tools: [whoAmI] });
  expectTypeOf(role).toEqualTypeOf<AgentRole<unknown, User>>();
});

const asking = defineAgent({
  ...basics,
  name: "asking",
  tools: [whoAmI],
  output: z.object({ a: z.string() }),
});
const free = defineAgent({ ...basics, name: "free", tools: [plain] });

test("a run starts with the context that its role requires, and without one if it requires none", () => {
  const orchestrator = new Orchestrator();
  expectTypeOf(orchestrator.start(free, "Work.")).toEqualTypeOf<Run<undefined>>();
  orchestrator.start(free, "Work.", { budget: { steps: 1 } });
  orchestrator.start(free, "Work.", { context: "anything" });
  expectTypeOf(orchestrator.start(asking, "Work.", { context: user })).toEqualTypeOf<
    Run<{ a: string }>
  >();
  orchestrator.start(asking, "Work.", { context: app, budget: { steps: 1 } });
  // @ts-expect-error -- none is given
  void (() => orchestrator.start(asking, "Work."));
  // @ts-expect-error -- none is given
  void (() => orchestrator.start(asking, "Work.", {}));
  // @ts-expect-error -- none is given
  void (() => orchestrator.start(asking, "Work.", { budget: { steps: 1 } }));
  // @ts-expect-error -- another one is given
  void (() => orchestrator.start(asking, "Work.", { context: { userId: 7 } }));
  // @ts-expect-error -- no such option
  void (() => orchestrator.start(asking, "Work.", { context: user, contxt: 1 }));
  // @ts-expect-error -- no such option
  void (() => orchestrator.start(free, "Work.", { contxt: 1 }));
});

test("a run continues with the context that its role requires, or the roles of the orchestrator if no role is passed", async () => {
  const one = new Orchestrator({ roles: [asking] });
  expectTypeOf(one.resume(paused, { context: user })).toEqualTypeOf<Run<{ a: string }>>();
  expectTypeOf(one.fork(paused, { context: user })).toEqualTypeOf<Run<{ a: string }>>();
  expectTypeOf(await one.resume("run", { context: user })).toEqualTypeOf<Run<{ a: string }>>();
  expectTypeOf(
    await one.resumeLostRuns({ context: ({ metadata }) => ({ userId: JSON.stringify(metadata) }) }),
  ).toEqualTypeOf<ResumedRuns<{ a: string }>>();
  void (() => one.resumeLostRuns({ context: async () => await Promise.resolve(user) }));
  // @ts-expect-error -- none is given
  void (() => one.resume(paused));
  // @ts-expect-error -- none is given
  void (() => one.resume(paused));
  // @ts-expect-error -- none is given
  void (() => one.resume(paused, {}));
  // @ts-expect-error -- none is given
  void (() => one.fork(paused));
  // @ts-expect-error -- none is given
  void (() => one.fork(paused, { atStep: 1 }));
  // @ts-expect-error -- none is given
  void (() => one.resume("run"));
  // @ts-expect-error -- none is given
  void (() => one.resume("run", { takeOver: true }));
  // @ts-expect-error -- none is given
  void (() => one.resumeLostRuns());
  // @ts-expect-error -- another one is given
  void (() => one.resumeLostRuns({ context: () => ({ userId: 7 }) }));
  // @ts-expect-error -- another one is given
  void (() => one.resume(paused, { context: { userId: 7 } }));
  // @ts-expect-error -- another one is given
  void (() => one.fork(paused, { context: { userId: 7 } }));
  // @ts-expect-error -- another one is given
  void (() => one.resume("run", { context: { userId: 7 } }));

  const bare = new Orchestrator();
  bare.resume(paused);
  bare.fork(paused, { role: free });
  bare.resume(paused, { role: asking, context: user });
  bare.fork(paused, { role: asking, context: user });
  void (() => bare.resume("run", { role: asking, context: user }));
  void (() => bare.resumeLostRuns());
  // @ts-expect-error -- the role asks for one
  void (() => bare.resume(paused, { role: asking }));
  // @ts-expect-error -- the role asks for one
  void (() => bare.fork(paused, { role: asking }));
  // @ts-expect-error -- the role asks for one
  void (() => bare.resume("run", { role: asking }));
  // @ts-expect-error -- the role asks for another one
  void (() => bare.fork(paused, { role: asking, context: { userId: 7 } }));
  // @ts-expect-error -- the role asks for another one
  void (() => bare.resume(paused, { role: asking, context: { userId: 7 } }));
  // @ts-expect-error -- the role asks for another one
  void (() => bare.resume("run", { role: asking, context: { userId: 7 } }));

  const mixed = new Orchestrator({ roles: [asking, free] });
  mixed.resume(paused, { role: free });
  mixed.resume(paused, { context: user });
  // @ts-expect-error -- it may be the run of the role that asks
  void (() => mixed.resume(paused));
});

test("an execution of a session receives the context of its role when it starts and when it continues", async () => {
  const orchestrator = new Orchestrator();
  const session = await orchestrator.openSession("s");
  expectTypeOf(
    orchestrator.start(asking, "Work.", { session, context: user }).iterate(),
  ).toEqualTypeOf<ReturnType<Run["iterate"]>>();
  orchestrator.start(free, "Work.", { session });
  orchestrator.resume(paused, { session, role: asking, context: user });
  void (() => orchestrator.resume("run", { session, role: asking, context: user }));
  // @ts-expect-error -- none is given
  void (() => orchestrator.start(asking, "Work.", { session }));
  // @ts-expect-error -- another one is given
  void (() => orchestrator.start(asking, "Work.", { session, context: { userId: 7 } }));
  // @ts-expect-error -- none is given
  void (() => orchestrator.resume(paused, { session, role: asking }));
  // @ts-expect-error -- none is given
  void (() => orchestrator.resume("run", { session, role: asking }));
});

test("user code passes a context on", () => {
  const orchestrator: Orchestrator = new Orchestrator({ roles: [asking] });
  function begin<Output, Context>(
    role: AgentRole<Output, Context>,
    ...options: OptionsWithContext<StartOptions, Context>
  ): Run<Output> {
    return orchestrator.start(role, "Work.", ...options);
  }
  expectTypeOf(begin(asking, { context: user })).toEqualTypeOf<Run<{ a: string }>>();
  begin(free);
  // @ts-expect-error -- none is given
  void (() => begin(asking));
});

test("a configuration requires the context of its roles and tools", () => {
  const greeter = defineAgent({ ...basics, name: "greeter", tools: [whoAmI] });
  const bare = defineAgent({ ...basics, name: "bare" });
  expectTypeOf(defineConfig({ roles: [bare] })).toEqualTypeOf<EspalierConfig>();
  defineConfig({ roles: [bare, greeter], tools: [find], context: () => app });
  defineConfig({ roles: [greeter], context: async () => user });
  // @ts-expect-error -- the context is missing
  defineConfig({ roles: [bare, greeter] });
  // @ts-expect-error -- the context has no database
  defineConfig({ roles: [greeter], tools: [find], context: () => user });
});
