// What may be set for a tool, and for all tools of a role: the tool's own value comes before the role's, which comes before the default.

/** What may be set for a tool, and as `toolDefaults` for all tools of a role (R122). */
export interface ToolSettings {
  /** How long one call may take, wrappers of the tool included. Default: as long as its agent. */
  readonly timeoutMs?: number;
  /** How often in a row the model is asked for a corrected call before the tool is given up: N retries are allowed. Default 2. */
  readonly maxRetries?: number;
  /**
   * Most UTF-16 code units of a result that the model is shown, and of what a tool says when it fails; a notice of the real and the shown
   * size follows. Default 50,000. Of a failure, what is said around the tool's words stays (at most 2,000 more). The JSON of a delegation
   * is shortened inside, notices included, and keeps at least `outcome` and `subagent`, also where these alone are longer.
   */
  readonly maxResultCharacters?: number;
  /** What is done with a longer result: it is cut, with a notice (default), or summarised by the agent's own model, which is paid for. */
  readonly longResults?: LongResults;
  /** How often in a row the same call may be made (R74). The next one is asked about, or refused without an approver. Default 2. */
  readonly maxIdenticalCalls?: number | "unlimited";
}

/** What may be set for all tools of a role; a tool's own value comes first. */
export interface ToolDefaults extends ToolSettings {
  /** Whether calls need an approval, where a tool does not say. Default false. */
  readonly needsApproval?: boolean;
}

/** What is done with a result that is too long. */
export type LongResults = "truncate" | "summarize";

/** What holds for the calls of one tool. */
export interface EffectiveSettings extends Required<Omit<ToolDefaults, "timeoutMs">> {
  /** Undefined: as long as its agent. */
  readonly timeoutMs: number | undefined;
}

/** What holds where neither a tool nor its role says. */
export const DEFAULT_TOOL_SETTINGS = Object.freeze({
  timeoutMs: undefined,
  maxRetries: 2,
  maxResultCharacters: 50_000,
  longResults: "truncate",
  maxIdenticalCalls: 2,
  needsApproval: false,
} satisfies EffectiveSettings);
