"""Documents that say what the code does are compared with the code."""

import os
import re
import subprocess
import sys

from lab import main
from lab.launch import LaunchCase, binary
from lab.talk import PATIENCE_S

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Docs(LaunchCase):
    def read(self, *parts):
        with open(os.path.join(ROOT, *parts), encoding="utf-8") as file:
            return file.read()

    def documents(self):
        for folder in ("", "docs", "bench"):
            directory = os.path.join(ROOT, folder)
            if os.path.isdir(directory):
                for name in sorted(os.listdir(directory)):
                    if name.endswith(".md"):
                        yield os.path.join(folder, name)

    def test_generated_tables_are_what_the_code_says(self):
        done = subprocess.run([sys.executable, os.path.join(ROOT, "docs", "generate"), "--check"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        self.assertEqual(done.returncode, 0, done.stdout.decode())

    def test_links_lead_somewhere(self):
        for document in self.documents():
            for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", self.read(document)):
                if "://" not in link:
                    with self.subTest(document=document, link=link):
                        self.assertTrue(os.path.exists(os.path.join(ROOT, os.path.dirname(document), link)))

    @staticmethod
    def anchors(text):
        """The names that headings get: lower case, spaces as dashes, without punctuation."""
        headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M), re.M)
        return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}

    def test_links_lead_to_headings_that_are_there(self):
        followed = 0
        for document in self.documents():
            for link, anchor in re.findall(r"\]\(([^)#:]*)#([^)]*)\)", self.read(document)):
                with self.subTest(document=document, link=f"{link}#{anchor}"):
                    target = os.path.join(os.path.dirname(document), link) if link else document
                    self.assertIn(anchor, self.anchors(self.read(target)))
                    followed += 1
        self.assertGreater(followed, 30)

    def test_no_page_is_further_than_two_clicks_from_the_readme(self):
        def linked(document):
            folder = os.path.dirname(document)
            return {os.path.normpath(os.path.join(folder, link)) for link in re.findall(r"\]\(([^)#:]+\.md)", self.read(document))}

        first = linked("README.md")
        second = set().union(*(linked(document) for document in first))
        self.assertLessEqual(set(self.documents()), {"README.md"} | first | second)

    def test_configurations_in_documents_are_valid(self):
        """Every ```ini block that has a [policy] and is not marked otherwise passes `check`."""
        checked = 0
        for document in self.documents():
            for number, block in enumerate(re.findall(r"```ini\n(.*?)```", self.read(document), re.S)):
                if "[policy" in block and "allow-file" not in block and "deny-file" not in block and "token-file" not in block:
                    with self.subTest(document=document, block=number):
                        self.check(block)
                        checked += 1
        self.assertGreater(checked, 0)

    def test_the_demonstration_is_as_it_should_be(self):
        """With a build directory that is named from where one stands, as people type it."""
        build = os.path.dirname(os.path.dirname(os.path.realpath(binary())))
        done = subprocess.run([os.path.join(ROOT, "packaging", "examples", "demo", "run"), os.path.basename(build)],
                              cwd=os.path.dirname(build), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, 0, done.stdout.decode())
        self.assertIn("all as it should be", done.stdout.decode())
        self.assertNotIn("gateway.log", done.stdout.decode())  # what is not there yet is waited for in silence

    def test_settings_in_documents_are_taken(self):
        checked = 0
        for document in self.documents():
            for number, block in enumerate(re.findall(r"```json\n(.*?)```", self.read(document), re.S)):
                if '"filesystem"' in block:
                    with self.subTest(document=document, block=number):
                        self.launch("--settings", self.write("documented.json", block), "--dry-run", "true", status=0)
                        checked += 1
        self.assertGreater(checked, 2)

    def test_every_key_of_a_built_in_filter_is_documented(self):
        page = self.read("docs", "filters.md")
        keys = 0
        for name in os.listdir(os.path.join(ROOT, "filters")):
            for key in re.findall(r'\{"([a-z-]+)", (?:true|false), take_', self.read("filters", name)):
                with self.subTest(file=name, key=key):
                    self.assertRegex(page, rf"`{key}[` ]")
                    keys += 1
        self.assertGreater(keys, 25)

    def test_every_option_is_documented_with_its_default(self):
        """A row of the page's table of that section: | `key`... | default | ..."""
        sections = dict(re.findall(r"(?ms)^### \[(\w+).*?\]$(.*?)(?=^##|\Z)", self.read("docs", "configuration.md")))
        options, _ = self.tool("options")
        for line in options.splitlines():
            section, key, default = re.match(r"\[(\w+)(?: NAME)?\]\s+(\S+)\s+(\S+)", line).groups()
            with self.subTest(section=section, key=key):
                rows = [row.split("|") for row in sections[section].splitlines() if row.startswith("|")]
                defaults = [row[2].strip().strip("`") for row in rows if f"`{key}`" in row[1]]
                self.assertEqual(defaults, ["" if default == "-" else default])
        self.assertGreater(len(options.splitlines()), 60)

    def test_every_option_of_the_launcher_is_documented(self):
        pages = self.read("docs", "launcher.md") + self.read("docs", "violations.md")
        options = re.findall(r"^  .{4}(--[a-z-]+)", self.launch("--help", status=0).out, re.M)
        self.assertGreater(len(options), 12)
        for option in options:
            with self.subTest(option=option):
                self.assertTrue(option in pages)

    def test_every_file_of_the_large_folders_has_its_place(self):
        page = self.read("docs", "architecture.md")
        for folder in ("launcher", "gateway/session", "gateway/control"):
            table = page.split(f"What is where in `{folder}/`")[1].split("\n\n")[1]
            named = set(re.findall(r"`([a-z0-9_]+)`", table))
            there = {ending: {name[:-2] for name in os.listdir(os.path.join(ROOT, folder)) if name.endswith(ending)} for ending in (".c", ".h")}
            with self.subTest(folder=folder):
                self.assertLessEqual(there[".c"], named)
                self.assertLessEqual(named, there[".c"] | there[".h"])

    def test_files_that_documents_name_exist(self):
        for document in ("README.md", os.path.join("docs", "architecture.md"), os.path.join("docs", "testing.md")):
            for path in re.findall(r"`((?:dns|config|filters|gateway|launcher|tests|include|docs|packaging|\.ci)/[\w./-]+)`",
                                   self.read(document)):
                with self.subTest(document=document, path=path):
                    base = os.path.join(ROOT, path)
                    self.assertTrue(any(os.path.exists(base + ending) for ending in ("", ".c", ".h")), path)


if __name__ == "__main__":
    main()
