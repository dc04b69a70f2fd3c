import assert from "node:assert/strict";
import { test } from "node:test";
import { get, set } from "../src/index.js";

test("zero is a value", () => assert.equal(get({ a: { b: 0 } }, "a.b", 7), 0));
test("false and the empty string are values", () => {
  assert.equal(get({ a: false }, "a", true), false);
  assert.equal(get({ a: "" }, "a", "x"), "");
});
test("a value of null falls back", () => assert.equal(get({ a: null }, "a", "x"), "x"));
test("goes through zero", () => assert.equal(get({ a: "" }, "a.length", "x"), 0));
test("the prototype is out of reach", () => {
  assert.throws(() => set({}, "__proto__.polluted", 1), TypeError);
  assert.equal({}.polluted, undefined);
});
test("an unsafe name anywhere is refused", () => {
  assert.throws(() => set({ a: {} }, "a.constructor.prototype.x", 1), TypeError);
});
test("each of the three names is refused, first, last and between", () => {
  for (const name of ["__proto__", "constructor", "prototype"]) {
    for (const path of [name, `${name}.x`, `a.${name}`, `a.b.${name}.x`, `a[0].${name}`]) {
      const object = { a: { b: {} } };
      assert.throws(() => set(object, path, 1), TypeError, path);
      assert.deepEqual(object, { a: { b: {} } }, path);
      assert.equal(Object.getPrototypeOf(object), Object.prototype, path);
    }
  }
});
test("names that only look unsafe are set", () => {
  assert.deepEqual(set({}, "proto.constructors[0]", 1), { proto: { constructors: [1] } });
});
test("null on the way falls back", () => {
  assert.equal(get({ a: null }, "a.b", "x"), "x");
  assert.equal(get(undefined, "a", "x"), "x");
});
test("usual paths are set", () => assert.deepEqual(set({}, "a.b", 1), { a: { b: 1 } }));
