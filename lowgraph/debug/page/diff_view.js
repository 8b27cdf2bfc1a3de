"use strict";
// What differs between two graphs: their nodes as one list, in the new graph's order.

const MARKS = { same: "=", moved: ">", changed: "~", rewired: "/", added: "+", removed: "-",
                uncompared: "?" };

class DiffView {
  constructor(state) {
    this.state = state;
    const { rows } = state.diff;
    this.hidden = new Set(["same", "moved"]);
    if (rows.every((row) => this.hidden.has(row[2]))) this.hidden.clear();
    this.list = new LongList(30, (place) => this.row(this.rows[place]));
    this.element = make("div", { class: "pane diff" }, this.head(), this.list.element);
    this.filter();
  }

  head() {
    const { verdict, reason, at, rows } = this.state.diff;
    const why = reason ? ` (${reason}${at === null ? "" : `, node ${at}`})` : "";
    const chips = Object.keys(MARKS).map((status) => {
      const count = rows.filter((row) => row[2] === status).length;
      return count ? this.chip(status, count) : null;
    });
    return make("div", { class: "bar" },
      make("strong", { class: `verdict ${this.state.diff.class}`,
                       text: `an update would be: ${verdict}${why}` }), ...chips);
  }

  chip(status, count) {
    const button = make("button", { class: `badge is-${status}`, data: { status },
                                    text: `${MARKS[status]} ${count} ${status}`,
                                    attributes: { type: "button" } });
    button.setAttribute("aria-pressed", !this.hidden.has(status));
    button.addEventListener("click", () => {
      if (!this.hidden.delete(status)) this.hidden.add(status);
      button.setAttribute("aria-pressed", !this.hidden.has(status));
      this.filter();
    });
    return button;
  }

  filter() {
    this.rows = this.state.diff.rows.filter((row) => !this.hidden.has(row[2]));
    this.list.show(this.rows.length);
  }

  row(row) {
    const [before, after, status, , changes] = row;
    const [graph, index] = this.place(row);
    const node = graph.nodes[index];
    const { shown, node: selected } = this.state;
    const chosen = selected !== null && this.state.row(shown, selected) === row;
    const told = clipped(changes.filter(([what]) => !["added", "removed"].includes(what))
      .map(([what, name, old, now]) => `${name || what}: ${old} \u2192 ${now}`).join("; "));
    return make("button", { class: `row is-${status}${chosen ? " selected" : ""}`, title: told,
      attributes: { type: "button" }, on: { click: () => this.state.select(graph, index) } },
      make("span", { class: "mark", text: MARKS[status] }),
      make("span", { class: "number", text: before === null ? "" : before }),
      make("span", { class: "number", text: after === null ? "" : after }),
      make("span", { class: "name", text: clipped(node.name) }),
      make("span", { class: "stage", text: clipped(node.stage) }),
      make("span", { class: "what", text: told }));
  }

  /** Where a row leads: into the new graph, or where that has no such node into the old one. */
  place([before, after]) {
    const { graphs } = this.state;
    return after === null ? [graphs[0], before] : [graphs[1], after];
  }

  refresh() {
    this.list.draw();
  }

  reveal() {
    const { node, shown } = this.state;
    const place = node === null ? -1 : this.rows.indexOf(this.state.row(shown, node));
    if (place >= 0) this.list.reveal(place);
    this.list.draw();
  }

  focus() {}
}
