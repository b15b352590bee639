# What the model is told of the tools: those that fit the words of the task as stubs, the others by name.

FEW = 20  # of so many tools each is described
STUBS = 12  # of more, so many are
NAMED = 3000  # characters of names of the others
UNAVAILABLE = 69  # the exit code where something is not there that the task needs
INVALID = 2  # where what the user has written is wrong


def words_of(text):
    """The words of a text, in lower case, without a plural's s."""
    found = []
    for word in re.findall(r"[a-z0-9]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", text).lower()):
        found.append(word[:-1] if len(word) > 3 and word.endswith("s") else word)
    return found


def by_relevance(tools, task):
    """The tools in the order in which they share words with the task; names count more than descriptions."""
    wanted = {w: True for w in words_of(task) if len(w) > 2}
    scored = []
    for i, t in enumerate(tools):
        names, described = words_of(t["server"] + " " + t["name"]), words_of(t["description"] or "")
        score = 3 * len([w for w in wanted if w in names]) + len([w for w in wanted if w in described])
        scored.append([-score, i, t])
    return [s[2] for s in sorted(scored, key=lambda s: (s[0], s[1]))]


def stub(t):
    """How a tool is imported and called, and what it is for."""
    d = t if "signature" in t else tool.describe(t["server"], t["name"])  # of local tools all is known
    doc = re.sub(r"\s+", " ", d["doc"] or "")
    changes = "" if d["effect"] == "read" else "  # changes things (" + d["effect"] + "): it needs the user's permission"
    return d["import"] + changes + "\n    " + d["signature"] + "\n    " + (doc if len(doc) <= 600 else doc[:600] + " ...") + "\n"


def told_of_tools(task):
    """The part of the prompt about tools."""
    try:
        return tools_told(task)
    except PermissionError as e:
        return "\nTools cannot be listed: " + str(e) + "\n"
    except (RuntimeError, TimeoutError) as e:  # a server does not start, say: better known before the model is paid
        give_up("tools cannot be listed: " + str(e), UNAVAILABLE)
    except (TypeError, ValueError) as e:  # what the file says of a server is wrong
        give_up("tools cannot be listed: " + str(e), INVALID)


def tools_told(task):
    """What the model is told of each tool."""
    tools = tool.list() + setup["local"]
    if not tools:
        return "\nThere are no tools.\n"
    tools = by_relevance(tools, task)
    described = len(tools) if len(tools) <= FEW else STUBS
    told = "\n" + setup["prompts"]["tools"] + "\n" + "\n".join([stub(t) for t in tools[:described]])
    if len(tools) > described:
        by_server = {}
        for t in tools[described:]:
            by_server.setdefault(t["server"], []).append(t["name"])
        names = "\n".join([server + ": " + ", ".join(by_server[server]) for server in sorted(by_server)])
        told += "\n" + setup["prompts"]["more"] + "\n" + (names if len(names) <= NAMED else names[:NAMED] + " ... (`tool.list()` has all)") + "\n"
    return told


def told_of_skills():
    """The part of the prompt about skills: of each a line."""
    told = ""
    for s in setup["skills"]:
        told += s["import"] + ("  # " + re.sub(r"\s+", " ", s["description"])[:200] if s["description"] else "") + "\n"
    if told:
        told = "\n" + setup["prompts"]["skills"] + "\n" + told
    return told + ("\n" + setup["prompts"]["save"].replace("NAME", setup["save"]) + "\n" if setup["save"] else "")


def read_skill(name):
    """The code of a skill."""
    for s in setup["skills"]:
        if s["name"] == name:
            return s["code"] or "its code is too long to be shown; its functions: " + ", ".join(s["functions"])
    return "there is no skill " + str(name) + ": there are " + ", ".join([s["name"] for s in setup["skills"]])
