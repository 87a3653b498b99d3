"""Networks of timm and torchvision that torch exports to ONNX, against torch's logits.

    python -m tests.onnx_import.timm_networks export FOLDER [NAME ...]   # by a Python with timm
    python -m tests.onnx_import.timm_networks export-own FOLDER BATCH [NAME ...]
    python -m tests.onnx_import.timm_networks compare FOLDER [NAME ...]  # by one with cellc

`export` writes each network with random weights for one image of the smallest size that it takes:
`model.onnx`, `input.npy` and `output.npy`; `export-own` writes it for a batch of images of its own
size. `compare` runs them, adds the figures to `timm_networks.json`, and prints that as a table. A
network is equal if no logit differs by more than 1e-4 of the largest one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

FIGURES = Path(__file__).with_name("timm_networks.json")
CLOSE = 1e-4
SEED = 7
_SIZES = (32, 64, 96, 128, 160, 192)
_NAMES = """
beit_base_patch16_224 botnet26t_256 caformer_s18 cait_xxs24_224 coat_lite_tiny coatnet_pico_rw_224
convformer_s18 convit_tiny convmixer_768_32 convnext_atto convnextv2_atto crossvit_9_240
cs3darknet_s cspdarknet53 cspresnet50 darknet17 davit_tiny deit_tiny_patch16_224 densenet121 dla34
dla46_c dpn48b dpn68 eca_botnext26ts_256 ecaresnet26t edgenext_small edgenext_xx_small
efficientformer_l1 efficientformerv2_s0 efficientnet_b0 efficientnet_lite0 efficientvit_b0
efficientvit_m0 ese_vovnet19b_dw eva02_tiny_patch14_224 fasternet_t0 fastvit_t8 fbnetc_100
focalnet_tiny_srf gcresnet33ts gcvit_xxtiny gernet_s gernet_m ghostnet_050 ghostnet_100
ghostnetv2_100 gmlp_ti16_224 halonet26t hardcorenas_a hgnet_tiny hgnetv2_b0 hieradet_small
hrnet_w18_small inception_next_atto inception_resnet_v2 inception_v3 inception_v4 lambda_resnet26t
lcnet_035 lcnet_050 legacy_senet154 levit_128s levit_conv_128s maxvit_pico_rw_256
maxvit_rmlp_pico_rw_256 mambaout_femto mixer_s16_224 mixer_s32_224 mixnet_s mnasnet_050 mnasnet_100
mnasnet_small mobilenet_edgetpu_100 mobilenetv1_100 mobilenetv2_035 mobilenetv2_050
mobilenetv3_large_100 mobilenetv3_small_050 mobilenetv3_small_100 mobilenetv4_conv_small
mobileone_s0 mobilevit_s mobilevit_xxs mobilevitv2_050 mvitv2_tiny nest_tiny nextvit_small
nf_regnet_b0 nfnet_f0 pit_ti_224 poolformer_s12 poolformerv2_s12 pvt_v2_b0 regnetx_002 regnety_002
regnety_008 regnetz_005 repghostnet_050 repghostnet_100 repvgg_a0 repvit_m0_9 res2net50_14w_8s
res2net50_26w_4s res2next50 resmlp_12_224 resnest14d resnest26d resnet10t resnet14t resnet18
resnet18d resnet26 resnetblur18 resnetv2_18 resnext26ts resnext50_32x4d rexnet_100 rexnetr_100
sebotnet33ts_256 sedpn68 selecsls42b semnasnet_050 semnasnet_100 sequencer2d_s seresnet18
seresnet50 shvit_s1 skresnet18 skresnet50 spnasnet_100 starnet_s050 starnet_s1 swin_s3_tiny_224
swin_tiny_patch4_window7_224 swinv2_cr_tiny_224 tf_mixnet_s tiny_vit_5m_224 tinynet_a tinynet_e
torchvision.alexnet torchvision.convnext_tiny torchvision.efficientnet_b0 torchvision.googlenet
torchvision.mnasnet0_5 torchvision.mobilenet_v2 torchvision.mobilenet_v3_small
torchvision.regnet_y_400mf torchvision.resnet18 torchvision.shufflenet_v2_x0_5
torchvision.squeezenet1_1 torchvision.swin_t torchvision.swin_v2_t
tresnet_m twins_pcpvt_small twins_svt_small vgg11 vit_tiny_patch16_224 visformer_tiny volo_d1_224
vovnet39a wide_resnet50_2 xception41 xcit_nano_12_p16_224
"""


# --- export, by a Python that has timm ------------------------------------------------------------


def declare_torchvision() -> Any:
    """Declare the operators that torchvision's files expect, where its binary is of another torch:
    timm imports it, and its networks use none of them. They last as long as what is returned."""
    import torch

    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        for name in [n for n in sys.modules if n.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        for op in ("nms", "qnms"):
            library.define(f"{op}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return library
    return None


def network(name: str, batch: int) -> tuple[Any, Any, Any]:
    """A network, images and its logits; a batch of 0 stands for one image of the smallest size that
    the network takes, others have its own size."""
    import torch

    torch.manual_seed(SEED)
    net, own = _made(name)
    settle(net.eval())
    for size in (*(s for s in _SIZES if s < own and not batch), own):
        x = torch.from_numpy(np.random.default_rng(SEED).standard_normal(
            (batch or 1, 3, size, size), np.float32))
        try:
            with torch.inference_mode():
                return net, x, net(x)
        except (AssertionError, RuntimeError, ValueError, IndexError):
            if size == own:
                raise
    raise AssertionError(name)


def _made(name: str) -> tuple[Any, int]:
    """A network with random weights, and the size of its images."""
    if name.startswith("torchvision."):
        import torchvision

        more = {"init_weights": False, "aux_logits": False} if "googlenet" in name else {}
        return torchvision.models.get_model(name.partition(".")[2], weights=None, **more), 224
    import timm

    net = timm.create_model(name, pretrained=False)
    return net, net.default_cfg["input_size"][-1]


def settle(net: Any) -> None:
    """Change weights and statistics that are all alike: zeros at the end hide all differences."""
    import torch

    with torch.no_grad():
        for t in (*net.parameters(), *net.buffers()):
            if t.is_floating_point() and t.numel() > 1 and t.min() == t.max():
                t.add_(0.1 * torch.rand_like(t))


def export(name: str, folder: Path, batch: int) -> None:
    """Write one network."""
    import torch

    net, x, y = network(name, batch)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "input.npy", x.numpy())
    np.save(folder / "output.npy", y.numpy())
    torch.onnx.export(net, (x,), str(folder / "new.onnx"), dynamo=True, external_data=False,
                      verbose=False)
    (folder / "new.onnx").rename(folder / "model.onnx")


# --- comparison -----------------------------------------------------------------------------------


def compare(folder: Path) -> dict[str, Any]:
    """Figures of one network."""
    import cellc as ms
    from cellc import nn
    from cellc.onnx_import import read_model

    x, wanted = np.load(folder / "input.npy"), np.load(folder / "output.npy")
    path = str(folder / "model.onnx")
    found = nn.GraphCell(ms.load(path))(ms.Tensor(x)).asnumpy()
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    scale = float(np.abs(wanted).max())
    if not scale:
        raise ValueError("all logits are zero, which says nothing: export it again")
    return {"image": x.shape[-1], "nodes": len(read_model(path).model.graph.nodes),
            "largest": float(f"{scale:.3g}"),
            "difference": float(f"{np.abs(found - wanted).max() / scale:.1e}")}


def table(figures: dict[str, dict[str, Any]]) -> str:
    """The figures as Markdown."""
    rows = [f"| {name} | {f['image']} | {f['nodes']} | {f['largest']:.3g} | {f['difference']:.1e} |"
            for name, f in sorted(figures.items())]
    return "\n".join(["| network | image | nodes | largest logit | difference, in parts of it |",
                      "|---|---|---|---|---|", *rows])


def main() -> int:
    """Export or compare; 1 if a network is not equal or fails."""
    command, folder, names = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    if command in ("export", "export-own"):
        batch = int(names.pop(0)) if command == "export-own" else 0
        kept = declare_torchvision()
        for name in names or _NAMES.split():
            if not (folder / name / "model.onnx").exists():
                try:
                    export(name, folder / name, batch)
                except Exception as e:
                    print(f"{name}: {type(e).__name__}: {str(e).strip()[:200]}", flush=True)
        del kept
        return 0
    figures: dict[str, dict[str, Any]] = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    wrong = 0
    for path in sorted(folder.glob("*/model.onnx"), key=lambda p: p.stat().st_size):
        name = path.parent.name
        if names and name not in names:
            continue
        try:
            figures[name] = compare(path.parent)
            good = figures[name]["difference"] <= CLOSE
            print("ok " if good else "NOT", name, figures[name], flush=True)
        except Exception as e:
            good = False
            print("NOT", name, f"{type(e).__name__}: {str(e)[:300]}", flush=True)
        wrong += not good
        FIGURES.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")
    print(table(figures))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
