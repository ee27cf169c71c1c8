// How the page of the viewer is built: one HTML, one script, one style sheet, which ask for nothing else.

import { defineConfig } from "vite";

export default defineConfig({
  root: import.meta.dirname,
  // The server writes where it serves the page into the two addresses.
  base: "./",
  build: {
    outDir: "../dist/viewer",
    // The entry of the server stands there, too.
    emptyOutDir: false,
    // The first that know `light-dark()` and set methods.
    target: ["chrome123", "edge123", "firefox127", "safari17.5"],
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    rolldownOptions: {
      output: {
        entryFileNames: "viewer.js",
        assetFileNames: "viewer[extname]",
        codeSplitting: false,
      },
    },
  },
});
