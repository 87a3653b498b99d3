# 1 1 1
class Held:
    def __init__(self, value):
        self.value = value

    def __enter__(self):
        return self.value * 2

    def __exit__(self, kind, error, trace):
        return kind is KeyError


def program(x, y, n):
    v1 = sum([x[0], x[0]])
    v1 = sum((e5 * w for e5, w in zip((x, x), (2, 3))), x).max()
    with Held(ops.tanh(v1)) as w6:
        t7 = n * 0
        while t7 < 3:
            t7 = t7 + 1
            t8 = n * 0
            while t8 < 1 and (x > x).any():
                t8 = t8 + 1
                w6 -= w6
                if (w6 < 2.0):
                    break
            else:
                if (w6 < 2.0):
                    break
                x *= (y if (n == -1) else y)[:int((n if (w6 <= -1.5) else n)) % 3].sum(axis=0)
                w6 = ((w6 if (n > -1) else w6) if (not (v1 < -1.5)) else x[n % 3])
        else:
            v1 += x[n % 3]
            if (x > x).any():
                return y[:int(n) % 3].sum(axis=0), [w6, ops.maximum(n, n)]
        if (v1 <= -1.5):
            return x, [y[0, -3], (n // 2)]
    return x, [sum([v1, v1]), (n - n)]
