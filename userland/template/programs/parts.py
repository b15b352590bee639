{{define "number"}}
def number(value):
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return value
    if not isinstance(value, str) or value.strip()[:1] not in tuple("+-.0123456789"):
        return None
    try:
        return int(value)
    except ValueError:
        pass
    try:
        n = float(value)
    except ValueError:
        return None
    return n if n - n == 0 else None
{{end}}

{{define "show"}}
def show(value):
    if isinstance(value, float) and value - value == 0:
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
{{end}}

{{define "rows"}}
{{- if or (eq .Format "csv") (eq .Format "tabs")}}
def rows_of(text):
    text = text.removeprefix("\ufeff")
{{- if eq .Format "tabs"}}
    mark = "\t"
{{- else}}
    first = text.split("\n", 1)[0]
    mark = ";" if first.count(";") > first.count(",") else ","
{{- end}}
    return list(csv.DictReader(text.splitlines(True), delimiter=mark))
{{else}}
def rows_of(text):
{{- if eq .Format "lines"}}
    data = [json.loads(line) for line in text.splitlines() if line.strip()]
{{- else}}
    data = json.loads(text.removeprefix("\ufeff"))
    if isinstance(data, dict):
        tables = [v for v in data.values() if isinstance(v, list) and v and isinstance(v[0], dict)]
        if len(tables) == 1:
            data = tables[0]
{{- end}}
    return data
{{end}}
{{- end}}

{{define "columns"}}
def columns_of(rows):
    names = {}
    for row in rows:
        for name in row:
            names[name] = True
    return [str(name) for name in names if name is not None]
{{end}}

{{define "column"}}
def plain(name):
    return "".join([c for c in name.lower() if c.isalnum()])


def column(wanted, columns):
    w = plain(wanted)
    for same in [w, w.removesuffix("s"), w.removesuffix("es"), w + "s"]:
        for c in columns:
            if plain(c) == same:
                return c
    raise ValueError(f"{PATH} has no column {wanted!r}; its columns: {', '.join(columns)}")
{{end}}
