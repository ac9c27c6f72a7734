/** One file for the browser: the settings of a repository. */
export { Collection } from "./collection";
export { Events } from "./events";
export { General } from "./general";
export { Protection } from "./protection";
export { Retention } from "./retention";
