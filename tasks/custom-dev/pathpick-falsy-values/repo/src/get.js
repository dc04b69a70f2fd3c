import { parse } from "./parse.js";

/** The value at a path, or the fallback where there is none. */
export function get(object, path, fallback) {
  let value = object;
  for (const key of parse(path)) {
    if (!value) return fallback;
    value = value[key];
  }
  return value || fallback;
}
