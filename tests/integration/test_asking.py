"""srt-launch --ask tty: a user on a terminal answers for the sandbox, and what runs inside cannot interfere."""

import os
import pty
import re
import select
import signal
import termios
import time
import unittest

from lab import main
from lab.gateway import SANITIZER, environment
from lab.launch import LaunchCase, binary
from lab.talk import PATIENCE_S

# Asks for what its arguments name, one after the other, and says what came of it.
FETCH = r"""
import os, sys, urllib.request
for url in sys.argv[1:]:
    try:
        said = f"got {url} {urllib.request.urlopen(url, timeout=60).status}"
    except Exception as error:
        said = f"failed {url} {getattr(error, 'code', error)}"
    os.write(1, said.encode() + b"\n")
"""

RESET = "\x18\x1b\\\x1b[!p\x1b[0m"


class Terminal:
    """A session leader's terminal with srt-launch on it."""

    def __init__(self, arguments, cwd, env, before=()):
        self.seen, self.at, self.status = "", 0, None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            words = [*before, binary(), *arguments]
            os.execvpe(words[0], words, env)

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # Linux: the other end is closed
            return False
        self.seen += data.decode("utf-8", "replace")
        return bool(data)

    def expect(self, pattern):
        """What is shown from here on, up to the pattern."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := re.compile(pattern).search(self.seen, self.at)):
            if time.monotonic() > deadline or (not self.read(1) and self.ended()):
                raise AssertionError(f"no {pattern!r} in {self.seen[self.at:]!r}")
        self.at = found.end()
        return found

    def type(self, text):
        os.write(self.fd, text.encode())

    def answer(self, text):
        """As somebody who has read the question: typed again until it counts, which more than its echo shows."""
        if not self.seen.endswith("Enter: "):
            self.expect("Enter: ")
        before = len(self.seen)
        while not self.seen[before:].replace(text, "").strip():
            self.type(text + "\n")
            deadline = time.monotonic() + 0.4
            while time.monotonic() < deadline:
                self.read(0.05)

    def ended(self):
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid != 0:
                self.status = status
        return self.status is not None

    def finish(self):
        deadline = time.monotonic() + PATIENCE_S
        while not self.ended():
            self.read(0.05)
            if time.monotonic() > deadline:
                raise AssertionError(f"it does not end: {self.seen!r}")
        while self.read(0):
            pass
        return os.waitstatus_to_exitcode(self.status)

    def close(self):
        if not self.ended():
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


class AskingCase(LaunchCase):
    def setUp(self):
        super().setUp()
        self.write("fetch.py", FETCH)
        self.web = self.origin("web.test")
        self.gw = self.shared_gateway(policy="default = ask", hosts=[self.web, self.origin("two.test", address=self.web.address)],
                                      gateway="ask-timeout = 30s")

    def url(self, name="web.test", path="/"):
        return f"http://{name}:{self.web.port}{path}"

    def terminal(self, *command, options=(), before=(), env=None):
        settings = self.settings(allow=())
        made = Terminal(["-s", settings, "--gateway", self.gw.control, "--ask", "tty", *options, *command], self.work,
                        {**environment(), "HOME": self.home, "TERM": "xterm", **(env or {})}, before)
        self.addCleanup(made.close)
        self.addCleanup(lambda: self.assertIsNone(SANITIZER.search(made.seen), made.seen))
        return made

    def fetching(self, *urls, **how):
        return self.terminal("python3", self.path("fetch.py"), *urls, **how)


class Answers(AskingCase):
    def test_yes_is_once_and_always_is_for_the_sandbox(self):
        terminal = self.fetching(*[self.url()] * 4)
        terminal.expect(rf"asks for web\.test:{self.web.port} \(http, GET, policy main\)")
        terminal.answer("y")
        terminal.expect("got .* 200")
        terminal.expect("asks for web")
        terminal.answer("a")
        for _ in range(3):
            terminal.expect("got .* 200")
        self.assertEqual(terminal.finish(), 0)
        self.assertEqual(terminal.seen.count("asks for"), 2)
        record = self.gw.wait_for_record(lambda entry: entry["kind"] == "admin", number=2)
        self.assertEqual((record["by"], record["result"], record["until"]), ("launcher", "ok", None))

    def test_no_and_never_and_no_more(self):
        terminal = self.fetching(self.url(), self.url("two.test"), self.url("two.test"), self.url("three.test"), self.url("four.test"))
        terminal.expect("asks for web")
        terminal.answer("n")
        terminal.expect("failed .* 403")
        terminal.expect("asks for two")
        terminal.answer("d")
        terminal.expect("failed .* 403")
        terminal.expect("failed .* 403")
        terminal.expect("asks for three")
        terminal.answer("what?")
        terminal.expect("y, a, n, d or q")
        terminal.answer("q")
        terminal.expect("failed .* 403")
        terminal.expect("failed .* 403")
        self.assertEqual(terminal.finish(), 0)
        self.assertNotIn("asks for four", terminal.seen)
        self.assert_untouched(self.web)

    def test_a_private_gateway_asks_for_what_the_settings_leave_open(self):
        """Resolving the name then fails: what counts is that the answer decided."""
        settings = self.settings(allow=["yes.test"], deny=["no.test"])
        terminal = Terminal(["-s", settings, "--ask", "tty", "python3", self.path("fetch.py"), "http://no.test/", "http://open.invalid/",
                             "http://open.invalid/"], self.work, {**environment(), "HOME": self.home, "TERM": "xterm"})
        self.addCleanup(terminal.close)
        terminal.expect("failed http://no.test/ 403")
        terminal.expect(r"asks for open\.invalid:80")
        terminal.answer("n")
        terminal.expect("failed http://open.invalid/ 403")
        terminal.expect("asks for open")
        terminal.answer("y")
        terminal.expect("failed http://open.invalid/ 50[24]")
        self.assertEqual(terminal.finish(), 0)

    def test_the_settings_still_ask_what_the_policy_has_come_to_allow(self):
        terminal = self.fetching(self.url())
        terminal.expect("asks for web")
        with open(self.gw.config_path, encoding="utf-8") as file:
            config = file.read()
        self.gw.reload(config.replace("default = ask", f"default = ask\nallow = web.test:{self.web.port}"))
        terminal.answer("y")
        terminal.expect("got .* 200")
        self.assertEqual(terminal.finish(), 0)

    def test_a_question_that_has_its_answer_leaves_the_screen(self):
        terminal = self.terminal("sh", "-c", f"python3 {self.path('fetch.py')} {self.url()} & sleep 1; "
                                             f"kill $!; wait; echo end", options=("--settings", self.settings(allow=())))
        terminal.expect("asks for web")
        config = ""
        with open(self.gw.config_path, encoding="utf-8") as file:
            config = file.read()
        self.gw.reload(config.replace("default = ask", "default = ask\ndeny = web.test"))
        terminal.expect("it needs no answer any more")
        terminal.expect("end")
        self.assertEqual(terminal.finish(), 0)

    def test_it_needs_a_terminal_and_a_way_out(self):
        refused = self.launch("--ask", "tty", "-s", self.settings(), "--gateway", self.gw.control, "true", setsid=True)
        self.assertEqual(refused.status, 125)
        self.assertIn("--ask tty needs a terminal", refused.err)
        self.assertEqual(self.launch("--ask", "mail", "-s", self.settings(), "true").status, 125)
        self.assertEqual(self.launch("--ask", "tty", "--egress", "none", "-s", self.settings(), "true").status, 125)


class Hostile(AskingCase):
    def test_what_was_typed_before_the_question_is_no_answer(self):
        terminal = self.terminal("sh", "-c", f"echo ready; sleep 1; exec python3 {self.path('fetch.py')} {self.url()}")
        terminal.expect("ready")
        terminal.type("y\ny\ny\n")
        terminal.expect("asks for web")
        terminal.expect("Enter: ")
        terminal.type("y\n")  # so soon that it cannot be one
        terminal.expect("y\r\n")
        time.sleep(1)
        self.assertNotIn("got", terminal.seen)
        terminal.type("n\n")
        terminal.expect("failed .* 403")
        self.assertEqual(terminal.finish(), 0)

    def test_nothing_inside_writes_while_the_question_is_shown_and_all_goes_on_afterwards(self):
        """One that ignores what it can ignore, starts others all the time, and paints over the screen."""
        script = (f"trap '' TTOU HUP INT TERM CONT; ( while :; do printf '\\033[1;1Hpypi.org? '; ( : ) & wait; done ) & "
                  f"python3 {self.path('fetch.py')} {self.url()}; kill -9 $!; echo end")
        terminal = self.terminal("bash", "-c", script)
        terminal.expect("asks for web")
        terminal.expect("Enter: ")
        shown = len(terminal.seen)
        quiet = time.monotonic() + 1.5
        while time.monotonic() < quiet:
            terminal.read(0.1)
        self.assertEqual(terminal.seen[shown:], "")
        terminal.answer("y")
        terminal.expect("got .* 200")
        terminal.expect("end")
        self.assertEqual(terminal.finish(), 0)

    def test_the_screen_is_reset_and_the_terminal_is_as_it_was(self):
        """A raw terminal in the middle of a control string."""
        script = ("import termios, tty, sys, subprocess\n"
                  "tty.setraw(0)\nbefore = termios.tcgetattr(0)\n"
                  "sys.stdout.write('\\033]0;'); sys.stdout.flush()\n"
                  f"subprocess.run(['python3', {self.path('fetch.py')!r}, {self.url()!r}])\n"
                  "print('same' if termios.tcgetattr(0) == before else 'changed', 'end', end='\\r\\n')\n")
        terminal = self.terminal("python3", "-c", script)
        terminal.expect(re.escape(RESET) + r"\r\nsrt-launch: the sandbox asks for web")
        self.assertTrue(termios.tcgetattr(terminal.fd)[3] & termios.ICANON)
        terminal.answer("y")
        terminal.expect("same end")
        self.assertEqual(terminal.finish(), 0)

    def test_keys_that_send_signals_reach_nobody_and_are_no_answer(self):
        terminal = self.fetching(self.url())
        terminal.expect("asks for web")
        time.sleep(1)  # until what is typed counts
        terminal.type("\x03\x1a\x1c\n")
        terminal.expect("y, a, n, d or q")
        terminal.answer("y")
        terminal.expect("got .* 200")
        self.assertEqual(terminal.finish(), 0)

    def test_term_ends_it_also_while_a_question_is_shown(self):
        terminal = self.fetching(self.url())
        terminal.expect("asks for web")
        os.kill(terminal.pid, signal.SIGTERM)
        self.assertEqual(terminal.finish(), 128 + signal.SIGTERM)

    def test_a_death_of_the_launcher_leaves_nobody_held(self):
        terminal = self.terminal("sh", "-c", f"echo pid $$; exec python3 {self.path('fetch.py')} {self.url()}", options=("--name", "held"))
        terminal.expect("asks for web")
        os.kill(terminal.pid, signal.SIGKILL)
        self.gw.wait_for_record(lambda entry: entry["kind"] == "detach")
        self.gw.wait_for_record(lambda entry: entry["kind"] == "decision" and entry["reason"] == "ask-timeout")

    def test_a_launcher_in_the_background_does_not_take_the_terminal(self):
        """Job control: it asks when it is in the foreground again."""
        shell = Terminal.__new__(Terminal)
        shell.seen, shell.at, shell.status = "", 0, None
        shell.pid, shell.fd = pty.fork()
        if shell.pid == 0:
            os.chdir(self.work)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], {**environment(), "HOME": self.home, "PS1": "$ ", "TERM": "dumb"})
        self.addCleanup(shell.close)
        settings = self.settings(allow=())
        shell.type(f"{binary()} -s {settings} --gateway {self.gw.control} --ask tty python3 {self.path('fetch.py')} {self.url()} &\n")
        deadline = time.monotonic() + PATIENCE_S
        while not [entry for entry in self.gw.records("attach")]:
            self.assertLess(time.monotonic(), deadline)
            shell.read(0.05)
        shell.type("sleep 2; echo still mine $((40+2))\n")
        shell.expect("still mine 42")
        self.assertNotIn("asks for", shell.seen)
        shell.type("fg\n")
        shell.expect("asks for web")
        shell.answer("y")
        shell.expect("got .* 200")


if __name__ == "__main__":
    main()
