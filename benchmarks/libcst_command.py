"""The two rewrites as a plain LibCST command, as its documentation teaches to write one."""

from __future__ import annotations

import libcst as cst
from libcst.codemod import VisitorBasedCodemodCommand

STRINGS = {"bfloat16": "float32", "Bfloat16": "float32", "bf16": "fp32"}
STRINGS |= {"flash_attention_2": "eager", "flash_attention_3": "eager"}


class Float32Eager(VisitorBasedCodemodCommand):
    DESCRIPTION = "torch.bfloat16 to torch.float32, flash_attention_2 to eager."

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        value, attr = original_node.value, original_node.attr.value
        if attr == "bfloat16" and isinstance(value, cst.Name) and value.value == "torch":
            return updated_node.with_changes(attr=cst.Name("float32"))
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        func = updated_node.func
        if isinstance(func, cst.Attribute) and func.attr.value == "bfloat16" and not updated_node.args:
            return updated_node.with_changes(func=func.with_changes(attr=cst.Name("float")))
        return updated_node

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.BaseExpression:
        new = STRINGS.get(str(original_node.raw_value))
        if new is None:
            return updated_node
        quote = original_node.quote
        return updated_node.with_changes(value=f"{original_node.prefix}{quote}{new}{quote}")
