import { useEffect, useRef } from "preact/hooks";

const KEYS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  Anywhere: {
    "?": "these keys",
    "/": "search or filter",
    i: "inbox: the questions of all runs",
    t: "light or dark",
    y: "copy a link to this view",
    Esc: "back",
  },
  Rows: {
    "j k ↑ ↓": "next, previous row",
    "← →": "collapse, expand",
    Enter: "open",
    Space: "preview it without leaving the tree",
  },
  Run: {
    "e E": "next, previous error",
    "1 … 4": "parts of the agent",
    "[ ]": "previous, next step",
    w: "whole request, or its changes",
    f: "all of the time",
    Y: "copy the trace id",
    o: "open in Jaeger",
  },
  Questions: {
    n: "next question",
    a: "approve",
    d: "deny, or report a failure",
    m: "modify, or give a result",
    "Ctrl Enter": "continue, then send: no other key sends",
  },
};

export function Help({ onClose }: { readonly onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="help" aria-labelledby="help-title" onClose={onClose}>
      <header>
        <h2 id="help-title">Keys</h2>
        <button class="small" aria-label="Close" onClick={() => dialog.current?.close()}>
          ✕
        </button>
      </header>
      <div class="help-columns">
        {Object.entries(KEYS).map(([title, keys]) => (
          <section key={title}>
            <h3>{title}</h3>
            <dl>
              {Object.entries(keys).map(([key, does]) => (
                <div key={key}>
                  <dt>
                    {key
                      .split(" ")
                      .map((key) => (key === "…" ? " … " : <kbd key={key}>{key}</kbd>))}
                  </dt>
                  <dd>{does}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </dialog>
  );
}
