"""replay and learn against each other: what learn proposes is put into a configuration, and replay says what that changes."""

import json

from lab import LabCase, main


class LearningCase(LabCase):
    BASE = dict(allow=["good.test"], deny=["bad.test"], allow_addresses=None)

    def recorded(self, *targets, **parts):
        """The audit log of a gateway that was asked for each of them: host:port is a CONNECT, a URL a GET."""
        gw = self.gateway(**{**self.BASE, **parts})
        for target in targets:
            if "://" in target:
                gw.get(target)
            else:
                gw.refused_connect(target)
        gw.wait_for_record(lambda entry: entry["kind"] == "decision", number=len(targets))
        gw.stop()
        return gw.audit_path

    def learn(self, audit, *options):
        """(rules, comments)"""
        out, err = self.tool("learn", *options, audit)
        self.assertEqual(err, "")
        lines = out.splitlines()
        rules = [line for line in lines if not line.startswith("#")]
        for rule in rules:
            self.assertTrue(rule.startswith("allow = "), rule)
        return rules, [line for line in lines if line.startswith("#")]

    def taught(self, rules, **parts):
        parts = {**self.BASE, **parts}
        return self.write("taught.ini", self.config(**{**parts, "allow": [*parts["allow"], *(rule.removeprefix("allow = ") for rule in rules)]}))

    def replayed(self, config, audit):
        """{target: (was, verdict)} of what changed."""
        changed = {}
        out, err = self.tool("replay", "--json", "-c", config, audit, status=1)
        for line in out.splitlines():
            entry = json.loads(line)
            self.assertEqual(entry["policy"], "main")
            changed[entry["target"]] = (entry["was"], entry["verdict"])
        self.assertRegex(err, rf"{len(out.splitlines())} changed")
        return changed


class Learning(LearningCase):
    ASKED = ("good.test:443", "a.cdn.test:443", "b.cdn.test:443", "one.test:22", "one.test:2222", "pypi.org:443", "files.pypi.org:443",
             "me.github.io:443", "you.github.io:443", "a.co.uk:443", "b.co.uk:443", "single:443", "192.0.2.7:443", "[2001:db8::7]:8443",
             "http://plain.test/x")

    def test_what_it_proposes_allows_everything_that_was_denied_and_nothing_else_changes(self):
        audit = self.recorded(*self.ASKED)
        rules, comments = self.learn(audit)
        config = self.taught(rules)
        self.tool("check", "-c", config)
        changed = self.replayed(config, audit)
        denied = {"plain.test:80" if "://" in target else target for target in self.ASKED[1:]}
        literals = {"192.0.2.7:443", "[2001:db8::7]:8443"}
        self.assertEqual(set(changed) - literals, denied - literals)
        self.assertEqual(set(changed.values()), {("deny", "allow")})
        # Every line comes with the requests that it would have allowed.
        self.assertEqual(len(comments), len(rules))
        told = " ".join(comments)
        for target in denied:
            self.assertIn(target.rsplit(":", 1)[0], told)

    def test_its_rules_are_in_force_what_it_says(self):
        audit = self.recorded(*self.ASKED)
        config = self.taught(self.learn(audit)[0])
        for target in self.ASKED:
            with self.subTest(target=target):
                self.tool("explain", "-c", config, target)
        for target in ("other.test:443", "x.co.uk:443", "x.github.io:443", "one.test:443", "cdn.test:443", "a.cdn.test:22"):
            with self.subTest(target=target):
                self.tool("explain", "-c", config, target, status=1)

    def test_never_a_wildcard_over_a_suffix(self):
        audit = self.recorded(*self.ASKED)
        rules, _ = self.learn(audit)
        self.assertIn("allow = *.cdn.test", rules)
        self.assertEqual([rule for rule in rules if rule.startswith("allow = *")], ["allow = *.cdn.test"], rules)
        exact, _ = self.learn(audit, "--exact")
        self.assertEqual([rule for rule in exact if "*" in rule], [])
        self.assertGreater(len(exact), len(rules))

    def test_the_fewest_lines(self):
        audit = self.recorded(*[f"n{number}.cdn.test:443" for number in range(20)], *["n1.cdn.test:443"] * 5)
        rules, comments = self.learn(audit)
        self.assertEqual(rules, ["allow = *.cdn.test"])
        self.assertRegex(comments[0], r"^# 25 requests: n0\.cdn\.test .* and 12 more$")

    def test_what_no_line_can_lift_is_said(self):
        audit = self.recorded("bad.test:443", "private.test:443", allow=["good.test", "private.test"],
                              names=self.name_server({"private.test": ["10.1.2.3"]}))
        rules, comments = self.learn(audit)
        self.assertEqual(rules, [])
        self.assertEqual(len(comments), 2)
        self.assertRegex("\n".join(comments), r"bad\.test.*no allow line lifts that")
        self.assertRegex("\n".join(comments), r"private\.test.*10\.1\.2\.3")

    def test_a_method_that_was_denied_is_allowed_and_no_more(self):
        rules = {"allow": ["api.test:80 method=GET path=/v1/*"]}
        gw = self.gateway(**{**self.BASE, **rules})
        for method in ("PUT", "PUT", "X-1", "put"):
            with gw.client() as client:
                client.request(f"{method} http://api.test/v1/x HTTP/1.1")
                client.response()
        gw.wait_for_record(lambda entry: entry["reason"] == "method-not-allowed", number=4)
        gw.stop()
        proposed, comments = self.learn(gw.audit_path)
        self.assertEqual(proposed, ["allow = api.test method=PUT", "allow = api.test method=X-1"])
        self.assertEqual(comments[0], "# 2 requests: api.test method=PUT")
        self.assertRegex(comments[2], r"^# 1 not covered: api\.test:80: method-not-allowed: ")
        config = self.taught(proposed, **rules)
        for method, status in (("PUT", 0), ("X-1", 0), ("POST", 1), ("put", 1)):
            with self.subTest(method=method):
                self.tool("explain", "-c", config, "--method", method, "http://api.test/v1/x", status=status)
        self.tool("explain", "-c", config, "http://api.test/v2/x", status=1)

    def test_what_lifts_an_address_is_said_as_it_is(self):
        names = self.name_server({"private.test": ["10.1.2.3"], "ours.test": ["10.7.0.1"]})
        audit = self.recorded("private.test:443", "ours.test:443", allow=["private.test", "ours.test"], deny=["10.7.0.0/16 id=ours"], names=names)
        told = "\n".join(self.learn(audit)[1])
        self.assertRegex(told, r"private\.test:443 leads to 10\.1\.2\.3: only its rule's `to=10\.1\.2\.3` or `allow-addresses")
        self.assertRegex(told, r"ours\.test:443 leads to 10\.7\.0\.1 \(rule ours\): no allow line lifts that")
        lifted = self.write("lifted.ini", self.config(allow=["private.test to=10.1.2.3"], allow_addresses=None))
        self.tool("explain", "-c", lifted, "--addr", "10.1.2.3", "private.test:443")

    def test_nothing_denied_is_nothing_proposed(self):
        self.assertEqual(self.learn(self.recorded("good.test:443")), ([], []))

    def test_report_mode_teaches_as_well(self):
        audit = self.recorded("good.test:443", "new.test:443", "bad.test:443", policy="mode = report")
        rules, comments = self.learn(audit)
        self.assertEqual(rules, ["allow = new.test"])
        self.assertEqual(comments[0], "# 1 request: new.test")
        self.assertRegex(comments[1], r"^# 1 not covered: bad\.test:443: only reported, by rule main:\d+$")
        self.assertEqual(self.replayed(self.taught(rules), audit), {"new.test:443": ("deny", "allow")})


class Replaying(LearningCase):
    def test_both_directions_are_shown_and_the_status_says_whether_any(self):
        audit = self.recorded("good.test:443", "new.test:443", "bad.test:443", "same.test:443")
        config = self.write("other.ini", self.config(allow=["new.test"], deny=["bad.test"]))
        self.assertEqual(self.replayed(config, audit), {"good.test:443": ("allow", "deny"), "new.test:443": ("deny", "allow")})
        same = self.write("same.ini", self.config(**self.BASE))
        out, err = self.tool("replay", "-c", same, audit)
        self.assertEqual((out, err), ("", "4 judged, 0 changed, 0 passed over\n"))

    def test_addresses_are_judged_again(self):
        audit = self.recorded("lab.test:443", allow=["lab.test"], names=self.name_server({"lab.test": ["10.1.2.3"]}))
        config = self.write("other.ini", self.config(allow=["lab.test to=10.1.0.0/16"], allow_addresses=None))
        self.assertEqual(self.replayed(config, audit), {"lab.test:443": ("deny", "allow")})

    def test_another_policy_may_be_named(self):
        audit = self.recorded("good.test:443")
        config = self.write("other.ini", self.config(**self.BASE, more="[policy strict]\nallow = x.test\n"))
        out, _ = self.tool("replay", "-c", config, "--policy", "strict", audit, status=1)
        self.assertIn("good.test", out)
        self.tool("replay", "-c", config, "--policy", "nowhere", audit, status=64)

    def test_what_cannot_be_read_is_said(self):
        config = self.write("same.ini", self.config(**self.BASE))
        self.assertIn("missing.jsonl", self.tool("replay", "-c", config, self.path("missing.jsonl"), status=71)[1])
        self.assertIn("broken.ini:1", self.tool("replay", "-c", self.write("broken.ini", "[gatway]\n"), "x", status=78)[1])
        self.tool("replay", "-c", config, status=64)
        torn = self.write("torn.jsonl", '{"schema":"srt.audit/1","kind":"deci')
        self.assertIn("torn.jsonl", self.tool("replay", "-c", config, torn)[1])


if __name__ == "__main__":
    main()
