/**
 * What the pages of objects load when it is first shown.  It is one file: with two, the bundler
 * moves the code that all pages share out of the main file, and the first page takes one step more.
 */
export { ImportDialog } from "./importing";
export { UseDialog, Uses } from "./use";
