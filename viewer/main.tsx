// The page of the viewer begins: the token leaves the address before anything is drawn or asked for.

import { render } from "preact";

import { App } from "./app/app.tsx";
import { listenToKeys } from "./app/keys.ts";
import { takeToken } from "./data/token.ts";
import "./styles/viewer.css";

takeToken();
listenToKeys();
render(<App />, document.body);
