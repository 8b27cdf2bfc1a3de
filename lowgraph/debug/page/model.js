"use strict";
// A graph of the page's data, with what can be looked up in it.

/** A stream by its number. */
function streamName(stream) {
  return stream ? `stream ${stream}` : "stream 0, captured";
}

class Graph {
  constructor(data, number) {
    Object.assign(this, data);
    this.number = number;
    this.hues = new Map(this.stages.map((stage) => [stage.name, stage.hue]));
    this.users = this.memory.map(() => []);
    this.inside = new Map();
    this.bodies.forEach(([, parent], body) => {
      if (parent !== null) this.inside.set(parent, [...(this.inside.get(parent) || []), body]);
    });
    const path = new Set(this.critical.nodes);
    this.nodes.forEach((node, index) => {
      node.index = index;
      node.after = [];
      node.onPath = path.has(index);
      node.status = "";
    });
    for (const node of this.nodes) this.lookUp(node);
    this.inOrder = [...this.nodes].sort((one, other) => one.at - other.at);
    this.downwards = [...this.nodes].sort((one, other) => one.y - other.y || one.x - other.x);
  }

  lookUp(node) {
    for (const start of node.waits) this.nodes[start].after.push(node.index);
    const slices = new Set();
    const told = { reads: new Set(), writes: new Set(), uses: new Set() };
    for (const [, , , memory, , access] of node.arguments) {
      if (memory === null) continue;
      if (!slices.has(memory)) this.users[memory].push(node.index);
      slices.add(memory);
      told[access].add(this.memory[memory].name);
    }
    node.slices = slices;
    node.summary = clipped(Object.entries(told).filter(([, names]) => names.size)
      .sort(([one]) => (one === "writes" ? -1 : 1))
      .map(([access, names]) => `${access} ${[...names].join(", ")}`).join(" \u00b7 "));
    node.searched = {
      kernel: node.name.toLowerCase(),
      slice: [...slices].map((memory) => this.memory[memory].name.toLowerCase()).join("\n"),
      stage: node.stage.toLowerCase(),
      file: node.where.toLowerCase(),
    };
  }

  /** Angle on the colour circle of a stage: that of the outermost one it is in. */
  hue(stage) {
    const place = this.hues.get(stage);
    return place === undefined || stage === "" ? null : Math.round(210 + place * 137.5) % 360;
  }

  /** Nodes on a line with this one, from left to right. */
  beside(node) {
    return this.nodes.filter((one) => one.y === node.y && one.body === node.body)
      .sort((one, other) => one.x - other.x);
  }

  /** How an access of a memory by a node reads: "writes" if any argument does. */
  access(node, memory) {
    const found = node.arguments.filter((one) => one[3] === memory).map((one) => one[5]);
    return ["writes", "uses", "reads"].find((access) => found.includes(access));
  }
}

/** What is selected and searched for, and who wants to hear of a change. */
class State {
  constructor(data) {
    this.graphs = data.graphs.map((graph, number) => new Graph(graph, number));
    this.diff = data.diff;
    this.node = null;
    this.memory = null; // of the graph `shown`
    this.shown = this.graphs[this.graphs.length - 1];
    this.hits = this.graphs.map(() => new Set());
    this.path = false;
    this.scale = 1;
    this.listeners = [];
    this.twins = this.graphs.map(() => new Map());
    this.rowOf = this.graphs.map(() => new Map());
    if (this.diff) this.compare();
  }

  compare() {
    const [old, now] = this.graphs;
    this.diff.rows.forEach((row, place) => {
      const [before, after, status] = row;
      if (before !== null) {
        old.nodes[before].status = status;
        this.rowOf[0].set(before, place);
      }
      if (after !== null) {
        now.nodes[after].status = status;
        this.rowOf[1].set(after, place);
      }
      if (before !== null && after !== null) {
        this.twins[0].set(before, after);
        this.twins[1].set(after, before);
      }
    });
  }

  /** The node of the other graph that the selected one was compared with. */
  twin(graph, node) {
    const found = this.twins[graph.number].get(node.index);
    return found === undefined ? null : this.graphs[1 - graph.number].nodes[found];
  }

  row(graph, node) {
    return this.diff ? this.diff.rows[this.rowOf[graph.number].get(node.index)] : null;
  }

  select(graph, index) {
    this.shown = graph;
    this.node = index === null ? null : graph.nodes[index];
    this.memory = null;
    this.tell("selection");
  }

  selectMemory(graph, memory) {
    this.shown = graph;
    this.memory = memory;
    this.tell("selection");
  }

  listen(then) {
    this.listeners.push(then);
  }

  tell(what) {
    for (const then of this.listeners) then(what);
  }
}
