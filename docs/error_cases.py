"""The programs behind `docs/errors.md`: for each code one that fails, and one that works.

`make_errors.py` runs both: the first must raise the code, the second must run. Programs are
functions `net`, compiled with `jit` and called with a tensor of two float32 elements.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Case:
    """One error code.

    Attributes:
        code: the code.
        meaning: when it is raised and why.
        program: a program that raises it.
        instead: a program that does what was meant, or "".
        advice: what to do, where a program says too little.
        how: `"jit"` (compile and run), `"check"` (as `cellc check` does), `"trace"` (through
            `interpret_call` without hooks), `"exec"` (the text is not registered), `"changed"`
            (the file changes after it was imported), `"run"` (the error comes from the call),
            `"call"` (Python calls `net`), `"export"` (the Cell is exported to a file), `"stages"`
            (it is cut into two).
    """

    code: str
    meaning: str
    program: str
    instead: str = ""
    advice: str = ""
    how: str = "jit"


CASES: tuple[Case, ...] = (
    Case(
        "CE001",
        "cellc compiles the text of a function, so it needs that text. Functions from files "
        "and notebook cells have it, as do `python -c`, a script on standard input and lines typed "
        "at a prompt with line history. A function made with `exec` from a string has not, unless "
        "the string is its global `__source__`, and neither has one that came through a pipe.",
        '''
text = "def net(x):\\n    return x + 1\\n"
exec(text)
''',
        '''
from cellc.lang import register_source

text = "def net(x):\\n    return x + 1\\n"
register_source("<made>", text)
exec(compile(text, "<made>", "exec"))
''',
        how="exec",
    ),
    Case(
        "CE002",
        "cellc compiles the text of a function, and only a text that compiles to the very code "
        "that Python loaded. The file was edited after Python imported it, so its text is not that "
        "of the function any more. Texts that cellc saw earlier are tried, too: a function whose "
        "file was compiled before goes on working.",
        '''
def net(x):
    return x + 1

# ... and then, after the import, `x + 1` is edited to `x + 500` in the file
''',
        advice="Reload the module (`importlib.reload`) and create its Cells again, or restart "
        "Python. In a notebook `%autoreload 2` reloads it before each cell.",
        how="changed",
    ),
    Case(
        "CE101",
        "The statements of the language are a closed table "
        "(`frontend/cellc/lang/statements.py`). A statement that is not in it is an error, never "
        "a silent detour.",
        '''
def net(x):
    class Scale:
        factor = 2
    return x * Scale.factor
''',
        '''
class Scale:
    factor = 2

def net(x):
    return x * Scale.factor
''',
    ),
    Case(
        "CE102",
        "The same for expressions (`frontend/cellc/lang/expressions.py`). It is rare: nearly all "
        "expressions of Python are accepted.",
        '''
def net(x):
    return list(v async for v in x)
''',
        '''
def net(x):
    return [v for v in x]
''',
    ),
    Case(
        "CE103",
        "Generators are interpreted from one `yield` to the next, and what their `finally` and "
        "`with` blocks do must be done, so one that has such blocks is walked to its end or "
        "closed. A `yield` is evaluated first in its statement. A network itself is no generator.",
        '''
def net(x):
    def rows():
        try:
            yield from x
        finally:
            print("done")
    return next(rows())
''',
        '''
def net(x):
    def rows():
        try:
            yield from x
        finally:
            print("done")
    first, *_ = rows()
    return first
''',
    ),
    Case(
        "CE201",
        "A name that is neither a local variable, nor a global, nor a builtin.",
        '''
def net(x):
    return x + offset
''',
        '''
offset = 3

def net(x):
    return x + offset
''',
    ),
    Case(
        "CE202",
        "A local variable is read on a path where nothing has assigned it, as in Python.",
        '''
def net(x):
    y = scale * x
    scale = 2
    return y
''',
        '''
def net(x):
    scale = 2
    return scale * x
''',
    ),
    Case(
        "CE203",
        "An `if` on a tensor becomes a branch in the graph, and whether it is taken is known only "
        "at run time. A variable that only one branch assigns has no value on the other path.",
        '''
def net(x):
    if x.sum() > 0:
        y = x * 2
    return y
''',
        '''
def net(x):
    y = x
    if x.sum() > 0:
        y = x * 2
    return y
''',
    ),
    Case(
        "CE204",
        "The result of a run-time branch is one value of the graph, with one type: both "
        "branches must give the same dtype, and both a number or both a tensor. (Where they differ "
        "in more than that, in shape or in structure, the call is compiled for the path it takes.)",
        '''
def net(x):
    if x.sum() > 0:
        y = 1
    else:
        y = 2.5
    return x * y
''',
        '''
def net(x):
    if x.sum() > 0:
        y = 1.0
    else:
        y = 2.5
    return x * y
''',
    ),
    Case(
        "CE205",
        "The values that a run-time loop carries from one trip to the next keep their dtype and "
        "shape. Another loop is unrolled for the trips that this call makes, at most 500.",
        '''
def net(x):
    while x.sum() > 0:
        x = ops.concat((x, x[:1]))
    return x
''',
        '''
def net(x):
    while x.sum() > 10:
        x = x / 2
    return x
''',
    ),
    Case(
        "CE206",
        "A run-time loop may make no trip at all, and then the variable has no value.",
        '''
def net(x):
    while x.sum() > 10:
        x = x / 2
        last = x
    return last
''',
        '''
def net(x):
    last = x
    while x.sum() > 10:
        x = x / 2
        last = x
    return last
''',
    ),
    Case(
        "CE208",
        "Where a list, dict or object changes its structure under a run-time condition or in a "
        "run-time loop, the call is compiled for the way it goes: at most 500 conditions and trips "
        "are asked for. This loop makes more.",
        '''
def net(x):
    parts = [x]
    while x.sum() < 2000:
        x = x + 1
        parts.append(x)
    return sum(parts)
''',
        '''
def net(x):
    total = x
    while x.sum() < 2000:
        x = x + 1
        total = total + x
    return total
''',
    ),
    Case(
        "CE301",
        "numpy, math and other third-party functions on tensors are run by Python in each call "
        "(docs/guide/python.md, \"Python in graphs\"). A network that is compiled without being "
        "called (`compile`, a file) has no elements for them, so that it is not known what they "
        "give. On shapes and numbers they are fine.",
        '''
import numpy as np

def net(x):
    return np.sum(x)
''',
        '''
def net(x):
    return ops.sum(x)
''',
        how="trace",
    ),
    Case(
        "CE302",
        "A builtin that would have to look at elements in a way that cannot be asked for.",
        '''
def net(x):
    return sorted([(x[0], 1), (x[1], 2)])
''',
        '''
def net(x):
    return sorted([x[0], x[1]])
''',
    ),
    Case(
        "CE303",
        "A builtin that has no meaning in a graph: it reads files, asks the user, or runs code.",
        '''
def net(x):
    return x * float(open("scale.txt").read())
''',
        '''
scale = 2.0  # read outside, once

def net(x):
    return x * scale
''',
    ),
    Case(
        "CE304",
        "Recursion on a run-time condition is followed as far as this call goes: at most 500 "
        "conditions. The limit of recursion on known conditions is 1000 calls.",
        '''
def halve(v):
    if v.sum() < -1:
        return v
    return halve(v / 2)

def net(x):
    return halve(x)
''',
        '''
def halve(v):
    if v.sum() < 1:
        return v
    return halve(v / 2)

def net(x):
    return halve(x)
''',
    ),
    Case(
        "CE307",
        "A compiled function reads the state of the world in each call where a run can do it: "
        "clocks of `time`, numbers from `random` and `numpy.random`, `logging`, the environment "
        "(compared before each call). Other functions of the standard library that do not follow "
        "from their arguments would be called only once, when the function is compiled. "
        "So would a member of `Tensor` that a program has replaced by something that has no "
        "source, or that code of cellc itself calls.",
        '''
import datetime

def net(x):
    return x * datetime.datetime.now().second
''',
        '''
import time

def net(x):
    return x * (time.time() % 60)
''',
        advice="Random numbers of the network itself come from `ops.rand`, `ops.randn`, "
        "`ops.randint` and `nn.Dropout`; what else it needs to know is an argument.",
    ),
    Case(
        "CE308",
        "An iterator, generator or file that was made outside goes on from call to call. The trace "
        "of a function would take it further once.",
        '''
import itertools

numbers = itertools.count(1)

def net(x):
    return x * next(numbers)
''',
        '''
class Net(Cell):
    def __init__(self):
        super().__init__()
        self.number = 0

    def construct(self, x):
        self.number += 1
        return x * self.number

net = Net()
''',
    ),
    Case(
        "CE309",
        "Under `jit_syntax_level=ms.STRICT` (of `set_context`, or of a `JitConfig`) nothing of a "
        "network is left to Python when it runs.",
        '''
def net(x):
    return ms.Tensor(x.asnumpy() * 2)

net = ms.jit(net, jit_config=ms.JitConfig(jit_syntax_level="STRICT"))
''',
        '''
def net(x):
    return x * 2

net = ms.jit(net, jit_config=ms.JitConfig(jit_syntax_level="STRICT"))
''',
        how="call",
    ),
    Case(
        "CE310",
        "The results of Python are learnt from the first call, which runs the network up to there "
        "during compilation. That is not possible in a function that an op calls in its own way "
        "(`ops.vmap`, `ops.scan`), nor after a size that follows from elements (`x[mask]`), and a "
        "comprehension does not walk over many elements that only the run knows.",
        '''
def net(x):
    return ms.Tensor(x[x > 0].asnumpy() * 2)
''',
        '''
def net(x):
    a = x.asnumpy()
    return ms.Tensor(a[a > 0] * 2)
''',
    ),
    Case(
        "CE401",
        "A condition must be one bool. A tensor of several elements has no single truth value.",
        '''
def net(x):
    if x > 0:
        return x
    return -x
''',
        '''
def net(x):
    return ops.where(x > 0, x, -x)
''',
        advice="Or say which one is meant: `(x > 0).all()`, `(x > 0).any()`.",
    ),
    Case(
        "CE402",
        "A function with a run-time branch returns values of one dtype on all paths, either "
        "numbers or tensors. (Where they differ in shape or in structure, or one is None, the call "
        "is compiled for the path it takes.)",
        '''
def net(x):
    if x.sum() > 0:
        return x
    return 0
''',
        '''
def net(x):
    if x.sum() > 0:
        return x
    return ops.zeros_like(x)
''',
    ),
    Case(
        "CE403",
        "An exception that depends on elements can be caught where the run can be asked for its "
        "condition: not in a run-time loop that makes more than 500 trips, nor in functions that "
        "`vmap` or a `bprop` traces.",
        '''
def net(x):
    while x.sum() < 10000:
        try:
            assert x.sum() > 0
            x = x + 1
        except AssertionError:
            x = -x
    return x
''',
        '''
def net(x):
    while x.sum() < 10000:
        x = ops.where(x.sum() > 0, x + 1, -x)
    return x
''',
    ),
    Case(
        "CE404",
        "The number of elements of a list, or the way an iterator goes, follows from a run-time "
        "value, and the run cannot be asked for it: in a loop of the run, or more than 500 times.",
        '''
def net(x):
    return [v for v in x.tile((500,)) if v > 0]
''',
        '''
def net(x):
    many = x.tile((500,))
    return many[many > 0]
''',
    ),
    Case(
        "CE501",
        "A compiled function sets attributes of Cells, plain objects and classes as Python does: "
        "the run makes the change. It cannot where the run could not do the same: a Parameter or a "
        "Cell (they belong into `__init__`), a function or an iterator that the trace made, an "
        "attribute of a module or function, one with a property that is not yours or a "
        "`__setattr__` of yours. A Parameter or a Cell that the function makes for itself is new "
        "in each call. It is refused if its values are drawn or known to the run only, or if it is "
        "made under a condition or in a loop of the run.",
        '''
class Net(Cell):
    def construct(self, x):
        self.scale = ms.Parameter(ms.Tensor([2.0, 3.0]), name="scale")
        return x * self.scale

net = Net()
''',
        '''
class Net(Cell):
    def __init__(self):
        super().__init__()
        self.scale = ms.Parameter(ms.Tensor([2.0, 3.0]), name="scale")

    def construct(self, x):
        self.last = x * self.scale
        return self.last

net = Net()
''',
    ),
    Case(
        "CE502",
        "Numbers and tensors in attributes may be set under a condition that only the run knows. "
        "Other values decide what is compiled, so they cannot depend on one.",
        '''
class Net(Cell):
    def __init__(self):
        super().__init__()
        self.mode = "small"

    def construct(self, x):
        if x.sum() > 0:
            self.mode = "large"
        return x

net = Net()
''',
        '''
class Net(Cell):
    def __init__(self):
        super().__init__()
        self.large = False

    def construct(self, x):
        if x.sum() > 0:
            self.large = True
        return x

net = Net()
''',
    ),
    Case(
        "CE504",
        "A file (`cellc compile`, `cellc export`, `ms.export`) holds the network, not the Python "
        "objects that it changes.",
        '''
class Net(Cell):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def construct(self, x):
        self.calls += 1
        return x * self.calls

net = Net()
''',
        '''
class Net(Cell):
    def __init__(self):
        super().__init__()
        self.calls = ms.Parameter(ms.Tensor(0, ms.int32), name="calls", requires_grad=False)

    def construct(self, x):
        ops.assign(self.calls, self.calls + 1)
        return x * self.calls

net = Net()
''',
        how="export",
    ),
    Case(
        "CE601",
        "A TypeError of the program: wrong number of arguments, an operand of a wrong type.",
        '''
def net(x):
    return x + "1"
''',
        '''
def net(x):
    return x + 1
''',
    ),
    Case(
        "CE602",
        "A ValueError of the program, most often shapes that do not fit.",
        '''
def net(x):
    return x + ms.Tensor([1.0, 2.0, 3.0])
''',
        '''
def net(x):
    return x + ms.Tensor([1.0, 2.0])
''',
    ),
    Case(
        "CE603",
        "An IndexError or KeyError of the program.",
        '''
def net(x):
    table = {"a": x}
    return table["b"]
''',
        '''
def net(x):
    table = {"a": x}
    return table.get("b", x)
''',
    ),
    Case(
        "CE604",
        "An AttributeError of the program.",
        '''
def net(x):
    return x.tanhh()
''',
        '''
def net(x):
    return x.tanh()
''',
    ),
    Case(
        "CE605",
        "Arithmetic on numbers known at compile time failed. Tensors do not raise: a division of "
        "floats by zero gives infinity or NaN.",
        '''
def net(x):
    return x * (1 // 0)
''',
        '''
def net(x):
    return x / 0
''',
    ),
    Case(
        "CE606",
        "The program raised a RuntimeError or NotImplementedError while it was compiled.",
        '''
def net(x):
    raise RuntimeError("not trained yet")
''',
    ),
    Case(
        "CE607",
        "An `assert` on values known at compile time is false.",
        '''
def net(x):
    assert x.shape[0] == 3, f"need 3 elements, got {x.shape[0]}"
    return x
''',
        '''
def net(x):
    assert x.shape[0] == 2
    return x
''',
    ),
    Case(
        "CE608",
        "The program raised an exception of a class of its own. A compilation raises it as it is, "
        "with the place in its notes; `cellc check`, which goes on to find more errors, reports "
        "it under this code.",
        '''
class NotReady(Exception):
    pass

def net(x):
    raise NotReady("call prepare() first")
''',
        how="check",
    ),
    Case(
        "CE701",
        "The condition of an `assert` did not hold for the elements of this call. As in PyNative "
        "mode, an AssertionError with the message of the program; the place is a note of the "
        "exception (`__notes__`, printed with the traceback), and its line is `error.line`. The "
        "call has changed no Parameter.",
        '''
def net(x):
    assert x.sum() < 0, f"the sum must be negative, it is {x.sum()}"
    return x
''',
        how="run",
    ),
    Case(
        "CE702",
        "A `raise` under a condition that only the run knows. The exception is of the class that "
        "the program raises, or of a class derived from it.",
        '''
def check(x):
    if x.max() > 1:
        raise ValueError(f"not normalised: {x}")

def net(x):
    check(x)
    return x * 2
''',
        how="run",
    ),
    Case(
        "CE703",
        "An index that is a tensor of the graph (of `x[i]`, `ops.gather`, an embedding, ...) is "
        "outside of the axis it indexes, or a mask chooses another number of elements than there "
        "are values. Compiled code looks at all of them, and never reads or "
        "writes out of bounds.",
        '''
def net(x):
    i = ops.cast(x.sum(), ms.int32)
    return x[i]
''',
        '''
def net(x):
    i = ops.cast(x.sum(), ms.int32)
    return x[ops.clip(i, 0, 1)]
''',
        how="run",
    ),
    Case(
        "CE801",
        "With `pipeline_stages` a network is cut into stages, which different processes work on. "
        "Each stage needs a Cell with its `pipeline_stage`, numbers must rise along the network, "
        "and a step needs at least as many micro-batches as there are stages. Sizes are known "
        "before it runs, and Python does no part of it.",
        '''
class Scale(Cell):
    def construct(self, x):
        return x * 2

class Net(Cell):
    def __init__(self):
        super().__init__()
        self.first, self.second = Scale(), Scale()
        self.first.pipeline_stage = 1
        self.second.pipeline_stage = 0

    def construct(self, x):
        return self.second(self.first(x))

net = Net()
''',
        '''
class Scale(Cell):
    def construct(self, x):
        return x * 2

class Net(Cell):
    def __init__(self):
        super().__init__()
        self.first, self.second = Scale(), Scale()
        self.first.pipeline_stage = 0
        self.second.pipeline_stage = 1

    def construct(self, x):
        return self.second(self.first(x))

net = Net()
''',
        how="stages",
    ),
)
