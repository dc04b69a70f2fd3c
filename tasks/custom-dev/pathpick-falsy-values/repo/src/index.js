export { get } from "./get.js";
export { set } from "./set.js";
