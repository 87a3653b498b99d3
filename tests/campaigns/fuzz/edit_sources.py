"""The ways in which a program finds a number, and the statements that change it (`edits.py`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A way in which `construct` finds a number. `$` stands for a number of its own in all texts,
    `#` for another value at each use.

    Attributes:
        before: statements of the module.
        init: statements of `__init__`.
        read: an expression of `construct`, a number or a scalar Tensor.
        edits: statements that run in the module between calls; `net` is the network.
    """

    before: str
    init: str
    read: str
    edits: tuple[str, ...]


def _of_object(make: str, read: str, *edits: str) -> Source:
    """A source of an object that is a global name, an attribute or in a closure."""
    return Source(f"{make}\no$ = O$()", "self.o$ = o$", read, edits)


_CONFIG = "class B$:\n    k = #\nclass O$(B$):\n    pass"
_GETATTR = ("class O$:\n    def __init__(self):\n        self.__dict__['d'] = {'k': #}\n"
            "    def __getattr__(self, n):\n        try:\n            return self.__dict__['d'][n]\n"  # noqa: E501
            "        except KeyError:\n            raise AttributeError(n)")
_BOX = "class Add$(nn.Cell):\n    def __init__(self, k):\n        super().__init__()\n" \
       "        self.k = k\n    def construct(self, x):\n        return x * 0 + self.k"


def _special(name: str, read: str, gives: str = "self.v", params: str = "self") -> Source:
    """A special method of a user's class, its state and its code."""
    text = (f"class O$:\n    def __init__(self):\n        self.v = #\n"
            f"    def {name}({params}):\n        return {gives}\n")
    other = gives.replace("self.v", "(self.v + #)")
    return _of_object(text, read, "o$.v = #", f"O$.{name} = lambda {params}: {other}")


SOURCES = (
    # Attributes of the network.
    Source("", "self.a$ = #", "self.a$", (
        "net.a$ = #", "object.__setattr__(net, 'a$', #)", "net.__dict__['a$'] = #",
        "setattr(net, 'a$', #)", "vars(net).update(a$=#)")),
    Source("", "", "getattr(self, 'a$', #)", (
        "net.a$ = #", "Net.a$ = #", "net.__dict__.pop('a$', None)",
        "object.__setattr__(net, 'a$', #)")),
    Source("", "", "(1 if hasattr(self, 'a$') else 2)", (
        "net.a$ = #", "Net.a$ = #", "net.__dict__.pop('a$', None)")),
    Source("", "Net.c$ = #", "self.c$", ("Net.c$ = #", "net.c$ = #")),
    Source("", "Net.c$ = #", "type(self).c$", ("Net.c$ = #", "setattr(Net, 'c$', #)")),
    Source("", "self.p$ = ms.Parameter(Tensor([#.0]), name='p$')", "self.p$[0]", (
        "net.p$.set_data(Tensor([#.0]))", "net.p$ = ms.Parameter(Tensor([#.0]), name='p$')",
        "net._params['p$'] = ms.Parameter(Tensor([#.0]), name='p$')")),
    Source("", "self.p$ = ms.Parameter(Tensor([1.0]), name='p$')",
           "(1 if self.p$.requires_grad else 2)", ("net.p$.requires_grad = False",
                                                   "net.p$.requires_grad = True")),
    Source("", "", "(1 if self.training else 2)", ("net.set_train()", "net.set_train(False)",
                                                   "net.training = True")),
    Source("", "self.l$ = [#, #]", "self.l$[0] + len(self.l$)", (
        "net.l$[0] = #", "net.l$.append(#)", "net.l$.insert(0, #)", "net.l$ = [#]",
        "net.l$[:] = [#, #, #]")),
    Source("", "self.l$ = [[#], {'a': [#]}]", "self.l$[0][0] + self.l$[1]['a'][0]", (
        "net.l$[0][0] = #", "net.l$[1]['a'][0] = #", "net.l$[1] = {'a': [#]}",
        "net.l$[1].update(a=[#])")),
    Source("", "self.d$ = {'k': #}", "self.d$['k'] + len(self.d$)", (
        "net.d$['k'] = #", "net.d$['z'] = 1", "net.d$.update(k=#)", "net.d$ = {'k': #}",
        "net.d$.pop('z', None)")),
    Source("", "self.d$ = {'k': #}", "self.d$.get('z', #)", (
        "net.d$['z'] = #", "net.d$.pop('z', None)")),
    Source("", "self.d$ = {'k': #}", "(1 if 'z' in self.d$ else 2)", (
        "net.d$['z'] = #", "net.d$.pop('z', None)")),
    Source("", "self.s$ = {#}", "(1 if 5 in self.s$ else 2) + len(self.s$)", (
        "net.s$.add(5)", "net.s$.discard(5)", "net.s$ = {5, #}")),
    Source("", "self.q$ = collections.deque([#])", "self.q$[0]", (
        "net.q$.appendleft(#)", "net.q$[0] = #", "net.q$.rotate(1)")),
    Source("", "self.d$ = collections.OrderedDict(a=#, b=#)", "list(self.d$.values())[0]", (
        "net.d$['a'] = #", "net.d$.move_to_end('a')", "net.d$.popitem(last=False)\n"
        "net.d$['c'] = #")),
    Source("", "self.n$ = np.array([#, #])", "int(self.n$[0])", (
        "net.n$[0] = #", "net.n$ = np.array([#])", "net.n$ += 1")),
    Source("", "self.t$ = Tensor([#.0])", "self.t$[0]", (
        "net.t$[0] = #", "net.t$ = Tensor([#.0])", "net.t$.add_(1.0)")),
    Source("class T$(NamedTuple):\n    k: int", "self.t$ = T$(#)", "self.t$.k", (
        "net.t$ = T$(#)", "net.t$ = net.t$._replace(k=#)")),
    # Cells within.
    Source(_BOX, "self.l$ = nn.CellList([Add$(#), Add$(#)])",
           "sum([c(x)[0] for c in self.l$])", (
               "net.l$[0] = Add$(#)", "net.l$.append(Add$(#))", "net.l$.insert(0, Add$(#))",
               "del net.l$[0]\nnet.l$.append(Add$(#))", "net.l$.extend([Add$(#)])",
               "net.l$[0].k = #")),
    Source(_BOX, "self.l$ = nn.CellList([Add$(#)])", "len(self.l$) + self.l$[0](x)[0]", (
        "net.l$.append(Add$(#))", "net.l$[0] = Add$(#)")),
    Source(_BOX, "self.m$ = nn.CellDict({'a': Add$(#)})", "sum([c(x)[0] for c in self.m$.values()])", (  # noqa: E501
        "net.m$['a'] = Add$(#)", "net.m$['b'] = Add$(#)", "net.m$.update({'c': Add$(#)})",
        "net.m$.clear()\nnet.m$['a'] = Add$(#)")),
    Source(_BOX, "self.m$ = nn.CellDict({'a': Add$(#)})", "(1 if 'b' in self.m$ else 2)", (
        "net.m$['b'] = Add$(#)",)),
    Source(_BOX, "self.q$ = nn.SequentialCell(Add$(#), Add$(#))", "self.q$(x)[0]", (
        "net.q$[1] = Add$(#)", "net.q$.append(Add$(#))", "del net.q$[0]\nnet.q$.append(Add$(#))")),
    Source(_BOX, "self.c$ = Add$(#)", "self.c$(x)[0]", (
        "net.c$ = Add$(#)", "net.c$.k = #", "Add$.construct = lambda self, x: x * 0 + #",
        "net.c$.construct = lambda x: x * 0 + #", "net._cells['c$'] = Add$(#)",
        "net.insert_child_to_cell('c$', Add$(#))", "net.c$.__class__ = type('A', (Add$,), {})")),
    Source(_BOX, "self.cs$ = [Add$(#), Add$(#)]", "sum([c(x)[0] for c in self.cs$])", (
        "net.cs$[0] = Add$(#)", "net.cs$.append(Add$(#))", "net.cs$[0].k = #")),
    # Objects of the user.
    _of_object(_CONFIG, "self.o$.k", "o$.k = #", "O$.k = #", "B$.k = #", "o$.__dict__.update(k=#)",
               "net.o$ = O$()", "o$.__dict__ = {'k': #}",
               "o$.__class__ = type('C', (O$,), {'k': #})", "O$.__bases__ = (type('D', (), {'k': #}),)"),  # noqa: E501
    _of_object(_CONFIG, "o$.k", "o$.k = #", "O$.k = #", "B$.k = #", "o$ = O$()\no$.k = #"),
    _of_object(_CONFIG, "getattr(o$, 'z', #)", "o$.z = #", "B$.z = #"),
    _of_object(_GETATTR, "self.o$.k", "o$.d['k'] = #", "o$.k = #", "O$.k = #"),
    _of_object(_GETATTR, "getattr(o$, 'z', #)", "o$.d['z'] = #", "o$.z = #"),
    _of_object(_GETATTR, "(1 if hasattr(o$, 'z') else 2)", "o$.d['z'] = #", "o$.d.pop('z', None)",
               "O$.__getattr__ = lambda self, n: #"),
    _of_object("class O$:\n    __slots__ = ('k',)\n    def __init__(self):\n        self.k = #",
               "self.o$.k", "o$.k = #"),
    _of_object("class O$:\n    def __init__(self):\n        self._k = #\n    @property\n"
               "    def k(self):\n        return self._k", "self.o$.k", "o$._k = #",
               "O$.k = property(lambda self: #)"),
    _of_object("class O$:\n    n = 0\n    @functools.cached_property\n    def k(self):\n"
               "        return #", "self.o$.k", "o$.k = #", "del o$.k", "o$.__dict__.pop('k', None)"),  # noqa: E501
    _of_object("class V$:\n    def __init__(self):\n        self.v = #\n"
               "    def __get__(self, o, t=None):\n        return self.v\nv$ = V$()\n"
               "class O$:\n    k = v$", "self.o$.k", "v$.v = #", "o$.k = #",
               "V$.__get__ = lambda self, o, t=None: #"),
    _of_object("class M$(type):\n    k = #\nclass O$(metaclass=M$):\n    pass", "O$.k", "M$.k = #",
               "O$.k = #"),
    _of_object("class B$:\n    def f(self):\n        return #\nclass O$(B$):\n    def f(self):\n"
               "        return super().f() + 1", "self.o$.f()", "B$.f = lambda self: #",
               "O$.f = lambda self: #", "o$.f = lambda: #"),
    _of_object("class O$:\n    @staticmethod\n    def f():\n        return #\n    @classmethod\n"
               "    def g(cls):\n        return cls.k\n    k = #", "self.o$.f() + O$.g()",
               "O$.f = staticmethod(lambda: #)", "O$.k = #", "O$.g = classmethod(lambda cls: #)"),
    Source("@dataclasses.dataclass\nclass O$:\n    k: int = #\no$ = O$()", "self.o$ = o$",
           "self.o$.k", ("o$.k = #", "net.o$ = O$(#)", "net.o$ = dataclasses.replace(o$, k=#)")),
    Source("class O$(dict):\n    def __getattr__(self, n):\n        return self[n]\no$ = O$(k=#)",
           "self.o$ = o$", "self.o$.k", ("o$['k'] = #", "o$.update(k=#)", "net.o$ = O$(k=#)")),
    Source("o$ = types.SimpleNamespace(k=#)", "self.o$ = o$", "self.o$.k", (
        "o$.k = #", "net.o$ = types.SimpleNamespace(k=#)", "vars(o$)['k'] = #")),
    Source("class E$(enum.Enum):\n    A = #\n    B = #", "self.e$ = E$.A", "self.e$.value", (
        "net.e$ = E$.B", "net.e$ = E$.A")),
    Source("o$ = [#, #]\nc$ = [o$]", "self.o$ = c$", "self.o$[0][1]", (
        "o$[1] = #", "c$[0] = [0, #]", "net.o$ = [[0, #]]")),
    # Special methods.
    _special("__len__", "len(self.o$)", "abs(self.v)"),
    _special("__bool__", "(1 if self.o$ else 2)", "self.v > 4"),
    _special("__call__", "self.o$()"), _special("__getitem__", "self.o$[0]", params="self, i"),
    _special("__contains__", "(1 if 3 in self.o$ else 2)", "self.v > 4", "self, i"),
    _special("__add__", "self.o$ + 1", params="self, o"), _special("__neg__", "-self.o$"),
    _special("__radd__", "1 + self.o$", params="self, o"),
    _special("__eq__", "(1 if self.o$ == 3 else 2)", "self.v > 4", "self, o"),
    _special("__lt__", "(1 if self.o$ < 3 else 2)", "self.v > 4", "self, o"),
    _special("__int__", "int(self.o$)"), _special("__float__", "float(self.o$)", "float(self.v)"),
    _special("__index__", "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10][self.o$ % 10 if 0 else self.o$.__index__() % 10]"),  # noqa: E501
    _special("__str__", "len(str(self.o$))", "'a' * self.v"),
    _special("__repr__", "len(repr(self.o$))", "'a' * self.v"),
    _special("__format__", "len(f'{self.o$}')", "'a' * self.v", "self, s"),
    _special("__iter__", "sum([i for i in self.o$])", "iter([self.v, 1])"),
    _special("__abs__", "abs(self.o$)"), _special("__round__", "round(self.o$)"),
    _special("__hash__", "hash(self.o$) % 7"), _special("__reversed__", "list(reversed(self.o$))[0]",  # noqa: E501
                                                         "iter([self.v])"),
    _special("__enter__", "self.o$.__enter__()"),
    # Names of modules and functions.
    Source("g$ = #", "", "g$", ("g$ = #", "globals()['g$'] = #")),
    Source("def f$(k=#):\n    return k", "", "f$()", (
        "f$.__defaults__ = (#,)", "def f$(k=#):\n    return k + 1", "f$ = lambda: #",
        "f$.__code__ = (lambda k=0: k + #).__code__")),
    Source("def f$(*, k=#):\n    return k", "", "f$()", (
        "f$.__kwdefaults__['k'] = #", "f$.__kwdefaults__ = {'k': #}")),
    Source("def f$(k=[#]):\n    return k[0]", "", "f$()", ("f$.__defaults__[0][0] = #",)),
    Source("def f$():\n    return f$.k\nf$.k = #", "", "f$()", ("f$.k = #",)),
    Source("def m$():\n    k = #\n    def f():\n        return k\n    def g(v):\n"
           "        nonlocal k\n        k = v\n    return f, g\nf$, s$ = m$()", "", "f$()", (
               "s$(#)", "f$, s$ = m$()", "f$.__closure__[0].cell_contents = #")),
    Source("p$ = functools.partial(lambda a, k: a + k, #, k=#)", "", "p$()", (
        "p$.keywords['k'] = #", "p$ = functools.partial(lambda k: k, #)")),
    Source("@functools.lru_cache\ndef f$():\n    return g$\ng$ = #", "", "f$()", (
        "g$ = #\nf$.cache_clear()", "f$ = lambda: #")),
    Source("m$ = types.ModuleType('m$')\nm$.k = #", "", "m$.k", ("m$.k = #", "setattr(m$, 'k', #)")),  # noqa: E501
    Source("", "", "len([1, 2])", ("len = lambda v: #", "globals().pop('len', None)")),
    Source("act$ = ops.relu", "", "act$(x)[0]", ("act$ = ops.neg", "act$ = ops.abs", "act$ = ops.relu")),  # noqa: E501
    Source("class O$:\n    f = ops.relu\no$ = O$()", "", "O$.f(x)[0]", ("O$.f = ops.neg",
                                                                       "O$.f = ops.abs")),
    Source("", "self.f$ = lambda v: v + #", "self.f$(1)", ("net.f$ = lambda v: v + #",)),
    Source("os.environ['CELLC_EDIT_$'] = '#'", "", "int(os.environ['CELLC_EDIT_$'])", (
        "os.environ['CELLC_EDIT_$'] = '#'",)),
    Source("", "Net.h$ = lambda self, v: v + #", "self.h$(1)", (
            "Net.h$ = lambda self, v: v + #", "net.h$ = lambda v: v * #",
            "net.__dict__['h$'] = lambda v: v - #")),
    # Containers of the standard library.
    Source("", "self.u$ = collections.UserDict(k=#)", "self.u$['k']", (
        "net.u$['k'] = #", "net.u$.update(k=#)", "net.u$.data['k'] = #")),
    Source("", "self.u$ = collections.UserList([#])", "self.u$[0] + len(self.u$)", (
        "net.u$[0] = #", "net.u$.append(#)", "net.u$.data[0] = #")),
    Source("", "self.u$ = collections.ChainMap({}, {'k': #})", "self.u$['k']", (
        "net.u$['k'] = #", "net.u$.maps[1]['k'] = #")),
    Source("", "self.u$ = collections.Counter(k=#)", "self.u$['k'] + self.u$['z']", (
        "net.u$['k'] = #", "net.u$.update(z=#)")),
    Source("", "self.u$ = collections.UserDict(k=#)", "len(dict(self.u$)) + len(str({**self.u$}))", (  # noqa: E501
        "net.u$['k'] = #", "net.u$['z'] = #", "net.u$.data = {'k': 1000}", "net.u$.clear()")),
    Source("", "self.u$ = collections.ChainMap({}, {'k': #})", "len(str(dict(self.u$)))", (
        "net.u$['z'] = #", "net.u$.maps.append({'y': #})", "net.u$.maps[1]['k'] = 1000")),
    Source("", "self.u$ = collections.UserList([#])", "len(sorted(self.u$)) + len(repr(self.u$))", (
        "net.u$.append(#)", "net.u$.data.insert(0, 1000)", "net.u$.clear()")),
    Source("", "self.u$ = collections.deque([#])", "len(str(list(self.u$))) + (1 if self.u$ else 2)", (  # noqa: E501
        "net.u$.append(1000)", "net.u$.rotate(1)", "net.u$.clear()")),
    Source("", "self.u$ = types.SimpleNamespace(a=#)", "len(str(self.u$))", (
        "net.u$.a = 1000", "net.u$.z = #", "del net.u$.a")),
    Source("d$ = {'k': #}\nu$ = d$.items()", "", "len(str(list(u$))) + len(u$)", (
        "d$['k'] = 1000", "d$['z'] = #", "d$.clear()")),
    Source("d$ = {'k': #}\nu$ = d$.keys()", "", "len(str(sorted(u$)))", ("d$['z'] = #", "d$.clear()")),  # noqa: E501
    Source("d$ = {'k': #}\nu$ = types.MappingProxyType(d$)", "", "u$['k']", (
        "d$['k'] = #",)),
    Source("", "self.u$ = bytearray([#, #])", "self.u$[0]", ("net.u$[0] = #", "net.u$.append(#)")),
    Source("", "self.u$ = array.array('i', [#, #])", "self.u$[0]", ("net.u$[0] = #",)),
    Source("", "self.u$ = frozenset([#])", "len(self.u$)", ("net.u$ = frozenset([#, #])",)),
    Source("", "self.u$ = (#, [#])", "self.u$[0] + self.u$[1][0]", (
        "net.u$ = (#, [#])", "net.u$[1][0] = #")),
    Source("class L$(list):\n    pass", "self.u$ = L$([#])\n        self.u$.k = #",
           "self.u$[0] + self.u$.k", ("net.u$[0] = #", "net.u$.k = #", "net.u$.append(#)")),
)
