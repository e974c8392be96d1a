// Iterator, and its helpers.
"use strict";
module.exports = (define, missing) => {
  const prototype = Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]()));
  function* each(iterator) {
    for (let step = iterator.next(); !step.done; step = iterator.next()) yield step.value;
  }
  const helpers = {
    *map(fn) {
      let i = 0;
      for (const value of each(this)) yield fn(value, i++);
    },
    *filter(fn) {
      let i = 0;
      for (const value of each(this)) if (fn(value, i++)) yield value;
    },
    *take(count) {
      let left = Number(count);
      if (!(left > 0)) return;
      for (const value of each(this)) {
        yield value;
        if (--left <= 0) return;
      }
    },
    *drop(count) {
      let left = Number(count);
      for (const value of each(this)) if (--left < 0) yield value;
    },
    *flatMap(fn) {
      let i = 0;
      for (const value of each(this)) yield* fn(value, i++);
    },
    reduce(fn, ...first) {
      const items = [...each(this)];
      if (items.length === 0 && first.length === 0) throw new TypeError("Reduce of a done iterator with no initial value");
      return items.reduce(fn, ...first);
    },
    toArray() {
      return [...each(this)];
    },
    forEach(fn) {
      let i = 0;
      for (const value of each(this)) fn(value, i++);
    },
    some(fn) {
      let i = 0;
      for (const value of each(this)) if (fn(value, i++)) return true;
      return false;
    },
    every(fn) {
      let i = 0;
      for (const value of each(this)) if (!fn(value, i++)) return false;
      return true;
    },
    find(fn) {
      let i = 0;
      for (const value of each(this)) if (fn(value, i++)) return value;
    },
  };
  for (const [name, helper] of Object.entries(helpers)) missing(prototype, name, helper);
  function Iterator() {}
  Iterator.prototype = prototype;
  define(Iterator, "from", (value) => {
    const iterator = value[Symbol.iterator]?.() ?? value;
    return iterator instanceof Iterator ? iterator : each(iterator);
  });
  missing(globalThis, "Iterator", Iterator);
};
