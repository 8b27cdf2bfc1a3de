"use strict";
// The page put together: views, keys, and the state in the address, so that a view can be linked.

const NARROW = 720; // pixels of a phone, as in page.css
const SCALES = [0.4, 0.55, 0.75, 1, 1.25, 1.5];

class Page {
  constructor(data) {
    const state = new State(data);
    this.state = state;
    if (window.innerWidth < NARROW) state.scale = 0.75;
    this.search = new Search(state);
    this.inspector = new Inspector(state, this.search);
    this.sidebar = new Sidebar(state, this.search);
    const graphs = state.graphs.map((graph) => new GraphView(state, graph));
    this.views = { graph: graphs, memory: [new MemoryView(state, state.shown)] };
    if (state.diff) this.views.changes = [new DiffView(state)];
    this.tabs();
    const labels = state.graphs.map((graph) => graph.label);
    document.getElementById("title").textContent = labels.join(" \u2192 ");
    this.theme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    state.listen((what) => this.changed(what));
    this.buttons();
    document.addEventListener("keydown", (event) => this.key(event));
    this.restore(state.diff ? "changes" : "graph");
    window.addEventListener("hashchange", () => this.restore(this.view));
  }

  tabs() {
    const tabs = document.getElementById("tabs");
    for (const name of Object.keys(this.views)) {
      tabs.append(make("button", { text: name, data: { view: name },
        attributes: { type: "button" }, on: { click: () => this.open(name) } }));
    }
  }

  open(name) {
    this.view = name;
    for (const tab of document.getElementById("tabs").children) {
      tab.setAttribute("aria-pressed", tab.dataset.view === name);
    }
    document.body.dataset.view = name;
    document.getElementById("view").replaceChildren(...this.views[name].map((one) => one.element));
    this.each("refresh");
    this.each("reveal");
    this.remember();
  }

  each(what) {
    for (const view of this.views[this.view]) view[what]();
  }

  changed(what) {
    if (what === "selection") {
      this.inspector.show();
      this.each("reveal");
    } else {
      this.sidebar.show();
    }
    this.each("refresh");
    this.remember();
  }

  buttons() {
    const on = (id, then) => document.getElementById(id).addEventListener("click", then);
    on("path", () => this.togglePath());
    on("smaller", () => this.zoom(-1));
    on("larger", () => this.zoom(1));
    on("theme", () => this.otherTheme());
    on("toggle", (event) => event.target.setAttribute(
      "aria-pressed", document.body.classList.toggle("with-sidebar")));
    on("about", () => document.getElementById("help").showModal());
  }

  togglePath() {
    this.state.path = !this.state.path;
    document.getElementById("path").setAttribute("aria-pressed", this.state.path);
    document.body.classList.toggle("with-path", this.state.path);
    this.each("refresh");
    this.remember();
  }

  zoom(by) {
    const place = SCALES.indexOf(this.state.scale) + by;
    this.state.scale = SCALES[Math.max(0, Math.min(SCALES.length - 1, place))];
    this.each("refresh");
    requestAnimationFrame(() => this.each("reveal"));
  }

  theme(name) {
    document.documentElement.dataset.theme = name;
    document.getElementById("theme").textContent = name === "dark" ? "light" : "dark";
  }

  otherTheme() {
    this.theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    this.each("refresh");
    this.remember();
  }

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (document.getElementById("help").open) return;
    if (event.target.matches("input, select")) {
      if (event.key === "Escape") {
        this.search.set("all", "");
        event.target.blur();
      }
      return;
    }
    const then = this.keys()[event.key];
    if (!then) return;
    event.preventDefault();
    then();
  }

  keys() {
    const view = (name) => () => this.views[name] && this.open(name);
    return {
      "/": () => document.getElementById("query").select(),
      n: () => this.search.step(1), N: () => this.search.step(-1),
      c: () => this.togglePath(), t: () => this.otherTheme(),
      g: view("graph"), m: view("memory"), d: view("changes"),
      "+": () => this.zoom(1), "=": () => this.zoom(1), "-": () => this.zoom(-1),
      "?": () => document.getElementById("help").showModal(),
      Escape: () => this.state.select(this.state.shown, null),
      ArrowDown: () => this.walk((node) => node.after),
      ArrowUp: () => this.walk((node) => node.waits),
      ArrowRight: () => this.aside(1), ArrowLeft: () => this.aside(-1),
      Home: () => this.go(this.state.shown.inOrder[0]),
      End: () => this.go(this.state.shown.inOrder[this.state.shown.nodes.length - 1]),
    };
  }

  go(node) {
    if (!node) return;
    this.state.select(this.state.shown, node.index);
    this.each("focus");
  }

  /** To the next node along an edge: that on the same branch, if there is one. */
  walk(ways) {
    const { node, shown } = this.state;
    if (node === null) {
      this.go(shown.inOrder[0]);
      return;
    }
    const next = ways(node).map((index) => shown.nodes[index]);
    this.go(next.find((one) => one.x === node.x) || next[0]);
  }

  aside(by) {
    const { node, shown } = this.state;
    if (node === null) return;
    const line = shown.beside(node);
    this.go(line[line.indexOf(node) + by]);
  }

  /** Write what is shown into the address: #view=memory&node=12 is a link to it. */
  remember() {
    const { node, path, shown } = this.state;
    const { theme } = document.documentElement.dataset;
    const { query, field } = this.search;
    const told = new URLSearchParams({ view: this.view, theme });
    if (node !== null) told.set("node", `${shown.number}.${node.index}`);
    if (path) told.set("path", "1");
    if (query.value) told.set("find", `${field.value}:${query.value}`);
    history.replaceState(null, "", `#${told}`);
  }

  restore(view) {
    const told = new URLSearchParams(location.hash.slice(1));
    if (["light", "dark"].includes(told.get("theme"))) this.theme(told.get("theme"));
    this.view = Object.hasOwn(this.views, told.get("view")) ? told.get("view") : view;
    this.open(this.view);
    if ((told.get("path") === "1") !== this.state.path) this.togglePath();
    const [field, ...text] = (told.get("find") || "").split(":");
    if (text.length && ["all", "kernel", "slice", "stage", "file"].includes(field)) {
      this.search.set(field, text.join(":"));
    }
    const [number, index] = (told.get("node") || "").split(".").map(Number);
    const graph = this.state.graphs[number];
    if (graph && graph.nodes[index]) this.state.select(graph, index);
  }
}

new Page(JSON.parse(document.getElementById("data").textContent));
