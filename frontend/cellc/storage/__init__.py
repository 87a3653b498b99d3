"""Where the elements of a tensor are, apart from what the tensor is.

A Tensor has a slot for an array in host memory (`_host`), which native code reads, and a `Storage`
as soon as there is more to say: its version, who else holds its memory, and its *state* while
there is no such array:

    state                     elements                                          module
    (none)                    in the tensor's array
    `Deferred`, `Pending`     initial values that nobody has asked for          `deferred`
    `Prepacked`               in a block of compiled programs, weights packed   `prepacked`
    `LazyTranspose`           those of a Parameter, last two axes exchanged     `transposed`
    `OnDevice`                in the memory of a device                         `device`

A read of `tensor._data` gets an array: the state makes it and is left. Shape and element type are
known without. Code that only reads calls `tensor._snapshot()`: some states stay then.

Two rules hold everywhere. A state is entered and left with `LOCK` held, so that each thread sees
the array or the state. And an array is given up only if that is safe: its memory was allocated
here (`memory.Lease`), and nothing else holds a view of it.
"""

from .state import LOCK, State, Storage, storage_of

__all__ = ["LOCK", "State", "Storage", "storage_of"]
