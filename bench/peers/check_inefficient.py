"""Memory held for nothing by the operators of a csv file, row by row, written back with pandas: check_inefficient.py FILE

Operators number the time. A block is allocated early if memory was freed between its allocation and its first use, freed late
if memory was allocated between its last use and its free, idle if two uses are more than 3000 operators apart.
"""
import json
import os
import re
import resource
import sys

import pandas

IDLE = 3000
file = sys.argv[1]
rows = pandas.read_csv(file, dtype=str, keep_default_na=False)
allocation = re.compile(r"allocation_id:(\d+)")
now, inside = 0, False
last_malloc = last_free = -1
blocks, found = {}, {}
for place, event, kind, attributes in zip(range(len(rows)), rows["Event"], rows["Event Type"], rows["Attr"]):
    if kind == "ATEN_START":
        now, inside = now + 1, True
    elif kind == "ATEN_END":
        inside = False
    elif event in ("MALLOC", "FREE", "ACCESS") and (match := allocation.search(attributes)):
        if not inside:
            now += 1
        number = match[1]
        if event == "MALLOC":
            blocks[number] = (place, now, None)
            last_malloc = now
            continue
        if number not in blocks:
            continue
        made_at, made, used = blocks[number]
        if event == "ACCESS":
            if used is None and made < last_free < now:
                found.setdefault(made_at, []).append("early_allocation")
            if used is not None and now - used > IDLE:
                found.setdefault(made_at, []).append("temporary_idleness")
            blocks[number] = (made_at, made, now)
        else:
            if used is not None and used < last_malloc < now:
                found.setdefault(made_at, []).append("late_deallocation")
            del blocks[number]
            last_free = now
attributes = rows["Attr"].tolist()
for place, kinds in found.items():
    attributes[place] = attributes[place][:-1] + ",inefficient_type:" + ",".join(dict.fromkeys(kinds)) + "}"
rows["Attr"] = attributes
rows.to_csv(file + ".new", index=False)
os.replace(file + ".new", file)
print("BENCH " + json.dumps({"blocks": len(found), "rss_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))
