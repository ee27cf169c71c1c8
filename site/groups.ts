// Assigns every document to a group of the sidebar. The build of the site fails if a document is in no group.

/** The groups of the sidebar, in order. A group with a folder contains its named files first, then the other files of the folder. */
const GROUPS = [
  {
    text: "Get started",
    files: [
      "README.md",
      "docs/guides/first-tree.md",
      "docs/overview.md",
      "docs/coding-agents.md",
      "examples/README.md",
      "docs/guides/coming-from-ai-sdk.md",
      "docs/guides/coming-from-openai-agents.md",
      "docs/guides/coming-from-mastra.md",
      "docs/guides/coming-from-langgraph.md",
    ],
  },
  {
    text: "Core concepts",
    files: [
      "docs/subagents.md",
      "docs/context.md",
      "docs/budgets.md",
      "docs/budget-shares.md",
      "docs/usage-accounting.md",
      "docs/tools.md",
      "docs/delegations.md",
      "docs/models.md",
      "docs/openai.md",
      "docs/ai-sdk.md",
      "docs/custom-model.md",
      "docs/messages.md",
      "docs/steps.md",
      "docs/streaming.md",
      "docs/errors.md",
      "docs/tool-errors.md",
      "docs/cancellation.md",
      "docs/human-in-the-loop.md",
      "docs/paused-runs.md",
      "docs/sessions.md",
      "docs/stores.md",
      "docs/crash-recovery.md",
      "docs/run-ownership.md",
      "docs/guardrails.md",
      "docs/hooks.md",
      "docs/typescript.md",
    ],
  },
  {
    text: "Guides",
    folder: "docs/guides/",
    files: [
      "docs/guides/budgets-in-practice.md",
      "docs/guides/structured-results.md",
      "docs/guides/approvals.md",
      "docs/guides/chat-ui.md",
      "docs/guides/command.md",
      "docs/guides/service.md",
      "docs/guides/images-and-files.md",
      "docs/guides/testing-agents.md",
      "docs/mcp.md",
      "docs/mcp-authorization.md",
      "docs/mcp-elicitation.md",
      "docs/agent-files.md",
      "docs/replay.md",
    ],
  },
  {
    text: "Reference",
    folder: "docs/reference/",
    files: ["docs/cli.md", "docs/cli-questions.md", "docs/configuration.md", "docs/glossary.md"],
  },
  {
    text: "Operations",
    files: [
      "docs/viewer.md",
      "docs/viewer-in-a-program.md",
      "docs/inspect-runs.md",
      "docs/telemetry.md",
      "docs/span-export.md",
      "docs/jaeger.md",
      "docs/linked-traces.md",
      "docs/metrics.md",
      "docs/logging.md",
      "docs/content-in-traces.md",
      "docs/prices.md",
      "docs/scale-out.md",
      "docs/worker-failures.md",
    ],
  },
  {
    text: "Project",
    folder: "docs/decisions/",
    files: [
      "CHANGELOG.md",
      "docs/DESIGN.md",
      "docs/invariants.md",
      "docs/BENCHMARKS.md",
      "CONTRIBUTING.md",
      "VERSIONING.md",
      "REVIEW.md",
      "SECURITY.md",
    ],
  },
] as const satisfies readonly {
  readonly text: string;
  readonly folder?: string;
  readonly files: readonly string[];
}[];

export interface Group {
  readonly text: string;
  readonly files: readonly string[];
}

/** Returns the groups with their files. Throws if a file is in no group, or if a named file does not exist. `files` are all documents. */
export function groupDocuments(files: readonly string[]): readonly Group[] {
  const named = new Set<string>(GROUPS.flatMap((group) => group.files));
  const lost = [...named].filter((file) => !files.includes(file));
  if (lost.length > 0)
    throw new Error(
      `Expected the documents named in site/groups.ts to exist, found no ${lost.join(", no ")}. Remove them there.`,
    );
  const groups = GROUPS.map((group) => {
    const rest = files.filter(
      (file) => "folder" in group && file.startsWith(group.folder) && !named.has(file),
    );
    return { text: group.text, files: [...group.files, ...rest.toSorted()] };
  });
  const placed = new Set<string>(groups.flatMap((group) => group.files));
  const homeless = files.filter((file) => !placed.has(file));
  if (homeless.length > 0)
    throw new Error(
      `Expected every document to be in a group of the sidebar; ${homeless.join(", ")} is in none. Add it to site/groups.ts.`,
    );
  return groups;
}
