"""The points of a play: 2 where the first sentence names the ailment with its size, 1 where the first screen lists it, -2 where the
first sentence is false, else 0.

Beside compilers a program has two ailments. Where its own figure says that it waited longer for its CPU than for all else, the first
sentence has to be about that: it gets the 2 points if it has that size, and the screen lists the own ailment with its size.

An engine that writes `causes.losses` (losses.toml) is judged by that list alone. Of an older one the text is read, with the
regular expressions of the manifest.
"""

import re
from dataclasses import dataclass

from manifest import LOSSES

UNITS = {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9}
DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|min)\b")
# A loss below this share of the run takes nothing from a program that is well.
SMALL = 0.01


@dataclass
class Verdict:
    points: int
    why: str


def durations(text):
    """All durations of a text, in ns, but percentiles, which are the size of nothing.

    >>> durations("0.8 s behind: stopped for 2.25 s, 48 µs late (p99 1 ms)")
    [800000000.0, 2250000000.0, 48000.0]
    """
    text = re.sub(r"\(p\d[^)]*\)", "", text)
    return [float(number) * UNITS[unit] for number, unit in DURATION.findall(text.replace("\u00a0", " ").replace("\u202f", " "))]


def near(value, truth, tolerance):
    """Whether a size is right.

    >>> near(110, 100, 0.2), near(79, 100, 0.2), near(0, 0, 0.2)
    (True, False, True)
    """
    return abs(value - truth) <= tolerance * truth


def sized(loss, expected, figures):
    """Whether the size of a loss is right. A figure by the wall clock may have what the program waited for its CPU in it, or not.

    >>> from manifest import Expected
    >>> wall = Expected(kind="condition", sentence="", subject="", wall=True)
    >>> truth = {"lost_ns": 100, "queued_ns": 40}
    >>> [sized({"kind": "condition", "ns": ns}, wall, truth) for ns in (110, 80, 60, 40, 130)]
    [True, True, True, False, False]
    """
    truth = figures[expected.sizes.get(loss["kind"], expected.size)]
    least = max(truth - figures.get("queued_ns", 0), 0) if expected.wall else truth
    return least * (1 - expected.tolerance) <= loss["ns"] <= truth * (1 + expected.tolerance)


def resolved(value, figures):
    return str(figures[value[1:]]) if value.startswith("$") else value


def ideal(expected, figures):
    """The loss that is worth two points."""
    place = {key: resolved(value, figures) for key, value in {**expected.place, **expected.known}.items()}
    return {"kind": expected.kind, "ns": figures[expected.size], "times": figures["times"],
            "subject": resolved(expected.subject, figures), "place": place}


def agrees(key, said, wanted):
    """Whether a name that was said is the wanted one: paths by their ends, threads by what the kernel keeps of a name.

    >>> agrees("cgroup", "/", "/sys/fs/cgroup/cpu/limited")
    False
    >>> agrees("cgroup", "/culprits-7/limited", "/sys/fs/cgroup/cpu/culprits-7/limited"), agrees("culprit", "thief-31", "thief-32")
    (True, False)
    >>> agrees("holder", "number-cruncher", "number-cruncher-1"), agrees("culprit", "poller-2", "poller")
    (True, True)
    """
    if key in ("cgroup", "file"):
        if "/" in (said, wanted):
            return said == wanted
        return wanted.endswith(said.lstrip("/")) or said.endswith(wanted.lstrip("/"))
    if key in ("lock", "condition"):
        return int(said, 16) == int(wanted, 16)
    return said[:15] == wanted[:15] or re.fullmatch(re.escape(wanted) + r"-\d+", said) is not None


def placed(loss, wanted, figures):
    """Which of the wanted names are `absent` from a loss, and which are `wrong`."""
    said = loss.get("place", {})
    absent = [key for key in wanted if key not in said]
    return absent, [key for key in wanted if key in said and not agrees(key, said[key], resolved(wanted[key], figures))]


def verdict(culprit, play):
    """The points of a play."""
    losses = play.record.get("causes", {}).get("losses")
    if losses is None:
        return verdict_of_text(culprit, play)
    return verdict_of_losses(culprit.expected, losses, play.figures, play.record["causes"].get("watched_ns", 0))


def beside_others(expected, losses, figures, queued):
    """The verdict where the first sentence is about other programs on the CPU, and the program says too that it waited for it that long.

    >>> from manifest import Expected
    >>> disk = Expected(kind="disk", sentence="", subject="s")
    >>> said = [{"kind": "hog-process", "ns": 190, "subject": "s"}, {"kind": "disk", "ns": 100, "subject": "s", "place": {}}]
    >>> [beside_others(disk, said, {"lost_ns": own, "ran_ns": 400}, 200).points for own in (100, 60, 300)]
    [2, 1, 0]
    """
    own = figures[expected.size]
    wanted = {**expected.place, **expected.known}
    listed = [loss for loss in losses[1:] if loss["kind"] in (expected.kind, *expected.also) and not placed(loss, wanted, figures)[1]]
    if not expected.healthy() and queued < (1 - expected.tolerance) * (own - (queued if expected.wall else 0)):
        return Verdict(1, "listed, behind what took less") if any(sized(loss, expected, figures) for loss in listed) else Verdict(0, "others instead")
    whole = [loss for loss in listed if sized(loss, expected, figures) and not [key for key in placed(loss, wanted, figures)[0] if key in expected.place]]
    waits = sum(loss["ns"] for loss in losses if LOSSES[loss["kind"]].get("queue", False) and loss.get("tid") == losses[0].get("tid"))
    if whole and near(waits, figures.get("queued_ns", queued), expected.tolerance):
        return Verdict(2, "listed, behind the others, which took more")
    return Verdict(1, "listed") if listed else Verdict(0, "others instead")


def verdict_of_losses(expected, losses, figures, watched=0):
    """Judges the typed losses.

    >>> from manifest import Expected
    >>> hog = Expected(kind="hog-fifo", sentence="", subject="hog", place={"culprit": "$culprit"})
    >>> said = lambda kind, ns, culprit: {"kind": kind, "ns": ns, "subject": "hog", "place": {"culprit": culprit}}
    >>> truth = {"lost_ns": 100, "ran_ns": 300, "culprit": "thief-1"}
    >>> [verdict_of_losses(hog, [said(*each)], truth).points for each in
    ...     [("hog-fifo", 90, "thief-1"), ("hog-fifo", 50, "thief-1"), ("hog-fifo", 90, "cc1"), ("disk", 90, "x"), ("disk", 2, "x"),
    ...     ("hog-process", 90, "cc1")]]
    [2, 1, -2, -2, 0, 0]
    >>> beside = {"lost_ns": 100, "ran_ns": 120, "queued_ns": 150, "culprit": "thief-1"}
    >>> [verdict_of_losses(hog, [said("hog-process", ns, "cc1")], beside).points for ns in (60, 90)]
    [0, -2]
    >>> process = Expected(kind="hog-process", sentence="", subject="hog", place={"culprit": "$culprit"})
    >>> beside["lost_ns"] = 60
    >>> both = [{**said("hog-process", 80, "cc1"), "tid": 7}, {**said("hog-fifo", 60, "thief-1"), "tid": 7}]
    >>> verdict_of_losses(hog, both, {**beside, "queued_ns": 140}).points
    2
    >>> nice = Expected(kind="nice", sentence="", subject="hog", place={"culprit": "$culprit"})
    >>> [verdict_of_losses(nice, [said("nice", 55, "cc1")], {**beside, "culprit_ns": ns}).points for ns in (20, 40)]
    [2, -2]
    >>> [verdict_of_losses(process, [said("hog-process", 150, "cc1")], {**beside, "queued_ns": queued}).points for queued in (150, 110)]
    [1, -2]
    """
    truth, ran = figures[expected.size], figures["ran_ns"]
    kinds = [expected.kind, *expected.also]
    if not losses:
        return Verdict(2, "nothing lost") if expected.kind == "on-time" else Verdict(0, "nothing said")
    first = losses[0]
    if expected.kind == "on-time" and first["kind"] != "on-time":
        small = first["ns"] <= SMALL * ran
        return Verdict(0, "a small loss leads") if small else Verdict(-2, f"{first['kind']} of a program that is on time")
    wanted = {**expected.place, **expected.known}
    # What the program itself says that it waited for its CPU, less its ailment where that is in it.
    others = figures.get("queued_ns", 0) - (truth if LOSSES[expected.kind].get("queue", False) else 0)
    if first["kind"] in kinds:
        absent, wrong = placed(first, wanted, figures)
        # Others on the CPU are of the same kind: the one with the most of it is named, with the time of all.
        if wrong == ["culprit"] and first["kind"] == "hog-process" and others >= truth:
            right = near(first["ns"], figures["queued_ns"], expected.tolerance)
            return Verdict(int(right), "named with the others, which took more" if right else "others instead")
        # Its own policy is why, whoever is preferred: beside compilers that is not the culprit alone.
        if wrong == ["culprit"] and 2 * figures.get("culprit_ns", truth) <= truth:
            wrong, absent = [], []
        if wrong:
            return Verdict(-2, f"wrong {', '.join(wrong)}")
        right = expected.kind == "on-time" or sized(first, expected, figures)
        missing = [key for key in absent if key in expected.place]
        subject = agrees("subject", first["subject"], resolved(expected.subject, figures))
        if right and subject and not missing:
            return Verdict(2, "named")
        off = "another size" if not right else "another thread" if not subject else f"no {', '.join(missing)}"
        return Verdict(1, f"named, but {off}")
    # A culprit has one ailment. Only the machine can have taken something else: what the ailment leaves of the watch, or what the program
    # itself says that it waited for its CPU.
    kind = LOSSES.get(first["kind"], {})
    if kind.get("queue", False) and kind.get("machine", False) and first["ns"] <= (1 + expected.tolerance) * others:
        return beside_others(expected, losses, figures, others)
    # A peer that waited for its CPU in most of the wait for it, by its own count, was starved.
    if first["kind"] == "starved-server" and "peer" in expected.place and 2 * figures.get("peer_queued_ns", 0) >= first["ns"]:
        right = sized(first, expected, figures) and not placed(first, expected.place, figures)[1]
        return Verdict(int(right), "named by what its peer waited for" if right else "another peer or size")
    most = SMALL * ran if expected.healthy() else expected.tolerance * truth
    if kind.get("machine", False):
        most += max(max(ran, watched) - truth, 0)
    # That it computes is not false of a program that does: it is no answer, where something makes it compute.
    if first["kind"] == "computes" and LOSSES[expected.kind].get("computes", False):
        most = ran
    if first["ns"] > most:
        return Verdict(-2, f"{first['kind']} cannot have taken so much")
    listed = any(loss["kind"] in kinds and not placed(loss, wanted, figures)[1] for loss in losses)
    return Verdict(1, "listed") if listed else Verdict(0, f"{first['kind']} instead")


def verdict_of_text(culprit, play):
    """Reads the text of an engine without typed losses. A size is the whole, or that of an occurrence or a turn."""
    expected, figures, sentence = culprit.expected, play.figures, play.sentence()
    pattern = lambda text: re.sub(r"\$([a-z_]+)", lambda key: re.escape(str(figures.get(key[1], "-"))[:15]), text)
    found = lambda key, text: any(re.search(pattern(each), text) for each in culprit.today.get(key, []))
    if found("false", sentence):
        return Verdict(-2, "false")
    if found("names", sentence):
        truth, times = figures[expected.size], max(figures.get("times", 1), 1)
        sizes = [truth, truth / times, truth / max(figures.get("turns", 1), 1)]
        if expected.kind == "on-time" or any(near(said, size, expected.tolerance) for said in durations(sentence) for size in sizes):
            return Verdict(2, "named")
        return Verdict(1, "named, another size")
    screen = " ".join(play.screen.split())
    return Verdict(1, "listed") if found("lists", screen) else Verdict(0, "not seen")
