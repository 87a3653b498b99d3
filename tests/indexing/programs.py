"""Programs that read and write parts of tensors, with the values of the names they use.

What each gives is what numpy gives for the same program, unless RECORDED or ERRORS says
otherwise: those are what MindSpore 2.10 does (a few are its intent, where it crashes or reads
beyond the tensor).
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def arrays() -> dict[str, Array]:
    """The names programs use, with fresh values."""
    f, i = np.float32, np.arange
    return {
        "x": i(24, dtype=f).reshape(2, 3, 4), "y": i(6, dtype=f), "z": np.array(3.5, f),
        "e": np.zeros((0, 3), f), "w": i(12, dtype=np.int32).reshape(3, 4),
        "q": i(120, dtype=f).reshape(2, 3, 4, 5),
        "i": np.array([1, 0]), "j": np.array([[2, 0], [1, 2]]), "k": np.array(1),
        "n": np.array([-1, -2], np.int32), "i3": np.array([0, 1, 1]),
        "u": np.array([1, 0], np.uint8), "big": np.array([0, 5]), "fl": np.array([0, 1], f),
        "em": np.zeros(0, np.int64),
        "m2": np.array([True, False]), "m3": np.array([True, False, True]),
        "m4": np.array([False, True, True, False]), "m34": i(12).reshape(3, 4) % 5 < 2,
        "m23": np.array([[True, False, True], [False, True, False]]),
        "mx": i(24).reshape(2, 3, 4) % 3 == 0, "m6": np.array([0, 1, 0, 1, 1, 0], np.bool_),
        "mf": np.zeros(3, np.bool_), "bt": np.array(True), "bf": np.array(False),
        "v0": np.array(9, f), "v1": np.array([7], f), "v2": np.array([50, 60], f),
        "v3": np.array([1.5, 2.5, 3.5], f), "v4": np.array([10, 20, 30, 40], f),
        "v24": i(100, 108, dtype=f).reshape(2, 4), "v34": i(200, 212, dtype=f).reshape(3, 4),
        "v134": i(300, 312, dtype=f).reshape(1, 3, 4), "vi": np.array([1, 2, 3, 4]),
        "v64": np.array([1.5, 2.5, 3.5, 4.5]),
    }


READ_X: tuple[str, ...] = (
    "0", "-1", "1, 2", "1, 2, 3", "-1, -1, -1", ":", "...", "0, ...", "..., 0", "0, ..., 0",
    ":, 1", ":, :, 2", "1:", ":1", ":-1", "-2:", "::2", "1:2, ::2, 1:4:2", "::-1", "2::-1",
    "-1::-1", "-1:-3:-1", ":, ::-1", ":, 2:0:-1", ":, ::-2", ":, :, 3:0:-2", ":, :, -1:-4:-1",
    ":, :, :1:-1", "5:", "3:1", ":, 2:1", ":, 1:1", "-100:100", ":100", "None", "None, None",
    ":, None", ":, :, None", "..., None", "None, ..., None", "0, None", "None, 0", ":, None, 1",
    "1, None, ..., None, 2", "True", "False", "True, 0", "0, True", ":, True", "None, True",
    "[0, 1]", "[1]", "[]", "[-1, 0]", "[0, 0, 1, 1]", "[[0, 1]]", "[[0, 1], [1, 0]]",
    "[[0, 1], [1, 2]]", "[0, 1], [1, 2]", "[0, 1], [1, 2], [3, 0]", "[0, 1], :, [1, 2]",
    ":, [0, 2], [1, 3]", ":, [0, 2]", ":, :, [0, 0, 3]", ":, [0, 2], 1", "0, :, [1, 2]",
    ":, 0, [1, 2]", "[0, 1], 0", "[0, 1], 0, [2, 3]", "0, [0, 1], 1", "0, [0, 1]",
    "0, [0, 1], 1:3", "1:, [0, 2]", "::2, [0, 2], ::-1", "[0, 1], None, [0, 2]", "None, [0, 1]",
    "[0, 1], None", "..., [0, 1]", "[0, 1], ...", "..., [0, 1], [1, 2]", "[0, 1], ..., [1, 2]",
    "[1], [0, 1, 2]", "[[0], [1]], [0, 1, 2]", "[[0], [1]], :, [0, 1, 2]", "[True, False]",
    "[True, False], 1", "[True, True], [0, 1]", "[True, False], :, [1, 2]",
    ":, [True, False, True]", ":, [True, False, True], [0, 1]", "(0, 1)", "(0, 1), ", "[0, 1, 2]",
    "5", "-3", "0, 0, 0, 0", "..., ...", "1.5", "'a'", "[0, 5]", "[0.5]", "0.0", "None, 5", "i",
    "i, i", "i, :, i", ":, i", ":, i, i", "..., i", "j", ":, j", ":, :, j", "i, j", "j, i",
    "i, None, i", "k", "k, k", "k, k, k", ":, k", "k, :, k", "k, i", "i, k", "0, k", "k, 0",
    "k, 1:3", "..., k", "None, k", "n", "n, n", "n, 0, n", "u", ":, u", "i3, i3", "i3, i3, i3",
    "big", ":, big", "fl", "em", ":, em", "i, 0", "0, i", "1:, i", "i, 1:", "i, ::2, 1",
    "i, ..., 1", "i, [0, 1]", "i, [0, 1], 2", "k:", ":k", "k:2", ":, k:", ":, k:3", "0:k", "m2",
    "m23", "mx", ":, m3", ":, :, m4", ":, m34", "m2, 1", "m2, :, 1", "m2, i3", "m2, [0], [1]",
    "m3", "m34", "m2, m3", "m23, 0", "m23, i3", "0, m34", "0, m3", "..., m4", "..., m34", "mf",
    ":, mf", "m2, None", "None, m2", "bt", "bf", "bt, 0", "0, bt", "x > 5", "x[0] > 5",
    "N([0, 1])", "N([1])", "N(1)", ":, N([0, 2]), N([1, 1])", "N([[0, 1], [1, 0]])",
    "N([True, False])", ":, N([True, False, True])", "N([0, 1]), i", "np.int64(1)",
    "np.int32(0), np.int64(1)", "np.bool_(True)", "range(2)", "range(0, 2), 1", "slice(0, 2)",
    "slice(None, None, -1)", "slice(None), slice(0, 2), 1", "slice(np.int64(0), np.int64(1))",
    "(slice(None), [0, 1])", "[slice(0, 1), 1]", "[0, slice(0, 1)]", "[[0, 1], slice(None)]",
    "[i, i]", "[k, 1]", "(i, k)", "1.0", "1:2.0", "'a':", "::0", "{0}", "{}", "object",
    "(0, (0, 1))", "(0, [0, (1)])",
)
"""Keys of `x`."""

READ_Y: tuple[str, ...] = (
    "0", "-6", "6", "1:5:2", "::-1", "4:1:-1", "4:1:-2", "-1:0:-1", "10:0:-3", "[0, 2, 4]", "m6",
    "[0, 1, 0, 1, 1, 0]", "[False, True, False, True, True, False]", "y > 2", "i", "j", "k",
    "k, None", "None, k", "j, None", "..., j", "y.astype('int32') % 2 == 0", "[]", "True", "None",
    "...", "(0,)", "()", "k:k+2", "k:5", ":k+1", "-k:", "k::2",
)
"""Keys of `y`."""

READ_Z: tuple[str, ...] = (
    "...", "()", "None", "..., None", "True", "False", "0", ":", "i", "bt", "None, None", "z > 0",
    "[0]", "[]", "N(0)",
)
"""Keys of `z`."""

READ_E: tuple[str, ...] = (
    "0", ":", ":, 0", "[]", "em", ":, i", "None", "1:", "..., 1", "e > 0",
)
"""Keys of `e`."""

READ_Q: tuple[str, ...] = (
    "0, [0, 1], :, [1, 2]", ":, [0, 1], :, [1, 2]", "[0, 1], :, :, [1, 2]", "i, :, i, :",
    ":, i, i, :", "i, i, :, i", ":, i, :, i", "i, 1, :, 2", ":, i, 1, 2", "1, i, :, 2",
    "1, :, i, 2", "1, i, 2", "0, 1, i", "i, :, 1, :", "1, ..., i", "1, ::2, i, :", "1, None, i",
    "i, None, 1", ":, None, i, :, i", "i, :, None, i", "None, i, None, i", "j, :, i",
    "j, i, :, k", ":, j, :, i", "m2, :, :, i", ":, m34", ":, m34, 1", "m23, :, 1", "m23, 1",
    "0, m34, 1", "..., i, 1", "..., i, :, i", "1:, i, 1:3, k", "[0,1], :2, [1, 2], ::-1",
    ":, :, [[0],[1]], [0, 1, 2]", "[[0],[1]], :, [0, 1, 2]", ":, 1, :, [0, 1]", ":, [0, 1], 1, :",
    "1, :, [0, 1], :", "1, [0, 1], :, :", "[0, 1], :, :, 1", "m2, 1, :, [0]", "True, i, :, i",
    "i, True, i", "k, :, k, :", "k, i, :, k", ":, k, :, i",
)
"""Keys of `q`."""

WRITE: tuple[str, ...] = (
    "x[0] = 5", "x[0] = 5.5", "x[-1] = v0", "x[0] = v34", "x[0] = v4", "x[0] = v1", "x[0] = v134",
    "x[0] = v2", "x[0] = [1., 2., 3., 4.]", "x[0] = (1., 2., 3., 4.)", "x[0] = [1, 2, 3, 4]",
    "x[0] = True", "x[0] = vi", "x[0] = v64", "x[0] = N([1., 2., 3., 4.])", "x[0] = None",
    "x[0] = 'a'", "x[0, 1] = v4", "x[0, 1, 2] = 9", "x[0, 1, 2] = v1", "x[0, 1, 2] = v0",
    "x[:] = 0", "x[...] = 1", "x[...] = v4", "x[..., 0] = 7", "x[0, ...] = v34", "x[:, 1] = 3",
    "x[:, 1] = v24", "x[:, 1] = v4", "x[:, 1:] = v4", "x[1:] = 8", "x[::2] = 8", "x[::-1] = v34",
    "x[:, ::-1] = v34", "x[:, ::2, 1::2] = 5", "x[:, 2:0:-1] = v24", "x[:, :, ::-1] = v4",
    "x[:, 1:1] = 4", "x[5:] = 4", "x[1:2, ::2] = v24", "x[None] = 2", "x[None, 0] = v34",
    "x[0, None] = v34", "x[:, None, 1] = 4", "x[True] = 3", "x[False] = 3", "x[()] = 3",
    "x[[0, 1]] = 5", "x[[1]] = v34", "x[[0, 0]] = 5", "x[[0, 1], 1] = v24",
    "x[[0, 1], [1, 2]] = v24", "x[[0, 1], [1, 2]] = v4", "x[[0, 1], :, [1, 2]] = v3",
    "x[[0, 1], :, [1, 2]] = 5", "x[:, [0, 2]] = v4", "x[:, [0, 2]] = v24", "x[:, [0, 0]] = v24",
    "x[:, [0, 2], [1, 3]] = v2", "x[0, [0, 2]] = v24", "x[0, :, [0, 2]] = 5",
    "x[:, 0, [1, 2]] = v2", "x[[[0, 1], [1, 0]]] = 3", "x[[]] = 5", "x[[True, False]] = 5",
    "x[[True, False]] = v34", "x[:, [True, False, True]] = v4", "x[:, [True, False, True]] = 6",
    "x[5] = 1", "x[0, 0, 0, 0] = 1", "x[[0, 5]] = 1", "x[1.5] = 1", "x['a'] = 1", "x[i] = 5",
    "x[i] = v34", "x[i] = v4", "x[i, 0] = v24", "x[i, i] = v24", "x[i, i] = v4",
    "x[i, :, i] = v3", "x[i, :, i] = 5", "x[:, i] = v24", "x[:, i] = 5", "x[:, i, i] = v2",
    "x[..., i] = 5", "x[..., i] = v2", "x[j % 2] = 5", "x[j % 2] = v4", "x[:, j] = 4",
    "x[:, j] = v24", "x[k] = 5", "x[k] = v34", "x[k, k] = v4", "x[k, k, k] = 5", "x[:, k] = v24",
    "x[k, :, k] = v3", "x[0, k] = v4", "x[k, 1:] = 4", "x[k, 1:] = v24", "x[n] = 5", "x[u] = 5",
    "x[i3, i3] = v34", "x[i3, i3] = 5", "x[i3] = v34", "x[big] = 5", "x[fl] = 5", "x[em] = 5",
    "x[i, None] = 5", "x[None, i] = 5", "x[1:, i] = v24", "x[::2, i] = v24", "x[i, 1:] = v4",
    "x[i, ::2] = v24", "x[i, ::-1] = v4", "x[i, ..., 1] = v3", "x[m2] = 5", "x[m2] = v34",
    "x[m2] = v4", "x[m23] = 5", "x[m23] = v34", "x[m23] = v4", "x[mx] = 5", "x[mx] = v0",
    "x[mx] = v1", "x[mx] = v4", "x[mx] = x[mx] * 2", "x[:, m3] = 5", "x[:, m3] = v4",
    "x[:, m3] = v24", "x[..., m4] = 5", "x[..., m4] = v2", "x[0, m3] = 5", "x[0, m34] = 5",
    "x[m2, 1] = 5", "x[m2, :, 1] = 5", "x[m2, i] = 5", "x[m23, 0] = 5", "x[m3] = 5", "x[mf] = 5",
    "x[:, mf] = 5", "x[bt] = 5", "x[bf] = 5", "x[x > 5] = 0", "x[x > 5] = -1.5",
    "x[x > 100] = v4", "x[x > 5] = x.sum()", "x[N([0, 1])] = 5", "x[N([1])] = v34",
    "x[:, N([0, 2])] = v24", "x[N([True, False])] = 5", "x[np.int64(1)] = 5",
    "x[slice(0, 1)] = 5", "x[range(2)] = 5", "x[k:] = 5", "x[:, k:] = v4", "x[:, k:k+2] = v24",
    "x[:, :k] = 4", "x[0] += 1", "x[0] += v4", "x[:, 1] *= 2", "x[i] += 1", "x[[0, 0]] += 1",
    "x[i3] += 1", "x[mx] += 1", "x[x > 5] *= -1", "x[m2] -= v34", "x[k] /= 2", "x[k, i] += v4",
    "x[..., 0] //= 2", "x[0, 0] **= 2", "x[0] %= 3", "x[0][1] = 5", "x[0][1:][0] = v4",
    "x[0][1] += 1", "x[i][0] = 7", "x[0, 1][2] = 7", "w[0] = 1.7", "w[0] = 5", "w[0] = v4",
    "w[0] = vi", "w[i] = 2.5", "w[i] = v4", "w[w > 3] = 0", "w[w > 3] = 1.5", "w[0] += 1",
    "w[0] += 1.5", "w[0] /= 2", "w[0] = True", "y[0] = 5", "y[1:5:2] = v2", "y[5:0:-2] = v3",
    "y[::-1] = y", "y[i] = v2", "y[i3] = v3", "y[m6] = v3", "y[m6] = 4", "y[k] = 4",
    "y[k:k+2] = v2", "y[j] = v24[:, :2]", "y[y > 2] = 0", "y[y > 2] = v3",
    "y[[1, 2]] = y[[2, 1]]", "y[i], y[k] = y[k], 3.", "y[6] = 1", "z[...] = 1", "z[()] = 1",
    "z[None] = 1", "z[0] = 1", "z[True] = 1", "z[bt] = 1", "z[z > 0] = 1", "e[:] = 1",
    "e[em] = 1", "e[0] = 1", "q[0, i, :, i] = 5", "q[:, i, i] = 5", "q[i, :, i] = 5",
    "q[i, :, :, i] = v4", "q[:, m34] = 5", "q[m2, :, i] = 5", "q[1, i, 2] = 5",
    "q[i, 1, :, 2] = v24", "q[..., i] = 5", "q[..., i, 1] = 5",
)
"""Statements; the program returns the name each begins with."""


def programs() -> list[str]:
    """All programs, as the statements of a function body."""
    tables = {"x": READ_X, "y": READ_Y, "z": READ_Z, "e": READ_E, "q": READ_Q}
    reads = [f"return {name}[{key}]" for name, keys in tables.items() for key in keys]
    return reads + [f"{statement}; return {statement[0]}" for statement in WRITE]


RECORDED: dict[str, tuple[list[int], list[Any]]] = {
    "return x[[[0, 1]]]": (
        [2, 3, 4],
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
         23],
    ),
    "return x[[[0, 1], [1, 0]]]": ([2, 4], [4, 5, 6, 7, 12, 13, 14, 15]),
    "return x[[[0, 1], [1, 2]]]": ([2, 4], [4, 5, 6, 7, 20, 21, 22, 23]),
    "return x[[slice(0, 1), 1]]": ([1, 4], [4, 5, 6, 7]),
    "return x[[0, slice(0, 1)]]": ([1, 4], [0, 1, 2, 3]),
    "return x[[[0, 1], slice(None)]]": (
        [2, 3, 4],
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
         23],
    ),
    "return x[[i, i]]": ([2, 4], [16, 17, 18, 19, 0, 1, 2, 3]),
    "return x[[k, 1]]": ([4], [16, 17, 18, 19]),
    "x[0, 1, 2] = v1; return x": (
        [2, 3, 4],
        [0, 1, 2, 3, 4, 5, 7, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
         23],
    ),
    "x[[[0, 1], [1, 0]]] = 3; return x": (
        [2, 3, 4],
        [0, 1, 2, 3, 3, 3, 3, 3, 8, 9, 10, 11, 3, 3, 3, 3, 16, 17, 18, 19, 20, 21, 22, 23],
    ),
    "x[i][0] = 7; return x": (
        [2, 3, 4],
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7],
    ),
    "w[0] += 1.5; return w": ([3, 4], [1, 2, 3, 4, 4, 5, 6, 7, 8, 9, 10, 11]),
    "w[0] /= 2; return w": ([3, 4], [0, 0, 1, 1, 4, 5, 6, 7, 8, 9, 10, 11]),
    "z[...] = 1; return z": ([], [1]),
    "z[()] = 1; return z": ([], [1]),
    "z[None] = 1; return z": ([], [1]),
    "z[True] = 1; return z": ([], [1]),
    "z[bt] = 1; return z": ([], [1]),
    "z[z > 0] = 1; return z": ([], [1]),
}
"""Shape and elements, where numpy differs or refuses."""

ERRORS: dict[str, tuple[type[Exception], str]] = {
    "return x[False]": (
        IndexError, "a tensor can be indexed by the bool True (a new axis), not by False"),
    "return x[[0, 1, 2]]": (IndexError, "index 2 is out of bounds for axis 0 with size 2"),
    "return x[5]": (IndexError, "index 5 is out of bounds for axis 0 with size 2"),
    "return x[-3]": (IndexError, "index -3 is out of bounds for axis 0 with size 2"),
    "return x[0, 0, 0, 0]": (
        IndexError, "too many indices: the tensor has 3 axes, but 4 were indexed"),
    "return x[..., ...]": (IndexError, "an index can only have a single ellipsis ('...')"),
    "return x[1.5]": (
        IndexError, "only integers, slices (`:`), ellipsis (`...`), None, and integer or bool"),
    "return x['a']": (
        IndexError, "only integers, slices (`:`), ellipsis (`...`), None, and integer or bool"),
    "return x[[0, 5]]": (IndexError, "index 5 is out of bounds for axis 0 with size 2"),
    "return x[[0.5]]": (
        TypeError, "only integers, slices (`:`), ellipsis (`...`), None, and integer or bool"),
    "return x[0.0]": (
        IndexError, "only integers, slices (`:`), ellipsis (`...`), None, and integer or bool"),
    "return x[None, 5]": (IndexError, "index 5 is out of bounds for axis 0 with size 2"),
    "return x[j]": (IndexError, "index 2 is out of bounds for axis 0 with size 2"),
    "return x[j, i]": (IndexError, "index 2 is out of bounds for axis 0 with size 2"),
    "return x[big]": (IndexError, "index 5 is out of bounds for axis 0 with size 2"),
    "return x[:, big]": (IndexError, "index 5 is out of bounds for axis 1 with size 3"),
    "return x[fl]": (
        IndexError, "only integers, slices (`:`), ellipsis (`...`), None, and integer or bool"),
    "return x[m3]": (ValueError, "the shape (3,) of a mask does not match the indexed shape (2,)"),
    "return x[m34]": (
        ValueError, "the shape (3, 4) of a mask does not match the indexed shape (2, 3)"),
    "return x[mf]": (ValueError, "the shape (3,) of a mask does not match the indexed shape (2,)"),
    "return x[x[0] > 5]": (
        ValueError, "the shape (3, 4) of a mask does not match the indexed shape (2, 3)"),
    "return x[1.0]": (
        IndexError, "only integers, slices (`:`), ellipsis (`...`), None, and integer or bool"),
    "return x[1:2.0]": (
        TypeError, "the bounds and the step of a slice must be ints or None, but got 2.0"),
    "return x['a':]": (
        TypeError, "the bounds and the step of a slice must be ints or None, but got 'a'"),
    "return x[::0]": (ValueError, "slice step cannot be zero"),
    "return x[{0}]": (
        IndexError, "only integers, slices (`:`), ellipsis (`...`), None, and integer or bool"),
    "return x[{}]": (
        IndexError, "only integers, slices (`:`), ellipsis (`...`), None, and integer or bool"),
    "return x[object]": (
        IndexError, "only integers, slices (`:`), ellipsis (`...`), None, and integer or bool"),
    "return y[6]": (IndexError, "index 6 is out of bounds for axis 0 with size 6"),
    "return z[False]": (
        IndexError, "a tensor can be indexed by the bool True (a new axis), not by False"),
    "return z[0]": (TypeError, "a tensor of no axes cannot be indexed by an int"),
    "return z[:]": (IndexError, "too many indices: the tensor has 0 axes, but 1 were indexed"),
    "return z[i]": (IndexError, "too many indices: the tensor has 0 axes, but 1 were indexed"),
    "return z[[0]]": (IndexError, "too many indices: the tensor has 0 axes, but 1 were indexed"),
    "return z[[]]": (IndexError, "too many indices: the tensor has 0 axes, but 1 were indexed"),
    "return z[N(0)]": (IndexError, "too many indices: the tensor has 0 axes, but 1 were indexed"),
    "return e[0]": (IndexError, "index 0 is out of bounds for axis 0 with size 0"),
    "return q[j, :, i]": (IndexError, "index 2 is out of bounds for axis 0 with size 2"),
    "return q[j, i, :, k]": (IndexError, "index 2 is out of bounds for axis 0 with size 2"),
    "x[0] = v2; return x": (
        ValueError, "a value of shape (2,) cannot be written to a part of (3, 4)"),
    "x[0] = None; return x": (
        TypeError, "only a Tensor, a number, a list or an array can be written into a tensor"),
    "x[0] = 'a'; return x": (
        TypeError, "only a Tensor, a number, a list or an array can be written into a tensor"),
    "x[5] = 1; return x": (IndexError, "index 5 is out of bounds for axis 0 with size 2"),
    "x[0, 0, 0, 0] = 1; return x": (
        IndexError, "too many indices: the tensor has 3 axes, but 4 were indexed"),
    "x[[0, 5]] = 1; return x": (IndexError, "index 5 is out of bounds for axis 0 with size 2"),
    "x[1.5] = 1; return x": (
        IndexError, "only integers, slices (`:`), ellipsis (`...`), None, and integer or bool"),
    "x['a'] = 1; return x": (
        IndexError, "only integers, slices (`:`), ellipsis (`...`), None, and integer or bool"),
    "x[big] = 5; return x": (IndexError, "index 5 is out of bounds for axis 0 with size 2"),
    "x[fl] = 5; return x": (
        IndexError, "only integers, slices (`:`), ellipsis (`...`), None, and integer or bool"),
    "x[mx] = v4; return x": (
        ValueError, "cannot be written to"),
    "x[m3] = 5; return x": (
        ValueError, "the shape (3,) of a mask does not match the indexed shape (2,)"),
    "x[mf] = 5; return x": (
        ValueError, "the shape (3,) of a mask does not match the indexed shape (2,)"),
    "x[x > 100] = v4; return x": (
        ValueError, "cannot be written to"),
    "y[6] = 1; return y": (IndexError, "index 6 is out of bounds for axis 0 with size 6"),
    "z[0] = 1; return z": (TypeError, "a tensor of no axes cannot be indexed by an int"),
    "e[0] = 1; return e": (IndexError, "index 0 is out of bounds for axis 0 with size 0"),
}
"""The kind of exception, and what it says."""
