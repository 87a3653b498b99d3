"""The notation of the host side's functions: LLVM text with expressions in it.

    %n = %p->case.nargs                  the value of a field of the structure at %p
    %at = &%p->context.free              its address
    %p->thread.state = 2                 stores into it
    %p->thread.copies += 1               loads, adds and stores (`-=` subtracts)
    %a = %args:ptr[%i]                   an element of an array; `%p:i64` is its first
    %a = %spans:i64[%i, 1]               the first (0) or second of a pair in an array of pairs
    %p[%i]->spec.slot                    a field of the structure number %i from %p on
    %hi = %end - %lo & -4096             integers: * / mod + - << >> & ^ |, all without a sign
    %more = %a < 3 | %b >=u %c           comparisons with a sign, and (`<u`) without
    %c = %taken ? %a : %b                selects
    %w = zext.i64(%n)                    converts
    @fail(%launch, 707)                  calls a function of the module
    %t = ptr {TUPLE_NEW}(%n)             calls one of the external table, or whose address is known
    if %n == 0, else %no                 goes on where it holds, or at the label
    if %n == 0, else @fail(%p); ret 1    or does this, which ends the function
    if not %n == 0, else %yes            goes on where it does not hold
    br %n < %m, %x, %y                   branches
    loop %i < %n, else %out              goes on with %i = 0, 1, ..., then at the label
    next %i                              ends the trip

Operators bind as in C. A number has the type of the other operand or of the parameter; elsewhere
the type is written (`i32 255`). Fields have the types of `cellc_runtime.abi.STRUCTURES`, so neither
their numbers nor their types stand in the text. Other lines are LLVM's own. A function begins with
the block `entry`; a block without an end falls through to the next label. A function without a
result ends with the block `end`.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from cellc_runtime import cache
from cellc_runtime.abi import FIRST_CALLBACK, STRUCTURES, TABLE, Ext

Structures = Mapping[str, Sequence[tuple[str, str]]]  # Fields in order, with their types, by name
_NAME = re.compile(r"\{(\w+)\}")


def read_code(beside: str, name: str, **values: str | int) -> str:
    """The code of the file `name`.ll, without the comment that it begins with.

    Args:
        beside: the path of a module in the same folder.
        values: written in the place of their names in braces; other names stay.
    """
    text = Path(beside).with_name(f"{name}.ll").read_text(encoding="utf-8")
    code = "\n" + text.partition("\n\n")[2]
    return _NAME.sub(lambda found: str(values.get(found[1], found[0])), code)


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

_ENDS = ("br", "switch", "unreachable")
_LABEL = re.compile(r"([\w.]+):")
_RAW = re.compile(r"  (?:(%[\w.]+) = (?!tail |void |ptr |i\d+ )(?=[a-z]+ )|"
                  r"(?=br label|br i1|store|call|tail call|switch|unreachable))"
                  r"(?:tail )?(\w+)(?: (?:atomic )?(\{[^}]*\}|[\w.]+))?")
"""An instruction of LLVM's own: its result, its name and the type that it names first."""
_SET = re.compile(r"(.+?) ([+-]?)= (.+)")
_TOKEN = re.compile(r" *(->[\w.]+|:(?:ptr|i\d+|%\w+)|[%@][\w.]+|\{\w+\}|-?\d+|[<>]=?u|"
                    r"<<|>>|[<>=!]=|\w+(?:\.\w+)?|\S)")
_DEFINE = re.compile(r"define [^@\n]*?(\w+) @([\w.{}]+)\(([^)]*)\)")

_OPERATORS = {
    "|": (1, "or"), "^": (2, "xor"), "&": (3, "and"),
    "==": (4, "icmp eq"), "!=": (4, "icmp ne"), "<": (5, "icmp slt"), "<=": (5, "icmp sle"),
    ">": (5, "icmp sgt"), ">=": (5, "icmp sge"), "<u": (5, "icmp ult"), "<=u": (5, "icmp ule"),
    ">u": (5, "icmp ugt"), ">=u": (5, "icmp uge"), "<<": (6, "shl"), ">>": (6, "lshr"),
    "+": (7, "add"), "-": (7, "sub"), "*": (8, "mul"), "/": (8, "udiv"), "mod": (8, "urem"),
}
"""How strongly an operator binds, and its instruction."""


def expand(code: str, structures: Structures = STRUCTURES) -> str:
    """The text in LLVM's own instructions, with the table's places (`{NAME}`) written into it.

    A line that is indented further continues the line before. The cache keeps the result. Raises
    KeyError if there is no such structure, function or value, or no loop that a trip could end;
    ValueError if a structure has no such field, an expression goes on after its end or is only
    another name.
    """
    store, key = cache.default(), cache.make_key("notation", code, repr(structures), _stamp())
    found = store.get(key)
    if found is None:
        found = _expanded(code, structures).encode()
        store.put(key, found)
    return found.decode()


@functools.cache
def _stamp() -> str:
    """Another writer, by the size and the time of this file, or another table: another text."""
    info = os.stat(__file__)
    return f"{info.st_size} {info.st_mtime_ns} {[table_slot(ext) for ext in Ext]}"


def _expanded(code: str, structures: Structures) -> str:
    code = re.sub(r"\n {3,}", " ", code)
    signatures = {f"@{name}": (ret, [p.split()[0] for p in params.split(",") if p])
                  for ret, name, params in _DEFINE.findall(code)}
    writer = _Writer(structures, signatures)
    for line in code.split("\n"):
        writer.line(line)
    out = "\n".join(writer.out)
    for ext in Ext:
        out = out.replace(f"{{{ext.name}}}", table_slot(ext))
    return out


Signature = tuple[str, list[str]]  # The types of the result and of the parameters
Operand = tuple[str, str]  # Type and name; numbers have no type of their own


class _Writer:
    """Rewrites line by line.

    Attributes:
        block: the label of the block that is written.
        open: whether that block has no end yet.
        loops: where the phi of each loop is, without the value of its next trip.
        types: of the values of the function.
        ret: the type of its result.
        returns: whether something branches to its last block.
        instead: the blocks of statements that end it, by these.
    """

    def __init__(self, structures: Structures, signatures: Mapping[str, Signature]) -> None:
        self.structures, self.signatures = structures, signatures
        self.out: list[str] = []
        self.block, self.open = "entry", False
        self.count = 0
        self.loops: dict[str, int] = {}
        self.types: dict[str, str] = {}
        self.ret, self.returns = "", False
        self.instead: dict[str, str] = {}

    def line(self, line: str) -> None:
        """Write one line."""
        if label := _LABEL.fullmatch(line):
            self.label(label[1])
        elif line.endswith("{"):
            self.begin(line)
        elif line == "}":
            self.finish()
        elif not line.startswith("  ") or line.startswith("  ;"):
            self.out.append(line)
        elif raw := _RAW.match(line):
            self.raw(line, raw)
        else:
            self.statement(line[2:])

    def begin(self, line: str) -> None:
        """A function."""
        self.out.append(line)
        self.block, self.open, self.returns, self.instead = "", False, False, {}
        self.label("entry")
        start = _DEFINE.match(line)
        if start is not None:
            params = (p.split() for p in start[3].split(",") if p)
            self.ret, self.types = start[1], {p[-1]: p[0] for p in params}

    def finish(self) -> None:
        """The end of a function: its last block, and what is done instead."""
        if self.returns:
            self.label("end")
        if self.open:
            self.return_("void")
        for statements, name in self.instead.items():
            self.label(name)
            for text in statements.split("; "):
                self.statement(text)
        self.out.append("}")

    def raw(self, line: str, found: re.Match[str]) -> None:
        """One of LLVM's own instructions."""
        self.out.append(line)
        self.open = found[2] not in _ENDS
        if found[1]:
            self.types[found[1]] = _raw_type(line, found[2], found[3])

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

    def emit(self, kind: str, text: str) -> Operand:
        """Write an instruction with a result."""
        name = self.fresh("%")
        self.out.append(f"  {name} = {text}")
        return kind, name

    def statement(self, text: str) -> None:
        """A line of the notation."""
        word, _, rest = text.partition(" ")
        if word in _STATEMENTS:
            _STATEMENTS[word](self, rest)
            return
        to, sign, value = found.groups() if (found := _SET.fullmatch(text)) else ("", "", text)
        if to.startswith("%") and to[1:].replace(".", "").replace("_", "").isalnum():
            self.types[to], name = _Expression(self, value).whole()
            start = f"  {name} = "
            if not self.out[-1].startswith(start):
                raise ValueError(f"{to} is another name of {name}")
            self.out[-1] = f"  {to} = {self.out[-1].removeprefix(start)}"
        elif sign:
            kind, place = _Expression(self, to).place()
            more = _Expression(self, value)
            had = self.emit(kind, f"load {kind}, ptr {place}")
            _, now = self.apply("add" if sign == "+" else "sub", had, more.whole())
            self.out.append(f"  store {kind} {now}, ptr {place}")
        else:
            found_value = _Expression(self, value).whole()
            if to:
                kind, place = _Expression(self, to).place()
                self.out.append(f"  store {kind} {found_value[1]}, ptr {place}")

    def apply(self, op: str, left: Operand, right: Operand) -> Operand:
        """An instruction on two operands of one type."""
        kind = left[0] or right[0]
        return self.emit("i1" if op.startswith("icmp") else kind,
                         f"{op} {kind} {left[1]}, {right[1]}")

    def branch(self, text: str) -> None:
        """`br CONDITION, %x, %y`."""
        test, yes, no = text.rsplit(", ", 2)
        flag = _Expression(self, test).whole()[1]
        self.out.append(f"  br i1 {flag}, label {yes}, label {no}")
        self.open, self.returns = False, self.returns or "%end" in (yes, no)

    def if_(self, text: str) -> None:
        """`if CONDITION, else %no`."""
        test, otherwise = text.rsplit(", else ", 1)
        go = self.fresh("go")
        if not otherwise.startswith("%"):
            otherwise = "%" + self.instead.setdefault(otherwise, f"instead.{self.count}")
        yes, no = (otherwise, f"%{go}") if test.startswith("not ") else (f"%{go}", otherwise)
        self.branch(f"{test.removeprefix('not ')}, {yes}, {no}")
        self.label(go)

    def loop(self, text: str) -> None:
        """`loop %i < LIMIT, else %out`."""
        counter = text.split(" ", 1)[0]
        head, before = self.fresh("head"), self.block
        self.label(head)
        self.loops[counter], self.types[counter] = len(self.out), "i64"
        self.out.append(f"  {counter} = phi i64 [ 0, %{before} ], ")
        self.if_(text)

    def next(self, counter: str) -> None:
        """`next %i`."""
        at = self.loops.pop(counter)
        step = self.fresh("%next")
        self.out[at] += f"[ {step}, %{self.block} ]"
        self.out += [f"  {step} = add i64 {counter}, 1", f"  br label %{self.out[at - 1][:-1]}"]
        self.open = False

    def return_(self, value: str) -> None:
        """`ret VALUE`."""
        result = "" if value == "void" else " " + _Expression(self, value).whole()[1]
        self.out.append(f"  ret {self.ret}{result}")
        self.open = False


_STATEMENTS = {"if": _Writer.if_, "br": _Writer.branch, "loop": _Writer.loop, "next": _Writer.next,
               "ret": _Writer.return_}


def _raw_type(line: str, op: str, kind: str) -> str:
    """The type of the result of one of LLVM's own instructions."""
    if op in ("alloca", "getelementptr", "icmp", "fcmp"):
        return "i1" if op.endswith("cmp") else "ptr"
    if op == "atomicrmw":
        return line.rsplit(", ", 1)[1].split(" ", 1)[0]
    if op == "extractvalue":
        return kind[1:-1].split(",")[int(line.rsplit(" ", 1)[1])].strip()
    return kind


class _Expression:
    """Writes the instructions of an expression, operands from left to right."""

    def __init__(self, writer: _Writer, text: str) -> None:
        self.writer = writer
        self.tokens = _TOKEN.findall(text)[::-1]

    def whole(self) -> Operand:
        """The value of all of it."""
        found = self.value()
        if self.tokens:
            raise ValueError(f"unexpected {self.tokens[-1]!r}")
        return found

    def next_is(self, token: str) -> bool:
        """Whether a token comes next; it is taken then."""
        if self.tokens and self.tokens[-1] == token:
            self.tokens.pop()
            return True
        return False

    def value(self, least: int = 0) -> Operand:
        """Operands of operators that bind at least so strongly."""
        left = self.operand()
        while self.tokens and (found := _OPERATORS.get(self.tokens[-1])) and found[0] >= least:
            self.tokens.pop()
            left = self.writer.apply(found[1], left, self.value(found[0] + 1))
        if not least and self.next_is("?"):
            yes = self.value(1)
            self.next_is(":")
            no = self.value()
            kind = yes[0] or no[0]
            return self.writer.emit(kind, f"select i1 {left[1]}, {kind} {yes[1]}, {kind} {no[1]}")
        return left

    def operand(self) -> Operand:
        """A name, a number, a path, a call, a conversion, or an expression in parentheses."""
        token = self.tokens.pop()
        if token == "&":
            return "ptr", self.place()[1]
        if token == "(":
            found = self.value()
            self.next_is(")")
            return found
        if token[0] in "%@{":
            if self.next_is("("):
                return self.call(token, "", "call")
            return self.fields(token)
        if token == "tail" or token in _TYPES:
            how = "tail call" if token == "tail" else "call"
            kind = self.tokens.pop() if token == "tail" else token
            name = self.tokens.pop()
            return self.call(name, kind, how) if self.next_is("(") else (kind, name)
        if "." in token:
            op, kind = token.split(".")
            self.next_is("(")
            (given, name), _ = self.value(), self.next_is(")")
            return self.writer.emit(kind, f"{op} {given} {name} to {kind}")
        return "i1" if token in ("true", "false") else "ptr" if token == "null" else "", token

    def call(self, function: str, kind: str, how: str) -> Operand:
        """A call: the types of arguments are the parameters' if these are known."""
        ret, params = self.writer.signatures.get(function, (kind, []))
        given: list[Operand] = []
        while not self.next_is(")"):
            given.append(self.value())
            self.next_is(",")
        arguments = ", ".join(f"{params[i] if params else kind} {name}"
                              for i, (kind, name) in enumerate(given))
        if function[0] == "{":
            function = self.writer.emit("ptr", f"load ptr, ptr {function}")[1]
        text = f"{how} {kind or ret} {function}({arguments})"
        if (kind or ret) == "void":
            self.writer.out.append(f"  {text}")
            return "void", ""
        return self.writer.emit(kind or ret, text)

    def place(self) -> Operand:
        """A type, and the address of a value of it in memory."""
        return self.path(self.tokens.pop())

    def fields(self, base: str) -> Operand:
        """A value, or the one in memory that a path from it on leads to."""
        if not self.tokens or self.tokens[-1][0] not in "-:[" or self.tokens[-1] in ("-", ":"):
            kind = {"@": "ptr", "{": ""}.get(base[0])
            return self.writer.types[base] if kind is None else kind, base
        kind, place = self.path(base)
        return self.writer.emit(kind, f"load {kind}, ptr {place}")

    def path(self, base: str) -> Operand:
        """Follow `->structure.field` and `:type[index]`."""
        kind, place = "", base
        while self.tokens and (self.tokens[-1][:2] == "->" or self.tokens[-1] == "["
                               or self.tokens[-1][0] == ":" != self.tokens[-1]):
            if kind:
                place = self.writer.emit(kind, f"load {kind}, ptr {place}")[1]
            number = f"i64 {self.index()}" if self.next_is("[") else "i32 0"
            token = self.tokens.pop()
            if token[0] == "-":
                name, field = token[2:].split(".")
                members = self.writer.structures[name]
                at = [f for f, _ in members].index(field)
                kind = members[at][1]
                place = self.writer.emit(
                    "ptr", f"getelementptr %{name}, ptr {place}, {number}, i32 {at}")[1]
            else:
                kind = token[1:]
                if self.next_is("["):
                    place = self.element(kind, place)
        return kind, place

    def index(self) -> str:
        """The number in brackets."""
        found = self.value()[1]
        self.next_is("]")
        return found

    def element(self, kind: str, base: str) -> str:
        """The address of an element of an array, or of an array of pairs."""
        number = self.value()[1]
        pair = self.next_is(",")
        whole, within = (f"[2 x {kind}]", f", i64 {self.tokens.pop()}") if pair else (kind, "")
        self.next_is("]")
        text = f"getelementptr {whole}, ptr {base}, i64 {number}{within}"
        return self.writer.emit("ptr", text)[1]


_TYPES = frozenset(("void", "ptr", "i1", "i8", "i16", "i32", "i64"))
