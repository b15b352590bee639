# The part of JSON Schema that results are checked with. What is not known here is refused before anything is asked, so that no result
# passes for checked that was not.

KNOWN = ["$schema", "$id", "$comment", "title", "description", "default", "examples", "type", "enum", "const", "properties", "required",
         "additionalProperties", "minProperties", "maxProperties", "items", "minItems", "maxItems", "uniqueItems", "minLength", "maxLength",
         "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "anyOf", "allOf"]
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]


def unknown_in(schema, at="the schema"):
    """Says what of a schema cannot be checked; "": nothing."""
    if isinstance(schema, bool):
        return ""
    if not isinstance(schema, dict):
        return at + " is neither an object nor true or false"
    for key in schema:
        if key not in KNOWN:
            return at + " has " + json.dumps(key) + ", which is not checked here"
    kinds = schema.get("type", [])
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if kind not in TYPES:
            return at + " has the type " + json.dumps(kind) + ", which there is not"
    below = []
    for key in ["items", "additionalProperties"]:
        if key in schema:
            below.append([at + "." + key, schema[key]])
    for name, s in schema.get("properties", {}).items():
        below.append([at + ".properties." + name, s])
    for key in ["anyOf", "allOf"]:
        for s in schema.get(key, []):
            below.append([at + "." + key, s])
    for where, s in below:
        said = unknown_in(s, where)
        if said:
            return said
    return ""


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def kind_of(value):
    """The types that a value has."""
    if value is None:
        return ["null"]
    if isinstance(value, bool):
        return ["boolean"]
    if is_number(value):
        return ["number", "integer"] if value % 1 == 0 else ["number"]
    if isinstance(value, str):
        return ["string"]
    return ["array"] if isinstance(value, list) else ["object"]


def same(a, b):
    """Whether two values are one in JSON: 1 and true are not."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def misfit(value, schema, at="result"):
    """Says where a value does not fit a schema; "": it fits."""
    if isinstance(schema, bool):
        return "" if schema else at + " must not be there"
    kinds = schema.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    have = kind_of(value)
    if kinds and not any([k in kinds for k in have]):
        return at + " is " + have[-1] + ", not " + " or ".join(kinds)
    if "enum" in schema and not any([same(value, e) for e in schema["enum"]]):
        return at + " is none of " + json.dumps(schema["enum"], ensure_ascii=False)
    if "const" in schema and not same(value, schema["const"]):
        return at + " is not " + json.dumps(schema["const"], ensure_ascii=False)
    said = misfit_number(value, schema, at) or misfit_size(value, schema, at) or misfit_below(value, schema, at)
    if said:
        return said
    for s in schema.get("allOf", []):
        said = misfit(value, s, at)
        if said:
            return said
    others = schema.get("anyOf", [])
    if others and not any([not misfit(value, s, at) for s in others]):
        return at + " fits none of anyOf: " + misfit(value, others[0], at)
    return ""


def misfit_number(value, schema, at):
    if not is_number(value):
        return ""
    if "minimum" in schema and value < schema["minimum"]:
        return at + " is below " + str(schema["minimum"])
    if "maximum" in schema and value > schema["maximum"]:
        return at + " is above " + str(schema["maximum"])
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        return at + " is not above " + str(schema["exclusiveMinimum"])
    if "exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"]:
        return at + " is not below " + str(schema["exclusiveMaximum"])
    return ""


def misfit_size(value, schema, at):
    for name, kind in [["Length", str], ["Items", list], ["Properties", dict]]:
        if not isinstance(value, kind):
            continue
        if len(value) < schema.get("min" + name, 0):
            return at + " has fewer than " + str(schema["min" + name])
        if "max" + name in schema and len(value) > schema["max" + name]:
            return at + " has more than " + str(schema["max" + name])
    return ""


def misfit_below(value, schema, at):
    if isinstance(value, list):
        for i, item in enumerate(value):
            said = misfit(item, schema.get("items", True), at + "[" + str(i) + "]")
            if not said and schema.get("uniqueItems") and any([same(item, other) for other in value[:i]]):
                said = at + " has one item twice: " + json.dumps(item, ensure_ascii=False)
            if said:
                return said
    if isinstance(value, dict):
        for name in schema.get("required", []):
            if name not in value:
                return at + " lacks " + json.dumps(name)
        named = schema.get("properties", {})
        for name, item in value.items():
            said = misfit(item, named.get(name, schema.get("additionalProperties", True)), at + "." + name)
            if said:
                return said
    return ""
