"""Servers with their clients, recorded together; some give up root."""

import os
import pathlib
import pwd
import socket

from trial import Case, Failed, Unavailable


def script(work, text):
    (work / "script").write_text(text)
    return ["sh", "script"]


def redis(site, work):
    return script(work, """
redis-server --port 0 --unixsocket "$PWD/socket" --save '' --appendonly no --logfile log &
until redis-cli -s socket ping >/dev/null 2>&1; do sleep 0.1; done
redis-benchmark -s socket -n 5000 -r 1000 -c 10 -q -t set,lpush,hset >/dev/null
redis-cli -s socket set answer 42
redis-cli -s socket get answer
redis-cli -s socket llen mylist
redis-cli -s socket shutdown nosave
wait
echo ended
""")


def postgres(site, work):
    """As the server's own user, because it refuses to run as root."""
    try:
        user = pwd.getpwnam("postgres").pw_uid
    except KeyError:
        raise Unavailable("there is no user postgres") from None
    if os.geteuid():
        raise Unavailable("only root can become postgres")
    places = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
    if not places:
        raise Failed("postgresql was installed and is not there")
    os.chown(work, user, -1)
    (work / "inner").write_text(f"""
PATH={places[-1]}:$PATH
initdb -D data -A trust -N --no-locale >/dev/null
pg_ctl -s -w -D data -l log -o "-c listen_addresses='' -c unix_socket_directories=$PWD -c fsync=off" start
pgbench -h "$PWD" -i -q -s 1 postgres >/dev/null 2>&1
pgbench -h "$PWD" -c 2 -t 100 postgres 2>/dev/null | grep -E 'actually processed|failed'
psql -h "$PWD" -At -c 'select count(*), sum(bid) from pgbench_accounts' postgres
pg_ctl -s -w -D data -m fast stop
echo ended
""")
    return script(work, f"exec setpriv --reuid=postgres --regid={pwd.getpwuid(user).pw_gid} --clear-groups sh inner\n")


def postgres_is_there(trial):
    servers = trial.of("postgres")
    if len(servers) < 8:
        raise Failed(f"of the server's processes only {len(servers)} were recorded")


def nginx(site, work):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (work / "page.html").write_text("hello\n" * 500)
    user = "user www-data;" if os.geteuid() == 0 else ""
    (work / "nginx.conf").write_text(f"""{user}
worker_processes 2;
pid nginx.pid;
error_log error.log;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
    server {{ listen 127.0.0.1:{port}; root {work}; gzip on; }}
}}
""")
    # It is a daemon that listens when the command returns, and its file goes when it ends.
    return script(work, f"""
PATH=$PATH:/usr/sbin
nginx -p "$PWD" -c nginx.conf
ab -q -n 400 -c 4 -H 'Accept-Encoding: gzip' http://127.0.0.1:{port}/page.html 2>&1 | grep -E 'Complete|Failed|HTML transferred'
nginx -p "$PWD" -c nginx.conf -s quit
while [ -e nginx.pid ]; do sleep 0.1; done
echo ended
""")


def workers_are_there(trial):
    if len(trial.of("nginx")) < 4:
        raise Failed(f"of master and workers only {len(trial.of('nginx'))} processes were recorded")


CASES = [
    Case("redis", redis, ("redis-server:redis-server", "redis-benchmark:redis-tools"), mode="c"),
    Case("postgresql", postgres, ("/usr/lib/postgresql:postgresql",), mode="c", check=postgres_is_there, most_seconds=120),
    Case("nginx", nginx, ("/usr/sbin/nginx:nginx-light", "ab:apache2-utils"), mode="c", check=workers_are_there,
         varying={r"^[\d/]+ [\d:]+ \[notice\] \d+#\d+": "TIME [notice] PROCESS"}),
]
