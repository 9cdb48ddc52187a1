"""Rules as live traffic meets them (area policy)."""

import json
import signal
import threading

from lab import LabCase, main

NUMERIC = ["2130706433", "0177.0.0.1", "0x7f.1", "0x7f.0.0.1", "127.1", "127.0.1", "0", "017700000001", "0x7f000001",
           "127.0.0.01", "127.00.0.1", "127.0.0.1.", "127.0.0.256", "127.0.0.1.1", "1.2.3", "0xa.test.0x1", "127.0.0.0x1",
           "00000177.0.0.1", "1", "999999999999"]


class PolicyCase(LabCase):
    def verdict(self, gw, authority, front="connect"):
        """200, or the reason of the refusal; a dead end counts as allowed."""
        if front == "http":
            response = gw.get(f"http://{authority}/")
        else:
            response = gw.refused_connect(authority)
        if response.status == 200:
            return "allow"
        reason = json.loads(response.body)["reason"]
        return "allow" if reason.startswith(("connect-", "dns-")) else reason

    def assert_verdicts(self, gw, expected):
        for authority, verdict in expected.items():
            with self.subTest(authority=authority):
                self.assertEqual(self.verdict(gw, authority), verdict)


class Names(PolicyCase):
    def test_P01_no_rule_allows_nothing(self):
        names = self.name_server({})
        gw = self.gateway(names=names)
        for authority in ("good.test:443", "127.0.0.1:80", "[::1]:80", "localhost:80"):
            self.assert_refused(gw.refused_connect(authority), 403, "not-allowed")
        self.assertEqual(names.questions, [])

    def test_P02_case_and_a_final_dot_change_nothing(self):
        names = self.name_server({})
        gw = self.gateway(allow=["*:1-65535"], deny=["evil.test"], names=names)
        for host in ("EVIL.test", "evil.test.", "Evil.TEST.", "evil.test"):
            self.assert_refused(gw.refused_connect(f"{host}:443"), 403, "denied-by-rule")
            self.assert_refused(gw.get(f"http://{host}/"), 403, "denied-by-rule")
            self.assertEqual(gw.socks_code(host, 443), 2)
        for host in ("evil.test..", ".evil.test", "evil..test"):
            self.assert_refused(gw.refused_connect(f"{host}:443"), 400, "bad-request")
            self.assertEqual(gw.get(f"http://{host}/").status, 400)
            self.assertIn(gw.socks_code(host, 443), (1, 8))
        self.assertEqual(names.questions, [])

    def test_P03_brackets_are_for_ipv6(self):
        gw = self.gateway(allow=["*:1-65535"])
        for authority in ("[evil.test]:443", "[good.test]:443", "[127.0.0.2]:443", "[::1:443", "::1:443", "[]:443", "[::1]443",
                          "[::1%lo]:443", "[::g]:443", "[fe80::1%25eth0]:443", "[v1.x]:443"):
            with self.subTest(authority=authority):
                self.assertEqual(gw.refused_connect(authority).status, 400)

    def test_P04_numbers_are_neither_names_nor_addresses(self):
        names = self.name_server({})
        gw = self.gateway(allow=["*:1-65535"], names=names)
        for host in NUMERIC:
            with self.subTest(host=host):
                self.assertEqual(gw.refused_connect(f"{host}:443").status, 400)
                self.assertEqual(gw.get(f"http://{host}/").status, 400)
                self.assertIn(gw.socks_code(host.encode(), 443), (1, 8))
        self.assertEqual(names.questions, [])

    def test_P07_unicode_rules_and_punycode_requests_are_one(self):
        names = self.name_server({})
        gw = self.gateway(allow=["*:1-65535", "straße.test:443"], deny=["bücher.test"], names=names)
        self.assert_refused(gw.refused_connect("xn--bcher-kva.test:443"), 403, "denied-by-rule")
        self.assertEqual(self.verdict(gw, "XN--BCHER-KVA.test:443"), "denied-by-rule")

    def test_P08_what_unicode_folds_is_not_a_name(self):
        names = self.name_server({})
        gw = self.gateway(allow=["*:1-65535"], names=names)
        for host in ("\u212aelvin.test", "\u0130.test", "good\u3002test", "good\uff0etest", "\uff47ood.test", "good\u00ad.test",
                     "\u200bgood.test", "xn--a.test", "xn--.test", "\ufffd.test"):
            raw = host.encode("utf-8")
            with self.subTest(host=host):
                with gw.client() as client:
                    client.send(b"CONNECT " + raw + b":443 HTTP/1.1\r\nHost: x\r\n\r\n")
                    status = client.response("CONNECT").status
                if host.startswith("xn--"):
                    self.assertIn(status, (400, 502))  # an A-label that decodes to nothing
                    continue
                self.assertEqual(status, 400)
                self.assertIn(gw.socks_code(raw, 443), (1, 8))

    def test_P10_a_wildcard_is_every_depth_below_and_not_the_name(self):
        gw = self.gateway(allow=["good.test", "*.wild.test", "localname"])
        self.assert_verdicts(gw, {
            "good.test:443": "allow", "good.test:80": "allow", "good.test:8080": "not-allowed", "x.good.test:443": "not-allowed",
            "foogood.test:443": "not-allowed", "good.test.evil.test:443": "not-allowed", "wild.test:443": "not-allowed",
            "a.wild.test:443": "allow", "a.b.c.wild.test:443": "allow", "foowild.test:443": "not-allowed",
            "wild.test.evil.test:443": "not-allowed", "_x.wild.test:443": "allow", "localname:443": "allow",
            "test:443": "not-allowed", "othername:443": "not-allowed"})

    def test_P11_deny_beats_allow_whatever_is_more_specific(self):
        gw = self.gateway(allow=["*.good.test", "x.other.test", "y.third.test:443"],
                          deny=["bad.good.test", "*.other.test", "y.third.test:80"])
        self.assert_verdicts(gw, {"ok.good.test:443": "allow", "bad.good.test:443": "denied-by-rule",
                                  "bad.good.test:9": "denied-by-rule", "x.bad.good.test:443": "allow",
                                  "x.other.test:443": "denied-by-rule", "y.third.test:443": "allow",
                                  "y.third.test:80": "denied-by-rule"})

    def test_P13_wildcards_that_cannot_be_meant_are_faults(self):
        for rule in ("*.com", "*.co.uk", "hooks.*.com", "api.*", "*good.test", "**.good.test", "*.*.good.test", "*", "good.test.*",
                     "*.", ".good.test", "good..test"):
            with self.subTest(rule=rule):
                said = self.check(self.config(allow=[rule]), status=78)
                self.assertRegex(said, r"checked\.ini:\d+: ")
        self.assertIn("github.io", self.check(self.config(allow=["*.github.io"])))

    def test_P14_ports_and_ipv6_in_rules(self):
        six = self.upstream(address="::1")
        gw = self.gateway(allow=["good.test:8443", f"[::1]:{six.port}", "*.good.test:22", "range.test:1000-1010", "any.test:*",
                                 "list.test ports=5,7-8"], allow_addresses=["127.0.0.0/8", "::1/128"])
        self.assert_verdicts(gw, {"good.test:8443": "allow", "good.test:8444": "not-allowed", f"[::1]:{six.port}": "allow",
                                  f"[::1]:{six.port % 65535 + 1}": "not-allowed", "a.good.test:22": "allow",
                                  "a.good.test:23": "not-allowed", "range.test:1000": "allow", "range.test:1010": "allow",
                                  "range.test:1011": "not-allowed", "range.test:999": "not-allowed", "any.test:1": "allow",
                                  "list.test:5": "allow", "list.test:6": "not-allowed", "list.test:8": "allow"})
        for rule in ("good.test:0", "good.test:65536", "good.test:443abc", "good.test:", "good.test:5-4", "good.test:-5", "[::1",
                     "[::1]x", "::1", "[good.test]:1", "1.2.3.4/33", "[::1/129]", "good.test:1:2", "good.test ports=", "127.1"):
            with self.subTest(rule=rule):
                self.check(self.config(allow=[rule]), status=78)

    def test_P17_one_local_service_is_not_all_of_loopback(self):
        one, other = self.upstream(address="127.0.0.1"), self.upstream(address="127.0.0.1")
        gw = self.gateway(allow=[one.literal], allow_addresses=None)
        gw.tunnel(one.literal).send("x").expect("x")
        self.assert_refused(gw.refused_connect(other.literal), 403, "not-allowed")
        self.assert_refused(gw.refused_connect(f"localhost:{one.port}"), 403, "not-allowed")
        self.assert_untouched(other)
        gw.stop()
        gw = self.gateway(allow=[f"localhost:{one.port}"], allow_addresses=None)
        gw.tunnel(f"localhost:{one.port}").send("x").expect("x")
        self.assert_refused(gw.refused_connect(f"localhost:{other.port}"), 403, "not-allowed")

    def test_P20_values_that_are_more_than_a_rule_are_faults(self):
        for rule in ("good.test\x00evil.test", "a b", "good.test/evil", "good.test%20x", "good.test evil.test", "user@good.test",
                     "http://good.test", "good.test method", "good.test metod=GET", "good.test until=tomorrow", "good.test mode=maybe",
                     "good.test reason=\"open", "good.test to=nothing", "good.test front=ftp", "good.test sni=perhaps",
                     "good.test id=", "good.test id=a id=b"):
            with self.subTest(rule=rule):
                self.check(self.config(allow=[rule]), status=78)
        self.assertIn("method", self.check(self.config(allow=["good.test metod=GET"]), status=78))

    def test_P19_the_same_question_has_the_same_answer(self):
        """Ten thousand from 32 clients, while the policy of somebody else is reloaded all the time."""
        good = self.origin("good.test")
        config = self.config(allow=[good.authority], hosts=[good])
        gw = self.gateway(config)
        wrong, done = [], threading.Event()

        def ask():
            with gw.client() as client:
                for number in range(320):
                    host, expected = (good.authority, 200) if number % 16 == 0 else ("evil.test", 403)
                    try:
                        status = client.get(f"http://{host}/{number}").status
                    except (AssertionError, OSError) as error:
                        wrong.append((host, error))
                        return
                    if status != expected:
                        wrong.append((host, status))

        def storm():
            number = 0
            while not done.is_set():
                number += 1
                gw.write_config(config + f"[policy other]\nallow = n{number}.test\n")
                gw.send_signal(signal.SIGHUP)
                done.wait(0.01)

        threads = [threading.Thread(target=ask) for _ in range(32)]
        reloading = threading.Thread(target=storm)
        for thread in (reloading, *threads):
            thread.start()
        for thread in threads:
            thread.join()
        done.set()
        reloading.join()
        self.assertEqual(wrong, [])
        self.assertGreater(len([entry for entry in gw.records("reload") if entry["result"] == "ok"]), 1)


class Addresses(PolicyCase):
    def test_P05_ipv4_inside_ipv6_is_judged_as_ipv4(self):
        inner = {"127.0.0.9": ("7f00", "0009"), "169.254.169.254": ("a9fe", "a9fe"), "10.1.2.3": ("0a01", "0203")}
        table, literals = {}, []
        for number, (_, (high, low)) in enumerate(inner.items()):
            for kind, form in enumerate((f"::ffff:{high}:{low}", f"::{high}:{low}", f"64:ff9b::{high}:{low}",
                                         f"64:ff9b:1::{high}:{low}", f"2002:{high}:{low}::1", f"::ffff:0:{high}:{low}")):
                table[f"n{number}k{kind}.test"] = [form]
                literals.append(form)
        gw = self.gateway(allow=["*.test", "[::/0]:1-65535", "0.0.0.0/0:1-65535"], names=self.name_server(table), allow_addresses=None)
        for host in table:
            with self.subTest(host=host, address=table[host]):
                self.assert_refused(gw.refused_connect(f"{host}:443"), 403, "address-denied")
        for literal in literals:
            with self.subTest(literal=literal):  # a mapped one is IPv4, which only 0.0.0.0/0 names
                self.assert_refused(gw.refused_connect(f"[{literal}]:443"), 403, "address-denied")

    def test_P16_the_guards_no_is_not_the_rules_no(self):
        gw = self.gateway(allow=["*.test"], allow_addresses=None, names=self.name_server(
            {"metadata.test": ["169.254.169.254"], "private.test": ["192.168.1.1"], "loop.test": ["127.0.0.1"],
             "zero.test": ["0.0.0.0"], "multi.test": ["224.0.0.1"], "ula.test": ["fd00::1"], "alibaba.test": ["100.100.100.200"],
             "doc.test": ["192.0.2.1"], "ec2six.test": ["fd00:ec2::254"], "linklocal.test": ["fe80::1"], "bc.test": ["255.255.255.255"]}))
        words = {"metadata.test": "metadata", "private.test": "private", "loop.test": "loopback", "zero.test": "unspecified",
                 "multi.test": "multicast", "ula.test": "private", "alibaba.test": "metadata", "doc.test": "reserved",
                 "ec2six.test": "metadata", "linklocal.test": "link-local", "bc.test": "broadcast"}
        for host, word in words.items():
            with self.subTest(host=host):
                body = self.assert_refused(gw.refused_connect(f"{host}:443"), 403, "address-denied")
                self.assertIn(word, body["message"])
                self.assertEqual(body["error"], "blocked")
                self.assertIsNotNone(gw.decision(host)["addr"])
        self.assert_refused(gw.refused_connect("other.example:443"), 403, "not-allowed")

    def test_private_addresses_are_allowed_by_the_policy_but_metadata_is_not(self):
        gw = self.gateway(allow=["*.test"], allow_addresses=None, policy="private-addresses = allow\ndeny-addresses = 10.9.0.0/16",
                          gateway="connect-timeout = 300ms",
                          names=self.name_server({"private.test": ["10.255.255.1"], "metadata.test": ["169.254.169.254"],
                                                  "alibaba.test": ["100.100.100.200"], "denied.test": ["10.9.1.1"],
                                                  "loop.test": ["127.0.0.1"]}))
        for host in ("metadata.test", "alibaba.test", "denied.test", "loop.test"):
            self.assert_refused(gw.refused_connect(f"{host}:443"), 403, "address-denied")

    def test_deny_addresses_beat_every_exception(self):
        good = self.upstream(name="good.test")
        gw = self.gateway(allow=[good.authority, good.literal, f"to.test:{good.port} to=127.0.0.2"], allow_addresses="127.0.0.0/8",
                          policy=f"deny-addresses = {good.address}/32", hosts={"good.test": good.address, "to.test": good.address})
        for authority in (good.authority, good.literal, f"to.test:{good.port}"):
            self.assert_refused(gw.refused_connect(authority), 403, "address-denied")
        self.assert_untouched(good)

    def test_a_denied_literal_also_denies_names_that_lead_there(self):
        good = self.upstream(name="good.test")
        gw = self.gateway(allow=["good.test:1-65535"], deny=[f"127.0.0.2:{good.port}"], hosts=[good])
        body = self.assert_refused(gw.refused_connect(good.authority), 403, "address-denied")
        self.assertTrue(body["rule"])
        self.assertEqual(self.verdict(gw, "good.test:443"), "allow")
        self.assert_untouched(good)

    def test_to_limits_where_a_name_may_lead(self):
        good = self.upstream()
        gw = self.gateway(allow=[f"in.test:{good.port} to=127.0.0.2/32", f"out.test:{good.port} to=127.0.0.3,127.0.0.4"],
                          hosts={"in.test": good.address, "out.test": good.address}, allow_addresses=None)
        gw.tunnel(f"in.test:{good.port}").send("x").expect("x")
        self.assert_refused(gw.refused_connect(f"out.test:{good.port}"), 403, "address-denied")


class Attributes(PolicyCase):
    def test_method_and_path_are_judged_on_what_is_visible(self):
        good = self.origin("good.test")
        gw = self.gateway(allow=[f"{good.authority} method=GET,HEAD path=/pub/*"], hosts=[good])
        url = f"http://{good.authority}"
        with gw.client() as client:
            self.assertEqual(client.get(url + "/pub/a/b").status, 200)
            client.request(f"POST {url}/pub/a HTTP/1.1", body="x")
            self.assert_refused(client.response(), 403, "method-not-allowed")
            for path in ("/private", "/pub/../private", "/pub/%2e%2e/private", "/pub/a%2fb", "/pub/./x", "/PUB/a", "/pub"):
                with self.subTest(path=path):
                    self.assert_refused(client.get(url + path), 403, "not-allowed")
        self.assertEqual([request.target for request in good.requests], ["/pub/a/b"])

    def test_P25_such_a_rule_allows_no_opaque_tunnel(self):
        good = self.upstream(name="good.test")
        gw = self.gateway(allow=[f"{good.authority} method=GET"], hosts=[good])
        response = gw.refused_connect(good.authority)
        self.assertEqual(response.status, 403)
        self.assertEqual(gw.socks_code("good.test", good.port), 2)
        self.assert_untouched(good)

    def test_front_decides_by_which_door(self):
        good = self.origin("good.test")
        gw = self.gateway(allow=[f"{good.authority} front=http"], hosts=[good])
        self.assertEqual(gw.get(f"http://{good.authority}/").status, 200)
        self.assert_refused(gw.refused_connect(good.authority), 403, "not-allowed")
        self.assertEqual(gw.socks_code("good.test", good.port), 2)

    def test_until_ends_a_rule(self):
        gw = self.gateway(allow=["past.test until=2001-01-01T00:00:00Z", "future.test until=2999-01-01T00:00:00Z"])
        self.assert_verdicts(gw, {"past.test:443": "not-allowed", "future.test:443": "allow"})

    def test_report_mode_records_what_it_does_not_apply(self):
        good = self.origin("good.test")
        gw = self.gateway(policy="mode = report", deny=["denied.test id=seen"],
                          hosts={"good.test": good.address, "denied.test": good.address})
        self.assertEqual(gw.get(f"http://{good.authority}/").status, 200)
        self.assertEqual(gw.get(f"http://denied.test:{good.port}/").status, 200)
        decision = gw.decision("good.test")
        self.assertEqual((decision["verdict"], decision["mode"], decision["would"]), ("allow", "report", "deny"))
        self.assertRegex(decision["message"], r"^good\.test:\d+ is not on the allow list of policy main$")
        decision = gw.decision("denied.test")
        self.assertEqual(decision["rule"], "seen")
        self.assertRegex(decision["message"], r"^denied\.test:\d+ is denied by rule seen of policy main$")

    def test_a_report_rule_reports_alone(self):
        gw = self.gateway(allow=["*.test", "trial.example mode=report"], deny=["soft.test mode=report reason=\"later\"", "hard.test"])
        self.assert_verdicts(gw, {"soft.test:443": "allow", "hard.test:443": "denied-by-rule"})
        for target, word in (("soft.test:443", "later"), ("trial.example:443", "allow list")):
            explained = json.loads(self.tool("explain", "--json", "-c", gw.config_path, target)[0])
            self.assertEqual((explained["verdict"], explained["would"]), ("allow", "deny"))
            self.assertIn(word, explained["message"])

    def test_default_ask_is_refused_as_such(self):
        gw = self.gateway(policy="default = ask", allow=["good.test"])
        self.assert_verdicts(gw, {"good.test:443": "allow", "other.test:443": "ask-refused"})

    def test_default_allow_still_has_denials_and_the_guard(self):
        gw = self.gateway(policy="default = allow", deny=["bad.test"], allow_addresses=None,
                          names=self.name_server({"loop.test": ["127.0.0.1"]}))
        self.assert_verdicts(gw, {"bad.test:443": "denied-by-rule", "loop.test:443": "address-denied", "127.0.0.1:443": "address-denied",
                                  "any.test:9": "allow"})

    def test_inheritance_and_list_files(self):
        self.write("lists/allowed.txt", "# comment\n\none.test\n*.two.test:8443  \n")
        self.write("lists/denied.txt", "bad.two.test\n")
        gw = self.gateway(policy="inherit = base, other\nallow-file = lists/allowed.txt\ndeny-file = lists/denied.txt",
                          more="[policy base]\nallow = base.test\ndeny = never.test\n[policy other]\nallow = other.test\n never.test\n")
        self.assert_verdicts(gw, {"base.test:443": "allow", "other.test:80": "allow", "never.test:443": "denied-by-rule",
                                  "one.test:443": "allow", "a.two.test:8443": "allow", "bad.two.test:8443": "denied-by-rule"})
        body = self.assert_refused(gw.refused_connect("bad.two.test:8443"), 403, "denied-by-rule")
        self.assertEqual(body["rule"], "denied.txt:1")


if __name__ == "__main__":
    main()
