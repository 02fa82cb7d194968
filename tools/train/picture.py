"""picture.py LOG.json OUT.svg: the loss curve of a training, as a picture that reads on light and dark pages."""
import json
import math
import sys

W, H, LEFT, TOP, RIGHT, BOTTOM = 720, 320, 60, 34, 16, 44


def main(log_path, out_path):
    with open(log_path) as f:
        log = [e for e in json.load(f) if e["step"] >= 4]
    # single batches differ by the length of their rows: a running mean of nine entries is the curve
    mean = [sum(e["loss"] for e in log[max(0, i - 4):i + 5]) / len(log[max(0, i - 4):i + 5]) for i in range(len(log))]
    end = log[-1]["tokens"] / 1e6
    low, high = math.floor(math.log10(min(mean))), math.ceil(math.log10(max(mean)))

    def x(tokens):
        return LEFT + (W - LEFT - RIGHT) * tokens / end

    def y(loss):
        return TOP + (H - TOP - BOTTOM) * (high - math.log10(loss)) / (high - low)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {W} {H}" role="img" aria-label="Loss of the demo model over the tokens it was trained on">',
           "<style>text{font:13px system-ui,sans-serif;fill:#222}.g{stroke:#8884}.c{fill:none;stroke:#2563eb;stroke-width:2}.d{fill:#2563eb55}rect{fill:#fff}"
           "@media(prefers-color-scheme:dark){text{fill:#ddd}rect{fill:#16181d}.c{stroke:#7aa2ff}.d{fill:#7aa2ff55}}</style>",
           f'<rect width="{W}" height="{H}"/><text x="{LEFT}" y="20">Loss per token of the answers (logarithmic), by millions of tokens seen</text>']
    for decade in range(low, high + 1):
        for k in (1, 2, 5):
            v = k * 10.0 ** decade
            if low <= math.log10(v) <= high:
                out.append(f'<path class="g" d="M{LEFT} {y(v):.1f}H{W - RIGHT}"/><text x="{LEFT - 8}" y="{y(v) + 4:.1f}" text-anchor="end">{v:g}</text>')
    step = 100
    for m in range(0, int(end) + 1, step):
        out.append(f'<path class="g" d="M{x(m):.1f} {TOP}V{H - BOTTOM}"/><text x="{x(m):.1f}" y="{H - BOTTOM + 18}" text-anchor="middle">{m}</text>')
    out += [f'<circle class="d" r="1.5" cx="{x(e["tokens"] / 1e6):.1f}" cy="{y(e["loss"]):.1f}"/>' for e in log
        if low <= math.log10(e["loss"]) <= high]
    out.append('<path class="c" d="M' + "L".join(f"{x(e['tokens'] / 1e6):.1f} {y(m):.1f}" for e, m in zip(log, mean)) + '"/></svg>')
    with open(out_path, "w") as f:
        f.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
