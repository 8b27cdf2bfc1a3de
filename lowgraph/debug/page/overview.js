"use strict";
// The whole graph as a strip: stages by colour, hits, the critical path, and where the window is.

class Overview {
  constructor(state, graph, scroller) {
    this.state = state;
    this.graph = graph;
    this.scroller = scroller;
    this.canvas = make("canvas", { class: "overview", title: "the whole graph: click or drag",
                                   attributes: { "aria-hidden": "true" } });
    this.base = null; // the nodes, which change with size and theme only
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      this.go(event);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (event.buttons) this.go(event);
    });
  }

  factors(width, height) {
    return [width / this.graph.size[0], Math.min(1, height / this.graph.size[1])];
  }

  go(event) {
    const { width, height } = this.canvas.getBoundingClientRect();
    const [across, down] = this.factors(width, height);
    const { scale } = this.state;
    const { clientWidth, clientHeight } = this.scroller;
    this.scroller.scrollTop = (event.offsetY / down) * scale - clientHeight / 2;
    this.scroller.scrollLeft = (event.offsetX / across) * scale - clientWidth / 2;
  }

  draw() {
    const { context, width, height } = freshCanvas(this.canvas);
    if (!width || !height) return;
    const [across, down] = this.factors(width, height);
    this.drawBase(width, height, across, down);
    context.drawImage(this.base.canvas, 0, 0, width, height);
    this.drawMarks(context, width, across, down);
    const { scale } = this.state;
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.scroller;
    context.strokeStyle = colour("--accent");
    context.lineWidth = 1.5;
    context.strokeRect((scrollLeft / scale) * across + 1, (scrollTop / scale) * down + 1,
                       Math.min(width, (clientWidth / scale) * across) - 2,
                       Math.max(4, (clientHeight / scale) * down - 2));
  }

  drawBase(width, height, across, down) {
    const ratio = window.devicePixelRatio || 1;
    const key = [width, height, ratio, document.documentElement.dataset.theme].join(" ");
    if (this.base && this.base.key === key) return;
    const canvas = document.createElement("canvas");
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    for (const node of this.graph.nodes) {
      context.fillStyle = this.fill(node);
      context.fillRect(node.x * across, node.y * down, Math.max(1, node.width * across),
                       Math.max(1, this.graph.row * down));
    }
    this.base = { canvas, key };
  }

  fill(node) {
    if (this.state.diff) return colour(`--${node.status}`);
    const hue = this.graph.hue(node.stage);
    return hue === null ? colour("--plain") : `hsl(${hue} 45% 60%)`;
  }

  drawMarks(context, width, across, down) {
    const mark = (nodes, fill, left, wide) => {
      context.fillStyle = fill;
      for (const node of nodes) {
        context.fillRect(left, node.y * down, wide, Math.max(1.5, this.graph.row * down));
      }
    };
    const { path, memory, shown, hits } = this.state;
    if (path) mark(this.graph.nodes.filter((node) => node.onPath), colour("--path"), 0, 4);
    const found = [...hits[this.graph.number]].map((index) => this.graph.nodes[index]);
    mark(found, colour("--hit"), width - 9, 9);
    if (memory !== null && shown === this.graph) {
      mark(this.graph.users[memory].map((index) => this.graph.nodes[index]),
           colour("--user"), width - 9, 9);
    }
  }
}
