// Source, loop nest, LLVM and assembly side by side; a line that is pointed at or clicked lights
// up what it became and what it came from.

const { html } = viewer;
const MOST_LINES = 30000;

/** The op that a line of a loop nest does. */
const opOf = (line) => /= (\w+)\(/.exec(line)?.[1] ?? `reduce_${/= (\w+) /.exec(line)?.[1]}`;

class CodePanes {
  constructor(app) {
    this.app = app;
    this.call = null;
    this.shown = { source: true, nest: true, llvm: true, asm: true };
    this.file = null;
    this.panes = {};
    this.body = html("div", { class: "columns" });
    for (const [key, title] of [["source", "Source"], ["nest", "Loop nest"], ["llvm", "LLVM"],
      ["asm", "Assembly"]]) {
      const head = html("div", { class: "head" }, html("b", {}, title), html("span", { class: "what" }),
        html("button", { class: "close", title: `Hide ${title}`, "aria-label": `Hide ${title}`,
          onclick: () => this.hide(key) }, "×"));
      const text = html("div", { class: `code ${key}`, tabindex: 0, "aria-label": title });
      this.panes[key] = { head, text, pane: html("section", { class: "column" }, head, text), lines: [] };
      this.body.append(this.panes[key].pane);
    }
    this.panes.source.text.addEventListener("click", (e) => this.sourceClicked(e));
    this.panes.nest.text.addEventListener("click", (e) => this.nestClicked(e));
    for (const key of ["llvm", "asm"]) {
      this.panes[key].text.addEventListener("click", (e) => this.lineClicked(key, e));
    }
  }

  hide(key) {
    this.shown[key] = false;
    this.panes[key].pane.hidden = true;
    if (Object.values(this.shown).every((s) => !s)) this.showAll();
  }

  showAll() {
    for (const key of Object.keys(this.panes)) {
      this.shown[key] = true;
      this.panes[key].pane.hidden = false;
    }
  }

  /** Follow the selection: its source, and the first call that does its work. */
  update() {
    const { app } = this;
    const uids = app.primary !== null ? [app.primary] : [...app.selected];
    this.source(uids);
    const calls = app.graph.calls(uids);
    const wanted = app.call !== null && calls.includes(app.call) ? app.call
      : calls.find((c) => app.graph.code.calls[c].main) ?? calls[0] ?? null;
    this.kernel(wanted, uids);
  }

  what(key, text) {
    this.panes[key].head.querySelector(".what").textContent = text;
  }

  // --- source --------------------------------------------------------------------------------

  source(uids) {
    const { graph } = this.app;
    const placed = uids.map((u) => graph.nodes[u]).filter((n) => n.file);
    const file = placed.find((n) => this.app.data.sources[n.file])?.file ?? placed[0]?.file
      ?? this.file ?? this.firstFile();
    if (!file) {
      this.what("source", "");
      this.say("source", "No source: the graph does not say where it comes from.");
      return;
    }
    const key = `${graph.name}\n${this.app.stage.index}\n${file}`;
    if (this.sourceKey !== key) {
      this.sourceKey = key;
      this.drawSource(file);
    }
    const lit = new Set();
    for (const n of placed) {
      if (n.file !== file) continue;
      const end = Math.min(graph.data.nodes[n.uid][5], n.line + 12);
      for (let l = n.line; l <= Math.max(end, n.line); l += 1) lit.add(l);
    }
    this.light("source", lit);
  }

  firstFile() {
    const { graph, stage } = this.app;
    const counts = new Map();
    for (const u of stage.order) {
      const { file } = graph.nodes[u];
      if (this.app.data.sources[file]) counts.set(file, (counts.get(file) ?? 0) + 1);
    }
    const own = (file) => (file.startsWith("cellc/") ? 0 : 1);
    return [...counts].sort((a, b) => own(b[0]) - own(a[0]) || b[1] - a[1])[0]?.[0] ?? null;
  }

  drawSource(file) {
    this.file = file;
    this.what("source", file);
    const { graph, stage } = this.app;
    const counts = new Map();
    for (const u of stage.order) {
      const n = graph.nodes[u];
      if (n.file === file) counts.set(n.line, (counts.get(n.line) ?? 0) + 1);
    }
    const text = this.app.data.sources[file];
    if (text === undefined) {
      this.say("source", `The text of ${file} is not in this report.`);
      return;
    }
    this.fill("source", text.split("\n"), (i) => counts.get(i + 1) ?? "");
  }

  sourceClicked(e) {
    const line = Number(e.target.closest(".line")?.dataset.line);
    if (!line) return;
    const { graph, stage } = this.app;
    const uids = stage.order.filter((u) => graph.nodes[u].file === this.file && graph.nodes[u].line === line
      && graph.nodes[u].op !== "constant");
    if (uids.length) this.app.select(uids, { show: true, primary: uids.length === 1 ? uids[0] : null });
  }

  // --- kernels -------------------------------------------------------------------------------

  async kernel(number, uids) {
    const { graph } = this.app;
    const call = number === null ? null : graph.code.calls[number];
    this.nest(call, uids);
    if (this.call === number && this.graph === graph) return;
    this.call = number;
    this.graph = graph;
    if (!call || call.kernel === undefined) {
      for (const key of ["llvm", "asm"]) {
        this.what(key, call?.label ?? "");
        this.say(key, call ? "No kernel: a copy, or a call of Python."
          : uids.length ? "No kernel does this by itself: it is inlined where it is read, a view, "
            + "or computed once, when weights are bound." : "Select a node or a Cell.");
      }
      return;
    }
    const shown = await viewer.kernelText(call.kernel);
    if (this.call !== number) return;
    this.text = shown;
    if (!call.nest) this.tiles(call, shown.llvm);
    const label = `${call.label} · kernel ${call.kernel}`;
    this.what("llvm", label);
    this.what("asm", label);
    this.fill("llvm", shown.llvm.split("\n"));
    this.fill("asm", shown.asm.split("\n"));
    const begin = this.panes.asm.lines[shown.lines.findIndex((l) => l > 0)];
    if (begin) this.panes.asm.text.scrollTop = begin.offsetTop;  // behind the constants
    this.back = new Map();
    shown.lines.forEach((l, i) => {
      if (!l) return;
      if (!this.back.has(l)) this.back.set(l, []);
      this.back.get(l).push(i + 1);
    });
  }

  nest(call, uids) {
    this.what("nest", call?.label ?? "");
    const text = call?.nest;
    if (!text) {
      this.say("nest", call ? "This kernel is written by tuned rules, not from a loop nest: see its "
        + "LLVM text." : "");
      this.nestText = null;
      return;
    }
    if (this.nestText !== text) {
      this.nestText = text;
      this.fill("nest", text.trimEnd().split("\n"), () => "", (t) => this.linked(t));
    }
    const { nodes } = this.app.graph;
    const own = uids.filter((u) => call.nodes.includes(u));
    const places = new Set(uids.map((u) => nodes[u].place));  // of nodes that passes have replaced
    const chosen = (own.length ? own : call.nodes.filter((u) => places.has(nodes[u].place)))
      .map((u) => nodes[u]);
    const marks = chosen.map((n) => `%${n.op}.${n.uid}`);
    const ops = new Set(chosen.map((n) => n.op));
    const lit = new Set();
    text.split("\n").forEach((l, i) => {
      const named = marks.some((m) => l.includes(`${m}[`));
      if (uids.length < 40 && (named || ops.has(opOf(l)))) lit.add(i + 1);
    });
    this.light("nest", lit);
  }

  /** Of a kernel that tuned rules write: what it computes, in which tiles. */
  tiles(call, llvm) {
    const { nodes } = this.app.graph;
    const heavy = call.nodes.map((u) => nodes[u]).filter((n) => n.kind === "heavy");
    const names = [...llvm.matchAll(/^define internal \w+ @([\w.]+)\(/gm)].map((m) => m[1]);
    const tiles = names.map((n) => [n, /^(?:(\w+)_)?tile_(\d+)x(\d+)/.exec(n)]).filter(([, m]) => m)
      .map(([, m]) => ({ of: m[1] ?? "", rows: Number(m[2]), columns: Number(m[3]) }))
      .sort((a, b) => a.of.localeCompare(b.of) || b.rows * b.columns - a.rows * a.columns);
    const packs = names.map((n) => /^pack_(\d+)/.exec(n)?.[1]).filter(Boolean);
    if (!tiles.length && !packs.length) return;
    const lines = heavy.flatMap((n) => {
      const reads = (this.app.graph.readsOf(n.uid) ?? []).map((v) => this.app.graph.value(v).type);
      return [`${n.op}.${n.uid}: ${n.types.join(", ")}`, ...reads.map((r) => `  of ${r}`)];
    });
    lines.push(`${viewer.count(call.tasks ?? 1, "task")}, ${(call.flops / 1e6).toPrecision(3)} MFLOP`, "");
    for (const t of tiles) {
      const of = t.of ? `${t.of}: ` : "";
      lines.push(`${of}tile of ${t.rows} x ${t.columns}: ${viewer.count(t.rows, "row")} of`,
        `  ${viewer.count(t.columns, "column")} stay in registers`, "  while the inner axis is summed");
    }
    for (const p of new Set(packs)) lines.push(`pack: an operand is copied first,`, `  in panels of ${p} columns`);
    this.fill("nest", lines);
  }

  /** A line of a nest, its buffers as links to the nodes whose results they hold. */
  linked(text) {
    const out = [];
    let at = 0;
    for (const m of text.matchAll(/%(\w+)\.(\d+)(?=\[)/g)) {
      const uid = Number(m[2]);
      if (this.app.graph.nodes[uid]?.op !== m[1]) continue;
      out.push(text.slice(at, m.index), html("span", { class: "ref", "data-node": uid }, m[0]));
      at = m.index + m[0].length;
    }
    return [...out, text.slice(at)];
  }

  nestClicked(e) {
    const uid = e.target.dataset.node;
    if (uid !== undefined) {
      this.app.goTo(Number(uid));
      return;
    }
    const text = e.target.closest(".line")?.querySelector("span").textContent ?? "";
    const call = this.app.graph.code.calls[this.call];
    const stored = /^\s*%\w+\.(\d+)\[/.exec(text)?.[1];
    const ops = [opOf(text), ...(/\b(select|lt|gt)\(/.test(text) ? ["relu", "where"] : [])];
    const found = call.nodes.filter((u) => (stored ? u === Number(stored)
      : ops.includes(this.app.graph.nodes[u].op)));
    if (!found.length) return;
    const { call: kept } = this;
    const here = [...this.app.graph.carried(found, this.app.stage)];
    this.app.select(here, { primary: here.length === 1 ? here[0] : null, call: kept, show: true });
  }

  /** Light up the lines of the other text that a line of LLVM or assembly goes with. */
  lineClicked(key, e) {
    const line = Number(e.target.closest(".line")?.dataset.line);
    if (!line || !this.text) return;
    const llvm = key === "llvm" ? line : this.text.lines[line - 1];
    if (!llvm) return;
    this.light("llvm", new Set([llvm]), key !== "llvm");
    this.light("asm", new Set(this.back.get(llvm) ?? []), key !== "asm");
  }

  // --- lines ---------------------------------------------------------------------------------

  fill(key, texts, mark = () => "", parts = (t) => [t]) {
    const pane = this.panes[key];
    const some = texts.slice(0, MOST_LINES);
    pane.lines = some.map((text, i) => html("div", { class: "line", "data-line": i + 1 },
      html("i", {}, `${i + 1}`), html("em", {}, `${mark(i)}`), html("span", {}, ...parts(text))));
    const rest = texts.length - some.length;
    pane.text.replaceChildren(...pane.lines, ...(rest ? [`… ${rest} more lines`] : []));
    pane.text.scrollTop = 0;
  }

  /** Words in the place of lines. */
  say(key, text) {
    this.panes[key].lines = [];
    this.panes[key].text.replaceChildren(html("p", { class: "hint" }, text));
  }

  light(key, numbers, scroll = true) {
    const pane = this.panes[key];
    let first = null;
    for (const [i, e] of pane.lines.entries()) {
      const lit = numbers.has(i + 1);
      if (e.classList.contains("lit") !== lit) e.classList.toggle("lit", lit);
      if (lit) first ??= e;
    }
    if (first && scroll) {
      const top = first.offsetTop;
      const { scrollTop, clientHeight } = pane.text;
      if (top < scrollTop || top > scrollTop + clientHeight - 30) {
        pane.text.scrollTop = Math.max(top - clientHeight / 3, 0);
      }
    }
  }
}

viewer.CodePanes = CodePanes;
