// The site: pages made by `make-pages.ts`, searched in the browser. Nothing is asked of any other server.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { slugOf } from "../slug.ts";

const read = (file: string) =>
  JSON.parse(readFileSync(new URL(`../pages/${file}`, import.meta.url), "utf8"));

export default {
  title: "espalier",
  description:
    "Run trees of agents that cannot run wild: limits, one budget and one trace over the whole tree.",
  srcDir: "pages",
  outDir: "dist",
  cleanUrls: false,
  lastUpdated: false,
  markdown: {
    anchor: { slugify: slugOf },
  },
  vite: {
    // The theme's links to networks fetch their pictures from a server of icons; there are none here.
    resolve: {
      alias: [
        {
          find: /^.*\/VPSocialLink\.vue$/,
          replacement: fileURLToPath(new URL("./theme/no-social-link.vue", import.meta.url)),
        },
      ],
    },
  },
  themeConfig: {
    search: { provider: "local" },
    outline: [2, 3],
    nav: [
      { text: "First tree", link: "/guides/first-tree" },
      { text: "Examples", link: "/examples/" },
      { text: "API", link: "/reference/exports" },
    ],
    sidebar: read("sidebar.json"),
  },
};
