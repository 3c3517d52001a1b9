"""For bench/policies.sh: the tables of a study as Markdown, a section for each run. Usage: policies_table.py STUDY_JSON"""
import json
import sys

from study import table


def plain(cell):
    """A number without a spread that is zero."""
    value, _, spread = cell.partition(" ± ")
    return value if not spread.strip("0.") else cell


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        study = json.load(file)
    for part in study["parts"]:
        for run in part["runs"]:
            columns = run["table"]
            if not columns:
                continue
            print(f"### `{run['run']}`")
            head = [c["title"].replace("_", " ") + (f", {c['unit']}" if c["unit"] else "") for c in columns]
            rows = [list(cells) for cells in zip(*(c["cells"] for c in columns))]
            table(head, [[f"`{name}`", *map(plain, rest)] for name, *rest in rows])


if __name__ == "__main__":
    main()
