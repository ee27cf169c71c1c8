// What can be asked of a run. Each asks back once; ending a run is never one key or one press away.

import { useState } from "preact/hooks";

import type { RunHead, ViewerAction } from "../../src/view/viewer-data.ts";
import { api, problemOf } from "../data/api.ts";
import { newKey } from "../data/request-key.ts";
import { announce } from "../app/announcer.tsx";
import { focused } from "../app/focused.ts";

interface ActionText {
  readonly label: string;
  readonly question: string;
  readonly confirm: string;
}

type PlainAction = Exclude<ViewerAction, "answer">;

const TEXTS: Readonly<Record<PlainAction, ActionText>> = {
  pause: { label: "Pause", question: "Pause before the next steps?", confirm: "Pause the run" },
  cancel: { label: "Cancel", question: "End the whole run now?", confirm: "Cancel the run" },
  resume: {
    label: "Resume",
    question: "Tools that were cut off may run again. Go on?",
    confirm: "Resume the run",
  },
};

/** The actions that make sense for a run that stands so. */
function fitting(
  { status, leader }: RunHead,
  actions: readonly ViewerAction[],
): readonly PlainAction[] {
  const possible = leader === null && status === "needs_you" ? CANCEL : FITTING[status];
  return possible.filter((action) => actions.includes(action));
}

const CANCEL = ["cancel"] as const;
const LED = ["pause", "cancel"] as const;
const AT_REST = ["resume", "cancel"] as const;
const FITTING: Readonly<Record<RunHead["status"], readonly PlainAction[]>> = {
  needs_you: LED,
  working: LED,
  lost: AT_REST,
  waiting: AT_REST,
  paused: AT_REST,
  completed: [],
  stopped: [],
  failed: [],
  cancelled: [],
  ended: [],
};

type Stage =
  | { readonly at: "choose" }
  | { readonly at: "confirm"; readonly action: PlainAction; readonly key: string }
  | { readonly at: "sending"; readonly action: PlainAction }
  | { readonly at: "said"; readonly text: string; readonly isBad: boolean };

export function RunActions({
  run,
  actions,
}: {
  readonly run: RunHead;
  readonly actions: readonly ViewerAction[];
}) {
  const [stage, setStage] = useState<Stage>({ at: "choose" });
  const send = async (action: PlainAction, key: string): Promise<void> => {
    setStage({ at: "sending", action });
    try {
      const { isLed } = await api.act(run.runId, { key, type: action });
      const text = isLed
        ? "Asked for. It is done within some seconds."
        : "Asked for. It is done when a process leads the run.";
      setStage({ at: "said", text, isBad: false });
      announce(text);
    } catch (error) {
      setStage({ at: "said", text: problemOf(error).message, isBad: true });
    }
  };
  if (stage.at === "confirm") {
    const { question, confirm } = TEXTS[stage.action];
    return (
      <span class="run-actions">
        <span>{question}</span>
        <button
          type="button"
          class="primary"
          ref={focused}
          onClick={() => void send(stage.action, stage.key)}
        >
          {confirm}
        </button>
        <button type="button" onClick={() => setStage({ at: "choose" })}>
          No
        </button>
      </span>
    );
  }
  return (
    <span class="run-actions">
      {stage.at === "said" && (
        <span class={stage.isBad ? "is-failed" : "muted"} role="status">
          {stage.text}
        </span>
      )}
      {fitting(run, actions).map((action) => (
        <button
          key={action}
          type="button"
          disabled={stage.at === "sending"}
          onClick={() => setStage({ at: "confirm", action, key: newKey() })}
        >
          {TEXTS[action].label}
        </button>
      ))}
    </span>
  );
}
