"""The part of the SARIF 2.1.0 schema that our logs use, written after the specification (OASIS, section 3).

Everything is closed (no further properties), so that a property that the standard does not know cannot slip in.
"""

from __future__ import annotations

from typing import Any


def _object(required: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


def _array(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


_TEXT = {"type": "string"}
_URI = {"type": "string", "pattern": r"^[A-Za-z0-9._~!$&'()*+,;=:@%/-]*$"}  # RFC 3986
_LEVEL = {"enum": ["none", "note", "warning", "error"]}
_POSITION = {"type": "integer", "minimum": 1}
_MESSAGE = _object("text", text=_TEXT)  # 3.11, 3.12
_ARTIFACT = _object("uri", uri=_URI, uriBaseId=_TEXT)  # 3.4
_REGION = _object(  # 3.30
    "startLine", startLine=_POSITION, startColumn=_POSITION, endLine=_POSITION, endColumn=_POSITION
)
_PLACE = _object("artifactLocation", artifactLocation=_ARTIFACT, region=_REGION)  # 3.29
_REPLACEMENT = _object("deletedRegion", deletedRegion=_REGION, insertedContent=_MESSAGE)  # 3.57
_CHANGE = _object(  # 3.56
    "artifactLocation replacements", artifactLocation=_ARTIFACT, replacements=_array(_REPLACEMENT, minItems=1)
)
_FIX = _object("artifactChanges", description=_MESSAGE, artifactChanges=_array(_CHANGE, minItems=1))  # 3.55
_RESULT = _object(  # 3.27
    "message",
    ruleId=_TEXT,
    level=_LEVEL,
    message=_MESSAGE,
    locations=_array(_object("", physicalLocation=_PLACE)),
    fixes=_array(_FIX),
)
_RULE = _object(  # 3.49
    "id",
    id=_TEXT,
    shortDescription=_MESSAGE,
    fullDescription=_MESSAGE,
    defaultConfiguration=_object("", level=_LEVEL),
)
_DRIVER = _object(  # 3.19
    "name", name=_TEXT, version=_TEXT, informationUri=_URI, rules=_array(_RULE, uniqueItems=True)
)
_RUN = _object(  # 3.14
    "tool",
    tool=_object("driver", driver=_DRIVER),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    originalUriBaseIds={"type": "object", "additionalProperties": _object("", uri=_URI, description=_MESSAGE)},
    results=_array(_RESULT),
)
SCHEMA = _object("version runs", **{"$schema": _URI}, version={"const": "2.1.0"}, runs=_array(_RUN))  # 3.13
