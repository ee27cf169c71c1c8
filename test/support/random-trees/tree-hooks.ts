// Hooks for the tree property: each has its one effect at the call that its world prescribes, and
// no other effect.

import {
  observe,
  processStep,
  transform,
  wrapModelCall,
  wrapToolCall,
  type Hook,
} from "../../../src/hooks/hook.ts";
import { FOREIGN, type Outside } from "./tree-foreign.ts";
import type { WorldHook } from "./tree-world.ts";

/** `key` identifies the hook; its calls are counted over pauses. */
export function hookOf(hook: WorldHook, key: string, outside: Outside): Hook {
  const { point } = hook;
  /**
   * Returns the patch for this call. Throws, or returns a rejected promise, where the world
   * requires that.
   */
  const turn = <Patch>(patch: Patch): Patch | undefined | Promise<undefined> => {
    if (outside.count(`hook ${key}`) !== hook.nth) return undefined;
    if (hook.does === "patches") return patch;
    if (hook.does === "rejects") return Promise.reject(new Error("rejected"));
    throw FOREIGN[hook.nth % FOREIGN.length];
  };
  const options = { name: key };
  switch (point) {
    case "userInput":
      return transform(point, () => turn({ task: "Act otherwise." }), options);
    case "beforeModel":
      return transform(point, () => turn({ temperature: 1 }), options);
    case "beforeTool":
      return transform(point, () => turn({ deny: "Not now." }), options);
    case "afterTool":
      return transform(point, () => turn({ text: "Seen." }), options);
    case "subagentStart":
      return transform(point, ({ task }) => turn({ task: `${task} Now.` }), options);
    case "stop":
      return transform(point, () => turn({ continueWith: "Go on." }), options);
    case "subagentStop":
      return transform(point, () => turn({ continueWith: "Go on." }), options);
    case "wrapModelCall":
      return wrapModelCall(async (_call, next) => {
        const isTwice = (await turn(true)) === true;
        if (isTwice) await next();
        return await next();
      }, options);
    case "wrapToolCall":
      return wrapToolCall(async (_call, next) => {
        const isOther = (await turn(true)) === true;
        return isOther ? "something else" : await next();
      }, options);
    case "processStep":
      return processStep(() => turn(undefined), options);
    case "observe":
      return observe("step.completed", () => turn(undefined), options);
  }
}
