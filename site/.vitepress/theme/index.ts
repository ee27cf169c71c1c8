// The default theme without its fonts, which are replaced by those of the reader's system, and with the demo on the home page.
import DefaultTheme from "vitepress/theme-without-fonts";

import Layout from "./layout.vue";

import "./style.css";

export default { extends: DefaultTheme, Layout };
