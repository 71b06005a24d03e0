# SPDX-License-Identifier: Apache-2.0
"""Makes a Markdown table of what tools/bench/run recorded.

usage: tabulate.py FILE                   to standard output
       tabulate.py --readme README FILE   between README's bench markers
       tabulate.py --disk DIRECTORY       what kind of disk a directory is on

A line of FILE: part, round, name, bytes, seconds, processor seconds, peak KiB; tab-separated.
Every figure is a median over rounds; a ratio is the median of the ratios within each round.
"""
import collections
import datetime
import os
import pathlib
import platform
import statistics
import sys

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"

TITLES = {
    "fio": "fio at its best (O_DIRECT, io_uring, huge pages)",
    "fio-small": "fio at its best without huge pages",
    "sha256sum": "`sha256sum`, the largest shard",
    "b3sum": "`b3sum` (another hash)",
    "mmap-python": "Python: mmap, hashlib, 16 threads",
    "openssl": "`openssl dgst -sha256`",
    "load-fresh": "**load into fresh memory**",
    "load-touched": "**load into touched memory**",
    "dd": "`dd bs=1M` to /dev/null, page cache",
}


class Results:
    """Rates by part, name and round."""

    def __init__(self, path):
        self.rates = collections.defaultdict(dict)
        self.cpu = collections.defaultdict(list)
        self.peak = collections.defaultdict(int)
        self.facts = {}
        self.bytes = {}
        self.settings = {}  # of fio's best, by part and name
        for line in pathlib.Path(path).read_text().splitlines():
            part, number, name, size, seconds, cpu, peak = line.split("\t")
            if part == "fact":
                key, _, value = name.partition("=")
                self.facts[key] = value
                continue
            key, size = (part, name), float(size)
            self.rates[key][int(number)] = size / float(seconds)
            self.cpu[key].append(float(cpu) / size * 1e9)
            self.peak[key] = max(self.peak[key], int(peak))
            self.bytes[key] = int(size)

        self.keep_best_settings()

    def keep_best_settings(self):
        """Of names `what:setting` keeps the one of the best median, as `what`."""
        best = {}
        for part, name in list(self.rates):
            what, _, setting = name.partition(":")
            if setting and self.rate(part, name) > best.get((part, what), (0, ""))[0]:
                best[part, what] = (self.rate(part, name), name)
        for (part, what), (_, name) in best.items():
            for table in (self.rates, self.cpu, self.peak, self.bytes):
                table[part, what] = table[part, name]
            self.settings[part, what] = name.partition(":")[2]
        for key in [key for key in self.rates if ":" in key[1]]:
            del self.rates[key]

    def names(self, part):
        return [name for this, name in self.rates if this == part]

    def has(self, part):
        return any(this == part for this, _ in self.rates)

    def rate(self, part, name):
        return statistics.median(self.rates[part, name].values())

    def ratio(self, part, name, base):
        """How many times as fast `name` is as `base`."""
        mine, other = self.rates[part, name], self.rates[part, base]
        return statistics.median(mine[i] / other[i] for i in mine if i in other)

    def cpu_per_gb(self, part, name):
        return statistics.median(self.cpu[part, name])

    def rounds(self):
        return max((len(r) for r in self.rates.values()), default=0)


def title(name, setting=None):
    if setting:
        size, depth, fixed = setting.split()
        how = ", registered buffers" if fixed == "1" else ""
        return f"{TITLES[name]}: {size}, depth {depth}{how}"
    if name in TITLES:
        return TITLES[name]
    for tool, what in (("sha256sum-P", "sha256sum"), ("openssl-P", "openssl dgst -sha256")):
        if name.startswith(tool):
            return f"`xargs -P{name[len(tool):]} {what}`"
    return f"`{name}`"


def contest(results, part, caption):
    """ringsum beside everybody else of a part."""
    with_cpu = any(results.cpu_per_gb(part, name) > 0 for name in results.names(part))
    lines = [f"| {caption} | GB/s | `ringsum verify` is | CPU s/GB |", "|---|---:|---:|---:|"]
    others = [name for name in results.names(part) if name != "ringsum"]
    others.sort(key=lambda name: -results.rate(part, name))
    for name in ["ringsum"] + others:
        what = title(name, results.settings.get((part, name)))
        if name == "ringsum":
            what = "**`ringsum verify`**"
        ratio = "" if name == "ringsum" else f"{results.ratio(part, 'ringsum', name):.2f} times as fast"
        cpu = f"{results.cpu_per_gb(part, name):.2f}" if with_cpu else ""
        lines.append(f"| {what} | {results.rate(part, name) / 1e9:.2f} | {ratio} | {cpu} |")
    return lines + [""]


def loads(results, caption):
    """Every tensor into the caller's memory, beside reading that neither hashes nor keeps."""
    ours = ("load-fresh", "load-touched")
    lines = [f"| {caption} | GB/s | fresh is | touched is | CPU s/GB |", "|---|---:|---:|---:|---:|"]
    for name in ours + ("fio", "dd"):
        if ("load", name) not in results.rates:
            continue
        ratios = ["" if name in ours else f"{results.ratio('load', mine, name):.2f} times as fast"
                  for mine in ours]
        lines.append(f"| {title(name, results.settings.get(('load', name)))} "
                     f"| {results.rate('load', name) / 1e9:.2f} | {ratios[0]} | {ratios[1]} "
                     f"| {results.cpu_per_gb('load', name):.2f} |")
    return lines + [""]


def single_figures(results):
    """What is told by one figure each."""
    rows = []

    def add(what, figure):
        rows.append(f"| {what} | {figure} |")

    if results.has("hash"):
        for name in results.names("hash"):
            if name != "libcrypto":
                add(f"hashing on one core, {name}, beside libcrypto's one stream",
                    f"{results.ratio('hash', name, 'libcrypto'):.2f} times "
                    f"({results.rate('hash', name) / 1e9:.2f} GB/s)")
    if results.has("small-tensors"):
        for suffix, what in (("", "the whole command"), ("-engine", "reading and hashing alone")):
            more = 1 / results.ratio("small-tensors", "many" + suffix, "one" + suffix)
            add("20,000 tensors of 4 to 4,096 bytes beside one range of as many bytes "
                f"({results.bytes['small-tensors', 'many'] / 1e6:.0f} MB), {what}",
                f"{more:.2f} times the time")
    if results.has("lone-tensor"):
        size = results.bytes["lone-tensor", "ringsum"] / (1 << 30)
        add(f"a lone tensor of {size:.3g} GiB beside its limit (one stream, or the disk)",
            f"{results.ratio('lone-tensor', 'ringsum', 'limit'):.2f}")
    if results.has("shards"):
        add("the same tensors in 100 shards beside 3",
            f"{results.ratio('shards', 'hundred', 'delivery'):.2f} times as fast")
    if results.has("bulk"):
        size = results.bytes["bulk", "many"] / 1e9
        add(f"checkpoints of 40 MB, {size:.2g} GB in all, beside one of as many bytes",
            f"{results.ratio('bulk', 'many', 'whole'):.2f} times as fast")
    if results.has("rate"):
        size = results.bytes["rate", "ringsum"] / (100 << 20)
        add(f"`--limit-rate 100M` over {size:.2g} s beside its limit",
            f"{results.ratio('rate', 'ringsum', 'limit'):.3f}")
    if results.has("small-pages"):
        add("peak resident memory, the delivery",
            f"{results.peak['small-pages', 'ringsum'] / 1024:.0f} MiB")
    if results.has("memory"):
        for name in results.names("memory"):
            size = results.bytes["memory", name] / (1 << 40)
            add(f"peak resident memory, a sparse shard of {size:.2g} TiB in {int(name):,} tensors",
                f"{results.peak['memory', name] / 1024:.0f} MiB")
    return ["| | |", "|---|---:|"] + rows + [""] if rows else []


def cpu_model():
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def disk_kind(directory):
    """File system and device of a directory, in words."""
    best = ("", "?", "?")
    directory = os.path.realpath(directory)
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        device, point, kind = line.split()[:3]
        inside = directory == point or directory.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best[0]):
            best = (point, kind, device)
    _, kind, device = best
    number = os.stat(directory).st_dev
    sysfs = pathlib.Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    name = sysfs.resolve().name if sysfs.exists() else os.path.basename(device)
    what = "virtio disk" if name.startswith("vd") else "NVMe" if name.startswith("nvme") else name
    return f"{kind} on {what}"


def memory_gib():
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)


def introduction(results):
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    virtual = "hypervisor" in pathlib.Path("/proc/cpuinfo").read_text()
    rounds = results.rounds()
    lines = [
        f"Measured {date} by `tools/bench/run` on {cpu_model()}, {os.cpu_count()} processors"
        f"{' of a virtual machine' if virtual else ''}, {memory_gib():.0f} GiB of memory, Linux "
        f"{platform.release()}, {results.facts.get('disk', 'an unknown disk')}. {rounds} "
        f"round{'s' if rounds != 1 else ''} in turns; medians, and ratios within a round."
    ]
    pages = []
    for part, what in (("verify", "huge pages reserved"), ("small-pages", "none reserved")):
        fact = results.facts.get(f"{part}-pages")
        if fact:
            engine, kind = fact.split()
            pages.append(f"with {what} ringsum read by {engine} into {kind} pages")
    if pages:
        text = "; ".join(pages)
        lines[0] += f" {text[0].upper()}{text[1:]}."
    return lines + [""]


def table(results):
    scale = results.facts.get("scale", "?")
    lines = introduction(results)
    for part, what in (
        ("verify", "huge pages reserved, cold"),
        ("small-pages", "no huge pages reserved, cold"),
        ("hot", "from the page cache, 2 threads"),
        ("tmpfs", "from tmpfs, 2 threads"),
    ):
        if results.has(part):
            size = results.bytes[part, "ringsum"] / 1e9
            lines += contest(results, part, f"delivery `{scale}` of {size:.2g} GB, {what}")
    if results.has("load"):
        size = results.bytes["load", "load-fresh"] / 1e9
        lines += loads(results, f"every tensor of delivery `{scale}` ({size:.2g} GB) into memory of "
                                "huge pages, cold")
    return "\n".join(lines + single_figures(results)).rstrip() + "\n"


def update_readme(path, text):
    readme = pathlib.Path(path)
    old = readme.read_text()
    if old.count(BEGIN) != 1 or old.count(END) != 1 or old.index(BEGIN) > old.index(END):
        sys.exit(f"bench: {path} needs one line {BEGIN} and one {END} after it")
    head, rest = old.split(BEGIN)
    tail = rest.split(END)[1]
    new = readme.with_name(readme.name + ".new")
    new.write_text(f"{head}{BEGIN}\n{text}{END}{tail}")
    new.replace(readme)


def main():
    arguments = sys.argv[1:]
    if len(arguments) == 2 and arguments[0] == "--disk":
        print(disk_kind(arguments[1]))
    elif len(arguments) == 3 and arguments[0] == "--readme":
        update_readme(arguments[1], table(Results(arguments[2])))
    elif len(arguments) == 1 and not arguments[0].startswith("-"):
        print(table(Results(arguments[0])), end="")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
