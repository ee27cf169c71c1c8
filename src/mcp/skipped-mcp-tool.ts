/** A tool of a server that cannot be used, and why. */
export interface SkippedMcpTool {
  /** As the server calls it. */
  readonly name: string;
  readonly reason: string;
}
