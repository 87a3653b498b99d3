// What is shown and selected, and what changes it. Everything else draws from here.

const { html } = viewer;
const KEYS = [["/", "search"], ["Click, Enter", "unfold a Cell, loop or branch; select a node"],
  ["Arrows", "to the next node in a direction"], ["Shift + arrows, drag", "pan"],
  ["Wheel, + −", "zoom"], ["0", "fit the whole graph"], ["1", "natural size"], ["f  u", "fold all, unfold one level"],
  ["[  ]", "the stage before, after"], ["b", "before and after a pass"], ["c o m k r", "code, compare, memory, kernels, ranks"],
  ["g", "from a gradient node to its forward node and back"], ["t", "light and dark"], ["Esc", "select nothing"]];

class App {
  constructor(data) {
    this.data = data;
    this.selected = new Set();
    this.primary = null;
    this.focus = null;
    this.box = null;
    this.call = null;
    this.pass = 0;
    this.base = -1;
    this.before = false;
    this.tab = "Code";
    this.graph = data.graphs[0];
    this.overlays = viewer.overlays(this);
    this.overlay = this.overlays[0];
    this.view = new viewer.GraphView(this);
    this.code = new viewer.CodePanes(this);
    this.start();
  }

  get stage() {
    return this.graph.stages[this.before ? this.base : this.pass];
  }

  start() {
    document.getElementById("title").textContent = this.data.title;
    const graphs = document.getElementById("graphs");
    graphs.append(...this.data.graphs.map((g, i) => html("option", { value: i }, g.name)));
    graphs.hidden = this.data.graphs.length < 2;
    graphs.addEventListener("change", () => this.toGraph(Number(graphs.value)));
    document.getElementById("overlay").addEventListener("change", (e) => this.toOverlay(e.target.value));
    const on = (id, what) => document.getElementById(id).addEventListener("click", what);
    on("zoomin", () => this.view.zoom(1.3));
    on("zoomout", () => this.view.zoom(1 / 1.3));
    on("fit", () => this.view.fit());
    on("foldall", () => this.view.foldAll());
    on("unfold", () => this.view.unfoldLevel());
    on("theme", () => this.theme());
    on("help", () => this.help());
    viewer.wireSearch(this);
    this.tabs();
    this.grip();
    document.addEventListener("keydown", (e) => this.key(e));
    this.refresh();
    if (this.data.compilations) this.toTab("Compilations");
    if (this.graph.stages.length > 1 && this.graph.stages[0].name !== "traced") {
      this.toStage(1);
      this.toTab("Compare");
    }
  }

  /** Draw everything for another graph or stage. */
  refresh(keep = true) {
    this.menu();
    this.view.show(this.graph, this.stage, keep);
    viewer.drawSide(this);
    this.legend();
    this.changed();
  }

  /** Draw what follows from the selection. */
  changed() {
    this.view.paint();
    viewer.drawInspector(this);
    this.pane();
  }

  menu() {
    const select = document.getElementById("overlay");
    select.replaceChildren(...this.overlays.filter((o) => o.available())
      .map((o) => html("option", { value: o.id, selected: o === this.overlay }, o.name)));
  }

  legend() {
    document.getElementById("legend").replaceChildren(...this.overlay.legend().map(({ color, text }) => {
      const mark = html("i", { class: color ? "" : "none" });
      mark.style.background = color;
      return html("span", {}, mark, text);
    }));
  }

  // --- what is shown ---------------------------------------------------------------------------

  toGraph(number) {
    document.getElementById("graphs").value = number;
    this.graph = this.data.graphs[number];
    Object.assign(this, { primary: null, focus: null, box: null, call: null, pass: 0, base: -1, before: false });
    this.selected = new Set();
    if (!this.overlay.available()) this.overlay = this.overlays[0];
    this.refresh(false);
  }

  /** Show a stage, compared with the one before it or with another earlier one. */
  toStage(number, before = false, base = number - 1) {
    if (number < 0 || number >= this.graph.stages.length) return;
    this.base = base;
    const fits = this.overlay.id === "changes" || this.overlay.id === "kinds";
    this.pass = number;
    this.before = before && number > 0;
    if (fits) this.overlay = this.overlays[number
      && (this.graph.stages[number].changed || base < number - 1) ? 1 : 0];
    this.selected = this.graph.carried(this.selected, this.stage);
    if (this.primary !== null && !this.stage.has(this.primary)) {
      this.primary = this.selected.size === 1 ? [...this.selected][0] : null;
    }
    this.refresh();
    if (this.primary !== null) this.show(this.primary);
  }

  /** The side of the pass that is shown. */
  side(before) {
    if (this.pass) this.toStage(this.pass, before, this.base);
  }

  toOverlay(id) {
    this.overlay = this.overlays.find((o) => o.id === id) ?? this.overlays[0];
    this.menu();
    this.legend();
    this.view.paint();
  }

  theme() {
    const dark = getComputedStyle(document.documentElement).colorScheme.trim() === "dark";
    document.documentElement.dataset.theme = dark ? "light" : "dark";
  }

  help() {
    const dialog = document.getElementById("keys");
    dialog.replaceChildren(html("h2", {}, "Keys"), html("dl", {}, ...KEYS.flatMap(([k, what]) =>
      [html("dt", {}, html("kbd", {}, k)), html("dd", {}, what)])),
    html("form", { method: "dialog" }, html("button", {}, "Close")));
    dialog.showModal();
  }

  // --- selection -------------------------------------------------------------------------------

  /** Select nodes.
   *
   * primary: the one that the panes are about; focus: what the keys move from, if it is no node;
   * box: the Cell that is meant; call: the kernel call that the panes keep to; show: bring the
   * first node into view.
   */
  select(uids, { primary = null, focus = null, box = null, call = null, show = false } = {}) {
    this.selected = new Set(uids);
    Object.assign(this, { primary, focus, box, call });
    if (uids.length && !this.opened) this.drawer(true);
    if (show && uids.length) this.show(uids[0]);
    this.changed();
  }

  /** Unfold what is around a node and bring it into view. */
  show(uid) {
    if (!this.stage.has(uid)) return;
    this.view.reveal(uid);
    const item = this.view.visible(uid);
    if (item) this.view.centre(item);
  }

  /** Select a node and show it, at a stage that has it. */
  goTo(uid) {
    if (!this.stage.has(uid)) {
      const at = this.graph.stages.findIndex((s) => s.has(uid));
      Object.assign(this, { pass: at, base: at - 1, before: false });
      this.refresh();
    }
    this.select([uid], { primary: uid, show: true });
  }

  /** Select what a kernel call does, at the last stage if the one that is shown has none of it. */
  showCall(number, open = false) {
    const { nodes } = this.graph.code.calls[number];
    let here = nodes.filter((u) => this.stage.has(u));
    if (!here.length && nodes.length) {
      const pass = this.graph.stages.length - 1;
      Object.assign(this, { pass, base: pass - 1, before: false });
      this.refresh();
      here = nodes;
    }
    this.selected = new Set(here);
    Object.assign(this, { primary: here.length === 1 ? here[0] : null, focus: null, box: null, call: number });
    if (here.length) this.show(here[0]);
    if (open) this.openCode();
    this.changed();
    this.code.kernel(number, here);
  }

  // --- the lower panes -------------------------------------------------------------------------

  tabs() {
    const tabs = document.getElementById("tabs");
    const several = this.data.compilations ? ["Compilations"] : [];
    for (const name of ["Code", "Compare", "Memory", "Kernels", "Ranks", ...several]) {
      tabs.append(html("button", { role: "tab", "data-tab": name, onclick: () => this.toTab(name) }, name));
    }
    tabs.append(html("button", { class: "hide", title: "Hide or show (d)", onclick: () => this.drawer() }, "▾"));
  }

  toTab(name) {
    this.tab = name;
    this.drawer(true);
    if (name === "Code") this.code.showAll();
    this.pane();
  }

  openCode() {
    this.toTab("Code");
  }

  drawer(open = document.body.classList.contains("closed")) {
    document.body.classList.toggle("closed", !open);
    this.opened ||= open;
    this.view.soon();
  }

  pane() {
    for (const b of document.querySelectorAll("#tabs [role=tab]")) {
      b.setAttribute("aria-selected", b.dataset.tab === this.tab);
    }
    const pane = document.getElementById("pane");
    if (this.tab === "Code") {
      if (pane.firstChild !== this.code.body) pane.replaceChildren(this.code.body);
      this.code.update();
      return;
    }
    const key = `${this.tab} ${this.graph.name} ${this.tab === "Compare" ? `${this.base} ${this.pass}` : ""}`;
    if (pane.firstChild?.dataset?.key !== key) {
      const draw = { Compare: viewer.drawCompare, Memory: viewer.drawMemory, Kernels: viewer.drawKernels, Ranks: viewer.drawRanks,
        Compilations: viewer.drawCompilations };
      const made = draw[this.tab](this);
      made.dataset.key = key;
      pane.replaceChildren(made);
    }
    const calls = new Set(this.graph.calls([...this.selected]));
    for (const row of pane.querySelectorAll("[data-call]")) {
      row.classList.toggle("lit", calls.has(Number(row.dataset.call)));
    }
    for (const r of pane.querySelectorAll("[data-collective]")) {
      r.classList.toggle("lit", this.selected.has(Number(r.dataset.collective)));
    }
    for (const r of pane.querySelectorAll("[data-buffer]")) {
      r.classList.toggle("lit", calls.has(this.graph.code.buffers[r.dataset.buffer][5]));
    }
  }

  grip() {
    const grip = document.getElementById("grip");
    const set = (h) => {
      const high = Math.min(Math.max(h, 60), window.innerHeight - 200);
      document.documentElement.style.setProperty("--drawer", `${high}px`);
      this.view.soon();
    };
    grip.addEventListener("pointerdown", (e) => grip.setPointerCapture(e.pointerId));
    grip.addEventListener("pointermove", (e) => { if (e.buttons) set(window.innerHeight - e.clientY); });
    grip.addEventListener("keydown", (e) => {
      const step = { ArrowUp: 30, ArrowDown: -30 }[e.key];
      if (step) set(document.getElementById("drawer").offsetHeight + step);
    });
  }

  // --- keys ------------------------------------------------------------------------------------

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
    const does = {
      "/": () => document.getElementById("search").focus(), "+": () => this.view.zoom(1.3),
      "=": () => this.view.zoom(1.3), "-": () => this.view.zoom(1 / 1.3), 0: () => this.view.fit(),
      1: () => this.view.home(), f: () => this.view.foldAll(), u: () => this.view.unfoldLevel(),
      "[": () => this.toStage(this.pass - 1), "]": () => this.toStage(this.pass + 1),
      b: () => this.side(!this.before), c: () => this.toTab("Code"), m: () => this.toTab("Memory"),
      k: () => this.toTab("Kernels"), d: () => this.drawer(), t: () => this.theme(), "?": () => this.help(),
      r: () => this.toTab("Ranks"), o: () => this.toTab("Compare"), g: () => this.pair(), Escape: () => this.select([]),
    }[e.key];
    if (!does) return;
    e.preventDefault();
    does();
  }

  /** From a gradient node to a forward node it comes from, or back. */
  pair() {
    if (this.primary === null) return;
    const [other] = this.graph.counterparts(this.primary, this.stage);
    if (other !== undefined) this.goTo(other);
  }
}

viewer.app = new App(viewer.load());
document.documentElement.dataset.ready = performance.now().toFixed(0);
