import { firstRun } from "./preload-run.ts"; // Before all others.

import { render } from "preact";

import { App } from "./app/app.tsx";
import { keepFocus } from "./app/focus.ts";
import { listenToKeys } from "./app/keys.ts";
import "./styles/viewer.css";

listenToKeys();
keepFocus();
render(<App firstRun={firstRun} />, document.body);
