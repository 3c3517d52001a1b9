"""Hosts on this machine: network namespaces on one switch, each with a connection of a given speed in both directions. Needs root and iproute2.
Run by hand, emulated_hosts.py prints the measured speeds."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ADDRESS = "10.77.0.{}"
INTERFACE = "eth0"

# Server: answers every byte with one, then reads everything. Client: measures round trips, then one stream; prints both.
SERVER = """
import socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("", 7777)); s.listen(); print("listening", flush=True)
c, _ = s.accept(); c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for _ in range({rounds}): c.sendall(c.recv(1))
left = {size}
while left: left -= len(c.recv(1 << 20))
c.sendall(b"!")
"""
CLIENT = """
import socket, statistics, time
c = socket.create_connection(("{address}", 7777), 10); c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
times = []
for _ in range({rounds}):
    begin = time.perf_counter(); c.sendall(b"?"); c.recv(1); times.append(time.perf_counter() - begin)
begin = time.perf_counter(); c.sendall(bytes({size})); c.recv(1)
print(statistics.median(times), {size} / (time.perf_counter() - begin))
"""


def missing():
    """Returns why emulation is not possible here; empty if it is."""
    if not shutil.which("ip") or not shutil.which("tc"):
        return "no ip and tc on this machine (Debian: iproute2)"
    if os.geteuid() != 0:
        return "network namespaces need root"
    probe = f"trireme-{os.getpid()}-probe"
    done = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if done.returncode != 0:
        return f"this machine allows no network namespaces: {done.stderr.strip()}"
    subprocess.run(["ip", "netns", "delete", probe], capture_output=True)
    return ""


class EmulatedHosts:
    """bandwidth: in tc's format. one_way: seconds of a packet's way, by netem; `delayed`: True if this kernel has netem."""

    def __init__(self, count=4, bandwidth="1gbit", one_way=0.0):
        self.count, self.bandwidth, self.one_way = count, bandwidth, one_way
        self.delayed = False
        self.names = [f"trireme-{os.getpid()}-{host}" for host in range(count)]
        self.switch = f"trireme-{os.getpid()}-switch"
        self.temporary = tempfile.TemporaryDirectory(prefix="trireme-hosts-")

    def __enter__(self):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that __exit__ runs
        try:
            self.build()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_):
        self.remove()

    def address(self, host):
        return ADDRESS.format(host + 1)

    def build(self):
        self.ip("netns", "add", self.switch)
        self.ip("-n", self.switch, "link", "add", "br0", "type", "bridge")
        self.ip("-n", self.switch, "link", "set", "br0", "up")
        for host, name in enumerate(self.names):
            port = f"port{host}"
            self.ip("netns", "add", name)
            self.ip("-n", name, "link", "set", "lo", "up")
            self.ip("link", "add", INTERFACE, "netns", name, "type", "veth", "peer", "name", port, "netns", self.switch)
            self.ip("-n", name, "address", "add", f"{self.address(host)}/24", "dev", INTERFACE)
            self.ip("-n", self.switch, "link", "set", port, "master", "br0")
            for namespace, device in ((name, INTERFACE), (self.switch, port)):
                self.ip("-n", namespace, "link", "set", device, "up")
                self.limit(namespace, device)

    def limit(self, namespace, device):
        """Limits what leaves this end of a connection: a host's end limits all that the host sends, a switch's end all that the host receives."""
        tc = ["tc", "-n", namespace, "qdisc", "add", "dev", device]
        subprocess.run([*tc, "root", "handle", "1:", "tbf", "rate", self.bandwidth, "burst", "256kb", "latency", "10ms"], check=True)
        if self.one_way > 0:  # half of the delay at each end
            done = subprocess.run([*tc, "parent", "1:1", "netem", "delay", f"{self.one_way / 2 * 1e6:.0f}us", "limit", "10000"],
                                  capture_output=True)
            self.delayed = done.returncode == 0

    def ip(self, *words):
        subprocess.run(["ip", *words], check=True)

    def inside(self, host, command):
        return ["ip", "netns", "exec", self.names[host], *command]

    def instead_of_ssh(self):
        """A program for `trireme launch --ssh` that runs a shell's line on the host with an address."""
        path = os.path.join(self.temporary.name, "reach")
        with open(path, "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\ncase $1 in\n")
            for host, name in enumerate(self.names):
                f.write(f'{self.address(host)}) shift; exec ip netns exec {name} sh -c "$*" ;;\n')
            f.write('esac\necho "no such host: $1" >&2\nexit 2\n')
        os.chmod(path, 0o755)
        return path

    def hosts(self, count=None):
        """The value for `trireme launch --hosts`: one process on each host."""
        return ",".join(f"{self.address(host)}:1" for host in range(count or self.count))

    def measure(self, rounds=200, size=25_000_000):
        """Measures between the first two hosts: (seconds of a round trip, bytes per second)."""
        words = {"rounds": rounds, "size": size, "address": self.address(0)}
        server = subprocess.Popen(self.inside(0, ["/usr/bin/python3", "-c", SERVER.format(**words)]), stdout=subprocess.PIPE, text=True)
        try:
            server.stdout.readline()
            client = subprocess.run(self.inside(1, ["/usr/bin/python3", "-c", CLIENT.format(**words)]), capture_output=True, text=True,
                                    check=True, timeout=60)
        finally:
            server.kill()
            server.communicate()
        round_trip, speed = map(float, client.stdout.split())
        return round_trip, speed

    def remove(self):
        for name in (*self.names, self.switch):
            self.end_processes(name)
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)
        self.temporary.cleanup()

    def end_processes(self, name):
        """Ends all processes of this namespace, which only this object uses."""
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            for _ in range(20):
                pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split()
                for pid in pids:
                    try:
                        os.kill(int(pid), signal_number)
                    except ProcessLookupError:
                        pass
                if not pids:
                    return
                time.sleep(0.05)


if __name__ == "__main__":
    if missing():
        sys.exit(f"emulated_hosts.py: {missing()}")
    with EmulatedHosts(one_way=1e-4) as network:
        trip, rate = network.measure()
        print(f"{network.count} hosts, {network.bandwidth}, "
              f"{'0.1 ms one way' if network.delayed else 'no delay (this kernel has no netem)'}: "
              f"round trip {trip * 1e3:.3f} ms, {rate / 1e6:.1f} MB/s")
