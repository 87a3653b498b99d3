"""The headers of a library: the interface, and the names of one network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cellc_runtime.errors import counted

from .tables import Network

CPP = "cellc.hpp"  # The header for C++17, the same for all networks


def interface(name: str = "cellc.h") -> str:
    """The text of a header of this package."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def header(network: Network, described: Mapping[str, Any]) -> str:
    """The header of a network. `described`: for each entry its inputs and outputs as texts."""
    name, upper = network.name, network.name.upper()
    numbers, lines = [], []
    for number, (entry, (inputs, outputs, served)) in enumerate(described.items()):
        numbers.append(f"    {upper}_{entry.upper()} = {number}")
        lines.append(f"   {entry}({', '.join(inputs)}) -> {', '.join(outputs) or 'nothing'}")
        lines += [f"       for {served}"] if served else []
    held = "inside the library" if network.data is not None else "in a file of their own"
    about = "\n".join([f"/* The network {name!r} for {network.targets}, compiled by cellc.", "",
                       *lines, "",
                       f"   {counted(len(network.weights), 'weight')}, {held}: {network.hash} */"])
    return f"""{about}
#ifndef CELLC_{upper}_H
#define CELLC_{upper}_H

{interface()}
#ifdef __cplusplus
extern "C" {{
#endif

/* The numbers of the entries. */
enum {name}_entry {{
{(',' + chr(10)).join(numbers)}
}};

/* The library; NULL where `abi` is not its version of the interface. */
const cellc_library *{name}_library(int32_t abi, cellc_error *error);

#ifdef __cplusplus
}}
#endif
#endif
"""
