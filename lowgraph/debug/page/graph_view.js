"use strict";
// A graph's picture. Only what is in sight is in the page, so that its size does not matter.

const AROUND = 300; // pixels beyond the window that are drawn too

class GraphView {
  constructor(state, graph) {
    this.state = state;
    this.graph = graph;
    this.drawn = new Map();
    this.edges = new EdgeLayer(graph);
    this.frames = make("div", { class: "frames" });
    this.boxes = make("div", { class: "boxes" });
    this.scaled = make("div", { class: "scaled" }, this.frames, this.edges.element, this.boxes);
    this.scene = make("div", { class: "scene" }, this.scaled);
    this.scroller = make("div", { class: "scroller", attributes: { tabindex: "-1" } }, this.scene);
    this.note = make("p", { class: "note", attributes: { hidden: "" } });
    this.overview = new Overview(state, graph, this.scroller);
    const title = state.diff ? ["old", "new"][graph.number] : "";
    const heading = title ? make("h2", { text: `${title}: ${graph.label}` }) : null;
    this.element = make("div", { class: "pane" }, heading, this.note,
                        make("div", { class: "with-overview" }, this.scroller,
                             this.overview.canvas));
    this.refresh = oncePerFrame(() => this.draw());
    this.scroller.addEventListener("scroll", this.refresh);
    this.boxes.addEventListener("click", (event) => {
      const box = event.target.closest(".node");
      if (box) state.select(graph, Number(box.dataset.index));
    });
    new ResizeObserver(this.refresh).observe(this.scroller);
  }

  /** The part of the picture that is in sight: [left, top, right, bottom]. */
  window() {
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.scroller;
    const { scale } = this.state;
    return [scrollLeft / scale - AROUND, scrollTop / scale - AROUND,
            (scrollLeft + clientWidth) / scale + AROUND,
            (scrollTop + clientHeight) / scale + AROUND];
  }

  draw() {
    if (!this.element.isConnected) return;
    this.size();
    const window = this.window();
    this.drawNodes(window);
    this.drawFrames(window);
    const left = this.edges.draw(window, this.selected(), this.state.path);
    this.note.hidden = !left;
    const told = "in this part not drawn; select a node for its own";
    this.note.textContent = `${counted(left, "edge")} ${told}`;
    this.overview.draw();
  }

  /** The selected node of this graph; in the other pane of a comparison, its twin. */
  selected() {
    const { node, shown } = this.state;
    if (node === null) return null;
    return shown === this.graph ? node : this.state.twin(shown, node);
  }

  /** Give the picture its size; only then can it be scrolled. */
  size() {
    const { scale } = this.state;
    const [width, height] = this.graph.size;
    this.scene.style.width = `${width * scale}px`;
    this.scene.style.height = `${height * scale}px`;
    this.scaled.style.transform = `scale(${scale})`;
  }

  drawNodes([left, top, right, bottom]) {
    const list = this.graph.downwards;
    const { row } = this.graph;
    const wanted = new Set();
    for (let at = firstFrom(list, (node) => node.y + row, top); at < list.length; at += 1) {
      const node = list[at];
      if (node.y > bottom) break;
      if (node.x + node.width >= left && node.x <= right) wanted.add(node.index);
    }
    for (const [index, box] of this.drawn) {
      if (!wanted.has(index)) {
        box.remove();
        this.drawn.delete(index);
      }
    }
    for (const index of wanted) {
      if (!this.drawn.has(index)) this.add(this.graph.nodes[index]);
      this.mark(this.graph.nodes[index], this.drawn.get(index));
    }
  }

  add(node) {
    const us = node.us === null ? "" : ` \u00b7 ${node.us.toFixed(1)} us`;
    const detail = node.summary || clipped(fileName(node.where) || node.kind);
    const box = make("button", {
      title: `${node.name}\n${node.stage}\n${node.where}`, data: { index: node.index },
      attributes: { type: "button" },
    }, make("span", { class: "name", text: clipped(node.name) }),
       make("span", { class: "number", text: `${node.index}${us}` }),
       make("span", { class: "detail", text: detail }));
    Object.assign(box.style, { left: `${node.x}px`, top: `${node.y}px`,
                               width: `${node.width}px`, height: `${this.graph.row}px` });
    const hue = this.graph.hue(node.stage);
    if (hue !== null) box.style.setProperty("--hue", hue);
    this.drawn.set(node.index, box);
    this.boxes.append(box);
  }

  mark(node, box) {
    const { path, memory, shown } = this.state;
    const looks = {
      node: true,
      plain: this.graph.hue(node.stage) === null,
      kernel: node.kind === "kernel",
      off: !node.enabled,
      hit: this.state.hits[this.graph.number].has(node.index),
      user: memory !== null && shown === this.graph && node.slices.has(memory),
      path: path && node.onPath,
      dim: path && !node.onPath,
      selected: node === this.selected(),
    };
    const named = Object.keys(looks).filter((look) => looks[look]);
    const status = this.state.diff ? ["compared", `is-${node.status}`] : [];
    box.className = [...named, ...status].join(" ");
    box.tabIndex = looks.selected || (this.state.node === null && node.at === 0) ? 0 : -1;
    box.setAttribute("aria-pressed", looks.selected);
  }

  drawFrames([, top, , bottom]) {
    const { groups, sections, lanes, bodies } = this.graph;
    const seen = groups.filter(([, y, , height]) => y < bottom && y + height > top);
    const made = seen.map(([x, y, width, height, stage]) => {
      const name = make("span", { text: clipped(stage), title: stage });
      const frame = make("div", { class: "group" }, name);
      Object.assign(frame.style, { left: `${x}px`, top: `${y}px`, width: `${width}px`,
                                   height: `${height}px` });
      frame.style.setProperty("--hue", this.graph.hue(stage));
      return frame;
    });
    for (const [x, y, stream] of lanes) {
      if (y > bottom || y < top - 50) continue;
      const name = make("div", { class: "lane", text: streamName(stream) });
      Object.assign(name.style, { left: `${x}px`, top: `${y}px` });
      made.push(name);
    }
    for (const [body, y] of sections.filter(([one]) => one > 0)) {
      if (y > bottom || y < top - 50) continue;
      const [label, parent] = bodies[body];
      const known = parent === null || label.endsWith(`node ${parent}`);
      const told = known ? label : `${label}, run by node ${parent}`;
      const title = make("h3", { class: "section", text: told });
      title.style.top = `${y}px`;
      made.push(title);
    }
    this.frames.replaceChildren(...made);
  }

  /** Bring the selected node into sight. */
  reveal() {
    const node = this.selected();
    if (!node || !this.element.isConnected) return;
    this.size();
    const { scale } = this.state;
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.scroller;
    const [x, y] = [node.x * scale, node.y * scale];
    if (y < scrollTop + 30 || y + this.graph.row * scale > scrollTop + clientHeight - 30) {
      this.scroller.scrollTop = y - clientHeight / 2;
    }
    if (x < scrollLeft || x + node.width * scale > scrollLeft + clientWidth) {
      this.scroller.scrollLeft = x - 30;
    }
    this.draw();
  }

  focus() {
    const node = this.selected();
    const box = node && this.drawn.get(node.index);
    if (box) box.focus({ preventScroll: true });
  }
}
