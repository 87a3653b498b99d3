"""Functions in the hybrid language that the tests compile; ruff and mypy do not know its names."""
# ruff: noqa: F821
# mypy: ignore-errors

from cellc.ops import kernel

FACTOR = 3
SHAPE = (2, 3)


@kernel
def outer_product(a, b):
    c = output_tensor(a.shape, a.dtype)
    with block_realize(c):
        for i0 in range(a.shape[0]):
            for i1 in range(b.shape[1]):
                c[i0, i1] = 0.0
                for i2 in range(a.shape[1]):
                    c[i0, i1] = c[i0, i1] + (a[i0, i2] * b[i2, i1])
    return c


@kernel
def with_memory(a, b):
    d = allocate(a.shape, a.dtype)
    c = output_tensor((a.shape[0], b.shape[1]), a.dtype)
    for i0 in range(a.shape[0]):
        for i1 in range(b.shape[1]):
            for i2 in range(a.shape[1]):
                d[i0, i2] = 2 * a[i0, i2]
                c[i0, i1] = c[i0, i1] + d[i0, i2] * b[i2, i1]
    return c


@kernel
def scheduled(a):
    c = output_tensor(a.shape, a.dtype)
    for i in parallel(a.shape[0]):
        for j in vectorize(a.shape[1]):
            c[i, j] = a[i, j] + 1
        for j in serial(a.shape[1]):
            c[i, j] = c[i, j] * FACTOR
        for j in reduce(a.shape[1]):
            c[i, 0] += a[i, j]
    with attr("enable", True):
        for k in grid(a.shape):
            c[k] = c[k] - k[1]
        for i, j in grid((a.shape[0], 1)):
            c[i, j] -= 0.5
    return c


@kernel
def arithmetic(a, b):
    c = output_tensor((12,) + a.shape, a.dtype)
    for i in range(a.shape[0]):
        c[0, i] = a[i] + b[i]
        c[1, i] = a[i] - 2 * b[i]
        c[2, i] = a[i] * b[i] * 3
        c[3, i] = a[i] // 3 + a[i] % 3
        c[4, i] = max(a[i], b[i], 0)
        c[5, i] = min(a[i], b[i])
        c[6, i] = abs(a[i])
        c[7, i] = a[i] ** 2
        c[8, i] = i * a[i]
        c[9, i] = a[i] if a[i] > b[i] else b[i]
        c[10, i] = sign(a[i]) + floor(a[i]) + ceil(b[i]) + trunc(a[i]) + round(b[i])
        c[11, i] += a[i]
        c[11, i] -= 3
    return c


@kernel
def divided(a, b):
    c = output_tensor((3,) + a.shape, a.dtype)
    for i in range(len(a)):
        c[0, i] = a[i] / (b[i] * b[i] + 1)
        c[1, i] = a[i] * 0.1 + 0.7
        c[2, i] = -a[i] / 3 - 1e-3
    return c


@kernel
def bits_of(a, b):
    c = output_tensor((7, len(a)), a.dtype)
    for i in range(len(a)):
        c[0, i] = a[i] & b[i]
        c[1, i] = a[i] | b[i]
        c[2, i] = a[i] ^ b[i]
        c[3, i] = a[i] << 2
        c[4, i] = a[i] >> 1
        c[5, i] = ~a[i]
        c[6, i] = ceil_div(a[i], 2)
    return c


@kernel
def functions(a):
    c = output_tensor((20, len(a)), a.dtype)
    for i in range(len(a)):
        x = abs(a[i]) + 0.25
        c[0, i] = sqrt(x)
        c[1, i] = exp(x)
        c[2, i] = log(x)
        c[3, i] = tanh(x)
        c[4, i] = sin(x)
        c[5, i] = cos(x)
        c[6, i] = erf(x)
        c[7, i] = rsqrt(x)
        c[8, i] = power(x, 1.5)
        c[9, i] = atan(x)
        c[10, i] = atan2(x, a[i])
        c[11, i] = expm1(x)
        c[12, i] = x ** a[i]
        c[13, i] = tan(x)
        c[14, i] = log1p(x)
        c[15, i] = log2(x)
        c[16, i] = exp2(x)
        c[17, i] = sinh(x)
        c[18, i] = asin(x / 99)
        c[19, i] = log10(x) + acos(x / 99) + cosh(x)
    return c


@kernel
def control(a):
    n = a.shape[0]
    c = output_tensor((n,), "int64")
    d = output_tensor(a.shape, "bool")
    for i in range(n):
        k = 0
        while k < n:
            if a[k] > a[i] and not (k == 3 or k == 4):
                break
            k += 1
            if k == 2:
                continue
        c[i] = k
        d[i] = 0 <= i < 3
    for i in range(n - 1, -1, -2):
        c[i] = -c[i]
    m, p = n // 2, 7
    m, p = p, m
    c[0] = m
    c[-1] = p
    return c, d


@kernel
def converted(a):
    c = output_tensor((8, len(a)), "float64")
    for i in range(a.shape[0]):
        c[0, i] = int32(a[i])
        c[1, i] = int8(a[i])
        c[2, i] = float16(a[i])
        c[3, i] = float64(a[i])
        c[4, i] = float32(a[i]) + 1
        c[5, i] = uint8(abs(a[i]))
        c[6, i] = isnan(a[i])
        c[7, i] = isinf(a[i]) or isfinite(a[i])
    return c


@kernel
def to_scalar(a):
    c = output_tensor((), a.dtype)
    s = float32(0)
    for at in grid(a.shape):
        s = s + a[at]
        if at[0] == 1:
            s += 1
    c[()] = s
    return c


@kernel
def in_place(a, b):
    for i in range(a.shape[0]):
        a[i] = a[i] + b[i]
    c = output_tensor(SHAPE[:1], b.dtype)
    c[0] = a[0]
    return c, a


@kernel
def kept_memory(a):
    c = output_tensor(a.shape, a.dtype)
    for i in range(len(a)):
        if a[i] > 0:
            d = allocate((2,), "float32")
            d[i % 2] = d[i % 2] + a[i]
            c[i] = d[0] - d[1]
    return c


@kernel
def softplus(a):
    c = output_tensor(a.shape, a.dtype)
    for i, j in grid(a.shape):
        c[i, j] = log(1 + exp(a[i, j]))
    return c


@kernel
def softplus_grad(a, dy):
    c = output_tensor(a.shape, a.dtype)
    for i, j in grid(a.shape):
        c[i, j] = dy[i, j] / (1 + exp(-a[i, j]))
    return c


@kernel
def stacked(a):
    n = a.shape[0]
    c = output_tensor((2 * n, a.shape[1]), a.dtype)
    for i in range(n):
        for j in range(a.shape[1]):
            c[i, j] = a[i, j]
            c[i + n, j] = 2 * a[i, j]
    return c


@kernel
def carried(a):
    c = output_tensor(a.shape, a.dtype)
    for i in range(a.shape[0]):
        if a[i] > 0:
            t = a[i]
        c[i] = t if a[i] > -1 else 0
    return c


@kernel
def behind_a_loop(a):
    c = output_tensor((1,), a.dtype)
    k = 0
    while a[k] < 1:
        t, k = a[k], k + 1
    c[0] = t
    return c


@kernel
def never(a):
    c = output_tensor(a.shape, a.dtype)
    for i in range(a.shape[0]):
        c[i] = t
    for t in range(2):
        c[0] = t
    return c


@kernel
def too_far(a, by):
    c = output_tensor(a.shape, a.dtype)
    for i in range(a.shape[0]):
        c[i] = a[i + by[0]]
    return c


@kernel
def written_too_far(a, by):
    c = output_tensor((3, 5), a.dtype)
    for i in range(len(by)):
        c[1, by[i]] = a[0]
    return c
