import { parse } from "./parse.js";

/** Put a value at a path; what is missing on the way is made: arrays for numbers, objects for names. */
export function set(object, path, value) {
  const keys = parse(path);
  const last = keys.pop();
  let place = object;
  keys.forEach((key, index) => {
    const next = index + 1 < keys.length ? keys[index + 1] : last;
    if (place[key] === undefined) place[key] = typeof next === "number" ? [] : {};
    place = place[key];
  });
  place[last] = value;
  return object;
}
