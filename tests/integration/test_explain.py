"""`srt-gateway explain`: what TARGET may be, what the options mean, how it ends."""

import json
import os
import pty
import subprocess

from lab import LabCase, main
from lab.gateway import binary, environment

RULES = {"allow": ["a.test", "*.wild.test:8443", "api.test method=GET,POST path=/v1/*", "b.test:22 front=socks5", "10.1.2.3:22",
                   "[2606:4700::1]:443", "to.test to=10.0.0.0/8", "strict.test sni=match", "loose.test sni=off"],
         "deny": ["bad.wild.test id=no-bad reason=\"not this one\"", "a.test:443 method=DELETE", "203.0.113.0/24"]}


class Explaining(LabCase):
    def setUp(self):
        super().setUp()
        self.config_path = self.write("explained.ini", self.config(**RULES, allow_addresses=None))

    def ask(self, *arguments, status):
        out, err = self.tool("explain", "-c", self.config_path, "--json", *arguments, status=status)
        if status == 64:
            self.assertEqual(out, "")
            self.assertNotEqual(err, "")
            return err
        self.assertEqual(len(out.splitlines()), 1)
        return json.loads(out)

    def test_targets_and_how_it_ends(self):
        for target, status, host, port, front, reason in (
                ("a.test:443", 0, "a.test", 443, "connect", None),
                ("A.TEST.:443", 0, "a.test", 443, "connect", None),
                ("a.test:8080", 1, "a.test", 8080, "connect", "not-allowed"),
                ("https://a.test", 0, "a.test", 443, "connect", None),
                ("https://a.test/", 0, "a.test", 443, "connect", None),
                ("https://a.test:443/deep?q=1#f", 0, "a.test", 443, "connect", None),
                ("https://a.test:8443/", 1, "a.test", 8443, "connect", "not-allowed"),
                ("http://a.test", 0, "a.test", 80, "http", None),
                ("http://a.test?q", 0, "a.test", 80, "http", None),
                ("http://a.test:443", 0, "a.test", 443, "http", None),
                ("http://a.test:443/x", 0, "a.test", 443, "http", None),
                ("HTTP://A.test/x", 0, "a.test", 80, "http", None),
                ("Https://a.test/x", 0, "a.test", 443, "connect", None),
                ("http://api.test/v1/x?y", 0, "api.test", 80, "http", None),
                ("http://api.test/v2/x", 1, "api.test", 80, "http", "not-allowed"),
                ("https://api.test/v1/x", 1, "api.test", 443, "connect", "not-allowed"),
                ("deep.er.wild.test:8443", 0, "deep.er.wild.test", 8443, "connect", None),
                ("wild.test:8443", 1, "wild.test", 8443, "connect", "not-allowed"),
                ("bad.wild.test:8443", 1, "bad.wild.test", 8443, "connect", "denied-by-rule"),
                ("10.1.2.3:22", 0, "10.1.2.3", 22, "connect", None),
                ("[::ffff:10.1.2.3]:22", 0, "10.1.2.3", 22, "connect", None),
                ("10.1.2.3:23", 1, "10.1.2.3", 23, "connect", "not-allowed"),
                ("[2606:4700::1]:443", 0, "2606:4700::1", 443, "connect", None),
                ("https://[2606:4700:0::1]/", 0, "2606:4700::1", 443, "connect", None),
                ("203.0.113.9:80", 1, "203.0.113.9", 80, "connect", "denied-by-rule"),
                ("127.0.0.1:443", 1, "127.0.0.1", 443, "connect", "not-allowed")):
            with self.subTest(target=target):
                said = self.ask(target, status=status)
                self.assertEqual((said["host"], said["port"], said["front"], said["reason"]), (host, port, front, reason))
                self.assertEqual((said["verdict"], said["policy"]), ("deny" if status else "allow", "main"))

    def test_malformed_targets_are_usage(self):
        for target in ("", "a.test", ":443", "a.test:", "a.test:0", "a.test:65536", "a.test:+1", "a.test:443x", "a..test:443", "a b:443",
                       "a.test\n:443", "b\u00fccher.test:443", "127.1:443", "0x7f.1:443", "2130706433:443", "1.2.3.4.5:443", "[a.test]:443",
                       "[10.1.2.3]:443", "::1:443", "[::1]", "[::1%lo]:443", "[::1:443", "u@a.test:443", "http://", "http:///x",
                       "http://u:p@a.test/", "http://a.test:x/", "https://a..test/", "https://[::1/", "ftp://a.test/", "a.test/x:443",
                       "http://a.test/a b", "http://a.test/\u00fc", "http://a.test/a\\b"):
            with self.subTest(target=target):
                self.ask("--", target, status=64)
        self.assertIn("only http:// and https://", self.ask("ftp://a.test/", status=64))

    def test_options_say_what_the_target_does_not(self):
        for arguments, status, reason in (
                (("--method", "GET", "--path", "/v1/x", "api.test:443"), 0, None),
                (("--method", "PUT", "--path", "/v1/x", "api.test:443"), 1, "method-not-allowed"),
                (("--path", "/v1/x?secret", "api.test:443"), 0, None),
                (("--method", "GET", "https://api.test/v1/x?secret"), 0, None),
                (("--method", "GET", "https://api.test/v2/x"), 1, "not-allowed"),
                (("--method", "get", "--path", "/v1/x", "api.test:443"), 1, "method-not-allowed"),
                (("--path", "/v1/../x", "api.test:443"), 1, "not-allowed"),
                (("--method", "DELETE", "a.test:443"), 1, "denied-by-rule"),
                (("b.test:22",), 1, "not-allowed"),
                (("--front", "socks5", "b.test:22"), 0, None),
                (("--addr", "93.184.216.34", "a.test:443"), 0, None),
                (("--addr", "10.0.0.1", "a.test:443"), 1, "address-denied"),
                (("--addr", "203.0.113.7", "a.test:443"), 1, "address-denied"),
                (("--addr", "169.254.169.254", "a.test:443"), 1, "address-denied"),
                (("--addr", "::ffff:127.0.0.1", "a.test:443"), 1, "address-denied"),
                (("--addr", "10.9.9.9", "to.test:443"), 0, None),
                (("--addr", "93.184.216.34", "to.test:443"), 1, "address-denied"),
                (("--sni", "a.test", "a.test:443"), 0, None),
                (("--sni", "evil.test", "a.test:443"), 1, "sni-mismatch"),
                (("--sni", "to.test", "a.test:443"), 0, None),
                (("--sni", "evil.test", "loose.test:443"), 0, None),
                (("--sni", "evil.test", "strict.test:443"), 1, "sni-mismatch")):
            with self.subTest(arguments=arguments):
                said = self.ask(*arguments, status=status)
                self.assertEqual(said["reason"], reason)
                self.assertNotIn("secret", str(said))
        self.assertEqual(self.ask("--addr", "10.0.0.1", "a.test:443", status=1)["addr"], "10.0.0.1")
        self.assertEqual(self.ask("bad.wild.test:8443", status=1)["rule"], "no-bad")
        self.assertIn("not this one", self.ask("bad.wild.test:8443", status=1)["message"])
        for arguments in (("--addr", "a.test", "a.test:443"), ("--sni", "a..test", "a.test:443"), ("--front", "ftp", "a.test:443"),
                          ("--policy", "nowhere", "a.test:443"), ("a.test:443", "b.test:443"), (), ("--bogus", "a.test:443"),
                          # What no front would read is not judged.
                          ("--method", "", "a.test:443"), ("--method", "G T", "a.test:443"), ("--method", "CONNECT", "a.test:443"),
                          ("--path", "", "a.test:443"), ("--path", "v1/x", "a.test:443"), ("--path", "/a b", "a.test:443"),
                          ("--path", "/\u00fc", "http://a.test/"), ("--method", "CONNECT", "http://a.test/")):
            with self.subTest(arguments=arguments):
                self.ask(*arguments, status=64)

    def test_the_record_has_every_field_of_a_live_one(self):
        gw = self.gateway(**RULES, allow_addresses=None)
        gw.refused_connect("bad.wild.test:8443")
        live, said = gw.decision(), self.ask("bad.wild.test:8443", status=1)
        self.assertEqual(list(said), list(live))
        for field in ("kind", "schema", "policy", "front", "host", "port", "verdict", "mode", "would", "reason", "rule", "message"):
            self.assertEqual(said[field], live[field], field)

    def test_it_never_asks_a_name_server(self):
        names = self.name_server({"a.test": ["10.0.0.1"]})
        path = self.write("named.ini", self.config(**RULES, allow_addresses=None, names=names))
        self.tool("explain", "-c", path, "a.test:443")
        self.assertEqual(names.questions, [])

    def test_which_policy(self):
        path = self.write("two.ini", self.config(**RULES, more="[policy other]\nallow = o.test\n"))
        said = self.tool("explain", "-c", path, "o.test:443", status=64)[1]
        self.assertRegex(said, r"main, other")
        self.tool("explain", "-c", path, "--policy", "other", "o.test:443")
        self.tool("explain", "-c", path, "--policy", "main", "o.test:443", status=1)

    def test_a_faulty_configuration_is_no_answer(self):
        said = self.tool("explain", "-c", self.write("faulty.ini", "[policy p]\nallow = *.com\n"), "a.test:443", status=78)[1]
        self.assertRegex(said, r"faulty\.ini:2: ")
        self.assertIn("No such file", self.tool("explain", "-c", self.path("nowhere.ini"), "a.test:443", status=78)[1])

    def test_a_terminal_gets_words(self):
        ours, theirs = pty.openpty()
        try:
            done = subprocess.run([binary(), "explain", "-c", self.config_path, "bad.wild.test:8443"], stdout=theirs,
                                  stderr=subprocess.PIPE, env=environment(), check=False)
            text = os.read(ours, 65536).decode()
        finally:
            os.close(ours)
            os.close(theirs)
        self.assertEqual((done.returncode, done.stderr), (1, b""))
        self.assertNotIn("{", text)
        for word in ("bad.wild.test:8443", "deny", "denied-by-rule", "no-bad", "not this one"):
            self.assertIn(word, text)


if __name__ == "__main__":
    main()
