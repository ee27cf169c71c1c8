import type { InheritanceRecord } from "../../src/protocol/context-manifest.ts";
import type { AgentDetail } from "../../src/read-model/viewer-data.ts";
import { formatQuantity } from "../../src/read-model/amounts.ts";
import { Code, Line } from "../text/shown-text.tsx";
import { Facts } from "./facts.tsx";

export function AgentContext({ detail }: { readonly detail: AgentDetail }) {
  const { inherited } = detail;
  if (inherited === undefined)
    return (
      <p class="muted">
        {detail.depth === 0
          ? "This is the root agent. Its task came from the caller of the run."
          : "Not recorded."}
      </p>
    );
  return (
    <>
      <Facts
        facts={[
          ["messages of its parent", formatQuantity(inherited.messages.count, "message")],
          ["besides its task", formatQuantity(inherited.injections.count, "message")],
          ["metadata", <Names names={inherited.metadataKeys} />],
          ["full results", <Names names={inherited.results} />],
          ["summarized results", <Names names={inherited.siblingResults} />],
          ["failed calls of its parent", String(inherited.failedAttempts)],
          ["limits of its parent", inherited.parentConstraints ? "shown" : "not shown"],
        ]}
      />
      <Removed record={inherited} />
      {inherited.tightened.length > 0 && <Tightened record={inherited} />}
    </>
  );
}

function Names({ names }: { readonly names: readonly string[] }) {
  return names.length === 0 ? <>none</> : <Line text={names.join(", ")} most={1_000} />;
}

function Removed({ record: { removedTools } }: { readonly record: InheritanceRecord }) {
  if (removedTools.length === 0) return <h3>It has all tools of its role</h3>;
  return (
    <>
      <h3>{formatQuantity(removedTools.length, "tool")} of its role it does not have</h3>
      <ul class="plain">
        {removedTools.map(({ toolName, rule, source }) => (
          <li key={toolName}>
            <Code text={toolName} />{" "}
            <span class="muted">
              {rule.replaceAll("_", " ")}, by <Line text={source} />
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}

function Tightened({ record: { tightened } }: { readonly record: InheritanceRecord }) {
  return (
    <>
      <h3>Limits tighter than those of its role</h3>
      <table class="amounts">
        <thead>
          <tr>
            <th scope="col">limit</th>
            <th scope="col">asked</th>
            <th scope="col">given</th>
            <th scope="col">by</th>
          </tr>
        </thead>
        <tbody>
          {tightened.map(({ field, requested, granted, source }) => (
            <tr key={field}>
              <th scope="row">
                <Line text={field} />
              </th>
              <td>{requested}</td>
              <td>{granted}</td>
              <td>
                <Line text={source} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
