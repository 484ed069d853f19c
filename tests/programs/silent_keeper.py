"""Listens where the keeper of run 4711 would, says nothing, and starts the program given: it must end on its own."""
import os
import socket
import subprocess
import sys

listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind("\0msmemscope-%08x" % 4711)
listener.listen()
settings = "v=1;run=4711;owner=%d;utc=0;c=0;py=0;cpu=1;max=0;dir=/proc/nowhere" % os.getuid()
environment = dict(os.environ, LD_PRELOAD=sys.argv[1], MSMEMSCOPE_RECORD=settings)
ended = subprocess.run(sys.argv[2:], env=environment, timeout=15, stdout=subprocess.DEVNULL)
listener.setblocking(False)
asked, _ = listener.accept()
print("asked" if asked.recv(64)[:4] == b"msmq" else "not asked", ended.returncode)
