// What the colours of nodes mean: a choice of overlays, each with a legend.

const KINDS = { heavy: "product, convolution", reduce: "reduction", composite: "composition",
  map: "elementwise", move: "shape, layout", control: "control, effect" };
const HUES = { float32: 212, float16: 28, bfloat16: 45, float64: 262, int32: 150, int64: 168,
  bool: 330, uint8: 120, int8: 135, complex64: 290 };

const heat = (share) => `hsl(${Math.round(48 - 46 * share)} 92% ${Math.round(74 - 20 * share)}%)`;
const cold = (share) => `hsl(${Math.round(196 + 50 * share)} 70% ${Math.round(82 - 28 * share)}%)`;
const hue = (n) => `hsl(${Math.round((n * 137.508) % 360)} 62% 66%)`;
const swatch = (color, text) => ({ color, text });

class Overlay {
  constructor(app, id, name) { Object.assign(this, { app, id, name }); }
  get graph() { return this.app.graph; }
  get stage() { return this.app.stage; }
  /** Whether the report holds what it shows. */
  available() { return true; }
  color() { return ""; }
  dims() { return false; }
  legend() { return []; }
}

class Kinds extends Overlay {
  legend() {
    return Object.entries(KINDS).map(([k, text]) => swatch(`var(--${k})`, text));
  }
}

class Parts extends Overlay {
  color(uids) {
    const parts = new Set(uids.map((u) => this.graph.nodes[u].part));
    return parts.size === 1 ? Parts.COLORS[[...parts][0]] : "";
  }
  legend() {
    return Object.entries(Parts.COLORS).map(([k, c]) => swatch(c, k));
  }
}
Parts.COLORS = { forward: "hsl(210 70% 72%)", gradient: "hsl(20 80% 70%)",
  update: "hsl(140 45% 64%)" };

/** What the pass before this stage did, or the pass after it where "before" is asked for. */
class Changes extends Overlay {
  prepare() {
    const key = `${this.app.base} ${this.app.pass} ${this.app.before}`;
    if (this.key === key && this.of === this.graph) return;
    this.key = key;
    this.of = this.graph;
    const change = this.graph.change(this.app.base, this.app.pass);
    const side = this.app.before ? 0 : 1;
    this.sets = { made: new Set(this.app.before ? change.gone : change.new),
      rewritten: new Set(change.rewritten.flatMap((r) => r[side])), rewired: new Set(change.rewired) };
  }
  color(uids) {
    this.prepare();
    const { made, rewritten, rewired } = this.sets;
    const counts = [made, rewritten, rewired].map((s) => uids.filter((u) => s.has(u)).length);
    if (counts[0]) return this.app.before ? "var(--gone)" : "var(--new)";
    if (counts[1]) return "var(--rewritten)";
    return counts[2] ? "var(--rewired)" : "";
  }
  dims(uids, item) { return item.kind === "node" && !this.color(uids); }
  legend() {
    return this.app.before ? [swatch("var(--gone)", "gone after the pass"),
      swatch("var(--rewritten)", "rewritten by it"), swatch("var(--rewired)", "reads other values after it")]
      : [swatch("var(--new)", "new"), swatch("var(--rewritten)", "stands for others"),
        swatch("var(--rewired)", "reads other values")];
  }
}

/** A number for each call of a kernel, as heat: measured time, or estimated cycles. */
class Heat extends Overlay {
  constructor(app, id, name, field, show, ramp) {
    super(app, id, name);
    Object.assign(this, { field, show, ramp });
  }
  available() { return this.graph.code.calls.some((c) => c[this.field]); }
  total() { return this.graph.code.calls.reduce((s, c) => s + (c[this.field] ?? 0), 0); }
  of(uids) {
    return this.graph.calls(uids).reduce((s, i) => s + (this.graph.code.calls[i][this.field] ?? 0), 0);
  }
  color(uids) {
    const part = this.of(uids) / (this.total() || 1);
    return part > 0.0005 ? this.ramp(Math.min(Math.sqrt(part * 3), 1)) : "";
  }
  legend() {
    return [swatch(this.ramp(0.1), "least"), swatch(this.ramp(1), "most"),
      swatch("", `${this.show(this.total())} in ${viewer.count(this.graph.code.calls.length, "kernel call")}`)];
  }
}

class Fusion extends Overlay {
  color(uids) {
    const found = this.graph.calls(uids).filter((c) => this.graph.code.calls[c].main);
    return found.length === 1 || uids.length === 1 && found.length ? hue(found[0]) : "";
  }
  legend() {
    const groups = this.graph.code.calls.filter((c) => c.main && c.nodes.length > 1).length;
    return [swatch(hue(3), "one colour, one kernel call"), swatch("", `${groups} calls do several nodes`)];
  }
}

class Types extends Overlay {
  color(uids) {
    if (uids.length === 1 && this.graph.nodes[uids[0]].op === "cast") return Types.CAST;
    const types = new Set(uids.flatMap((u) => this.graph.nodes[u].types.map((t) => t.split("[")[0])));
    if (types.size !== 1) return "";
    return Types.of([...types][0]);
  }
  legend() {
    const found = new Set(this.stage.order.flatMap((u) => this.graph.nodes[u].types.map((t) => t.split("[")[0])));
    const casts = this.stage.order.filter((u) => this.graph.nodes[u].op === "cast").length;
    return [...[...found].sort().map((t) => swatch(Types.of(t), t)), swatch(Types.CAST, viewer.count(casts, "cast"))];
  }
}
Types.CAST = "hsl(350 78% 64%)";
Types.of = (t) => `hsl(${HUES[t] ?? 0} ${HUES[t] === undefined ? 0 : 62}% 70%)`;

/** Forward values that the gradient computes again. */
class Again extends Overlay {
  find() {
    if (this.at === this.stage) return this.twins;
    this.at = this.stage;
    const key = (n) => [n.op, n.place, n.types, n.attrs].join("|");
    const forward = new Set(), all = this.stage.order.map((u) => this.graph.nodes[u]);
    for (const n of all) if (n.part === "forward" && n.op !== "constant") forward.add(key(n));
    this.twins = new Set(all.filter((n) => n.op === "recompute" || n.part === "gradient"
      && n.op !== "constant" && forward.has(key(n))).map((n) => n.uid));
    return this.twins;
  }
  color(uids) { return uids.some((u) => this.find().has(u)) ? "hsl(38 88% 66%)" : ""; }
  dims(uids, item) { return item.kind === "node" && !this.color(uids); }
  legend() {
    return [swatch("hsl(38 88% 66%)", "computed again for the gradient"),
      swatch("", viewer.count(this.find().size, "node"))];
  }
}

class Packed extends Overlay {
  available() { return this.graph.code.packed.length > 0; }
  names() { return this.set ??= new Set(this.graph.code.packed.flatMap((p) => p.of)); }
  color(uids) {
    if (this.owner !== this.graph) { this.owner = this.graph; this.set = null; }
    const names = this.names();
    const reads = uids.some((u) => this.stage.has(u)
      && this.graph.chips(u, this.stage).some((c) => c.weight && names.has(c.text)));
    return reads ? "hsl(265 60% 76%)" : "";
  }
  dims(uids, item) { return item.kind === "node" && !this.color(uids); }
  legend() {
    const bytes = this.graph.code.packed.reduce((s, p) => s + p.bytes, 0);
    return [swatch("hsl(265 60% 76%)", "reads a weight that was prepacked or precomputed"),
      swatch("", `${viewer.count(this.graph.code.packed.length, "block")}, ${viewer.bytes(bytes)}`)];
  }
}

/** What lies in the arena when it is fullest. */
class Peak extends Overlay {
  available() { return this.graph.code.buffers.length > 0; }
  sizes() {
    if (this.of === this.graph) return this.table;
    this.of = this.graph;
    this.table = new Map();
    for (const [, size, , , , call] of viewer.atPeak(this.graph.code.buffers).live) {
      for (const uid of this.graph.code.calls[call]?.nodes ?? []) {
        this.table.set(uid, (this.table.get(uid) ?? 0) + size);
      }
    }
    return this.table;
  }
  color(uids) {
    const calls = new Set(this.graph.calls(uids).filter((c) => this.graph.code.calls[c].main));
    let most = 0;
    for (const c of calls) {
      most = Math.max(most, ...this.graph.code.calls[c].nodes.map((u) => this.sizes().get(u) ?? 0));
    }
    return most ? cold(Math.min(Math.sqrt(most / this.graph.code.arena) * 1.2, 1)) : "";
  }
  dims(uids, item) { return item.kind === "node" && !this.color(uids); }
  legend() {
    return [swatch(cold(0.1), "little"), swatch(cold(1), "much of the arena at its peak"),
      swatch("", `${viewer.bytes(this.graph.code.arena)} in all`)];
  }
}

/** What values are on the given inputs: NaN and infinities first, then size. */
class Values extends Overlay {
  available() { return Object.keys(this.graph.data.stats).length > 0; }
  of(uid) {
    const n = this.graph.nodes[uid];
    return n.types.map((_, i) => this.graph.data.stats[n.first + i]).filter(Boolean);
  }
  color(uids) {
    const all = uids.flatMap((u) => this.of(u));
    if (all.some((s) => s.nan)) return "hsl(350 85% 62%)";
    if (all.some((s) => s.inf)) return "hsl(20 95% 62%)";
    const sizes = all.map((s) => Math.max(Math.abs(s.min ?? 0), Math.abs(s.max ?? 0))).filter((x) => x > 0);
    if (!sizes.length) return "";
    const place = (Math.log10(Math.max(...sizes)) + 6) / 12;
    return `hsl(${Math.round(240 - 190 * Math.min(Math.max(place, 0), 1))} 60% 74%)`;
  }
  legend() {
    return [swatch("hsl(240 60% 74%)", "largest 1e-6"), swatch("hsl(145 60% 74%)", "1"),
      swatch("hsl(50 60% 74%)", "1e6"), swatch("hsl(350 85% 62%)", "NaN"),
      swatch("hsl(20 95% 62%)", "infinite")];
  }
}

/** The moment at which most of the arena is taken, and what lies in it then. */
viewer.atPeak = (buffers) => {
  const change = new Map();
  for (const [, size, , first, last] of buffers) {
    change.set(first, (change.get(first) ?? 0) + size);
    change.set(last + 1, (change.get(last + 1) ?? 0) - size);
  }
  let live = 0, most = 0, at = 0;
  for (const [clock, by] of [...change].sort((a, b) => a[0] - b[0])) {
    live += by;
    if (live > most) { most = live; at = clock; }
  }
  return { at, bytes: most, live: buffers.filter(([, , , a, b]) => a <= at && at <= b)
    .sort((a, b) => b[1] - a[1]) };
};

viewer.overlays = (app) => [
  new Kinds(app, "kinds", "Kind of op"),
  new Changes(app, "changes", "Changes by the pass"),
  new Heat(app, "time", "Time per kernel", "time", viewer.seconds, heat),
  new Heat(app, "cost", "Estimated cycles", "cost", (n) => `${n.toExponential(2)} cycles`, heat),
  new Fusion(app, "fusion", "Fusion groups"),
  new Types(app, "types", "Element types, casts"),
  new Parts(app, "parts", "Forward, gradient, update"),
  new Again(app, "again", "Recomputation"),
  new Packed(app, "packed", "Prepacked weights"),
  new Peak(app, "peak", "Memory at the peak"),
  new Values(app, "values", "Values"),
];
