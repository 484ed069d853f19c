"""Blocks made between the first two marks and not freed up to the third, with pandas: check_leaks.py FILE MARK"""
import json
import resource
import sys

import pandas

file, mark = sys.argv[1:]
rows = pandas.read_csv(file, usecols=["ID", "Event", "Event Type", "Name", "Device Id", "Ptr", "Attr"], dtype=str)
rows["ID"] = rows["ID"].astype("int64")
rows = rows.sort_values("ID")
marks = rows[(rows["Event"] == "MSTX") & (rows["Event Type"] == "Mark") & (rows["Name"] == mark)]["ID"].tolist()
first, second, third = marks[:3]
of_memory = rows[rows["Event"].isin(["MALLOC", "FREE"]) & rows["ID"].between(first, third)].copy()
of_memory["block"] = of_memory["Attr"].str.extract(r"allocation_id:(\d+)")[0]
made = of_memory[(of_memory["Event"] == "MALLOC") & (of_memory["ID"] <= second)]
freed = set(of_memory[of_memory["Event"] == "FREE"]["block"])
leaks = made[~made["block"].isin(freed)]
sizes = leaks["Attr"].str.extract(r"[{,]size:(\d+)")[0].astype("int64")
print("BENCH " + json.dumps({"blocks": len(leaks), "bytes": int(sizes.sum()),
                             "rss_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))
