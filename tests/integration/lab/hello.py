"""TLS ClientHellos, made by openssl or by hand, for what a real client would never send."""

import ssl
import struct


def recorded(server_name, alpn=None, minimum=None):
    """The ClientHello that python's ssl sends for a name (None: without one)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if minimum is not None:
        context.minimum_version = minimum
    if alpn:
        context.set_alpn_protocols(alpn)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=server_name)
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def extension(number, data):
    return struct.pack("!HH", number, len(data)) + data


def server_name(*names, kind=0):
    """A server_name extension; names are bytes, exactly as given."""
    entries = b"".join(bytes([kind]) + struct.pack("!H", len(name)) + name for name in names)
    return extension(0, struct.pack("!H", len(entries)) + entries)


def handshake(extensions, version=0x0303):
    """A ClientHello handshake message (no record around it)."""
    body = (struct.pack("!H", version) + bytes(range(32)) + b"\x20" + bytes(range(32))
            + struct.pack("!HHH", 4, 0x1301, 0xC02F) + b"\x01\x00")
    if extensions is not None:
        joined = b"".join(extensions)
        body += struct.pack("!H", len(joined)) + joined
    return b"\x01" + struct.pack("!I", len(body))[1:] + body


def records(message, size=16384, version=0x0301):
    """The message cut into records of at most `size` bytes."""
    return b"".join(b"\x16" + struct.pack("!HH", version, len(message[at:at + size])) + message[at:at + size]
                    for at in range(0, len(message), size))


def crafted(*names):
    """A whole ClientHello with the given server names, whatever their bytes."""
    return records(handshake([server_name(*names)] if names else []))


def is_alert(data):
    """A TLS record of type alert."""
    return len(data) == 7 and data[0] == 21 and data[1] == 3
