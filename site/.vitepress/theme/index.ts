// The default theme without its fonts: those of the reader's system do.
export { default } from "vitepress/theme-without-fonts";
