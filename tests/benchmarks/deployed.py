"""One model, compiled ahead of time by one peer: written, or loaded and called in a new process.

    python deployed.py write PEER CASE FOLDER
    python deployed.py call PEER CASE FOLDER SECONDS

`bench_deployment.py` starts it with the peer's interpreter. Both print one line of JSON. `write`
makes the files (torch also exports the ONNX file that ONNX Runtime, TVM and IREE read). `call`
imports the peer's runtime, loads the file, makes the first call, measures further ones; each is
timed apart.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Call = Callable[[], Any]


def inputs_of(case: str) -> list[Any]:
    """What an inference is called with; of a training case, one sample without its label."""
    import cases

    given = list(cases.data(case).inputs)
    return given if cases.CASES[case].kind == "infer" else [given[0][:1]]


def write_cellc(case: str, folder: Path) -> None:
    """The artifact and the C library."""
    import cases
    import peer_cell

    import cellc as ms

    net = peer_cell.network(ms, case, cases.data(case).weights).set_train(False)
    example = tuple(ms.Tensor.from_numpy(a) for a in inputs_of(case))
    ms.compile_artifact(folder / "net.cellc", (net, *example))
    ms.compile_artifact(folder / "libnet.so", (net, *example))


def _torch_network(case: str) -> tuple[Any, tuple[Any, ...]]:
    import cases
    import nets_torch
    import torch

    torch.set_num_threads(2)
    net = nets_torch.network(case, cases.data(case).weights).eval()
    return net, tuple(torch.from_numpy(a) for a in inputs_of(case))


def write_onnx(case: str, folder: Path) -> None:
    """The ONNX file, weights inside."""
    import torch

    net, example = _torch_network(case)
    torch.onnx.export(net, example, str(folder / "model.onnx"), dynamo=True, external_data=False,
                      opset_version=18, verbose=False)


def write_torch(case: str, folder: Path) -> None:
    """AOTInductor's package, weights inside."""
    import torch

    net, example = _torch_network(case)
    with torch.inference_mode():
        program = torch.export.export(net, example)
        torch._inductor.aoti_compile_and_package(program, package_path=str(folder / "net.pt2"))


def write_tvm(case: str, folder: Path) -> None:
    """A library of TVM's default pipeline, without a search for schedules."""
    import onnx
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    module = from_onnx(onnx.load(folder / "model.onnx"))
    target = tvm.target.Target.from_device("cpu")
    with target:
        built = tvm.compile(relax.get_pipeline("zero")(module), target)
    built.export_library(str(folder / "net_tvm.so"))


def write_iree(case: str, folder: Path) -> None:
    """IREE's module for this processor."""
    tools = Path(sys.executable).parent
    for command in (
            ("iree-import-onnx", "model.onnx", "-o", "net.mlir"),
            ("iree-compile", "net.mlir", "-o", "net.vmfb", "--iree-hal-target-device=local",
             "--iree-hal-local-target-device-backends=llvm-cpu",
             "--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3",
             "--iree-llvmcpu-fail-on-out-of-bounds-stack-allocation=false")):
        done = subprocess.run([tools / command[0], *command[1:]], cwd=folder, capture_output=True,
                              text=True, check=False)
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if "error:" in line]
            raise SystemExit((said or done.stderr.splitlines()[-1:] or ["?"])[0][:300])


def steps_cellc(folder: Path, given: list[Any]) -> Iterator[Any]:
    """The artifact, by the runtime alone."""
    import cellc_runtime

    yield cellc_runtime.load
    artifact = cellc_runtime.load(folder / "net.cellc", trust_native_code=True)
    yield artifact
    yield lambda: artifact(*given)


def steps_onnxruntime(folder: Path, given: list[Any]) -> Iterator[Any]:
    """ONNX Runtime, which optimizes the graph when it loads it."""
    import onnxruntime
    import peer_onnx

    yield onnxruntime
    session = peer_onnx.runtime_session(folder / "model.onnx")
    feed = dict(zip([i.name for i in session.get_inputs()], given, strict=True))
    yield session
    yield lambda: session.run(None, feed)[0]


def steps_torch(folder: Path, given: list[Any]) -> Iterator[Any]:
    """AOTInductor's package in Python; C++ needs libtorch, too."""
    import torch

    yield torch
    torch.set_num_threads(2)
    net = torch._inductor.aoti_load_package(str(folder / "net.pt2"))
    tensors = [torch.from_numpy(a) for a in given]
    yield net

    def run() -> Any:
        with torch.inference_mode():
            found = net(*tensors)
        return (found[0] if isinstance(found, (tuple, list)) else found).numpy()

    yield run


def steps_tvm(folder: Path, given: list[Any]) -> Iterator[Any]:
    """The library in Relax's virtual machine."""
    import tvm
    from tvm import relax

    yield tvm
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(folder / "net_tvm.so")), tvm.cpu())
    tensors = [tvm.runtime.tensor(a) for a in given]
    yield machine

    def run() -> Any:
        found = machine["main"](*tensors)
        return (found if isinstance(found, tvm.runtime.Tensor) else found[0]).numpy()

    yield run


def steps_iree(folder: Path, given: list[Any]) -> Iterator[Any]:
    """The module on IREE's device of threads."""
    from iree import runtime

    yield runtime
    config = runtime.Config("local-task")
    module = runtime.load_vm_module(
        runtime.VmModule.mmap(config.vm_instance, str(folder / "net.vmfb")), config)
    entry = module[next(n for n in module.vm_module.function_names
                        if not n.startswith("__") and not n.endswith("$async"))]
    yield entry
    yield lambda: entry(*given).to_host()


WRITERS: dict[str, Callable[[str, Path], None]] = {
    "cellc": write_cellc, "onnx": write_onnx, "AOTInductor": write_torch, "TVM": write_tvm,
    "IREE": write_iree}
STEPS: dict[str, Callable[[Path, list[Any]], Iterator[Any]]] = {
    "cellc": steps_cellc, "ONNX Runtime": steps_onnxruntime, "AOTInductor": steps_torch,
    "TVM": steps_tvm, "IREE": steps_iree}


def call(peer: str, case: str, folder: Path, seconds: float) -> dict[str, Any]:
    """Seconds of import, load, first and further call; memory; elements of the result."""
    import numpy as np
    import worker

    given = inputs_of(case)
    steps, taken = STEPS[peer](folder, given), []
    for _ in range(3):
        start = time.perf_counter()
        run = next(steps)
        taken.append(time.perf_counter() - start)
    start = time.perf_counter()
    result = run()
    taken[2] += time.perf_counter() - start
    return {"import": taken[0], "load": taken[1], "first": taken[2],
            "call": worker.measure(run, seconds), "memory": worker.peak_memory(),
            "elements": int(np.size(result)), "values": worker.compared(result, "infer", run)}


def main() -> None:
    """See the module."""
    what, peer, case, folder, *rest = sys.argv[1:]
    start = time.perf_counter()
    if what == "write":
        WRITERS[peer](case, Path(folder))
        answer: dict[str, Any] = {"seconds": time.perf_counter() - start}
    else:
        answer = call(peer, case, Path(folder), float(rest[0]))
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
