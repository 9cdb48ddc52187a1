"""What a hostile command tries against the fence of srt-launch, each test named after what must hold."""
import os
import socket
import subprocess
import threading
import time
import unittest

from fence import Fence, both


class GatewayInReach(Fence):
    """A shared gateway that keeps everything it lives on in a directory where the sandbox may write."""

    def setUp(self):
        super().setUp()
        if not hasattr(self, "gateway"):
            self.skipTest("no gateway was built")
        self.dir = os.path.join(self.work, "gw")
        uid = self.account.pw_uid if self.account else os.getuid()
        self.write("gw/lists/rules.txt", "good.test\n")
        self.write("gw/secrets/token", "an-operator-token-of-some-length\n")
        self.write("gw/secrets/alice", "a-client-token-of-some-length\n")
        self.write("gw/secrets/up", "user:password\n")
        os.symlink("secrets", os.path.join(self.dir, "linked"))
        self.write("gw/conf.d/policy.ini",
                   "[policy main]\nallow-file = ../lists/rules.txt\nupstream = up\n"
                   "[upstream up]\naddress = http://127.0.0.1:9\ncredentials-file = ../secrets/up\n")
        self.config = self.write(
            "gw/gateway.ini",
            f"[gateway]\nworkers = 1\naudit-log = {self.dir}/audit.jsonl\ncontrol = {self.dir}/control.sock\n"
            f"admin = unix:{self.dir}/admin.sock\nadmin-token-file = linked/token\ninclude = conf.d/*.ini\n"
            f"[listen main]\naddress = unix:{self.dir}/proxy.sock\npolicy = main\n"
            f"[client me]\nuid = {uid}\npolicy = main\n"
            "[client alice]\ntoken-file = secrets/alice\npolicy = main\n")
        self.own()
        self.process = subprocess.Popen([self.gateway, "run", "-c", self.config], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True, cwd=self.dir, env=self.environment(),
                                        **self.popen_args())
        self.addCleanup(self.end)
        self.said = ""
        while "ready" not in self.said:
            line = self.process.stderr.readline()
            self.assertTrue(line, self.said)
            self.said += line
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def end(self):
        self.process.terminate()
        self.process.wait(60)
        self.process.stderr.close()

    def inside(self, script, **settings):
        self.network = {"allowedDomains": ["good.test"], "deniedDomains": [], "allowAllUnixSockets": True}
        self.filesystem.update(allowWrite=[".", "gw"], denyRead=[], allowRead=["gw"], **settings)
        return self.run_plain("-s", self.settings(), "--gateway", f"unix:{self.dir}/control.sock", "--",
                              "/bin/sh", "-c", script)

    def audit_log(self):
        with open(f"{self.dir}/audit.jsonl", "rb") as f:
            return f.read()

    def gateway_answers(self):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(f"{self.dir}/admin.sock")
            s.sendall(b"GET /config HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                      b"Authorization: Bearer an-operator-token-of-some-length\r\n\r\n")
            return b" 200 " in s.recv(100)

    def test_secrets_of_the_gateway_cannot_be_read(self):
        for disabled in ({}, {"disabled": True}):
            result = self.inside("cd gw; for f in gateway.ini conf.d/policy.ini secrets/* linked/token audit.jsonl; do"
                                 " cat $f && echo READ $f; cp -l $f ../c && cat ../c && echo LINKED $f; done; true",
                                 **disabled)
            self.assertRan(result)
            self.assertEqual(result.stdout, "", result.stderr)

    def test_what_the_gateway_lives_on_cannot_be_changed(self):
        files = ("gateway.ini conf.d/policy.ini secrets/token secrets/alice secrets/up lists/rules.txt audit.jsonl"
                 " admin.sock control.sock proxy.sock linked")
        before = {name: os.lstat(os.path.join(self.dir, name)).st_ino for name in files.split()}
        for disabled in ({}, {"disabled": True}):
            result = self.inside(
                f"cd gw; for f in {files}; do for do in 'echo x >>$f' 'rm -f $f' 'mv -f $f ../moved' 'ln -sfn /x $f'"
                " 'ln -f ../settings.json $f' 'chmod 777 $f'; do eval \"$do\" 2>/dev/null && echo \"DONE $do $f\"; done;"
                " done; for d in conf.d secrets lists ../gw; do"
                "  perl -e 'rename($ARGV[0], \"../away\") and print \"RENAMED $ARGV[0]\\n\"' $d; done;"
                " echo '[policy evil]' > conf.d/evil.ini && echo INCLUDED; true", **disabled)
            self.assertRan(result)
            # Through the link: a directory that is the sandbox's own to change.
            self.assertEqual(result.stdout.replace("DONE chmod 777 $f linked\n", ""), "", result.stderr)
        self.assertEqual(before, {name: os.lstat(os.path.join(self.dir, name)).st_ino for name in before})
        self.assertTrue(self.gateway_answers())

    def test_operators_sockets_cannot_be_reached(self):
        program = ("import socket\nfor name in ('admin', 'control'):\n"
                   "    s = socket.socket(socket.AF_UNIX)\n"
                   "    try: s.connect(f'gw/{name}.sock'); print('CONNECTED', name)\n"
                   "    except OSError as e: print('no', name)\n")
        result = self.inside(f"python3 -c \"{program}\"")
        self.assertEqual(result.stdout, "no admin\nno control\n", result.stderr)
        self.assertTrue(self.gateway_answers())

    def test_gateway_notices_what_the_operator_changes_meanwhile(self):
        result = self.inside("echo through; touch gw/own && echo wrote")
        self.assertEqual(result.stdout, "through\nwrote\n", result.stderr)
        with open(self.config, "a") as f:
            f.write("# more\n")
        self.process.send_signal(1)
        end = time.monotonic() + 30
        while b'"reload"' not in self.audit_log():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        self.assertTrue(self.gateway_answers())


both(globals(), GatewayInReach)

if __name__ == "__main__":
    unittest.main()
