"""Texts of Primitive classes whose functions have none, or that of one of Python's operators."""

from __future__ import annotations

TEXTS = {
    "AllGather": "The tensors of all processes of a group, joined along axis 0 in their order.",
    "AllReduce": "The sum (`op`: sum, max, min, prod) of the tensors of all processes of a group.",
    "ReduceScatter": "The part of this process, along axis 0, of the sum over a group.",
    "Broadcast": "The tensors of the process `root_rank`, in each process of a group.",
    "CollectiveGather": "The tensors of a group joined along axis 0, in the process `dest_rank`.",
    "CollectiveScatter": "The part of this process, along axis 0, of the tensor of `src_rank`.",
    "Barrier": "Wait until all processes of a group have come here.",
    "ArgMaxWithValue": "The position and the value of the largest element along `axis`.",
    "ArgMinWithValue": "The position and the value of the smallest element along `axis`.",
    "AvgPool": "The mean of each window of `kernel_size` of (N, C, H, W), `strides` apart.",
    "MaxPool": "The largest element of each window of `kernel_size` of (N, C, H, W).",
    "MaxPoolWithArgmaxV2": "As `MaxPool` with pads, and the position of each maximum in H * W.",
    "MaxPool3DWithArgmax": "The largest element of windows of (N, C, D, H, W), and its position.",
    "BatchMatMul": "x @ y for batches of matrices (..., n, m) and (..., m, p), or transposed ones.",
    "BatchToSpace": "Blocks of the batch laid out as pixels: the inverse of `SpaceToBatch`.",
    "SpaceToBatch": "Pixels of each block of (N, C, H, W), padded by `paddings`, as batches.",
    "DepthToSpace": "(N, C b b, H, W) as (N, C, H b, W b): channels become blocks of pixels.",
    "SpaceToDepth": "(N, C, H b, W b) as (N, C b b, H, W): blocks of pixels become channels.",
    "Cauchy": "Numbers of the Cauchy distribution of `median` and `sigma`, of shape `size`.",
    "ConjugateTranspose": "The complex conjugates with the axes in the order `perm`.",
    "DiagPart": "The diagonal of a tensor of shape (..., ...): `diag` undone.",
    "Dilation2D": "max of x + filter over each window of (N, C, H, W): grey dilation.",
    "DivNoNan": "x / y, and 0 where y is 0: elementwise, the operands broadcast.",
    "MulNoNan": "x * y, and 0 where y is 0 even if x is infinite or NaN: elementwise.",
    "SquaredDifference": "(x - y)**2, elementwise: the operands broadcast to one shape.",
    "SquareSumAll": "The sums of all squares of x and of y, two scalars.",
    "L2Loss": "The sum of all squares of the input, divided by 2: a scalar.",
    "L2Normalize": "x / sqrt(max(sum(x**2), epsilon)) with the sum over `axis`.",
    "LpNorm": "(sum of |x|**p) ** (1/p) over `axis`, at least `epsilon`.",
    "EuclideanNorm": "sqrt(sum of x**2) over `axes` (all if None).",
    "EqualCount": "How many elements of x and y at the same place are equal, shape (1,).",
    "FillV2": "A tensor of `shape` filled with the one element of `value`.",
    "GridSampler2D": "Pixels of (N, C, H, W) at the places (-1 to 1) of a grid (N, h, w, 2).",
    "GridSampler3D": "Voxels of (N, C, D, H, W) at the places of a grid (N, d, h, w, 3).",
    "ReduceMax": "The largest element over `axis` (all axes for ()); NaN if there is one.",
    "ReduceMin": "The smallest element over `axis` (all axes for ()); NaN if there is one.",
    "ReduceSum": "The sum over `axis`, all axes for () unless `skip_mode`.",
    "ReduceProd": "The product over `axis` (all axes for ()), in the type of the input.",
    "ReduceStd": "Standard deviation and mean over `axis`; n - 1 below it if `unbiased`.",
    "ResizeBilinearV2": "(N, C, H, W) resized to `size`, each pixel from its four neighbours.",
    "ResizeBicubic": "(N, C, H, W) resized to `size`, each pixel from 16 neighbours.",
    "ResizeNearestNeighbor": "(N, C, H, W) resized to `size`, each pixel from the nearest.",
    "ReverseV2": "The elements in reverse order along the axes `axis`.",
    "RandomShuffle": "The slices of the first axis in random order.",
    "TruncatedNormal": "Standard normal numbers within [-2, 2], of a given shape.",
    "UniformReal": "Uniform numbers in [0, 1), float32, of a given shape.",
    "LowerBound": "The first place in each sorted row where a value could be put.",
    "UpperBound": "The last place in each sorted row where a value could be put.",
    "MatrixInverse": "The inverses of square matrices (..., n, n).",
    "Unpack": "A tuple of the slices along `axis`: `Unstack` under its older name.",
    "AlltoAll":
        "Cut the tensor into `split_count` parts along `split_dim`, send part i to process i of "
        "the group, and join the parts received along `concat_dim` in the order of the processes.",
    "BatchISendIRecv":
        "Send and receive several tensors at once: `op_types` has 'isend' or 'irecv' for each of "
        "`remote_ranks`. The result is a tuple of the received tensors, of `receive_shapes` and "
        "`receive_dtypes`.",
    "CopyWithSlice":
        "Write the elements of y over those of x, which has the same shape, and return x.",
    "DynamicShape":
        "The shape of a tensor as an int64 Tensor of shape (rank,): (2, 3) gives [2, 3].",
    "TensorShape":
        "The shape of a tensor as an int64 Tensor of shape (rank,): (2, 3) gives [2, 3].",
    "ExtractImagePatches":
        "Each window of `ksizes` of (N, C, H, W) as one pixel, (N, C * kh * kw, h, w): windows "
        "lie `strides` apart, their elements `rates` apart.",
    "ExtractVolumePatches":
        "Each window of `kernel_size` of (N, C, D, H, W) as one voxel, (N, C * kd * kh * kw, d, "
        "h, w): windows lie `strides` apart.",
    "FractionalAvgPool":
        "The means of about `pooling_ratio` elements of each axis of (N, H, W, C), and where the "
        "windows of rows and columns start: three Tensors.",
    "FractionalMaxPool":
        "The maxima of about `pooling_ratio` elements of each axis of (N, H, W, C), and where the "
        "windows of rows and columns start: three Tensors.",
    "GatherV2":
        "The slices of x along `axis` at the places `indices`: the shape of `indices` replaces "
        "the axis in that of x.",
    "IdentityN":
        "A tuple of the same Tensors, in the same order; no elements are copied or changed.",
    "IndexPut":
        "A copy of x1 with the elements of x2 at the places `indices`, a Tensor for each of the "
        "first axes. `accumulate=1` adds them instead.",
    "LogNormalReverse":
        "exp(mean + std * z) with a standard normal number z for each element of the input, in "
        "its shape and type.",
    "NonDeterministicInts":
        "Random ints of a given shape, from the whole range of `dtype`, int32 or int64. The seed "
        "of `set_seed` decides them.",
    "ParallelConcat": "Tensors of one shape (1, ...) joined along axis 0: n of them give (n, ...).",
    "Partial":
        "A function with its first arguments fixed: called with (f, *args), it returns what "
        "functools.partial(f, *args) does.",
    "RandomChoiceWithMask":
        "Draw `count` places where the input is True: int32 coordinates (count, rank), and a bool "
        "for each that says whether it is one. Missing ones are zeros.",
    "RandpermV2":
        "A random order of the ints 0 to n - 1, a Tensor of shape (n,). `seed` and `offset` "
        "choose it; 0 takes that of `set_seed`.",
    "Receive":
        "The tensor of `shape` and `dtype` that process `src_rank` of the group sends with the "
        "tag `sr_tag`. It waits for the tensor.",
    "Send":
        "Send the tensor to process `dest_rank` of the group, with the tag `sr_tag`, and return "
        "it. A `Receive` takes it there.",
    "Reduce":
        "The sum (`op`: sum, max, min, prod) of the tensors of a group, in the process "
        "`dest_rank`; other processes get their own tensor.",
    "ResizeLinear1D":
        "(N, C, L) resized to `size` elements a line, each between its two neighbours. Corners or "
        "half pixels are aligned by `coordinate_transformation_mode`.",
    "Reusing":
        "The same Tensor: MindSpore's mark for memory that may be used again, which cellc decides "
        "itself.",
    "SliceGetItem":
        "A bound of a Python slice: `name` is 'start', 'stop' or 'step', and the result an int or "
        "None.",
    "TensorToTuple":
        "The elements of a Tensor as a tuple of Python numbers, nested as its axes are. It waits "
        "for them.",
    "array_to_scalar":
        "The one element of a Tensor as a Python number. A ValueError is raised if there are "
        "several.",
    "bool_and": "x and y, as Python computes it: y if x is true, else x. Neither has to be a bool.",
    "bool_or": "x or y, as Python computes it: x if it is true, else y. Neither has to be a bool.",
    "bool_eq":
        "Whether two bools are equal, x == y, as a Python bool: bool_eq(True, False) is False.",
    "bool_not":
        "not x, as a Python bool: False for a true value, True for False, 0, None and what is "
        "empty.",
    "dict_getitem":
        "The value of a key of a dict, data[key]. A key that is not there raises a KeyError.",
    "dict_setitem":
        "A new dict with the items of `data`, and `value` for `key`; `data` itself is not "
        "changed.",
    "hastype":
        "Whether a value has the type t, a Python bool: for a Tensor the type of its elements, "
        "else as isinstance.",
    "in_dict":
        "Whether a dict has the key x, a Python bool: x in y. For a list or tuple, whether it has "
        "the item.",
    "not_in_dict":
        "Whether a dict lacks the key x, a Python bool: x not in y. For a list or tuple, whether "
        "it lacks the item.",
    "is_":
        "Whether two values are the same object, x is y, as a Python bool. Equal values may be "
        "two objects.",
    "is_not":
        "Whether two values are two objects, x is not y, as a Python bool. Equal values may be "
        "two objects.",
    "is_sequence_value_unknown":
        "Whether items of a list or tuple are known only when the graph runs, as a Python bool. "
        "In PyNative mode they are known.",
    "is_tensor_bool_cond":
        "Whether a Tensor can be the condition of an `if`, a Python bool: it must have exactly "
        "one element.",
    "list_equal":
        "Whether two lists have as many items, equal ones in the same order, x == y, as a Python "
        "bool.",
    "list_getitem":
        "The item of a list at a position, data[index]; a negative one counts from the end. An "
        "IndexError is raised outside of it.",
    "list_len":
        "The number of items of a list, a Python int: list_len([4, 5, 6]) is 3. Nested lists "
        "count as one item.",
    "make_dict":
        "A dict of `keys` and the `values` at the same places. A ValueError is raised if there "
        "are not as many.",
    "make_list":
        "A list of the operands in their order, whatever they are: make_list(1, 2) is [1, 2].",
    "make_tuple":
        "A tuple of the operands in their order, whatever they are: make_tuple(1, 2) is (1, 2).",
    "reduced_shape":
        "The shape that a reduction over `axis` leaves, a tuple: 1 in the place of each reduced "
        "axis, all of them for ().",
    "scalar_add":
        "x + y for two Python numbers: a number, computed by Python while a graph is compiled.",
    "scalar_sub":
        "x - y for two Python numbers: a number, computed by Python while a graph is compiled.",
    "scalar_mul":
        "x * y for two Python numbers: a number, computed by Python while a graph is compiled.",
    "scalar_div":
        "x / y for two Python numbers, a float, as Python computes it. A ZeroDivisionError is "
        "raised for y = 0.",
    "scalar_floordiv":
        "x // y for two Python numbers, rounded down. A ZeroDivisionError is raised for y = 0.",
    "scalar_mod":
        "x % y for two Python numbers, with the sign of y. A ZeroDivisionError is raised for y = "
        "0.",
    "scalar_pow":
        "x ** y for two Python numbers: a number, computed by Python while a graph is compiled.",
    "scalar_uadd":
        "+x for a Python number: the number itself, an int for a bool. Nothing is rounded.",
    "scalar_usub":
        "The negative of a Python number, -x: an int for a bool, else a number of the type of x.",
    "scalar_eq":
        "Whether two Python numbers are equal, x == y, as a Python bool. An int may equal a "
        "float.",
    "scalar_ne":
        "Whether two Python numbers differ, x != y, as a Python bool. An int may equal a float.",
    "scalar_gt":
        "Whether a Python number is greater than another, x > y, as a Python bool; False for NaN.",
    "scalar_ge":
        "Whether a Python number is at least another, x >= y, as a Python bool; False for NaN.",
    "scalar_lt":
        "Whether a Python number is less than another, x < y, as a Python bool; False for NaN.",
    "scalar_le":
        "Whether a Python number is at most another, x <= y, as a Python bool; False for NaN.",
    "shape_mul":
        "The number of elements of a shape, a Python int: the product of its sizes, 1 for ().",
    "string_concat":
        "Two strings joined, x + y: string_concat('con', 'struct') is 'construct'. Both must be "
        "strings.",
    "string_eq":
        "Whether two strings are equal, x == y, as a Python bool. Upper and lower case differ.",
    "switch":
        "x where the condition holds, else y: a bool or a Tensor of one element decides. x and y "
        "have one structure, with the same shapes and types.",
    "switch_layer":
        "The layer or function of a list at the place `index`, an int that is known while a graph "
        "is compiled: layers[index].",
    "tail":
        "A tuple of all items but the first: tail((1, 2, 3)) is (2, 3), and that of one item is "
        "().",
    "tuple_div":
        "The quotients of two tuples of ints, item by item. A ValueError is raised unless each is "
        "a multiple of its divisor.",
    "tuple_equal":
        "Whether two tuples have equal items in the same order, x == y, as a Python bool.",
    "tuple_getitem":
        "The item of a tuple at a position, data[index]; a negative one counts from the end. An "
        "IndexError is raised outside of it.",
    "tuple_len":
        "The number of items of a tuple, a Python int: tuple_len((4, 5, 6)) is 3. Nested tuples "
        "count as one item.",
    "tuple_reversed":
        "The items of a tuple from the last to the first: tuple_reversed((1, 2, 3)) is (3, 2, 1).",
    "typeof":
        "The type of a value: that of its elements for a Tensor, as mindspore.float32, else its "
        "Python class.",
    "zip_operation":
        "Tuples of the items at the same places of several lists or tuples, as many as the "
        "shortest one has.",
    "augassign_add":
        "x += y, the value that x gets: the operands broadcast if one is a Tensor; Python "
        "computes it for other values.",
    "augassign_sub":
        "x -= y, the value that x gets: the operands broadcast if one is a Tensor; Python "
        "computes it for other values.",
    "augassign_mul":
        "x *= y, the value that x gets: the operands broadcast if one is a Tensor; Python "
        "computes it for other values.",
    "augassign_div":
        "x /= y, the value that x gets: the operands broadcast if one is a Tensor; Python "
        "computes it for other values.",
    "augassign_floordiv":
        "x //= y, the value that x gets: the operands broadcast if one is a Tensor; Python "
        "computes it for other values.",
    "augassign_mod":
        "x %= y, the value that x gets: the operands broadcast if one is a Tensor; Python "
        "computes it for other values.",
    "ScatterAddWithAxis":
        "The input with `update[i, j]` added at row `indices[i, j]` (`axis` 0) or column "
        "(`axis` 1), and so on for more axes; equal places add up. `indices` and `update` "
        "have one shape.",
    "ScatterNonAliasingAdd":
        "Add `updates` to a Parameter at the points `indices` (..., k), which address its "
        "first k axes; equal points add up. The Parameter is the result.",
    "ScatterSub":
        "Subtract `updates` (..., *rest) from the rows `indices` (...) of a Parameter; equal "
        "rows add up. The Parameter is the result.",
    "SegmentMax":
        "The largest element of each segment of rows: `segment_ids` (n,) ascend, and row s of "
        "the result is of the rows with id s; 0 for an id without rows.",
    "SegmentMean":
        "The mean of each segment of rows: `segment_ids` (n,) ascend, and row s of the result "
        "is of the rows with id s; 0 for an id without rows.",
    "SegmentMin":
        "The smallest element of each segment of rows: `segment_ids` (n,) ascend, and row s "
        "of the result is of the rows with id s; 0 for an id without rows.",
    "SegmentProd":
        "The product of each segment of rows: `segment_ids` (n,) ascend, and row s of the "
        "result is of the rows with id s; 1 for an id without rows.",
    "SegmentSum":
        "The sum of each segment of rows: `segment_ids` (n,) ascend, and row s of the result "
        "is of the rows with id s; 0 for an id without rows.",
    "SelectView": "The slice at `index` along `axis`, without that axis: a view of the input.",
    "SigmoidCrossEntropyWithLogits":
        "-(label log(s) + (1 - label) log(1 - s)) with s = sigmoid(logits), elementwise: of "
        "the shape of `logits`.",
    "SoftmaxCrossEntropyWithLogits":
        "The cross-entropy of softmax(logits) with probabilities `labels`, both (n, classes): "
        "the loss of each row (n,), and its gradient by the logits (n, classes).",
    "SparseApplyAdadelta":
        "A step of Adadelta on the rows `indices` (k,) of the Parameter `var`, by the "
        "gradient `grad` (k, ...) of these rows; `accum` and `accum_update` are updated there "
        "too.",
    "SparseApplyAdagrad":
        "A step of Adagrad, var -= lr grad / sqrt(accum), on the rows `indices` (k,) of "
        "Parameters, by the gradient `grad` (k, ...) of these rows.",
    "SparseApplyAdagradV2":
        "A step of Adagrad, var -= lr grad / (sqrt(accum) + epsilon), on the rows `indices` "
        "(k,) of Parameters, by the gradient `grad` (k, ...) of these rows.",
    "SparseApplyFtrl":
        "A step of FTRL on the rows `indices` (k,) of the Parameters `var`, `accum` and "
        "`linear`, by the gradient `grad` (k, ...) of these rows.",
    "FusedSparseFtrl":
        "A step of FTRL on the rows `indices` (k,) of the Parameters `var`, `accum` and "
        "`linear`, by the gradient `grad` (k, ...) of these rows; gradients of equal rows add "
        "up first.",
    "SparseApplyProximalAdagrad":
        "A step of proximal Adagrad (with the penalties `l1` and `l2`) on the rows `indices` "
        "(k,) of Parameters, by the gradient `grad` (k, ...) of these rows.",
    "FusedSparseProximalAdagrad":
        "A step of proximal Adagrad (with the penalties `l1` and `l2`) on the rows `indices` "
        "(k,) of Parameters, by the gradient `grad` (k, ...) of these rows; gradients of "
        "equal rows add up first.",
    "SparseApplyRMSProp":
        "A step of RMSProp on the rows `indices` (k,) of the Parameters `var`, `ms` and "
        "`mom`, by the gradient `grad` (k, ...) of these rows.",
    "SparseSoftmaxCrossEntropyWithLogits":
        "The mean cross-entropy of softmax(logits) (n, classes) with class numbers `labels` "
        "(n,), a scalar; with `is_grad` its gradient by the logits (n, classes).",
    "TransposeExtView": "The input with the axes `dim0` and `dim1` exchanged: a view of it.",
    "TransposeView": "The input with its axes in the order `input_perm`: a view of it.",
    "UniformInt": "Random ints of int32 from `minval` up to, without, `maxval`, of shape `shape`.",
    "UpsampleNearest3D":
        "(N, C, D, H, W) resized to `output_size` (d, h, w) or by `scales`: each voxel is its "
        "nearest neighbour.",
    "UpsampleTrilinear3D":
        "(N, C, D, H, W) resized to `output_size` (d, h, w) or by `scales`: each voxel is "
        "computed from its eight neighbours.",
    "tuple_setitem": "The tuple with `value` in the place `index`.",
    "list_setitem": "The list with `value` in the place `index`.",
    "AllGatherV":
        "The tensors of all processes of a group, joined along axis 0 in their order; "
        "`output_split_sizes` says how many elements each process gives.",
    "AlltoAllV":
        "Elements exchanged between all processes of a group: `send_numel_list[i]` blocks of "
        "`block_size` elements go to process i, `recv_numel_list[i]` come from it. The result "
        "has one axis.",
    "AlltoAllVC":
        "As `AlltoAllV`, with one matrix for the whole group: process i sends "
        "`send_count_matrix[i, j]` blocks to process j.",
    "ReduceScatterV":
        "The part of this process of the sum (`op`) over a group: process i gets "
        "`input_split_sizes[i]` elements of axis 0.",
    "ApplyAdamWithAmsgrad":
        "A step of Adam with AMSGrad: the step divides by the root of the largest second moment "
        "so far, `vhat`. Updates the Parameters `var`, `m`, `v` and `vhat`.",
    "BCEWithLogitsLoss":
        "Binary cross-entropy of sigmoid(input) with `target`, elementwise: times `weight`, "
        "and `posWeight` for targets of 1. The mean, the sum or (`reduction=\"none\"`) each "
        "element.",
    "BatchToSpaceNDV2":
        "Blocks of the batch laid out as pixels: (n b1 b2, h, w, ...) as (n, h b1, w b2, ...) "
        "for `block_shape` (b1, b2), less `crops` (before, after) of each axis.",
    "CTCLossV2":
        "Connectionist temporal classification: the loss of each example (n,), and the "
        "logarithms of its forward variables, for log-probabilities (time, n, classes) and "
        "`targets` of `target_lengths`.",
    "Conv2DBackpropInput":
        "The gradient of a convolution by its input: `dout` (N, out_channel, h, w) and "
        "`weight` give a tensor of shape `size`.",
    "Conv2DTranspose":
        "The transposed convolution, which is the gradient of a convolution by its input: "
        "`dout` (N, out_channel, h, w) and `weight` give a tensor of shape `size`.",
    "MatrixTriangularSolve":
        "x with matrix @ x = rhs for triangular matrices (..., n, n), of which the lower (or "
        "upper) half is read; with `adjoint` of their conjugate transposes.",
    "PadV3":
        "The input padded by `paddings`, pairs (before, after) from the last axis backwards: "
        "by `constant_value`, or in `mode` reflect, edge or circular by its own elements.",
    "ParameterizedTruncatedNormal":
        "Normal numbers of `mean` and deviation `stdevs` between `min` and `max`, of shape "
        "`shape`; each of them is a number for all, or one for each batch (axis 0).",
    "ResizeNearestNeighborV2":
        "(N, C, H, W) resized to `size` (h, w): each pixel is its nearest neighbour.",
    "EmbeddingLookup":
        "The rows `input_indices - offset` of a table (n, ...); an index outside of the table "
        "gives zeros.",
    "FractionalMaxPoolWithFixedKsize":
        "The largest element of windows of `ksize`, of (N, C, H, W) to `output_shape`, and "
        "its position; `random_samples` (N, C, 2) place the windows.",
    "FractionalMaxPool3DWithFixedKsize":
        "The largest element of windows of `ksize`, of (N, C, D, H, W) to `output_shape`, and "
        "its position; `random_samples` (N, C, 3) place the windows.",
    "LogSoftmaxExt":
        "log(softmax(input)) along `dim`: x - max - log(sum(exp(x - max))), in `dtype` if "
        "that is given.",
    "is_dynamic_sequence_element_unknown":
        "Whether a sequence of variable length is empty, so that the type of its elements is "
        "unknown. Other sequences are a TypeError.",
}
