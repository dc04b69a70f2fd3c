/** The keys of a path such as `a.b[2].c`. */
export function parse(path) {
  const keys = [];
  for (const match of path.matchAll(/([^.[\]]+)|\[(\d+)\]/g)) {
    keys.push(match[2] === undefined ? match[1] : Number(match[2]));
  }
  return keys;
}
