// The site: pages made by `make-pages.ts`, searched in the browser. Nothing is asked of any other server.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { boostPage, tokenizeQuery } from "../search.ts";
import { slugOf } from "../slug.ts";

const read = (file: string) =>
  JSON.parse(readFileSync(new URL(`../pages/${file}`, import.meta.url), "utf8"));

/** Lets the search answer 50 ms after the last key. The theme waits 200 ms and has no option for it. */
const quickSearch = {
  name: "quick-search",
  enforce: "pre",
  transform(code: string, id: string): string | undefined {
    if (!id.endsWith("/VPLocalSearchBox.vue")) return undefined;
    if (!code.includes("{ debounce: 200,"))
      throw new Error("Expected the search box of the theme to wait 200 ms.");
    return code.replace("{ debounce: 200,", "{ debounce: 50,");
  },
};

/** The part of markdown-it and of its environment that the index of the search needs. */
interface Markdown {
  readonly options: { highlight?: unknown };
  render(text: string, env: { readonly frontmatter?: { readonly search?: boolean } }): string;
}

/** Renders a page for the index of the search: without colours for its code, which take most of the time of a build. */
function renderPlain(text: string, env: Parameters<Markdown["render"]>[1], md: Markdown): string {
  const { highlight } = md.options;
  md.options.highlight = null;
  try {
    const html = md.render(text, env);
    return env.frontmatter?.search === false ? "" : html;
  } finally {
    md.options.highlight = highlight;
  }
}

export default {
  title: "espalier",
  description:
    "Run trees of agents that cannot run wild: limits, one budget and one trace over the whole tree.",
  head: [["link", { rel: "icon", type: "image/svg+xml", href: "/favicon.svg" }]],
  srcDir: "pages",
  outDir: "dist",
  cleanUrls: false,
  lastUpdated: false,
  markdown: {
    anchor: { slugify: slugOf },
    theme: { light: "github-light-high-contrast", dark: "github-dark-default" }, // readable comments
  },
  vite: {
    plugins: [quickSearch],
    esbuild: { tsconfigRaw: "{}" }, // it does not know the target of the project
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
    logo: "/favicon.svg",
    search: {
      provider: "local",
      options: {
        _render: renderPlain,
        disableDetailedView: true, // it loads each page that it shows
        miniSearch: {
          searchOptions: {
            boostDocument: boostPage,
            tokenize: tokenizeQuery,
            prefix: (term: string) => term.length > 2,
            fuzzy: (term: string) => (term.length > 4 ? 0.2 : false),
          },
        },
      },
    },
    outline: [2, 3],
    nav: [
      { text: "Get started", link: "/guides/first-tree" },
      { text: "Examples", link: "/examples/" },
      { text: "API", link: "/reference/exports" },
    ],
    sidebar: read("sidebar.json"),
  },
};
