"""A compiled network as a library with a C interface, without Python.

`abi` has the interface: structures, codes, functions. `texts`, `checks`, `sizes`, `calls`,
`entries` and `sessions` are its functions, in LLVM text. `tables` writes the constants that they
read about one network, `numbers` sizes that follow from others. `elf` writes the files, `header`
their headers, and `write` puts all of it together.
"""
