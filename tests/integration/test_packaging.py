"""What ships beside the programs is true: examples are valid, units name what exists."""

import configparser
import glob
import json
import os
import socket

from lab import LabCase, main

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def packaging(*parts):
    return os.path.join(ROOT, "packaging", *parts)


class Examples(LabCase):
    def test_configurations_pass_check_without_a_word(self):
        paths = sorted(glob.glob(packaging("examples", "*.ini")))
        self.assertGreaterEqual(len(paths), 2)
        for path in paths:
            with self.subTest(path=os.path.basename(path)):
                _, said = self.tool("check", "-c", path, "--strict")
                self.assertEqual(said, "")

    def test_the_demonstrations_configuration(self):
        with open(packaging("examples", "demo", "gateway.ini"), encoding="utf-8") as file:
            text = file.read()
        for mark, value in (("@DIR@", self.directory), ("@PORT@", "8080"), ("@UID@", "1000")):
            self.assertIn(mark, text)
            text = text.replace(mark, value)
        self.write("hosts", "")
        self.assertEqual(self.check(text), "")

    def test_settings_are_json_with_the_keys_of_srt(self):
        paths = sorted(glob.glob(packaging("examples", "**", "*.json"), recursive=True))
        self.assertGreaterEqual(len(paths), 3)
        for path in paths:
            with self.subTest(path=os.path.basename(path)), open(path, encoding="utf-8") as file:
                settings = json.load(file)
                self.assertLessEqual({"network", "filesystem"}, set(settings))

    def test_examples_do_what_they_say(self):
        path = packaging("examples", "fleet.ini")
        for policy, target, status in (("build", "pypi.org:443", 0), ("build", "pypi.org:80", 1), ("build", "203.0.113.9:443", 1),
                                       ("watch", "other.example:443", 0)):
            with self.subTest(target=target):
                self.tool("explain", "-c", path, "--policy", policy, target, status=status)
        # Denials of the company hold in what inherits it, also for names, and also where a team only watches.
        for address, status in (("198.51.100.7", 1), ("203.0.113.7", 1), ("151.101.0.223", 0)):
            out, _ = self.tool("explain", "--json", "-c", path, "--policy", "build", "--addr", address, "pypi.org:443", status=status)
            if status:
                self.assertRegex(json.loads(out)["rule"], r"^company:\d+$")
        self.tool("explain", "-c", path, "--policy", "build", "--addr", "10.20.1.1", "artifacts.corp.example:443")
        self.tool("explain", "-c", path, "--policy", "build", "--addr", "10.21.1.1", "artifacts.corp.example:443", status=1)


class Units(LabCase):
    def unit(self):
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        parser.optionxform = str
        parser.read(packaging("systemd", "srt-gateway.service"))
        return parser

    def test_the_service_says_ready_and_reloads_by_hup(self):
        service = self.unit()["Service"]
        self.assertEqual(service["Type"], "notify")
        self.assertIn("-HUP", service["ExecReload"])
        self.assertRegex(service["ExecStart"], r"srt-gateway run -c ")

    def test_its_directories_are_those_of_the_examples(self):
        service = self.unit()["Service"]
        with open(packaging("examples", "developer.ini"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn(f"/run/{service['RuntimeDirectory']}/control.sock", text)
        self.assertIn(f"/var/log/{service['LogsDirectory']}/audit.jsonl", text)

    def test_ready_is_said_to_whoever_waits(self):
        path = self.path("notify")
        waiting = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(waiting.close)
        waiting.bind(path)
        waiting.settimeout(20)
        self.gateway(allow=["good.test"], wrapper=["env", f"NOTIFY_SOCKET={path}"])
        self.assertIn(b"READY=1", waiting.recv(1000))


if __name__ == "__main__":
    main()
