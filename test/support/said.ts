// The view of a page on the stream parts of a run: the content of each step since its last `reset`,
// and the results of its calls.

import type { StreamPart } from "../../src/protocol/stream-part.ts";

export interface Said {
  text: string;
  reasoning: string;
  refusal: string;
  calls: { callId: string; toolName: string; argumentsText: string }[];
  ends: number;
  resets: string[];
}

/** By the id of the step. */
export class SaidSteps {
  readonly steps = new Map<string, Said>();
  readonly results = new Map<string, string>();

  readonly take = (piece: StreamPart): void => {
    const said = this.of(piece.stepId);
    switch (piece.type) {
      case "reset":
        this.steps.set(piece.stepId, {
          ...NOTHING(),
          ends: said.ends,
          resets: [...said.resets, piece.reason],
        });
        return;
      case "call":
        said.calls[piece.index] = { ...piece, argumentsText: "" };
        return;
      case "arguments": {
        const call = said.calls[piece.index];
        if (call === undefined) throw new Error(`Arguments came before call ${piece.index}.`);
        call.argumentsText += piece.text;
        return;
      }
      case "end":
        said.ends += 1;
        return;
      case "result":
        this.results.set(piece.callId, piece.text);
        return;
      default:
        said[piece.type] += piece.text;
    }
  };

  of(stepId: string): Said {
    const said = this.steps.get(stepId) ?? NOTHING();
    this.steps.set(stepId, said);
    return said;
  }
}

export const NOTHING = (): Said => ({
  text: "",
  reasoning: "",
  refusal: "",
  calls: [],
  ends: 0,
  resets: [],
});
