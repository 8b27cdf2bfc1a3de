"use strict";
// Making elements. Text from the graph reaches the page here only, and as text.

const LONGEST = 200; // characters of a name among many

/** An element. options: class, text, title; by name: data, attributes, on (event -> function). */
function make(tag, options, ...children) {
  const element = document.createElement(tag);
  const given = options || {};
  if (given.class) element.className = given.class;
  if (given.text !== undefined) element.textContent = given.text;
  if (given.title) element.title = given.title;
  Object.assign(element.dataset, given.data || {});
  for (const [name, value] of Object.entries(given.attributes || {})) {
    element.setAttribute(name, value);
  }
  for (const [name, then] of Object.entries(given.on || {})) element.addEventListener(name, then);
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** The begin of a text; the rest is in its title, or where it leads. */
function clipped(text) {
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}\u2026` : text;
}

/** A button that looks like a link. */
function link(text, then, title) {
  return make("button", { class: "link", text: clipped(text), title, on: { click: then },
                          attributes: { type: "button" } });
}

function svg(tag, name) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  element.setAttribute("class", name);
  return element;
}

/** Last part of a path with its line: "step.py:78". */
function fileName(where) {
  return where.slice(where.lastIndexOf("/") + 1);
}

function counted(number, thing) {
  return `${number} ${thing}${number === 1 ? "" : "s"}`;
}

function readable(nbytes) {
  let value = nbytes;
  for (const unit of ["bytes", "KiB", "MiB"]) {
    if (value < 1024) return `${unit === "bytes" ? value : value.toFixed(2)} ${unit}`;
    value /= 1024;
  }
  return `${value.toFixed(2)} GiB`;
}

/** Place of the first element of a sorted list whose key is at least that. */
function firstFrom(list, key, least) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(list[middle]) < least) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A function that runs `work` once before the next picture, however often it is called. */
function oncePerFrame(work) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      work();
    });
  };
}

/** A canvas of the size in which it is shown, cleared; drawing is in CSS pixels. */
function freshCanvas(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const { width, height } = canvas.getBoundingClientRect();
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return { context, width, height };
}

const colours = new Map();

/** A colour of the style sheet, for a canvas. Asked for thousands of times: looked up once. */
function colour(name) {
  const key = `${document.documentElement.dataset.theme} ${name}`;
  if (!colours.has(key)) {
    colours.set(key, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  }
  return colours.get(key);
}

/** Rows of a long list: only those in sight are in the page. row(place) makes one. */
class LongList {
  constructor(height, row) {
    this.rowHeight = height;
    this.row = row;
    this.length = 0;
    this.filler = make("div", { class: "filler" });
    this.element = make("div", { class: "long-list", attributes: { tabindex: "0" } }, this.filler);
    this.draw = oncePerFrame(() => this.drawNow());
    this.element.addEventListener("scroll", this.draw);
    new ResizeObserver(this.draw).observe(this.element);
  }

  show(length) {
    this.length = length;
    this.filler.style.height = `${length * this.rowHeight}px`;
    this.drawNow();
  }

  drawNow() {
    const { scrollTop, clientHeight } = this.element;
    const first = Math.max(0, Math.floor(scrollTop / this.rowHeight) - 4);
    const last = Math.min(this.length, Math.ceil((scrollTop + clientHeight) / this.rowHeight) + 4);
    const rows = [];
    for (let place = first; place < last; place += 1) {
      const made = this.row(place);
      made.style.top = `${place * this.rowHeight}px`;
      made.style.height = `${this.rowHeight}px`;
      rows.push(made);
    }
    this.filler.replaceChildren(...rows);
  }

  reveal(place) {
    const top = place * this.rowHeight;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop || top + this.rowHeight > scrollTop + clientHeight) {
      this.element.scrollTop = Math.max(0, top - clientHeight / 3);
    }
  }
}
