"""A file whose close() waits for as long as this process wants: of a FUSE file system that never answers a flush.

`stuck.py DIRECTORY send SOCKET COUNT` (as root, in a mount namespace of its own) opens the file COUNT times and sends each
descriptor by a message on SOCKET. `stuck.py DIRECTORY hold FD` has the kernel hold the lock of that socket: by an option whose
value lies in the file, which is never read. Either ends with its standard input, and then the kernel ends all that waits.
"""

import ctypes
import mmap
import os
import select
import socket
import struct
import sys

CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000
LOOKUP, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT = 1, 3, 14, 15, 18, 25, 26
ENOSYS, SO_ATTACH_FILTER = 38, 26


def attributes(node):
    mode = 0o40755 if node == 1 else 0o100644
    return struct.pack("=QQQQQQ", node, 5, 1, 0, 0, 0) + struct.pack("=IIIIIIIIII", 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def serve(device, until):
    """Serves one file called `stuck`, until that is readable; then the kernel ends all that waits."""
    while until not in select.select([device, until], [], [])[0]:
        message = os.read(device, 1 << 17)
        _, opcode, unique, node = struct.unpack_from("=IIQQ", message)
        error, body = 0, b""
        if opcode == INIT:
            body = struct.pack("=IIIIHHIIHHI", 7, 31, 1 << 16, 0, 16, 12, 1 << 16, 1, 32, 0, 0) + bytes(28)
        elif opcode == LOOKUP:
            body = struct.pack("=QQQQII", 2, 0, 3600, 3600, 0, 0) + attributes(2)
        elif opcode == GETATTR:
            body = struct.pack("=QII", 3600, 0, 0) + attributes(node)
        elif opcode == OPEN:
            body = struct.pack("=QII", 1, 0, 0)
        elif opcode == READ:
            print("held", flush=True)
            continue
        elif opcode in (FLUSH, RELEASE):
            continue  # the flush is what close() waits for
        else:
            error = -ENOSYS
        os.write(device, struct.pack("=IiQ", 16 + len(body), error, unique) + body)


def main(directory, act, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    if libc.unshare(CLONE_NEWNS) != 0 or libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        raise OSError(ctypes.get_errno(), "a mount namespace")
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"lab", directory.encode(), b"fuse", 0, options) != 0:
        raise OSError(ctypes.get_errno(), "mount")
    until, ours = os.pipe()
    if os.fork() == 0:  # with us, however we end, ends the device, and with that all that waits there
        os.close(device)
        os.close(ours)
        kept = {"send": open_and_send, "hold": hold}[act](directory, *arguments)
        os.read(until, 1)
        return kept
    serve(device, sys.stdin.fileno())


def open_and_send(directory, path, count):
    kept = []
    for _ in range(int(count)):
        file = os.open(os.path.join(directory, "stuck"), os.O_RDONLY)
        launcher = socket.socket(socket.AF_UNIX)
        launcher.connect(path)
        text = (b'{"type":"attach","version":1,"name":"stuck","policy":null,"command":null,"listeners":["proxy"],"network":null}')
        socket.send_fds(launcher, [struct.pack(">I", len(text)) + text], [file])
        kept += [file, launcher]
    print("sent", flush=True)
    return kept


def hold(directory, number):
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    file = os.open(os.path.join(directory, "stuck"), os.O_RDONLY)
    instructions = libc.mmap(None, ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ, mmap.MAP_PRIVATE, file, ctypes.c_long(0))
    sock = socket.socket(fileno=int(number))
    if sock.type == socket.SOCK_DGRAM:  # only then does sending need the lock
        sock.sendto(b"more", socket.MSG_MORE, ("127.0.0.1", 9))
    program = struct.pack("@HP", 1, instructions)
    libc.setsockopt(sock.fileno(), socket.SOL_SOCKET, SO_ATTACH_FILTER, program, len(program))


if __name__ == "__main__":
    main(*sys.argv[1:])
