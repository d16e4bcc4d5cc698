"""Two plots as SVG, written by hand: ratios to Kafka with their targets, and every leg as a dot."""

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


def ratios(title, rows):
    """One line a check: the ratio of medians, the range of the ratios pair by pair, the target."""
    left, right, top, step = 250, 760, 60, 26
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
             text(12, 40, "Barnabas divided by Kafka, logarithmic; dot: ratio of medians, bar: pair by "
                  "pair, red: the target", color="#666")]
    for power in range(low, high + 1):
        x = place(2.0 ** power)
        parts.append(line(x, top - 8, x, bottom, INK if power == 0 else GRID))
        label = f"{2 ** power}" if power >= 0 else f"1/{2 ** -power}"
        parts.append(text(x, bottom + 16, label, "middle"))
    for index, row in enumerate(rows):
        y = top + step * index + 8
        parts.append(text(left - 12, y + 4, f"{row.case.name}: {row.label}", "end"))
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
