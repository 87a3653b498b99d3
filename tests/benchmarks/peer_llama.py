"""The peers of `bench_llama.py`: each reads one folder of weights and gives tokens.

`prompt` takes tokens of each conversation after none, `token` one after those. A peer imports what
it needs when it is made, so each interpreter needs its own peer's packages alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

REST = (("temperature", 0.0, "float32"), ("top_k", 1, "int32"), ("top_p", 1.0, "float32"),
        ("draw", 0.0, "float32"))
GROUP = 64
"""Inputs that share a scale in four bits, in cellc, OpenVINO and ONNX Runtime."""


def config_of(folder: Path) -> dict[str, Any]:
    """The `config.json`, and the width of a head."""
    found: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return {**found, "head": found["hidden_size"] // found["num_attention_heads"]}


def weights_of(folder: Path) -> dict[str, Array]:
    """The weights in float32, by the names of Hugging Face's files."""
    data = np.memmap(folder / "model.safetensors", np.uint8, "r")
    size = int(data[:8].view(np.int64)[0])
    header = json.loads(data[8:8 + size].tobytes())
    header.pop("__metadata__", None)
    return {name: data[8 + size:][slice(*at["data_offsets"])].view(np.float32).reshape(at["shape"])
            for name, at in header.items()}


class Cellc:
    """An artifact, by the runtime alone."""

    def __init__(self, folder: Path, name: str, batch: int, threads: int) -> None:
        import cellc_runtime

        path = folder / f"{name}-{batch}.cellc"
        self.net = cellc_runtime.load(path, trust_native_code=True)
        self.rest = [np.dtype(kind).type(value) for _, value, kind in REST]
        self.batch = batch

    def prompt(self, tokens: Sequence[int]) -> int:
        """The token that follows."""
        self.end = 0
        return self._call("prompt", tokens)

    def token(self, token: int) -> int:
        """The token that follows."""
        return self._call("decode", [token])

    def _call(self, entry: str, tokens: Sequence[int]) -> int:
        self.end += len(tokens)
        given = np.asarray([tokens] * self.batch, np.int32)
        places = np.arange(self.end, dtype=np.int32)
        return int(self.net.call(entry, given, places, *self.rest)[0])


class Torch:
    """transformers in eager mode, with its growing cache."""

    def __init__(self, folder: Path, name: str, batch: int, threads: int) -> None:
        import torch
        from transformers import AutoModelForCausalLM, DynamicCache

        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        kind = torch.bfloat16 if name.startswith("bfloat16") else torch.float32
        self.torch, self.fresh, self.batch = torch, DynamicCache, batch
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=kind).eval()

    def prompt(self, tokens: Sequence[int]) -> int:
        """The token that follows."""
        self.cache = self.fresh()
        return self._call(tokens)

    def token(self, token: int) -> int:
        """The token that follows."""
        return self._call([token])

    def _call(self, tokens: Sequence[int]) -> int:
        given = self.torch.tensor([list(tokens)] * self.batch)
        out = self.model(given, past_key_values=self.cache, use_cache=True, logits_to_keep=1)
        return int(out.logits[0, -1].argmax())


class LlamaCpp:
    """llama.cpp, from a GGUF file with the same weights."""

    MOST = 512
    """Tokens of a call of llama.cpp."""

    def __init__(self, folder: Path, name: str, batch: int, threads: int) -> None:
        import llama_cpp

        path = folder / f"{name}.gguf"
        if not path.exists():
            write_gguf(folder, path, FORMS.get(name, "F32"))
        self.c = config_of(folder)
        self.lib, self.batch = llama_cpp, batch
        llama_cpp.llama_log_set(_quiet(llama_cpp), None)
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(
            str(path).encode(), llama_cpp.llama_model_default_params())
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_seq_max = batch * self.c["max_position_embeddings"], batch
        params.n_batch = self.MOST
        params.n_threads = params.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        self.given = llama_cpp.llama_batch_init(self.MOST, 0, 1)

    def prompt(self, tokens: Sequence[int]) -> int:
        """The token that follows."""
        lib = self.lib
        lib.llama_memory_clear(lib.llama_get_memory(self.context), True)
        self.end = 0
        return self._call(tokens)

    def token(self, token: int) -> int:
        """The token that follows."""
        return self._call([token])

    def _call(self, tokens: Sequence[int]) -> int:
        step = self.MOST // self.batch
        for at in range(0, len(tokens), step):
            part = tokens[at:at + step]
            self._fill(part)
            if self.lib.llama_decode(self.context, self.given):
                raise RuntimeError("llama.cpp did not take the tokens")
            self.end += len(part)
        logits = self.lib.llama_get_logits_ith(self.context, len(part) - 1)
        return int(np.ctypeslib.as_array(logits, shape=(self.c["vocab_size"],)).argmax())

    def _fill(self, part: Sequence[int]) -> None:
        """The next tokens of each conversation; logits after the last ones."""
        given = self.given
        given.n_tokens = self.batch * len(part)
        for i in range(given.n_tokens):
            row, k = divmod(i, len(part))
            given.token[i], given.pos[i] = part[k], self.end + k
            given.n_seq_id[i], given.seq_id[i][0] = 1, row
            given.logits[i] = k == len(part) - 1


def _quiet(lib: Any) -> Any:
    """A log that says nothing, which must stay alive."""
    global _LOG
    _LOG = lib.llama_log_callback(lambda *_: None)
    return _LOG


FORMS = {"int8": "Q8_0", "int4": "Q4_0", "bfloat16": "BF16", "float16": "F16"}
"""What llama.cpp calls matrices of as many bits."""


def write_gguf(folder: Path, path: Path, form: str) -> None:
    """The weights of the folder as llama.cpp reads them: pairs of a head lie side by side there."""
    import gguf

    c = config_of(folder)
    out = gguf.GGUFWriter(str(path), "llama")
    out.add_context_length(c["max_position_embeddings"])
    out.add_embedding_length(c["hidden_size"])
    out.add_block_count(c["num_hidden_layers"])
    out.add_feed_forward_length(c["intermediate_size"])
    out.add_head_count(c["num_attention_heads"])
    out.add_head_count_kv(c["num_key_value_heads"])
    out.add_layer_norm_rms_eps(c["rms_norm_eps"])
    out.add_rope_dimension_count(c["head"])
    out.add_rope_freq_base(c["rope_theta"])
    out.add_vocab_size(c["vocab_size"])
    out.add_tokenizer_model("no_vocab")
    out.add_file_type(0)
    names = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
             "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
             "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
    outer = {"model.embed_tokens.weight": "token_embd.weight", "lm_head.weight": "output.weight",
             "model.norm.weight": "output_norm.weight"}
    for name, value in weights_of(folder).items():
        made = outer.get(name, "")
        if not made:
            _, _, layer, part = name.removesuffix(".weight").split(".", 3)
            made = f"blk.{layer}.{names[part]}.weight"
            if part.endswith(("q_proj", "k_proj")):
                value = value.reshape(-1, 2, c["head"] // 2, value.shape[1]).swapaxes(1, 2)
                value = np.ascontiguousarray(value.reshape(-1, value.shape[-1]))
        kind = gguf.GGMLQuantizationType[form if value.ndim > 1 else "F32"]
        if form.startswith("Q") and value.shape[-1] % 32:
            kind = gguf.GGMLQuantizationType["F16"]
        out.add_tensor(made, gguf.quants.quantize(value, kind), raw_dtype=kind)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def angles(c: dict[str, Any]) -> tuple[Array, Array]:
    """Cosines and sines of the rotary angles: (context, head / 2)."""
    turns = c["rope_theta"] ** (-np.arange(0, c["head"], 2) / c["head"])
    each = np.outer(np.arange(c["max_position_embeddings"]), turns)
    return np.cos(each).astype(np.float32), np.sin(each).astype(np.float32)


def layer_weights(weights: dict[str, Array], i: int) -> tuple[Callable[[str], Array], Array, Array]:
    """A function that gives a weight of a layer by a part of its name; queries, keys and values as
    one matrix, and gate and up."""
    def get(part: str) -> Array:
        return weights[f"model.layers.{i}.{part}.weight"]

    qkv = np.concatenate([get(f"self_attn.{p}_proj") for p in "qkv"])
    return get, qkv, np.concatenate([get("mlp.gate_proj"), get("mlp.up_proj")])


# --- ONNX Runtime ---------------------------------------------------------------------------------

class OnnxRuntime:
    """ONNX Runtime, with its fused ops for decoders: attention with rotary angles writes the cache
    in place. Four and eight bits are `MatMulNBits`."""

    def __init__(self, folder: Path, name: str, batch: int, threads: int) -> None:
        import onnxruntime as ort

        path = folder / f"{name}.onnx"
        if not path.exists():
            write_onnx(folder, path, name)
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "1")
        self.ort, self.batch, c = ort, batch, config_of(folder)
        self.session = ort.InferenceSession(str(path), options, ["CPUExecutionProvider"])
        shape = (batch, c["num_key_value_heads"], c["max_position_embeddings"], c["head"])
        self.caches = {f"{part}{i}": ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32))
                       for i in range(c["num_hidden_layers"]) for part in ("key", "value")}

    def prompt(self, tokens: Sequence[int]) -> int:
        """The token that follows."""
        self.end = 0
        return self._call(tokens)

    def token(self, token: int) -> int:
        """The token that follows."""
        return self._call([token])

    def _call(self, tokens: Sequence[int]) -> int:
        self.end += len(tokens)
        bound = self.session.io_binding()
        bound.bind_cpu_input("tokens", np.asarray([tokens] * self.batch, np.int64))
        bound.bind_cpu_input("ends", np.full(self.batch, self.end - 1, np.int32))
        bound.bind_cpu_input("total", np.asarray(self.end, np.int32))
        for name, value in self.caches.items():
            bound.bind_ortvalue_input(f"past_{name}", value)
            bound.bind_ortvalue_output(f"present_{name}", value)
        bound.bind_output("logits")
        self.session.run_with_iobinding(bound)
        return int(bound.get_outputs()[-1].numpy()[0].argmax())


class _OnnxGraph:
    """Collects nodes and weights of an ONNX model."""

    def __init__(self) -> None:
        import onnx

        self.onnx, self.nodes, self.weights = onnx, [], []
        self.count = 0

    def weight(self, value: Array) -> str:
        """A weight's name."""
        self.count += 1
        made = self.onnx.numpy_helper.from_array(np.ascontiguousarray(value), f"w{self.count}")
        self.weights.append(made)
        return f"w{self.count}"

    def node(self, op: str, *inputs: str, outputs: Sequence[str] = (), own: bool = False,
             **attrs: Any) -> str:
        """The name of a node's first result; `own`: an op of ONNX Runtime."""
        self.count += 1
        names = [*outputs] or [f"x{self.count}"]
        self.nodes.append(self.onnx.helper.make_node(
            op, inputs, names, domain="com.microsoft" if own else "", **attrs))
        return names[0]


def write_onnx(folder: Path, path: Path, name: str) -> None:
    """The model for ONNX Runtime; of few bits if the name says so."""
    import onnx

    c, weights = config_of(folder), weights_of(folder)
    g = _OnnxGraph()
    cos, sin = map(g.weight, angles(c))
    eps, depth = c["rms_norm_eps"], c["num_hidden_layers"]
    hidden = c["intermediate_size"]
    sizes = g.weight(np.asarray([hidden, hidden], np.int64))
    x = g.node("Gather", g.weight(weights["model.embed_tokens.weight"]), "tokens")
    h = g.node("SimplifiedLayerNormalization", x, g.weight(
        weights["model.layers.0.input_layernorm.weight"]), epsilon=eps, axis=-1)
    for i in range(depth):
        get, qkv, gate_up = layer_weights(weights, i)
        packed = g.node("MatMul", h, g.weight(qkv.T))
        mixed = g.node(
            "GroupQueryAttention", packed, "", "", f"past_key{i}", f"past_value{i}", "ends",
            "total", cos, sin, own=True, num_heads=c["num_attention_heads"], do_rotary=1,
            kv_num_heads=c["num_key_value_heads"],
            outputs=[f"mixed{i}", f"present_key{i}", f"present_value{i}"])
        out = g.node("MatMul", mixed, g.weight(get("self_attn.o_proj").T))
        h = g.node("SkipSimplifiedLayerNormalization", out, x,
                   g.weight(get("post_attention_layernorm")), own=True, epsilon=eps,
                   outputs=[f"h{i}", "", "", f"sum{i}"])
        both = g.node("MatMul", h, g.weight(gate_up.T))
        gate = g.node("Split", both, sizes, outputs=[f"gate{i}", f"up{i}"], axis=-1)
        silu = g.node("QuickGelu", gate, own=True, alpha=1.0)
        down = g.node("MatMul", g.node("Mul", silu, f"up{i}"), g.weight(get("mlp.down_proj").T))
        last = i == depth - 1
        norm = weights["model.norm.weight" if last else
                       f"model.layers.{i + 1}.input_layernorm.weight"]
        h = g.node("SkipSimplifiedLayerNormalization", down, f"sum{i}", g.weight(norm), own=True,
                   epsilon=eps, outputs=[f"n{i}", "", "", f"out{i}"])
        x = f"out{i}"
    h = g.node("Gather", h, g.weight(np.asarray(-1, np.int64)), axis=1)
    head = weights.get("lm_head.weight", weights["model.embed_tokens.weight"])
    g.node("MatMul", h, g.weight(head.T), outputs=["logits"])
    make, kinds = onnx.helper.make_tensor_value_info, onnx.TensorProto
    shape = ["N", c["num_key_value_heads"], c["max_position_embeddings"], c["head"]]
    caches = [f"{part}{i}" for i in range(depth) for part in ("key", "value")]
    graph = onnx.helper.make_graph(
        g.nodes, "decoder",
        [make("tokens", kinds.INT64, ["N", "T"]), make("ends", kinds.INT32, ["N"]),
         make("total", kinds.INT32, []),
         *(make(f"past_{k}", kinds.FLOAT, shape) for k in caches)],
        [*(make(f"present_{k}", kinds.FLOAT, shape) for k in caches),
         make("logits", kinds.FLOAT, ["N", c["vocab_size"]])], g.weights)
    model = onnx.helper.make_model(graph, ir_version=10, opset_imports=[
        onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("com.microsoft", 1)])
    if name in ("int4", "int8"):
        model = _few_bits(model, int(name[3:]))
    onnx.save(model, path, save_as_external_data=True, location=f"{path.name}.data")


def _few_bits(model: Any, bits: int) -> Any:
    """The matrices of products in four or eight bits."""
    from onnxruntime.quantization import matmul_nbits_quantizer as quantizer

    how = quantizer.DefaultWeightOnlyQuantConfig(
        block_size=GROUP, is_symmetric=True, accuracy_level=4, bits=bits)
    made = quantizer.MatMulNBitsQuantizer(model, algo_config=how)
    made.process()
    return made.model.model


# --- OpenVINO -------------------------------------------------------------------------------------

class OpenVino:
    """OpenVINO: a model whose cache is its state, in the forms that its plugin knows; few bits by
    `nncf`. Its cache has the element type that the plugin chooses."""

    def __init__(self, folder: Path, name: str, batch: int, threads: int) -> None:
        import openvino as ov

        path = folder / f"{name}.xml"
        if not path.exists():
            write_openvino(folder, path, name)
        core = ov.Core()
        compiled = core.compile_model(core.read_model(path), "CPU", {
            "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "bf16" if name == "bfloat16" else "f32"})
        self.request, self.batch = compiled.create_infer_request(), batch
        self.beams = np.arange(batch, dtype=np.int32)

    def prompt(self, tokens: Sequence[int]) -> int:
        """The token that follows."""
        self.request.reset_state()
        self.end = 0
        return self._call(tokens)

    def token(self, token: int) -> int:
        """The token that follows."""
        return self._call([token])

    def _call(self, tokens: Sequence[int]) -> int:
        places = np.arange(self.end, self.end + len(tokens), dtype=np.int64)
        self.end += len(tokens)
        found = self.request.infer([np.asarray([tokens] * self.batch, np.int64), places,
                                    self.beams], share_inputs=True)
        return int(next(iter(found.values()))[0, 0].argmax())


def write_openvino(folder: Path, path: Path, name: str) -> None:
    """The model for OpenVINO; of few bits if the name says so."""
    import openvino as ov

    model = _OpenVinoModel(config_of(folder), weights_of(folder)).model()
    if name in ("int4", "int8"):
        import nncf

        modes, tables = nncf.CompressWeightsMode, nncf.IgnoredScope(names=["cos", "sin"])
        more = {"group_size": GROUP, "ratio": 1.0, "all_layers": True} if name == "int4" else {}
        model = nncf.compress_weights(
            model, mode=modes.INT4_SYM if more else modes.INT8_SYM, ignored_scope=tables, **more)
    ov.save_model(model, path, compress_to_fp16=False)


class _OpenVinoModel:
    """Writes the decoder with OpenVINO's ops."""

    def __init__(self, c: dict[str, Any], weights: dict[str, Array]) -> None:
        import openvino as ov
        from openvino import opset13 as op

        self.ov, self.op, self.c, self.weights = ov, op, c, weights
        self.sinks: list[Any] = []
        self.tokens = op.parameter([-1, -1], np.int64, "tokens")
        self.places = op.parameter([-1], np.int64, "places")
        self.beams = op.parameter([-1], np.int32, "beam_idx")
        zero = np.int64(0)
        cos, sin = (op.gather(op.constant(np.concatenate([a, a], -1)), self.places, zero)
                    for a in angles(c))
        outer = np.asarray([0, 1], np.int64)
        self.cos, self.sin = op.unsqueeze(cos, outer), op.unsqueeze(sin, outer)  # (1, 1, T, head)
        for node, name in ((cos, "cos"), (sin, "sin")):
            node.set_friendly_name(name)
        last = op.gather(self.places, np.int64(-1), zero)
        keys = op.range(zero, op.add(last, np.int64(1)), np.int64(1), output_type="i64")
        seen = op.less_equal(op.unsqueeze(keys, zero), op.unsqueeze(self.places, np.int64(1)))
        mask = op.select(seen, np.float32(0), np.float32(-np.inf))
        self.mask = op.unsqueeze(mask, outer)
        self.count = op.gather(op.shape_of(self.tokens), np.asarray([0], np.int64), zero)

    def model(self) -> Any:
        """The whole model: logits of the last position."""
        op, c = self.op, self.c
        x = op.gather(op.constant(self.weights["model.embed_tokens.weight"]), self.tokens,
                      np.int64(0))
        for i in range(c["num_hidden_layers"]):
            x = self._block(x, i)
        x = op.gather(self._norm(x, "model.norm.weight"), np.asarray([-1], np.int64), np.int64(1))
        head = self.weights.get("lm_head.weight", self.weights["model.embed_tokens.weight"])
        logits = op.matmul(x, op.constant(head), False, True)
        return self.ov.Model([logits.output(0)], self.sinks,
                             [self.tokens, self.places, self.beams], "llama")

    def _product(self, x: Any, part: str) -> Any:
        return self.op.matmul(x, self.op.constant(self.weights[part]), False, True)

    def _norm(self, x: Any, name: str) -> Any:
        op = self.op
        mean = op.reduce_mean(op.power(x, np.float32(2)), np.asarray([-1], np.int64), True)
        root = op.sqrt(op.add(mean, np.float32(self.c["rms_norm_eps"])))
        scaled = op.multiply(x, op.divide(np.float32(1), root))
        return op.multiply(scaled, op.constant(self.weights[name]))

    def _heads(self, x: Any, count: int) -> Any:
        """(N, T, count * head) as (N, count, T, head)."""
        op = self.op
        apart = op.reshape(x, np.asarray([0, 0, count, self.c["head"]], np.int64), True)
        return op.transpose(apart, np.asarray([0, 2, 1, 3], np.int64))

    def _rotated(self, x: Any) -> Any:
        op, half = self.op, self.c["head"] // 2
        low, high = op.variadic_split(x, np.int64(-1), np.asarray([half, half])).outputs()
        turned = op.concat([op.multiply(high, np.float32(-1)), low], -1)
        return op.add(op.multiply(x, self.cos), op.multiply(turned, self.sin))

    def _cached(self, x: Any, name: str) -> Any:
        """All keys or values so far, which are the state's new value; for each head of queries."""
        op, c = self.op, self.c
        heads, head = c["num_key_value_heads"], c["head"]
        rest = op.constant(np.asarray([heads, 0, head], np.int64))
        empty = op.broadcast(np.float32(0), op.concat([self.count, rest], 0))
        shape = self.ov.PartialShape([-1, heads, -1, head])
        held = op.read_value(empty, name, self.ov.Type.f32, shape)
        whole = op.concat([op.gather(held, self.beams, np.int64(0)), x], 2)
        self.sinks.append(op.assign(whole, name))
        group = c["num_attention_heads"] // heads
        if group == 1:
            return whole
        one = op.unsqueeze(whole, np.int64(2))
        ones = op.constant(np.ones((1, 1, group, 1, 1), np.float32))
        many = op.multiply(one, ones)
        return op.reshape(many, np.asarray([0, heads * group, -1, head], np.int64), True)

    def _block(self, x: Any, i: int) -> Any:
        op, c, at = self.op, self.c, f"model.layers.{i}"
        h = self._norm(x, f"{at}.input_layernorm.weight")
        heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
        q, k, v = (self._heads(self._product(h, f"{at}.self_attn.{p}_proj.weight"), n)
                   for p, n in (("q", heads), ("k", kv), ("v", kv)))
        keys = self._cached(self._rotated(k), f"keys.{i}")
        values = self._cached(v, f"values.{i}")
        mixed = op.scaled_dot_product_attention(self._rotated(q), keys, values, self.mask)
        mixed = op.transpose(mixed, np.asarray([0, 2, 1, 3], np.int64))
        mixed = op.reshape(mixed, np.asarray([0, 0, heads * c["head"]], np.int64), True)
        x = op.add(x, self._product(mixed, f"{at}.self_attn.o_proj.weight"))
        h = self._norm(x, f"{at}.post_attention_layernorm.weight")
        gate = op.swish(self._product(h, f"{at}.mlp.gate_proj.weight"))
        up = self._product(h, f"{at}.mlp.up_proj.weight")
        return op.add(x, self._product(op.multiply(gate, up), f"{at}.mlp.down_proj.weight"))


PEERS: dict[str, Callable[..., Any]] = {
    "cellc": Cellc, "torch": Torch, "llama.cpp": LlamaCpp, "ONNX Runtime": OnnxRuntime,
    "OpenVINO": OpenVino}
WIDTHS = {"cellc": ("float32", "bfloat16", "float16", "int8", "int4"),
          "torch": ("float32", "bfloat16"), "llama.cpp": ("float32", "bfloat16", "int8", "int4"),
          "ONNX Runtime": ("float32", "int8", "int4"),
          "OpenVINO": ("float32", "bfloat16", "int8", "int4")}
"""The widths of weights that each has."""
