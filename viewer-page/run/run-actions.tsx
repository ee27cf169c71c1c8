// The actions on a run. Each needs a confirmation: no single key or press ends a run.

import { useRef, useState } from "preact/hooks";

import type { OpenToolCall, RunHead, ViewerAction } from "../../src/read-model/viewer-data.ts";
import { api, createKey, toProblem } from "../data/api.ts";
import { isAllowed } from "../data/viewer-meta.ts";
import { announce } from "../app/announcer.tsx";
import { focusIfFree, useLostFocus } from "../app/focus.ts";
import { Line } from "../text/shown-text.tsx";

interface ActionText {
  readonly label: string;
  readonly question: string;
  readonly confirm: string;
}

type PlainAction = Exclude<ViewerAction, "answer">;

const TEXTS: Readonly<Record<PlainAction, ActionText>> = {
  pause: { label: "Pause", question: "Pause before the next steps?", confirm: "Pause the run" },
  cancel: { label: "Cancel", question: "End the whole run now?", confirm: "Cancel the run" },
  resume: { label: "Resume", question: "Resume the run?", confirm: "Resume the run" },
};

/** Returns the actions that are possible in the status of the run. */
function listActions({ status, owner: leader }: RunHead): readonly PlainAction[] {
  const possible =
    leader === null && status === "input_required" ? CANCEL : (FITTING[status] ?? []);
  return possible.filter(isAllowed);
}

const CANCEL = ["cancel"] as const;
const LED = ["pause", "cancel"] as const;
const AT_REST = ["resume", "cancel"] as const;
const FITTING: Readonly<Partial<Record<RunHead["status"], readonly PlainAction[]>>> = {
  input_required: LED,
  working: LED,
  lost: AT_REST,
  waiting: AT_REST,
  paused: AT_REST,
};

type Stage =
  | { readonly at: "choose" }
  | { readonly at: "asking" }
  | {
      readonly at: "confirm";
      readonly action: PlainAction;
      readonly key: string;
      readonly again: readonly OpenToolCall[];
    }
  | { readonly at: "sending"; readonly action: PlainAction }
  | { readonly at: "said"; readonly text: string; readonly isBad: boolean };

const MAX_NAMED = 12;

/** Lists the tools that may run again, with their agents. Counts those beyond the maximum. */
function describeRepeats(calls: readonly OpenToolCall[]): string {
  const alike = Map.groupBy(calls, ({ agentPath, toolName }) => `${agentPath} · ${toolName}`);
  const names = [...alike].map(([name, { length }]) =>
    length === 1 ? name : `${name} ×${length}`,
  );
  const more = names.length > MAX_NAMED ? [`${names.length - MAX_NAMED} more`] : [];
  const shown = [...names.slice(0, MAX_NAMED), ...more].join(", ");
  return `Interrupted, and may run again: ${shown}.`;
}

async function createConfirmation({ runId }: RunHead, action: PlainAction): Promise<Stage> {
  try {
    const again = action === "resume" ? (await api.interrupted(runId)).calls : [];
    return { at: "confirm", action, key: createKey(), again };
  } catch (error) {
    return { at: "said", text: toProblem(error).message, isBad: true };
  }
}

export function RunActions({ run }: { readonly run: RunHead }) {
  const [stage, setStage] = useState<Stage>({ at: "choose" });
  const send = async (action: PlainAction, key: string): Promise<void> => {
    setStage({ at: "sending", action });
    try {
      const { hasOwner } = await api.act(run.runId, { key, type: action });
      const text = hasOwner
        ? "Requested. This takes a few seconds."
        : "Requested. This happens when a process owns the run.";
      setStage({ at: "said", text, isBad: false });
      announce(text);
    } catch (error) {
      setStage({ at: "said", text: toProblem(error).message, isBad: true });
    }
  };
  const choose = async (action: PlainAction): Promise<void> => {
    setStage({ at: "asking" });
    setStage(await createConfirmation(run, action));
  };
  const group = useRef<HTMLSpanElement>(null);
  useLostFocus(".run-actions", () => group.current?.querySelector("button"));
  if (stage.at === "confirm") {
    const { question, confirm } = TEXTS[stage.action];
    return (
      <span class="run-actions" role="group" tabIndex={-1} aria-label={question} ref={focusIfFree}>
        <span>
          {stage.again.length > 0 && <Line text={describeRepeats(stage.again)} most={2_000} />}{" "}
          {question}
        </span>
        <button
          class="primary"
          onClick={({ detail }) => {
            // The second click of a double click was meant for the previous button.
            if (detail <= 1) void send(stage.action, stage.key);
          }}
        >
          {confirm}
        </button>
        <button onClick={() => setStage({ at: "choose" })}>No</button>
      </span>
    );
  }
  return (
    <span class="run-actions" ref={group}>
      {stage.at === "said" && (
        <span class={stage.isBad ? "is-failed" : "muted"} role="status">
          <Line text={stage.text} most={2_000} />
        </span>
      )}
      {listActions(run).map((action) => (
        <button
          key={action}
          disabled={stage.at === "sending" || stage.at === "asking"}
          onClick={() => void choose(action)}
        >
          {TEXTS[action].label}
        </button>
      ))}
    </span>
  );
}
