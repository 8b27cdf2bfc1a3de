"use strict";
// Search: which nodes have a text in their kernel, slices, stage or file.

class Search {
  constructor(state) {
    this.state = state;
    this.found = []; // [graph, node] in the order of the graphs
    this.current = -1;
    this.done = "all ";
    this.query = document.getElementById("query");
    this.field = document.getElementById("field");
    this.query.addEventListener("input", oncePerFrame(() => this.catchUp()));
    this.field.addEventListener("change", () => this.run());
    document.getElementById("search").addEventListener("submit", (event) => {
      event.preventDefault();
      this.step(1);
    });
    document.getElementById("previous").addEventListener("click", () => this.step(-1));
  }

  /** Look for that, as if it had been typed. */
  set(field, text) {
    this.field.value = field;
    this.query.value = text;
    this.run();
  }

  run() {
    this.done = this.asked();
    const wanted = this.query.value.trim().toLowerCase();
    const field = this.field.value;
    const has = (node) => (field === "all" ? Object.values(node.searched) : [node.searched[field]])
      .some((text) => text.includes(wanted));
    this.found = [];
    this.state.hits = this.state.graphs.map((graph) => {
      const nodes = wanted ? graph.inOrder.filter(has) : [];
      this.found.push(...nodes.map((node) => [graph, node]));
      return new Set(nodes.map((node) => node.index));
    });
    this.current = -1;
    this.count();
    this.state.tell("hits");
  }

  count() {
    const all = counted(this.found.length, "hit");
    const told = this.current < 0 ? all : `${this.current + 1} of ${all}`;
    document.getElementById("hits").value = this.query.value.trim() ? told : "";
  }

  asked() {
    return `${this.field.value} ${this.query.value}`;
  }

  /** Look for what stands there now: Enter may come before the next picture, which does so too. */
  catchUp() {
    if (this.done !== this.asked()) this.run();
  }

  step(by) {
    this.catchUp();
    if (!this.found.length) return;
    const { length } = this.found;
    const start = this.current < 0 && by < 0 ? 0 : this.current;
    this.go((start + by + length) % length);
  }

  go(place) {
    this.current = place;
    const [graph, node] = this.found[place];
    this.state.select(graph, node.index);
    this.count();
  }
}
