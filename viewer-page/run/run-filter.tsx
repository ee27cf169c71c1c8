import { useRef } from "preact/hooks";

import { useKeys } from "../app/keys.ts";
import { replaceRoute, RUN_FILTERS, type RunFilterName, type RunRoute } from "../app/route.ts";
import { formatFullCount } from "../../src/read-model/amounts.ts";
import type { RunView } from "./run-view.ts";

const FILTER_TEXTS: Readonly<Record<RunFilterName, string>> = {
  all: "All",
  working: "Working",
  budget: "Waiting for budget",
  asking: "Waiting for you",
  failed: "With errors",
  ended: "Ended",
};

const LEAVING: ReadonlySet<string> = new Set(["Escape", "Enter", "ArrowDown"]);

function focusTree(): void {
  document.querySelector<HTMLElement>(".tree")?.focus();
}

interface FilterProps {
  readonly view: RunView;
  readonly route: RunRoute;
  /** Closes the panel of the agent, which hides the filter in a narrow window. */
  readonly onReveal: () => void;
}

export function RunFilter({ view, route, onReveal }: FilterProps) {
  const field = useRef<HTMLInputElement>(null);
  useKeys("screen", {
    "/": () => {
      if (field.current?.checkVisibility() === true) return field.current.focus();
      onReveal();
      requestAnimationFrame(() => field.current?.focus());
    },
  });
  const { words, show } = view.filter.value;
  return (
    <div class="filter">
      <label class="read-aloud" for="agent-filter">
        Filter agents
      </label>
      <input
        id="agent-filter"
        ref={field}
        type="search"
        value={words}
        placeholder="Filter agents  /"
        autocomplete="off"
        onInput={(event) => replaceRoute({ ...route, q: event.currentTarget.value })}
        onKeyDown={(event) => {
          if (!LEAVING.has(event.key) || event.isComposing) return;
          if (event.key === "Escape") replaceRoute({ ...route, q: undefined });
          focusTree();
          event.preventDefault();
        }}
      />
      <label class="read-aloud" for="agent-standing">
        Which agents
      </label>
      <select
        id="agent-standing"
        value={show}
        onChange={({ currentTarget }) =>
          replaceRoute({
            ...route,
            show: RUN_FILTERS.find((name) => name !== "all" && name === currentTarget.value),
          })
        }
      >
        {RUN_FILTERS.map((name) => (
          <option key={name} value={name}>
            {FILTER_TEXTS[name]}
          </option>
        ))}
      </select>
      <Counts view={view} route={route} />
    </div>
  );
}

function Counts({ view, route }: { readonly view: RunView; readonly route: RunRoute }) {
  void view.state.structure.value;
  const all = view.state.agents.length;
  const { matches, folded } = view.listing.value;
  const { words, show } = view.filter.value;
  if (words !== "" || show !== "all")
    return (
      <span class="count">
        {formatFullCount(matches)} of {formatFullCount(all)}
        <button
          class="link"
          onClick={() => {
            focusTree();
            replaceRoute({ ...route, q: undefined, show: undefined });
          }}
        >
          show all
        </button>
      </span>
    );
  return (
    <span class="count">
      {formatFullCount(all)} {all === 1 ? "agent" : "agents"}
      {folded > 0 && `, ${formatFullCount(folded)} folded`}
    </span>
  );
}
