// Entry `espalier/viewer`: a local viewer of runs. A server that shows what the journals of a store say, follows runs while they are led, and
// takes answers and requests.

export { viewer, type Viewer } from "./viewer.ts";
export type { ViewerOptions } from "./viewer-options.ts";
