// Entry `espalier/viewer`: a local viewer of runs. A server that shows the runs of a store, follows
// active runs, and accepts answers and actions.

export { startViewer, type Viewer } from "./viewer.ts";
export type { ViewerOptions } from "./viewer-options.ts";
