"""What the arguments of a Python call stand for: defaults of keys, declared options, messages, casts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from verl_legacy_patch.languages.python import reasons as why
from verl_legacy_patch.languages.python.nodes import bare_name, callee, dotted, path_of, root, string, strings
from verl_legacy_patch.languages.python.slots import Slot

if TYPE_CHECKING:
    from verl_legacy_patch.languages.python import Statement

#: Calls that are given a key and then its value or its default: where the key stands, first guess first.
_KEYED_METHODS = {
    "get": (0, 1), "setdefault": (0,), "pop": (0,), "select": (0, 1), "update": (1,), "getenv": (0,), "putenv": (0,),
    "setenv": (0,), "__setitem__": (0,), "__setattr__": (1, 0), "DEFINE_string": (0,), "DEFINE_enum": (0,),
}  # fmt: skip
_KEYED_FUNCTIONS = {"getattr": (1,), "setattr": (1,), "getenv": (0,), "putenv": (0,)}
#: Calls that only describe: what they are given changes nothing.
_MESSAGE = re.compile(
    r"(?:^|_)(?:print|warn|warning|info|debug|error|exception|critical|log|logger|s?echo|skip|fail|xfail|exit)(?:_|$)"
    r"|^getLogger$"
)
#: Calls that test what they are given.
_TESTS = frozenset((
    "startswith", "endswith", "removeprefix", "removesuffix", "hasattr", "isinstance", "issubclass", "delattr",
    "finfo", "iinfo", "count", "index", "find", "rfind", "remove", "discard",
))  # fmt: skip
#: Calls that put text together: a bare value there is a piece of it, an override is not.
_TEXTS = frozenset(("format", "join", "split", "replace"))
#: Calls that add one more value to a collection of names.
_GROWS = frozenset(("append", "add", "insert"))
#: Keyword arguments and calls that declare a default: the value stays under the name that is declared.
_DEFAULTS = frozenset(("default", "default_factory", "factory", "value"))
_FIELDS = frozenset(("field", "Field", "ib", "attrib", "Option", "Argument", "Parameter", "Query", "Body", "Form"))
_OPTIONS = frozenset(("add_argument", "add_option", "option", "argument"))
_NAMING = frozenset((
    "choices", "help", "metadata", "description", "doc", "msg", "message", "examples", "epilog", "usage", "title",
    "match", "pattern",
))  # fmt: skip
#: Methods that give bits another meaning: the width must stay.
_BIT_VIEWS = frozenset(("view", "frombuffer", "from_buffer", "view_as", "from_file"))
#: Casts whose argument is a dtype even when it is text.
_TEXT_CASTS = frozenset(("type", "set_default_tensor_type"))
_FLAG = re.compile(r"--[A-Za-z][\w.-]*$")
_WORD = re.compile(r"[A-Za-z_][\w.-]*$")


class _Key(NamedTuple):
    path: tuple[str, ...]
    value: int  # index of the argument that holds the value
    allowed: tuple[str, ...] = ()


def arguments(node: cst.Call, slot: Slot, statement: Statement) -> Iterator[tuple[cst.BaseExpression, Slot]]:
    """Yield the arguments of a call, each with the slot that it stands in.

    Args:
        node: the call.
        slot: where the value of the call lands.
        statement: the statement that holds it.
    """
    args, name = node.args, callee(node.func)
    base = _base(node, name, slot, statement)
    keyed = _keyed(args, name, isinstance(node.func, cst.Attribute))
    declared = _declared(args, name, slot)
    allowed = _choices(args) or slot.allowed
    flag = ""
    for position, arg in enumerate(args):
        keyword = arg.keyword.value if arg.keyword is not None else ""
        text = string(arg.value)
        if keyed is not None and (position == keyed.value or keyword == "default"):
            inner = base.at(f"default of {name}()", *keyed.path)._replace(allowed=keyed.allowed)
        elif name == "getattr" and position == 1 and dotted(args[0].value) in ("torch", "th"):
            inner = slot.at("attribute by its name", *slot.path, "dtype")
        elif keyword in _NAMING:
            inner = base.naming(why.CHOICES if keyword == "choices" else why.MESSAGE)
        elif keyword in _DEFAULTS and declared is not None:
            inner = base.at("declared default", *declared)._replace(allowed=allowed)
        elif keyword:
            inner = base.at("keyword argument", keyword).naming(*why.alias(keyword, bare_name(arg.value)))
        elif flag:
            inner = base.at("command-line flag", flag)
        elif position == 0 and name in _FIELDS and slot.path:
            inner = base.at("declared default", *slot.path)._replace(allowed=allowed)
        else:
            inner = _positional(base, name, position, arg.star == "*")
            if isinstance(node.func, cst.Name) and name == "type":  # type(torch.bfloat16), not x.type(torch.bfloat16)
                inner = inner.naming(why.TEST)
        flag = ""
        if text and _FLAG.match(text) and name not in _OPTIONS and name not in _FIELDS and not keyword:
            flag = text.lstrip("-").replace("-", "_")
        yield arg.value, inner


def _base(node: cst.Call, name: str, slot: Slot, statement: Statement) -> Slot:
    """Return the slot that all arguments share: what the call as a whole says of them."""
    base = slot.called()
    texts = [statement.text(arg) for arg in node.args]
    if why.cpu_autocast(dotted(node.func), texts):
        return base.naming(why.CPU)
    if reads_bits(name, texts):
        return base.naming(why.BITS, advice=True)
    if root(node.func) == "re":
        return base.naming(why.TEST)
    return base.naming(why.FLASH) if name in why.FLASH_ONLY else base


def reads_bits(name: str, arguments: Sequence[str]) -> bool:
    """Return whether a call reads the bits of its receiver as another dtype."""
    return name in _BIT_VIEWS and any(map(why.is_dtype_argument, arguments))


def _positional(base: Slot, name: str, position: int, starred: bool) -> Slot:
    inner = base.at("starred argument" if starred else "positional argument", *([name] if name else []))
    if name in _TEXT_CASTS:
        return inner.at("positional argument", name, "dtype")
    if name in _TESTS or (name == "replace" and position == 0):
        return inner.naming(why.TEST)
    if name in _TEXTS:
        return inner.naming(why.TEXT)
    if name in _GROWS:
        return inner.naming(why.COLLECTION, advice=True)
    if "regist" in name.lower():
        return inner.naming(why.REGISTERED, advice=True)
    return inner.naming(why.MESSAGE)._replace(spoken=False) if _MESSAGE.search(name) else inner


def _keyed(args: Sequence[cst.Arg], name: str, method: bool) -> _Key | None:
    """Return the key whose value or default a call is given."""
    places = (_KEYED_METHODS if method else _KEYED_FUNCTIONS).get(name)
    if places is None:  # some_getter(data, key="use_remove_padding", default=True)
        key = next((string(a.value) for a in args if a.keyword is not None and a.keyword.value == "key"), None)
        return None if key is None else _Key(tuple(key.split(".")), -1)
    count = sum(arg.keyword is None and not arg.star for arg in args)
    by_name = any(arg.keyword is not None and arg.keyword.value == "default" for arg in args)
    for index in places:
        key = string(args[index].value) if index < count else None
        if key is not None and (index + 1 < count or by_name):
            allowed = strings(args[2].value) if name == "DEFINE_enum" and count > 2 else ()
            return _Key(tuple(key.split(".")), index + 1, allowed)
    # a constant or a variable: its name says as much
    path = path_of(args[places[0]].value)[-1:] if places[0] < count else ()
    return _Key(path, places[0] + 1) if path and name != "update" else None


def _declared(args: Sequence[cst.Arg], name: str, slot: Slot) -> tuple[str, ...] | None:
    """Return the path of what a call declares: an option by its flag, a field by what it is assigned to."""
    texts = [text for arg in args if arg.keyword is None and (text := string(arg.value))]
    flag = next((text for text in texts if _FLAG.match(text)), "")
    if name in _OPTIONS:
        dest = next((string(a.value) for a in args if a.keyword is not None and a.keyword.value == "dest"), None)
        flag = dest or flag or next(iter(texts), "")
    elif name in _FIELDS and slot.path:
        return slot.path
    elif not flag and texts and _WORD.match(texts[0]):
        flag = texts[0]  # ContextVar("dtype", default=…)
    return tuple(flag.lstrip("-").replace("-", "_").split(".")) if flag else None


def _choices(args: Sequence[cst.Arg]) -> tuple[str, ...]:
    """Return the accepted values that a declaration lists; empty when there are none or they are computed."""
    for arg in args:
        keyword = arg.keyword.value if arg.keyword is not None else ""
        if keyword == "choices":
            return strings(arg.value)
        if keyword in ("type", "click_type", "validator"):
            check = arg.value
            if isinstance(check, cst.Call) and check.args and callee(check.func) in ("Choice", "in_"):
                return strings(check.args[0].value)
    return ()
