"""Bad programs, each a function `net(x)` of a float32 tensor of shape (2, 3), and what they raise.

`PROGRAMS` is text that runs under cellc and under MindSpore alike (`ms`, `ops`, `nn`, `np`,
`Tensor` and `Parameter` are imported for it). `failure` runs one; `main` prints the kinds of all
of them in both modes, which is how `bad_program_kinds.json` was made with MindSpore.
"""

from __future__ import annotations

import builtins
import importlib
import json
import linecache
import sys
from typing import Any

import numpy as np

PROGRAMS: dict[str, str] = {
    # names and attributes
    "undefined_name": "def net(x):\n    return x + undefined_name",
    "undefined_function": "def net(x):\n    return undefined_function(x)",
    "read_before_assignment": "def net(x):\n    y = z + x\n    z = 1\n    return y",
    "absent_tensor_attribute": "def net(x):\n    return x.no_such_attribute",
    "absent_tensor_method": "def net(x):\n    return x.no_such_method()",
    "absent_op": "def net(x):\n    return ops.no_such_op(x)",
    "absent_cell_attribute": (
        "class Net(nn.Cell):\n    def construct(self, x):\n        return self.weight * x\n"
        "net = Net()"),
    # calls
    "too_few_arguments": (
        "def helper(a, b):\n    return a\n\ndef net(x):\n    return helper(x)"),
    "too_many_arguments": (
        "def helper(a):\n    return a\n\ndef net(x):\n    return helper(x, 1)"),
    "unknown_keyword": (
        "def helper(a):\n    return a\n\ndef net(x):\n    return helper(x, c=1)"),
    "repeated_argument": (
        "def helper(a):\n    return a\n\ndef net(x):\n    return helper(x, a=1)"),
    "not_callable": "def net(x):\n    three = 3\n    return three(x)",
    "op_too_few": "def net(x):\n    return ops.matmul(x)",
    "op_too_many": "def net(x):\n    return ops.relu(x, x, x)",
    "op_unknown_keyword": "def net(x):\n    return ops.softmax(x, dimension=1)",
    "cell_too_many": (
        "class Net(nn.Cell):\n    def construct(self, x):\n        return x\n"
        "inner = Net()\ndef net(x):\n    return inner(x, x)"),
    # shapes
    "add_shapes": "def net(x):\n    return x + ops.ones((4,), ms.float32)",
    "matmul_shapes": "def net(x):\n    return ops.matmul(x, x)",
    "matmul_operator": "def net(x):\n    return x @ x",
    "bmm_shapes": "def net(x):\n    return ops.bmm(x, x)",
    "concat_shapes": "def net(x):\n    return ops.cat((x, ops.ones((3, 4), ms.float32)), axis=0)",
    "stack_shapes": "def net(x):\n    return ops.stack((x, ops.ones((3, 4), ms.float32)))",
    "concat_axis": "def net(x):\n    return ops.cat((x, x), axis=5)",
    "reshape_size": "def net(x):\n    return ops.reshape(x, (4, 2))",
    "reshape_method": "def net(x):\n    return x.reshape(5)",
    "reshape_two_unknown": "def net(x):\n    return ops.reshape(x, (-1, -1))",
    "broadcast_to": "def net(x):\n    return ops.broadcast_to(x, (5, 5))",
    "transpose_axes": "def net(x):\n    return ops.transpose(x, (0, 0))",
    "transpose_rank": "def net(x):\n    return ops.transpose(x, (0, 1, 2))",
    "sum_axis": "def net(x):\n    return ops.sum(x, 7)",
    "mean_axis": "def net(x):\n    return x.mean(axis=3)",
    "softmax_axis": "def net(x):\n    return ops.softmax(x, axis=4)",
    "argmax_axis": "def net(x):\n    return ops.argmax(x, 4)",
    "squeeze_axis": "def net(x):\n    return ops.squeeze(x, 0)",
    "expand_dims_axis": "def net(x):\n    return ops.expand_dims(x, 9)",
    "split_size": "def net(x):\n    return ops.split(x, 0)[0]",
    "chunk_zero": "def net(x):\n    return ops.chunk(x, 0)[0]",
    "unstack_axis": "def net(x):\n    return ops.unstack(x, 5)[0]",
    "conv_rank": (
        "layer = nn.Conv2d(3, 4, 3)\ndef net(x):\n    return layer(x)"),
    "conv_channels": (
        "layer = nn.Conv2d(3, 4, 3)\n"
        "def net(x):\n    return layer(ops.ones((1, 2, 8, 8), ms.float32))"),
    "dense_features": "layer = nn.Dense(5, 4)\ndef net(x):\n    return layer(x)",
    "layer_norm_shape": "layer = nn.LayerNorm((7,))\ndef net(x):\n    return layer(x)",
    "batch_norm_channels": "layer = nn.BatchNorm1d(7)\ndef net(x):\n    return layer(x)",
    "embedding_of_floats": "layer = nn.Embedding(7, 3)\ndef net(x):\n    return layer(x)",
    "where_shapes": "def net(x):\n    return ops.where(x > 0, x, ops.ones((4,), ms.float32))",
    "tile_negative": "def net(x):\n    return ops.tile(x, (-1, 2))",
    "pad_odd": "def net(x):\n    return ops.pad(x, (1, 2, 3))",
    "flip_axis": "def net(x):\n    return ops.flip(x, (5,))",
    "roll_axis": "def net(x):\n    return ops.roll(x, 1, 5)",
    "topk_large": "def net(x):\n    return ops.topk(x, 9)[0]",
    "one_hot_of_floats": "def net(x):\n    return ops.one_hot(x, 3)",
    "cross_entropy_shapes": (
        "def net(x):\n    return ops.cross_entropy(x, ops.ones((5,), ms.int32))"),
    "mse_shapes": "def net(x):\n    return ops.mse_loss(x, ops.ones((4,), ms.float32))",
    # dtypes
    "add_string": "def net(x):\n    return x + 'a'",
    "add_none": "def net(x):\n    return x + None",
    "add_list_of_strings": "def net(x):\n    return ops.add(x, 'a')",
    "matmul_ints_floats": "def net(x):\n    return ops.matmul(x, ops.ones((3, 2), ms.int32))",
    "invert_float": "def net(x):\n    return ~x",
    "shift_float": "def net(x):\n    return x << 1",
    "bitwise_and_float": "def net(x):\n    return x & x",
    "cast_to_string": "def net(x):\n    return ops.cast(x, 'no_such_type')",
    "astype_none": "def net(x):\n    return x.astype(None)",
    "logical_and_none": "def net(x):\n    return ops.logical_and(x, None)",
    "relu_of_list": "def net(x):\n    return ops.relu([1, 2])",
    "relu_of_none": "def net(x):\n    return ops.relu(None)",
    "relu_of_number": "def net(x):\n    return ops.relu(3)",
    "matmul_of_none": "def net(x):\n    return ops.matmul(x, None)",
    "float_axis": "def net(x):\n    return ops.sum(x, 1.5)",
    "string_axis": "def net(x):\n    return ops.softmax(x, 'a')",
    "string_shape": "def net(x):\n    return ops.reshape(x, 'ab')",
    "float_shape": "def net(x):\n    return ops.reshape(x, (2.0, 3.0))",
    "ones_of_string": "def net(x):\n    return ops.ones('a', ms.float32)",
    "dropout_p": "def net(x):\n    return ops.dropout(x, p=2.0)",
    "dense_zero": "def net(x):\n    return nn.Dense(0, 4)(x)",
    "conv_negative": "def net(x):\n    return nn.Conv2d(3, -4, 3)(x)",
    "pool_kernel": "def net(x):\n    return nn.MaxPool2d('a')(x)",
    # indices
    "index_out_of_range": "def net(x):\n    return x[5]",
    "index_negative": "def net(x):\n    return x[-3]",
    "index_too_many": "def net(x):\n    return x[0, 0, 0]",
    "index_string": "def net(x):\n    return x['a']",
    "index_float": "def net(x):\n    return x[1.5]",
    "index_float_tensor": "def net(x):\n    return x[x]",
    "slice_string": "def net(x):\n    return x['a':]",
    "slice_zero_step": "def net(x):\n    return x[::0]",
    "mask_shape": "def net(x):\n    return x[Tensor([True, False, True])]",
    "list_index": "def net(x):\n    return [x][3]",
    "tuple_index": "def net(x):\n    return (x, x)[-4]",
    "dict_key": "def net(x):\n    return {'a': x}['b']",
    "string_index": "def net(x):\n    return x * len('abc'[7])",
    "assign_out_of_range": "def net(x):\n    x[7] = 1\n    return x",
    "assign_shape": "def net(x):\n    x[0] = ops.ones((7,), ms.float32)\n    return x",
    "assign_string": "def net(x):\n    x[0] = 'a'\n    return x",
    "gather_axis": "def net(x):\n    return ops.gather(x, Tensor([0]), 5)",
    "gather_floats": "def net(x):\n    return ops.gather(x, x, 0)",
    # values, statements
    "division_by_zero": "def net(x):\n    return x * (1 // 0)",
    "modulo_by_zero": "def net(x):\n    return x * (1 % 0)",
    "failed_assertion": "def net(x):\n    assert len(x) == 7, 'seven'\n    return x",
    "raised_value_error": "def net(x):\n    raise ValueError('no')",
    "raised_type_error": "def net(x):\n    raise TypeError('no')",
    "raised_key_error": "def net(x):\n    raise KeyError('no')",
    "raised_runtime_error": "def net(x):\n    raise RuntimeError('no')",
    "raised_not_implemented": "def net(x):\n    raise NotImplementedError('no')",
    "raised_at_run_time": (
        "def net(x):\n    if x.sum() > 0:\n        raise ValueError('no')\n    return x"),
    "asserted_at_run_time": "def net(x):\n    assert x.sum() < 0, 'no'\n    return x",
    "unpack_too_many": "def net(x):\n    a, b, c = x, x\n    return a",
    "unpack_too_few": "def net(x):\n    a, = x, x\n    return a",
    "unpack_number": "def net(x):\n    a, b = 3\n    return x",
    "iterate_number": "def net(x):\n    for i in 3:\n        x = x + i\n    return x",
    "truth_of_many": "def net(x):\n    if x > 0:\n        return x\n    return -x",
    "len_of_number": "def net(x):\n    return x * len(3)",
    "int_of_string": "def net(x):\n    return x * int('abc')",
    "range_of_string": "def net(x):\n    for i in range('a'):\n        x = x + i\n    return x",
    "range_zero_step": "def net(x):\n    for i in range(0, 3, 0):\n        x = x + i\n    return x",
    "list_remove": "def net(x):\n    v = [1, 2]\n    v.remove(5)\n    return x",
    "list_method": "def net(x):\n    v = [1, 2]\n    v.push(5)\n    return x",
    "pop_empty": "def net(x):\n    v = []\n    v.pop()\n    return x",
    "compare_string_number": "def net(x):\n    return x if 'a' < 1 else -x",
    "add_string_number": "def net(x):\n    return x * len('a' + 1)",
    "none_attribute": "def net(x):\n    y = None\n    return y.shape",
    "subscript_none": "def net(x):\n    y = None\n    return y[0]",
    "zip_number": "def net(x):\n    for a, b in zip(x, 3):\n        x = a + b\n    return x",
    "max_empty": "def net(x):\n    return x * max([])",
    "float_of_list": "def net(x):\n    return x * float([1])",
    "isinstance_number": "def net(x):\n    return x if isinstance(x, 3) else -x",
}


def load(name: str, text: str, package: str) -> Any:
    """The `net` of a program."""
    ms = importlib.import_module(package)
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {
        "ms": ms, "ops": importlib.import_module(f"{package}.ops"),
        "nn": importlib.import_module(f"{package}.nn"), "np": np, "Tensor": ms.Tensor,
        "Parameter": ms.Parameter, "__name__": "bad",
    }
    exec(compile(text, file, "exec"), names)
    return names["net"]


def kind_of(error: BaseException | None) -> str:
    """The builtin kind of an exception; "" for none."""
    if error is None:
        return ""
    for cls in type(error).__mro__:
        if getattr(builtins, cls.__name__, None) is cls and not (
            cls is RuntimeError and any(issubclass(type(error), other) for other in _OTHERS)
        ):
            return cls.__name__
    return "?"


_OTHERS = (TypeError, ValueError, LookupError, NameError, AttributeError, AssertionError,
           ArithmeticError, SyntaxError)


def failure(name: str, text: str, package: str, graph: bool) -> BaseException | None:
    """What a program raises in a mode."""
    ms = importlib.import_module(package)
    ms.set_context(mode=ms.GRAPH_MODE if graph else ms.PYNATIVE_MODE)
    x = ms.Tensor(np.array([[1, 2, 3], [4, 5, 6]], np.float32))
    try:
        net = load(name, text, package)
        net = ms.jit(net) if graph and not hasattr(net, "construct") else net
        out = net(x)
        for part in out if isinstance(out, (tuple, list)) else (out,):
            if hasattr(part, "asnumpy"):
                part.asnumpy()
    except Exception as e:
        return e
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    return None


def main(package: str, folder: str) -> None:
    """Print `{name: [kind in PyNative, kind in graph mode]}`; MindSpore's jit reads files."""
    import pathlib

    found = {}
    for name, text in PROGRAMS.items():
        path = pathlib.Path(folder) / f"bad_{name}.py"
        head = f"import {package} as ms\nfrom {package} import Parameter, Tensor, nn, ops\n"
        path.write_text(head + "import numpy as np\n" + text + "\n")
        kinds = []
        for graph in (False, True):
            ms = importlib.import_module(package)
            ms.set_context(mode=ms.GRAPH_MODE if graph else ms.PYNATIVE_MODE)
            x = ms.Tensor(np.array([[1, 2, 3], [4, 5, 6]], np.float32))
            error: BaseException | None = None
            try:
                sys.modules.pop(f"bad_{name}", None)
                net = importlib.import_module(f"bad_{name}").net
                net = ms.jit(net) if graph and not hasattr(net, "construct") else net
                out = net(x)
                for part in out if isinstance(out, (tuple, list)) else (out,):
                    if hasattr(part, "asnumpy"):
                        part.asnumpy()
            except Exception as e:
                error = e
            kinds.append(kind_of(error))
        found[name] = kinds
        print(name, kinds, file=sys.stderr, flush=True)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[2])
    main(sys.argv[1], sys.argv[2])
