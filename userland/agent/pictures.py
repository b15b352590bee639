# Pictures: those that the user gives, and those that programs make, which the model is shown where it asks for them. What is one is told by its
# bytes, never by its name.

SIGNATURES = [[b"\x89PNG\r\n\x1a\n", "PNG"], [b"\xff\xd8\xff", "JPEG"], [b"GIF87a", "GIF"], [b"GIF89a", "GIF"]]
MOST = 3_750_000  # bytes of a picture: in base64 the 5 MB that the strictest provider takes
ROOM = 10_000_000  # bytes of all that the model is shown: each turn sends them once more

pictures = []  # those that were values of programs
looked = []  # name and bytes of what the next message is to show


def picture_kind(data):
    """Which picture bytes are; "": none that models take."""
    for magic, kind in SIGNATURES:
        if data.startswith(magic):
            return kind
    return "WebP" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else ""


def as_shown(value):
    """A value of a program as JSON, with a text in the place of each picture."""
    if isinstance(value, bytes):
        return place_of(value) if picture_kind(value) else repr(value)
    if isinstance(value, dict):
        return {str(name): as_shown(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_shown(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)


def place_of(data):
    """The text in the place of a picture, which has the same number each time."""
    if data not in pictures:
        if len(data) > MOST or sum([len(p) for p in pictures]) + len(data) > ROOM:
            return "[a picture of " + str(len(data)) + " bytes, too large to be kept]"
        pictures.append(data)
    return "[picture " + str(pictures.index(data) + 1) + ": " + picture_kind(data) + ", " + str(len(data)) + " bytes]"


def look_at(picture):
    """Has the next message show the model a picture, by its number or its path. Returns what is said of it now."""
    if not isinstance(picture, (str, int)) or not str(picture):
        return "look_at takes the argument picture: the number of one, or the path of a file"
    name = str(picture)
    if re.fullmatch(r"[0-9]{1,9}", name):
        if not 1 <= int(name) <= len(pictures):
            return "there is no picture number " + name + ": there were " + str(len(pictures))
        data, name = pictures[int(name) - 1], "picture " + name
    else:
        data, why = read_file(name)
        if data is None:
            return line_of(name) + " is not shown: " + why
    if not picture_kind(data):
        return line_of(name) + " is no PNG, JPEG, GIF or WebP"
    left = ROOM - bytes_shown()
    if len(data) > MOST or len(data) > left:
        return line_of(name) + " is too large: a picture may have " + str(MOST) + " bytes, and all of them " + str(ROOM) + ", of which " + str(left) + " are left"
    looked.append([name, data])
    say("  looks at " + line_of(name) + ", " + str(len(data)) + " bytes")
    return "the next message shows it"


def bytes_shown():
    """How many bytes of pictures the conversation has."""
    total = sum([len(data) for name, data in looked])
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            total += sum([len(part["data"]) for part in content if part.get("type") == "image" and "data" in part])
    return total


def with_pictures(text, images):
    """The content of a message: a text, and pictures behind it."""
    return [{"type": "text", "text": text}] + [{"type": "image", "data": data} for data in images] if images else text


def show_looked():
    """Shows the model what it wants to look at: behind all results of its calls, since not each provider takes pictures in these."""
    if looked:
        messages.append({"role": "user", "content": with_pictures(", ".join([name for name, data in looked]) + ":", [data for name, data in looked])})
        looked.clear()


def unseen(why):
    """Takes back the pictures that the model has just looked at, since it is not asked with them. Returns whether there were any."""
    last = messages[-1]
    if len(messages) < 3 or last["role"] != "user" or isinstance(last["content"], str):
        return False
    last["content"] = last["content"][0]["text"] + "\nThis picture cannot be shown to you: " + why + ". Compute in a program what you need to know of it."
    say("  the model cannot look at it: " + line_of(why))
    return True
