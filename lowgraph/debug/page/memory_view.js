"use strict";
// Memory over one replay: a bar a slice from its first use to its last, and the bytes in use.

const LINE = 24;
const SHORT = 150; // pixels that a name needs
const KEYS = [["slice", "by slice"], ["address", "by address"]];

class MemoryView {
  constructor(state, graph) {
    this.state = state;
    this.graph = graph;
    this.mode = "slice";
    this.byUse = graph.memory.map((one, place) => place);
    this.byUse.sort((one, other) => this.before(one, other));
    this.canvas = make("canvas", { class: "bars" });
    this.labels = make("div", { class: "labels" });
    this.filler = make("div", { class: "filler" }, this.canvas, this.labels);
    this.scroller = make("div", { class: "scroller", attributes: { tabindex: "0" } }, this.filler);
    this.curve = make("canvas", { class: "curve", title: "bytes in use; click: the node there" });
    this.told = make("p", { class: "note" });
    this.buttons = KEYS.map(([mode, text]) => make("button", {
      text, data: { mode }, attributes: { type: "button" },
      on: { click: () => this.choose(mode) } }));
    const roles = [...new Set(graph.memory.map((one) => one.role))];
    const key = make("span", { class: "key" }, ...["writes", "reads", "uses", ...roles].map(
      (name) => make("span", { class: name, text: name })));
    const empty = graph.memory.length ? null
      : make("p", { class: "hint", text: "No argument of this graph points into known memory." });
    const heading = state.diff ? make("h2", { text: `new: ${graph.label}` }) : null;
    this.element = make("div", { class: "pane memory" }, heading,
      make("div", { class: "bar" }, ...this.buttons, key, this.told), this.curve, empty,
      this.scroller);
    this.refresh = oncePerFrame(() => this.draw());
    this.scroller.addEventListener("scroll", this.refresh);
    new ResizeObserver(this.refresh).observe(this.scroller);
    this.curve.addEventListener("click", (event) => this.pickNode(event.offsetX));
    this.canvas.addEventListener("click", (event) => this.pick(event));
    this.choose("slice");
  }

  before(one, other) {
    const [a, b] = [this.graph.memory[one], this.graph.memory[other]];
    const start = (memory) => (memory.first === null ? Infinity : memory.first);
    return start(a) - start(b) || a.last - b.last || b.nbytes - a.nbytes || one - other;
  }

  choose(mode) {
    this.mode = mode;
    for (const button of this.buttons) {
      button.setAttribute("aria-pressed", button.dataset.mode === mode);
    }
    const sizes = this.graph.memory.map((one) => one.height);
    // The largest first, so that what lies in it is drawn above it.
    this.items = mode === "slice" ? this.byUse
      : [...this.byUse].sort((one, other) => sizes[other] - sizes[one]);
    this.top = new Map(this.byUse.map((place, line) => [
      place, mode === "slice" ? line * LINE : this.graph.memory[place].y]));
    const ends = this.items.map((place) => this.top.get(place) + this.height(place));
    this.filler.style.height = `${ends.reduce((most, end) => Math.max(most, end), 0) + 8}px`;
    this.refresh();
  }

  height(place) {
    return this.mode === "slice" ? LINE : this.graph.memory[place].height;
  }

  /** Pixels of the column of names, and of the time beside it. */
  columns() {
    const width = this.scroller.clientWidth;
    const names = Math.min(this.mode === "slice" ? 240 : 110, width * 0.4);
    return [names, width - names - 8];
  }

  x(position) {
    const [names, time] = this.columns();
    return names + (position / Math.max(1, this.graph.nodes.length)) * time;
  }

  draw() {
    if (!this.element.isConnected) return;
    this.drawCurve();
    this.canvas.style.height = `${this.scroller.clientHeight}px`;
    const { context, height } = freshCanvas(this.canvas);
    const { scrollTop } = this.scroller;
    const labels = [];
    for (const place of this.items) {
      const top = this.top.get(place) - scrollTop;
      if (top > height || top + this.height(place) < 0) continue;
      this.drawBar(context, place, top);
      labels.push(this.label(place));
    }
    this.labels.replaceChildren(...labels);
    this.drawAddresses(context, height);
    this.drawCursor(context, height);
  }

  drawBar(context, place, top) {
    const one = this.graph.memory[place];
    if (one.first === null) return;
    const [left, right] = [this.x(one.first), this.x(one.last + 1)];
    const tall = Math.max(2, this.height(place) - 4);
    const chosen = this.state.memory === place && this.state.shown === this.graph;
    context.fillStyle = colour(chosen ? "--bar-chosen" : `--bar-${one.role}`);
    context.fillRect(left, top + 2, Math.max(2, right - left), tall);
    context.strokeStyle = colour("--line");
    context.strokeRect(left + 0.5, top + 2.5, Math.max(1, right - left - 1), tall - 1);
    const wide = Math.max(1.5, this.x(1) - this.x(0) - 1);
    for (const index of this.graph.users[place]) {
      const node = this.graph.nodes[index];
      context.fillStyle = colour(`--${this.graph.access(node, place)}`);
      context.fillRect(this.x(node.at), top + tall - 3, wide, 4);
    }
  }

  label(place) {
    const one = this.graph.memory[place];
    const beside = this.mode === "slice";
    const name = clipped(one.name);
    const text = beside ? name : `${name} \u00b7 ${one.size}`;
    const button = make("button", { title: `${one.name}, ${one.size} at ${one.address}`,
      data: { memory: place }, attributes: { type: "button" },
      on: { click: () => this.state.selectMemory(this.graph, place) } },
      make("span", { class: "name", text }), beside ? make("small", { text: one.size }) : null);
    const [left, width] = beside || one.first === null ? [0, this.columns()[0]] : this.room(one);
    Object.assign(button.style, { left: `${left}px`, width: `${width - 4}px`,
      top: `${this.top.get(place)}px`, height: `${Math.min(LINE, this.height(place))}px` });
    return button;
  }

  /** Where a bar's name stands: in the bar, or where that is too short beside it. */
  room(one) {
    const [left, right] = [this.x(one.first), this.x(one.last + 1)];
    if (right - left >= SHORT) return [left, right - left];
    return right + SHORT < this.scroller.clientWidth ? [right, SHORT] : [left - SHORT, SHORT];
  }

  /** The addresses, those that have room. */
  drawAddresses(context, height) {
    if (this.mode === "slice") return;
    context.fillStyle = colour("--faint");
    context.font = "11px monospace";
    let last = -LINE;
    const rows = [...this.items].sort((one, other) => this.top.get(one) - this.top.get(other));
    for (const place of rows) {
      const y = this.top.get(place) - this.scroller.scrollTop;
      if (y < -LINE || y > height || y < last + 14) continue;
      context.fillText(this.graph.memory[place].address, 6, y + 14);
      last = y;
    }
  }

  drawCurve() {
    const { context, height } = freshCanvas(this.curve);
    const used = this.graph.in_use;
    const peak = used.reduce((most, one) => Math.max(most, one), 1);
    context.fillStyle = colour("--bar-graph");
    used.forEach((nbytes, position) => {
      const tall = (nbytes / peak) * (height - 4);
      const left = this.x(position);
      context.fillRect(left, height - tall, this.x(position + 1) - left + 1, tall);
    });
    context.fillStyle = colour("--ink");
    context.font = "12px system-ui, sans-serif";
    context.fillText(used.length ? readable(peak) : "", 4, 14);
    context.fillText("in use, at most", 4, 30);
    this.drawCursor(context, height);
    const at = used.indexOf(peak);
    const { node, shown } = this.state;
    const told = at < 0 ? [] : [[peak, this.graph.inOrder[at]]];
    if (node && shown === this.graph) told.push([used[node.at], node]);
    const sums = told.map(([nbytes, one]) => `${readable(nbytes)} at node ${one.index}`);
    this.told.textContent = `slices between first and last use: ${sums.join(", ")}`;
  }

  drawCursor(context, height) {
    const { node, shown } = this.state;
    if (node === null || shown !== this.graph) return;
    context.fillStyle = colour("--accent");
    context.fillRect(this.x(node.at + 0.5) - 1, 0, 2, height);
  }

  position(x) {
    return Math.floor(((x - this.x(0)) / (this.x(1) - this.x(0))));
  }

  pickNode(x) {
    const node = this.graph.inOrder[this.position(x)];
    if (node) this.state.select(this.graph, node.index);
  }

  /** A click on a bar: the use of it there, or else the bar. */
  pick(event) {
    const y = event.offsetY + this.scroller.scrollTop;
    const hit = [...this.items].reverse().find((place) => {
      const one = this.graph.memory[place];
      const top = this.top.get(place);
      return one.first !== null && y >= top && y < top + this.height(place) &&
        event.offsetX >= this.x(one.first) && event.offsetX <= this.x(one.last + 1) + 2;
    });
    if (hit === undefined) return;
    const near = (index) => Math.abs(this.x(this.graph.nodes[index].at + 0.5) - event.offsetX);
    const use = this.graph.users[hit].reduce((best, one) => (near(one) < near(best) ? one : best));
    const reach = Math.max(4, (this.x(1) - this.x(0)) / 2);
    if (near(use) <= reach) this.state.select(this.graph, use);
    else this.state.selectMemory(this.graph, hit);
  }

  reveal() {
    const { memory, shown } = this.state;
    if (memory !== null && shown === this.graph && this.element.isConnected) {
      const top = this.top.get(memory);
      const { scrollTop, clientHeight } = this.scroller;
      if (top < scrollTop || top + LINE > scrollTop + clientHeight) {
        this.scroller.scrollTop = top - clientHeight / 3;
      }
    }
    this.refresh();
  }

  focus() {}
}
