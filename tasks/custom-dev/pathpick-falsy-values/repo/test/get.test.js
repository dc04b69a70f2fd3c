import assert from "node:assert/strict";
import { test } from "node:test";
import { get, set } from "../src/index.js";

test("reads a nested value", () => assert.equal(get({ a: [{ b: 1 }] }, "a[0].b"), 1));
test("falls back", () => assert.equal(get({}, "a.b", "none"), "none"));
test("makes what is missing", () => assert.deepEqual(set({}, "a[0].b", 2), { a: [{ b: 2 }] }));
