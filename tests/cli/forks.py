"""Runs commands of the program without the half second that loading libtorch takes: in forks of a process that has loaded it
(forking_trireme.cpp). A test that starts, kills or inspects processes starts the program itself."""
import json
import os
import signal
import socket
import struct
import subprocess
import tempfile

SERVER = os.environ.get("TRIREME_FORKS", "")  # path of the forking program; empty: commands are started as usual
NUMBER = struct.Struct("i")
idle = []  # servers that run no command


class Server:
    """A server that runs one command at a time."""

    def __init__(self):
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = subprocess.Popen([SERVER], stdin=theirs)
        theirs.close()

    def answer(self, seconds):
        self.socket.settimeout(seconds)
        number = self.socket.recv(NUMBER.size)
        if not number:
            raise AssertionError(f"{SERVER} ended")
        return NUMBER.unpack(number)[0]

    def run(self, words, folder, environment, seconds):
        command = json.dumps({"words": list(words), "working_folder": str(folder), "environment": dict(environment)})
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            socket.send_fds(self.socket, [command.encode()], [out.fileno(), err.fileno()])
            number = self.answer(seconds)
            try:
                status = self.answer(seconds)
            except TimeoutError as late:
                os.kill(number, signal.SIGKILL)
                self.answer(None)
                raise subprocess.TimeoutExpired(list(words), seconds) from late
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode())
        return subprocess.CompletedProcess(list(words), os.waitstatus_to_exitcode(status), *texts)


def run(program, words, folder, environment, seconds):
    """Like subprocess.run(capture_output=True, text=True)."""
    if not SERVER:
        return subprocess.run([program, *words], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=seconds, check=False)
    try:
        server = idle.pop()
    except IndexError:
        server = Server()
    ended = server.run(words, folder, environment, seconds)
    idle.append(server)  # not after an exception: then the server ends with this process
    return ended
