"""A MindIR file as `load_mindir` gives it: its header can be changed, its graphs stay bytes."""

from __future__ import annotations

from cellc_runtime.protobuf import Message, field_of, number_of

from .wire import WHAT, MindirError, Reader

_TEXTS = {1: "ir_version", 2: "producer_name", 3: "producer_version", 4: "domain",
          5: "model_version", 6: "doc_string"}
_KEPT = range(7, 14)
"""Fields that are written as they were read: graphs, functions, primitives, marks."""
_USER_INFO = 14


class ModelProto:
    """The header of a file, and its other fields as bytes. Source: `ModelProto` of MindSpore's
    `mind_ir.proto`.

    Attributes:
        ir_version, producer_name, producer_version, domain, model_version, doc_string: texts.
        user_info: texts by name, for the user's own notes.
    """

    __slots__ = ("_kept", "doc_string", "domain", "ir_version", "model_version", "producer_name",
                 "producer_version", "user_info")

    def __init__(self, view: memoryview) -> None:
        Reader().model(view)
        for name in _TEXTS.values():
            setattr(self, name, "")
        self.user_info: dict[str, str] = {}
        self._kept: list[bytes] = []
        message = Message(view, WHAT)
        for number, content in message.fields():
            if number in _TEXTS:
                setattr(self, _TEXTS[number], message.text(content))
            elif number == _USER_INFO:
                entry = message.inner(content)
                found = {n: entry.text(c) for n, c in entry.fields() if n in (1, 2)}
                self.user_info[found.get(1, "")] = found.get(2, "")
            elif number in _KEPT:
                self._kept.append(number_of(number, content) if isinstance(content, int) else
                                  field_of(number, bytes(content)))
            else:
                raise MindirError(f"it has the unknown field {number}")

    def pieces(self) -> list[bytes]:
        """The file. Raises TypeError if a text is none."""
        texts = {n: getattr(self, name) for n, name in _TEXTS.items()}
        for text in (*texts.values(), *self.user_info, *self.user_info.values()):
            if not isinstance(text, str):
                raise TypeError("For 'save_mindir', the header and 'user_info' of 'model' must "
                                f"hold texts, but got {text!r}.")
        return [*(field_of(n, text.encode()) for n, text in texts.items() if text), *self._kept,
                *(field_of(_USER_INFO, field_of(1, k.encode()) + field_of(2, v.encode()))
                  for k, v in self.user_info.items())]
