"use strict";
// What the graph is, its stages with their times, and what was found.

const MOST_RESULTS = 200;
const MOST_STAGES = 1000;

class Sidebar {
  constructor(state, search) {
    this.state = state;
    this.search = search;
    this.results = make("div", { class: "results" });
    const graph = state.shown;
    document.getElementById("sidebar").append(
      this.results, ...state.graphs.map((one) => this.summary(one)), this.stages(graph),
      this.kernels(graph));
    this.show();
  }

  part(title, open, ...children) {
    const part = make("details", {}, make("summary", { text: title }), ...children);
    part.open = open;
    return part;
  }

  summary(graph) {
    const which = this.state.diff ? `${["old", "new"][graph.number]} graph` : "graph";
    const kinds = graph.kinds.map(([kind, count]) => `${count} ${kind}`).join(", ");
    const notes = graph.notes.slice(0, MOST_RESULTS).map((note) => make("li", { text: note }));
    return this.part(which, true,
      make("p", { class: "label", text: graph.label }),
      make("p", { text: `${counted(graph.nodes.length, "node")}: ${kinds}` }),
      make("p", { text: `${counted(graph.edges, "edge")}, on ${graph.device}` }),
      make("p", { class: "critical", text: `critical path: ${graph.critical.text}` }),
      notes.length ? make("p", { text: "notes" }) : null,
      notes.length ? make("ul", { class: "notes" }, ...notes) : null);
  }

  stages(graph) {
    if (!graph.stages.length) return "";
    const most = graph.stages.reduce(
      (found, stage) => Math.max(found, this.weight(graph, stage)), 0);
    const body = make("tbody");
    for (const stage of graph.stages.slice(0, MOST_STAGES)) {
      const depth = stage.name.split("/").length - 1;
      const short = stage.name.slice(stage.name.lastIndexOf("/") + 1) || "(none)";
      const bar = make("span", { class: "share" });
      bar.style.width = `${(100 * this.weight(graph, stage)) / (most || 1)}%`;
      const hue = graph.hue(stage.name);
      if (hue === null) bar.classList.add("plain");
      else bar.style.setProperty("--hue", hue);
      const name = make("td", {}, link(short, () => this.open(graph, stage), stage.name), bar);
      name.style.paddingLeft = `${Math.min(depth, 6) * 12}px`;
      body.append(make("tr", {}, name, make("td", { text: stage.nodes }),
        graph.timed ? make("td", { text: stage.us.toFixed(1) }) : null));
    }
    const head = make("tr", {}, make("th", { text: "stage" }), make("th", { text: "nodes" }),
                      graph.timed ? make("th", { text: "us" }) : null);
    const more = graph.stages.length - MOST_STAGES;
    return this.part("stages", true,
      make("table", { class: "stages" }, make("thead", {}, head), body),
      more > 0 ? make("p", { text: `and ${counted(more, "stage")} more: search for them` }) : null);
  }

  weight(graph, stage) {
    return graph.timed ? stage.us : stage.nodes;
  }

  open(graph, stage) {
    this.search.set("stage", stage.name);
    this.state.select(graph, stage.first);
  }

  kernels(graph) {
    const counts = new Map();
    for (const { kind, name } of graph.nodes) {
      if (kind === "kernel") counts.set(name, (counts.get(name) || 0) + 1);
    }
    const most = [...counts].sort((one, other) => other[1] - one[1]);
    const rows = most.slice(0, MOST_RESULTS).map(([name, count]) => make("tr", {},
      make("td", {}, link(name, () => this.search.set("kernel", name), name)),
      make("td", { text: count })));
    if (!rows.length) return "";
    return this.part(counted(counts.size, "kernel"), false,
      make("table", { class: "stages" }, make("tbody", {}, ...rows)));
  }

  /** The hits, once something is searched for. */
  show() {
    const { found } = this.search;
    if (!found.length) {
      this.results.replaceChildren();
      return;
    }
    const rows = found.slice(0, MOST_RESULTS).map(([graph, node], place) => {
      const which = this.state.diff ? `${["old", "new"][graph.number]} ` : "";
      return make("li", {}, link(`${which}${node.index} ${node.name}`, () => this.search.go(place),
                                 `${node.stage}\n${node.where}`));
    });
    const more = found.length - MOST_RESULTS;
    if (more > 0) rows.push(make("li", { text: `and ${counted(more, "hit")} more: n and N` }));
    this.results.replaceChildren(this.part(counted(found.length, "hit"), true,
                                           make("ul", { class: "links" }, ...rows)));
  }
}
