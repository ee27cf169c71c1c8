// A viewer with runs: one store, one clock, processes that own runs in the store, and a viewer that
// listens at a port of its own.

import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { startViewer, type Viewer } from "../../../src/viewer-server/viewer.ts";
import type { ViewerOptions } from "../../../src/viewer-server/viewer-options.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { engineWorld, type EngineWorld } from "../engine/engine-world.ts";
import { countedTool, spawnCall, thinker } from "../journal/thinkers.ts";
import { placeOf, type Place } from "./asking.ts";

export interface ViewerWorld extends EngineWorld {
  readonly view: Viewer;
  readonly place: Place;
}

/** Ends after the test. */
export async function viewerWorld(
  options: ViewerOptions = {},
  world = engineWorld(options.store),
): Promise<ViewerWorld> {
  const { clock, store } = world;
  const view = await opened({ clock, store, ...options });
  return { ...world, view, place: placeOf(view) };
}

/** Starts a viewer at a port of its own, which closes after the test. */
export async function opened(options: ViewerOptions): Promise<Viewer> {
  const view = await startViewer({ port: 0, ...options });
  afterwards(() => view.close());
  return view;
}

/** A lead that starts this many helpers, each of which makes one call. */
export function survey(helpers = 2): AgentRole {
  const helper = defineAgent({
    name: "helper",
    description: "Helps.",
    instructions: "You help.",
    model: thinker("helper", ({ results }) =>
      results.length === 0
        ? { calls: [["look", { thing: "stone" }]] }
        : { text: `Seen: ${results.join()}` },
    ),
    tools: [countedTool(new Map(), "look")],
  });
  return defineAgent({
    name: "lead",
    description: "Leads.",
    instructions: "You lead.",
    model: thinker("lead", ({ results }) =>
      results.length === 0
        ? {
            calls: Array.from({ length: helpers }, (_, nth) =>
              spawnCall("helper", `Part ${nth + 1}.`),
            ),
          }
        : { text: "All seen." },
    ),
    subagents: [helper],
  });
}

/** Makes this many calls that need approval in one reply, then reports their outcomes. */
export function asker(things: readonly string[], name = "asker"): AgentRole {
  return defineAgent({
    name,
    description: "Asks.",
    instructions: "You ask.",
    model: thinker(name, ({ results }) =>
      results.length === 0
        ? { calls: things.map((thing) => ["pay", { thing }] as const) }
        : { text: results.join(" ") },
    ),
    tools: [countedTool(new Map(), "pay", ({ thing }) => `paid ${thing}`, { needsApproval: true })],
  });
}
