// Removes what a build has made.

import { rmSync } from "node:fs";

rmSync("dist", { recursive: true, force: true });
