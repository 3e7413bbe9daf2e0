"""Reads what a plan has for people: report.py report.html trace.json"""
import html.parser
import json
import sys

VOID = {"meta", "br", "input"}


class Page(html.parser.HTMLParser):
    """Elements that are closed in order; no resource from elsewhere."""

    def __init__(self):
        super().__init__()
        self.open, self.bars = [], 0

    def handle_starttag(self, tag, attributes):
        assert not {"src", "href"} & dict(attributes).keys(), f"{tag} refers to something else"
        self.bars += tag == "rect"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes another element"


page = Page()
with open(sys.argv[1]) as file:
    page.feed(file.read())
assert not page.open
with open(sys.argv[2]) as file:
    events = json.load(file)["traceEvents"]
launches = [event for event in events if event["ph"] == "X" and event.get("cat") == "launch"]
slices = [event for event in events if event["ph"] == "X" and event.get("cat") != "launch"]
begun = {event["id"]: event for event in events if event["ph"] == "s"}
ended = {event["id"]: event for event in events if event["ph"] == "f"}
assert begun.keys() == ended.keys()
for key, start in begun.items():
    assert start["pid"] != ended[key]["pid"] and start["ts"] < ended[key]["ts"]
for group in (slices, launches):
    for place in {(event["pid"], event["tid"]) for event in group}:
        row = sorted((event["ts"], event["ts"] + event["dur"]) for event in group if (event["pid"], event["tid"]) == place)
        assert all(end <= start + 1e-9 for (_, end), (start, _) in zip(row, row[1:])), "a stream does two things at once"
assert page.bars == len(slices)
print(f"{len(slices)} computations, {len(begun)} transfers")
