// The site: pages made by `make-pages.ts` and TypeDoc, searched in the browser. Nothing is asked of any other server.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { slugOf } from "../slug.ts";

const read = (file: string) =>
  JSON.parse(readFileSync(new URL(`../pages/${file}`, import.meta.url), "utf8"));

/** What of markdown-it makes HTML that stands in a text. */
interface Markdown {
  readonly renderer: {
    readonly rules: {
      html_inline?: (tokens: readonly { readonly content: string }[], index: number) => string;
    };
  };
}

export default {
  title: "espalier",
  description:
    "Run trees of agents that cannot run wild: limits, one budget and one trace over the whole tree.",
  srcDir: "pages",
  outDir: "dist",
  cleanUrls: false,
  lastUpdated: false,
  markdown: {
    anchor: {
      slugify: slugOf,
      // TypeDoc links to STOP_CODES as `stop-codes`.
      slugifyWithState: (
        title: string,
        { env }: { readonly env: { readonly relativePath: string } },
      ) =>
        env.relativePath.startsWith("api/") ? slugOf(title).replaceAll("_", "-") : slugOf(title),
    },
    // Its anchors of properties keep the underscore that its links to them do not have.
    config: ({ renderer: { rules } }: Markdown) => {
      rules.html_inline = (tokens, index) =>
        (tokens[index]?.content ?? "").replace(/(?<=<a id="property-)[^"]+/u, (name) =>
          name.replaceAll("_", "-"),
        );
    },
  },
  vite: {
    build: { chunkSizeWarningLimit: 1_000 }, // the API of an entry is one page
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
      { text: "API", link: "/api/" },
    ],
    sidebar: {
      "/": read("sidebar.json"),
      "/api/": read("api/typedoc-sidebar.json"),
    },
  },
};
