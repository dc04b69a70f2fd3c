// Answers one JSON line for each it reads: the candidate's side of the probe.
import { createInterface } from "node:readline";
import { get, set } from "./src/index.js";

function answer({ call, object, path, value, polluted }) {
  if (call === "get") return get(object, path, value);
  try {
    return set(object, path, value);
  } catch (error) {
    // What it leaves behind when it refuses: the object, and what every other object has got.
    return { error: error.constructor.name, object, polluted: {}[polluted] ?? null };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(JSON.stringify(answer(JSON.parse(line))) + "\n");
}
