"use strict";
// What is selected: a node with its arguments and edges, or a piece of memory with its users.

const MOST_LINKS = 200; // edges, users or arguments listed; the rest is counted

class Inspector {
  constructor(state, search) {
    this.state = state;
    this.search = search;
    this.element = document.getElementById("inspector");
    this.show();
  }

  show() {
    const { shown, node, memory } = this.state;
    const close = make("button", { class: "close", text: "close", attributes: { type: "button" },
                                   on: { click: () => this.state.select(shown, null) } });
    if (memory !== null) this.element.replaceChildren(close, ...this.memory(shown, memory));
    else if (node !== null) this.element.replaceChildren(close, ...this.node(shown, node));
    else this.element.replaceChildren(make("p", { class: "hint", text: "Select a node: click it, " +
      "or press the arrow keys. It shows arguments, source line and edges here." }));
    document.body.classList.toggle("selected", memory !== null || node !== null);
    this.element.scrollTop = 0;
  }

  node(graph, node) {
    const which = this.state.diff ? `${["old", "new"][graph.number]} ` : "";
    const parent = graph.bodies[node.body][1];
    const facts = [
      ["kind", node.enabled ? node.kind : `${node.kind}, switched off`],
      ["stage", node.stage ? link(node.stage, () => this.search.set("stage", node.stage)) : "none"],
      ["launched at", node.where || "not known"],
      ["stream", node.stream === null ? null : streamName(node.stream)],
      ...node.attributes,
      ["time", node.us === null ? null : `${node.us.toFixed(2)} us, its share of the stage's`],
      ["critical path", node.onPath ? "on it" : "not on it"],
      ["runs in", parent === null ? null : this.to(graph, parent)],
    ];
    return [
      make("h2", { text: node.name }),
      make("p", { class: "sub", text: `${which}node ${node.index}` }),
      this.facts(facts.filter(([, value]) => value !== null)), ...this.changes(graph, node),
      ...this.arguments(graph, node),
      ...this.links("waits for", graph, node.waits), ...this.links("then", graph, node.after),
      ...this.bodies(graph, node),
    ];
  }

  facts(rows) {
    const list = make("dl");
    for (const [name, value] of rows) {
      list.append(make("dt", { text: name.replaceAll("_", " ") }), make("dd", {}, value));
    }
    return list;
  }

  arguments(graph, node) {
    if (!node.arguments.length) return [];
    const body = make("tbody");
    for (const [name, type, value, memory, offset, access] of
         node.arguments.slice(0, MOST_LINKS)) {
      const shown = memory === null ? value : make("span", {}, this.slice(graph, memory),
                                                   offset ? ` + ${offset}` : "");
      const owner = memory === null ? "" : graph.memory[memory].owner;
      body.append(make("tr", {}, make("th", { text: name, attributes: { scope: "row" } }),
        make("td", {}, shown, make("small", { text: [type, owner].filter(Boolean).join(", of ") })),
        make("td", { class: access, text: access })));
    }
    const more = node.arguments.length - MOST_LINKS;
    return [make("h3", { text: "arguments" }), make("table", { class: "arguments" }, body),
            more > 0 ? make("p", { text: `and ${counted(more, "argument")} more` }) : ""];
  }

  slice(graph, memory) {
    const { name, address, alive } = graph.memory[memory];
    const told = alive ? name : `${name} (given back)`;
    return link(told, () => this.state.selectMemory(graph, memory), address);
  }

  to(graph, index, extra) {
    const other = graph.nodes[index];
    return make("span", { class: "edge-link" },
      link(`${index} ${other.name}`, () => this.state.select(graph, index), other.stage),
      extra ? make("small", { text: extra }) : null);
  }

  links(title, graph, places, extra) {
    const list = make("ul", { class: "links", data: { edges: title } });
    for (const index of places.slice(0, MOST_LINKS)) {
      list.append(make("li", {}, this.to(graph, index, extra && extra(index))));
    }
    if (!places.length) list.append(make("li", { text: "nothing" }));
    const more = places.length - MOST_LINKS;
    if (more > 0) list.append(make("li", { text: `and ${counted(more, "node")} more` }));
    return [make("h3", { text: `${title} (${places.length})` }), list];
  }

  bodies(graph, node) {
    const list = make("ul", { class: "links" });
    for (const body of graph.inside.get(node.index) || []) {
      const first = graph.inOrder.find((one) => one.body === body);
      const label = graph.bodies[body][0];
      list.append(make("li", {}, first ? link(label, () => this.state.select(graph, first.index))
        : `${label}, empty`));
    }
    return list.children.length ? [make("h3", { text: "runs" }), list] : [];
  }

  changes(graph, node) {
    const row = this.state.row(graph, node);
    if (!row) return [];
    const [, , status, verdict, changes] = row;
    const twin = this.state.twin(graph, node);
    const body = make("tbody");
    for (const [what, name, before, now] of changes) {
      body.append(make("tr", {},
        make("th", { text: `${what} ${name}`, attributes: { scope: "row" } }),
        make("td", {}, make("del", { text: before }), " ", make("ins", { text: now }))));
    }
    const other = twin ? this.to(this.state.graphs[1 - graph.number], twin.index) : "none";
    return [
      make("h3", {}, make("span", { class: `badge is-${status}`, text: status })),
      verdict ? make("p", { text: verdict }) : "",
      make("p", {}, graph.number ? "in the old graph: " : "in the new graph: ", other),
      make("table", { class: "changes" }, body),
    ];
  }

  memory(graph, place) {
    const one = graph.memory[place];
    const at = (position) => this.to(graph, graph.inOrder[position].index);
    const facts = [
      ["size", `${one.size} (${one.nbytes} bytes)`], ["address", one.address], ["role", one.role],
      ["owner", one.owner || "the name itself"],
      ["state", one.alive ? "live" : `given back ${one.where && `at ${one.where}`}`],
      ["first use", one.first === null ? null : at(one.first)],
      ["last use", one.last === null ? null : at(one.last)],
    ];
    return [make("h2", { text: one.name }), make("p", { class: "sub", text: "memory" }),
      this.facts(facts.filter(([, value]) => value !== null)),
      ...this.links("used by", graph, graph.users[place],
                    (index) => graph.access(graph.nodes[index], place))];
  }
}
