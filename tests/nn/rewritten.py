"""Networks that `test_rewrite.py` changes; MindSpore reads them, too."""

try:
    import mindspore as ms
    from mindspore import Parameter, Tensor, nn, ops
except ImportError:
    import cellc as ms
    from cellc import Parameter, Tensor, nn, ops


def double(x, y):
    return ops.add(x, y) * 2


class Convolutions(nn.Cell):
    def __init__(self, include_top=True):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 2, 3, pad_mode="valid", weight_init="ones")
        self.conv2 = nn.Conv2d(2, 3, 3, pad_mode="valid", weight_init="ones")
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(kernel_size=2, stride=2)
        self.include_top = include_top
        if self.include_top:
            self.flatten = nn.Flatten()
            self.fc1 = nn.Dense(3, 4, weight_init="ones")
            self.fc2 = nn.Dense(4, 2, weight_init="ones")

    def construct(self, x):
        x = self.conv1(x)
        x = self.relu(x)
        x = self.pool(x)
        x = self.conv2(x)
        x = self.relu(x)
        if not self.include_top:
            return x
        x = self.flatten(x)
        x = self.relu(self.fc1(x))
        x = self.fc2(x)
        return x  # noqa: RET504


class Sub(nn.Cell):
    def __init__(self):
        super().__init__()
        self.relu = nn.ReLU()
        self.add = ops.Add()
        self.__scale = Parameter(Tensor([0.5, 1.5, 2.5, 3.5], ms.float32), name="scale")

    def construct(self, x):
        """A text is no statement."""
        y = self.relu(x)
        x = self.add(x, y)
        return x * self.__scale


class Derived(Sub):
    def construct(self, x):
        return super().construct(x) + 1


class Mixed(nn.Cell):
    def __init__(self):
        super().__init__()
        self.sub = Sub()
        self.derived = Derived()
        self.dense = nn.Dense(4, 4, weight_init="ones")
        self.seq = nn.SequentialCell(nn.Dense(4, 4, weight_init="ones"), nn.ReLU(), Sub())
        self.blocks = nn.CellList([nn.Dense(4, 4, weight_init="ones"), nn.ReLU()])
        self.k = 3

    def construct(self, x, scale=2.0):
        x = self.derived(self.sub(x))
        a, b = ops.split(self.dense(x), 2, axis=1)
        y = ops.concat((a, b), axis=1) + x * scale - 1
        y = self.seq(y)
        for c in self.blocks:
            y = c(y)
        y = self.helper(y, k=self.k)
        y = double(y, x)
        t = y.shape
        y = y.reshape(t)
        y += 1
        z = [a, b]
        w = -y
        if self.k > 2 and len(z) == 2:
            y = self.dense(y)
        elif self.k == 1:
            y = y - 1
        else:
            y = y + 1
        n = 0
        while n < 2:
            y = y + n
            n += 1
        return y, w, z[0] if self.k else z[1]

    def helper(self, x, k):
        return x * k
