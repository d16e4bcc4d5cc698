"""Plots as SVG, written by hand: ratios to Kafka with their targets, every leg as a dot, curves."""

import math
import statistics
from xml.sax.saxutils import escape

INK, GRID, KAFKA, BARNABAS, TARGET = "#222", "#ddd", "#8a8f98", "#0b6e8f", "#c4452b"
FONT = 'font-family="sans-serif" font-size="12"'


def text(x, y, words, anchor="start", color=INK):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}" {FONT}>' \
           f"{escape(words)}</text>"


def line(x1, y1, x2, y2, color, width=1):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" ' \
           f'stroke-width="{width}"/>'


def dot(x, y, color, radius=4, opacity=1.0):
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{color}" ' \
           f'fill-opacity="{opacity}"/>'


def page(width, height, parts):
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" ' \
           f'viewBox="0 0 {width} {height}">'
    return "\n".join([head, f'<rect width="{width}" height="{height}" fill="#fff"/>', *parts,
                      "</svg>", ""])


def ratios(title, rows, left=250, words="Barnabas divided by Kafka"):
    """One line a check: the ratio of medians, the range of the ratios pair by pair, the target."""
    right, top, step = left + 510, 60, 26
    ends = [1.0]
    for row in rows:
        ends += [row.ratio] + ([row.target] if row.target else [])
        ends += [b / k for b, k in zip(row.barnabas, row.kafka) if k > 0 and b > 0]
    low = math.floor(math.log2(min(ends)) - 0.2)
    high = math.ceil(math.log2(max(ends)) + 0.2)

    def place(ratio):
        return left + (math.log2(ratio) - low) / (high - low) * (right - left)

    bottom = top + step * len(rows)
    parts = [text(12, 22, title.replace("`", "")),
             text(12, 40, f"{words}, logarithmic; dot: ratio of medians, bar: pair by pair, red: the "
                  "target", color="#666")]
    for power in range(low, high + 1):
        x = place(2.0 ** power)
        parts.append(line(x, top - 8, x, bottom, INK if power == 0 else GRID))
        label = f"{2 ** power}" if power >= 0 else f"1/{2 ** -power}"
        parts.append(text(x, bottom + 16, label, "middle"))
    for index, row in enumerate(rows):
        y = top + step * index + 8
        name = row.label if row.case.name == row.label else f"{row.case.name}: {row.label}"
        parts.append(text(left - 12, y + 4, name, "end"))
        by_pair = [b / k for b, k in zip(row.barnabas, row.kafka) if k > 0 and b > 0]
        if by_pair:
            parts.append(line(place(min(by_pair)), y, place(max(by_pair)), y, BARNABAS, 3))
        parts.append(dot(place(row.ratio), y, BARNABAS, 5))
        if row.target:
            x = place(row.target)
            tip = 7 if row.kind == ">=" else -7
            parts.append(line(x, y - 9, x, y + 9, TARGET, 2))
            parts.append(line(x, y - 9, x + tip, y - 9, TARGET, 2))
        parts.append(text(right + 14, y + 4, f"{row.ratio:.2f}"))
    return page(right + 70, bottom + 30, parts)


def legs(rows):
    """Small multiples: for each check a panel with both systems' legs from zero up."""
    columns, wide, high, margin = 3, 280, 150, 20
    count = (len(rows) + columns - 1) // columns
    parts = [dot(24, 18, KAFKA), text(34, 22, "Kafka 4.4.0"), dot(134, 18, BARNABAS),
             text(144, 22, "Barnabas"), text(230, 22, "each dot a leg, in order; line: median",
                                             color="#666")]
    for index, row in enumerate(rows):
        x0 = margin + (index % columns) * (wide + margin)
        y0 = 40 + (index // columns) * (high + margin)
        most = max([*row.kafka, *row.barnabas, 1e-9])
        parts.append(f'<rect x="{x0}" y="{y0}" width="{wide}" height="{high}" fill="none" '
                     f'stroke="{GRID}"/>')
        parts.append(text(x0 + 6, y0 + 16, f"{row.case.name}: {row.label}, {row.unit}"))
        for half, (values, color) in enumerate(((row.kafka, KAFKA), (row.barnabas, BARNABAS))):
            start = x0 + 62 + half * (wide - 70) / 2
            for at, value in enumerate(values):
                x = start + (at + 0.5) * (wide - 90) / 2 / max(len(values), 1)
                parts.append(dot(x, y0 + high - 8 - value / most * (high - 40), color, 3.5, 0.8))
            if values:
                y = y0 + high - 8 - statistics.median(values) / most * (high - 40)
                parts.append(line(start, y, start + (wide - 90) / 2, y, color))
        parts.append(text(x0 + 56, y0 + 36, f"{most:,.4g}", "end", "#666"))
        parts.append(text(x0 + 56, y0 + high - 4, "0", "end", "#666"))
        parts.append(line(x0 + 60, y0 + 32, x0 + 60, y0 + high - 8, GRID))
    return page(margin + columns * (wide + margin), 50 + count * (high + margin), parts)


def curves(title, across, series):
    """Lines over a logarithmic plane: (name, colour, [(x, values of y)]) each; bars: the range."""
    left, right, top, bottom = 70, 560, 50, 370
    xs = [math.log10(x) for _, _, points in series for x, _ in points]
    ys = [math.log10(value) for _, _, points in series for _, values in points for value in values]
    low, high = math.floor(min(ys)), math.ceil(max(ys))

    def place(x, y):
        across_share = (math.log10(x) - min(xs)) / max(max(xs) - min(xs), 1e-9)
        up_share = (math.log10(y) - low) / max(high - low, 1)
        return left + across_share * (right - left), bottom - up_share * (bottom - top)

    parts = [text(12, 22, title), text((left + right) / 2, bottom + 36, across, "middle", "#666")]
    for power in range(low, high + 1):
        y = place(10 ** min(xs), 10 ** power)[1]
        parts += [line(left, y, right, y, GRID), text(left - 8, y + 4, f"{10 ** power:,}", "end")]
    for x in sorted({x for _, _, points in series for x, _ in points}):
        parts.append(text(place(x, 10 ** low)[0], bottom + 18, f"{x:,}", "middle"))
    for name, color, points in series:
        ends = [place(x, statistics.median(values)) for x, values in points]
        parts += [line(*a, *b, color, 2) for a, b in zip(ends, ends[1:])]
        for (x, values), end in zip(points, ends):
            parts += [dot(*end, color), line(*place(x, min(values)), *place(x, max(values)), color)]
        parts.append(text(ends[-1][0] + 12, ends[-1][1] + 4, name, color=color))
    return page(right + 190, bottom + 50, parts)
