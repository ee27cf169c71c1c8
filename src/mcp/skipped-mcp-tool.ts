/** A tool of a server that cannot be used, and why. */
export interface SkippedMcpTool {
  /** As the server calls it. */
  readonly name: string;
  /** Why it was left out. */
  readonly reason: string;
}
