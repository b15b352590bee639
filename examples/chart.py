# A chart from 50,000 orders, as an artifact: a PNG that the program leaves in its folder, and that you look at, take or throw away
# when it has ended. With matplotlib, where that is there, and else by itself: a PNG is rows of pixels, compressed, and checksums.
# Run it from the root of the repository (after make demo and make data), then ask for what it made:
#
#     ./agentkernel run examples/chart.py --workspace examples/data                      # --with matplotlib fetches it, once
#     ./agentkernel artifacts PID
#     ./agentkernel get PID chart.png -o chart.png
import csv
import struct
import zlib

WIDTH, HEIGHT, EDGE, GAP = 640, 280, 24, 8
PAPER, BAR = b"\xff\xff\xff", b"\x44\x77\xaa"
INK = b"\x22\x22\x22"
# Digits of 3 x 5 pixels, row by row: three bits each.
DIGITS = ["75557", "26227", "71747", "71717", "55711", "74717", "74757", "71111", "75757", "75717"]


def revenue(path):
    months = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            month = row["date"][:7]
            months[month] = months.get(month, 0.0) + int(row["quantity"]) * float(row["unit_price"])
    return dict(sorted(months.items()))


def by_matplotlib(months, path):
    import matplotlib

    matplotlib.use("Agg")  # no screen is needed
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(WIDTH / 100, HEIGHT / 100))
    axes.bar([month[5:] for month in months], [value / 1e6 for value in months.values()])
    axes.set_ylabel("revenue, millions")
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def by_hand(months, path):
    rows = [bytearray(PAPER * WIDTH) for _ in range(HEIGHT)]

    def fill(x, y, width, height, color):
        for row in rows[y : y + height]:
            row[3 * x : 3 * (x + width)] = color * width

    top = max(months.values())
    step = (WIDTH - GAP) // len(months)
    for i, (month, value) in enumerate(months.items()):
        height = round(value / top * (HEIGHT - 2 * EDGE))
        x = GAP + i * step
        fill(x, HEIGHT - EDGE - height, step - GAP, height, BAR)
        for j, digit in enumerate(month[5:]):
            for y, bits in enumerate(DIGITS[int(digit)]):
                for k in range(3):
                    if int(bits) >> (2 - k) & 1:
                        fill(x + step // 2 - 10 + 8 * j + 2 * k, HEIGHT - EDGE + 6 + 2 * y, 2, 2, INK)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    pixels = b"".join(b"\0" + row for row in rows)  # each row says first that it is not filtered
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        file.write(chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)))
        file.write(chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b""))


months = revenue("sales.csv")
try:
    by_matplotlib(months, "chart.png")
except ImportError:
    by_hand(months, "chart.png")
print(f"chart.png: {len(months)} bars, the highest {max(months.values()):,.0f}")
