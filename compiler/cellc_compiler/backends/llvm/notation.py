"""The notation of the host side's functions: LLVM text with a few instructions more.

    %n = field %case.nargs, ptr %p          the value of a field of the structure at %p
    %at = place %context.free, ptr %p       its address
    set %context.free, ptr %p = %value      stores the field
    count %thread.copies, ptr %p            adds 1 to it
    %a = item ptr, ptr %args[%i]            an element of an array
    %a = item i64, ptr %spans[%i, 1]        the first (0) or second of a pair in an array of pairs
    put ptr %a, ptr %args[%i]               stores one
    call void {DEC_REF}(ptr %a)             calls a function of the external table
    br eq ptr %a, null, label %x, label %y  branches on a comparison
    if eq ptr %a, %b, else %no              goes on where it holds, or at the label
    if %fine, else %no                      the same of an i1
    loop %i < %n, else %out                 goes on with %i = 0, 1, ..., then at the label
    next %i                                 ends the trip

`%p[%i]` is the structure number %i from %p on. Types are those of `cellc_runtime.abi.STRUCTURES`,
so neither a number of a field nor its type stands in the text. A function begins with the block
`entry`; a block without an end falls through to the next label.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from cellc_runtime.abi import FIRST_CALLBACK, STRUCTURES, TABLE, Ext

_ENDS = ("br", "ret", "switch")
_LABEL = re.compile(r"([\w.]+):")
_START = re.compile(r"  (?:%[\w.]+ = )?(?:tail )?(\w+)")


Structures = Mapping[str, Sequence[tuple[str, str]]]
"""Fields in order, with their types, by name."""


def declarations(structures: Structures = STRUCTURES) -> str:
    """The types, `%context` and so on."""
    return "".join(
        f"%{name} = type {{ {', '.join(kind for _, kind in fields)} }}\n"
        for name, fields in structures.items()
    )


def table_slot(ext: Ext) -> str:
    """The address of a place in the external table, as a constant expression."""
    return f"getelementptr (ptr, ptr @{TABLE}, i64 {ext.value})"


TABLE_DECLARATION = f"@{TABLE} = external hidden global [{FIRST_CALLBACK} x ptr]\n"


def expand(code: str, structures: Structures = STRUCTURES) -> str:
    """The text in LLVM's own instructions, with the table's places (`{NAME}`) written into it.

    Raises:
        KeyError: there is no such structure, or no loop that a trip could end.
        ValueError: a structure has no such field.
    """
    writer = _Writer(structures)
    for line in code.split("\n"):
        writer.line(line)
    out = "\n".join(writer.out)
    for ext in Ext:
        out = out.replace(f"{{{ext.name}}}", table_slot(ext))
    return out


class _Writer:
    """Rewrites line by line.

    Attributes:
        block: the label of the block that is written.
        open: whether that block has no end yet.
        loops: where the phi of each loop is, without the value of its next trip.
    """

    def __init__(self, structures: Structures) -> None:
        self.structures = structures
        self.out: list[str] = []
        self.block, self.open = "entry", False
        self.count = 0
        self.loops: dict[str, int] = {}

    def line(self, line: str) -> None:
        """Write one line."""
        start = _START.match(line)
        form = _FORMS.get(start[1]) if start else None
        if form and (use := form[0].fullmatch(line)):
            form[1](self, *use.groups())
            return
        if label := _LABEL.fullmatch(line):
            self.label(label[1])
            return
        self.out.append(line)
        if line.endswith("{"):
            self.block, self.open = "", False
            self.label("entry")
        elif start:
            self.open = start[1] not in _ENDS

    def label(self, name: str) -> None:
        """Begin a block."""
        if name == self.block:
            return  # `entry`, written out
        if self.open:
            self.out.append(f"  br label %{name}")
        self.out.append(f"{name}:")
        self.block, self.open = name, True

    def fresh(self, what: str) -> str:
        """A new name."""
        self.count += 1
        return f"{what}.{self.count}"

    def field(
        self, result: str, how: str, name: str, field: str, base: str, number: str | None
    ) -> None:
        fields = self.structures[name]
        index = [f for f, _ in fields].index(field)
        element = "i32 0" if number is None else f"i64 {number}"
        address = result if how == "place" else f"{result}.p"
        self.out.append(f"  {address} = getelementptr %{name}, ptr {base}, {element}, i32 {index}")
        if how == "field":
            self.out.append(f"  {result} = load {fields[index][1]}, ptr {address}")

    def set(self, name: str, field: str, base: str, number: str | None, value: str) -> None:
        place, kind = self.fresh("%place"), dict(self.structures[name])[field]
        self.field(place, "place", name, field, base, number)
        self.out.append(f"  store {kind} {value}, ptr {place}")

    def count_(self, name: str, field: str, base: str) -> None:
        value, kind = self.fresh("%count"), dict(self.structures[name])[field]
        self.field(value, "field", name, field, base, None)
        self.out += [f"  {value}.more = add {kind} {value}, 1",
                     f"  store {kind} {value}.more, ptr {value}.p"]

    def item(self, result: str, kind: str, base: str, index: str, side: str | None) -> None:
        whole, within = (kind, "") if side is None else (f"[2 x {kind}]", f", i64 {side}")
        self.out += [f"  {result}.p = getelementptr {whole}, ptr {base}, i64 {index}{within}",
                     f"  {result} = load {kind}, ptr {result}.p"]

    def put(self, kind: str, value: str, base: str, index: str) -> None:
        place = self.fresh("%place")
        self.out += [f"  {place} = getelementptr {kind}, ptr {base}, i64 {index}",
                     f"  store {kind} {value}, ptr {place}"]

    def call(self, before: str, name: str, after: str) -> None:
        function = self.fresh("%function")
        self.out += [f"  {function} = load ptr, ptr {{{name}}}", f"  {before}{function}{after}"]

    def branch(self, test: str, labels: str) -> None:
        flag = self.fresh("%flag")
        self.out += [f"  {flag} = icmp {test}", f"  br i1 {flag}, {labels}"]
        self.open = False

    def if_(self, test: str, otherwise: str) -> None:
        go = self.fresh("go")
        labels = f"label %{go}, label %{otherwise}"
        if " " in test:
            self.branch(test, labels)
        else:
            self.out.append(f"  br i1 {test}, {labels}")
        self.open = False
        self.label(go)

    def loop(self, counter: str, limit: str, done: str) -> None:
        head, before = self.fresh("head"), self.block
        self.label(head)
        self.loops[counter] = len(self.out)
        self.out.append(f"  %{counter} = phi i64 [ 0, %{before} ], ")
        self.if_(f"slt i64 %{counter}, {limit}", done)

    def next(self, counter: str) -> None:
        at = self.loops.pop(counter)
        step = self.fresh("%next")
        self.out[at] += f"[ {step}, %{self.block} ]"
        self.out += [f"  {step} = add i64 %{counter}, 1", f"  br label %{self.out[at - 1][:-1]}"]
        self.open = False


_FORMS: dict[str, tuple[re.Pattern[str], Callable[..., None]]] = {
    word: (re.compile("  " + form), write) for words, form, write in (
        ("field place",
         r"(%[\w.]+) = (field|place) %(\w+)\.(\w+), ptr (%[\w.]+)(?:\[(%[\w.]+)\])?",
         _Writer.field),
        ("set", r"set %(\w+)\.(\w+), ptr (%[\w.]+)(?:\[(%[\w.]+)\])? = (\S+)", _Writer.set),
        ("count", r"count %(\w+)\.(\w+), ptr (%[\w.]+)", _Writer.count_),
        ("item", r"(%[\w.]+) = item (\w+), ptr ([%@][\w.]+)\[([%\w.]+)(?:, ([01]))?\]",
         _Writer.item),
        ("put", r"put (\w+) ([%\w.]+), ptr ([%@][\w.]+)\[([%\w.]+)\]", _Writer.put),
        ("call", r"((?:%[\w.]+ = )?(?:tail )?call [^{]*)\{(\w+)\}(\(.*)", _Writer.call),
        ("br", r"br ((?!i1 )\w+ \w+ [^,]+, [^,]+), (label .+)", _Writer.branch),
        ("if", r"if (.+), else %([\w.]+)", _Writer.if_),
        ("loop", r"loop %([\w.]+) < ([%\w.]+), else %([\w.]+)", _Writer.loop),
        ("next", r"next %([\w.]+)", _Writer.next),
    ) for word in words.split()}
"""By the word that an instruction begins with: its form, and what writes it."""
