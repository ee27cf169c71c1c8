// Entry `espalier/testing`: scripted models, a manual clock, sequential ids, readable trees,
// replays, and contracts for stores and engines.

export { ManualClock } from "./manual-clock.ts";
export { sequentialIds } from "./sequential-ids.ts";
export { flushEventLoop } from "./flush-event-loop.ts";
export { latch, type Latch } from "./latch.ts";
export { RecordingSink } from "./recording-sink.ts";
export {
  asks,
  says,
  ScriptedModel,
  type ScriptedCall,
  type ScriptedModelOptions,
  type ScriptedReply,
  type ScriptStep,
} from "./scripted-model.ts";
export { findMessageProblems } from "./check-messages.ts";
export { storeContract, type StoreCheck } from "./store-contract.ts";
export { engineContract, type EngineCheck, type EngineSetup } from "./engine-contract.ts";
export { loadRecording, type Recording } from "./replay/recording.ts";
export { replay, type ReplayOptions, type ReplayResult } from "./replay/replay.ts";
export { executeTool, type ExecuteToolOptions } from "./execute-tool.ts";
export { formatEventTree } from "./event-tree.ts";
