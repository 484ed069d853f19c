"""A kernel as a notebook would use it."""
from jupyter_client.manager import KernelManager

CELLS = ["import json; data = {str(n): [n] * 50 for n in range(2000)}", "kept = bytearray(40_000_000); len(kept)",
         "len(json.dumps(data))"]

manager = KernelManager(transport="ipc")
manager.start_kernel()
client = manager.blocking_client()
client.start_channels()
client.wait_for_ready(timeout=60)
for cell in CELLS:
    def show(message):
        if message["msg_type"] == "execute_result":
            print(message["content"]["data"]["text/plain"])
    answer = client.execute_interactive(cell, timeout=60, output_hook=show)
    print(answer["content"]["status"])
client.stop_channels()
manager.shutdown_kernel()
