/*
 * How a launcher and a gateway talk: frames of JSON over one Unix stream socket.
 *
 * A frame is a 32-bit big-endian length (at most ATTACH_MAX_FRAME) and that many bytes of one JSON
 * object with a "type". The connection is the sandbox's life: when it ends, the gateway closes the
 * sandbox's listeners and cuts its tunnels. A launcher that only shuts its direction down has ended
 * it, too, and is told the last denials before the gateway closes the other one. The peer is
 * identified by SO_PEERCRED, never by content.
 *
 *  launcher -> gateway
 *   attach   {"type":"attach","version":1,"name":"npm-41-...","policy":"build"|null,
 *             "command":"npm install","listeners":["proxy", ...],"network":{...}|null}
 *            with one descriptor per entry of `listeners`, in order, as SCM_RIGHTS on the frame's
 *            first byte. Kinds: "proxy" (a listening stream socket that speaks HTTP and SOCKS5),
 *            "transparent" (the same for TCP that the kernel redirects there), "dns-udp" (a bound
 *            UDP socket) and "dns-tcp", of a resolver whose addresses stand for names.
 *            `network` is the settings' object; it can only narrow the policy; null: nothing.
 *            optional "ask":true: the launcher has somebody who answers for this sandbox. Then what
 *            `network` neither allows nor denies is asked (unless it has strictAllowlist), and so
 *            is what the policy asks where it lets launchers answer
 *   update   {"type":"update","serial":N,"network":{...}}          replaces the narrowing
 *   answer   {"type":"answer","id":"...","verdict":"approve"|"refuse","for":"once"|"sandbox"}
 *            to an ask; "sandbox": also to whatever asks for the same host and port later
 *
 *  gateway -> launcher
 *   attached {"type":"attached","sandbox":"npm-41-...","policy":"build","generation":7,
 *             "hide":["/etc/gw/gateway.ini", ...],"protect":["/etc/gw/conf.d", ...]}
 *            absolute names of what the gateway lives on, both optional: a launcher keeps the
 *            sandbox from reading and changing the former (configuration, secrets, audit log,
 *            control and admin sockets) and from changing the latter (rule lists, directories of
 *            includes);
 *            optional "warnings":[TEXT, ...] about `network`
 *   refused  {"type":"refused","message":"..."}                    and the connection is closed;
 *            optional "faults":[TEXT, ...], those of `network`. These texts and the warnings begin
 *            with the path of the setting they are about: "network.allowedDomains[0]: ..."
 *   updated  {"type":"updated","serial":N,"generation":8}
 *            the narrowing is in force everywhere
 *   rejected {"type":"rejected","serial":N,"message":"..."}
 *            nothing changed, the sandbox lives on; answers every update whose serial can be read.
 *            What else is no message of this page ends the connection
 *   denial   {"type":"denial","ts":"...","host":"...","port":443,"front":"connect","reason":"...",
 *             "rule":ID|null,"policy":"...","message":"...","next_step":"...","request_id":"...",
 *             "missed":N}
 *            N denials before this one were not told: the launcher read too slowly, or too many
 *            came at once
 *   ask      {"type":"ask","id":"...","host":"...","port":443,"front":"connect","method":null,
 *             "path":null,"policy":"..."|null,"rule":ID|null,"waiting":N,"until":"...",
 *             "allow":"allow = HOST:PORT", ...}
 *            requests of this sandbox wait for an answer
 *   answered {"type":"answered","id":"...",
 *             "verdict":"approve"|"refuse"|"timeout"|"left"|"overtaken"}
 *            that ask needs no answer any more
 *
 * A private gateway is started with the other end of a socket pair as its control connection
 * (`srt-gateway run --private FD`); it serves that one sandbox, whose `network` is its policy, and
 * ends with it. There `network: null` allows nothing.
 */
#ifndef SRT_ATTACH_H
#define SRT_ATTACH_H

enum {
    ATTACH_VERSION = 1,
    ATTACH_MAX_FRAME = 8 << 20,
    ATTACH_MAX_LISTENERS = 4,
    ATTACH_PORT = 3128, /* of the proxy listener inside the sandbox */
};

/* Where that listener is instead, of a sandbox with `--egress socket`. */
#define ATTACH_SOCKET_DIR "/run/srt"
#define ATTACH_SOCKET ATTACH_SOCKET_DIR "/egress.sock"

#endif
