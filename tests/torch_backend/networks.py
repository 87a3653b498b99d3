"""Networks of torchvision, timm and transformers through the backend, against eager torch.

    python -m tests.torch_backend.networks             # all of them
    python -m tests.torch_backend.networks resnet18 bert
    python -m tests.torch_backend.networks --new       # those without a figure in networks.json

Weights are random, images are small where the network allows it, configurations of language models
are small. Each runs with two batches. A line is the largest difference of a result in parts of the
largest number in it, and what torch ran itself; it is also written to `networks.json`. The exit
status is 1 if one differs by more than 1e-4.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import counters

from cellc import torch_backend

from ..onnx_import.timm_networks import declare_torchvision

FIGURES = Path(__file__).with_name("networks.json")
CLOSE = 1e-4
TORCHVISION = {
    "resnet18": 96, "vgg11_bn": 64, "mobilenet_v2": 96, "mobilenet_v3_small": 96,
    "shufflenet_v2_x0_5": 96, "squeezenet1_1": 96, "densenet121": 64, "efficientnet_b0": 96,
    "regnet_y_400mf": 96, "mnasnet0_5": 96, "convnext_tiny": 64, "googlenet": 96, "swin_t": 224,
    "vit_b_32": 224, "alexnet": 96,
}
TIMM = {
    "deit_tiny_patch16_224": 224, "mixer_s16_224": 224, "convnext_atto": 96, "levit_128s": 224,
    "ghostnet_100": 96, "hrnet_w18_small": 96, "poolformer_s12": 96, "mobilevit_xxs": 96,
    "edgenext_xx_small": 96, "xcit_nano_12_p16_224": 224, "coat_tiny": 224, "res2net50_26w_4s": 64,
    "skresnet18": 96, "repvgg_a0": 96, "inception_v3": 128,
    "regnetx_002": 96, "mobilenetv4_conv_small": 96, "fastvit_t8": 128, "repvit_m0_9": 96,
    "efficientvit_b0": 96, "starnet_s050": 96, "pvt_v2_b0": 96, "mambaout_femto": 96,
    "cait_xxs24_224": 224, "fasternet_t0": 96, "lcnet_050": 96, "dla46_c": 96, "gmlp_ti16_224": 224,
    "resmlp_12_224": 224, "efficientformer_l1": 224, "tinynet_e": 96, "mobilevitv2_050": 96,
    "nf_regnet_b0": 96, "resnest14d": 96, "rexnet_100": 96, "dpn68": 96, "pit_ti_224": 224,
    "efficientvit_m0": 224, "inception_next_atto": 96, "crossvit_9_240": 240, "cspresnet50": 96,
    "focalnet_tiny_srf": 96, "gcresnet33ts": 96, "hgnetv2_b0": 96, "mixnet_s": 96,
    "mobileone_s0": 96, "visformer_tiny": 224, "tiny_vit_5m_224": 224, "halonet26t": 256,
    "lambda_resnet26t": 256, "sebotnet33ts_256": 256, "eva02_tiny_patch14_224": 224,
    "selecsls42b": 96, "davit_tiny": 96, "twins_svt_small": 224, "convmixer_768_32": 64,
    "sequencer2d_s": 224, "maxvit_pico_rw_256": 256, "coatnet_pico_rw_224": 224,
    "swinv2_cr_tiny_224": 224, "mvitv2_tiny": 224, "nest_tiny": 224, "volo_d1_224": 224,
    "xception41": 96, "tresnet_m": 64,
}
SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 128, "vocab_size": 500, "max_position_embeddings": 64}


def networks() -> Iterator[tuple[str, Callable[[], tuple[torch.nn.Module, list[Any]]]]]:
    """Names, and functions that make a network with two batches of inputs."""
    kept = declare_torchvision()
    import timm
    import torchvision

    for name, size in TORCHVISION.items():
        more = {"init_weights": False, "aux_logits": False} if name == "googlenet" else {}
        yield name, lambda n=name, s=size, m=more: (
            torchvision.models.get_model(n, weights=None, **m), _images(s))
    for name, size in TIMM.items():
        yield name, lambda n=name, s=size: (timm.create_model(n, pretrained=False), _images(s))
    for name, made in _language():
        yield name, made
    del kept


def _images(size: int) -> list[Any]:
    return [torch.rand(n, 3, size, size) for n in (1, 2)]


def _language() -> Iterator[tuple[str, Callable[[], tuple[torch.nn.Module, list[Any]]]]]:
    import transformers as tf

    few = {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 500, "n_positions": 64}
    few_t5 = {"d_model": 64, "num_layers": 2, "num_heads": 4, "d_ff": 128, "vocab_size": 500,
              "d_kv": 16}
    llama = SMALL | {"num_key_value_heads": 2}
    tokens = [torch.randint(0, 500, (n, s)) for n, s in ((1, 12), (2, 9))]
    for name, model, config in (
            ("bert", tf.BertModel, tf.BertConfig(**SMALL)),
            ("gpt2", tf.GPT2LMHeadModel, tf.GPT2Config(use_cache=False, **few)),
            ("llama", tf.LlamaForCausalLM, tf.LlamaConfig(use_cache=False, **llama)),
            ("distilbert", tf.DistilBertModel, tf.DistilBertConfig(
                dim=64, n_layers=2, n_heads=4, hidden_dim=128, vocab_size=500)),
            ("t5_encoder", tf.T5EncoderModel, tf.T5Config(**few_t5))):
        yield name, lambda m=model, c=config: (m(c), tokens)


def tensors(found: Any) -> list[torch.Tensor]:
    """The float tensors of a result."""
    if isinstance(found, torch.Tensor):
        return [found] if found.is_floating_point() else []
    parts = found.values() if hasattr(found, "values") else found
    return [t for part in parts for t in tensors(part)] if parts is not None else []


def disturb(network: torch.nn.Module) -> None:
    """Add noise to weights and statistics that are all alike: a last layer of zeros would hide
    every difference."""
    with torch.no_grad():
        for t in (*network.parameters(), *network.buffers()):
            if t.is_floating_point() and t.numel() > 1 and t.min() == t.max():
                t.add_(0.1 * torch.rand_like(t))


def compare(made: Callable[[], tuple[torch.nn.Module, list[Any]]]) -> dict[str, Any]:
    """Figures of a network beside eager torch: the largest difference, and how torch cut it."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    counters.clear()
    torch_backend.report(clear=True)
    network, batches = made()
    disturb(network.eval())
    compiled = torch.compile(network, backend=torch_backend.compile_graph)
    worst = 0.0
    with torch.no_grad():
        for batch in batches:
            for a, b in zip(tensors(compiled(batch)), tensors(network(batch)), strict=True):
                assert (a.shape, a.dtype) == (b.shape, b.dtype)
                part = (a - b).abs().max() / b.abs().max().clamp_min(1e-30)
                worst = max(worst, float(part))
    graphs = torch_backend.report()
    lacking = {f"{m.op} ({n}: {m.why})" for g in graphs for m, n in g.missing.items()}
    return {"difference": float(f"{worst:.1e}"), "breaks": counters["graph_break"].total(),
            "graphs": len(graphs), "operators": sum(g.nodes for g in graphs),
            "programs": sum(g.parts for g in graphs),
            "torch runs": sorted(lacking), "notes": [n for g in graphs for n in g.notes]}


def main() -> int:
    """Compare the networks that are named, the new ones, or all; 1 if one differs or fails."""
    logging.getLogger("cellc").setLevel(logging.ERROR)
    figures: dict[str, dict[str, Any]] = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    names, wrong = set(sys.argv[1:]), 0
    for name, made in networks():
        if name in figures if names == {"--new"} else names and name not in names:
            continue
        start = time.monotonic()
        try:
            figures[name] = found = compare(made)
            good = found["difference"] <= CLOSE
            FIGURES.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")
            line = ", ".join(f"{k} {v}" for k, v in found.items() if v != [])
        except Exception as e:
            good, line = False, f"{type(e).__name__}: {str(e).partition(chr(10))[0][:300]}"
        wrong += not good
        print("ok " if good else "NOT", name, f"{line}, {time.monotonic() - start:.0f} s",
              flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
