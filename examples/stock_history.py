# 10,000 rows of stock prices reduced to six lines: the rows stay in the sandbox, the model reads the summary. Run it
# from the root of the repository (after make demo and make data):
#
#     ./agentkernel run examples/stock_history.py --tools examples/mcp.json
#
# The last line of the run says how many tokens stayed inside.
import csv

from tools.filesystem import read_text_file

prices = {}
for row in csv.DictReader(read_text_file("stocks/history.csv").splitlines()):
    prices.setdefault(row["symbol"], []).append((row["date"], float(row["close"])))


def drawdown(closes):
    """The deepest fall from a peak, as a share of the peak."""
    peak, worst = closes[0], 0.0
    for c in closes:
        peak = max(peak, c)
        worst = max(worst, (peak - c) / peak)
    return worst


rows = sum([len(p) for p in prices.values()])
print(f"{rows:,} rows, {len(prices)} symbols, {prices['ALFA'][0][0]} to {prices['ALFA'][-1][0]}")
print("symbol   first    last  change  worst fall  best day")
for symbol in sorted(prices):
    days = prices[symbol]
    closes = [c for _, c in days]
    gains = [(closes[i] / closes[i - 1] - 1, days[i][0]) for i in range(1, len(closes))]
    gain, day = max(gains)
    print(f"{symbol:6}{closes[0]:8.2f}{closes[-1]:8.2f}{closes[-1] / closes[0] - 1:8.1%}{drawdown(closes):12.1%}  {day} {gain:+.1%}")
